"""Makes the plan of a script from its options: packages, model, inputs, references."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from udogen import backends, resources
from udogen.clients import programs
from udogen.clients.client import check_rules
from udogen.clients.package import ANDROID, LINUX, PC, PackageOptions, find_packages
from udogen.clients.scripts import commands, tensors
from udogen.clients.scripts.commands import ClientRun, ScriptClient, build_own_client
from udogen.clients.scripts.plan import HERE, RUN, Device, OutputCheck, ScriptFile, ScriptPlan, machine_of
from udogen.clients.scripts.tensors import TensorData, file_name
from udogen.clients.snippets import sent_files
from udogen.errors import UsageError, open_plain, reading
from udogen.qnn import socs
from udogen.qnn.system import GraphInfo
from udogen.runtime.contexts.binaries import StoredContext

# Separators of LD_LIBRARY_PATH (glibc accepts two), of ADSP_LIBRARY_PATH, and of run.py's list of links.
_FORBIDDEN = ":;\n"


def make_plan(options: ScriptOptions) -> tuple[ScriptPlan, tuple[TensorData, ...]]:
    """The plan, and the references; reads files and writes none."""
    script_client, client = commands.ALL[options.client], programs.ALL[options.client]
    packages = find_packages(options.paths, PackageOptions(options.target, options.system, folder=RUN))
    check_rules(client, packages)
    inputs, references = tensors.read(options.inputs, "--input"), tensors.read(options.references, "--reference")
    path = options.model
    context = _is_context(path, script_client)
    if options.graph and not context:
        raise UsageError("--graph chooses among the graphs of a context binary", hint="leave it out")
    graph = None
    if context and (inputs or references or script_client.own):
        graph = _graph_of(path, options, packages[0].backend)
        _check_tensors(graph, options, inputs, references)
    run = ClientRun(
        client=options.client,
        packages=packages,
        model=f"model{path.suffix if re.fullmatch(r'[.][A-Za-z0-9]+', path.suffix) else '.bin'}",
        context=context,
        inputs=inputs,
        references=references,
        graph=graph,
        program=build_own_client(options.system, on_step=options.on_step) if script_client.own else None,
    )
    given = [ScriptFile(f"models/{run.model}", run.model, path)]
    given += [ScriptFile(f"inputs/{tensor.file}", f"inputs/{tensor.file}", tensor.content) for tensor in inputs]
    plan = replace(
        script_plan(options.device, run, given),
        name=file_name(f"{packages[0].name}-{options.client}"),
        checks=tuple(_output_checks(run, script_client, options)),
        notes=tuple(client.notes(packages)),
    )
    return plan, references


def script_plan(device: Device, run: ClientRun, given: Sequence[ScriptFile]) -> ScriptPlan:
    """The plan of a run on a device, of which `given` are the model and the inputs."""
    client = commands.ALL[run.client]
    command = client.command(run)
    title = "udogen's client" if client.own else run.client
    return replace(
        probe_plan(device),
        title=f"{', '.join(package.name for package in run.packages)} with {title} on {device.name}",
        client=run.client,
        system=run.system,
        backend=run.backend,
        arch=run.arch,
        forbidden=_FORBIDDEN + client.separators,
        command=command,
        files=(*_library_files(run), *command.files, *given),
        root=client.sdk,
    )


def probe_plan(device: Device) -> ScriptPlan:
    """The plan for any device, for `run.py --probe`."""
    return ScriptPlan(
        name="probe",
        title=f"a query of {device.name}",
        client="",
        device=device.kind,
        connection=device.connection,
        remote=device.folder,
        socs=tuple(sorted(hexagon_versions().items())),
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
        absolute, relative = options.tolerance, 0.0
        if absolute is None:
            absolute, relative = tensors.tolerance(tensor.dtype, types.get(tensor.name, ""))
        reference = f"references/{tensor.file}"
        yield OutputCheck(tensor.name, client.output(tensor), reference, tensor.dtype, absolute, relative)


def _library_files(run: ClientRun) -> Iterator[ScriptFile]:
    """The libraries of the packages, below libs/."""
    taken: dict[str, Path] = {}
    for package in run.packages:
        for file, name, hexagon in sent_files(package, for_snpe=run.client == "snpe-net-run"):
            other = taken.setdefault(name, file)
            if other != file:
                raise UsageError(
                    f"two files would be {name} in one folder: {other} and {file}",
                    hint="rename the library of one package, or generate them as one package",
                )
            below = run.arch if hexagon else machine_of(run.system)
            yield ScriptFile(f"libs/{below}/{file_name(file.name)}", name, file)


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
    tolerance: float | None = None
    on_step: Callable[[str], None] = field(default=lambda _line: None)

    @property
    def device(self) -> Device:
        """The device on which the client runs."""
        return Device.parse(self.on) if self.on else HERE

    @property
    def system(self) -> str:
        """The system on which the client runs."""
        return {"local": PC, "adb": ANDROID, "ssh": LINUX}[self.device.kind]
