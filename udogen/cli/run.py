"""`udogen run`: what was built, in the real QNN runtime."""

from __future__ import annotations

import click

from udogen.cli.lazy import LazyGroup

ROWS = {
    "op": ("run_op", "One op of a built package."),
    "model": ("run_model", "A whole ONNX model with op packages, compared tensor by tensor."),
    "context": ("run_context", "Context binaries: restore them, execute their graphs."),
}


@click.group("run", cls=LazyGroup, rows=ROWS)
def command() -> None:
    """Example: udogen run op out Scale --input x=2x3x4

    Run ops, models and context binaries in the real QNN runtime, or in udogen's emulator."""
    from udogen.runtime.worker_process import check_memory

    check_memory()
