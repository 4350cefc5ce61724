"""ONNX models as a source: of projects, of graphs to print, and of references in test files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.plugins import Source

if TYPE_CHECKING:
    from udogen.init.draft import Draft
    from udogen.inspect.graph import GraphView


def _draft(path: Path, **options: Any) -> Draft:
    from udogen.onnx.draft import from_onnx

    return from_onnx.draft(path, **options)


def _view(path: Path) -> GraphView:
    from udogen.onnx.models.load import load_model
    from udogen.onnx.models.view import onnx_view

    return onnx_view(load_model(path))


def _reference(name: str, folder: Path) -> Any:
    from udogen.onnx import reference

    return reference.find(name, folder)


def is_onnx(data: bytes, suffix: str) -> bool:
    """Whether a file is an ONNX model: by its name, or because it begins with ir_version and a text."""
    return suffix.lower() == ".onnx" or (
        len(data) > 3 and data[0] == 0x08 and 0 < data[1] < 0x40 and data[2] in (0x12, 0x3A)
    )


ONNX = Source("an ONNX model", is_onnx, _draft, _view, _reference)
