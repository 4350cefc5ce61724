"""`udogen inspect KERNEL.py`: what code a kernel in Python becomes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from udogen.cli import output


def explain(
    file: Path,
    configs: tuple[Path, ...],
    machines: tuple[str, ...],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    with_loops: bool,
    as_json: bool,
) -> None:
    """Compile a kernel of an op of these configs, and show its functions for each machine.

    Whether they have vectors, and if not, why; their vector instructions by kind; their loops; with shapes, how many
    packets an execution takes under QEMU.
    """
    from udogen.kernels.explain import explain as codes_of

    codes = codes_of(file, configs, machines)
    counts = []
    if shapes:
        from udogen.inspect.kernel_packets import count_packets

        counts = count_packets(file, configs, codes, shapes)
    if as_json:
        functions, executed = ([vars(each) for each in rows] for rows in (codes, counts))
        output.print_json({"ok": True, "functions": functions, "packets": executed})
        return
    for code in codes:
        kinds = ", ".join(f"{count} {kind}" for kind, count in code.instructions.items())
        output.print_result(f"{code.machine}: {code.name}")
        output.print_result(f"  SCALAR: {code.scalar}" if code.scalar else f"  vector instructions: {kinds or 'none'}")
        for line in code.loops if with_loops else ():
            output.print_result(f"  {line}")
    for count in counts:
        types = " ".join(dict.fromkeys(filter(None, count.types.values())))
        in_functions = "".join(f", {packets:,} in {name}" for name, packets in count.functions.items())
        output.print_result(f"{count.machine}, {types}: {count.total:,} packets{in_functions}")
