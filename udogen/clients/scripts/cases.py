"""Scripts for many cases on one device: udogen's client runs each case in a separate process."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from udogen.clients.package import ANDROID, LINUX
from udogen.clients.scripts import commands
from udogen.clients.scripts.commands import ClientRun, build_own_client
from udogen.clients.scripts.make_plan import (
    FORBIDDEN,
    REMOTE,
    Built,
    hexagon_versions,
    in_folder,
    library_files,
    with_keys,
)
from udogen.clients.scripts.plan import RUN, ScriptFile, ScriptPlan
from udogen.clients.scripts.tensors import file_name
from udogen.qnn.system import GraphInfo

_CASE_LOOPS = 2  # outputs of the second execution reveal state that an op keeps from the first


@dataclass(frozen=True)
class CaseFiles:
    """One case: a graph, and its inputs by the names of its tensors."""

    name: str  # of its folder
    context: bytes
    graph: GraphInfo
    inputs: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class CaseScript:
    """The common part of scripts for cases of one package."""

    name: str  # of its folder on the device
    device: str  # ssh or adb
    system: str
    built: Built
    seconds: int  # of a case
    on_step: Callable[[str], None] = lambda _line: None


def make_case_plan(script: CaseScript, cases: Sequence[CaseFiles] = ()) -> ScriptPlan:
    """A plan in which udogen's client runs each case in a separate process; the caller compares the fetched outputs."""
    arch, packages = script.built
    run = ClientRun(
        client="cpp",
        packages=tuple(in_folder(each, RUN) for each in packages),
        system=script.system,
        archs=(arch,) if arch else (),
        model="model.bin",
        kind="context",
        inputs=(),
        references=(),
        samples=1,
        signed=False,
        program=build_own_client(script.system, on_step=script.on_step).read_bytes(),
        loops=_CASE_LOOPS,
        seconds=script.seconds,
    )
    command = commands.ALL["cpp"].command(run)
    files = [
        *library_files([script.built], run),
        *command.files,
        ScriptFile("cases.tar", "cases.tar", _archive(cases)),
    ]
    return replace(
        make_probe_plan(script.device),
        name=script.name,
        system=script.system,
        backend=run.backend,
        archs=run.archs,
        forbidden=FORBIDDEN,
        command=command,
        files=with_keys(files),
        cases=max(len(cases), 1),
    )


def make_probe_plan(device: str) -> ScriptPlan:
    """A plan for any device, for `run.py --probe`."""
    return ScriptPlan(
        name="probe",
        title="cases of `udogen test`",
        client="cpp",
        device=device,
        remote=REMOTE[ANDROID if device == "adb" else LINUX],
        socs=tuple(sorted(hexagon_versions().items())),
    )


def _archive(cases: Sequence[CaseFiles]) -> bytes:
    """All cases as one tar file, because sending many files is slow."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for case in cases:
            files = {"model.bin": case.context, "graph.txt": commands.graph_text(case.graph)}
            files |= {f"inputs/0/{file_name(name)}.raw": data for name, data in case.inputs}
            for name, data in files.items():
                entry = tarfile.TarInfo(f"cases/{case.name}/{name}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
