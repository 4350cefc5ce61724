"""From what a person asks for to a plan: packages for every version of Hexagon, the model, inputs, references."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from udogen.build import architectures
from udogen.build.package import open_packages
from udogen.clients import programs
from udogen.clients.client import Client, check
from udogen.clients.package import ANDROID, DEVICE_FOLDER, LINUX, PC, Package, Wish, find_packages
from udogen.clients.programs import snpe
from udogen.clients.scripts import chips, commands, tensors
from udogen.clients.scripts.client import build_client
from udogen.clients.scripts.commands import Request, Runs
from udogen.clients.scripts.marks import RUN
from udogen.clients.scripts.plan import Check, Command, File, Plan
from udogen.clients.scripts.tensors import Tensor
from udogen.errors import RunFailed, UsageError
from udogen.qnn.system import GraphInfo

DEVICES = ("adb", "ssh", "local")
_ALWAYS = ":;\n"  # of LD_LIBRARY_PATH (glibc takes both), of ADSP_LIBRARY_PATH, of our own lists
_SEPARATORS = ',:;"\n'
_TITLES = {"adb": "a device behind adb", "ssh": "a device behind ssh", "local": "this machine"}


@dataclass(frozen=True)
class Wanted:
    """What a person asked for."""

    paths: tuple[Path, ...]
    client: str
    device: str
    target: str = ""
    linux: bool = False  # behind adb
    ops: tuple[str, ...] = ()
    model: Path | None = None
    context: Path | None = None
    graph: str = ""
    inputs: tuple[tuple[str, str], ...] = ()
    references: tuple[tuple[str, str], ...] = ()
    tolerance: tuple[float, float] | None = None
    devices: int = 1
    signed: bool = False
    logcat: bool = False
    prove: bool = False
    remote: str = ""
    on_step: Callable[[str], None] = field(default=lambda _line: None)

    @property
    def system(self) -> str:
        """Where the client runs."""
        if self.device == "local":
            return PC
        return ANDROID if self.device == "adb" and not self.linux else LINUX


def make_plan(wanted: Wanted) -> tuple[Plan, tuple[Tensor, ...]]:
    """Everything that the scripts do, and the references; reads files, writes none."""
    runs, client = _client_of(wanted)
    found = _packages(wanted)
    first = found[0][1]
    check(client, first)
    _refuse_options(wanted, runs, first)
    remote = _remote(wanted, client)
    moved = tuple(_moved(package, remote, wanted.client) for package in first)
    archs = tuple(arch for arch, _ in found if arch)
    inputs, references = tensors.read(wanted.inputs, "--input"), tensors.read(wanted.references, "--reference")
    model, kind = _model(wanted, runs)
    graph = None
    if kind == "context" and (inputs or references or wanted.client == "cpp"):
        graph = _graph(model, wanted, first[0].backend)
        faults = tensors.fit(graph, inputs, references)
        if faults:
            raise UsageError(
                f"{model}: {faults[0]}", details=faults[1:], hint="see `udogen inspect` of the context binary"
            )
    if graph:
        types = {each.name: tensors.storage(each.dtype)[-1] for each in (*graph.inputs, *graph.outputs)}
        inputs, references = (
            tuple(replace(each, dtype=each.dtype or types[each.name]) for each in side) for side in (inputs, references)
        )
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
    files = _files(found, ask, model, command)
    plan = Plan(
        name=_slug(f"{first[0].name}-{wanted.client}"),
        title=f"{', '.join(each.name for each in first)} with {client.title} on {_TITLES[wanted.device]}",
        client=wanted.client,
        device=wanted.device,
        system=wanted.system,
        machine="x86_64" if wanted.system == PC else "aarch64",
        backend=ask.backend,
        label=ask.backend.upper(),
        archs=archs,
        remote=wanted.remote or ("" if wanted.device == "local" else DEVICE_FOLDER),
        forbidden=_forbidden(client, first),
        command=command,
        files=files,
        devices=wanted.devices,
        devices_refused=runs.no_devices or ("" if ask.hexagon else f"{ask.backend} of this machine is one device"),
        signed=wanted.signed,
        logcat=wanted.logcat,
        prove=tuple((each.name, op) for each in first for op in each.ops) if wanted.prove else (),
        root=runs.root,
        socs=tuple(sorted(chips.told().items())) if archs else (),
        checks=tuple(_checks(ask, runs, wanted)),
        notes=tuple(client.notes(first)),
    )
    return plan, references


# --- what a client cannot do --------------------------------------------------------------------------------


def _client_of(wanted: Wanted) -> tuple[Runs, Client]:
    client = programs.ALL[wanted.client]
    if wanted.client in commands.NO_COMMAND:
        why, instead = commands.NO_COMMAND[wanted.client]
        raise UsageError(f"no script for {client.title}: {why}", hint=f"--client {instead}; or `udogen register`")
    if wanted.client not in commands.ALL:  # the client's own rules say why
        check(client, find_packages(wanted.paths, Wish(wanted.target, ops=wanted.ops)))
        raise UsageError(f"no script for {client.title}", hint="one of " + ", ".join(commands.ALL))
    return commands.ALL[wanted.client], client


def _refuse_options(wanted: Wanted, runs: Runs, packages: Sequence[Package]) -> None:
    hexagon = packages[0].backend == "htp" and wanted.system != PC
    faults = []
    if wanted.devices > 1 and not hexagon:
        faults.append("--devices is for several HTP devices: HTP on a device behind adb or ssh")
    elif wanted.devices > 1 and runs.no_devices:
        faults.append(f"{wanted.client} takes no --devices: {runs.no_devices}")
    if wanted.signed and not (runs.signs and hexagon):
        can = ", ".join(name for name, row in commands.ALL.items() if row.signs)
        faults.append(f"--signed-pd is for HTP on a device, with {can}")
    if wanted.references and runs.output is None:
        faults.append(f"{wanted.client} writes no outputs that could be compared: leave --reference out")
    if wanted.logcat and wanted.device == "local":
        faults.append("--logcat is for devices")
    if wanted.linux and wanted.device != "adb":
        faults.append("--linux is for devices behind adb; those behind ssh have Linux")
    if wanted.graph and wanted.context is None:
        faults.append("--graph chooses among the graphs of --context")
    if wanted.client == "ort" and wanted.system == ANDROID:
        faults.append("ONNX Runtime is run in Python, which Android has not: use --device ssh, or adb with --linux")
    if faults:
        raise UsageError(faults[0], details=faults[1:], hint="see udogen script --help")


def _forbidden(client: Client, packages: Sequence[Package]) -> str:
    """The characters that the client's own rules refuse in a path, for the folder is known when the script runs."""
    rules = [rule for rule in client.rules if rule.id == "separators"]
    found = [
        char
        for char in _SEPARATORS
        if any(True for rule in rules for _ in rule.broken([_below(each, f"/{char}") for each in packages]))
    ]
    return "".join(char for char in _SEPARATORS if char in found or char in _ALWAYS)


# --- packages -----------------------------------------------------------------------------------------------


def _packages(wanted: Wanted) -> list[tuple[str, tuple[Package, ...]]]:
    """(version of Hexagon, packages for it); of other backends one row, without a version."""
    if wanted.system == PC:
        if re.fullmatch(r"v\d+", wanted.target):
            raise UsageError(f"--target {wanted.target} is a device", hint="--target htp is Qualcomm's HTP on this PC")
        return [("", find_packages(wanted.paths, Wish(wanted.target, ops=wanted.ops)))]
    android = wanted.system == ANDROID
    target = wanted.target or _only_backend(wanted.paths)
    wish = Wish(android=android, ops=wanted.ops, folder=wanted.remote)
    if target in ("cpu", "gpu"):
        target = f"{target}_{'android' if android else 'aarch64'}"
    if target != "htp":
        found = find_packages(wanted.paths, replace(wish, target=target))
        return [(found[0].place.arch, found)]
    built, faults = [], []
    for arch in architectures.of_backend("htp"):
        try:
            built.append((arch, find_packages(wanted.paths, replace(wish, target=arch))))
        except RunFailed as fault:
            faults.append(fault)
    if not built:
        raise faults[0]
    return built


def _only_backend(paths: Sequence[Path]) -> str:
    folders = [path for path in paths if path.is_dir()]
    found = {each.backend for path in folders for each in open_packages(path)} & {"cpu", "gpu", "htp"}
    if len(found) == 1:
        return found.pop()
    raise UsageError(
        "for which backend is not clear" + (f": there are {', '.join(sorted(found))}" if found else ""),
        hint="--target cpu, gpu, htp (every version of Hexagon that is built) or v75",
    )


def _below(package: Package, folder: str) -> Package:
    """The package as its client sees it, in another folder."""
    libraries = tuple(
        each if each.hexagon else replace(each, path=f"{folder}/{each.name}") for each in package.libraries
    )
    registration = package.registration
    if registration is not None and not package.place.device:
        registration = Path(f"{folder}/{registration.name}")
    return replace(package, libraries=libraries, folder=folder, registration=registration)


def _moved(package: Package, remote: str, client: str) -> Package:
    """In the folder of the run; for ExecuTorch where the model says."""
    return (
        _below(package, package.folder or f"{remote}/{package.name}")
        if client == "executorch"
        else _below(package, RUN)
    )


def _remote(wanted: Wanted, client: Client) -> str:
    if not wanted.remote:
        return DEVICE_FOLDER
    if not PurePosixPath(wanted.remote).is_absolute():
        raise UsageError(f"--folder {wanted.remote} is not an absolute path", hint=f"as in {DEVICE_FOLDER}")
    return wanted.remote.rstrip("/") or "/"


# --- files --------------------------------------------------------------------------------------------------


def _files(
    found: Sequence[tuple[str, tuple[Package, ...]]], ask: Request, model: Path, command: Command
) -> tuple[File, ...]:
    rows = [*_libraries(found, ask), *command.files]
    rows.append(File(f"models/{ask.model}", ask.model, _content(model)))
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


def _libraries(found: Sequence[tuple[str, tuple[Package, ...]]], ask: Request) -> Iterator[File]:
    machine = "x86_64" if ask.system == PC else "aarch64"
    seen = set()
    for arch, packages in found:
        for package in packages:
            for file, name, hexagon in _of_package(package, ask):
                below = arch if hexagon else machine
                if (below, name) not in seen:
                    seen.add((below, name))
                    yield File(f"libs/{below}/{_slug(file.name)}", name, _content(file), arch=arch if hexagon else "")


def _of_package(package: Package, ask: Request) -> Iterator[tuple[Path, str, bool]]:
    """(file, its name on the device, whether Hexagon loads it)."""
    if ask.client.startswith("snpe-"):
        for file, name in snpe.device_files(package):
            yield file, name, name.startswith(f"{snpe.DSP_FOLDER}/")
        return
    for each in package.libraries:
        folder = f"{package.folder or DEVICE_FOLDER}/" if ask.client == "executorch" else ""
        yield each.file, f"{folder}{each.name}", each.hexagon


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise UsageError(f"{path} cannot be read: {fault.strerror}", hint="give a file that is there") from fault


def _key(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _slug(text: str) -> str:
    return tensors.plain(text)


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

    with StoredContext(path, on_step=wanted.on_step) as binary:
        info = binary.info
    of = system.BACKENDS.get(info.backend_id, backend)
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
