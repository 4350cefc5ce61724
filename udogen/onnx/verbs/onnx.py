"""`udogen onnx`: ONNX models with custom ops."""

from __future__ import annotations

import click

from udogen.cli.lazy import LazyGroup

_LINE = "Prepare ONNX models for custom ops and context binaries."


@click.group("onnx", cls=LazyGroup, rows={}, path="onnx ", short_help=_LINE)
def command() -> None:
    """Example: udogen onnx schema scale/Scale.xml -o schemas.onnx

    Prepare ONNX models for custom ops and context binaries.
    """
