"""`udogen inspect` of configs and models, and `--svg`: ops and their tensors as text or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from udogen.cli import output
from udogen.errors import UsageError, open_plain, writing

if TYPE_CHECKING:
    from udogen.draw.diagram import Diagram


def draw(path: Path, svg: Path | None, around: int | None, wanted: tuple[str, ...], *, as_json: bool) -> None:
    """Draw ops with their tensors: those of a config, the graphs of a context binary, or an ONNX model, in which custom
    ops are marked.

    The picture is one SVG file for browsers, light and dark.  JSON has its contents and their places.
    """
    from udogen.draw import diagram as diagrams
    from udogen.draw import layout
    from udogen.draw import svg as drawing

    found = _diagram(path, around, wanted)
    if svg is not None:
        _save(svg, drawing.draw(found))
    if as_json:
        output.print_json({"ok": True, "svg": str(svg) if svg else None, **layout.as_json(found)})
        return
    for line in diagrams.lines(found):
        output.print_result(line)
    if svg is not None:
        output.print_note(f"{svg}: written")


def _diagram(path: Path, around: int | None, wanted: tuple[str, ...]) -> Diagram:
    from udogen.draw import sources

    try:
        with open_plain(path) as file:
            start = file.read(64)
    except OSError as fault:
        hint = "give a config, a context binary or an ONNX model"
        raise UsageError(f"{path} cannot be read: {fault.strerror}", hint=hint) from fault
    if sources.is_onnx(start, path.suffix):
        from udogen.opdef.onnx.load import load_model

        return sources.onnx_diagram(load_model(path, wanted), around=around)
    for option, given in (("--around", around is not None), ("--op", wanted)):
        if given:
            raise UsageError(f"{option} is for ONNX models; {path} is not one", hint="leave it out")
    from udogen.inspect.context import is_context_binary

    if is_context_binary(path):
        from udogen.runtime.contexts.binaries import StoredContext

        with StoredContext(path, use_json=False, check_manifest=False) as stored:
            return sources.context_diagram(stored.info, path.name)
    from udogen.configs.load import load

    packages, problems = load([path])
    output.print_problems(() if output.json_requested() else problems.warnings)
    return sources.config_diagram(packages, path.name)


def _save(path: Path, text: str) -> None:
    with writing(path):
        if path.is_file() and "<svg" not in path.read_bytes()[:400].decode("utf-8", "replace"):
            raise UsageError(f"{path} exists and is not an SVG", hint="choose another file for the picture")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
