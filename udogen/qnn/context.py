"""Contexts, new ones and those restored from a binary, and the graphs in them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from udogen.errors import UsageError
from udogen.opdef.problems import nearest
from udogen.qnn import abi
from udogen.qnn.handle import Handle, raw_of
from udogen.qnn.interface import Interface, QnnError
from udogen.qnn.profile import Profile
from udogen.qnn.tensors import OpConfig, Tensor, tensor_array

# Options that only HTP has: where in the union of QnnHtpContext_CustomConfig_t their value is.
HTP_OPTIONS = {
    "WEIGHT_SHARING_ENABLED": "weightSharingEnabled",
    "REGISTER_MULTI_CONTEXTS": "groupRegistration",
    "FILE_READ_MEMORY_BUDGET": "fileReadMemoryBudgetInMb",
    "SHARE_RESOURCES": "shareResources",
    "PREPARE_ONLY": "isPrepareOnly",
    "USE_EXTENDED_UDMA": "useExtendedUdma",
    "REGISTER_CONCURRENT_RESOURCE_SHARING": "concurrentGroupRegistration",
}
# Properties that only HTP has: QNN_HTP_CONTEXT_GET_PROP_…, and where their value is.
HTP_PROPERTIES = {
    "BUFFER_START_ALIGNMENT": "bufferStartAlignment",
    "MAX_SPILLFILL_BUFFER_SIZE": "spillfillBufferSize",
    "WEIGHTS_BUFFER_SIZE": "weightsBufferSize",
}


@dataclass(frozen=True)
class ContextOptions:
    """How a context is made; what is not named is left to the backend."""

    deferred: bool = False  # graphs come with `Context.finalize`, after buffers were registered
    graphs: tuple[str, ...] = ()  # only these of the binary
    queue_depth: int = 0  # of asynchronous executions
    memory_limit_hint: int = 0  # graph switching
    persistent_binary: bool = False
    htp: Mapping[str, Any] = field(default_factory=dict)  # by the names of HTP_OPTIONS

    def __post_init__(self) -> None:
        graphs: object = self.graphs
        if not isinstance(graphs, (tuple, list)) or not all(isinstance(each, str) for each in graphs):
            raise UsageError("the graphs of ContextOptions are no names", hint='give them in a tuple: graphs=("one",)')
        for name in ("queue_depth", "memory_limit_hint"):
            number = getattr(self, name)
            if not isinstance(number, int) or not 0 <= number < 2**64:
                raise UsageError(f"{name} of ContextOptions is {number!r}", hint="give a whole number, 0 or more")
        if not isinstance(self.htp, Mapping):
            raise UsageError(f"htp of ContextOptions is a {type(self.htp).__name__}", hint='give a dict: {"OPTION": 1}')
        for key, value in self.htp.items():
            if key not in HTP_OPTIONS:
                near = nearest(str(key), HTP_OPTIONS)
                raise UsageError(
                    f"HTP has no context option `{key}`",
                    hint=f"did you mean `{near}`?" if near else "it has: " + ", ".join(HTP_OPTIONS),
                )
            if value is None or isinstance(value, (str, bytes)):
                raise UsageError(f"the context option {key} is {value!r}", hint="give True, False or a number")

    def configs(self) -> tuple[Any, list[Any]]:
        """The options as the API takes them, and what must be kept as long as the runtime may read them."""
        ffi, rows, kept = abi.ffi(), [], []

        def row(option: str, where: str, value: Any) -> None:
            rows.append(ffi.new("QnnContext_Config_t *"))
            rows[-1].option = ffi.integer_const(f"QNN_CONTEXT_CONFIG_{option}")
            setattr(rows[-1], where, value)

        if self.deferred:
            row("OPTION_DEFER_GRAPH_INIT", "isGraphInitDeferred", 1)
        if self.graphs:
            names = [ffi.new("char[]", name.encode()) for name in self.graphs]
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
            setattr(custom, HTP_OPTIONS[name], value)
            kept.append(custom)
            row("OPTION_CUSTOM", "customConfig", custom)
        if not rows:
            return ffi.NULL, []
        configs = ffi.new("QnnContext_Config_t const *[]", [*rows, ffi.NULL])
        return configs, [*rows, *kept, configs]


class Context(Handle):
    """What holds graphs."""

    def __init__(self, interface: Interface, raw: Any, kept: Sequence[Any] = ()) -> None:
        super().__init__(interface, raw, "contextFree", abi.ffi().NULL)
        self._kept = list(kept)  # binary and options: a deferred context reads them again when it is finalized
        self.user: Any = None  # whoever has the backend, which must live as long

    def close(self) -> None:
        """Free it, and every graph in it."""
        super().close()
        self._kept.clear()

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

    def finalize(self, profile: Profile | None = None) -> None:
        """Read the binary of a context that was restored with `deferred`: now it has graphs."""
        self.interface.call("contextFinalize", self.raw, raw_of(profile))

    def property(self, name: str) -> int:
        """A property that HTP has of its contexts, by the names of HTP_PROPERTIES."""
        ffi = abi.ffi()
        custom, row = ffi.new("QnnHtpContext_CustomProperty_t *"), ffi.new("QnnContext_Property_t *")
        custom.option = ffi.integer_const(f"QNN_HTP_CONTEXT_GET_PROP_{name}")
        row.option, row.customProperty = ffi.integer_const("QNN_CONTEXT_PROPERTY_OPTION_CUSTOM"), custom
        self.interface.call("contextGetProperty", self.raw, ffi.new("QnnContext_Property_t *[]", [row, ffi.NULL]))
        return int(getattr(custom, HTP_PROPERTIES[name]))

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
        self.one_at_a_time = threading.Lock()  # two executes of one graph give wrong results

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
        self.interface.call("graphFinalize", self.raw, raw_of(profile), abi.ffi().NULL)

    def execute(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], profile: Profile | None = None) -> None:
        """Run the graph on tensors that are bound to buffers."""
        self.executor(inputs, outputs, profile)()

    def executor(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], profile: Profile | None = None
    ) -> Callable[[], None]:
        """A function that runs the graph, with everything prepared: for loops that are timed."""
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
        self, inputs: Any, outputs: Any, *, counts: tuple[int, int], profile: Profile | None = None
    ) -> tuple[Callable[..., int], tuple[Any, ...]]:
        """The C function that runs the graph on these arrays, and its arguments; the caller holds `one_at_a_time`."""
        args = (self.raw, inputs, counts[0], outputs, counts[1], raw_of(profile), abi.ffi().NULL)
        return self.interface.function("graphExecute"), args

    def start(self, args: Sequence[Any], done: Callable[[int], None]) -> None:
        """Run the graph in the backend's own time; `done` hears how it ended, in a thread of the backend."""
        key = next(_keys)
        _running[key] = done
        try:
            self.interface.call("graphExecuteAsync", *args, _notify(), abi.ffi().cast("void *", key))
        except BaseException:
            del _running[key]
            raise


_keys = itertools.count(1)
_running: dict[int, Callable[[int], None]] = {}  # executions that the backend has not told the end of


@cache
def _notify() -> Any:
    """The one C function that every asynchronous execution ends in."""
    ffi = abi.ffi()

    def ended(key: Any, status: Any) -> None:
        _running.pop(int(ffi.cast("uintptr_t", key)))(int(status.error))

    return ffi.callback("Qnn_NotifyFn_t", ended)
