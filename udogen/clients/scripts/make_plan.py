"""Makes the plan of a script from its options: packages for each Hexagon version, model, inputs, references."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from udogen import backends, resources
from udogen.backends import architectures
from udogen.build.package import open_packages
from udogen.build.tools import environment
from udogen.clients import programs
from udogen.clients.client import Client, check_rules
from udogen.clients.package import (
    ANDROID,
    DEVICE_FOLDER,
    LINUX,
    PC,
    Package,
    PackageNotBuilt,
    PackageOptions,
    find_packages,
)
from udogen.clients.programs import snpe
from udogen.clients.scripts import commands, tensors
from udogen.clients.scripts.commands import ClientRun, ScriptClient, build_own_client
from udogen.clients.scripts.options import ScriptOptions, check_counts, check_options, find_client
from udogen.clients.scripts.plan import RUN, OutputCheck, ScriptFile, ScriptPlan, machine_of
from udogen.clients.scripts.tensors import TensorData, file_name
from udogen.errors import RunFailed, UsageError, open_plain, read_plain, reading
from udogen.qnn import socs
from udogen.qnn.system import GraphInfo
from udogen.runtime.contexts.binaries import StoredContext
from udogen.runtime.sessions import libraries as device_libraries

_LINUX_FOLDER = "/var/tmp/udogen"  # every user may write and execute files there
_REMOTE = {ANDROID: DEVICE_FOLDER, LINUX: _LINUX_FOLDER, PC: ""}
_TITLES = {"adb": "a device behind adb", "ssh": "a device behind ssh", "local": "this machine"}

Built = tuple[str, tuple[Package, ...]]  # Hexagon version, or empty, and the packages for it

_CASE_LOOPS = 2  # outputs of the second execution reveal state that an op keeps from the first


@dataclass(frozen=True)
class _Model:
    """The model or context binary to run, and the files that belong to it."""

    name: str  # in the folder of the run
    kind: str  # context or model
    content: Path | bytes
    beside: tuple[ScriptFile, ...] = ()
    graph: GraphInfo | None = None  # of a context binary, if it is needed


def make_plan(options: ScriptOptions) -> tuple[ScriptPlan, tuple[TensorData, ...]]:
    """The plan, and the references; reads files and writes none."""
    script_client, client = find_client(options)
    built = _find_built(options)
    packages = built[0][1]
    check_rules(client, packages, script=True)
    check_options(options, script_client, packages)
    if options.prove:
        check_counts([each for _, found in built for each in found])
    inputs, references = tensors.read(options.inputs, "--input"), tensors.read(options.references, "--reference")
    model = _prepare_model(options, script_client, packages, needs_graph=bool(inputs or references))
    if model.graph is not None:
        _check_tensors(model.graph, options, inputs, references)
        inputs = tensors.typed(model.graph.inputs, inputs)
        references = tensors.typed(model.graph.outputs, references)
    run = ClientRun(
        client=options.client,
        packages=tuple(_in_the_run(package, options) for package in packages),
        system=options.system,
        archs=tuple(arch for arch, _ in built if arch),
        model=model.name,
        kind=model.kind,
        inputs=inputs,
        references=references,
        samples=tensors.samples(inputs, references),
        signed=options.signed,
        graph=model.graph,
        program=_own_client(options),
    )
    return _plan(options, script_client, client, built, model, run), references


def _plan(
    options: ScriptOptions,
    script_client: ScriptClient,
    client: Client,
    built: Sequence[Built],
    model: _Model,
    run: ClientRun,
) -> ScriptPlan:
    packages = built[0][1]
    command = script_client.command(run)
    title = "udogen's client" if options.client == "cpp" else client.title
    return ScriptPlan(
        name=file_name(f"{packages[0].name}-{options.client}"),
        title=f"{', '.join(each.name for each in packages)} with {title} on {_TITLES[options.device]}",
        client=options.client,
        device=options.device,
        system=options.system,
        backend=run.backend,
        archs=run.archs,
        remote=options.remote or _REMOTE[options.system],
        forbidden=_forbidden(client, packages),
        command=command,
        files=_with_keys(
            [
                *_library_files(built, run),
                *command.files,
                ScriptFile(f"models/{run.model}", run.model, model.content),
                *model.beside,
                *_input_files(run),
            ]
        ),
        devices=options.devices,
        devices_refused=script_client.no_devices or ("" if run.hexagon else f"{run.backend} is one device"),
        signed=options.signed,
        logcat=options.logcat or (options.prove and run.hexagon),  # the log has the counts of Hexagon
        prove=tuple((each.name, op) for each in packages for op in each.ops) if options.prove else (),
        root=script_client.sdk,
        socs=tuple(sorted(hexagon_versions().items())) if run.archs else (),
        checks=tuple(_output_checks(run, script_client, options)),
        notes=tuple(each for each in client.notes(packages) if each != script_client.without_note),
    )


def _own_client(options: ScriptOptions) -> bytes:
    if options.client != "cpp":
        return b""
    return build_own_client(options.system, on_step=options.on_step).read_bytes()


def hexagon_versions() -> dict[str, str]:
    """Every name that a device may report, in upper case -> its Hexagon version (data/devices.toml, qnn.socs)."""
    found = {row.name: row.arch for row in socs.ALL.values()}
    for row in resources.facts("devices")["device"]:
        names = [row["name"], *row.get("code_names", ()), *map(str, row.get("ids", ()))]
        found |= {name.upper(): row["arch"] for name in names}
    return found


def _output_checks(run: ClientRun, client: ScriptClient, options: ScriptOptions) -> Iterator[OutputCheck]:
    types = {each.name: each.dtype for each in run.graph.outputs} if run.graph else {}
    for each in run.references:
        assert client.output is not None
        dtype = each.dtype or "float32"
        absolute, relative = options.tolerance or tensors.tolerance(dtype, types.get(each.name, ""))
        reference = f"references/{each.sample}/{each.file}"
        yield OutputCheck(each.sample, each.name, client.output(run, each), reference, dtype, absolute, relative)


# --- many cases on one device -----------------------------------------------------------------------------


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
        packages=tuple(_in_folder(each, RUN) for each in packages),
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
        *_library_files([script.built], run),
        *command.files,
        ScriptFile("cases.tar", "cases.tar", _archive(cases)),
    ]
    return replace(
        make_probe_plan(script.device),
        name=script.name,
        system=script.system,
        backend=run.backend,
        archs=run.archs,
        forbidden=_forbidden(programs.ALL["cpp"], packages),
        command=command,
        files=_with_keys(files),
        cases=max(len(cases), 1),
    )


def make_probe_plan(device: str) -> ScriptPlan:
    """A plan for any device, for `run.py --probe`."""
    return ScriptPlan(
        name="probe",
        title="cases of `udogen test`",
        client="cpp",
        device=device,
        remote=_REMOTE[ANDROID if device == "adb" else LINUX],
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


# --- packages -------------------------------------------------------------------------------------------


def _find_built(options: ScriptOptions) -> list[Built]:
    """The packages for each Hexagon version; one row without a version for other backends."""
    if options.system == PC:
        if re.fullmatch(r"v\d+", options.target):
            raise UsageError(f"--target {options.target} is a device", hint="--target htp is Qualcomm's HTP on this PC")
        return [("", find_packages(options.paths, PackageOptions(options.target, ops=options.ops)))]
    android = options.system == ANDROID
    target = options.target or _only_backend(options.paths)
    chosen = PackageOptions(android=android, ops=options.ops, folder=options.remote)
    if target not in backends.RUNTIMES or not backends.ALL[target].two_halves:
        target = f"{target}_{'android' if android else 'aarch64'}" if target in backends.RUNTIMES else target
        found = _find_for_device(options.paths, replace(chosen, target=target))
        return [(found[0].platform.arch, found)]
    built, faults = [], []
    for arch in architectures.of_backend(target):
        try:
            built.append((arch, _find_for_device(options.paths, replace(chosen, target=arch))))
        except RunFailed as fault:
            faults.append(fault)
    if not built:
        raise faults[0]
    return built


def _find_for_device(paths: Sequence[Path], options: PackageOptions) -> tuple[Package, ...]:
    try:
        return find_packages(paths, options)
    except (device_libraries.DeviceLibraryMissing, PackageNotBuilt) as fault:
        if options.android and not environment().android_ndk_root:  # the build that the hint suggests would fail
            fault.hint = (
                f"set ANDROID_NDK_ROOT to an Android NDK, and {fault.hint}; or --linux, if the device has Linux"
            )
        raise


def _only_backend(paths: Sequence[Path]) -> str:
    folders = [path for path in paths if path.is_dir()]
    found = {each.backend for path in folders for each in open_packages(path)} & backends.RUNTIMES.keys()
    if len(found) == 1:
        return found.pop()
    raise UsageError(
        "the backend is not clear" + (f": it could be {', '.join(sorted(found))}" if found else ""),
        hint="--target cpu, gpu, htp (every Hexagon version that is built) or v75",
    )


def _in_the_run(package: Package, options: ScriptOptions) -> Package:
    """The package in the folder of the run; for ExecuTorch, in the folder that the model names."""
    remote = options.remote or DEVICE_FOLDER
    if not PurePosixPath(remote).is_absolute():
        raise UsageError(f"--folder {remote} is not an absolute path", hint=f"as in {DEVICE_FOLDER}")
    if options.client != "executorch":
        return _in_folder(package, RUN)
    return _in_folder(package, package.folder or f"{remote.rstrip('/')}/{package.name}")


def _in_folder(package: Package, folder: str) -> Package:
    """The package with the paths it has in another folder."""
    libraries = tuple(
        each if each.hexagon else replace(each, path=f"{folder}/{each.name}") for each in package.libraries
    )
    registration = package.registration
    if not package.platform.is_device:  # on this machine a client opens the file itself
        libraries = tuple(replace(each, file=Path(each.path)) for each in libraries)
        registration = Path(f"{folder}/{registration.name}") if registration else None
    return replace(package, libraries=libraries, folder=folder, registration=registration)


_SEPARATORS = ',:;"\n'
_ALWAYS_FORBIDDEN = (
    ":;\n"  # separators of LD_LIBRARY_PATH (glibc accepts two), ADSP_LIBRARY_PATH, and run.py's list of links
)


def _forbidden(client: Client, packages: Sequence[Package]) -> str:
    """The characters that the client refuses in paths; run.py looks for them in its folder, which only it knows."""
    rules = [rule for rule in client.rules if rule.id == "separators"]

    def refused(char: str) -> bool:
        moved = [_in_folder(each, f"/{char}") for each in packages]
        return char in _ALWAYS_FORBIDDEN or any(True for rule in rules for _ in rule.faults(moved))

    return "".join(filter(refused, _SEPARATORS))


# --- files ----------------------------------------------------------------------------------------------


def _library_files(built: Sequence[Built], run: ClientRun) -> Iterator[ScriptFile]:
    seen = set()
    for arch, packages in built:
        for package in packages:
            for file, name, hexagon in _files_of(package, run):
                below = arch if hexagon else machine_of(run.system)
                if (below, name) not in seen:
                    seen.add((below, name))
                    source = f"libs/{below}/{file_name(file.name)}"
                    yield ScriptFile(source, name, _content(file), arch=arch if hexagon else "")


def _files_of(package: Package, run: ClientRun) -> Iterator[tuple[Path, str, bool]]:
    """(file, its name on the device, whether Hexagon loads it)."""
    if run.client.startswith("snpe-"):
        for file, name in snpe.device_files(package):
            yield file, name, name.startswith(f"{snpe.DSP_FOLDER}/")
        return
    folder = f"{package.folder or DEVICE_FOLDER}/" if run.client == "executorch" else ""
    for each in package.libraries:
        yield each.file, f"{folder}{each.name}", each.hexagon


def _input_files(run: ClientRun) -> Iterator[ScriptFile]:
    for each in run.inputs:
        name = f"inputs/{each.sample}/{each.file}"
        yield ScriptFile(name, name, each.content)


def _with_keys(files: Iterable[ScriptFile]) -> tuple[ScriptFile, ...]:
    """The files with their checksums; an error if two would have the same name."""
    found = []
    taken: dict[tuple[str, str], ScriptFile] = {}
    for file in files:
        for arch in (file.arch, ""):
            other = taken.get((arch, file.name))
            if other is not None and other.content != file.content:
                raise UsageError(
                    f"two files would be {file.name} in one folder: {other.source} and {file.source}",
                    hint="rename the library of one package, or generate them as one package",
                )
        taken[file.arch, file.name] = file
        found.append(replace(file, key=_checksum(file.content)))
    return tuple(found)


def _checksum(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()[:32]
    digest = hashlib.sha256()
    with reading(content, hint="give an existing file"), open_plain(content) as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()[:32]


def _content(path: Path) -> bytes:
    with reading(path, hint="give an existing file"):
        return read_plain(path)


# --- models ---------------------------------------------------------------------------------------------

_HOW_TO_CONTEXT = "`udogen run op PACKAGE OP --input … --save-context FILE` makes a context binary"


def _prepare_model(
    options: ScriptOptions, client: ScriptClient, packages: Sequence[Package], *, needs_graph: bool
) -> _Model:
    path, kind = _model_path(options, client)
    name = f"model{path.suffix if re.fullmatch(r'[.][A-Za-z0-9]+', path.suffix) else '.bin'}"
    if client.prepare is not None:
        content, named = client.prepare(path, packages, options.rules)
        return _Model(name, kind, content, tuple(_beside(path, each) for each in dict.fromkeys(named)))
    if kind == "context" and (needs_graph or options.client == "cpp"):
        return _Model(name, kind, path, graph=_graph_of(path, options, packages[0].backend))
    return _Model(name, kind, path)


def _model_path(options: ScriptOptions, client: ScriptClient) -> tuple[Path, str]:
    """The file to run, and its kind."""
    given = [(path, kind) for path, kind in ((options.model, "model"), (options.context, "context")) if path]
    names = " or ".join(f"--{kind} FILE" for kind in client.models)
    if not given:
        raise UsageError(f"{options.client} needs {names}", hint=_HOW_TO_CONTEXT if "context" in client.models else "")
    if len(given) > 1:
        raise UsageError("--model and --context exclude each other", hint="leave one of them out")
    [(path, kind)] = given
    if kind not in client.models:
        raise UsageError(f"{options.client} takes {names}, not --{kind}", hint="see udogen script --help")
    if not path.is_file():
        raise UsageError(f"{path} is not a file", hint=f"give the {'context binary' if kind == 'context' else 'model'}")
    return path, kind


def _graph_of(path: Path, options: ScriptOptions, backend: str) -> GraphInfo:
    """The graph of the context binary that the client will execute."""
    with StoredContext(path, on_step=options.on_step, warn=False) as binary:
        info = binary.info
    made_by = backends.by_number(info.backend_id)
    if made_by is not None and made_by.id != backend:
        raise UsageError(
            f"{path} was made by the {made_by.id} backend, the packages are for {backend}",
            hint=f"--target {made_by.id}",
        )
    if options.graph:
        return info.graph(options.graph)
    if len(info.graphs) != 1:
        names = ", ".join(each.name for each in info.graphs)
        raise UsageError(f"{path} has {len(info.graphs)} graphs: {names}", hint="choose one with --graph")
    return info.graphs[0]


def _check_tensors(
    graph: GraphInfo, options: ScriptOptions, inputs: Sequence[TensorData], references: Sequence[TensorData]
) -> None:
    faults = tensors.faults(graph, inputs, references, floats=options.client != "cpp")
    if faults:
        raise UsageError(
            f"{options.context}: {faults[0]}", details=faults[1:], hint="see `udogen inspect` of the context binary"
        )


def _beside(model: Path, name: str) -> ScriptFile:
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise UsageError(
            f"{model} names the file {name}, which is not below its own folder",
            hint="keep all of the model in one folder",
        )
    file = model.parent / name
    if not file.is_file():
        raise UsageError(
            f"{model} names the file {name}, and {file} does not exist", hint="keep the file beside the model"
        )
    return ScriptFile(f"models/{name}", name, file)
