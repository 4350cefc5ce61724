"""`udogen inspect`: what a library, a context binary, a config, a model or a kernel in Python contains."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from udogen.cli import output
from udogen.errors import RunFailed, ToolMissing, UdogenError, UsageError, open_plain


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path), metavar="PATH")
@click.option(
    "--against",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="LIB",
    help="A runtime library to compare with, or the folder of one; may repeat "
    "(default: the runtime of this machine, and QNN_SDK_ROOT's for a device).",
)
@click.option("--no-register", is_flag=True, help="Only read the file; run none of its code.")
@click.option("-v", "--verbose", is_flag=True, help="Show every kernel record, and every tensor.")
@click.option("--write-manifest", is_flag=True, help="Write the checksum of a context binary next to it.")
@click.option(
    "--json-out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Of a context binary: write what is in it, as qnn-context-binary-utility does.",
)
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Of a config, model or context binary: draw its ops and tensors.",
)  # fmt: skip
@click.option(
    "--around", type=click.IntRange(0, 1000), metavar="N",
    help="Of a model: only nodes at most N away from its custom ops (default: all; 3 of a large graph).",
)  # fmt: skip
@click.option("--op", "wanted", multiple=True, metavar="DOMAIN::TYPE", help="Of a model: mark this op; may repeat.")
@click.option(
    "--config", "configs", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Of a kernel in Python: the config of its op; may repeat.",
)  # fmt: skip
@click.option(
    "--machine", "machines", multiple=True, metavar="NAME",
    help="Of a kernel in Python: for this machine only: hexagon-v68; may repeat.",
)  # fmt: skip
@click.option("--loops", is_flag=True, help="Of a kernel in Python: print the loops of each function, too.")
@output.json_option
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Example: udogen inspect out

    Show what PATH contains: a library or a folder of them, a context binary, a config, an ONNX model, or a kernel in
    Python.

    Libraries: whether a QNN runtime will take them. A library for this machine is registered in the real runtime,
    in a child process. Exit code 0: every library will register; 5: one will not; 3: one cannot be judged, because
    no runtime was found to compare it with.

    A context binary: its graphs, tensors and who made it; whether it matches its manifest, and whether the JSON
    beside it agrees.  Exit code 5: it is damaged, or not the one that was written; 2: the JSON is wrong.

    A config or a model: its ops with their tensors; custom ops of a model are marked.  A kernel in Python: its code on
    each machine, its vector instructions by kind, and why a function has none.
    """
    options = InspectArguments(**given)
    context.exit(_inspect(options))


@dataclass(frozen=True)
class InspectArguments:
    """The options of the command line."""

    path: Path
    against: tuple[Path, ...]
    no_register: bool
    verbose: bool
    write_manifest: bool
    json_out: Path | None
    svg: Path | None
    around: int | None
    wanted: tuple[str, ...]
    configs: tuple[Path, ...]
    machines: tuple[str, ...]
    loops: bool
    as_json: bool

    def refuse(self, what: str, names: Iterable[str]) -> None:
        """Raise for the first of these options that is given."""
        values = {
            "--svg": self.svg,
            "--around": self.around is not None,
            "--op": self.wanted,
            "--config": self.configs,
            "--machine": self.machines,
            "--loops": self.loops,
            "--against": self.against,
            "--no-register": self.no_register,
            "--write-manifest": self.write_manifest,
            "--json-out": self.json_out,
        }
        for name in names:
            if values[name]:
                raise UsageError(f"{name} is for {what}; {self.path} is not one", hint="leave it out")


_OF_MODELS = ("--around", "--op")
_OF_KERNELS = ("--config", "--machine", "--loops")
_OF_BINARIES = ("--write-manifest", "--json-out")


def _inspect(options: InspectArguments) -> int:
    """What PATH is decides; the exit code."""
    from udogen.draw.sources import is_onnx
    from udogen.inspect.context import is_context_binary

    path = options.path
    if path.suffix == ".py":
        from udogen.cli.kernels import explain

        options.refuse("context binaries", _OF_BINARIES)
        options.refuse("configs, models and context binaries", ("--svg",))
        if not options.configs:
            raise UsageError(f"{path} needs the config of its op", hint="--config FILE.xml")
        explain(path, options.configs, options.machines, with_loops=options.loops, as_json=options.as_json)
        return 0
    options.refuse("kernels in Python", _OF_KERNELS)
    if options.svg is None and is_context_binary(path):
        options.refuse("ONNX models", _OF_MODELS)
        return _context(options)
    if options.svg is not None or path.suffix.lower() in (".xml", ".json", ".onnx") or _starts_like(path, is_onnx):
        from udogen.cli.graph import draw

        options.refuse("context binaries", _OF_BINARIES)
        draw(path, options.svg, options.around, options.wanted, as_json=options.as_json)
        return 0
    options.refuse("ONNX models", _OF_MODELS)
    return _libraries(options)


def _starts_like(path: Path, known: Callable[[bytes, str], bool]) -> bool:
    """Whether the first bytes of a file are those of a kind."""
    try:
        with open_plain(path) as file:
            return known(file.read(64), path.suffix)
    except (OSError, UdogenError):
        return False


def _libraries(options: InspectArguments) -> int:
    from udogen.build import tools
    from udogen.inspect import report
    from udogen.inspect.inspection import InspectOptions, inspect_all
    from udogen.inspect.rules import STOPS, UNKNOWN

    path = options.path
    options.refuse("context binaries", _OF_BINARIES)
    inspect_options = InspectOptions(options.against, tools.environment(), register=not options.no_register)
    if path.is_dir():
        with output.progress("inspect") as advance:
            found = inspect_all(path, inspect_options, on_library=advance)
    else:
        found = inspect_all(path, inspect_options)
    weights = {each.weight for each in found.judged}
    code = RunFailed.exit_code if STOPS in weights else ToolMissing.exit_code if UNKNOWN in weights else 0
    if options.as_json:
        output.print_json({"ok": code == 0, **report.as_json(found)})
    else:
        width = shutil.get_terminal_size().columns
        output.print_result("\n".join(report.lines(found, width=width, everything=options.verbose)).rstrip("\n"))
    return code


def _context(options: InspectArguments) -> int:
    from udogen.inspect import context
    from udogen.runtime.contexts import context_json, manifest

    path, library = options.path, None
    if options.against:
        first = options.against[0]
        library = first if first.is_dir() else first.with_name("libQnnSystem.so")
    with output.progress("inspect") as advance:
        found = context.inspect_context(path, system_library=library, on_step=advance)
        if options.write_manifest:
            manifest.write(path, build_id=found.info.build_id)
            found = context.inspect_context(path, system_library=library, on_step=advance)
    if options.json_out is not None:
        manifest.write_atomically(options.json_out, context_json.info_json(found.info).encode())
    if options.as_json:
        output.print_json({"ok": found.exit_code == 0, "context": context.as_json(found)})
    else:
        width = shutil.get_terminal_size().columns
        output.print_result("\n".join(context.lines(found, width=width, everything=options.verbose)))
    return found.exit_code
