"""`udogen inspect`: what a library, a context binary, a config, a model or a kernel in Python contains."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.cli import output
from udogen.cli.options import PathType, argument, given, json_option, option, pairs, shape_of, verb
from udogen.errors import UdogenError, UsageError, open_plain, reading
from udogen.findings import wrapped
from udogen.plugins import source_of

if TYPE_CHECKING:
    from udogen.inspect.graph import GraphView
    from udogen.inspect.inspection import Inspection
    from udogen.kernels.explain import FunctionCode


@dataclass(frozen=True)
class InspectArguments:
    """The options of the command line."""

    path: Path = argument(metavar="PATH")
    against: tuple[Path, ...] = option(
        "--against", metavar="LIB",
        help="A runtime library to compare with, or the folder of one; may repeat "
        "(default: the runtime of this machine).",
    )  # fmt: skip
    device_library: Path | None = option(
        "--device-library", metavar="SKEL",
        help="Also register Hexagon packages in this HTP library of a DSP, under qemu-hexagon.",
    )  # fmt: skip
    no_register: bool = option("--no-register", help="Read the file without running its code.")
    write_manifest: bool = option("--write-manifest", help="Write the checksum of a context binary next to it.")
    json_out: Path | None = option(
        "--json-out", type=PathType(path_type=Path, dir_okay=False), metavar="FILE",
        help="Of a context binary: write its description, in the format of qnn-context-binary-utility.",
    )  # fmt: skip
    mermaid: bool = option("--mermaid", help="Of a config or model: print its graphs as Mermaid text.")
    configs: tuple[Path, ...] = option(
        "--config", metavar="FILE", help="Of a kernel in Python: the config of its op; may repeat."
    )
    machines: tuple[str, ...] = option(
        "--machine", metavar="NAME", help="Of a kernel in Python: only for this machine (hexagon-v68); may repeat."
    )
    arch: str = option("--arch", metavar="vNN", help="Of a kernel in Python: only for this version of Hexagon.")
    shapes: tuple[str, ...] = option(
        "--shape", metavar="NAME=2x3x4",
        help="Of a kernel in Python: count packets under QEMU for inputs of these shapes; may repeat.",
    )  # fmt: skip
    as_json: bool = json_option()

    def refuse(self, what: str, names: Iterable[str]) -> None:
        """Raise for the first of these options that is given."""
        asked = given(self)
        for name in names:
            if name in asked:
                raise UsageError(f"{name} is for {what}; {self.path} is not one", hint="leave it out")


@verb("inspect", InspectArguments)
def command(options: InspectArguments) -> int:
    """Example: udogen inspect out

    Show what PATH contains: a library or a folder of them, a context binary, a config, an ONNX model, or a kernel in
    Python.

    Libraries: whether a QNN runtime will register them.  A library for this machine is registered in the real
    runtime, in a child process.  Exit code 0: every library will register; 5: one will not; 3: one cannot be judged,
    because no runtime was found to compare it with; 2: of the packages in a folder nothing is built.

    A context binary: its graphs, tensors and origin; whether it matches its manifest, and whether the JSON beside it
    agrees.  Exit code 5: it is damaged or was changed; 2: the JSON is wrong.

    A config or a model: its ops with their tensors; custom ops of a model are marked.  A kernel in Python: its
    functions on each machine, their vector instructions by kind, and why a function has none.
    """
    return _inspect(options)


_OF_KERNELS = ("--config", "--machine", "--arch", "--shape")
_OF_BINARIES = ("--write-manifest", "--json-out")


def _inspect(options: InspectArguments) -> int:
    """Inspect PATH by its kind; returns the exit code."""
    from udogen.inspect.context import is_context_binary

    path = options.path
    if path.suffix == ".py":
        options.refuse("context binaries", _OF_BINARIES)
        options.refuse("configs and models", ("--mermaid",))
        _kernel(options)
        return 0
    options.refuse("kernels in Python", _OF_KERNELS)
    if is_context_binary(path):
        options.refuse("configs and models", ("--mermaid",))
        return _context(options)
    if options.mermaid or path.suffix.lower() in (".xml", ".json") or _is_model(path):
        options.refuse("context binaries", _OF_BINARIES)
        _graph(options)
        return 0
    return _libraries(options)


def _is_model(path: Path) -> bool:
    """Whether a plug-in reads models like this file."""
    try:
        with open_plain(path) as file:
            start = file.read(64)
    except (OSError, UdogenError):
        start = b""
    return source_of(start, path.suffix) is not None


def _libraries(options: InspectArguments) -> int:
    from udogen.build import tools
    from udogen.inspect import inspection

    options.refuse("context binaries", _OF_BINARIES)
    inspect_options = inspection.InspectOptions(
        options.against,
        tools.environment(),
        register=not options.no_register,
        device_library=options.device_library,
    )
    with output.progress("inspect") as advance:
        inspected = inspection.inspect_all(options.path, inspect_options, on_library=advance)
    verdict = inspected.verdict
    if options.as_json:
        output.print_json({"ok": verdict.ok, **inspection.as_json(inspected)})
    else:
        width = shutil.get_terminal_size().columns
        output.print_result("\n".join(inspection.lines(inspected, width=width)).rstrip("\n"))
        if verdict.ok:
            _print_next(inspected)
    return verdict.exit_code


def _print_next(found: Inspection) -> None:
    """Print how to run an op of the first package that is built for this machine."""
    from udogen.cli.build import print_run

    for library in found.libraries:
        evidence = library.evidence
        if evidence and evidence.native and evidence.folder and evidence.folder.ops:
            print_run(evidence.folder)
            return


def _context(options: InspectArguments) -> int:
    from udogen.inspect import context
    from udogen.runtime.contexts import context_json, manifest

    path, library = options.path, None
    if options.against:
        first = options.against[0]
        library = first if first.is_dir() else first.with_name("libQnnSystem.so")
    with output.progress("inspect") as advance:
        inspected = context.inspect_context(path, system_library=library, on_step=advance)
        if options.write_manifest:
            manifest.write(path, build_id=inspected.info.build_id)
            inspected = context.inspect_context(path, system_library=library, on_step=advance)
    if options.json_out is not None:
        manifest.write_atomically(options.json_out, context_json.info_json(inspected.info).encode())
    if options.as_json:
        output.print_json({"ok": inspected.exit_code == 0, "context": context.as_json(inspected)})
    else:
        width = shutil.get_terminal_size().columns
        output.print_result("\n".join(context.lines(inspected, width=width)))
        output.print_next(f"`udogen run context {shlex.quote(str(path))}` executes it")
    return inspected.exit_code


def _kernel(options: InspectArguments) -> None:
    """Compile a kernel for an op of these configs, and print its functions for each machine.

    The output has their vector instructions by kind, or why they have none.
    """
    from udogen.kernels.explain import explain
    from udogen.verify.kernel_packets import of_shapes, packets_of

    shapes = {name: shape_of(name, text) for name, text in pairs(options.shapes, "--shape")}
    file, configs = _kernel_sources(options)
    with output.progress("inspect") as advance:
        codes = explain(file, configs, options.machines, arch=options.arch, on_step=advance)
        packets = {}
        if shapes:
            packets = packets_of(file, configs, of_shapes(file, configs, shapes), arch=options.arch, on_step=advance)
    if options.as_json:
        output.print_json({"ok": True, "functions": [asdict(code) for code in codes], "packets": packets})
        return
    for line in _code_lines(codes, shutil.get_terminal_size().columns):
        output.print_result(line)
    for types, count in packets.items():
        output.print_result(f"{count:,} packets of the kernel in one execution ({types})")
    if not options.configs:
        output.print_next(f"`{file.stem}.package(…)` in Python makes a project with it")
        return
    from udogen.generate.op_tests import FILE

    folder = options.configs[0].parent
    if (folder / FILE).is_file():
        output.print_next(f"`udogen test {shlex.quote(str(folder))}` compares it with its reference")
        return
    kernels, config = (shlex.quote(str(path)) for path in (options.path.parent, options.configs[0]))
    output.print_next(f"`udogen generate {config} --kernels {kernels} -o out` makes a package with it")


def _kernel_sources(options: InspectArguments) -> tuple[Path, Sequence[Path]]:
    """The file of a kernel, and the config of its op, which follows from its annotations if none is given."""
    from udogen.python_files import load_module
    from udogen.verify.kernel_function import KernelFunction

    if options.configs:
        return options.path, options.configs
    found = getattr(load_module(options.path), options.path.stem, None)
    if not isinstance(found, KernelFunction):
        raise UsageError(
            f"{options.path} has no kernel `{options.path.stem}` below @udogen.kernel, so its op is not known",
            hint="decorate it, or --config FILE.xml",
        )
    return found.sources()


def _code_lines(codes: Iterable[FunctionCode], width: int) -> Iterator[str]:
    """The lines about the functions for each machine."""
    for (backend, machine), functions in groupby(codes, lambda each: (each.backend, each.machine)):
        yield f"{machine} ({backend})"
        for code in functions:
            yield f"  {code.name}"
            kinds = ", ".join(f"{count} {kind}" for kind, count in code.instructions.items())
            if code.why:
                yield from wrapped("    none: ", code.why, width)
            elif kinds:
                yield from wrapped("    vector instructions in loops: ", kinds, width)


def _graph(options: InspectArguments) -> None:
    """Print the ops and tensors of a config, or of an ONNX model, where custom ops are marked."""
    view = _view(options)
    if options.as_json:
        mermaid = {"mermaid": "\n".join(view.mermaid())} if options.mermaid else {}
        output.print_json({"ok": True, **view.as_json(), **mermaid})
        return
    for line in view.mermaid() if options.mermaid else view.lines():
        output.print_result(line)
    name = shlex.quote(str(options.path))
    if any(node.kind == "custom" for section in view.sections for node in section.nodes):
        output.print_next(f"`udogen new mine --from-onnx {name}` makes a project of its custom ops")
    elif options.path.suffix in (".xml", ".json"):
        output.print_next(f"`udogen check {name}`")


def _view(options: InspectArguments) -> GraphView:
    from udogen.configs.load import load
    from udogen.inspect.graph import config_view

    path = options.path
    with reading(path, hint="give a config or an ONNX model"), open_plain(path) as file:
        start = file.read(64)
    if source := source_of(start, path.suffix):
        view: GraphView = source.view(path)
        return view
    packages, findings = load([path])
    output.print_problems(() if output.json_requested() else findings.warnings)
    return config_view(packages, path.name)
