"""A session like `OpSession`, but of ONNX Runtime: each call is a node of a model that runs in Qualcomm's provider."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import TracebackType
from typing import TYPE_CHECKING, Any

from udogen import backends
from udogen.clients.ort import case_model
from udogen.clients.ort.case_model import Chain
from udogen.errors import RunFailed, ToolMissing, UdogenError
from udogen.opdef.model import Op
from udogen.runtime import failures, known
from udogen.runtime.built import Built
from udogen.runtime.child import Child, deadline_of
from udogen.runtime.library import check_loadable, check_provider
from udogen.runtime.op.calls import OpCall, OpResult, RuntimeInfo, Times
from udogen.runtime.proof import Proof, Rise
from udogen.runtime.wire import Garbled

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_MODULE = "udogen.clients.ort.worker"
_START_SECONDS = 60.0  # a timeout is meant for calls; importing and opening may take longer than one
_MOST_NODES, _MOST_NUMBERS = 32, 1 << 20  # of a model with several calls
_SHOWN_LINES = 20
_NO_TIMES = Times(0.0, 0.0, 0.0)  # a session has several nodes, and ONNX Runtime around them


class OrtSession:
    """Runs ops of one package in ONNX Runtime, in a child; a crash ends one call, not the session."""

    def __init__(self, built: Built, *, backend: str, timeout: float | None = None) -> None:
        check_loadable(built.library, "op package")
        check_provider(built.library, built.provider)
        self._built, self._backend, self._timeout = built, backend, timeout
        self._child: Child | None = None
        self._phase = failures.START
        self._known: dict[bytes, OpResult] = {}
        self._models: dict[str, Op | None] = {}

    def __enter__(self) -> OrtSession:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.quit(2.0)

    @property
    def runtime(self) -> RuntimeInfo:
        """ONNX Runtime, and the backend library of Qualcomm's that its provider loads."""
        return self._runtime

    def prepare(self, chains: Sequence[Chain]) -> None:
        """Run these beforehand, as many as possible in one session; each `run` of one returns what came out.

        What fails is left to its own `run`.
        """
        fitting = []
        for chain in chains:
            try:
                self._check(chain)
                case_model.build([chain], self._ops(chain))
            except UdogenError:
                continue
            fitting.append(chain)
        fitting.sort(key=_kind)
        for _, group in groupby(fitting, _kind):
            for part in _parts(list(group)):
                self._together(part)

    def _together(self, chains: Sequence[Chain]) -> None:
        """All in one session; where that fails, in two halves, and so on."""
        if len(chains) < 2:
            return
        try:
            for chain, result in zip(chains, self._executed(chains), strict=True):
                self._known[_digest(chain)] = result
        except ToolMissing:
            raise
        except RunFailed:
            middle = len(chains) // 2
            self._together(chains[:middle])
            self._together(chains[middle:])

    def run(self, call: OpCall) -> OpResult:
        """Run one op and return what it wrote; every way in which it can fail is a `RunFailed`."""
        return self.run_chain([call])

    def run_chain(self, calls: Chain) -> OpResult:
        """The same for ops of which each takes the first output of the one before; what the last one wrote."""
        known = self._known.pop(_digest(calls), None)
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
        """What came out of each chain; all are of one op, for ONNX Runtime takes one of a package."""
        import numpy as np

        every = [call for chain in chains for call in chain]
        ops = {call.op_type for call in every}
        if len(ops) > 1:
            raise failures.NotExpressible(
                f"ONNX Runtime takes one op of a package, and this needs {', '.join(sorted(ops))}"
            )
        model = case_model.build(chains, self._ops(every))
        arrays = [np.ascontiguousarray(array) for _, array in model.feeds]
        loops = max(call.loops for call in every)
        order = {
            "do": "run model",
            "backend": self._backend,
            "library": str(self._built.library),
            "provider": self._built.provider,
            "op": every[0].op_type,
            "loops": loops,
            "inputs": [
                {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
                for (name, _), array in zip(model.feeds, arrays, strict=True)
            ],
            "outputs": [name for names in model.outputs for name in names],
        }
        answer, results = self._ask(order, [model.data, *arrays], every[0])
        found = [
            np.frombuffer(data, row["dtype"]).reshape(row["shape"])
            for row, data in zip(answer["outputs"], results, strict=True)
        ]
        return list(self._results(chains, found, answer, loops=loops, nodes=len(every)))

    def _results(
        self, chains: Sequence[Chain], found: Sequence[Array], answer: Mapping[str, Any], *, loops: int, nodes: int
    ) -> Iterator[OpResult]:
        at = 0
        # What one node counted: of several, the least that may be so.
        rises = [
            Rise(0, (ready - before) // nodes, (after - before) // nodes)
            for before, ready, after in zip(*answer["counts"], strict=True)
        ]
        for chain in chains:
            outputs = chain[-1].outputs
            proof = None
            if answer["counted"]:
                proof = Proof(self._built.package, chain[-1].op_type, answer["counted"], loops, *rises)
            arrays = {arg.name: array for arg, array in zip(outputs, found[at:], strict=False)}
            at += len(outputs)
            yield OpResult(arrays, _NO_TIMES, self._runtime, proof=proof)

    # --- the child ----------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._phase = failures.START
        self._child = Child(module=_MODULE)
        answer, _ = self._ask({"do": "start ort", "backend": self._backend}, [], None)
        self._runtime = RuntimeInfo(answer["name"], answer["build_id"], "", answer["version"], answer["path"])

    def _ask(
        self, order: Mapping[str, Any], buffers: Sequence[Any], call: OpCall | None
    ) -> tuple[dict[str, Any], list[bytearray]]:
        if self._child is None:
            self._start()
        child = self._child
        assert child is not None
        child.forget_chatter()
        timeout = self._timeout
        if call is None and timeout is not None:
            timeout = max(timeout, _START_SECONDS)
        try:
            message, results = child.ask(dict(order), buffers, deadline=deadline_of(timeout), hear=self._hear)
        except EOFError:
            returncode = self._drop(grace=0.5)
            raise failures.of_death(self._scene(child, call), returncode) from None
        except TimeoutError:
            self._drop()
            raise failures.of_timeout(self._scene(child, call), timeout or 0.0) from None
        except Garbled as problem:
            self._drop()
            raise failures.of_garbled(self._scene(child, call), str(problem)) from None
        except BaseException:  # Ctrl-C: nothing may be left running
            self._drop()
            raise
        if message["event"] == "failed":
            raise _fault(message, known.telling(child.chatter())[-_SHOWN_LINES:], call)
        return message, results

    def _hear(self, message: Mapping[str, Any]) -> None:
        self._phase = message.get("phase", self._phase)

    def _scene(self, child: Child, call: OpCall | None) -> failures.Scene:
        return failures.Scene(str(self._built.library), self._phase, call, logs=(), chatter=child.chatter())

    def _drop(self, grace: float = 0.0) -> int:
        child, self._child = self._child, None
        return child.end(grace) if child else 0


_KINDS = {kind.kind: kind for kind in (failures.OpFailed, failures.OpRefused, ToolMissing)}


def _fault(message: Mapping[str, Any], said: Sequence[str], call: OpCall | None) -> UdogenError:
    """The error that the child told of; what the op itself said on stderr is its reason."""
    kind = failures.OpRefused if message["refused"] else _KINDS.get(message["kind"], RunFailed)
    text, details = message["message"], [*message["details"], *said]
    own = f"op {call.op_type}: " if call else ""
    reason = next((line.removeprefix(own) for line in said if own and line.startswith(own)), "")
    if reason and kind is failures.OpFailed:
        head, _, rest = text.partition(": ")
        text, details = f"{head}: {reason}", [rest, *(line for line in details if line != own + reason)]
    found = kind(text, hint=message["hint"], details=details)
    if type(found) is RunFailed:
        found.kind = message["kind"]
    return found


def _kind(calls: Chain) -> tuple[Any, ...]:
    """Calls of one kind can be nodes of one model: a schema has one type for each output."""
    call = calls[-1]
    tensors = ((arg.dtype, arg.omitted) for arg in (*call.inputs, *call.outputs))
    return call.op_type, len(call.inputs), len(call.outputs), *tensors, call.loops


def _parts(chains: Sequence[Chain]) -> Iterator[list[Chain]]:
    """Groups that are not too large for one model."""
    part: list[Chain] = []
    numbers = 0
    for chain in chains:
        size = sum(arg.array.size for call in chain for arg in call.inputs if arg.array is not None)
        if part and (len(part) == _MOST_NODES or numbers + size > _MOST_NUMBERS):
            yield part
            part, numbers = [], 0
        part.append(chain)
        numbers += size
    if part:
        yield part


def _digest(calls: Chain) -> bytes:
    """Equal for calls that say the same; what fills the memory of outputs is the same here."""
    import numpy as np

    found = hashlib.sha256()
    for call in calls:
        found.update(repr((call.op_type, call.loops)).encode())
        for arg in (*call.inputs, *call.outputs):
            found.update(repr((arg.name, arg.dtype, arg.shape, arg.quant, arg.static, arg.omitted)).encode())
            if arg.array is not None:
                found.update(np.ascontiguousarray(arg.array).tobytes())
        for param in call.params:
            found.update(repr((param.name, np.asarray(param.value).tolist(), param.dtype)).encode())
    return found.digest()
