"""A test run: every case in every place where it can run; missing places are reported with the reason."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from udogen import __version__, process
from udogen.backends import PLACES
from udogen.backends.backend import Place
from udogen.build import vectors
from udogen.build.package import open_packages
from udogen.errors import BuildFailed, RunFailed, ToolMissing, UdogenError, UsageError
from udogen.findings import Finding
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.shape_rules import Inferred, ShapeRules, load_shape_rules
from udogen.qnn.tensors import Scalar
from udogen.runtime.built import Built
from udogen.runtime.failures import RegistrationFailed
from udogen.runtime.library import RuntimeInfo
from udogen.runtime.op.calls import OpCall
from udogen.runtime.op.request import given_of, infer_outputs
from udogen.runtime.package_queries import ConverterCall, ConverterReply, ask_converter
from udogen.verdict import Status
from udogen.verify import packages
from udogen.verify.cases import Case, CaseError
from udogen.verify.options import TestOptions
from udogen.verify.places import SHAPES, check_available
from udogen.verify.planning import Batch, NetworkJob, TestPlan
from udogen.verify.results import (
    ABSENT,
    BackendState,
    NetworkOutcome,
    NetworkReport,
    Outcome,
    State,
    TestRun,
    joined,
)
from udogen.verify.runner import OnCase, OnStep, run_cases
from udogen.verify.safety.checks import unchecked
from udogen.verify.test_files import configs, references
from udogen.verify.test_files.model import Subject


def run(
    plan: TestPlan,
    options: TestOptions,
    *,
    on_batch: Callable[[Batch], None] = lambda _batch: None,
    on_case: OnCase = lambda _outcome: None,
    on_step: OnStep = lambda _line: None,
) -> TestRun:
    """Run what was planned; only an internal error, or an interrupt, ends it early.

    `on_batch` is called for each package and place before it is built and run, `on_step` for steps of compilers.
    """
    begun = time.perf_counter()
    by_device: dict[str, list[Batch]] = {}  # devices run in parallel, the batches of one device sequentially
    for batch in plan.batches:
        by_device.setdefault(batch.place.device, []).append(batch)
    runs = [partial(_run_batches, batches, options, on_batch, on_case, on_step) for batches in by_device.values()]
    results = [result for of_device in process.at_once(runs, len(runs)) for result in of_device]
    networks = tuple(_run_network(job, options, on_step) for job in plan.networks)
    states = joined([*plan.skipped, *(result.state for result in results)])
    warnings = [*unchecked(options.safety, (batch.place for batch in plan.batches))]
    warnings += [warning for result in results for warning in result.warnings]
    return TestRun(
        folder=plan.files.folder,
        states=tuple(states[name] for name in dict.fromkeys((*PLACES, SHAPES.id, *states)) if name in states),
        outcomes=tuple(outcome for result in results for outcome in result.outcomes),
        seconds=time.perf_counter() - begun,
        environment=environment(),
        warnings=tuple(dict.fromkeys(warnings)),
        networks=networks,
        unwritten=plan.unwritten,
        selection=plan.selection,
        planned=plan.total + len(plan.networks),
        not_executed=tuple(dict.fromkeys(line for result in results for line in result.not_executed)),
    )


@dataclass(frozen=True)
class _BatchResult:
    state: BackendState
    outcomes: Sequence[Outcome] = ()
    warnings: tuple[str, ...] = ()
    not_executed: Sequence[str] = ()


def _run_batches(
    batches: Sequence[Batch],
    options: TestOptions,
    on_batch: Callable[[Batch], None],
    on_case: OnCase,
    on_step: OnStep,
) -> list[_BatchResult]:
    """Run batches sequentially; a missing place is not tried again."""
    missing: dict[str, BackendState] = {}
    results = []
    for batch in batches:
        if batch.place.id in missing:
            results.append(_BatchResult(replace(missing[batch.place.id], cases=len(batch.cases))))
            continue
        on_batch(batch)
        results.append(_run_batch(batch, options, on_case, on_step))
        if results[-1].state.state == "missing":
            missing[batch.place.id] = results[-1].state
    return results


def _run_batch(batch: Batch, options: TestOptions, on_case: OnCase, on_step: OnStep) -> _BatchResult:
    place, cases = batch.place, batch.cases
    if place is SHAPES:
        return _run_shapes(batch, options, on_case)
    ops = list(dict.fromkeys(case.op for case in cases))
    try:
        check_available(place, on_step)
        if place.config:
            built = packages.prepare(batch.source, batch.package, place, ops, options=options, on_step=on_step)
        else:
            built = Built(Path(), "", batch.package.name, None)
    except BuildFailed as error:
        return _run_others(batch, error, options, on_case, on_step)
    except UdogenError as error:
        return _not_run(batch, error)
    if outdated := built.outdated if not options.build and not place.instructions else "":
        fault = RunFailed(outdated, hint="leave --no-build out: the sources differ from the code that would be tested")
        return _BatchResult(_with_cases(place, batch), _all_errors(batch, fault, on_case))
    try:
        outcomes = run_cases(
            built, cases, backend=place.id, options=replace(options, explain=True), on_case=on_case, on_step=on_step
        )
    except BuildFailed as error:  # some places compile when they run
        return _run_others(batch, error, options, on_case, on_step)
    except ToolMissing as error:
        return _not_run(batch, error)
    except RegistrationFailed as error:  # an error in the package: none of its cases has numbers
        return _BatchResult(_with_cases(place, batch), _all_errors(batch, error, on_case))
    executions = vectors.of_folder(built.folder.path, built.folder.sources) if built.folder else ()
    return _BatchResult(_ran(place, outcomes), outcomes, (), vectors.not_executed(executions))


def _with_cases(place: Place, batch: Batch) -> BackendState:
    return BackendState(place.id, place.title, "ran", cases=len(batch.cases))


def _run_others(
    batch: Batch, error: BuildFailed, options: TestOptions, on_case: OnCase, on_step: OnStep
) -> _BatchResult:
    """Run the ops that compile, in a separate package; the cases of the others are errors."""
    ops = tuple(op for op in batch.package.ops if op.name not in error.ops)
    broken = replace(batch, cases=tuple(case for case in batch.cases if case.op in error.ops))
    cases = tuple(case for case in batch.cases if case.op not in error.ops)
    if not cases or len(ops) == len(batch.package.ops):
        return _not_run(batch, error)
    on_step(f"without {', '.join(error.ops)}: {error.message}")
    others = _run_batch(replace(batch, package=batch.package.with_ops(ops), cases=cases), options, on_case, on_step)
    if others.state.state in ABSENT:  # report the first error, which is that of the whole package
        return _not_run(batch, error)
    warning = () if broken.cases else ("\n    ".join((error.message, *error.details)),)
    state = replace(others.state, cases=len(batch.cases), build_failed=True)
    outcomes = (*_all_errors(broken, error, on_case), *others.outcomes)
    return _BatchResult(state, outcomes, (*warning, *others.warnings), others.not_executed)


_NETWORK_TIMEOUT = 10  # times that of a case: all its layers are prepared and executed


def _run_network(job: NetworkJob, options: TestOptions, on_step: OnStep) -> NetworkOutcome:
    """Run one network with the packages and references of its custom ops; an error becomes its outcome."""
    tests, place, begun = job.tests, job.place, time.perf_counter()
    on_step(f"network {tests.name} on {place.id}")
    result: NetworkReport | None = None
    error = None
    status: Status = "passed"
    try:
        check_available(place, on_step)
        assert place.program is not None
        types = place.program.op_types(tests.model, tests.until)
        used = [row for row in job.ops if row[0].op in types]
        built = {}
        for _, source, package in used:
            ops = [row.op for row, _, other in used if other is package]
            if package.name not in built:
                built[package.name] = packages.prepare(source, package, place, ops, options=options, on_step=on_step)
        result = place.program.run_network(
            model=tests.model,
            packages=tuple(prepared.library for prepared in built.values()),
            backend=place.config,
            bits=job.bits,
            inputs=tests.inputs,
            references={row.op: references.find(row.reference, row.folder) for row, _, _ in used if row.reference},
            tolerance=tests.tolerance,
            until=tests.until,
            timeout=_NETWORK_TIMEOUT * options.timeout if options.timeout else None,
        )
        status = "failed" if result.fault else "passed"
    except UdogenError as problem:
        status = "skipped" if isinstance(problem, ToolMissing) else "error"
        error = CaseError.of(problem)
    seconds = time.perf_counter() - begun
    return NetworkOutcome(tests.name, place.id, job.bits, status, str(tests.location), result, error, seconds)


def _is_real(runtime: RuntimeInfo | None) -> bool:
    """Whether the runtime is Qualcomm's own library."""
    return runtime is not None and bool(runtime.build_id) and not runtime.emulator


def run_of(folder: Path, outcomes: Sequence[Outcome]) -> TestRun:
    """The outcomes of `run_cases` as a test run."""
    by_place: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_place.setdefault(outcome.backend, []).append(outcome)
    states = tuple(_ran(PLACES[name], own) for name, own in by_place.items())
    seconds = sum(outcome.seconds for outcome in outcomes)
    return TestRun(folder, states, tuple(outcomes), seconds, environment())


def _ran(place: Place, outcomes: Sequence[Outcome]) -> BackendState:
    """The state of a place where these cases ran."""
    runtime = next((outcome.runtime for outcome in outcomes if outcome.runtime), None)
    real = _is_real(runtime)
    return BackendState(place.id, place.title, "ran", real=real, runtime=runtime, cases=len(outcomes))


def _not_run(batch: Batch, error: UdogenError) -> _BatchResult:
    place = batch.place
    state: State = "missing" if isinstance(error, ToolMissing) else "unbuilt"
    why = BackendState(place.id, place.title, state, error.message, error.hint, error.details)
    return _BatchResult(replace(why, cases=len(batch.cases), build_failed=isinstance(error, BuildFailed)))


def _all_errors(batch: Batch, error: UdogenError, on_case: OnCase) -> list[Outcome]:
    outcomes = []
    for case in batch.cases:
        outcomes.append(
            Outcome(
                case=case,
                backend=batch.place.id,
                dtype=case.output_types,
                status="error",
                package=batch.package.name,
                error=CaseError.of(error),
            )
        )
        on_case(outcomes[-1])
    return outcomes


def environment() -> tuple[tuple[str, str], ...]:
    """The environment that numbers and times depend on."""
    return (
        ("udogen", __version__),
        ("machine", f"{platform.machine()}, {os.cpu_count()} cores, {_processor()}"),
        ("system", f"{platform.system()} {platform.release()}"),
        ("Python", f"{platform.python_version()}, numpy {np.__version__}"),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


# --- the place `shapes`: compares shape rules, converter op package and reference; runs no op -------------------------


def _run_shapes(batch: Batch, options: TestOptions, on_case: OnCase) -> _BatchResult:
    try:
        outcomes = _compare_shapes(batch.source.subject, batch.package, batch.cases, options)
    except (ToolMissing, BuildFailed) as error:
        return _not_run(batch, error)
    except UdogenError as error:
        outcomes = _all_errors(batch, error, on_case)
    else:
        for outcome in outcomes:
            on_case(outcome)
    return _BatchResult(BackendState(SHAPES.id, SHAPES.title, "ran", cases=len(outcomes)), outcomes)


def _compare_shapes(subject: Subject, package: OpPackage, cases: Sequence[Case], options: TestOptions) -> list[Outcome]:
    """Compare the shapes of every case without running an op; raises if the rules or the library cannot be loaded."""
    rules = load_shape_rules(subject.rules, package.ops) if subject.rules else None
    library = _library(subject.converter, options) if subject.converter else None
    built = Built(library or Path(), "", package.name, None)
    ops = {op.name: op for op in package.ops}
    outcomes = [_shape_outcome(case, package) for case in cases]
    calls: dict[int, OpCall] = {}
    for number, case in enumerate(cases):
        op = configs.op_for(package, case.op, case.backend)
        if case.error is None and op is not None:
            try:
                calls[number] = case.call(op, built, by_name=True)
            except UdogenError as error:
                outcomes[number] = replace(outcomes[number], error=CaseError.of(error))
    questions = [_question(call, ops[call.op_type]) for call in calls.values()]
    replies = ask_converter(library, questions, timeout=options.timeout) if library else [None] * len(calls)
    for (number, call), reply in zip(calls.items(), replies, strict=True):
        outcome = replace(outcomes[number], dtype=" ".join({output.dtype for output in call.outputs}))
        try:
            outcomes[number] = _compared(outcome, call, reply, ops[call.op_type], rules)
        except UdogenError as error:
            outcomes[number] = replace(outcome, error=CaseError.of(error))
    return outcomes


def _shape_outcome(case: Case, package: OpPackage) -> Outcome:
    return Outcome(case=case, backend=SHAPES.id, dtype="", status="error", package=package.name, error=case.error)


def _library(path: Path, options: TestOptions) -> Path:
    if not path.is_dir():
        return path
    folder = next((package for package in open_packages(path) if package.kind.converter), None)
    if folder is None:
        raise UsageError(f"{path} is not a converter op package", hint="`udogen generate --converter` makes one")
    if options.build:
        return packages.build(folder, "converter", jobs=options.jobs)[0]
    return next(library for row in folder.rows if row.native for library in folder.artifacts(row))


def _question(call: OpCall, op: Op) -> ConverterCall:
    # A converter knows only the values of tensors that are static in the model.
    static = {tensor.name for tensor in op.inputs if tensor.static}
    inputs = [None if tensor.omitted else given_of(tensor, data=tensor.name in static) for tensor in call.inputs]
    params = {param.name: param if isinstance(param, Scalar) else given_of(param) for param in call.params}
    return ConverterCall(call.op_type, inputs, params, len(call.outputs))


def _compared(
    outcome: Outcome, call: OpCall, reply: ConverterReply | None, op: Op, rules: ShapeRules | None
) -> Outcome:
    """The outcome of a case, with a finding for each difference; raises if its shape rule raises."""
    inferred = infer_outputs(rules, op, call.inputs, call.params, call.outputs) if rules else {}
    compared = 0
    findings: list[Finding] = []
    fault = reply.fault if reply else ""
    shapes, types = (reply.shapes, reply.dtypes) if reply and not fault else ((), ())
    for number, output in enumerate(call.outputs):
        rule, expected = inferred.get(output.name), outcome.case.expected.get(output.name)
        rows = {
            "the reference": None if expected is None else tuple(expected.shape),
            "the shape rule": rule.shape if rule else None,
            "the converter library": shapes[number] if shapes else None,
        }
        pairs = list(pairwise((source, shape) for source, shape in rows.items() if shape is not None))
        compared += len(pairs)
        findings += [_difference(output.name, *pair) for pair in pairs if pair[0][1] != pair[1][1]]
        if types:
            findings += _type_difference(call.op_type, output.name, types[number], rule)
    if fault:
        hint = "write it in ConverterOpPackage.cpp; the library prints its reason on stderr"
        findings.append(Finding(f"the converter library has no result: {fault}", hint, kind="converter"))
    status: Status = "failed" if findings else "passed" if compared else "ran"
    return replace(outcome, status=status, findings=tuple(findings))


def _type_difference(op: str, output: str, found: str | None, rule: Inferred | None) -> Iterator[Finding]:
    if rule and rule.dtype and found != rule.dtype:
        yield Finding(
            f"for `{output}` the converter library returns the type {found or 'unknown'}, "
            f"the config or its rule {rule.dtype}",
            f"see {op}DataTypeInference in ConverterOpPackage.cpp",
            kind="converter",
        )


def _difference(name: str, known: tuple[str, tuple[int, ...]], found: tuple[str, tuple[int, ...]]) -> Finding:
    (other, expected), (who, shape) = (
        (source, "x".join(map(str, extents)) or "a scalar") for source, extents in (known, found)
    )
    sentence = f"for `{name}` {who} returns {shape}, {other} {expected}"
    return Finding(sentence, "correct the one that is wrong", kind="shape")
