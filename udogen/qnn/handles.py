"""Handles of the QNN C API: one thin class each, freed once and in order.

Users work with `udogen.runtime.Runtime`, `Context` and `Graph`, which are built on these.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from udogen.errors import RunFailed, UsageError, WrongType
from udogen.findings import unknown
from udogen.qnn import abi
from udogen.qnn.interface import DEBUG, INFO, Interface, LogSink, QnnError, log_callback, text_of
from udogen.qnn.tensors import OpConfig, QnnTensor, tensor_array, type_code

_C = TypeVar("_C", bound="Closing")


def run_all(steps: Iterable[Callable[[], object]]) -> None:
    """Call each function, even if others fail; then raise the first error."""
    errors: list[Exception] = []
    for step in steps:
        try:
            step()
        except Exception as finding:
            errors.append(finding)
    if errors:
        raise errors[0]


class Closing:
    """A context manager that calls `close()` at its end; an error of `close()` does not replace an earlier one."""

    def close(self) -> None:
        """Free it."""
        raise NotImplementedError

    def check_open(self) -> None:
        """Raise where it cannot be used any more."""

    def __enter__(self: _C) -> _C:
        self.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except RunFailed:
            if error is None:
                raise


class Handle(Closing):
    """An object of the backend, freed once, by `with` or `close`.

    A forked process does not free it: it belongs to the parent.
    """

    def __init__(self, interface: Interface, raw: Any, free: str, *free_args: Any) -> None:
        self.interface, self.raw = interface, raw
        self._free, self._free_args = free, free_args
        self._process = os.getpid()

    def close(self) -> None:
        """Free it now."""
        raw, self.raw = self.raw, None
        if raw is not None and self._process == os.getpid():
            self.interface.call(self._free, raw, *self._free_args)


def raw_of(handle: Handle | None) -> Any:
    """The C handle; NULL for None."""
    return abi.ffi().NULL if handle is None else handle.raw


class ProfileHandle(Handle):
    """Collects profiling events of a backend."""

    def __init__(self, backend: BackendHandle, *, detailed: bool = False) -> None:
        level = abi.ffi().integer_const(f"QNN_PROFILE_LEVEL_{'DETAILED' if detailed else 'BASIC'}")
        made = backend.interface.make("profileCreate", backend.raw, level)
        super().__init__(backend.interface, made, "profileFree")

    def events(self) -> list[ProfileEvent]:
        """All events so far."""
        return self._events("profileGetEvents", self.raw)

    def _events(self, function: str, parent: Any) -> list[ProfileEvent]:
        ffi = abi.ffi()
        ids, count = ffi.new("QnnProfile_EventId_t const **"), ffi.new("uint32_t *")
        self.interface.call(function, parent, ids, count)
        events = []
        for index in range(count[0]):
            below = tuple(self._events("profileGetSubEvents", ids[0][index]))
            events.append(ProfileEvent(*self._data(ids[0][index]), below))
        return events

    def _data(self, event: int) -> tuple[str, int, int, int]:
        """Name, kind, value and unit of an event."""
        ffi = abi.ffi()
        data = ffi.new("QnnProfile_EventData_t *")
        try:
            self.interface.call("profileGetEventData", event, data)
            return text_of(data.identifier), data.type, data.value, data.unit
        except QnnError as error:
            if error.row.name != "QNN_PROFILE_ERROR_INCOMPATIBLE_EVENT":
                raise
        # libQnnCpu 2.47 has the newer kind of event only.
        extended = ffi.new("QnnProfile_ExtendedEventData_t *")
        extended.version = ffi.integer_const("QNN_PROFILE_DATA_VERSION_1")
        self.interface.call("profileGetExtendedEventData", event, extended)
        found = extended.v1
        number = found.value.dataType == ffi.integer_const("QNN_DATATYPE_UINT_64")
        return text_of(found.identifier), found.type, found.value.uint64Value if number else 0, found.unit


@dataclass(frozen=True)
class ProfileEvent:
    """A measured value; `kind` and `unit` are numbers of QNN_PROFILE_EVENTTYPE_ and EVENTUNIT_.

    `print(event.name, event.value)`
    """

    name: str
    kind: int
    value: int
    unit: int
    below: tuple[ProfileEvent, ...]


PRECISIONS = ("FP32", "FP16", "HYBRID")  # of a graph on GPU
# Options of HTP and their member in the union of QnnHtpContext_CustomConfig_t.
HTP_OPTIONS = {
    "WEIGHT_SHARING_ENABLED": "weightSharingEnabled",
    "REGISTER_MULTI_CONTEXTS": "groupRegistration",
    "FILE_READ_MEMORY_BUDGET": "fileReadMemoryBudgetInMb",
    "SHARE_RESOURCES": "shareResources",
    "PREPARE_ONLY": "isPrepareOnly",
    "USE_EXTENDED_UDMA": "useExtendedUdma",
    "REGISTER_CONCURRENT_RESOURCE_SHARING": "concurrentGroupRegistration",
}
# Properties of HTP (QNN_HTP_CONTEXT_GET_PROP_…) and their member.
HTP_PROPERTIES = {
    "BUFFER_START_ALIGNMENT": "bufferStartAlignment",
    "MAX_SPILLFILL_BUFFER_SIZE": "spillfillBufferSize",
    "WEIGHTS_BUFFER_SIZE": "weightsBufferSize",
}


@dataclass(frozen=True)
class ContextOptions:
    """Options of a context; the backend chooses those that are not set.

    `runtime.restore(path, options=ContextOptions(deferred=True))`
    """

    deferred: bool = False  # graphs are initialized by `Context.finalize`, after buffers were registered
    graphs: tuple[str, ...] = ()  # only these of the binary
    queue_depth: int = 0  # of asynchronous executions
    memory_limit_hint: int = 0  # graph switching
    persistent_binary: bool = False
    htp: Mapping[str, Any] = field(default_factory=dict)  # by the names of HTP_OPTIONS

    def __post_init__(self) -> None:
        for key, value in self.htp.items():
            if key not in HTP_OPTIONS:
                raise unknown("HTP has no context option", key, HTP_OPTIONS)
            if value is None or isinstance(value, (str, bytes)):
                raise UsageError(f"the context option {key} is {value!r}", hint="give True, False or a number")

    def configs(self) -> tuple[Any, list[Any]]:
        """The options as C structs, and memory that must live as long as the runtime may read them."""
        ffi, rows, kept = abi.ffi(), [], []

        def row(option: str, where: str, value: Any) -> None:
            rows.append(ffi.new("QnnContext_Config_t *"))
            rows[-1].option = ffi.integer_const(f"QNN_CONTEXT_CONFIG_{option}")
            setattr(rows[-1], where, value)

        if self.deferred:
            row("OPTION_DEFER_GRAPH_INIT", "isGraphInitDeferred", 1)
        if self.graphs:
            names = [ffi.new("char[]", abi.text_bytes(name, "the name of a graph")) for name in self.graphs]
            array = ffi.new("char const *[]", [*names, ffi.NULL])
            kept += [*names, array]
            row("ENABLE_GRAPHS", "enableGraphs", array)
        if self.queue_depth:
            row("ASYNC_EXECUTION_QUEUE_DEPTH", "asyncExeQueueDepth", {"type": 0, "depth": self.queue_depth})
        if self.memory_limit_hint:
            row("MEMORY_LIMIT_HINT", "memoryLimitHint", self.memory_limit_hint)
        if self.persistent_binary:
            row("PERSISTENT_BINARY", "isPersistentBinary", 1)
        for name, value in self.htp.items():
            custom = ffi.new("QnnHtpContext_CustomConfig_t *")
            custom.option = ffi.integer_const(f"QNN_HTP_CONTEXT_CONFIG_OPTION_{name}")
            try:
                setattr(custom, HTP_OPTIONS[name], value)
            except (TypeError, OverflowError) as fault:
                member = getattr(custom, HTP_OPTIONS[name])
                known = ffi.typeof(member).fields if isinstance(member, ffi.CData) else []
                fields = ", ".join(f'"{field}": …' for field, _ in known)
                hint = f"give its fields: {{{fields}}}" if fields else "give True, False or a number"
                raise WrongType(f"the context option {name} is {value!r}", hint=hint) from fault
            kept.append(custom)
            row("OPTION_CUSTOM", "customConfig", custom)
        if not rows:
            return ffi.NULL, []
        configs = ffi.new("QnnContext_Config_t const *[]", [*rows, ffi.NULL])
        return configs, [*rows, *kept, configs]


class ContextHandle(Handle):
    """A context: graphs are made in it or retrieved from it."""

    def __init__(self, interface: Interface, raw: Any, kept: Sequence[Any] = ()) -> None:
        super().__init__(interface, raw, "contextFree", abi.ffi().NULL)
        self._kept = list(kept)  # a deferred context reads binary and options again when it is finalized

    def close(self) -> None:
        """Free it, and every graph in it."""
        super().close()
        self._kept.clear()

    def graph(self, name: str, *, precision: str = "") -> GraphHandle:
        """An empty graph; on GPU `precision` (FP32, FP16, HYBRID) is that of tensors between ops."""
        ffi, configs = abi.ffi(), abi.ffi().NULL
        if precision:
            custom, config = ffi.new("QnnGpuGraph_CustomConfig_t *"), ffi.new("QnnGraph_Config_t *")
            custom.precision = ffi.integer_const(f"QNN_GPU_PRECISION_{precision}")
            config.option, config.customConfig = ffi.integer_const("QNN_GRAPH_CONFIG_OPTION_CUSTOM"), custom
            configs = ffi.new("QnnGraph_Config_t const *[]", [config, ffi.NULL])
        text = abi.text_bytes(name, "the name of a graph")
        return GraphHandle(self.interface, self.interface.make("graphCreate", self.raw, text, configs), name)

    def retrieve(self, name: str) -> GraphHandle:
        """A graph of a restored context."""
        return GraphHandle(
            self.interface,
            self.interface.make("graphRetrieve", self.raw, abi.text_bytes(name, "the name of a graph")),
            name,
        )

    def finalize(self, profile: ProfileHandle | None = None) -> None:
        """Initialize the graphs of a context that was restored with `deferred`."""
        self.interface.call("contextFinalize", self.raw, raw_of(profile))

    def property(self, name: str) -> int:
        """A property of an HTP context, by its name in HTP_PROPERTIES."""
        ffi = abi.ffi()
        custom, row = ffi.new("QnnHtpContext_CustomProperty_t *"), ffi.new("QnnContext_Property_t *")
        custom.option = ffi.integer_const(f"QNN_HTP_CONTEXT_GET_PROP_{name}")
        row.option, row.customProperty = ffi.integer_const("QNN_CONTEXT_PROPERTY_OPTION_CUSTOM"), custom
        self.interface.call("contextGetProperty", self.raw, ffi.new("QnnContext_Property_t *[]", [row, ffi.NULL]))
        return int(getattr(custom, HTP_PROPERTIES[name]))

    def binary(self) -> bytes:
        """The context as a binary; its graphs must be finalized."""
        ffi = abi.ffi()
        size = ffi.new("Qnn_ContextBinarySize_t *")
        self.interface.call("contextGetBinarySize", self.raw, size)
        stored, written = ffi.new("char[]", size[0]), ffi.new("Qnn_ContextBinarySize_t *")
        self.interface.call("contextGetBinary", self.raw, stored, size[0], written)
        return bytes(ffi.buffer(stored, written[0]))


class GraphHandle:
    """A graph under construction: add tensors and nodes, then `Context.finalize_graph`."""

    def __init__(self, interface: Interface, raw: Any, name: str) -> None:
        self.interface, self.raw, self.name = interface, raw, name
        self.tensors: list[QnnTensor] = []  # that were added
        self.owner: object = None  # kept alive as long as the graph
        self._ops: list[OpConfig] = []
        self.one_at_a_time = threading.Lock()  # concurrent executions of one graph give wrong results

    def add_tensor(self, tensor: QnnTensor) -> QnnTensor:
        """Create the tensor in this graph, which sets its id."""
        self.tensors.append(tensor)
        self.interface.call("tensorCreateGraphTensor", self.raw, tensor.struct)
        tensor.id = int(tensor.struct.v1.id)
        return tensor

    def of_role(self, role: str) -> list[QnnTensor]:
        """The tensors of a role that were added: APP_WRITE are inputs, APP_READ are outputs."""
        return [tensor for tensor in self.tensors if tensor.role == role]

    def add_node(self, op: OpConfig) -> None:
        """Add a node whose tensors are in the graph; calls the package's validateOpConfig."""
        self._ops.append(op)
        self.interface.call_with_op("graphAddNode", self.raw, op)

    def finalize(self, profile: ProfileHandle | None = None) -> None:
        """Prepare the graph for execution; calls the package's createOpImpl."""
        self.interface.call("graphFinalize", self.raw, raw_of(profile), abi.ffi().NULL)

    def execute(
        self, inputs: Sequence[QnnTensor], outputs: Sequence[QnnTensor], profile: ProfileHandle | None = None
    ) -> None:
        """Run the graph on tensors that are bound to buffers."""
        self.executor(inputs, outputs, profile)()

    def executor(
        self, inputs: Sequence[QnnTensor], outputs: Sequence[QnnTensor], profile: ProfileHandle | None = None
    ) -> Callable[[], None]:
        """A function that executes the graph with everything prepared, for timed loops."""
        arrays = tensor_array(inputs), tensor_array(outputs)
        call, args = self.call(*arrays, counts=(len(inputs), len(outputs)), profile=profile)
        lock, kept = self.one_at_a_time, (*inputs, *outputs)

        def run() -> None:
            with lock:
                code = call(*args)
            if code:
                raise QnnError("graphExecute", code)

        run.__dict__["kept"] = kept
        return run

    def call(
        self, inputs: Any, outputs: Any, *, counts: tuple[int, int], profile: ProfileHandle | None = None
    ) -> tuple[Callable[..., int], tuple[Any, ...]]:
        """The C function that executes the graph, and its arguments; hold `one_at_a_time` while calling it."""
        args = (self.raw, inputs, counts[0], outputs, counts[1], raw_of(profile), abi.ffi().NULL)
        return self.interface.function("graphExecute"), args

    def start(self, args: Sequence[Any], done: Callable[[int], None]) -> None:
        """Execute the graph asynchronously; `done` is called with the code, in a thread of the backend."""
        key = next(_keys)
        _running[key] = done
        try:
            self.interface.call("graphExecuteAsync", *args, _notify(), abi.ffi().cast("void *", key))
        except BaseException:
            del _running[key]
            raise


_keys = itertools.count(1)
_running: dict[int, Callable[[int], None]] = {}  # asynchronous executions that have not ended


@cache
def _notify() -> Any:
    """The C callback of all asynchronous executions."""
    ffi = abi.ffi()

    def ended(key: Any, status: Any) -> None:
        _running.pop(int(ffi.cast("uintptr_t", key)))(int(status.error))

    return ffi.callback("Qnn_NotifyFn_t", ended)


ION, DMA_BUF = "ION", "DMA_BUF"


class SharedRange(NamedTuple):
    """Where a tensor lies in a shared buffer of HTP, and the bytes of the whole buffer."""

    offset: int
    size: int


class MemoryHandle(Handle):
    """Registered memory of one tensor; deregister it before its context is freed.

    With `shared`, several tensors share one descriptor.
    """

    def __init__(
        self,
        context: ContextHandle,
        fd: int,
        *,
        dtype: str,
        shape: Sequence[int],
        kind: str = ION,
        address: int = 0,  # of the client's mapping, for DMA_BUF
        shared: SharedRange | None = None,
    ) -> None:
        ffi = abi.ffi()
        described, self.dtype, self.shape = ffi.new("Qnn_MemDescriptor_t *"), dtype, tuple(shape)
        dims = ffi.new("uint32_t[]", [*self.shape, 0])
        described.memShape.numDim, described.memShape.dimSize = len(self.shape), dims
        described.dataType = type_code(dtype)
        described.memType = ffi.integer_const(f"QNN_MEM_TYPE_{'CUSTOM' if shared else kind}")
        kept: list[Any] = [dims]
        if shared is not None:
            custom = ffi.new("QnnMemHtp_Descriptor_t *")
            custom.type, custom.size = ffi.integer_const("QNN_HTP_MEM_SHARED_BUFFER"), shared.size
            custom.sharedBufferConfig.fd, custom.sharedBufferConfig.offset = fd, shared.offset
            described.customInfo = custom
            kept.append(custom)
        elif kind == DMA_BUF:
            described.dmaBufInfo.fd, described.dmaBufInfo.data = fd, ffi.cast("void *", address)
        else:
            described.ionInfo.fd = fd
        handles = ffi.new("Qnn_MemHandle_t[1]")
        context.interface.call("memRegister", context.raw, described, 1, handles)
        super().__init__(context.interface, handles, "memDeRegister", 1)

    @property
    def handle(self) -> Any:
        """The handle for `QnnTensor.bind_memory`."""
        return self.raw[0]


def register_external(context: ContextHandle, kind: str, fd: int, *, offset: int, size: int) -> Handle:
    """Register memory for the weights (WEIGHTS_BUFFER) or spilling (SHARED_SPILLFILL_BUFFER) of a deferred HTP context.

    Once the context is finalized, the runtime deregisters it when the context is freed.
    """
    ffi = abi.ffi()
    row, custom = ffi.new("Qnn_MemDescriptor_t *"), ffi.new("QnnMemHtp_Descriptor_t *")
    custom.type, custom.size = ffi.integer_const(f"QNN_HTP_MEM_{kind}"), size
    custom.sharedBufferConfig.fd, custom.sharedBufferConfig.offset = fd, offset
    row.memType, row.customInfo = ffi.integer_const("QNN_MEM_TYPE_CUSTOM"), custom
    handles = ffi.new("Qnn_MemHandle_t[1]")
    context.interface.call("memRegister", context.raw, row, 1, handles)
    return Handle(context.interface, handles, "memDeRegister", 1)


@dataclass(frozen=True)
class DeviceInfo:
    """One processor; values that the backend does not report are 0.

    `print(device.name, device.arch)`
    """

    number: int
    soc: int
    arch: int  # version of Hexagon: 73
    tcm: int  # bytes of tightly coupled memory
    cores: int

    @property
    def name(self) -> str:
        """Its short name."""
        return f"HTP{self.number}"


def devices(interface: Interface) -> tuple[DeviceInfo, ...]:
    """All devices, by number; `QnnError` if the backend does not report them."""
    ffi = abi.ffi()
    info = ffi.new("QnnDevice_PlatformInfo_t const **")
    interface.call("deviceGetPlatformInfo", ffi.NULL, info)
    try:
        rows = (info[0].v1.hwDevices[index].v1 for index in range(info[0].v1.numHwDevices))
        found = [_device(row, htp="HTP" in interface.name) for row in rows]
    finally:
        interface.call("deviceFreePlatformInfo", ffi.NULL, info[0])
    return tuple(sorted(found, key=lambda each: each.number))


def _device(row: Any, *, htp: bool) -> DeviceInfo:
    extension = row.deviceInfoExtension
    on_chip = None
    if htp and extension and extension.devType == abi.ffi().integer_const("QNN_HTP_DEVICE_TYPE_ON_CHIP"):
        on_chip = extension.onChipDevice
    return DeviceInfo(
        number=row.deviceId,
        soc=on_chip.socModel if on_chip else 0,
        arch=on_chip.arch if on_chip else 0,
        tcm=(on_chip.vtcmSize << 20) if on_chip else 0,
        cores=row.numCores,
    )


DEFAULT = ContextOptions()


class LogHandle(Handle):
    """Calls a Python function with each line that the backend and its op packages log."""

    def __init__(self, interface: Interface, sink: LogSink, level: int = INFO) -> None:
        self._sink, self._level = sink, level
        self._all: list[tuple[int, str]] | None = None
        self._callback = log_callback(self._log)
        super().__init__(interface, interface.make("logCreate", self._callback, level), "logFree")

    def _log(self, level: int, text: str) -> None:
        if self._all is not None:
            self._all.append((level, text))
        if level <= self._level:
            self._sink(level, text)

    @contextmanager
    def everything(self) -> Iterator[list[tuple[int, str]]]:
        """Collect all lines logged inside, with their level, in addition to calling the function."""
        lines = self._all = list[tuple[int, str]]()
        try:
            self.interface.call("logSetLogLevel", self.raw, DEBUG)
            yield lines
        finally:
            self._all = None
            self.interface.call("logSetLogLevel", self.raw, self._level)


_AT_4 = ("v2.43", "v2.49")  # releases in which the values of QnnHtpDevice_CustomConfig_t begin at offset 4


class DeviceHandle(Handle):
    """The processor that a backend runs on, for HTP chosen by SoC or number; with a number, as an unsigned domain."""

    def __init__(
        self, interface: Interface, log: LogHandle | None = None, *, soc: int = 0, number: int | None = None
    ) -> None:
        self._kept: list[Any] = []  # the runtime reads them after this returns
        rows = []
        if soc:
            rows.append(self._custom("SOC", soc, soc))
        if number is not None:
            rows.append(self._platform(number))
        if number is not None and "HTP" in interface.name:
            # The member has the number of the device, then a truth.  Where it begins at 4, that truth is at 8.
            begins_at_4 = interface.build_id().startswith(_AT_4)
            rows.append(self._custom("SIGNEDPD", number, 0 if begins_at_4 else number))
        made = interface.make("deviceCreate", raw_of(log), self._configs(rows))
        super().__init__(interface, made, "deviceFree")

    def _custom(self, option: str, at_4: int, at_8: int) -> Any:
        """An option of HTP, with the numbers at two places: releases differ in where its value begins."""
        ffi = abi.ffi()
        custom, row = ffi.new("QnnHtpDevice_CustomConfig_t *"), ffi.new("QnnDevice_Config_t *")
        custom.option = ffi.integer_const(f"QNN_HTP_DEVICE_CONFIG_OPTION_{option}")
        custom.socModelAt4, custom.socModel = at_4, at_8
        row.option, row.customConfig = ffi.integer_const("QNN_DEVICE_CONFIG_OPTION_CUSTOM"), custom
        self._kept.append(custom)
        return row

    def _configs(self, rows: Sequence[Any]) -> Any:
        ffi = abi.ffi()
        if not rows:
            return ffi.NULL
        configs = ffi.new("QnnDevice_Config_t const *[]", [*rows, ffi.NULL])
        self._kept += [*rows, configs]
        return configs

    def _platform(self, number: int) -> Any:
        """One device of the platform, with its first core."""
        ffi = abi.ffi()
        cores, device = ffi.new("QnnDevice_CoreInfo_t[1]"), ffi.new("QnnDevice_HardwareDeviceInfo_t[1]")
        cores[0].version = ffi.integer_const("QNN_DEVICE_CORE_INFO_VERSION_1")
        device[0].version = ffi.integer_const("QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_1")
        device[0].v1.deviceId, device[0].v1.numCores, device[0].v1.cores = number, 1, cores
        info, row = ffi.new("QnnDevice_PlatformInfo_t *"), ffi.new("QnnDevice_Config_t *")
        info.version = ffi.integer_const("QNN_DEVICE_PLATFORM_INFO_VERSION_1")
        info.v1.numHwDevices, info.v1.hwDevices = 1, device
        row.option, row.hardwareInfo = ffi.integer_const("QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO"), info
        self._kept += [cores, device, info]
        return row


@dataclass(frozen=True)
class SupportedOp:
    """An op that a backend can run."""

    package: str
    name: str
    target: str


class BackendHandle(Handle):
    """A running backend, to which op packages are registered.

    libQnnHtp frees the op packages of an open backend twice when a process ends, and so aborts it: close it before.
    """

    def __init__(self, interface: Interface, log: LogHandle | None = None) -> None:
        self._log = log  # keeps the callback alive
        made = interface.make("backendCreate", raw_of(log), abi.ffi().NULL)
        super().__init__(interface, made, "backendFree")

    def register(self, library: Path, provider: str, target: str | None = None) -> None:
        """Load an op package and register its ops."""
        path, symbol = str(library).encode(), abi.text_bytes(provider, "the interface provider")
        where = abi.ffi().NULL if target is None else abi.text_bytes(target, "the target of an op package")
        self.interface.call("backendRegisterOpPackage", self.raw, path, symbol, where)

    def operations(self) -> list[SupportedOp]:
        """All ops, built in and of registered packages."""
        ffi = abi.ffi()
        count, rows = ffi.new("uint32_t *"), ffi.new("QnnBackend_OperationName_t const **")
        self.interface.call("backendGetSupportedOperations", self.raw, count, rows)
        found = (rows[0][index] for index in range(count[0]))
        return [SupportedOp(text_of(row.packageName), text_of(row.name), text_of(row.target)) for row in found]

    def validate(self, op: OpConfig) -> None:
        """Raise unless the backend or the op's package accepts this node."""
        self.interface.call_with_op("backendValidateOpConfig", self.raw, op)

    def context(self, device: DeviceHandle | None = None, options: ContextOptions = DEFAULT) -> ContextHandle:
        """A new, empty context."""
        configs, kept = options.configs()
        made = self.interface.make("contextCreate", self.raw, raw_of(device), configs)
        return ContextHandle(self.interface, made, kept)

    def restore(
        self,
        binary: Any,
        device: DeviceHandle | None = None,
        options: ContextOptions = DEFAULT,
        profile: ProfileHandle | None = None,
    ) -> ContextHandle:
        """Restore a context from bytes or a mapped file."""
        ffi = abi.ffi()
        configs, kept = options.configs()
        held, made = ffi.from_buffer(binary), ffi.new("void **")
        args = (self.raw, raw_of(device), configs, held, len(held), made, raw_of(profile))
        try:
            self.interface.call("contextCreateFromBinary", *args)
        except BaseException:
            ffi.release(held)
            raise
        if not options.deferred:  # a deferred context reads the binary again when it is finalized
            ffi.release(held)
            return ContextHandle(self.interface, made[0], kept)
        return ContextHandle(self.interface, made[0], [*kept, held])
