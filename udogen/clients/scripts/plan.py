"""What a script does, as plain data: what goes to the device, what runs there, what comes back and is compared."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from udogen.clients.scripts.marks import readable

FORMAT = 1


@dataclass(frozen=True)
class File:
    """Something of the script's folder that the client finds in the folder of its run."""

    source: str  # below the script's folder
    name: str  # below the folder of the run; an absolute path where the client insists on one
    content: bytes | Path  # a model stays where it is until it is copied
    arch: str = ""  # only where Hexagon is of this version
    program: bool = False
    key: str = ""  # of its content

    @property
    def size(self) -> int:
        """In bytes."""
        return self.content.stat().st_size if isinstance(self.content, Path) else len(self.content)


@dataclass(frozen=True)
class Vendor:
    """Something of the vendor's, which is never copied into a script: found when it runs, here or on the device."""

    name: str
    folders: tuple[str, ...]  # below the root of the SDK, the first that has it
    arch: str = ""
    needed: bool = True
    program: bool = False


@dataclass(frozen=True)
class Check:
    """One output that is compared."""

    sample: int
    name: str
    output: str  # below the folder of outputs
    reference: str  # below the script's folder
    dtype: str  # of both: numpy's word
    absolute: float
    relative: float


@dataclass(frozen=True)
class Command:
    """What a client is called with; words may hold the marks of `marks`."""

    words: tuple[str, ...]
    files: tuple[File, ...] = ()
    vendors: tuple[Vendor, ...] = ()
    extensions: bool = False  # it takes a JSON config of the backend with the device's number
    dsp_folders: tuple[str, ...] = ()  # below the folder of the run, before it


@dataclass(frozen=True)
class Plan:
    """Everything that the scripts of one folder know."""

    name: str  # of the script's folder on the device
    title: str
    client: str
    device: str  # adb, ssh or local
    system: str  # android, linux or pc
    machine: str  # what `uname -m` says there
    backend: str
    label: str  # of a run, before its number: HTP0
    archs: tuple[str, ...]  # of Hexagon, that the folder has libraries for
    remote: str  # where things go on the device; empty: below the script's folder
    forbidden: str  # what the client's options cannot have in a path
    command: Command
    files: tuple[File, ...]
    devices: int
    devices_refused: str  # why the client cannot be told which HTP to take; empty where it can
    signed: bool
    logcat: bool
    prove: tuple[tuple[str, str], ...]  # package, op
    root: str  # the variable that names the vendor's SDK
    socs: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()


def as_json(plan: Plan) -> dict[str, Any]:
    """The manifest in the script's folder; run.py reads it."""
    bare = replace(plan, files=tuple(replace(file, content=b"") for file in plan.files))
    found = asdict(bare)
    del found["command"]
    for row, file in zip(found["files"], plan.files, strict=True):
        del row["content"]
        row["size"] = file.size
    return {
        "udogen_script": FORMAT,
        **found,
        "command": [readable(word) for word in plan.command.words],
        "socs": dict(plan.socs),
        "vendors": [asdict(each) for each in plan.command.vendors],
    }
