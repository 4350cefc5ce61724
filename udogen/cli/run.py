"""`udogen run`: ops, models and context binaries in a QNN runtime."""

from __future__ import annotations

import click

from udogen.cli.lazy import LazyGroup

ROWS = {
    "op": ("run_op", "Run one op of a built package."),
    "steps": ("run_steps", "Execute steps of a model of context binaries."),
    "context": ("run_context", "Restore context binaries and execute their graphs."),
}


@click.group("run", cls=LazyGroup, rows=ROWS, path="run ")
def command() -> None:
    """Example: udogen run op out Scale --input x=2x3x4

    Run ops, models and context binaries in the real QNN runtime, or in udogen's emulator."""
    from udogen.runtime.worker_process import check_memory

    check_memory()
