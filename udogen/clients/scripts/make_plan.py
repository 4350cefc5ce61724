"""Makes the plan of a script from its options: packages for each Hexagon version, model, inputs, references."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

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
from udogen.clients.scripts import commands, tensors
from udogen.clients.scripts.commands import ClientRun, ScriptClient, build_own_client
from udogen.clients.scripts.plan import HERE, RUN, Device, OutputCheck, ScriptFile, ScriptPlan, machine_of
from udogen.clients.scripts.tensors import TensorData, file_name
from udogen.clients.snippets import DSP_FOLDER, snpe_files
from udogen.errors import RunFailed, UsageError, open_plain, read_plain, reading
from udogen.qnn import socs
from udogen.qnn.system import GraphInfo
from udogen.runtime import built as device_libraries
from udogen.runtime.contexts.binaries import StoredContext
from udogen.runtime.execution_counts import VARIABLE

_LINUX_FOLDER = "/var/tmp/udogen"  # every user may write and execute files there
REMOTE = {ANDROID: DEVICE_FOLDER, LINUX: _LINUX_FOLDER, PC: ""}
# Separators of LD_LIBRARY_PATH (glibc accepts two), of ADSP_LIBRARY_PATH, and of run.py's list of links.
FORBIDDEN = ":;\n"

BuiltPackages = tuple[str, tuple[Package, ...]]  # Hexagon version, or empty, and the packages for it


def make_plan(options: ScriptOptions) -> tuple[ScriptPlan, tuple[TensorData, ...]]:
    """The plan, and the references; reads files and writes none."""
    script_client, client = commands.ALL[options.client], programs.ALL[options.client]
    built = _find_built(options)
    packages = built[0][1]
    check_rules(client, packages)
    if options.prove:
        _check_counts(options, packages)
    inputs, references = tensors.read(options.inputs, "--input"), tensors.read(options.references, "--reference")
    path = options.model
    context = _is_context(path, script_client)
    if options.graph and not context:
        raise UsageError("--graph chooses among the graphs of a context binary", hint="leave it out")
    graph = None
    if context and (inputs or references or script_client.own):
        graph = _graph_of(path, options, packages[0].backend)
        _check_tensors(graph, options, inputs, references)
        inputs = tensors.typed(graph.inputs, inputs)
        references = tensors.typed(graph.outputs, references)
    run = ClientRun(
        client=options.client,
        packages=tuple(in_folder(package, RUN) for package in packages),
        system=options.system,
        archs=tuple(arch for arch, _ in built if arch),
        model=f"model{path.suffix if re.fullmatch(r'[.][A-Za-z0-9]+', path.suffix) else '.bin'}",
        context=context,
        inputs=inputs,
        references=references,
        graph=graph,
        program=build_own_client(options.system, on_step=options.on_step).read_bytes() if script_client.own else b"",
    )
    return _plan(options, script_client, client, built, path, run), references


def _plan(
    options: ScriptOptions,
    script_client: ScriptClient,
    client: Client,
    built: Sequence[BuiltPackages],
    model: Path,
    run: ClientRun,
) -> ScriptPlan:
    packages = built[0][1]
    command = script_client.command(run)
    title = "udogen's client" if script_client.own else client.title
    return ScriptPlan(
        name=file_name(f"{packages[0].name}-{options.client}"),
        title=f"{', '.join(package.name for package in packages)} with {title} on {options.device.name}",
        client=options.client,
        device=options.device.kind,
        connection=options.device.connection,
        system=options.system,
        backend=run.backend,
        archs=run.archs,
        remote=REMOTE[options.system],
        forbidden=FORBIDDEN + script_client.separators,
        command=command,
        files=with_keys(
            [
                *library_files(built, run),
                *command.files,
                ScriptFile(f"models/{run.model}", run.model, model),
                *_input_files(run),
            ]
        ),
        prove=tuple((package.name, op) for package in packages for op in package.ops) if options.prove else (),
        root=script_client.sdk,
        socs=tuple(sorted(hexagon_versions().items())) if run.archs else (),
        checks=tuple(_output_checks(run, script_client, options)),
        notes=tuple(client.notes(packages)),
    )


def hexagon_versions() -> dict[str, str]:
    """Every name that a device may report, in upper case -> its Hexagon version (data/devices.toml, qnn.socs)."""
    versions = {row.name: row.arch for row in socs.ALL.values()}
    for row in resources.facts("devices")["device"]:
        names = [row["name"], *row.get("code_names", ()), *map(str, row.get("ids", ()))]
        versions |= {name.upper(): row["arch"] for name in names}
    return versions


def _output_checks(run: ClientRun, client: ScriptClient, options: ScriptOptions) -> Iterator[OutputCheck]:
    types = {tensor.name: tensor.dtype for tensor in run.graph.outputs} if run.graph else {}
    for tensor in run.references:
        dtype = tensor.dtype or "float32"
        absolute, relative = options.tolerance or tensors.tolerance(dtype, types.get(tensor.name, ""))
        reference = f"references/{tensor.file}"
        yield OutputCheck(tensor.name, client.output(tensor), reference, dtype, absolute, relative)


# --- packages -------------------------------------------------------------------------------------------


def _find_built(options: ScriptOptions) -> list[BuiltPackages]:
    """The packages for each Hexagon version; one row without a version for other backends."""
    if options.system == PC:
        if re.fullmatch(r"v\d+", options.target):
            raise UsageError(f"--target {options.target} is a device", hint="--target htp is Qualcomm's HTP on this PC")
        return [("", find_packages(options.paths, PackageOptions(options.target)))]
    android = options.system == ANDROID
    target = options.target or _only_backend(options.paths)
    chosen = PackageOptions(android=android)
    if target not in backends.RUNTIMES or not backends.ALL[target].two_halves:
        target = f"{target}_{'android' if android else 'aarch64'}" if target in backends.RUNTIMES else target
        packages = _find_for_device(options.paths, replace(chosen, target=target))
        return [(packages[0].platform.arch, packages)]
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
            fault.hint = f"set ANDROID_NDK_ROOT to an Android NDK, and {fault.hint}"
        raise


def _only_backend(paths: Sequence[Path]) -> str:
    folders = [path for path in paths if path.is_dir()]
    candidates = {part.backend for path in folders for part in open_packages(path)} & backends.RUNTIMES.keys()
    if len(candidates) == 1:
        return candidates.pop()
    raise UsageError(
        "the backend is not clear" + (f": it could be {', '.join(sorted(candidates))}" if candidates else ""),
        hint="--target cpu, gpu, htp (every Hexagon version that is built) or v75",
    )


def in_folder(package: Package, folder: str) -> Package:
    """The package with the paths it has in another folder."""
    libraries = tuple(
        library if library.hexagon else replace(library, path=f"{folder}/{library.name}")
        for library in package.libraries
    )
    registration = package.registration
    if not package.platform.is_device:  # on this machine a client opens the file itself
        libraries = tuple(replace(library, file=Path(library.path)) for library in libraries)
        registration = Path(f"{folder}/{registration.name}") if registration else None
    return replace(package, libraries=libraries, folder=folder, registration=registration)


# --- files ----------------------------------------------------------------------------------------------


def library_files(built: Sequence[BuiltPackages], run: ClientRun) -> Iterator[ScriptFile]:
    """The libraries of the packages, below libs/."""
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
    if run.client == "snpe-net-run":
        for file, name in snpe_files(package):
            yield file, name, name.startswith(f"{DSP_FOLDER}/")
        return
    for library in package.libraries:
        yield library.file, library.name, library.hexagon


def _input_files(run: ClientRun) -> Iterator[ScriptFile]:
    for tensor in run.inputs:
        name = f"inputs/{tensor.file}"
        yield ScriptFile(name, name, tensor.content)


def with_keys(files: Iterable[ScriptFile]) -> tuple[ScriptFile, ...]:
    """The files with their checksums; an error if two would have the same name."""
    keyed = []
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
        keyed.append(replace(file, key=_checksum(file.content)))
    return tuple(keyed)


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

_ELF = b"\x7fELF"


def _is_context(path: Path, client: ScriptClient) -> bool:
    """Whether a model is a context binary; a client that accepts both gets models as libraries."""
    with reading(path, hint="give the model"), open_plain(path) as stream:
        return client.model == "context" if client.model else stream.read(len(_ELF)) != _ELF


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
        names = ", ".join(graph.name for graph in info.graphs)
        raise UsageError(f"{path} has {len(info.graphs)} graphs: {names}", hint="choose one with --graph")
    return info.graphs[0]


def _check_tensors(
    graph: GraphInfo, options: ScriptOptions, inputs: Sequence[TensorData], references: Sequence[TensorData]
) -> None:
    faults = tensors.faults(graph, inputs, references, floats=options.client != "cpp")
    if faults:
        raise UsageError(
            f"{options.model}: {faults[0]}", details=faults[1:], hint="see `udogen inspect` of the context binary"
        )


@dataclass(frozen=True)
class ScriptOptions:
    """The options of `udogen script`."""

    paths: tuple[Path, ...]
    client: str
    model: Path
    on: str = ""  # a device; empty: this machine
    target: str = ""
    graph: str = ""
    inputs: tuple[tuple[str, str], ...] = ()
    references: tuple[tuple[str, str], ...] = ()
    tolerance: tuple[float, float] | None = None
    prove: bool = False
    on_step: Callable[[str], None] = field(default=lambda _line: None)

    @property
    def device(self) -> Device:
        """The device on which the client runs."""
        return Device.parse(self.on) if self.on else HERE

    @property
    def system(self) -> str:
        """The system on which the client runs."""
        return {"local": PC, "adb": ANDROID, "ssh": LINUX}[self.device.kind]


def _check_counts(options: ScriptOptions, packages: Sequence[Package]) -> None:
    """Raise if executions cannot be counted, as `--prove` needs."""
    if options.system != PC and backends.ALL[packages[0].backend].two_halves:
        raise UsageError("--prove: executions on Hexagon are not counted", hint="leave --prove out")
    for package in packages:
        for library in package.libraries:
            if VARIABLE.encode() not in read_plain(library.file):
                where = f" -C {shlex.quote(str(package.built.path))}" if package.built else ""
                raise UsageError(
                    f"--prove: {library.file} writes no counts: it was built without --prove",
                    hint=f"build the library with `udogen build --prove{where}`",
                )
