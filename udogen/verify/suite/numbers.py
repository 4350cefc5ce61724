"""The numbers of one case: inputs drawn and stored, the reference on what they stand for, its answer stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from udogen.errors import UdogenError, UsageError, open_plain
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Tensor
from udogen.verify import tolerances
from udogen.verify import values as drawing
from udogen.verify.cases import Arrays, Case, Origin
from udogen.verify.references import Reference
from udogen.verify.results import Trouble
from udogen.verify.suite.model import EVERY, Given, QuantWish, Shape

if TYPE_CHECKING:
    from udogen.verify.suite.expand import Plan

Quants = dict[str, drawing.Quant]


def shape_of(given: object) -> Shape | None:
    """The shape of numbers that a test file gives itself; None where they are drawn."""
    if not isinstance(given, Given):
        return None
    return tuple(_numbers(given).shape)


def make(plan: Plan, reference: Reference | None, backend: str) -> Case:
    """The case; where its numbers cannot be made, it says so itself."""
    group, op = plan.group, plan.op
    dtypes = {name: row.name for name, row in plan.types.items() if _is_there(name, plan)}
    case = Case(
        name=plan.name,
        op=op.name,
        inputs={},
        expected={},
        params=plan.params,
        dtypes=dtypes,
        tolerance={each.name: tolerances.of(plan.types[each.name], group.tolerances) for each in op.outputs},
        backend=backend,
        shapes={each.name: plan.shapes[each.name] for each in op.outputs if each.name in plan.shapes},
        refusal=group.expect == "refusal",
    )
    try:
        inputs, quants = _inputs(plan)
        case = replace(case, inputs=inputs, quants=quants)
        if reference is None or case.refusal:
            return replace(case, quants={**quants, **_output_quants(plan, {})})
        answers = _answer(plan, reference, inputs, quants, plan.params)
        every = {**quants, **_output_quants(plan, answers)}
        expected = _stored(plan, answers, every)
    except UdogenError as fault:
        return replace(case, trouble=Trouble(fault.kind, fault.message, fault.hint, fault.details))
    return replace(
        case,
        quants=every,
        expected=expected,
        origin=Origin(
            reshaped=partial(_reshaped, plan, reference, backend),
            reference=_asker(plan, reference),
            baseline=_baseline(plan, reference, inputs, quants),
            answer=lambda inputs, params, quants: _answer(plan, reference, inputs, quants, params),
            location=str(group.where()),
        ),
    )


def _is_there(name: str, plan: Plan) -> bool:
    """Outputs, and inputs that are not left out."""
    inputs = {each.name for each in plan.op.inputs}
    return name not in inputs or any(_head(each, plan) == name for each in plan.shapes)


def _head(name: str, plan: Plan) -> str:
    """`x` of `x.0`, a part of a repeated input."""
    if any(each.name == name for each in plan.op.inputs):
        return name
    return name.rpartition(".")[0] or name


def _inputs(plan: Plan) -> tuple[dict[str, Any], Quants]:
    import numpy as np

    random = np.random.default_rng(plan.seed)
    inputs: dict[str, Any] = {}
    quants: Quants = {}
    for name, shape in plan.shapes.items():
        head = _head(name, plan)
        if head not in {each.name for each in plan.op.inputs}:
            continue
        dtype = plan.types[head]
        quant = _said_quant(plan, name, dtype)
        how = plan.values.get(name, plan.values.get(head, plan.values.get(EVERY, drawing.usual(dtype))))
        if isinstance(how, Given):
            real = _given_as(how, shape, name)
        else:
            real = drawing.draw(how, dtype=dtype, shape=shape, random=random, quant=quant)
        if dtype.quantized and quant is None:
            quant = drawing.quant_for(*drawing.span(real), dtype)
        if quant is not None and dtype.quantized:
            quants[name] = quant
        inputs[name] = drawing.store(real, dtype, quant)
    return inputs, quants


def _numbers(given: Given) -> Any:
    import numpy as np

    if given.file is None:
        try:
            return np.asarray(given.numbers, np.float64)
        except (ValueError, TypeError) as fault:
            raise UsageError(f"`values` has a list that is no tensor: {fault}", hint="rows of equal length") from fault
    try:
        with open_plain(given.file) as file:
            return np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as fault:
        raise UsageError(
            f"{given.file} is no array that numpy can load: {fault}", hint="save it with numpy.save"
        ) from fault


def _given_as(how: Given, shape: Shape, name: str) -> Any:
    import numpy as np

    found = _numbers(how)
    try:
        return np.broadcast_to(found, shape)
    except ValueError as fault:
        said = "x".join(map(str, found.shape)) or "one number"
        raise UsageError(
            f"`values` of `{name}` are {said}, and its shape is {'x'.join(map(str, shape)) or 'that of a scalar'}",
            hint="leave `shape` out, or give numbers of that shape",
        ) from fault


def _said_quant(plan: Plan, name: str, dtype: DataType) -> drawing.Quant | None:
    wish: QuantWish | None = plan.group.quants.get(name, plan.group.quants.get(_head(name, plan)))
    if wish is None or not dtype.quantized:
        return None
    if wish.scale is not None:
        return wish.scale, wish.offset
    return drawing.quant_for(wish.low or 0.0, wish.high or 0.0, dtype)


def _answer(
    plan: Plan, reference: Reference, inputs: Arrays, quants: Mapping[str, drawing.Quant], params: Mapping[str, object]
) -> dict[str, Any]:
    """What the reference says, in real numbers."""
    given = [_real_input(plan, each, inputs, quants) for each in plan.op.inputs]
    return reference(given, _all_params(plan, params), [each.name for each in plan.op.outputs])


def _real_input(plan: Plan, tensor: Tensor, inputs: Arrays, quants: Mapping[str, drawing.Quant]) -> Any:
    """The real numbers of an input; of a repeated one a list; None where it is left out."""
    dtype = plan.types[tensor.name]
    names = [name for name in inputs if _head(name, plan) == tensor.name]
    real = [drawing.to_real(inputs[name], dtype, quants.get(name)) for name in names]
    if tensor.repeated:
        return real
    return real[0] if real else None


def _all_params(plan: Plan, given: Mapping[str, object]) -> dict[str, object]:
    """Parameters by name, with the config's default where a case leaves one out; lists are arrays."""
    found: dict[str, object] = {}
    for param in plan.op.params:
        value = given.get(param.name, param.default)
        if value is None:
            continue
        found[param.name] = value if isinstance(value, str) else _as_passed(value, param)
    return found


def _as_passed(value: Any, param: Tensor) -> Any:
    """A number as the op is given it: 0.2 is another one in 32 bits."""
    import numpy as np

    floats = [row for row in param.datatypes if row.kind == "float" and row.numpy]
    if isinstance(value, bool) or not floats or floats[0] is not param.datatypes[0]:
        return value if param.is_scalar else np.asarray(value)
    made = np.asarray(value, floats[0].numpy).astype(np.float64)
    return float(made) if param.is_scalar else made


def _output_quants(plan: Plan, answers: Mapping[str, Any]) -> Quants:
    """As the test file says; otherwise what covers the answer."""
    found: Quants = {}
    for tensor in plan.op.outputs:
        dtype = plan.types[tensor.name]
        if not dtype.quantized:
            continue
        said = _said_quant(plan, tensor.name, dtype)
        reach = drawing.span(answers[tensor.name]) if tensor.name in answers else (-1.0, 1.0)
        found[tensor.name] = said or drawing.quant_for(*reach, dtype)
    return found


def _stored(plan: Plan, answers: Mapping[str, Any], quants: Mapping[str, drawing.Quant]) -> dict[str, Any]:
    return {
        name: drawing.store(real, plan.types[name], quants.get(name)) for name, real in answers.items()
    }  # fmt: skip


def _asker(
    plan: Plan, reference: Reference
) -> Callable[[Arrays, Mapping[str, object], Mapping[str, drawing.Quant]], Arrays]:
    def ask(inputs: Arrays, params: Mapping[str, object], quants: Mapping[str, drawing.Quant]) -> Arrays:
        return _answer(plan, reference, inputs, quants, params)

    return ask


def _baseline(plan: Plan, reference: Reference, inputs: Arrays, quants: Quants) -> Callable[[], object]:
    """The reference as numpy would be used: on floats of 32 bits where the op has floats or fixed point."""
    import numpy as np

    def prepared(tensor: Tensor) -> Any:
        real = _real_input(plan, tensor, inputs, quants)
        if isinstance(real, list):
            return [each.astype(np.float32) if each.dtype == np.float64 else each for each in real]
        return real.astype(np.float32) if real is not None and real.dtype == np.float64 else real

    given = [prepared(each) for each in plan.op.inputs]
    params = _all_params(plan, plan.params)
    return lambda: reference.function(*given, **params)


def _reshaped(plan: Plan, reference: Reference, backend: str, shapes: Mapping[str, Shape]) -> Case | None:
    """The same with other shapes of inputs; None where the reference does not take them."""
    if not shapes.keys() <= plan.shapes.keys():
        return None
    made = make(replace(plan, name=f"{plan.name} → smaller", shapes={**plan.shapes, **shapes}), reference, backend)
    return None if made.trouble else made
