"""`make demo`: every example from its config to checked numbers on the real QNN runtime, and for DSP V65/V66 in QEMU.

Shows also how udogen is used from Python.
"""

from __future__ import annotations

import shutil
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from udogen import (
    Example,
    GenerateOptions,
    Outcome,
    PackageLibrary,
    TestOptions,
    UdogenError,
    build_package,
    generate_packages,
    load_configs,
    load_examples,
    open_packages,
    run_cases,
)
from udogen.build.zig_libraries import HEXAGON
from udogen.runtime import Built, find_built, find_source

HERE = Path(__file__).resolve().parent
WORK = HERE.parent / ".demo"
BACKENDS = ("cpu", "htp", "dsp")  # `udogen test examples/softmax` runs the others too
HEAD = ("op", "type", "backend", "runtime", "max error", "execute", "")


def note(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)


def run(example: Example) -> list[Outcome]:
    """Config -> package folders -> libraries -> registered, executed, compared, on every backend of the cases."""
    packages, problems = load_configs([example.config])
    wanted = {case.backend for case in example.cases}
    backends = [name for name in BACKENDS if name in wanted and is_available(name)]
    made = generate_packages(
        packages, GenerateOptions(WORK, backends=tuple(backends), kernels=example.kernels), problems
    )
    outcomes = []
    parts = (part for each in made for part in open_packages(each.folder) if part.backend in backends)
    for package in {(part.path, part.backend): part for part in parts}.values():  # DSP has a library for each op
        note(f"{example.config.relative_to(HERE.parent)} -> {package.path.relative_to(HERE.parent)}")
        cases = [each for each in example.cases if each.backend == package.backend and each.runs_on(package.backend)]
        outcomes += run_cases(
            built(package),
            cases,
            backend=package.backend,
            options=TestOptions(loops=1 if package.backend == "dsp" else 20),
        )
    return outcomes


@cache
def is_available(backend: str) -> bool:
    """Whether this machine has what a backend runs in, which for DSP is zig and QEMU."""
    if backend != "dsp":
        return True
    if not ((find_spec("ziglang") or shutil.which("zig")) and shutil.which("qemu-hexagon")):
        note("the cases of dsp are left out: they need zig (pip install ziglang) and qemu-hexagon (qemu-user)")
        return False
    if not HEXAGON.is_warm:
        note("the cases of dsp are left out: zig would first build its libraries for Hexagon, which takes minutes")
        note("  (the next demo has them after `udogen doctor --warm hexagon`)")
        return False
    return True


def built(package: PackageLibrary) -> Built:
    """The package, built for this machine; for the DSP it is compiled when it runs."""
    if package.backend == "dsp":
        note("  built with zig for Hexagon v66 when it runs")
        return find_source(package.path, backend="dsp")
    build_package(package, on_step=lambda line: note(f"  {line}"))
    return find_built(package.path, backend=package.backend)


def main() -> int:
    folders = sorted(path.parent for path in HERE.glob("*/reference.py"))
    if not find_spec("halide"):
        note("examples/python_kernels is left out: pip install 'udogen[kernels]'")
        folders = [each for each in folders if each.name != "python_kernels"]
    outcomes = [
        outcome
        for folder in folders
        for example in load_examples(folder)
        for outcome in run(example)
        if outcome.status != "skipped"  # tensors of five axes on DSP
    ]
    rows = [
        (
            f"{outcome.case.op} {outcome.case.name}",
            outcome.dtype,
            outcome.backend,
            f"{outcome.runtime.name} {outcome.runtime.build_id}",
            f"{outcome.max_error:.2g}",
            "-" if outcome.backend == "dsp" else f"{outcome.execute * 1e6:.1f} µs",  # QEMU's time says nothing
            "ok" if outcome.passed else "WRONG",
        )
        for outcome in outcomes
    ]
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    print()
    for row in (HEAD, tuple("-" * width for width in widths), *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    wrong = sum(not outcome.passed for outcome in outcomes)
    print(f"\n{len(outcomes) - wrong} of {len(outcomes)} cases agree with numpy")
    return 6 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UdogenError as fault:
        note(f"error: {fault}")
        sys.exit(fault.exit_code)
