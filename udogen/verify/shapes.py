"""The place `shapes`: output shapes and types by shape rules, converter op package and reference, compared.

No op is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from udogen.build.package import open_packages
from udogen.errors import UdogenError, UsageError
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.shape_rules import Given, Inferred, ShapeRules, load_shape_rules
from udogen.qnn.tensors import Scalar
from udogen.runtime.built import Built
from udogen.runtime.converter_host import ConverterCall, ConverterReply, ask_all
from udogen.runtime.op.calls import OpCall
from udogen.runtime.op.request import given_of, infer_outputs
from udogen.verify import packages
from udogen.verify.cases import Case, CaseError
from udogen.verify.options import TestOptions
from udogen.verify.places import SHAPES
from udogen.verify.results import Finding, Outcome, Status
from udogen.verify.test_files import configs
from udogen.verify.test_files.model import Subject


def run_cases(subject: Subject, package: OpPackage, cases: Sequence[Case], options: TestOptions) -> list[Outcome]:
    """Every case; raises if the rules or the library cannot be loaded at all."""
    rules = load_shape_rules(subject.rules, package.ops) if subject.rules else None
    library = _library(subject.converter, options) if subject.converter else None
    built = Built(library or Path(), "", package.name, None)
    outcomes: list[Outcome] = []
    calls: list[OpCall] = []
    for case in cases:
        outcome = Outcome(
            case=case, backend=SHAPES.id, dtype="", status="error", package=package.name, error=case.error
        )
        op = configs.op_for(package, case.op, case.backend)
        if case.error is None and op is not None:
            try:
                calls.append(case.call(op, built, by_name=True))
                outcome = replace(outcome, status="passed", dtype=" ".join({each.dtype for each in calls[-1].outputs}))
            except UdogenError as error:
                outcome = replace(outcome, error=CaseError.of(error))
        outcomes.append(outcome)
    questions = [_question(each, _op(package, each)) for each in calls]
    replies = ask_all(library, questions, timeout=options.timeout) if library else [None] * len(calls)
    asked = zip(calls, replies, strict=True)
    return [
        _compared(outcome, *next(asked), package, rules) if outcome.status == "passed" else outcome
        for outcome in outcomes
    ]


def _library(path: Path, options: TestOptions) -> Path:
    if not path.is_dir():
        return path
    folder = next((each for each in open_packages(path) if each.kind.converter), None)
    if folder is None:
        raise UsageError(f"{path} is not a converter op package", hint="`udogen generate --converter` makes one")
    if options.build:
        return packages.build(folder, "converter", jobs=options.jobs)[0]
    return next(each for row in folder.rows if row.native for each in folder.artifacts(row))


def _op(package: OpPackage, call: OpCall) -> Op:
    return next(each for each in package.ops if each.name == call.op_type)


def _question(call: OpCall, op: Op) -> ConverterCall:
    # A converter knows the values of tensors that are static in the model, and of no others.
    static = {each.name for each in op.inputs if each.static}
    inputs = [None if each.omitted else given_of(each, data=each.name in static) for each in call.inputs]
    params: dict[str, Scalar | Given] = {}
    for each in call.params:
        value = each.value
        params[each.name] = (
            Scalar(each.name, each.dtype, value) if isinstance(value, (bool, int, float, str)) else given_of(each)
        )
    return ConverterCall(call.op_type, inputs, params, len(call.outputs))


def _compared(
    outcome: Outcome, call: OpCall, reply: ConverterReply | None, package: OpPackage, rules: ShapeRules | None
) -> Outcome:
    """The outcome of a case, with a finding for each difference."""
    inferred: dict[str, Inferred] = {}
    if rules is not None:
        try:
            inferred = infer_outputs(rules, _op(package, call), call.inputs, call.params, call.outputs)
        except UdogenError as error:
            return replace(outcome, status="error", error=CaseError.of(error))
    compared = 0
    findings: list[Finding] = []
    fault = reply.fault if reply else ""
    shapes, types = (reply.shapes, reply.dtypes) if reply and not fault else ((), ())
    for number, output in enumerate(call.outputs):
        rule, expected = inferred.get(output.name), outcome.case.expected.get(output.name)
        rows = [
            ("the reference", None if expected is None else tuple(expected.shape)),
            ("the shape rule", rule.shape if rule else None),
            ("the converter library", shapes[number] if shapes else None),
        ]
        pairs = list(pairwise(row for row in rows if row[1] is not None))
        compared += len(pairs)
        findings += [_difference(output.name, *pair) for pair in pairs if pair[0][1] != pair[1][1]]
        if types:
            findings += _type_difference(call.op_type, output.name, types[number], rule.dtype if rule else None)
    if fault:
        hint = "write it in ConverterOpPackage.cpp; the library prints its reason on stderr"
        findings.append(Finding("converter", f"the converter library has no result: {fault}", hint=hint))
    status: Status = "failed" if findings else "passed" if compared else "ran"
    return replace(outcome, status=status, findings=tuple(findings))


def _type_difference(op: str, output: str, found: str | None, expected: str | None) -> Iterator[Finding]:
    if expected and found != expected:
        yield Finding(
            "converter",
            f"for `{output}` the converter library returns the type {found or 'unknown'}, "
            f"the config or its rule {expected}",
            hint=f"see {op}DataTypeInference in ConverterOpPackage.cpp",
        )


def _difference(
    name: str, known: tuple[str, tuple[int, ...] | None], found: tuple[str, tuple[int, ...] | None]
) -> Finding:
    (other, expected), (who, shape) = (
        (each, "x".join(map(str, extents or ())) or "a scalar") for each, extents in (known, found)
    )
    sentence = f"for `{name}` {who} returns {shape}, {other} {expected}"
    return Finding("shape", sentence, hint="correct the one that is wrong")
