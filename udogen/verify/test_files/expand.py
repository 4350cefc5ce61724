"""Expands a test file and configs to cases: all combinations in a group, with inputs and expected outputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from udogen.backends import PLACES
from udogen.errors import UdogenError, UsageError
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.python_files import load_module, user_code
from udogen.verify import tolerances
from udogen.verify.cases import Arrays, Case, CaseError, Example, Origin, Quants
from udogen.verify.test_files import configs, read, values
from udogen.verify.test_files.model import (
    EVERY,
    CaseGroup,
    GivenNumbers,
    OpTests,
    Quantization,
    Shape,
    Subject,
    TestFiles,
)
from udogen.verify.test_files.references import ReferenceFailed, ReferenceFunction, find

# Shapes if a test file has none: odd lengths, lengths that are not multiples of a vector, and one of a typical network.
_USUAL_SHAPES: tuple[Shape, ...] = ((7,), (3, 5), (2, 5, 7), (1, 8, 8, 16), (1, 3, 5, 33), (2, 3, 4, 5, 6))
_OF_ANY_RANK: tuple[Shape, ...] = ((7,), (3, 5), (1, 8, 8, 16))
_TAILS = (1, 63, 64, 65, 127, 128, 129)  # elements: an HVX vector has 128 of 8 bits, 64 of 16 bits
_DEFAULT = "default"  # the parameter is left out


@dataclass(frozen=True)
class CasePlan:
    """One case, before its inputs are made."""

    name: str
    op: Op
    group: CaseGroup
    types: Mapping[str, DataType]
    shapes: Mapping[str, Shape]  # of inputs, and of outputs that the test file names
    fills: Mapping[str, Any]
    params: Mapping[str, object]
    seed: int
    places: tuple[str, ...] = ()  # where it runs; empty: everywhere that packages of its backend run


def cases_of(tests: OpTests, package: OpPackage, backend: str) -> list[Case]:
    """The cases of one op for one backend of the config."""
    op = configs.op_for(package, tests.op, backend)
    if op is None:
        return []
    reference = find(tests.reference, tests.folder) if tests.reference else None
    cases = [make(plan, reference, backend) for plan in plans_of(tests, package, backend, op)]
    return _with_distinct_names(
        [replace(case, operations=tests.operations, loops=tests.loops, builtin=tests.builtin) for case in cases]
    )


def _backends() -> Iterable[str]:
    """The backends of configs, in the order of their places."""
    return dict.fromkeys(row.config for row in PLACES.values() if row.config)


def names(folder: Path) -> list[str]:
    """`Op/name` of the cases that op_tests.toml declares; executes no code of the user."""
    files, known = configs.sources(read.load_test_files(folder / read.FILE_NAME))
    found = dict[str, None]()
    for tests in files.ops:
        package = known[tests.subject].package(tests.op)
        for backend in _backends() if package else ():
            if package and (op := configs.op_for(package, tests.op, backend)):
                found |= dict.fromkeys(f"{tests.op}/{plan.name}" for plan in plans_of(tests, package, backend, op))
    return list(found)


def plans_of(tests: OpTests, package: OpPackage, backend: str, op: Op) -> Iterator[CasePlan]:
    """The plans of all cases of one op for one backend of the config."""
    for group in tests.groups:
        places = _places(group, package, tests.op, backend)
        if places is not None:
            yield from (replace(plan, places=places) for plan in _plans(group, op, package))
            hexagon = tuple(row.id for row in PLACES.values() if row.instructions and row.config == backend)
            hexagon = tuple(place for place in hexagon if not places or place in places)
            if hexagon:
                yield from (replace(plan, places=hexagon) for plan in _tails(group, op, package))


def _places(group: CaseGroup, package: OpPackage, op: str, backend: str) -> tuple[str, ...] | None:
    """The places of a backend where the cases of a group run (empty: all of them); None if nowhere."""
    if not group.backends:
        return () if backend in configs.backends_of(package, op) else None
    named = tuple(name for name in group.backends if PLACES[name].config in (backend, ""))
    twins = tuple(row.id for row in PLACES.values() if row.twin in named)  # the same package in another host
    return tuple(dict.fromkeys((*named, *twins))) or None


def examples(files: TestFiles) -> list[Example]:
    """Configs and kernels of a folder with the cases of all backends, for callers that build packages themselves."""
    files, known = configs.sources(files)
    by_subject: dict[Subject, list[Case]] = {}
    for tests in files.ops:
        package = known[tests.subject].package(tests.op)
        for backend in _backends() if package else ():
            assert package is not None
            by_subject.setdefault(tests.subject, []).extend(cases_of(tests, package, backend))
    return [
        Example(subject.config, subject.kernels, tuple(cases))
        for subject, cases in by_subject.items()
        if subject.config is not None and subject.kernels is not None
    ]


def _plans(group: CaseGroup, op: Op, package: OpPackage) -> Iterator[CasePlan]:
    choices = group.dtypes or configs.default_types(op, package)
    params = list(_param_choices(op, group.params))
    combinations = itertools.product(choices, _filled(group, op), params, group.seeds)
    for choice, (shape, fills), given, seed in combinations:
        types = configs.types_of(op, choice)
        if types is None:
            continue
        of_inputs = _shapes_of_inputs(op, group, shape, fills)
        named = {output.name: shape[output.name] for output in op.outputs if output.name in shape}
        yield CasePlan(
            name=_title(group, of_inputs, given, fills, seed),
            op=op,
            group=group,
            types=types,
            shapes={**of_inputs, **named},
            fills=fills,
            params=given,
            seed=seed,
        )


def _tails(group: CaseGroup, op: Op, package: OpPackage) -> Iterator[CasePlan]:
    """Plans with row lengths near the HVX vector length, for types of 8 and 16 bits; all other choices are the first.

    HTP begins tensors at a multiple of 2,048 bytes (measured), so only rows of such lengths are not aligned.
    """
    fills = group.values[0]
    if group.shapes or group.expect == "refusal" or any(isinstance(fill, GivenNumbers) for fill in fills.values()):
        return
    name = f"{group.name}, tails" if group.name else "tails"
    shapes = tuple({EVERY: shape} for shape in _tail_shapes(op))
    group = replace(group, name=name, shapes=shapes, values=(fills,), seeds=group.seeds[:1])
    params: Mapping[str, object] | None = None
    for plan in _plans(group, op, package):
        params = plan.params if params is None else params
        small = any(row.bits in (8, 16) and row.kind != "float" for row in plan.types.values())
        if small and plan.params == params:
            yield plan


def _tail_shapes(op: Op) -> Iterable[Shape]:
    """Shapes with each tail length: one row, and several."""
    usual = [shape for shape in usual_shapes(op) if shape]
    some = [*usual[:1], *[shape for shape in usual if len(shape) > 1][:1]]
    return dict.fromkeys((*shape[:-1], length) for shape in some for length in _TAILS)


def _filled(group: CaseGroup, op: Op) -> Iterator[tuple[Mapping[str, Shape], Mapping[str, Any]]]:
    """Every shape with every way to fill it; explicit numbers have their own shape."""
    for fills in group.values:
        given = all(
            isinstance(fills.get(tensor.name, fills.get(EVERY)), GivenNumbers)
            for tensor in op.inputs
            if tensor.mandatory
        )
        usual: list[dict[str, Shape]] = [{}] if given else [{EVERY: shape} for shape in usual_shapes(op)]
        yield from ((shape, fills) for shape in group.shapes or usual)


def usual_shapes(op: Op) -> Sequence[Shape]:
    """Shapes for the ranks that the inputs of an op may have."""
    ranks = [set(tensor.rank.ranks) for tensor in op.inputs if tensor.rank.ranks]
    if not ranks:
        return _OF_ANY_RANK
    fitting = [shape for shape in _USUAL_SHAPES if all(len(shape) in allowed for allowed in ranks)]
    return fitting or [tuple(range(2, 2 + min(ranks[0])))]


def _shapes_of_inputs(
    op: Op, group: CaseGroup, shapes: Mapping[str, Shape], fills: Mapping[str, Any]
) -> dict[str, Shape]:
    """Each input with its shape; optional ones only if the test file names them."""
    of_inputs: dict[str, Shape] = {}
    for tensor in op.inputs:
        named = tensor.name in shapes or tensor.name in fills or tensor.name in group.counts
        if not named and (tensor.only_default or not tensor.mandatory):
            continue
        for name in _parts(tensor, group):
            own = shapes.get(name, shapes.get(tensor.name))
            given = fills.get(name, fills.get(tensor.name, fills.get(EVERY)))
            shape = own if own is not None else _shape_of(given)
            of_inputs[name] = shape if shape is not None else _fitting(tensor, shapes.get(EVERY))
    return of_inputs


def _parts(tensor: Tensor, group: CaseGroup) -> list[str]:
    """The names of a tensor: several if it is repeated."""
    if not tensor.repeated:
        return [tensor.name]
    return [f"{tensor.name}.{number}" for number in range(group.counts.get(tensor.name, 2))]


def _fitting(tensor: Tensor, common: Shape | None) -> Shape:
    """The common shape; if this input cannot have that rank, its last axes, or leading axes of length 1 are added."""
    shape = common if common is not None else (3, 5)
    ranks = tensor.rank.ranks
    if not ranks or len(shape) in ranks:
        return shape
    rank = max((possible for possible in ranks if possible < len(shape)), default=min(ranks))
    return shape[len(shape) - rank :] if rank < len(shape) else (1,) * (rank - len(shape)) + shape


def _param_choices(op: Op, raw: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Every combination of the parameters' values."""
    names = list(raw)
    lists = [_values_of(next(param for param in op.params if param.name == name), raw[name]) for name in names]
    for combination in itertools.product(*lists):
        yield {name: value for name, value in zip(names, combination, strict=True) if value != _DEFAULT}


def _values_of(param: Tensor, raw: object) -> list[object]:
    """The values of a parameter: a list is one value if the parameter is a tensor of that depth, otherwise several."""
    if not isinstance(raw, list):
        return [raw]
    if param.is_scalar:
        return raw
    depths = param.rank.ranks or (_depth(raw),)
    return [raw] if _depth(raw) in depths else raw


def _depth(raw: object) -> int:
    return 1 + max((_depth(element) for element in raw), default=0) if isinstance(raw, list) else 0


def _title(group: CaseGroup, shapes: Mapping[str, Shape], params: Mapping[str, object], fills: Any, seed: int) -> str:
    """The name of a case: what distinguishes it from the other cases of its op."""
    texts = dict.fromkeys("x".join(map(str, shape)) or "scalar" for shape in shapes.values())
    parts = [" and ".join(texts)]
    parts += [f"{name}={_short(value)}" for name, value in params.items()]
    parts += [f"{name}={_DEFAULT}" for name in group.params if name not in params]
    if len(group.values) > 1:
        parts += [f"{name} {fill}".strip() for name, fill in fills.items()]
    parts += [f"seed {seed}"] if len(group.seeds) > 1 else []
    return (f"{group.name}: " if group.name else "") + ", ".join(parts)


def _short(value: object) -> str:
    text = str(value).replace(" ", "")
    return text if len(text) <= 24 else text[:23] + "…"


def _with_distinct_names(cases: list[Case]) -> list[Case]:
    """The cases; a number is added to a name that occurs twice with the same data types."""
    seen: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    distinct = []
    for case in cases:
        key = (case.name, tuple(case.dtypes.items()))
        seen[key] = seen.get(key, 0) + 1
        distinct.append(case if seen[key] == 1 else replace(case, name=f"{case.name} ({seen[key]})"))
    return distinct


def load_examples(folder: Path) -> list[Example]:
    """The examples of a folder: those of its test file, or what `examples()` of its reference.py returns."""
    if read.test_files(folder):
        return examples(read.load_test_files(folder))
    script = folder / "reference.py"
    if not script.is_file():
        raise UsageError(f"there is no reference.py in {folder}", hint="define examples() in it")
    function = getattr(load_module(script), "examples", None)
    if not callable(function):
        raise UsageError(f"{script} defines no function examples()", hint="return a list of Example")
    with user_code(script):
        return list(function())


# --- inputs and expected outputs --------------------------------------------------------------------------------------


def _shape_of(given: object) -> Shape | None:
    """The shape of numbers in a test file; None if they are generated."""
    if not isinstance(given, GivenNumbers):
        return None
    return tuple(_numbers(given).shape)


def make(plan: CasePlan, reference: ReferenceFunction | None, backend: str) -> Case:
    """The case of a plan, with an `error` if its numbers cannot be made."""
    group, op = plan.group, plan.op
    dtypes = {name: row.name for name, row in plan.types.items() if _is_present(name, plan)}
    case = Case(
        name=plan.name,
        op=op.name,
        inputs={},
        expected={},
        params=plan.params,
        dtypes=dtypes,
        tolerance={output.name: tolerances.of(plan.types[output.name], group.tolerances) for output in op.outputs},
        backend=backend,
        places=plan.places,
        shapes={output.name: plan.shapes[output.name] for output in op.outputs if output.name in plan.shapes},
        refusal=group.expect == "refusal",
    )
    try:
        inputs, quants = _inputs(plan)
        case = replace(case, inputs=inputs, quants=quants)
        if reference is None or case.refusal:
            return replace(case, quants={**quants, **_output_quants(plan, {})})
        reals = _real_outputs(plan, reference, inputs, plan.params, quants)
        every = {**quants, **_output_quants(plan, reals)}
        expected = stored_outputs(plan, reals, every)
    except UdogenError as error:
        return replace(case, error=CaseError.of(error))
    return replace(
        case,
        quants=every,
        expected=expected,
        origin=Origin(
            reshaped=partial(_reshaped, plan, reference, backend),
            reference=partial(_real_outputs, plan, reference),
            baseline=_baseline(plan, reference, inputs, quants),
            location=str(group.where()),
        ),
    )


def _is_present(name: str, plan: CasePlan) -> bool:
    """Whether a tensor is an output, or an input that is not left out."""
    inputs = {tensor.name for tensor in plan.op.inputs}
    return name not in inputs or any(_head(shaped, plan) == name for shaped in plan.shapes)


def _head(name: str, plan: CasePlan) -> str:
    """`x` of `x.0`, a part of a repeated input."""
    if any(tensor.name == name for tensor in plan.op.inputs):
        return name
    return name.rpartition(".")[0] or name


def _inputs(plan: CasePlan) -> tuple[dict[str, Any], dict[str, values.Quant]]:
    random = np.random.default_rng(plan.seed)
    inputs: dict[str, Any] = {}
    quants: dict[str, values.Quant] = {}
    for name, shape in plan.shapes.items():
        head = _head(name, plan)
        if head not in {tensor.name for tensor in plan.op.inputs}:
            continue
        dtype = plan.types[head]
        quant = _declared_quant(plan, name, dtype)
        fill = plan.fills.get(name, plan.fills.get(head, plan.fills.get(EVERY, values.default_fill(dtype))))
        if isinstance(fill, GivenNumbers):
            real = _given_as(fill, shape, name)
        else:
            real = values.draw(fill, dtype=dtype, shape=shape, random=random, quant=quant)
        if dtype.quantized and quant is None:
            quant = values.quant_for(*values.finite_range(real), dtype)
        if quant is not None and dtype.quantized:
            quants[name] = quant
        inputs[name] = values.store(real, dtype, quant)
    return inputs, quants


def _numbers(given: GivenNumbers) -> Any:
    if given.file is None:
        try:
            return np.asarray(given.numbers, np.float64)
        except (ValueError, TypeError) as error:
            raise UsageError("`values` has a list that is not a tensor", hint="give rows of equal length") from error
    array = values.load_array(given.file)
    if array.dtype.kind not in "biuf":
        raise UsageError(f"{given.file} holds {array.dtype}", hint="save an array of numbers")
    return array


def _given_as(given: GivenNumbers, shape: Shape, name: str) -> Any:
    numbers = _numbers(given)
    try:
        return np.broadcast_to(numbers, shape)
    except ValueError as error:
        have = "x".join(map(str, numbers.shape)) or "one number"
        raise UsageError(
            f"`values` of `{name}` are {have}, and its shape is {'x'.join(map(str, shape)) or 'that of a scalar'}",
            hint="leave `shape` out, or give numbers of that shape",
        ) from error


def _declared_quant(plan: CasePlan, name: str, dtype: DataType) -> values.Quant | None:
    declared: Quantization | None = plan.group.quants.get(name, plan.group.quants.get(_head(name, plan)))
    if declared is None or not dtype.quantized:
        return None
    if declared.scale is not None:
        return declared.scale, declared.offset
    return values.quant_for(declared.low or 0.0, declared.high or 0.0, dtype)


def _real_outputs(
    plan: CasePlan, reference: ReferenceFunction, inputs: Arrays, params: Mapping[str, object], quants: Quants
) -> dict[str, Any]:
    """The outputs of the reference, as real numbers."""
    given = [_real_input(plan, tensor, inputs, quants) for tensor in plan.op.inputs]
    outputs = {output.name: output.mandatory for output in plan.op.outputs}
    optional = {name for name, mandatory in outputs.items() if not mandatory}
    return reference(given, _all_params(plan, params), list(outputs), optional)


def _real_input(plan: CasePlan, tensor: Tensor, inputs: Arrays, quants: Quants) -> Any:
    """The real numbers of an input (a list if it is repeated); None if it is left out."""
    dtype = plan.types[tensor.name]
    names = [name for name in inputs if _head(name, plan) == tensor.name]
    real = [values.to_real(inputs[name], dtype, quants.get(name)) for name in names]
    if tensor.repeated:
        return real
    return real[0] if real else None


def _all_params(plan: CasePlan, given: Mapping[str, object]) -> dict[str, object]:
    """Parameters by name, with the config's defaults for those that a case leaves out; lists become arrays."""
    by_name: dict[str, object] = {}
    for param in plan.op.params:
        value = given.get(param.name, param.default)
        if value is None:
            continue
        by_name[param.name] = value if isinstance(value, str) else _as_passed(value, param)
    return by_name


def _as_passed(value: Any, param: Tensor) -> Any:
    """A number as the op gets it: 0.2 is a different number in float32."""
    floats = [row for row in param.datatypes if row.kind == "float" and row.numpy]
    if isinstance(value, bool) or not floats or floats[0] is not param.datatypes[0]:
        return value if param.is_scalar else np.asarray(value)
    try:
        with np.errstate(over="raise"):
            made = np.asarray(value, floats[0].numpy).astype(np.float64)
        return float(made) if param.is_scalar else made
    except (FloatingPointError, OverflowError):
        raise UsageError(
            f"`params`: `{param.name}` does not fit into {floats[0].name}", hint=f"not {str(value)[:60]}"
        ) from None
    except (ValueError, TypeError):  # lists in lists
        what = "one number" if param.is_scalar else "a tensor: give rows of equal length"
        raise UsageError(f"`params`: `{param.name}` is {what}", hint=f"not {str(value)[:60]}") from None


def _output_quants(plan: CasePlan, reals: Mapping[str, Any]) -> Quants:
    """The quantizations of outputs: as the test file declares, otherwise the range of the outputs."""
    by_output: dict[str, values.Quant] = {}
    for tensor in plan.op.outputs:
        dtype = plan.types[tensor.name]
        if not dtype.quantized:
            continue
        declared = _declared_quant(plan, tensor.name, dtype)
        reach = values.finite_range(reals[tensor.name]) if tensor.name in reals else (-1.0, 1.0)
        by_output[tensor.name] = declared or values.quant_for(*reach, dtype)
    return by_output


def stored_outputs(plan: CasePlan, reals: Mapping[str, Any], quants: Quants) -> dict[str, Any]:
    """The outputs of the reference as the op stores them; integer outputs need integers, if compared exactly."""
    for name, real in reals.items():
        dtype = plan.types[name]
        if tolerances.family(dtype) != "integer" or tolerances.of(dtype, plan.group.tolerances) != tolerances.EXACT:
            continue
        fraction = values.first_fraction(real)
        if fraction is not None:
            raise ReferenceFailed(
                f"the reference of {plan.op.name} returns {fraction:g} for `{name}`, which is {dtype.name}",
                hint="round it in the reference as the op does (np.trunc, np.rint …)",
            )
    return {name: values.store(real, plan.types[name], quants.get(name)) for name, real in reals.items()}


def _baseline(plan: CasePlan, reference: ReferenceFunction, inputs: Arrays, quants: Quants) -> Callable[[], object]:
    """The reference for timing, with float32 as usual in numpy if the op has floats or fixed point."""

    def prepared(tensor: Tensor) -> Any:
        real = _real_input(plan, tensor, inputs, quants)
        if isinstance(real, list):
            return [part.astype(np.float32) if part.dtype == np.float64 else part for part in real]
        return real.astype(np.float32) if real is not None and real.dtype == np.float64 else real

    given = [prepared(tensor) for tensor in plan.op.inputs]
    params = _all_params(plan, plan.params)
    return lambda: reference.function(*given, **params)


def _reshaped(plan: CasePlan, reference: ReferenceFunction, backend: str, shapes: Mapping[str, Shape]) -> Case | None:
    """The same case with other shapes of inputs; None if the reference does not accept them."""
    if not shapes.keys() <= plan.shapes.keys():
        return None
    case = make(replace(plan, name=f"{plan.name} → smaller", shapes={**plan.shapes, **shapes}), reference, backend)
    return None if case.error else case
