"""`udogen inspect KERNEL.py`: what code a kernel in Python becomes."""

from __future__ import annotations

from pathlib import Path

from udogen.cli import output


def explain(
    file: Path, configs: tuple[Path, ...], machines: tuple[str, ...], *, with_loops: bool, as_json: bool
) -> None:
    """Compile a kernel of an op of these configs, and show its functions for each machine.

    Whether they have vectors, and if not, why; their vector instructions by kind; their loops.
    """
    from udogen.kernels.explain import explain as codes_of

    codes = codes_of(file, configs, machines)
    if as_json:
        output.print_json({"ok": True, "functions": [vars(each) for each in codes]})
        return
    for code in codes:
        kinds = ", ".join(f"{count} {kind}" for kind, count in code.instructions.items())
        output.print_result(f"{code.machine}: {code.name}")
        output.print_result(f"  SCALAR: {code.scalar}" if code.scalar else f"  vector instructions: {kinds or 'none'}")
        for line in code.loops if with_loops else ():
            output.print_result(f"  {line}")
