"""`make demo`: every example from its config to checked numbers on the real QNN runtime, and for DSP V65/V66 in QEMU.

Shows also how the wings of udogen are used from Python.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from udogen.configs.load import load
from udogen.generate.pipeline import generate

from udogen import resources
from udogen.build import make, tools
from udogen.build.package import PackageLibrary, open_packages
from udogen.cli import output
from udogen.errors import UdogenError
from udogen.runtime.built import Built, find_built, find_source
from udogen.verify.cases import Example
from udogen.verify.options import TestOptions
from udogen.verify.results import Outcome
from udogen.verify.runner import run_cases
from udogen.verify.test_files.expand import load_examples

HERE = Path(__file__).resolve().parent
WORK = HERE.parent / ".demo"
BACKENDS = ("cpu", "htp", "dsp")  # `udogen test examples/softmax` runs the others too


@cache
def say_that_zig_is_slow_at_first() -> None:
    """Once: what a person who watches would wonder about."""
    output.print_note("  (at its first use zig compiles its C++ library, which takes a minute)")


def run(example: Example) -> list[Outcome]:
    """Config -> package folders -> libraries -> registered, executed, compared, on every backend of the cases."""
    packages, problems = load([example.config])
    wanted = {case.backend for case in example.cases}
    backends = [name for name in BACKENDS if name in wanted and is_there(name)]
    made = generate(packages, WORK, chosen=backends, kernels=example.kernels, problems=problems)
    outcomes = []
    for package in (part for each in made for part in open_packages(each.folder) if part.backend in backends):
        output.print_note(f"{example.config.relative_to(HERE.parent)} -> {package.path.relative_to(HERE.parent)}")
        cases = [each for each in example.cases if each.backend == package.backend and each.runs_on(package.backend)]
        outcomes += run_cases(
            built(package),
            cases,
            backend=package.backend,
            options=TestOptions(loops=1 if package.backend == "dsp" else 20),
        )
    return outcomes


@cache
def is_there(backend: str) -> bool:
    """What a backend runs in, which for DSP is zig and QEMU."""
    if backend != "dsp":
        return True
    if not (tools.zig() and tools.program("qemu-hexagon")):
        output.print_note(
            "the cases of dsp are left out: they need zig (pip install ziglang) and qemu-hexagon (qemu-user)"
        )
        return False
    if not any(resources.cache_dir("hexagon").glob("harness-*")):
        output.print_note(
            "the cases of dsp are left out: zig would first build its libraries for Hexagon, which takes minutes"
        )
        output.print_note("  (they come to it once `udogen run op … --backend dsp` has run anything)")
        return False
    return True


def built(package: PackageLibrary) -> Built:
    """The package, built for this machine; for the DSP it is compiled when it runs."""
    if package.backend == "dsp":
        output.print_note("  built with zig for Hexagon v66")
        say_that_zig_is_slow_at_first()
        return find_source(package.path, backend="dsp")
    steps = make.plan(package, [], toolchain="auto", env=tools.environment())
    output.print_note(f"  built with {steps[0].choice.title}")
    if steps[0].choice.title.startswith("zig"):
        say_that_zig_is_slow_at_first()
    with output.progress(f"  {package.name}", total=make.sources(package) + 1) as advance:
        make.build(package, steps, on_step=advance)
    return find_built(package.path, backend=package.backend)


def main() -> int:
    outcomes = [
        outcome
        for folder in sorted(path.parent for path in HERE.glob("*/reference.py"))
        for example in load_examples(folder)
        for outcome in run(example)
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
    output.print_result("")
    output.print_result(output.table(("op", "type", "backend", "runtime", "max error", "execute", ""), rows))
    wrong = sum(not outcome.passed for outcome in outcomes)
    output.print_result(f"\n{len(outcomes) - wrong} of {len(outcomes)} cases agree with numpy")
    return 6 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UdogenError as fault:
        output.print_error(fault)
        sys.exit(fault.exit_code)
