"""A session: one op package, registered in a real runtime in a child process, ready for calls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from udogen import backends
from udogen.build.tools import preloading
from udogen.errors import UdogenError
from udogen.qnn.interface import INFO, WARN
from udogen.runtime import failures
from udogen.runtime.child import Child, deadline_of
from udogen.runtime.library import check_loadable, check_provider, find_runtime, sdk_build_id
from udogen.runtime.op import marshal
from udogen.runtime.op.calls import LogLine, OpCall, OpResult, PackageInfo, RuntimeInfo, Times
from udogen.runtime.op.watch import NOTHING, Watch, of_message
from udogen.runtime.proof import Proof, Rise
from udogen.runtime.wire import Garbled, Message

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_KEPT_LOG_LINES = 500
_START_SECONDS = 30.0  # a timeout is meant for calls; loading a runtime may take longer than one


class OpSession:
    """Runs ops of one package; a crash ends one call, not the session.

    The worker ends when this process does, however that ends; calls from several threads wait for each other.
    A package that is tied to one release of the SDK is refused by the runtime of another, unless `force` says so.
    `preload` are libraries that the worker is started with, for what a `Watch` asks.
    `poison` is the one that the first call will have: on some backends another one takes a new process.
    `runtime_kind` is auto, real or emulator; the emulator is compiled on first use, and `on_step` hears of it.
    """

    def __init__(
        self,
        library: Path,
        provider: str,
        *,
        backend: str = "cpu",
        runtime: Path | None = None,
        runtime_kind: str = "auto",
        timeout: float | None = None,
        target: str | None = None,
        soc: int = 0,
        log_level: int = INFO,
        runtime_log_level: int = WARN,
        env: Mapping[str, str] | None = None,
        force: bool = False,
        preload: Sequence[Path] = (),
        poison: int = 0,
        on_phase: Callable[[str], None] | None = None,
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._found = find_runtime(backend, explicit=runtime, kind=runtime_kind, on_step=on_step)
        check_loadable(self._found.path, "runtime library")
        check_loadable(library, "op package")
        check_provider(library, provider)
        self._library, self._provider, self._target = library.resolve(), provider, target
        self._headers, self._force = sdk_build_id(library), force
        self._timeout, self._env, self._soc = timeout, {**(env or {}), **preloading(preload)}, soc
        self._log_levels = {"log_level": log_level, "runtime_log_level": runtime_log_level}
        self._on_phase = on_phase
        self._poison = poison
        self._child: Child | None = None
        self._phase = ""
        self._rooms: Sequence[Mapping[str, Any]] = ()
        self._logs: deque[LogLine] = deque(maxlen=_KEPT_LOG_LINES)
        self._one_at_a_time = threading.Lock()
        self.restarts = 0

    def __enter__(self) -> OpSession:
        self._start(self._poison)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def package(self) -> PackageInfo:
        """What the op package says about itself."""
        return self._package

    @property
    def runtime(self) -> RuntimeInfo:
        """The runtime that the ops run in."""
        return self._runtime

    @property
    def rooms(self) -> Sequence[Mapping[str, Any]]:
        """Where the data of tensors lay in the last execution, where a `Watch` asked for it."""
        return self._rooms

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        return self._child.pid if self._child else None

    def run(self, call: OpCall, watch: Watch = NOTHING) -> OpResult:
        """Run one op and return what it wrote; what the op, its package or the runtime does wrong is a `RunFailed`."""
        order, buffers = marshal.order_of(call)
        with self._one_at_a_time:
            answer, results = self._obeyed({**order, **watch.__dict__}, buffers, call)
            return OpResult(
                outputs=marshal.arrays_of(call, results),
                times=Times(
                    create=answer["create"],
                    finalize=answer["finalize"],
                    execute=answer["execute"],
                    samples=tuple(answer["samples"]),
                ),
                runtime=self._runtime,
                context=bytes(results[-1]) if call.save_context else None,
                logs=tuple(self._logs),
                heap=None if answer["heap"] is None else of_message(answer["heap"]),
                proof=self._proof(answer, call),
            )

    def _proof(self, answer: Message, call: OpCall) -> Proof | None:
        if not answer["counted"]:
            return None
        of_op, of_package = (Rise(*row) for row in zip(*answer["counts"], strict=True))
        return Proof(self._package.name, call.op_type, answer["counted"], call.loops, of_op, of_package)

    def leaks(self, call: OpCall, *, executions: int, cycles: int) -> Mapping[str, Any]:
        """What the op leaves behind: shots of the heap after its executions, and after its graphs were freed."""
        order, buffers = marshal.order_of(call)
        with self._one_at_a_time:
            return self._obeyed(
                {**order, "do": "leaks", "exact": False, "executions": executions, "cycles": cycles}, buffers, call
            )[0]

    def parallel(self, call: OpCall, *, executions: int, seconds: float, loop: Path) -> list[dict[str, Array]]:
        """The outputs of two graphs of the op: each alone, then each while the other was executed too (build_loop)."""
        order, buffers = marshal.order_of(call)
        with self._one_at_a_time:
            _, results = self._obeyed(
                {
                    **order,
                    "do": "parallel",
                    "exact": True,
                    "executions": executions,
                    "seconds": seconds,
                    "loop": str(loop),
                },
                buffers,
                call,
            )
        count = len(call.outputs)
        return [marshal.arrays_of(call, results[index * count :]) for index in range(4)]

    def _obeyed(self, order: Message, buffers: list[Any], call: OpCall) -> tuple[Message, list[bytearray]]:
        """What the worker answers to an order about a call; it is started again where it has ended."""
        if self._child is None:
            self._restart(call.poison)
        elif call.poison and call.poison != self._poison and self._found.behaviour.keeps_memory:
            self._drop()
            self._start(call.poison)
        failures.check_names(call, self._package, str(self._library))
        failures.check_ranks(call, self._found.behaviour.ranks)
        self._logs.clear()
        if self._child:
            self._child.forget_chatter()
        self._phase, self._rooms = failures.IDLE, ()
        try:
            return self._ask(order, buffers, call)
        except failures.OpCrashed:
            if self._phase != failures.IDLE:
                raise
            self._restart(call.poison)  # it died between two calls: no fault of this one
            return self._ask(order, buffers, call)

    def close(self) -> None:
        """Let the package and the runtime free what they have, and end the child."""
        child, self._child = self._child, None
        if child is not None:
            child.quit(2.0)

    def _restart(self, poison: int = 0) -> None:
        self._start(poison)
        self.restarts += 1

    def _start(self, poison: int = 0) -> None:
        self._logs.clear()
        self._poison = poison
        self._phase = failures.START
        self._child = Child(self._env)
        behaviour = self._found.behaviour
        order = {
            "do": "start",
            "runtime": str(self._found.path),
            "library": str(self._library),
            "provider": self._provider,
            "target": self._target,
            "soc": self._soc,
            "delivers": sorted(backends.ALL[self._found.backend].delivers) or None,
            "validates": behaviour.validates,
            "forwards_log": behaviour.forwards_log,
            "poison": poison if behaviour.keeps_memory else 0,
            "clears_outputs": behaviour.clears_outputs,
            "built_for": "" if self._force else self._headers,
            **self._log_levels,
        }
        answer, _ = self._ask(order, [], None)
        self._runtime = RuntimeInfo(**answer["runtime"], emulator=self._found.emulator)
        self._package = PackageInfo(answer["package"]["name"], tuple(answer["package"]["operations"]))

    def _ask(self, order: Message, buffers: list[Any], call: OpCall | None) -> tuple[Message, list[bytearray]]:
        """Give an order and follow it to its end; the child does not survive an error of its own."""
        child = self._child
        assert child is not None
        timeout = self._timeout
        if call is None and timeout is not None:
            timeout = max(timeout, _START_SECONDS)
        deadline = deadline_of(timeout)
        try:
            message, results = child.ask(order, buffers, deadline=deadline, hear=self._hear)
            if message["event"] == "failed":
                raise self._explain(message, call)
            return message, results
        except EOFError:
            returncode = self._drop(grace=0.5)  # it is dying: let it, its exit status is what we want
            raise failures.of_death(self._scene(child, call), returncode) from None
        except TimeoutError:
            self._drop()
            raise failures.of_timeout(self._scene(child, call), timeout or 0.0) from None
        except Garbled as problem:
            self._drop()
            raise failures.of_garbled(self._scene(child, call), str(problem)) from None
        except UdogenError:
            if call is None:  # a worker without a package is of no use
                self._drop()
            raise
        except BaseException:  # Ctrl-C: nothing may be left running
            self._drop()
            raise

    def _hear(self, message: Message) -> None:
        if message["event"] == "log":
            self._logs.append(LogLine(message["level"], message["text"], message["source"]))
            return
        self._phase, self._rooms = message["phase"], message.get("rooms", self._rooms)
        if self._on_phase:
            self._on_phase(self._phase)

    def _explain(self, message: Message, call: OpCall | None) -> UdogenError:
        assert self._child is not None
        scene = self._scene(self._child, call)
        if "function" in message:
            return failures.of_code(scene, message["function"], message["code"])
        return failures.of_message(scene, message)

    def _scene(self, child: Child, call: OpCall | None) -> failures.Scene:
        return failures.Scene(
            library=str(self._library),
            phase=self._phase,
            call=call,
            logs=tuple(self._logs),
            chatter=child.chatter(),
            target=self._target or "",
            forced=self._headers if self._force else "",
            rooms=self._rooms,
        )

    def _drop(self, grace: float = 0.0) -> int:
        child, self._child = self._child, None
        return child.end(grace) if child else 0
