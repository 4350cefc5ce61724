"""A session: one op package, registered in a runtime in a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from udogen import backends
from udogen.build.tools import preloading
from udogen.errors import RunFailed
from udogen.qnn import socs
from udogen.qnn.handles import Closing
from udogen.runtime import failures
from udogen.runtime.execution_counts import Proof, Rise
from udogen.runtime.failures import Situation
from udogen.runtime.library import RuntimeInfo, check_loadable, check_provider, find_runtime, sdk_build_id
from udogen.runtime.op.calls import (
    OpCall,
    OpenPackage,
    OpPackageInfo,
    OpPrepared,
    OpRan,
    OpRanTwice,
    OpResult,
    PackageOpened,
    PrepareOp,
    RunOp,
    RunOpTwice,
    Times,
    arrays_of,
    checked_call,
)
from udogen.runtime.op.watch import NOTHING, Watch
from udogen.runtime.worker_process import WorkerSession

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_Reply = TypeVar("_Reply")

_START_SECONDS = 30.0  # loading a runtime may take longer than the timeout of a call


class OpSession(Closing):
    """Runs ops of one package; a crash ends one call, not the session.

    The worker ends with this process; calls from several threads wait for each other.
    `force` registers a package that is tied to another SDK release than the runtime's.
    `preload` are libraries that a `Watch` needs in the worker.
    `poison` is that of the first call; on some backends a different one needs a new process.
    `runtime` is auto, real or emulator; the emulator is compiled on first use, which `on_step` reports.

    `session = OpSession(built.library, built.provider)`
    """

    def __init__(
        self,
        library: Path,
        provider: str,
        *,
        backend: str = "cpu",
        runtime: str = "auto",
        qnn_lib: Path | None = None,
        timeout: float | None = None,
        target: str | None = None,
        soc: int | str = 0,
        env: Mapping[str, str] | None = None,
        force: bool = False,
        preload: Sequence[Path] = (),
        poison: int = 0,
        on_phase: Callable[[str], None] | None = None,
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._found = find_runtime(backend, qnn_lib=qnn_lib, runtime=runtime, on_step=on_step)
        check_loadable(self._found.path, "runtime library")
        check_loadable(library, "op package")
        check_provider(library, provider)
        library, tied = library.resolve(), sdk_build_id(library)
        self._open = OpenPackage(
            runtime=self._found,
            library=library,
            provider=provider,
            target=target,
            soc=socs.number_of(soc),
            delivers=tuple(sorted(backends.ALL[self._found.backend].delivers)) or None,
            poison=0,
            built_for="" if force else tied,
        )
        self._situation = Situation(str(library), target=target or "", forced=tied if force else "")
        self._worker = WorkerSession(env={**(env or {}), **preloading(preload)}, on_phase=on_phase)
        self._timeout, self._poison = timeout, poison
        self._one_at_a_time = threading.Lock()
        self.restarts, self._closed = 0, False
        self._reply: PackageOpened | None = None

    def __enter__(self) -> OpSession:
        self._check_open()
        self._start(self._poison)
        return self

    def _check_open(self) -> None:
        if self._closed:
            raise RunFailed("the session is closed", hint="run ops inside its `with` block")

    @property
    def package(self) -> OpPackageInfo:
        """The name and the ops of the op package."""
        return self._opened().package

    @property
    def runtime(self) -> RuntimeInfo:
        """The runtime that the ops run in."""
        return self._opened().runtime

    def _opened(self) -> PackageOpened:
        if self._reply is None:
            raise RunFailed("the session has not been started", hint="with OpSession(…) as session: …")
        return self._reply

    @property
    def pid(self) -> int | None:
        """The worker's process id; None if no worker is running."""
        return self._worker.pid

    def run(self, call: OpCall, watch: Watch = NOTHING) -> OpResult:
        """Run one op and return its outputs; every failure of the op, its package or the runtime is a `RunFailed`."""
        call = checked_call(call)
        with self._one_at_a_time:
            ran = self._ask(RunOp(call, watch), OpRan, call)
            return OpResult(
                outputs=arrays_of(call, [block.data for block in ran.outputs]),
                times=Times(ran.create, ran.finalize, ran.execute, ran.samples),
                runtime=self.runtime,
                context=ran.context,
                logs=tuple(self._worker.logs),
                heap=ran.heap,
                proof=self._proof(ran, call),
            )

    def _proof(self, ran: OpRan, call: OpCall) -> Proof | None:
        if not ran.counted:
            return None
        of_op, of_package = (Rise(*row) for row in zip(*ran.counts, strict=True))
        return Proof(self.package.name, call.op_type, ran.counted, call.loops, of_op, of_package)

    def prepare(self, call: OpCall) -> OpPrepared:
        """The context binary of a graph of the op, for another machine; nothing is executed."""
        call = checked_call(call)
        with self._one_at_a_time:
            return self._ask(PrepareOp(call), OpPrepared, call)

    def parallel(self, call: OpCall, *, executions: int, seconds: float, loop: Path) -> list[dict[str, Array]]:
        """The outputs of two graphs of the op: each alone, then each while the other is executed too (build_loop)."""
        call = checked_call(call)
        with self._one_at_a_time:
            ran = self._ask(RunOpTwice(call, executions, seconds, loop), OpRanTwice, call)
        return [arrays_of(call, [block.data for block in outputs]) for outputs in ran.outputs]

    def close(self) -> None:
        """Free the resources of the package and the runtime, and end the worker."""
        self._closed = True
        self._worker.close()

    def _ask(self, command: object, reply: type[_Reply], call: OpCall) -> _Reply:
        """The worker's reply to a command about a call; a worker that has ended is started again."""
        self._check_open()
        if not self._worker.running:
            self._restart(call.poison)
        elif call.poison and call.poison != self._poison and self._found.behaviour.keeps_memory:
            self._worker.drop()
            self._start(call.poison)
        failures.check_names(call, self.package, self._situation.library)
        failures.check_ranks(call, self._found.behaviour.ranks)
        situation = replace(self._situation, call=call)
        try:
            return self._worker.ask(command, reply, situation, self._timeout)
        except failures.OpCrashed:
            if self._worker.phase != failures.IDLE:
                raise
            self._restart(call.poison)  # it crashed between two calls: not the fault of this one
            return self._worker.ask(command, reply, situation, self._timeout)

    def _restart(self, poison: int = 0) -> None:
        self._start(poison)
        self.restarts += 1

    def _start(self, poison: int = 0) -> None:
        self._poison = poison
        command = replace(self._open, poison=poison if self._found.behaviour.keeps_memory else 0)
        timeout = None if self._timeout is None else max(self._timeout, _START_SECONDS)
        self._reply = self._worker.start(command, PackageOpened, self._situation, timeout)
