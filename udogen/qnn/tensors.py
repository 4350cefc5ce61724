"""Tensors, params and op configs as C structs, with all memory that they point to."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from udogen.errors import RunFailed, UsageError, kind_of, nearest
from udogen.opdef import datatypes
from udogen.opdef.datatypes import Named
from udogen.qnn import abi, quantization
from udogen.qnn.quantization import Quantization

# Roles of a tensor in a graph: Qnn_TensorType_t without its prefix.
ROLES = APP_WRITE, APP_READ, NATIVE, STATIC, NULL = "APP_WRITE", "APP_READ", "NATIVE", "STATIC", "NULL"

Number = int | float | bool

MOST_BYTES = (1 << 32) - 1  # Qnn_ClientBuffer_t counts in 32 bits


def type_code(dtype: Named) -> int:
    """The number of a data type, by the name it has in configs (FLOAT_32)."""
    return _row(dtype).code


def byte_size(dtype: Named, shape: Sequence[int]) -> int:
    """The bytes of a dense tensor; rank 0 is one element, sub-byte elements are packed."""
    return (_row(dtype).bits * prod(shape) + 7) // 8


@dataclass(init=False, repr=False)
class QnnTensor:
    """A tensor of a graph: name, type, shape, quantization, data, role: `Tensor("x", "FLOAT_32", (1, 8))`.

    Types are named as in configs or in numpy.  `quant` may be a pair, (scale, offset).  Data are as stored: integers
    for fixed point.  The role is NATIVE between ops, APP_WRITE for an input of the graph, APP_READ for an output,
    STATIC for a constant, NULL for an optional input that is left out.  Axes whose size may change between executions
    have a flag in `dynamic`, and their largest size in `shape`.  `id` and `data_format` are those of a stored graph;
    other tensors get an id when they are added to one.  Tensors are equal if all but their data is.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    quant: Quantization
    data: Any = field(compare=False)
    role: str
    dynamic: tuple[bool, ...]
    id: int
    data_format: int

    def __init__(
        self,
        name: str,
        dtype: Named,
        shape: Sequence[int],
        quant: Quantization | tuple[float, int] = None,
        data: Any = None,
        role: str = NATIVE,
        *,
        dynamic: Sequence[bool] = (),
        id: int = 0,
        data_format: int = 0,
    ) -> None:
        abi.text_bytes(name, "the name of a tensor")
        self.name, self.data, self.role, self.id, self.data_format = name, data, role, id, data_format
        self.quant = _quantization(quant, name)
        row = _row(dtype, f"tensor `{name}`", quantized=self.quant is not None)
        self.dtype, self.shape, self.dynamic = row.name, _sizes(shape, name), tuple(dynamic)
        if role not in ROLES:
            raise UsageError(
                f"tensor `{name}` cannot have the role {role!r}",
                hint="APP_WRITE (an input), APP_READ (an output), NATIVE or STATIC",
            )
        if not 0 <= id < 2**32:
            raise UsageError(f"tensor `{name}` cannot have the id {id}", hint="leave it out: the graph gives it one")
        if not id:  # the encoding of a retrieved tensor is the runtime's
            quantization.check(self.quant, self.shape, f"tensor `{name}`", bits=row.bits)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        quant = "" if self.quant is None else f", {self.quant}"
        return f'Tensor("{self.name}", "{self.dtype}", {self.shape}{quant}, role="{self.role}")'

    @property
    def static(self) -> bool:
        """Whether its data are part of the graph."""
        return self.role == STATIC

    @property
    def omitted(self) -> bool:
        """Whether it is an optional input that is left out."""
        return self.role == NULL

    @property
    def scale_offset(self) -> tuple[float, int] | None:
        """Its scale and offset; None without quantization, or with another encoding."""
        return (self.quant.scale, self.quant.offset) if isinstance(self.quant, quantization.ScaleOffset) else None

    @cached_property
    def struct(self) -> Any:
        """Its C struct, which it keeps, as all that this points to."""
        ffi = abi.ffi()
        struct = ffi.new("Qnn_Tensor_t *")
        self._kept: list[Any] = []
        struct.version = ffi.integer_const("QNN_TENSOR_VERSION_1")
        v1 = struct.v1  # which version 2 begins with
        v1.id = self.id
        v1.name = self._keep(ffi.new("char[]", self.name.encode()))
        v1.type = ffi.integer_const(f"QNN_TENSOR_TYPE_{self.role}")
        v1.dataFormat = ffi.integer_const("QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER")
        v1.dataType = type_code(self.dtype)
        v1.rank = len(self.shape)
        # One more than needed, so that a rank of 0 still has a pointer.
        v1.dimensions = self._keep(ffi.new("uint32_t[]", [*self.shape, 0]))
        v1.memType = ffi.integer_const("QNN_TENSORMEMTYPE_RAW")
        quantization.write(v1.quantizeParams, self.quant, keep=self._keep)
        if any(self.dynamic):
            struct.version = ffi.integer_const("QNN_TENSOR_VERSION_2")
            struct.v2.isDynamicDimensions = self._keep(ffi.new("uint8_t[]", [*map(int, self.dynamic), 0]))
        if self.data is not None:
            self._bind(struct, self.data)
        return struct

    def bind(self, data: Any) -> None:
        """Bind the tensor to a buffer that is large enough: the runtime does not check."""
        self._bind(self.struct, data)

    def _bind(self, struct: Any, data: Any) -> None:
        ffi, need = abi.ffi(), self.nbytes
        try:
            buffer = data if isinstance(data, ffi.CData) else ffi.from_buffer(data)
        except (TypeError, ValueError) as fault:
            what = f"the data of tensor `{self.name}` is {kind_of(data)}"
            raise UsageError(what, hint="give a contiguous numpy array, or other memory that can be written") from fault
        have = ffi.sizeof(buffer)
        if have < need:
            raise RunFailed(
                f"tensor `{self.name}` ({self.dtype} {list(self.shape)}) needs {need} bytes, its buffer has {have}",
                hint="give the buffer the shape and type of the tensor",
            )
        if need > MOST_BYTES:
            raise RunFailed(
                f"tensor `{self.name}` ({self.dtype} {list(self.shape)}) needs {need} bytes; "
                f"a client buffer holds at most {MOST_BYTES}",
                hint="register memory for it, or split it",
            )
        self._data = buffer
        struct.v1.memType = ffi.integer_const("QNN_TENSORMEMTYPE_RAW")
        struct.v1.clientBuf.data = ffi.cast("void *", buffer)
        struct.v1.clientBuf.dataSize = need

    def bind_memory(self, handle: Any) -> None:
        """Bind the tensor to registered memory (`MemoryHandle.handle`), which must outlive the executions."""
        self._data = None
        self.struct.v1.memType = abi.ffi().integer_const("QNN_TENSORMEMTYPE_MEMHANDLE")
        self.struct.v1.memHandle = handle

    @property
    def nbytes(self) -> int:
        """Bytes of its data."""
        return byte_size(self.dtype, self.shape)

    @property
    def dims(self) -> tuple[int | None, ...]:
        """Its dimensions; None for open ones, whose largest size is in `shape`."""
        if not self.dynamic:
            return self.shape
        return tuple(None if is_open else size for size, is_open in zip(self.shape, self.dynamic, strict=True))

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether an execution may have this shape: open dimensions may be smaller than their largest size."""
        if not self.dynamic:  # asked around each execution
            return tuple(shape) == self.shape
        return len(shape) == len(self.shape) and all(
            0 < size <= most if fixed is None else size == fixed
            for size, fixed, most in zip(shape, self.dims, self.shape, strict=True)
        )

    @property
    def sizes(self) -> str:
        """Its shape for messages, with the range of open dimensions: [2, 1 to 8]."""
        sizes = [str(size or f"1 to {most}") for size, most in zip(self.dims, self.shape, strict=True)]
        return f"[{', '.join(sizes)}]"

    def _keep(self, thing: Any) -> Any:
        self._kept.append(thing)
        return thing


def described_tensor(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    quant: Quantization = None,
    role: str = "",
    *,
    dynamic: tuple[bool, ...] = (),
    id: int = 0,
    data_format: int = 0,
) -> QnnTensor:
    """An input or output as a file describes it, unchecked: its type or its role may be unknown."""
    made = QnnTensor.__new__(QnnTensor)
    made.name, made.dtype, made.shape, made.quant, made.data, made.role = name, dtype, shape, quant, None, role
    made.dynamic, made.id, made.data_format = dynamic, id, data_format
    return made


@dataclass(frozen=True)
class Scalar:
    """A param that is one number or one string: `Scalar("axis", "UINT_32", 1)`."""

    name: str
    dtype: Named
    value: Number | str

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", datatypes.name_of(self.dtype))


# A param that is a tensor has the name of the tensor, or is a pair of its own name and the tensor.
Param = Scalar | QnnTensor | tuple[str, QnnTensor]


class OpConfig:
    """A node to add to a graph: package, op, inputs, outputs, params.

    `OpConfig("node", package="qti.aisw", op_type="Relu", inputs=[x], outputs=[y])`
    """

    def __init__(
        self,
        name: str,
        *,
        package: str,
        op_type: str,
        inputs: Sequence[QnnTensor] = (),
        outputs: Sequence[QnnTensor] = (),
        params: Sequence[Param] = (),
    ) -> None:
        ffi = abi.ffi()
        self.package, self.op_type = package, op_type
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.params = tuple(param if isinstance(param, tuple) else (param.name, param) for param in params)
        self._kept: list[Any] = []
        self.struct = ffi.new("Qnn_OpConfig_t *")
        self.struct.version = ffi.integer_const("QNN_OPCONFIG_VERSION_1")
        v1 = self.struct.v1
        v1.name, v1.packageName, v1.typeName = (self._text(text) for text in (name, package, op_type))
        v1.numOfParams, v1.params = len(params), self._params()
        v1.numOfInputs, v1.inputTensors = len(inputs), self._tensors(inputs)
        v1.numOfOutputs, v1.outputTensors = len(outputs), self._tensors(outputs)

    def lines(self) -> list[str]:
        """Its tensors and parameters, a readable line for each."""
        sides = (("input", self.inputs), ("output", self.outputs))
        tensors = [
            f"{side} `{tensor.name}`: {tensor.dtype} {list(tensor.shape)}" for side, row in sides for tensor in row
        ]
        return [*tensors, *(_param_line(*param) for param in self.params)]

    def by_value(self) -> Any:
        """The struct in the form that libffi can pass by value (see abi.py)."""
        return abi.ffi().cast("udogen_OpConfigByValue *", self.struct)[0]

    def _text(self, text: str) -> Any:
        self._kept.append(abi.ffi().new("char[]", abi.text_bytes(text, "a name or text of a node")))
        return self._kept[-1]

    def _tensors(self, tensors: Sequence[QnnTensor]) -> Any:
        self._kept.append(tensor_array(tensors))
        return self._kept[-1]

    def _params(self) -> Any:
        ffi = abi.ffi()
        array = ffi.new("Qnn_Param_t[]", max(len(self.params), 1))
        self._kept.append(array)
        for struct, (name, param) in zip(array, self.params, strict=False):
            struct.name = self._text(name)
            if isinstance(param, Scalar):
                struct.paramType = ffi.integer_const("QNN_PARAMTYPE_SCALAR")
                self._set_scalar(struct.scalarParam, param)
            else:
                struct.paramType = ffi.integer_const("QNN_PARAMTYPE_TENSOR")
                ffi.memmove(ffi.addressof(struct, "tensorParam"), param.struct, ffi.sizeof("Qnn_Tensor_t"))
        return array

    def _set_scalar(self, struct: Any, param: Scalar) -> None:
        row = _row(param.dtype)
        struct.dataType = row.code
        try:
            if row.kind == "string":
                struct.stringValue = self._text(str(param.value))
            elif isinstance(param.value, str):
                raise ValueError("a string instead of a number")
            elif row.kind == "bool":
                struct.bool8Value = bool(param.value)
            elif row.kind == "float":
                field = {32: "floatValue", 64: "doubleValue"}[row.bits]
                setattr(struct, field, float(param.value))
            else:
                sign = "int" if row.kind in ("int", "sfixed") else "uint"
                setattr(struct, f"{sign}{row.bits}Value", _whole(param.value))
        except UsageError:
            raise
        except (KeyError, AttributeError) as problem:
            raise RunFailed(
                f"param `{param.name}`: QNN's API has no scalars of {param.dtype}",
                hint="declare it as FLOAT_32 or INT_32 in the op's config",
            ) from problem
        except (OverflowError, ValueError) as problem:
            raise RunFailed(
                f"param `{param.name}`: {param.value!r} cannot be passed as {param.dtype}",
                hint="give a value in the range of the type, or declare another type in the op's config",
            ) from problem


def _param_line(name: str, param: Scalar | QnnTensor) -> str:
    value = param.value if isinstance(param, Scalar) else list(param.shape)
    return f"parameter `{name}`: {param.dtype} {value}"


def tensor_array(tensors: Sequence[QnnTensor]) -> Any:
    """An array of copies of the structs, as most calls need; the tensors must outlive it."""
    ffi = abi.ffi()
    array = ffi.new("Qnn_Tensor_t[]", max(len(tensors), 1))
    for index, tensor in enumerate(tensors):
        ffi.memmove(ffi.addressof(array, index), tensor.struct, ffi.sizeof("Qnn_Tensor_t"))
    return array


def _sizes(shape: Sequence[int], name: str) -> tuple[int, ...]:
    """A shape as a tuple; raises unless its integers have 32 bits."""
    sizes = tuple(map(operator.index, shape))
    if not all(0 <= size < 2**32 for size in sizes):
        raise UsageError(f"tensor `{name}` cannot have the shape {shape!r}", hint="give integers: (1, 8)")
    return sizes


def _quantization(given: Any, name: str) -> Any:
    """An encoding; a pair of scale and offset is one."""
    if not isinstance(given, (tuple, list)):
        return given
    try:
        scale, offset = given
        return quantization.ScaleOffset(float(scale), operator.index(offset))
    except (TypeError, ValueError) as fault:
        raise UsageError(f"the quantization of `{name}` is {given!r}", hint="give (scale, offset)") from fault


def _whole(value: Number | str) -> int:
    number = int(value)
    if number != value:
        raise ValueError("not an integer")
    return number


def _row(dtype: Named, what: str = "a tensor or a param", *, quantized: bool = False) -> datatypes.DataType:
    row = datatypes.parse(datatypes.name_of(dtype, quantized=quantized))
    if row is None or row.kind == "special":
        known = [each.name for each in datatypes.ALL]
        near = nearest(str(dtype), known)
        raise UsageError(
            f"{what} is {dtype}, which is not a data type",
            hint=(f"did you mean {near}? " if near else "") + "one of: " + ", ".join(known),
        )
    return row
