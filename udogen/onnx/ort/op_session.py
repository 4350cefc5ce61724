"""The counterpart of `OpSession` for ONNX Runtime: each call is a node of a model that runs in Qualcomm's provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen import backends, error_tables
from udogen.errors import RunFailed, ToolMissing, UdogenError
from udogen.onnx.client import attribute_fault
from udogen.onnx.models import reading
from udogen.onnx.ort.worker import ArrayRow, ModelRan, OpenOrt, OrtOpened, RunModel
from udogen.opdef import datatypes
from udogen.opdef.model import Op
from udogen.qnn.tensors import QnnTensor
from udogen.runtime import failures
from udogen.runtime.built import Built
from udogen.runtime.channel import Failed
from udogen.runtime.execution_counts import Proof, Rise
from udogen.runtime.failures import NotExpressible, Situation
from udogen.runtime.library import RuntimeInfo, check_loadable, check_provider
from udogen.runtime.op.calls import CallParam, Chain, OpCall, OpResult, Times, digest
from udogen.runtime.worker_process import WorkerSession
from udogen.verify.places import ProgramSession

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_MODULE = "udogen.onnx.ort.worker"
_START_SECONDS = 60.0  # timeouts are for calls; importing and opening may take longer
_MOST_NODES, _MOST_NUMBERS = 32, 1 << 20  # limits of a model with several calls
_SHOWN_LINES = 20
_NO_TIMES = Times(0.0, 0.0, 0.0)  # a session has several nodes, and overhead of ONNX Runtime


class OrtSession(ProgramSession):
    """Runs ops of one package in ONNX Runtime, in a worker; a crash ends one call, not the session."""

    def __init__(self, built: Built, *, backend: str, timeout: float | None = None) -> None:
        check_loadable(built.library, "op package")
        check_provider(built.library, built.provider)
        self._built, self._backend, self._timeout = built, backend, timeout
        self._worker = WorkerSession(_MODULE, explain=explain_failure)
        self._known: dict[bytes, OpResult] = {}
        self._models: dict[str, Op | None] = {}

    def __enter__(self) -> OrtSession:
        self._start()
        return self

    def close(self) -> None:
        """End the worker."""
        self._worker.close()

    def prepare(self, chains: Sequence[Chain]) -> None:
        """Run these in advance, as many as possible in one session; `run` then returns their results.

        Calls that fail are run again by `run`.
        """
        fitting = []
        for chain in chains:
            try:
                self._check(chain)
                build_model([chain], self._ops(chain))
            except UdogenError:
                continue
            fitting.append(chain)
        fitting.sort(key=_kind)
        for _, group in groupby(fitting, _kind):
            for part in _parts(list(group)):
                self._together(part)

    def _together(self, chains: Sequence[Chain]) -> None:
        """Run all in one session; after a failure, run each half, recursively."""
        if len(chains) < 2:
            return
        try:
            for chain, result in zip(chains, self._executed(chains), strict=True):
                self._known[digest(chain)] = result
        except ToolMissing:
            raise
        except RunFailed:
            middle = len(chains) // 2
            self._together(chains[:middle])
            self._together(chains[middle:])

    def run_chain(self, calls: Chain) -> OpResult:
        """Run a chain, where the first output of each op is the first input of the next; return the last outputs."""
        known = self._known.pop(digest(calls), None)
        if known is not None:
            return known
        self._check(calls)
        return self._executed([calls])[0]

    def _check(self, calls: Chain) -> None:
        for call in calls:
            failures.check_ranks(call, backends.RUNTIMES[self._backend].ranks)
            if call.context is not None or call.save_context:
                raise RunFailed(
                    "ONNX Runtime stores contexts by itself", hint="session option ep.context_enable; or --backend htp"
                )

    def _ops(self, calls: Sequence[OpCall]) -> Mapping[str, Op]:
        for call in calls:
            if call.op_type not in self._models:
                self._models[call.op_type] = self._built.op(call.op_type, self._backend)
        return {call.op_type: op for call in calls if (op := self._models[call.op_type]) is not None}

    def _executed(self, chains: Sequence[Chain]) -> list[OpResult]:
        """The result of each chain; all must be of one op, because ONNX Runtime accepts one per package."""
        every = [call for chain in chains for call in chain]
        ops = {call.op_type for call in every}
        if len(ops) > 1:
            raise failures.NotExpressible(
                f"ONNX Runtime takes one op of a package, and this needs {', '.join(sorted(ops))}"
            )
        model = build_model(chains, self._ops(every))
        loops = max(call.loops for call in every)
        command = RunModel(
            backend=self._backend,
            library=self._built.library,
            provider=self._built.provider,
            op=every[0].op_type,
            loops=loops,
            model=model.data,
            inputs=tuple(ArrayRow.of(name, array) for name, array in model.feeds),
            outputs=tuple(name for names in model.outputs for name in names),
        )
        if not self._worker.running:
            self._start()
        situation = Situation(str(self._built.library), every[0])
        reply = self._worker.ask(command, ModelRan, situation, self._timeout)
        arrays = [row.array for row in reply.outputs]
        return list(self._results(chains, arrays, reply, loops=loops, nodes=len(every)))

    def _results(
        self, chains: Sequence[Chain], found: Sequence[Array], reply: ModelRan, *, loops: int, nodes: int
    ) -> Iterator[OpResult]:
        at = 0
        # Counts per node, rounded down.
        rises = [
            Rise(0, (ready - before) // nodes, (after - before) // nodes)
            for before, ready, after in zip(*reply.counts, strict=True)
        ]
        for chain in chains:
            outputs = chain[-1].outputs
            proof = None
            if reply.counted:
                proof = Proof(self._built.package, chain[-1].op_type, reply.counted, loops, *rises)
            arrays = {arg.name: array for arg, array in zip(outputs, found[at:], strict=False)}
            at += len(outputs)
            yield OpResult(arrays, _NO_TIMES, self.runtime, proof=proof)

    def _start(self) -> None:
        timeout = None if self._timeout is None else max(self._timeout, _START_SECONDS)
        situation = Situation(str(self._built.library))
        opened = self._worker.start(OpenOrt(self._backend), OrtOpened, situation, timeout)
        self.runtime = RuntimeInfo(opened.name, opened.build_id, "", opened.version, opened.path)


_KINDS = {kind.kind: kind for kind in (failures.OpFailed, failures.OpRefused, ToolMissing)}


def explain_failure(situation: Situation, failed: Failed) -> UdogenError:
    """The error that the worker reported, with the op's own message as the reason."""
    call, printed = situation.call, error_tables.without_noise(situation.output)[-_SHOWN_LINES:]
    kind = _KINDS.get(failed.kind, RunFailed)
    text, details = failed.message, [*failed.details, *printed]
    own = f"op {call.op_type}: " if call else ""
    reason = next((line.removeprefix(own) for line in printed if own and line.startswith(own)), "")
    if reason and kind is failures.OpFailed:
        head, _, rest = text.partition(": ")
        status = rest.partition("Non-zero status")[2]  # ONNX Runtime logs it, too
        repeated = [line for line in details if line == own + reason or (status and line.endswith(status))]
        text, details = f"{head}: {reason}", [rest, *(line for line in details if line not in repeated)]
    error = kind(text, hint=failed.hint, details=details)
    if type(error) is RunFailed:
        error.kind = failed.kind
    return error


def _kind(calls: Chain) -> tuple[Any, ...]:
    """A key; calls with equal keys can be nodes of one model, because a schema has one type for each output."""
    call = calls[-1]
    tensors = ((arg.dtype, arg.omitted) for arg in (*call.inputs, *call.outputs))
    return call.op_type, len(call.inputs), len(call.outputs), *tensors, call.loops


def _parts(chains: Sequence[Chain]) -> Iterator[list[Chain]]:
    """Groups that each fit into one model."""
    part: list[Chain] = []
    numbers = 0
    for chain in chains:
        size = sum(arg.data.size for call in chain for arg in call.inputs if arg.data is not None)
        if part and (len(part) == _MOST_NODES or numbers + size > _MOST_NUMBERS):
            yield part
            part, numbers = [], 0
        part.append(chain)
        numbers += size
    if part:
        yield part


# Not a standard domain: built-in ops between DequantizeLinear and QuantizeLinear never reach a package.
DOMAIN = "udogen"
_OPSET, _IR_VERSION = 21, 10  # the first with 16-bit types in QuantizeLinear
_QUANTIZED_BITS = (8, 16)
_FLOAT = 1  # of TensorProto
_WIDE = ("INT_64", "UINT_64", "FLOAT_64")
_INT32 = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True)
class CaseModel:
    """An ONNX model with a node for each call, its inputs, and the names of its outputs."""

    data: bytes
    feeds: tuple[tuple[str, Any], ...]
    outputs: tuple[tuple[str, ...], ...]  # for each chain, the outputs of its last call


def build_model(chains: Sequence[Chain], ops: Mapping[str, Op]) -> CaseModel:
    """The model; its nodes depend on each other only within a chain.  Raises `NotExpressible`."""
    made = _Builder(ops)
    outputs = tuple(made.chain(number, chain) for number, chain in enumerate(chains))
    helper = reading.onnx_module("helper")
    graph = helper.make_graph(made.nodes, "cases", made.inputs, made.outputs, made.constants, value_info=made.between)
    imports = [helper.make_opsetid("", _OPSET), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, producer_name="udogen")
    model.ir_version = _IR_VERSION
    return CaseModel(model.SerializeToString(deterministic=True), tuple(made.feeds), outputs)


class _Builder:
    """Collects the parts of the model."""

    def __init__(self, ops: Mapping[str, Op]) -> None:
        self._ops = ops
        self._helper, self._numpy = reading.onnx_module("helper"), reading.onnx_module("numpy_helper")
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.between: list[Any] = []
        self.constants: list[Any] = []
        self.feeds: list[tuple[str, Any]] = []

    def chain(self, number: int, calls: Chain) -> tuple[str, ...]:
        """Add the nodes of one chain; returns the names of the stored outputs of its last node."""
        stored: list[str] = []
        for step, call in enumerate(calls):
            mark = f"c{number}s{step}"
            given = [
                stored[0] if step and not index else self._input(f"{mark}i{index}", arg, call)
                for index, arg in enumerate(call.inputs)
            ]
            real = [self._dequantized(name, arg, call) for name, arg in zip(given, call.inputs, strict=True)]
            stored = [f"{mark}o{index}" for index in range(len(call.outputs))]
            made = [name + "f" * _quantized(arg) for name, arg in zip(stored, call.outputs, strict=True)]
            node = self._helper.make_node(call.op_type, real, made, name=mark, domain=DOMAIN)
            # The provider passes up to three attributes in reverse order, more in another order (measured: 2.3.0).
            node.attribute.extend(self._attribute(call, param) for param in reversed(call.params))
            self.nodes.append(node)
            for inner, name, arg in zip(made, stored, call.outputs, strict=True):
                self._output(inner, name, arg, call, last=step + 1 == len(calls))
        return tuple(stored)

    def _input(self, name: str, arg: QnnTensor, call: OpCall) -> str:
        """Add an input of the model, or a constant."""
        if arg.omitted:
            raise _inexpressible(call, f"Qualcomm's provider ends the process if the input `{arg.name}` is left out")
        row = self._value(name, arg, call)
        if arg.static:
            self.constants.append(self._numpy.from_array(arg.data, name))
        else:
            self.inputs.append(row)
            self.feeds.append((name, arg.data))
        return name

    def _output(self, inner: str, name: str, arg: QnnTensor, call: OpCall, *, last: bool) -> None:
        (self.outputs if last else self.between).append(self._value(name, arg, call))
        if inner != name:
            self.between.append(self._helper.make_tensor_value_info(inner, _FLOAT, list(arg.shape)))
            self._convert("QuantizeLinear", inner, name, arg, call)

    def _dequantized(self, name: str, arg: QnnTensor, call: OpCall) -> str:
        """Dequantize a stored tensor; the op, between DequantizeLinear and QuantizeLinear, gets fixed point."""
        if not _quantized(arg):
            return name
        made = f"d{len(self.nodes)}_{name}"
        self._convert("DequantizeLinear", name, made, arg, call)
        return made

    def _convert(self, kind: str, given: str, made: str, arg: QnnTensor, call: OpCall) -> None:
        row = datatypes.BY_NAME[arg.dtype]
        scale, offset = arg.scale_offset or (1.0, 0)
        low, high = row.range() or (0, 0)
        if row.bits not in _QUANTIZED_BITS:
            raise _inexpressible(call, f"tensor `{arg.name}` is {row.name}, and QuantizeLinear makes 8 and 16 bits")
        if not low <= -offset <= high:
            raise _inexpressible(call, f"the offset {offset} of tensor `{arg.name}` is not a zero point of {row.numpy}")
        constants = {f"{made}_scale": np.float32(scale), f"{made}_zero": np.dtype(row.numpy).type(-offset)}
        self.constants += [self._numpy.from_array(np.asarray(array), name) for name, array in constants.items()]
        self.nodes.append(self._helper.make_node(kind, [given, *constants], [made], name=f"{kind} {made}"))

    def _value(self, name: str, arg: QnnTensor, call: OpCall) -> Any:
        row = datatypes.BY_NAME[arg.dtype]
        if not row.numpy or row.name in _WIDE:
            raise _inexpressible(call, f"tensor `{arg.name}` is {row.name}, which the provider passes to no custom op")
        number = self._helper.np_dtype_to_tensor_dtype(np.dtype(row.numpy))
        return self._helper.make_tensor_value_info(name, number, list(arg.shape))

    def _attribute(self, call: OpCall, param: CallParam) -> Any:
        tensor = next((each for each in self._ops[call.op_type].params if each.name == param.name), None)
        if tensor is not None and (why := attribute_fault(tensor)):
            raise _inexpressible(call, f"parameter `{param.name}` {why}")
        types = {datatypes.BY_NAME[param.dtype], *(tensor.datatypes if tensor is not None else ())}
        is_integral = param.dtype != "FLOAT_32" and any(kind.integral for kind in types)
        return self._helper.make_attribute(param.name, _value_of(call, param, integral=is_integral))


def _value_of(call: OpCall, param: CallParam, *, integral: bool) -> float | list[float]:
    """The value of an attribute."""
    array = np.asarray(param.data if isinstance(param, QnnTensor) else param.value)
    if array.dtype.kind not in "biuf" or array.ndim > 1 or not array.size:
        raise _inexpressible(
            call, f"parameter `{param.name}` has the shape {list(array.shape)}; attributes are numbers and lists"
        )
    numbers = list(map(int if integral else float, array.ravel().tolist()))
    if integral and any(number not in _INT32 for number in numbers):
        raise _inexpressible(call, f"parameter `{param.name}` does not fit into 32 bits")
    return numbers if array.ndim else numbers[0]


def _quantized(arg: QnnTensor) -> bool:
    return datatypes.BY_NAME[arg.dtype].quantized


def _inexpressible(call: OpCall, why: str) -> NotExpressible:
    return NotExpressible(f"ONNX cannot express this call of op `{call.op_type}`: {why}")
