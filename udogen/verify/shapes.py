"""The place `shapes`: shapes and types of outputs, as shape rules, the converter op package and references have them.

No op is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.build import make, tools
from udogen.build.package import open_packages
from udogen.errors import UdogenError, UsageError
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.shape_rules import Given, Inferred, ShapeRules, load_shape_rules
from udogen.runtime.built import Built
from udogen.runtime.converter_host import Answer, Question, ScalarParam, ask_all
from udogen.runtime.op.calls import OpCall
from udogen.runtime.op.inferred_shapes import given_of, infer_outputs
from udogen.runtime.op.request import CallOptions, make_call
from udogen.verify.results import Finding, Outcome, Trouble
from udogen.verify.test_files import configs
from udogen.verify.test_files.model import Subject

if TYPE_CHECKING:
    from udogen.verify.cases import Case

_WHERE = "shapes"


def run_cases(
    subject: Subject, package: OpPackage, cases: Sequence[Case], *, build: bool, timeout: float | None
) -> list[Outcome]:
    """Every case; raises where rules or library cannot be had at all."""
    rules = load_shape_rules(subject.rules, package.ops) if subject.rules else None
    library = _library(subject.converter, build=build) if subject.converter else None
    built = Built(library or Path(), "", package.name, None)
    outcomes: list[Outcome] = []
    calls: list[OpCall] = []
    for case in cases:
        outcome = Outcome(
            case=case, backend=_WHERE, dtype="", status="error", package=package.name, trouble=case.trouble
        )
        op = configs.op_for(package, case.op, case.backend)
        if case.trouble is None and op is not None:
            try:
                calls.append(_call(case, op, built))
                outcome = replace(outcome, status="passed", dtype=" ".join({each.dtype for each in calls[-1].outputs}))
            except UdogenError as fault:
                outcome = replace(outcome, trouble=Trouble(fault.kind, fault.message, fault.hint, fault.details))
        outcomes.append(outcome)
    asked = [_question(each, _op(package, each)) for each in calls]
    answers = ask_all(library, asked, timeout=timeout) if library else [None] * len(calls)
    made = zip(calls, answers, strict=True)
    return [
        _compared(outcome, *next(made), package, rules) if outcome.status == "passed" else outcome
        for outcome in outcomes
    ]


def _library(path: Path, *, build: bool) -> Path:
    if not path.is_dir():
        return path
    folder = next((each for each in open_packages(path) if each.backend == "converter"), None)
    if folder is None:
        raise UsageError(f"{path} is no converter op package", hint="`udogen generate --converter` makes one")
    if build:
        names = [row.id for row in folder.rows if row.native]
        make.build(folder, make.plan(folder, names, toolchain="auto", env=tools.environment()), jobs=0)
    return next(each for row in folder.rows if row.native for each in folder.artifacts(row))


def _call(case: Case, op: Op, built: Built) -> OpCall:
    options = CallOptions(
        inputs=case.inputs,
        params=case.params,
        quants=case.quants,
        dtypes=case.dtypes,
        shapes=case.output_shapes,
        by_name=True,
    )
    return make_call(op, built, case.op, options)


def _op(package: OpPackage, call: OpCall) -> Op:
    return next(each for each in package.ops if each.name == call.op_type)


def _question(call: OpCall, op: Op) -> Question:
    # A converter knows the numbers of what is static in the model alone.
    static = {each.name for each in op.inputs if each.static}
    inputs = [None if each.omitted else given_of(each, data=each.name in static) for each in call.inputs]
    params: dict[str, ScalarParam | Given] = {}
    for each in call.params:
        value = each.value
        params[each.name] = (
            ScalarParam(each.dtype, value) if isinstance(value, (bool, int, float, str)) else given_of(each)
        )
    return Question(call.op_type, inputs, params, len(call.outputs))


def _compared(
    outcome: Outcome, call: OpCall, answer: Answer | None, package: OpPackage, rules: ShapeRules | None
) -> Outcome:
    """The outcome of a case: what differs is a finding each."""
    inferred: dict[str, Inferred] = {}
    if rules is not None:
        try:
            inferred = infer_outputs(rules, _op(package, call), call.inputs, call.params, call.outputs)
        except UdogenError as fault:
            trouble = Trouble(fault.kind, fault.message, fault.hint, fault.details)
            return replace(outcome, status="error", trouble=trouble)
    findings: list[Finding] = []
    for number, output in enumerate(call.outputs):
        ruled = inferred.get(output.name)
        expected = outcome.case.expected.get(output.name)
        known = [("the reference", tuple(expected.shape))] if expected is not None else []
        if ruled and ruled.shape is not None:
            findings += _unequal(output.name, "the shape rule", ruled.shape, known)
            known = [("the shape rule", ruled.shape)]
        if answer is None or answer.fault:
            continue
        findings += _unequal(output.name, "the converter library", answer.shapes[number], known)
        if ruled and ruled.dtype and answer.dtypes[number] != ruled.dtype:
            findings.append(
                Finding(
                    "converter",
                    f"for `{output.name}` the converter library returns the type {answer.dtypes[number] or 'unknown'}, "
                    f"the config or its rule {ruled.dtype}",
                    hint=f"see {call.op_type}DataTypeInference in ConverterOpPackage.cpp",
                )
            )
    if answer is not None and answer.fault:
        hint = "write it in ConverterOpPackage.cpp; the library prints its reason on stderr"
        findings.append(Finding("converter", f"the converter library has no result: {answer.fault}", hint=hint))
    return replace(outcome, status="failed" if findings else "passed", findings=tuple(findings))


def _unequal(
    name: str, who: str, found: tuple[int, ...], known: Sequence[tuple[str, tuple[int, ...]]]
) -> Iterator[Finding]:
    def text(shape: tuple[int, ...]) -> str:
        return "x".join(map(str, shape)) or "a scalar"

    for other, shape in known:
        if shape != found:
            sentence = f"for `{name}` {who} returns {text(found)}, {other} {text(shape)}"
            yield Finding("shape", sentence, hint="mend the one that is wrong")
