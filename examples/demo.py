"""`make demo`: every example from its config to checked numbers on the real QNN runtime.

Shows also how the wings of udogen are used from Python.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from udogen.build import make, tools
from udogen.build.package import open_package
from udogen.cli import output
from udogen.errors import UdogenError
from udogen.generate.packages import generate
from udogen.opdef.load import load
from udogen.runtime.built import find_built
from udogen.verify.cases import Example, load_examples
from udogen.verify.runner import Outcome, run_cases

HERE = Path(__file__).resolve().parent
WORK = HERE.parent / ".demo"


@cache
def say_that_zig_is_slow_at_first() -> None:
    """Once: what a person who watches would wonder about."""
    output.note("  (at its first use zig compiles its C++ library, which takes a minute)")


def run(example: Example) -> list[Outcome]:
    """Config -> package folders -> libraries -> registered, executed, compared, on every backend of the cases."""
    packages, problems = load([example.config])
    backends = list(dict.fromkeys(case.backend for case in example.cases))
    made = generate(packages, WORK, chosen=backends, kernels=example.kernels, problems=problems)
    outcomes = []
    for each in made:
        package = open_package(each.folder)
        steps = make.plan(package, [f"{package.backend}_x86"], toolchain="auto", env=tools.environment())
        output.note(f"{example.config.relative_to(HERE.parent)} -> {package.path.relative_to(HERE.parent)}")
        output.note(f"  built with {steps[0].choice.title}")
        if steps[0].choice.title.startswith("zig"):
            say_that_zig_is_slow_at_first()
        with output.progress(f"  {package.name}", total=make.sources(package) + 1) as advance:
            make.build(package, steps, on_step=advance)
        cases = [case for case in example.cases if case.backend == package.backend]
        outcomes += run_cases(find_built(package.path, backend=package.backend), cases, backend=package.backend)
    return outcomes


def main() -> int:
    outcomes = [
        outcome
        for folder in sorted(path.parent for path in HERE.glob("*/reference.py"))
        for example in load_examples(folder)
        for outcome in run(example)
    ]
    rows = [
        (
            outcome.case.name,
            outcome.data_type,
            outcome.backend,
            f"{outcome.runtime.name} {outcome.runtime.build_id}",
            f"{outcome.max_error:.2g}",
            f"{outcome.execute * 1e6:.1f} µs",
            "ok" if outcome.passed else "WRONG",
        )
        for outcome in outcomes
    ]
    output.say("")
    output.say(output.table(("op", "type", "backend", "runtime", "max error", "execute", ""), rows))
    wrong = sum(not outcome.passed for outcome in outcomes)
    output.say(f"\n{len(outcomes) - wrong} of {len(outcomes)} cases agree with numpy")
    return 6 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UdogenError as fault:
        output.fail(fault)
        sys.exit(fault.exit_code)
