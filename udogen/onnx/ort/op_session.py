"""The counterpart of `OpSession` for ONNX Runtime: each call is a node of a model that runs in Qualcomm's provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from udogen import backends
from udogen.errors import RunFailed, ToolMissing, UdogenError
from udogen.onnx.ort import case_model
from udogen.onnx.ort.commands import ArrayRow, ModelRan, OpenOrt, OrtOpened, RunModel
from udogen.opdef.model import Op
from udogen.runtime import failures, log_messages
from udogen.runtime.built import Built
from udogen.runtime.channel import Failed
from udogen.runtime.execution_counts import Proof, Rise
from udogen.runtime.failures import Situation
from udogen.runtime.library import check_loadable, check_provider
from udogen.runtime.op.calls import Chain, OpCall, OpResult, RuntimeInfo, Times, digest
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
                case_model.build([chain], self._ops(chain))
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
        model = case_model.build(chains, self._ops(every))
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
        found = [row.array for row in reply.outputs]
        return list(self._results(chains, found, reply, loops=loops, nodes=len(every)))

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
    call, printed = situation.call, log_messages.without_noise(situation.output)[-_SHOWN_LINES:]
    kind = _KINDS.get(failed.kind, RunFailed)
    text, details = failed.message, [*failed.details, *printed]
    own = f"op {call.op_type}: " if call else ""
    reason = next((line.removeprefix(own) for line in printed if own and line.startswith(own)), "")
    if reason and kind is failures.OpFailed:
        head, _, rest = text.partition(": ")
        status = rest.partition("Non-zero status")[2]  # ONNX Runtime logs it, too
        repeated = [line for line in details if line == own + reason or (status and line.endswith(status))]
        text, details = f"{head}: {reason}", [rest, *(line for line in details if line not in repeated)]
    found = kind(text, hint=failed.hint, details=details)
    if type(found) is RunFailed:
        found.kind = failed.kind
    return found


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
        size = sum(arg.array.size for call in chain for arg in call.inputs if arg.array is not None)
        if part and (len(part) == _MOST_NODES or numbers + size > _MOST_NUMBERS):
            yield part
            part, numbers = [], 0
        part.append(chain)
        numbers += size
    if part:
        yield part
