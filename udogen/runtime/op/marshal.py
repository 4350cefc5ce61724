"""Calls as messages, and results as arrays; numpy is needed here and nowhere else in the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed
from udogen.opdef import datatypes
from udogen.qnn.tensors import APP_READ, APP_WRITE, NULL, STATIC
from udogen.runtime.op.calls import OpCall, ParamArg, TensorArg
from udogen.runtime.wire import Message

if TYPE_CHECKING:
    import numpy as np

    from udogen.runtime.op.calls import Array


def order_of(call: OpCall) -> tuple[Message, list[Any]]:
    """A call as the worker wants it, with the bytes of its inputs; refuses what does not fit together."""
    buffers: list[Any] = []
    if call.loops < 1:
        raise RunFailed(f"op `{call.op_type}` cannot be run {call.loops} times", hint="give 1 or more loops")
    if not 0 <= call.poison <= 255:
        raise RunFailed(f"outputs cannot be filled with {call.poison}", hint="give a byte, 0 to 255")
    if call.context is not None and call.save_context:
        raise RunFailed("a restored context cannot be saved again", hint="keep the file that it was restored from")
    return {
        "do": "run",
        "op": call.op_type,
        "package": call.package,
        "loops": call.loops,
        "poison": call.poison,
        "inputs": [_input(call, arg, buffers) for arg in call.inputs],
        "outputs": [_row(arg, APP_READ) for arg in call.outputs],
        "params": [_param(call, param, buffers) for param in call.params],
        "context": None if call.context is None else _keep_bytes(call.context, buffers),
        "save": call.save_context,
    }, buffers


def arrays_of(call: OpCall, results: list[bytearray]) -> dict[str, Array]:
    """The outputs of a call, by name."""
    import numpy as np

    return {
        arg.name: np.frombuffer(room, _numpy_type(call, arg.name, arg.dtype)).reshape(arg.shape)
        for arg, room in zip(call.outputs, results[: len(call.outputs)], strict=True)
    }


def byte_sizes(call: OpCall) -> dict[str, int]:
    """How many bytes each input has."""
    return {arg.name: int(arg.array.nbytes) for arg in call.inputs if arg.array is not None}


def _input(call: OpCall, arg: TensorArg, buffers: list[Any]) -> Message:
    if arg.omitted:
        return _row(arg, NULL)
    if arg.array is None:
        raise RunFailed(f"input `{arg.name}` of op `{call.op_type}` has no data", hint="give it an array")
    row = _row(arg, STATIC if arg.static else APP_WRITE)
    row["buffer"] = _keep(_checked(call, arg.name, arg.dtype, arg.shape, arg.array), buffers)
    return row


def _param(call: OpCall, param: ParamArg, buffers: list[Any]) -> Message:
    value = param.value
    if hasattr(value, "__array__") and getattr(value, "shape", None) != ():
        shape = tuple(getattr(value, "shape", ()))
        row = _row(TensorArg(param.name, param.dtype, shape, quant=param.quant), STATIC)
        row["buffer"] = _keep(_checked(call, param.name, param.dtype, shape, value), buffers)
        return {"tensor": row}
    if hasattr(value, "item"):
        value = value.item()  # a numpy scalar
    return {"name": param.name, "dtype": param.dtype, "value": value}


def _row(arg: TensorArg, role: str) -> Message:
    return {"name": arg.name, "dtype": arg.dtype, "shape": list(arg.shape), "role": role, "quant": arg.quant}


def _keep_bytes(content: bytes, buffers: list[Any]) -> int:
    buffers.append(content)
    return len(buffers) - 1


def _keep(array: Any, buffers: list[Any]) -> int:
    import numpy as np

    # As plain bytes: memoryview knows neither float16 nor an array without elements.
    buffers.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return len(buffers) - 1


def _checked(call: OpCall, name: str, dtype: str, shape: tuple[int, ...], array: Any) -> Any:
    """The array, if it is what the tensor says: the runtime would read past the end of a smaller one."""
    want = _numpy_type(call, name, dtype)
    if array.dtype != want or tuple(array.shape) != tuple(shape):
        raise RunFailed(
            f"`{name}` of op `{call.op_type}` is declared {dtype} {list(shape)}, "
            f"its array is {array.dtype} {list(array.shape)}",
            hint=f"pass a numpy array of {want} with that shape",
        )
    return array


def _numpy_type(call: OpCall, name: str, dtype: str) -> np.dtype[Any]:
    import numpy as np

    row = datatypes.parse(dtype)
    if row is None or not row.numpy:
        raise RunFailed(
            f"`{name}` of op `{call.op_type}` has type {dtype}, of which udogen cannot make a tensor",
            hint="one of: " + ", ".join(each.name for each in datatypes.ALL if each.numpy),
        )
    return np.dtype(row.numpy)
