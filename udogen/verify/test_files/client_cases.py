"""Additional cases for places where a client runs the op: what clients do differently from `udogen run op`.

They are derived from the cases of the test file: all parameters, other orders, optional ones left out; and chains, in
which the output of one node is the input of the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from udogen.backends.backend import Place
from udogen.errors import UdogenError
from udogen.opdef.model import OpPackage, Tensor
from udogen.verify.cases import Case
from udogen.verify.test_files import configs
from udogen.verify.test_files.expand import CasePlan, make, plans_of, stored_outputs
from udogen.verify.test_files.model import OpTests
from udogen.verify.test_files.references import ReferenceFunction, find
from udogen.verify.tolerances import Tolerance

_MOST_LEFT_OUT = 6  # parameters, each left out in a separate case
_LONGEST = 3  # nodes of a chain
_MOST_NUMBERS = 4096  # elements of a tensor: these cases test what passes between the nodes
PREFIX = "client: "  # of the names of these cases


def cases_of(tests: OpTests, package: OpPackage, place: Place) -> list[Case]:
    """The cases for one op in a place where a program runs it; empty without a reference."""
    assert place.program is not None
    backend = place.config
    op = configs.op_for(package, tests.op, backend)
    reference = find(tests.reference, tests.folder) if tests.reference else None
    if op is None or reference is None:
        return []
    plans = [plan for plan in plans_of(tests, package, backend, op) if plan.group.expect == "numbers"]
    cases: list[Case] = []
    for dtypes in dict.fromkeys(tuple(plan.types.items()) for plan in plans):
        same = [plan for plan in plans if tuple(plan.types.items()) == dtypes]
        sent = [param for param in op.params if param.mandatory or not place.program.param_fault(param)]
        cases += _of_params(same, sent, reference, backend)
        cases += _chains(same, reference, backend)
    return cases


# --- parameters -------------------------------------------------------------------------------------------


def _of_params(
    plans: Sequence[CasePlan], sent: Sequence[Tensor], reference: ReferenceFunction, backend: str
) -> Iterator[Case]:
    """Cases with other choices and orders of the parameters; `sent` are those that the program can pass."""
    if not sent:
        return
    plan = max(plans, key=lambda plan: _distinct_values(plan, sent))
    every = _every(plan, sent)
    for name, params in _choices(every, sent).items():
        if list(params.items()) != list(plan.params.items()):
            yield make(replace(plan, name=f"{PREFIX}{name}", params=params), reference, backend)


def _every(plan: CasePlan, sent: Sequence[Tensor]) -> dict[str, object]:
    """The parameters of a plan, with defaults for those that it leaves out, in the order of the config."""
    values = {param.name: plan.params.get(param.name, param.default) for param in sent}
    return {name: value for name, value in values.items() if value is not None}


def _distinct_values(plan: CasePlan, sent: Sequence[Tensor]) -> tuple[int, int]:
    """The number of distinct values of the same type (only these show an exchange), then the size of the shapes."""
    by_type: dict[str, list[str]] = {}
    types = {param.name: param.datatypes[0].name for param in sent}
    for name, value in _every(plan, sent).items():
        by_type.setdefault(types[name], []).append(str(value))
    size = sum(len(rows) for rows in plan.shapes.values())
    return sum(len(set(texts)) - 1 for texts in by_type.values()), size


def _choices(every: Mapping[str, object], sent: Sequence[Tensor]) -> dict[str, dict[str, object]]:
    """The parameters to send, in order, by name of the case."""
    names = list(every)
    defaults = [
        param.name for param in sent if param.name in every and not param.mandatory and param.default is not None
    ]
    choices = {"all parameters": dict(every)}
    if len(names) > 1:
        choices[f"parameters as {', '.join(reversed(names))}"] = {name: every[name] for name in reversed(names)}
    if len(names) > 2:
        turned = [*names[1:], names[0]]
        choices[f"parameters as {', '.join(turned)}"] = {name: every[name] for name in turned}
    if defaults:
        choices["defaults"] = {name: every[name] for name in names if name not in defaults}
    if len(names) > 1:
        for left_out in defaults[:_MOST_LEFT_OUT]:
            choices[f"without {left_out}"] = {name: every[name] for name in names if name != left_out}
    return choices


# --- chains -----------------------------------------------------------------------------------------------


def _chains(plans: Sequence[CasePlan], reference: ReferenceFunction, backend: str) -> Iterator[Case]:
    """Chains of two and three nodes, which alternate between the parameters of two cases if there are several."""
    for first in plans:
        case = make(first, reference, backend)
        if not _can_follow_itself(case, first):
            continue
        others = [plan for plan in plans if plan.shapes == first.shapes and plan.params != first.params] or [first]
        chain = [case]
        while len(chain) < _LONGEST:
            plan = others[0] if len(chain) % 2 else first
            following = _next(chain[-1], plan, reference, backend)
            if following is None:
                break
            chain.append(following)
            yield replace(
                following,
                name=f"{PREFIX}chain of {len(chain)}",
                before=tuple(chain[:-1]),
                origin=None,
            )
        return


def _can_follow_itself(case: Case, plan: CasePlan) -> bool:
    """Whether its output can be its input."""
    if case.error is not None or not case.inputs or not case.expected or not plan.op.inputs:
        return False
    into, out = plan.op.inputs[0], plan.op.outputs[0]
    given, returned = case.inputs.get(into.name), case.expected.get(out.name)
    return (
        given is not None
        and returned is not None
        and not into.static
        and plan.types[into.name] == plan.types[out.name]
        and given.shape == returned.shape
        and given.size <= _MOST_NUMBERS
    )


def _next(before: Case, plan: CasePlan, reference: ReferenceFunction, backend: str) -> Case | None:
    """The case whose input is the output of an earlier one; its tolerance includes the error allowed there."""
    into, out = plan.op.inputs[0], plan.op.outputs[0]
    case = make(plan, reference, backend)
    if case.origin is None:
        return None
    origin, between = case.origin, before.expected[out.name]
    quants = dict(case.quants)
    if out.name in before.quants:
        quants[into.name] = before.quants[out.name]

    def stored(first: Any) -> dict[str, Any]:
        reals = origin.reference({**case.inputs, into.name: first}, case.params, quants)
        return stored_outputs(plan, reals, quants)

    try:
        expected = stored(between)
        allowed = before.tolerance_of(out.name).allowed(between)
        near = [stored(_moved(between, sign * allowed)) for sign in (-1, 1)]
    except UdogenError:
        return None
    tolerance = {}
    for name, array in expected.items():
        own = case.tolerance_of(name)
        gaps = [np.abs(outputs[name].astype(np.float64) - array.astype(np.float64)) for outputs in near]
        gap = float(np.nanmax(np.where(np.isfinite(gaps), gaps, 0), initial=0.0))
        tolerance[name] = Tolerance(own.absolute + 2 * gap, own.relative, own.ulp)
    inputs = {**case.inputs, into.name: between}
    return replace(case, inputs=inputs, quants=quants, expected=expected, tolerance=tolerance)


def _moved(array: Any, distance: Any) -> Any:
    """Stored numbers, shifted by a distance."""
    if array.dtype.kind == "f":
        return (array.astype(np.float64) + distance).astype(array.dtype)
    limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
    if limits is None:
        return array
    return np.clip(array.astype(np.int64) + np.ceil(distance).astype(np.int64), limits.min, limits.max).astype(
        array.dtype
    )
