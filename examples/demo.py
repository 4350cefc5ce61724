"""`make demo`: every example from its config to checked numbers on Qualcomm's CPU and HTP runtimes.

Also shows how udogen is used from Python.
"""

from __future__ import annotations

import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from udogen import (
    Example,
    GenerateOptions,
    Outcome,
    TestOptions,
    UdogenError,
    Verdict,
    build_package,
    generate_packages,
    load_configs,
    load_examples,
    open_packages,
    run_cases,
    write_report,
)
from udogen.runtime import find_built

HERE = Path(__file__).resolve().parent
WORK = HERE.parent / ".demo"
BACKENDS = ("cpu", "htp")  # `udogen test examples/softmax` runs the others too


def note(line: str) -> None:
    """Print a line of progress."""
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


def summary(backend: str, outcomes: list[Outcome]) -> str:
    """How many cases agree on a backend, and what ran them."""
    ops, right = len({each.case.op for each in outcomes}), sum(each.passed for each in outcomes)
    runtime = next((each.runtime for each in outcomes if each.runtime), None)
    title = f"{runtime.name} {runtime.build_id}" if runtime else "nothing ran"
    return f"{backend}: {ops} ops, {right} of {len(outcomes)} cases agree with numpy ({title})"


def main() -> int:
    """Run all examples, print a line for each backend, and write a report."""
    folders = sorted(path.parent for path in HERE.glob("*/reference.py"))
    if not find_spec("halide"):
        note("examples/python_kernels is skipped: pip install '.[kernels]'")
        folders = [each for each in folders if each.name != "python_kernels"]
    examples = [example for folder in folders for example in load_examples(folder)]
    planned = sum(each.backend in BACKENDS and each.runs_on(each.backend) for one in examples for each in one.cases)
    outcomes = [outcome for example in examples for outcome in run(example)]
    verdict = Verdict.of([(each.status, "") for each in outcomes], planned=planned)
    wrong = Counter((each.case.op, each.backend) for each in outcomes if not each.passed)
    print()
    for backend in BACKENDS:
        print(summary(backend, [each for each in outcomes if each.backend == backend]))
    for (op, backend), count in wrong.items():
        print(f"{op} on {backend}: {count} WRONG")
    report = WORK / "report.html"
    write_report(HERE, outcomes, report)
    print(f"report: {report}")
    for reason in verdict.reasons:
        note(f"error: {reason}")
    print("next: . .venv/bin/activate && udogen new scale && cd scale && make test")
    return verdict.exit_code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UdogenError as fault:
        note(f"error: {fault}")
        sys.exit(fault.exit_code)
