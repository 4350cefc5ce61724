"""`make demo`: every example from its config to checked numbers on Qualcomm's CPU and HTP runtimes.

Shows also how udogen is used from Python.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from udogen import (
    Example,
    GenerateOptions,
    Outcome,
    TestOptions,
    UdogenError,
    build_package,
    generate_packages,
    load_configs,
    load_examples,
    open_packages,
    run_cases,
)
from udogen.runtime import find_built

HERE = Path(__file__).resolve().parent
WORK = HERE.parent / ".demo"
BACKENDS = ("cpu", "htp")  # `udogen test examples/softmax` runs the others too
HEAD = ("op", "types", *BACKENDS)


def note(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)


def run(example: Example) -> list[Outcome]:
    """Config -> package folders -> libraries -> registered, executed, compared, on both backends."""
    packages, problems = load_configs([example.config])
    backends = tuple(name for name in BACKENDS if any(case.backend == name for case in example.cases))
    out = WORK / example.kernels.relative_to(HERE)
    made = generate_packages(packages, GenerateOptions(out, backends=backends, kernels=example.kernels), problems)
    outcomes = []
    for package in (part for each in made for part in open_packages(each.folder) if part.backend in backends):
        note(f"{example.config.relative_to(HERE.parent)} -> {package.path.relative_to(HERE.parent)}")
        build_package(package)
        cases = [each for each in example.cases if each.backend == package.backend and each.runs_on(package.backend)]
        built = find_built(package.path, backend=package.backend)
        outcomes += run_cases(built, cases, backend=package.backend, options=TestOptions(loops=20))
    return outcomes


def summary(outcomes: list[Outcome]) -> str:
    """The cases of an op on a backend; its fastest execution."""
    if not outcomes:
        return "-"
    wrong = sum(not each.passed for each in outcomes)
    if wrong:
        return f"{wrong} WRONG of {len(outcomes)}"
    # A refusal that is expected has no numbers.
    return f"{len(outcomes)} ok, {min(each.execute for each in outcomes if each.tensors) * 1e6:.1f} µs"


def main() -> int:
    """Run all examples and print a row for each op."""
    folders = sorted(path.parent for path in HERE.glob("*/reference.py"))
    if not find_spec("halide"):
        note("examples/python_kernels is skipped: pip install 'udogen[kernels]'")
        folders = [each for each in folders if each.name != "python_kernels"]
    outcomes = [outcome for folder in folders for example in load_examples(folder) for outcome in run(example)]
    ops: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        ops.setdefault(outcome.case.op, []).append(outcome)
    rows = [
        (
            op,
            str(len({each.dtype for each in of_op})),
            *(summary([each for each in of_op if each.backend == backend]) for backend in BACKENDS),
        )
        for op, of_op in ops.items()
    ]
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    print()
    for row in (HEAD, tuple("-" * width for width in widths), *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for name in sorted({f"{each.backend}: {each.runtime.name} {each.runtime.build_id}" for each in outcomes}):
        print(f"\n{name}", end="")
    wrong = sum(not outcome.passed for outcome in outcomes)
    print(f"\n\n{len(outcomes) - wrong} of {len(outcomes)} cases agree with numpy")
    print("next: . .venv/bin/activate && udogen test examples/softmax --html report.html")
    return 6 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UdogenError as fault:
        note(f"error: {fault}")
        sys.exit(fault.exit_code)
