"""`udogen onnx`: ONNX models with custom ops."""

from __future__ import annotations

import click

from udogen.cli.lazy import LazyGroup

ROWS = {
    "schema": ("udogen.onnx.verbs.schema", "Add schemas for custom ops to a model."),
    "fuse": ("udogen.onnx.verbs.fuse", "Make one custom op from nodes of a model."),
    "context": ("udogen.onnx.verbs.context", "Wrap a context binary in a model for ONNX Runtime."),
}


@click.group("onnx", cls=LazyGroup, rows=ROWS)
def command() -> None:
    """Example: udogen onnx schema scale/Scale.xml -o schemas.onnx

    Prepare ONNX models for custom ops and context binaries.
    """
