"""What a QNN backend makes, each freed in the right order when its `with` block ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from udogen.qnn import abi
from udogen.qnn.interface import INFO, Interface, LogSink, QnnError, log_callback, text_of
from udogen.qnn.tensors import OpConfig, Tensor, tensor_array

_H = TypeVar("_H", bound="Handle")


class Handle:
    """Something the backend made and must free; freed once, at the end of `with` or by `close`."""

    def __init__(self, interface: Interface, raw: Any, free: str, *free_args: Any) -> None:
        self.interface, self.raw = interface, raw
        self._free, self._free_args = free, free_args

    def close(self) -> None:
        """Free it now."""
        raw, self.raw = self.raw, None
        if raw is not None:
            self.interface.call(self._free, raw, *self._free_args)

    def __enter__(self: _H) -> _H:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except QnnError:
            if error is None:  # the first error is the one to show
                raise


class Log(Handle):
    """Hands the lines of the backend, and of the op packages it registers, to a Python function."""

    def __init__(self, interface: Interface, sink: LogSink, level: int = INFO) -> None:
        self._callback = log_callback(sink)
        super().__init__(interface, interface.make("logCreate", self._callback, level), "logFree")


class Device(Handle):
    """The processor that a backend runs on; HTP can be told which one it shall be."""

    def __init__(self, interface: Interface, log: Log | None = None, *, soc: int = 0) -> None:
        made = interface.make("deviceCreate", _raw(log), self._configs(soc))
        super().__init__(interface, made, "deviceFree")

    def _configs(self, soc: int) -> Any:
        ffi = abi.ffi()
        if not soc:
            return ffi.NULL
        custom, config = ffi.new("QnnHtpDevice_CustomConfig_t *"), ffi.new("QnnDevice_Config_t *")
        custom.option = ffi.integer_const("QNN_HTP_DEVICE_CONFIG_OPTION_SOC")
        custom.socModelAt4 = custom.socModel = soc
        config.option, config.customConfig = ffi.integer_const("QNN_DEVICE_CONFIG_OPTION_CUSTOM"), custom
        configs = ffi.new("QnnDevice_Config_t const *[]", [config, ffi.NULL])
        self._kept = (custom, config, configs)  # the runtime reads them after this returns
        return configs


@dataclass(frozen=True)
class Operation:
    """An op that a backend can run."""

    package: str
    name: str
    target: str


class Backend(Handle):
    """A running backend, to which op packages are registered."""

    def __init__(self, interface: Interface, log: Log | None = None) -> None:
        self._log = log  # the callback must live as long as the backend
        made = interface.make("backendCreate", _raw(log), abi.ffi().NULL)
        super().__init__(interface, made, "backendFree")

    def register(self, library: Path, provider: str, target: str | None = None) -> None:
        """Load an op package and register its ops."""
        path = str(library).encode()
        where = abi.ffi().NULL if target is None else target.encode()
        self.interface.call("backendRegisterOpPackage", self.raw, path, provider.encode(), where)

    def operations(self) -> list[Operation]:
        """Every op there is, the backend's own and those of registered packages."""
        ffi = abi.ffi()
        count, rows = ffi.new("uint32_t *"), ffi.new("QnnBackend_OperationName_t const **")
        self.interface.call("backendGetSupportedOperations", self.raw, count, rows)
        found = (rows[0][index] for index in range(count[0]))
        return [Operation(text_of(row.packageName), text_of(row.name), text_of(row.target)) for row in found]

    def validate(self, op: OpConfig) -> None:
        """Ask whether the backend, or the op's package, takes this node."""
        self.interface.call_with_op("backendValidateOpConfig", self.raw, op)

    def context(self, device: Device | None = None) -> Context:
        """A new, empty context."""
        null = abi.ffi().NULL
        return Context(self.interface, self.interface.make("contextCreate", self.raw, _raw(device), null))

    def restore(self, binary: bytes, device: Device | None = None) -> Context:
        """The context that was stored as this binary."""
        ffi = abi.ffi()
        made = ffi.new("void **")
        args = (self.raw, _raw(device), ffi.NULL, ffi.from_buffer(binary), len(binary), made, ffi.NULL)
        self.interface.call("contextCreateFromBinary", *args)
        return Context(self.interface, made[0])


class Profile(Handle):
    """Collects what a backend measures."""

    def __init__(self, backend: Backend, *, detailed: bool = False) -> None:
        level = abi.ffi().integer_const(f"QNN_PROFILE_LEVEL_{'DETAILED' if detailed else 'BASIC'}")
        made = backend.interface.make("profileCreate", backend.raw, level)
        super().__init__(backend.interface, made, "profileFree")

    def events(self) -> list[ProfileEvent]:
        """Everything measured so far."""
        return self._events("profileGetEvents", self.raw)

    def _events(self, function: str, parent: Any) -> list[ProfileEvent]:
        ffi = abi.ffi()
        ids, count = ffi.new("QnnProfile_EventId_t const **"), ffi.new("uint32_t *")
        self.interface.call(function, parent, ids, count)
        events = []
        for index in range(count[0]):
            data, value = self._data(ids[0][index])
            below = tuple(self._events("profileGetSubEvents", ids[0][index]))
            events.append(ProfileEvent(text_of(data.identifier), data.type, value, data.unit, below))
        return events

    def _data(self, event: int) -> tuple[Any, int]:
        ffi = abi.ffi()
        data = ffi.new("QnnProfile_EventData_t *")
        try:
            self.interface.call("profileGetEventData", event, data)
            return data, data.value
        except QnnError as error:
            if error.row.name != "QNN_PROFILE_ERROR_INCOMPATIBLE_EVENT":
                raise
        # libQnnCpu 2.47 has the newer kind of event only.
        extended = ffi.new("QnnProfile_ExtendedEventData_t *")
        extended.version = ffi.integer_const("QNN_PROFILE_DATA_VERSION_1")
        self.interface.call("profileGetExtendedEventData", event, extended)
        number = extended.v1.value.dataType == ffi.integer_const("QNN_DATATYPE_UINT_64")
        return extended.v1, extended.v1.value.uint64Value if number else 0


@dataclass(frozen=True)
class ProfileEvent:
    """One measured value; `kind` and `unit` are QNN_PROFILE_EVENTTYPE_ and EVENTUNIT_ numbers."""

    name: str
    kind: int
    value: int
    unit: int
    below: tuple[ProfileEvent, ...]


class Context(Handle):
    """What holds graphs."""

    def __init__(self, interface: Interface, raw: Any) -> None:
        super().__init__(interface, raw, "contextFree", abi.ffi().NULL)

    def graph(self, name: str, *, precision: str = "") -> Graph:
        """A new, empty graph; on GPU `precision` (FP32, FP16, HYBRID) says how tensors between ops are stored."""
        ffi, configs = abi.ffi(), abi.ffi().NULL
        if precision:
            custom, config = ffi.new("QnnGpuGraph_CustomConfig_t *"), ffi.new("QnnGraph_Config_t *")
            custom.precision = ffi.integer_const(f"QNN_GPU_PRECISION_{precision}")
            config.option, config.customConfig = ffi.integer_const("QNN_GRAPH_CONFIG_OPTION_CUSTOM"), custom
            configs = ffi.new("QnnGraph_Config_t const *[]", [config, ffi.NULL])
        return Graph(self.interface, self.interface.make("graphCreate", self.raw, name.encode(), configs))

    def retrieve(self, name: str) -> Graph:
        """A graph of a restored context."""
        return Graph(self.interface, self.interface.make("graphRetrieve", self.raw, name.encode()))

    def binary(self) -> bytes:
        """The context, stored; its graphs must be finalized."""
        ffi = abi.ffi()
        size = ffi.new("Qnn_ContextBinarySize_t *")
        self.interface.call("contextGetBinarySize", self.raw, size)
        room, written = ffi.new("char[]", size[0]), ffi.new("Qnn_ContextBinarySize_t *")
        self.interface.call("contextGetBinary", self.raw, room, size[0], written)
        return bytes(ffi.buffer(room, written[0]))


class Graph:
    """Nodes and tensors; freed with its context."""

    def __init__(self, interface: Interface, raw: Any) -> None:
        self.interface, self.raw = interface, raw
        self._kept: list[Any] = []
        self._one_at_a_time = threading.Lock()  # two executes of one graph give wrong results

    def add_tensor(self, tensor: Tensor) -> Tensor:
        """Create the tensor in this graph; it gets its id here."""
        self._kept.append(tensor)
        self.interface.call("tensorCreateGraphTensor", self.raw, tensor.struct)
        return tensor

    def add_node(self, op: OpConfig) -> None:
        """Add a node whose tensors are in the graph; the package's validateOpConfig runs here."""
        self._kept.append(op)
        self.interface.call_with_op("graphAddNode", self.raw, op)

    def finalize(self, profile: Profile | None = None) -> None:
        """Make the graph ready to run; the package's createOpImpl runs here."""
        self.interface.call("graphFinalize", self.raw, _raw(profile), abi.ffi().NULL)

    def execute(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], profile: Profile | None = None) -> None:
        """Run the graph on tensors that are bound to buffers."""
        self.executor(inputs, outputs, profile)()

    def executor(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], profile: Profile | None = None
    ) -> Callable[[], None]:
        """A function that runs the graph, with everything prepared: for loops that are timed."""
        arrays = tensor_array(inputs), tensor_array(outputs)
        args = (self.raw, arrays[0], len(inputs), arrays[1], len(outputs), _raw(profile), abi.ffi().NULL)
        kept = (*inputs, *outputs)

        def run() -> None:
            with self._one_at_a_time:
                self.interface.call("graphExecute", *args)

        run.__dict__["kept"] = kept
        return run


def _raw(handle: Handle | None) -> Any:
    return abi.ffi().NULL if handle is None else handle.raw
