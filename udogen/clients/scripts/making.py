"""From what a person asks for to a plan: packages for every version of Hexagon, the model, inputs, references."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from udogen.clients.package import ANDROID, DEVICE_FOLDER, LINUX, PC
from udogen.clients.programs.ort import SCHEMA_NEEDED
from udogen.clients.scripts import chips, tensors
from udogen.clients.scripts.commands import Request, Runs, build_client
from udogen.clients.scripts.make_plan import for_the_run, libraries, packages_of, prepared, remote_of
from udogen.clients.scripts.options import Wanted, check_rules, client_of, forbidden, need_counts, refuse_options
from udogen.clients.scripts.plan import Check, File, Plan
from udogen.clients.scripts.tensors import Tensor
from udogen.errors import UsageError, open_plain
from udogen.qnn.system import GraphInfo

_LINUX_FOLDER = "/var/tmp/udogen"  # where anybody may write, and start programs
_TITLES = {"adb": "a device behind adb", "ssh": "a device behind ssh", "local": "this machine"}


def make_plan(wanted: Wanted) -> tuple[Plan, tuple[Tensor, ...]]:
    """Everything that the scripts do, and the references; reads files, writes none."""
    runs, client = client_of(wanted)
    found = packages_of(wanted)
    first = found[0][1]
    check_rules(client, first)
    refuse_options(wanted, runs, first)
    if wanted.prove:
        need_counts([each for _, packages in found for each in packages])
    remote = remote_of(wanted)
    moved = tuple(for_the_run(package, remote, wanted.client) for package in first)
    archs = tuple(arch for arch, _ in found if arch)
    inputs, references = tensors.read(wanted.inputs, "--input"), tensors.read(wanted.references, "--reference")
    model, kind = _model(wanted, runs)
    content: Path | bytes = model
    beside: tuple[File, ...] = ()
    if wanted.client == "ort":
        content, beside = prepared(model, first, wanted.rules)
    graph = None
    if kind == "context" and (inputs or references or wanted.client == "cpp"):
        graph = _graph(model, wanted, first[0].backend)
        faults = tensors.fit(graph, inputs, references, floats=wanted.client != "cpp")
        if faults:
            raise UsageError(
                f"{model}: {faults[0]}", details=faults[1:], hint="see `udogen inspect` of the context binary"
            )
    if graph:
        inputs, references = tensors.typed(graph.inputs, inputs), tensors.typed(graph.outputs, references)
    ask = Request(
        client=wanted.client,
        packages=moved,
        system=wanted.system,
        archs=archs,
        model=_model_name(model),
        kind=kind,
        inputs=inputs,
        references=references,
        samples=tensors.samples(inputs, references),
        signed=wanted.signed,
        graph=graph,
        program=build_client(wanted.system, on_step=wanted.on_step).read_bytes() if wanted.client == "cpp" else b"",
    )
    command = runs.command(ask)
    files = _files(
        [*libraries(found, ask), *command.files, File(f"models/{ask.model}", ask.model, content), *beside], ask
    )
    titled = "our client" if wanted.client == "cpp" else client.title
    plan = Plan(
        name=tensors.plain(f"{first[0].name}-{wanted.client}"),
        title=f"{', '.join(each.name for each in first)} with {titled} on {_TITLES[wanted.device]}",
        client=wanted.client,
        device=wanted.device,
        system=wanted.system,
        machine="x86_64" if wanted.system == PC else "aarch64",
        backend=ask.backend,
        label=ask.backend.upper(),
        archs=archs,
        remote=wanted.remote or {ANDROID: DEVICE_FOLDER, LINUX: _LINUX_FOLDER, PC: ""}[wanted.system],
        forbidden=forbidden(client, first),
        command=command,
        files=files,
        devices=wanted.devices,
        devices_refused=runs.no_devices or ("" if ask.hexagon else f"{ask.backend} is one device"),
        signed=wanted.signed,
        logcat=wanted.logcat or (wanted.prove and ask.hexagon),  # that is where Hexagon's counts are
        prove=tuple((each.name, op) for each in first for op in each.ops) if wanted.prove else (),
        root=runs.root,
        socs=tuple(sorted(chips.told().items())) if archs else (),
        checks=tuple(_checks(ask, runs, wanted)),
        notes=tuple(each for each in client.notes(first) if each != SCHEMA_NEEDED),  # `prepared` gave it one
    )
    return plan, references


# --- files --------------------------------------------------------------------------------------------------


def _files(rows: list[File], ask: Request) -> tuple[File, ...]:
    for each in ask.inputs:
        name = f"inputs/{each.sample}/{each.file}"
        rows.append(File(name, name, each.content))
    taken: dict[tuple[str, str], File] = {}
    for row in rows:
        for arch in (row.arch, ""):
            other = taken.get((arch, row.name))
            if other is not None and other.content != row.content:
                raise UsageError(
                    f"two files would be {row.name} in one folder: {other.source} and {row.source}",
                    hint="rename the library of one package, or generate them as one package",
                )
        taken[row.arch, row.name] = row
    return tuple(replace(row, key=_key(row.content)) for row in rows)


def _key(content: bytes | Path) -> str:
    digest = hashlib.sha256()
    if isinstance(content, bytes):
        digest.update(content)
        return digest.hexdigest()[:32]
    try:
        with open_plain(content) as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    except OSError as fault:
        raise UsageError(f"{content} cannot be read: {fault.strerror}", hint="give a file that is there") from fault
    return digest.hexdigest()[:32]


# --- the model, and what it answers -------------------------------------------------------------------------


def _model(wanted: Wanted, runs: Runs) -> tuple[Path, str]:
    given = [(path, kind) for path, kind in ((wanted.model, "model"), (wanted.context, "context")) if path is not None]
    options = " or ".join(f"--{kind} FILE" for kind in runs.models)
    if not given:
        raise UsageError(f"{wanted.client} needs {options}", hint=_HOW_TO_CONTEXT if "context" in runs.models else "")
    if len(given) > 1:
        raise UsageError("--model and --context are two things to run", hint="leave one of them out")
    [(path, kind)] = given
    if kind not in runs.models:
        raise UsageError(f"{wanted.client} takes {options}, not --{kind}", hint="see udogen script --help")
    if not path.is_file():
        raise UsageError(
            f"there is no file {path}", hint=f"give the {'context binary' if kind == 'context' else 'model'}"
        )
    return path, kind


_HOW_TO_CONTEXT = "`udogen run op PACKAGE OP --input … --save-context FILE` makes a context binary"


def _model_name(path: Path) -> str:
    return f"model{path.suffix if re.fullmatch(r'[.][A-Za-z0-9]+', path.suffix) else '.bin'}"


def _graph(path: Path, wanted: Wanted, backend: str) -> GraphInfo:
    from udogen.qnn import system
    from udogen.runtime.contexts.binaries import StoredContext

    with StoredContext(path, on_step=wanted.on_step, warn=False) as binary:
        info = binary.info
    of = system.BACKENDS_BY_ID.get(info.backend_id, backend)
    if of != backend:
        raise UsageError(f"{path} was made by the {of} backend, the packages are for {backend}", hint=f"--target {of}")
    if wanted.graph:
        return info.graph(wanted.graph)
    if len(info.graphs) != 1:
        names = ", ".join(each.name for each in info.graphs)
        raise UsageError(f"{path} has {len(info.graphs)} graphs: {names}", hint="choose one with --graph")
    return info.graphs[0]


def _checks(ask: Request, runs: Runs, wanted: Wanted) -> Iterator[Check]:
    qnn = {each.name: each.dtype for each in ask.graph.outputs} if ask.graph else {}
    for each in ask.references:
        assert runs.output is not None
        dtype = each.dtype or "float32"
        absolute, relative = wanted.tolerance or tensors.tolerance(dtype, qnn.get(each.name, ""))
        reference = f"references/{each.sample}/{each.file}"
        yield Check(each.sample, each.name, runs.output(ask, each), reference, dtype, absolute, relative)
