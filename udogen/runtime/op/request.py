"""Turns a user's names, arrays and texts into an OpCall, checked against the op's config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from udogen import backends
from udogen.errors import RunFailed, UsageError
from udogen.findings import suggestion, unknown
from udogen.opdef import datatypes, values
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, Rank, Tensor, Value
from udogen.opdef.shape_rules import Given, Inferred, ShapeRules, load_shape_rules
from udogen.qnn.tensors import NATIVE, NULL, STATIC, QnnTensor, Scalar
from udogen.runtime.built import Built
from udogen.runtime.failures import NotExpressible
from udogen.runtime.op.calls import CallParam, OpCall, param_of

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array


@dataclass(frozen=True)
class CallOptions:
    """The options of one run."""

    inputs: Mapping[str, Array]
    params: Mapping[str, object] = field(default_factory=dict)
    quants: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of outputs
    outputs: tuple[str, ...] = ()
    loops: int = 1
    rules: Path | None = None  # a file with rules for the shapes of outputs
    by_name: bool = False  # send parameters by name even to backends that use positions


def make_call(op: Op | None, built: Built, op_type: str, options: CallOptions) -> OpCall:
    """The call; every name, type and shape is checked against the op's config, if there is one."""
    if op is None:
        return _blind_call(built, op_type, options)
    _check_all_names(op, options)
    if built.folder is not None and built.folder.api == "core":
        op = op.with_all_inputs()
    inputs = _inputs(op, options)
    outputs = _outputs(op, inputs, options)
    if built.folder is not None and built.folder.backend in backends.RUNTIMES:
        inputs, outputs = (
            tuple(_of_some_rank(op, arg, backends.RUNTIMES[built.folder.backend].ranks) for arg in args)
            for args in (inputs, outputs)
        )
    params = params_of(op, built, options)
    if options.rules is not None:
        outputs = _with_rules(
            outputs, rules=options.rules, built=built, op=op, inputs=inputs, params=params, known=options.shapes
        )
    left_out = 0 if op.inputs and op.inputs[-1].repeated else max(0, len(op.inputs) - len(inputs))
    return OpCall(op_type, built.package, inputs, outputs, params, left_out, options.loops)


def params_of(op: Op, built: Built, options: CallOptions) -> tuple[CallParam, ...]:
    """The parameters of a node, with types from the config; complete up to the last one if positions matter."""
    given = options.params
    if built.folder is not None and not options.by_name and not backends.ALL[built.folder.backend].names_params:
        given = _in_place(op, given)
    return tuple(_param(op, name, value, options) for name, value in given.items())


def _in_place(op: Op, given: Mapping[str, object]) -> Mapping[str, object]:
    """The parameters for a backend that uses positions: all up to the last given one."""
    names = [param.name for param in op.params]
    for param in op.params:
        if param.mandatory and param.default is None and param.name not in given:
            raise UsageError(f"op `{op.name}` needs the parameter `{param.name}`", hint=f"--param {param.name}=VALUE")
    last = max((names.index(name) for name in given), default=-1)
    by_name: dict[str, object] = {}
    for param in op.params[: last + 1]:
        value = given.get(param.name, param.default)
        if value is None:
            raise RunFailed(
                f"op `{op.name}` needs the parameter `{param.name}` too, because `{names[last]}` comes after it",
                hint="this backend knows parameters by position only; only the last ones may be left out",
            )
        by_name[param.name] = value
    return by_name


def _inputs(op: Op, options: CallOptions) -> tuple[QnnTensor, ...]:
    """The inputs in the op's order; `name.0`, `name.1` … are parts of a repeated one.

    An input with a default may be left out; if the backend needs it, the default is passed.
    """
    args: list[QnnTensor] = []
    for tensor in op.inputs:
        names = _names_of(tensor, options.inputs)
        for name in names:
            array = options.inputs[name]
            quant = options.quants.get(name, options.quants.get(tensor.name))
            dtype = _dtype_of_array(op, tensor, array, quant, options.dtypes.get(name, ""))
            _only_default(op, tensor, array)
            role = STATIC if tensor.static else NATIVE
            args.append(QnnTensor(name, dtype.name, array.shape, quant, array, role))
        if not names and tensor.default is not None and not tensor.repeated and tensor.given:
            args.append(_default_input(tensor))
            continue
        if not names and tensor.required:
            given = ", ".join(options.inputs) or "none"
            hint = f"--input {tensor.name}=FILE.npy (given: {given})"
            if tensor.given:
                raise NotExpressible(
                    f"op `{op.name}` always has the input `{tensor.name}` on this backend, optional or not",
                    hint=hint,
                )
            raise UsageError(f"op `{op.name}` needs the input `{tensor.name}`", hint=hint)
        if not names:
            args.append(QnnTensor(tensor.name, tensor.datatypes[0].name, (), role=NULL))
    return tuple(_without_tail(op, args))


def _default_input(tensor: Tensor) -> QnnTensor:
    """The default of an input, as a static tensor."""
    import numpy as np

    assert tensor.default is not None
    fits = (row for row in tensor.datatypes if row.numpy and not values.fault_of_default(tensor.default, row, Rank()))
    dtype = next(fits, tensor.datatypes[0])
    array = np.array(tensor.default, dtype=dtype.numpy or "float32")
    ranks = tensor.rank.ranks
    array = array.reshape((1,) * max(1, min(ranks, default=1))) if array.ndim == 0 else array
    quant = (1.0, 0) if dtype.quantized else None
    return QnnTensor(tensor.name, dtype.name, array.shape, quant, array, STATIC)


def _only_default(op: Op, tensor: Tensor, value: object) -> None:
    """Raise for another value if the backend supports only the default."""
    import numpy as np

    if not tensor.only_default or (tensor.default is None and not tensor.default_text):
        return
    given = np.asarray(value)
    default = np.asarray(tensor.default, dtype=given.dtype if given.dtype.kind in "fiub" else None)
    same = given.shape == default.shape or (default.size == 1 and given.dtype.kind == default.dtype.kind)
    if tensor.default is not None and same and np.array_equal(given, np.broadcast_to(default, given.shape)):
        return
    what = "parameter" if tensor.role == "param" else "input"
    shown = tensor.default_text if tensor.default is None else values.show(tensor.default)
    raise RunFailed(
        f"{what} `{tensor.name}` of op `{op.name}` must be its default, {shown[:60]}: no other value is supported",
        hint="leave it out",
    )


def _without_tail(op: Op, args: list[QnnTensor]) -> list[QnnTensor]:
    """The inputs without omitted ones at the end, unless a repeated input needs their number."""
    if len(args) > len(op.inputs):
        return args
    while args and args[-1].omitted:
        args.pop()
    return args


def _of_some_rank(op: Op, arg: QnnTensor, ranks: Sequence[int]) -> QnnTensor:
    """A scalar of the config as a tensor of one element, if the backend has no tensors of rank 0."""
    tensor = next(tensor for tensor in op.tensors if _belongs(arg.name, tensor))
    if arg.shape or arg.omitted or 0 in ranks or not (tensor.rank.scalar or 0 in tensor.rank.ranks):
        return arg
    return replace(arg, shape=(1,), data=None if arg.data is None else arg.data.reshape(1))


def _names_of(tensor: Tensor, given: Iterable[str]) -> list[str]:
    """The given names of a tensor: its own, and the parts of a repeated one in order."""
    names = [name for name in given if name == tensor.name]
    if tensor.repeated:
        names += sorted((n for n in given if _is_part(n, tensor)), key=lambda n: int(n.rpartition(".")[2]))
    return names


def _is_part(name: str, tensor: Tensor) -> bool:
    """Whether it is the name of a part of a repeated tensor: `name.0`."""
    head, _, number = name.rpartition(".")
    return head == tensor.name and number.isdecimal()


def _belongs(name: str, tensor: Tensor) -> bool:
    """Whether it is the name of a tensor, or of a part of it."""
    return name == tensor.name or _is_part(name, tensor)


def _dtype_of_array(op: Op, tensor: Tensor, array: Array, quant: tuple[float, int] | None, wanted: str) -> DataType:
    storage = str(array.dtype)
    fitting = [row for row in tensor.accepted if row.numpy == storage]
    if wanted:
        row = _known(wanted, tensor.datatypes)
        if row.numpy != storage:
            raise RunFailed(
                f"input `{tensor.name}` holds {storage}, but {row.name} is stored as {row.numpy or 'no type of numpy'}",
                hint=f"save it as {row.numpy or 'another type'}",
            )
        return row
    fitting.sort(key=lambda row: row.quantized != (quant is not None))
    if not fitting:
        allowed = " or ".join(f"{row.numpy or '?'} ({row.name})" for row in tensor.accepted)
        raise RunFailed(
            f"input `{tensor.name}` of op `{op.name}` holds {storage}; it must be {allowed}",
            hint=f"save it as numpy.{tensor.datatypes[0].numpy or 'float32'}",
        )
    if fitting[0].quantized and quant is None:
        raise RunFailed(
            f"input `{tensor.name}` of op `{op.name}` is {fitting[0].name}, which needs a scale and an offset",
            hint=f"--quant {tensor.name}=SCALE,OFFSET   (real value = SCALE * (stored + OFFSET))",
        )
    return fitting[0]


def _outputs(op: Op, inputs: tuple[QnnTensor, ...], options: CallOptions) -> tuple[QnnTensor, ...]:
    """The outputs up to the last one that is mandatory or named."""
    named = dict.fromkeys((*options.outputs, *options.shapes))
    names = {tensor.name: _names_of(tensor, named) for tensor in op.outputs}
    wanted = [index for index, tensor in enumerate(op.outputs) if tensor.mandatory or names[tensor.name]]
    return tuple(
        _output(name, tensor, inputs, options)
        for tensor in op.outputs[: max(wanted, default=-1) + 1]
        for name in names[tensor.name] or [tensor.name]
    )


def _output(name: str, tensor: Tensor, inputs: tuple[QnnTensor, ...], options: CallOptions) -> QnnTensor:
    """An output with the given shape and type, or those of the first input if the config allows them."""
    first = next((arg for arg in inputs if not arg.omitted), None)
    quant = options.quants.get(name, options.quants.get(tensor.name))
    wanted = options.dtypes.get(name, options.dtypes.get(tensor.name, ""))
    allowed = {row.name: row for row in tensor.accepted}
    if wanted:
        dtype = _known(wanted, tensor.datatypes)
    elif first is not None and first.dtype in allowed:
        dtype = allowed[first.dtype]
    else:
        dtype = tensor.datatypes[0]
    if dtype.quantized and quant is None:
        raise RunFailed(
            f"output `{name}` is {dtype.name}, which needs a scale and an offset",
            hint=f"--quant {name}=SCALE,OFFSET, or another type: --dtype {name}=TYPE",
        )
    shape = options.shapes.get(name, first.shape if first is not None else ())
    return QnnTensor(name, dtype.name, shape, quant=quant if dtype.quantized else None)


def _param(op: Op, name: str, value: object, options: CallOptions) -> CallParam:
    tensor = next(param for param in op.params if param.name == name)
    dtype = _known(options.dtypes[name], tensor.datatypes) if name in options.dtypes else _dtype_of_param(tensor, value)
    if isinstance(value, str):
        parsed = values.parse_default(value, [dtype], tensor.enum)
        if parsed is None and tensor.enum:
            have = f"one of {', '.join(tensor.enum)}, or its number"
            raise UsageError(
                f"parameter `{name}`: `{value}` is not one of its names",
                hint=f"{suggestion(value, tensor.enum)} {have}".strip(),
            )
        if parsed is None:
            raise UsageError(f"parameter `{name}`: `{value}` is not a value of type {dtype.name}", hint="see --help")
        fault = values.fault_of_default(parsed, dtype, tensor.rank, enum=tensor.enum)
        if fault:
            have = f"one of {', '.join(tensor.enum)}" if tensor.enum else "give another value"
            raise UsageError(f"parameter `{name}` of op `{op.name}` {fault}", hint=have)
        value = parsed
    _only_default(op, tensor, value)
    quant = options.quants.get(name) if dtype.quantized else None
    return param_of(name, _as_param_value(value, tensor, dtype), dtype.name, quant)


def _dtype_of_param(tensor: Tensor, value: object) -> DataType:
    """The first of the types of a parameter that can hold this value."""
    for dtype in tensor.accepted:
        if hasattr(value, "dtype"):
            fits = str(value.dtype) == dtype.numpy
        else:
            parsed = values.parse_default(value, [dtype], tensor.enum) if isinstance(value, str) else _plain(value)
            fits = parsed is not None and not values.fault_of_default(parsed, dtype, tensor.rank, enum=tensor.enum)
        if fits:
            return dtype
    return tensor.datatypes[0]


def _plain(value: object) -> Value | None:
    """A Python value as op models represent it: lists become tuples."""
    if isinstance(value, list | tuple):
        parts = [_plain(part) for part in value]
        return None if any(part is None for part in parts) else tuple(part for part in parts if part is not None)
    return value if isinstance(value, bool | int | float | str) else None


def _as_param_value(value: object, tensor: Tensor, dtype: DataType) -> int | float | bool | str | Array:
    import numpy as np

    if isinstance(value, str) or tensor.is_scalar:
        if isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            plain: int | float | bool | str = value.item()
            return plain
        raise RunFailed(f"parameter `{tensor.name}` is a scalar", hint=f"--param {tensor.name}=VALUE")
    array = np.asarray(value, dtype=dtype.numpy or "float32")
    return array.reshape(1) if array.ndim == 0 and 0 not in tensor.rank.ranks else array


def _check_all_names(op: Op, options: CallOptions) -> None:
    """Raise for a name that the op lacks."""
    named = (*options.outputs, *options.shapes)
    _check_names("input", options.inputs, op, op.inputs)
    _check_names("output", named, op, op.outputs)
    _check_names("parameter", options.params, op, op.params)
    _check_names("tensor", (*options.quants, *options.dtypes), op, op.tensors)


def _check_names(what: str, names: Iterable[str], op: Op, tensors: Sequence[Tensor]) -> None:
    known = [tensor.name for tensor in tensors]
    for name in names:
        if name not in known and not any(tensor.repeated and _is_part(name, tensor) for tensor in tensors):
            raise unknown(f"op `{op.name}` has no {what}", name, known)


def _blind_call(built: Built, op_type: str, options: CallOptions) -> OpCall:
    """The call without a config: inputs are passed in the given order, with the types of the arrays."""
    if not options.inputs:
        raise UsageError("no input was given", hint="--input NAME=FILE.npy, in the op's order")
    inputs = tuple(
        QnnTensor(name, _guess(name, array, options).name, array.shape, options.quants.get(name), array)
        for name, array in options.inputs.items()
    )
    outputs = tuple(
        QnnTensor(
            name,
            _known(options.dtypes.get(name, inputs[0].dtype)).name,
            options.shapes.get(name, inputs[0].shape),
            quant=options.quants.get(name),
        )
        for name in options.outputs or tuple(options.shapes) or ("output",)
    )
    params = []
    for name, value in options.params.items():
        dtype = _known(options.dtypes.get(name, "FLOAT_32"))
        parsed = values.parse_default(value, [dtype]) if isinstance(value, str) else value
        if not isinstance(parsed, bool | int | float | str):
            raise RunFailed(
                f"parameter `{name}`: `{value}` is not of type {dtype.name}", hint=f"name its type: --dtype {name}=TYPE"
            )
        params.append(Scalar(name, dtype.name, parsed))
    return OpCall(op_type, built.package, inputs, outputs, tuple(params), loops=options.loops)


def _guess(name: str, array: Array, options: CallOptions) -> DataType:
    if name in options.dtypes:
        return _known(options.dtypes[name])
    rows = [row for row in datatypes.ALL if row.numpy == str(array.dtype)]
    rows.sort(key=lambda row: row.quantized != (name in options.quants))
    if not rows:
        raise RunFailed(f"input `{name}` holds {array.dtype}, which QNN has no type for", hint="save it as float32")
    return rows[0]


def _known(name: str, allowed: Sequence[DataType] = ()) -> DataType:
    row = datatypes.meant(name, allowed)
    if row is None or row.kind == "special":
        types = [datatype.name for datatype in datatypes.ALL]
        hint = suggestion(name.upper(), types, "FLOAT_32, UFIXED_POINT_8, UINT_8, INT_32 …")
        raise UsageError(f"`{name}` is not a data type", hint=hint)
    return row


# --- shapes of outputs from shape rules -------------------------------------------------------------------------------

_MOST_DATA = 4096  # numbers; larger tensors are data, not shapes


def _with_rules(
    outputs: Sequence[QnnTensor],
    *,
    rules: Path,
    built: Built,
    op: Op,
    inputs: Sequence[QnnTensor],
    params: Sequence[CallParam],
    known: Mapping[str, tuple[int, ...]],
) -> tuple[QnnTensor, ...]:
    """The outputs with the shapes of the rules; shapes in `known` are kept."""
    if built.folder is None:
        raise UsageError(
            f"--rules {rules}: {built.library} is only a library; rules need the config of its op",
            hint="give the folder of the package, or --shape NAME=2x3x4",
        )
    assert built.config is not None  # the op is from it
    shape_rules = load_shape_rules(rules, built.config.ops)
    if not shape_rules.has_shapes(op.name):
        raise UsageError(f"{rules} has no rule for the shapes of op `{op.name}`", hint=f"write def {op.name}(op): …")
    inferred = infer_outputs(shape_rules, op, inputs, params, outputs)
    shaped = []
    for number, arg in enumerate(outputs):
        shape = list(inferred.values())[number].shape if number < len(inferred) else None
        shaped.append(arg if arg.name in known or shape is None else replace(arg, shape=shape))
    return tuple(shaped)


def infer_outputs(
    rules: ShapeRules, op: Op, inputs: Sequence[QnnTensor], params: Sequence[CallParam], outputs: Sequence[QnnTensor]
) -> dict[str, Inferred]:
    """The results of shape rules for the outputs of a call."""
    given: dict[str, Given | list[Given]] = {}
    for tensor in op.inputs:
        own = [given_of(arg) for arg in inputs if _belongs(arg.name, tensor) and not arg.omitted]
        if own:
            given[tensor.name] = own if tensor.repeated else own[0]
    return rules.infer(
        op.name,
        given,
        {arg.name: arg.value if isinstance(arg, Scalar) else given_of(arg) for arg in params},
        outputs={output.name: sum(_belongs(arg.name, output) for arg in outputs) for output in op.outputs},
    )


def given_of(arg: QnnTensor, *, data: bool = True) -> Given:
    """A tensor for shape rules, with its numbers if there are few."""
    return Given(arg.shape, arg.dtype, _numbers(arg.data, arg.quant) if data else None)


def _numbers(array: Array | None, quant: object) -> list[float] | None:
    if array is None or quant is not None or array.size > _MOST_DATA:
        return None
    numbers: list[float] = array.ravel().tolist()
    return numbers
