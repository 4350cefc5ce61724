"""The plan of a script: files for the device, the command that runs there, outputs to compare; and its folder."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from udogen import backends, resources
from udogen.backends.plan import PlannedFile
from udogen.clients.package import DEVICE_FOLDER
from udogen.clients.scripts.tensors import TensorData
from udogen.clients.snippets import dsp_path
from udogen.errors import UsageError, read_plain, writing

FORMAT = 1

# Placeholders in the words of a command, for what is known only on the device.  They consist of characters that no
# generated name has, so no part of a path looks like one.
RUN = "/\ue000run\ue001"  # the folder of the run; it begins with `/`, because clients require an absolute path
OUT = "\ue000out\ue001"
_PLACEHOLDER = re.compile("/?\ue000([a-z]+)\ue001")


def as_shell(word: str) -> str:
    """A word in the syntax of device.sh: `"$run"/libs/x.so`."""
    parts = _PLACEHOLDER.split(word)
    texts = [shlex.quote(part) if part else "" for part in parts[::2]]
    variables = [f'"${name}"' for name in parts[1::2]]
    shell = "".join(text + variable for text, variable in zip(texts, [*variables, ""], strict=True))
    return shell or "''"


_SSH = re.compile(
    r"(?P<user>[A-Za-z0-9_][\w.+-]*@)?(?P<host>[A-Za-z0-9_][\w.-]*|\[[0-9A-Fa-f:]+\])(?::(?P<port>\d{1,5}))?"
)
_SSH_OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=4")


class Device(NamedTuple):
    """A device as `--on` names it."""

    name: str
    kind: str  # ssh, adb or local
    connection: tuple[str, ...]  # the command that reaches it

    @property
    def folder(self) -> str:
        """The folder for scripts: every user may write and execute files there; empty: below the script's folder."""
        return {"adb": DEVICE_FOLDER, "ssh": "/var/tmp/udogen", "local": ""}[self.kind]

    @classmethod
    def parse(cls, text: str) -> Device:
        """Parse the name of a device strictly, so that none of its parts can become a shell word or an option."""
        kind, colon, rest = text.partition(":")
        if kind == "adb" and (not colon or (rest and rest.isprintable() and not rest.startswith("-"))):
            return cls(text, kind, ("adb", "-s", rest) if rest else ("adb",))
        found = _SSH.fullmatch(rest) if kind == "ssh" else None
        if found is None:
            raise UsageError(
                f"--on {text}: this is not a device",
                hint="--on ssh:USER@HOST, ssh:USER@HOST:PORT, adb (the only one) or adb:SERIAL",
            )
        options = [word for ssh_option in _SSH_OPTIONS for word in ("-o", ssh_option)]
        port = ["-p", found["port"]] if found["port"] else []
        return cls(text, kind, ("ssh", *options, *port, (found["user"] or "") + found["host"].strip("[]")))


HERE = Device("this machine", "local", ())


def machine_of(system: str) -> str:
    """The processor of a system, as `uname -m` prints it; empty if any fits."""
    return {"": "", "pc": "x86_64"}.get(system, "aarch64")


@dataclass(frozen=True)
class ScriptFile:
    """A file in the script's folder that the client finds in the folder of its run."""

    source: str  # below the script's folder
    name: str  # below the folder of the run; an absolute path if the client requires one
    content: bytes | Path  # a Path for libraries and models, which are read only when they are copied


@dataclass(frozen=True)
class VendorFile:
    """A file of the vendor, never copied into a script: found at run time, on this machine or the device."""

    name: str
    folders: tuple[str, ...]  # below the root of the SDK, in order of preference
    needed: bool = True


@dataclass(frozen=True)
class OutputCheck:
    """One output that is compared."""

    name: str
    output: str  # below the folder of outputs
    reference: str  # below the script's folder
    dtype: str  # of both, a numpy name
    absolute: float
    relative: float


@dataclass(frozen=True)
class Command:
    """The command line of a client; words may contain placeholders."""

    words: tuple[str, ...]
    files: tuple[ScriptFile, ...] = ()
    vendors: tuple[VendorFile, ...] = ()
    extensions: bool = False  # it accepts a JSON config of the backend
    dsp_folders: tuple[str, ...] = ()  # below the folder of the run, which is searched after them


@dataclass(frozen=True)
class ScriptPlan:
    """Everything that the scripts of one folder do."""

    name: str  # of the script's folder on the device
    title: str
    client: str
    device: str  # adb, ssh or local
    connection: tuple[str, ...]  # the command that reaches it
    remote: str  # folder on the device; empty: below the script's folder
    system: str = ""  # android, linux or pc
    backend: str = ""
    arch: str = ""  # the Hexagon version that the libraries are for
    forbidden: str = ""  # characters that the client's options cannot have in a path
    command: Command = Command(())
    files: tuple[ScriptFile, ...] = ()
    root: str = "QNN_SDK_ROOT"  # the environment variable of the vendor's SDK
    socs: tuple[tuple[str, str], ...] = ()  # name that a device reports, Hexagon version
    checks: tuple[OutputCheck, ...] = ()
    notes: tuple[str, ...] = ()
    cases: bool = False  # whether the client is run in each folder of cases.tar

    def as_json(self) -> dict[str, Any]:
        """The manifest in the script's folder, which run.py reads."""
        facts = asdict(replace(self, files=(), command=Command(())))
        del facts["command"]
        return {
            "udogen_script": FORMAT,
            **facts,
            "files": [{"source": file.source, "name": file.name} for file in self.files],
            "machine": machine_of(self.system),
            "socs": dict(self.socs),
            "vendors": [asdict(vendor) for vendor in self.command.vendors],
        }


MANIFEST = "plan.json"
_RUNNABLE = ("run.py", "device.sh")
_FOREIGN = "choose an empty folder, or one that `udogen script` wrote"


def script_files(plan: ScriptPlan, references: Sequence[TensorData] = ()) -> dict[str, bytes | Path]:
    """Path in the folder -> content, for all files of the script."""
    device_sh = PlannedFile("device.sh", template="scripts/device.sh.mako", data=_template_data(plan)).render()
    manifest = json.dumps(plan.as_json(), indent=2, ensure_ascii=False) + "\n"
    return {
        **{file.source: file.content for file in plan.files},
        **{f"references/{reference.file}": reference.content for reference in references},
        "device.sh": _tidy(device_sh),
        "run.py": _run_py(),
        MANIFEST: manifest.encode("utf-8", "surrogateescape"),
    }


def probe_files(plan: ScriptPlan) -> dict[str, bytes | Path]:
    """The files that `run.py --probe` needs."""
    manifest = json.dumps(replace(plan, files=()).as_json()) + "\n"
    return {"run.py": _run_py(), MANIFEST: manifest.encode("utf-8", "surrogateescape")}


def _run_py() -> bytes:
    return (resources.templates() / "scripts" / "run.py.in").read_bytes()


def _tidy(text: bytes) -> bytes:
    """The text without the empty lines left by tags of templates."""
    return re.sub(rb"\n{3,}", b"\n\n", text).strip(b"\n") + b"\n"


def _template_data(plan: ScriptPlan) -> dict[str, object]:
    """The variables of device.sh: quoted texts, and flags."""
    dsp = backends.ALL[plan.backend].two_halves and plan.system != "pc"
    folders = [*(f"{RUN}/{dsp_folder}" for dsp_folder in plan.command.dsp_folders), RUN]
    return {
        "title": " ".join(plan.title.split()),
        "dsp": dsp,
        "dsp_path": as_shell(dsp_path(folders, plan.system)) if dsp else "''",
        "words": " ".join(as_shell(word) for word in plan.command.words),
        "extensions": plan.command.extensions,
        "arch": plan.arch,
        "cases": plan.cases,
    }


def write_script(folder: Path, rendered: Mapping[str, bytes | Path]) -> None:
    """Write all files; outputs and other files stay."""
    _check_folder(folder)
    with writing(folder, hint="choose another folder with -o"):
        for path, content in rendered.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh = target.with_name(f".{target.name}.new")
            if isinstance(content, Path):
                shutil.copyfile(content, fresh)
            else:
                fresh.write_bytes(content)
            fresh.chmod(0o755 if path in _RUNNABLE or path.startswith("bin/") else 0o644)
            fresh.replace(target)


def _check_folder(folder: Path) -> None:
    """Raise for a folder with files of others."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a folder", hint="choose another folder with -o")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    try:
        if "udogen_script" in json.loads(read_plain(folder / MANIFEST)):
            return
    except (OSError, ValueError, TypeError, RecursionError):
        pass
    raise UsageError(f"{folder} has files that `udogen script` did not write", hint=_FOREIGN)
