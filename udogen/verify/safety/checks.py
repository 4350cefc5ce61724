"""The checks of a kernel's safety, each in a process that is prepared for it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from udogen import backends
from udogen.backends.backend import Place
from udogen.build import make, tools, variants
from udogen.build.emulator import build_loop, build_watch
from udogen.build.variants import Variant
from udogen.errors import BuildFailed, RunFailed, ToolMissing, UsageError
from udogen.findings import Finding
from udogen.opdef.model import Op
from udogen.qnn.handles import Closing
from udogen.runtime.built import Built
from udogen.runtime.failures import OpCrashed, OutOfBounds
from udogen.runtime.hexagon.session import HexagonSession
from udogen.runtime.op.calls import OpCall
from udogen.runtime.op.session import OpSession
from udogen.runtime.op.watch import Watch
from udogen.verdict import Status
from udogen.verify.cases import CaseError
from udogen.verify.options import SafetyOptions, TestOptions
from udogen.verify.results import Outcome
from udogen.verify.safety import findings
from udogen.verify.safety.findings import StackReader, shown

_HEAP_EXECUTIONS = 20
# The runtime's locks order all accesses that do not overlap in time; on a busy machine an overlap takes a while.
_RACE_EXECUTIONS, _RACE_SECONDS = 10, 0.6  # the minimum of each
# ThreadSanitizer of g++ 12 reads the size of a loaded library's thread-local variables from the words before them, and
# ends the process if that number is too large; `intercept_tls_get_addr=0` stops it from reading them.
_OPTIONS = (
    "detect_leaks=0:abort_on_error=1:handle_segv=0:handle_abort=0:intercept_tls_get_addr=0:"
    "symbolize=0:print_stacktrace=1:log_path="
)


class SafetyChecks(Closing):
    """Checks calls of one package on one backend; processes and builds are reused between calls.

    A package that udogen generated is built again, in addition to the normal build: with line numbers, or with
    sanitizers.  Any other library is used unchanged, and cannot be sanitized.
    """

    def __init__(
        self,
        built: Built,
        options: TestOptions,
        *,
        backend: str = "cpu",
        runtime: str = "auto",
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._built, self._options, self._backend = built, options, backend
        self._kind, self._on_step = runtime, on_step
        self._stack = ExitStack()
        self._prepared: dict[str, _PreparedChecks] = {}
        self._done: set[tuple[str, ...]] = set()

    def close(self) -> None:
        """End the processes of the checks."""
        self._stack.close()

    def check(self, call: OpCall) -> tuple[Finding, ...]:
        """The findings of every requested check.

        The check of threads is slow: it runs only for the first call of each op with the same data types.
        """
        reported: list[Finding] = []
        asked = self._options.safety
        if asked.heap:
            reported += self._heap(call)
        if asked.guard:
            reported += self._guard(call)
        for variant in asked.sanitize:
            if variant.is_parallel and self._hangs_with_threads():
                continue  # `unchecked` reports it
            if not variant.is_parallel or self._is_first(call):
                reported += self._sanitized(call, variant)
        return tuple(reported)

    def _is_first(self, call: OpCall) -> bool:
        key = (call.op_type, *(tensor.dtype for tensor in (*call.inputs, *call.outputs)))
        new = key not in self._done
        self._done.add(key)
        return new

    def _heap(self, call: OpCall) -> tuple[Finding, ...]:
        """Allocations while the op executes."""
        prepared = self._prepare(Variant())
        call = replace(call, loops=max(call.loops, _HEAP_EXECUTIONS))
        use = prepared.session.run(call, Watch(heap=True)).heap
        assert use is not None
        with self._stacks(prepared, call) as stacks:
            return findings.allocations(use, stacks, op=call.op_type)

    def _guard(self, call: OpCall) -> tuple[Finding, ...]:
        """Out-of-bounds reads and writes."""
        prepared = self._prepare(Variant())
        return _guarded(prepared.session, call, lambda error: self._of_error(error, prepared, call))

    def _sanitized(self, call: OpCall, variant: Variant) -> tuple[Finding, ...]:
        """Reports of sanitizers; `thread` runs two graphs of the op at the same time."""
        prepared = self._prepare(variant)
        crash: RunFailed | None = None
        differing: tuple[Finding, ...] = ()
        prepared.forget_reports()
        try:
            if variant.is_parallel:
                differing = self._at_once(prepared.session, call)
            else:
                prepared.session.run(replace(call, loops=1), Watch(exact=True))
        except RunFailed as error:
            crash = error
        with self._stacks(prepared, call) as stacks:
            reports = prepared.reports()
            reported = (
                findings.sanitizer_reports(reports, stacks, op=call.op_type, library=prepared.library) or differing
            )
        if crash is not None and not reported:
            raise crash
        return reported

    def _hangs_with_threads(self) -> bool:
        """libQnnHtp 2.47 on x86 often hangs when two graphs are executed at the same time."""
        return bool(backends.RUNTIMES[self._backend].one_at_a_time) and self._kind != "emulator"

    def _at_once(self, session: OpSession, call: OpCall) -> tuple[Finding, ...]:
        """Compare two graphs that run at the same time with the results of each one alone."""
        outputs = session.parallel(call, executions=_RACE_EXECUTIONS, seconds=_RACE_SECONDS, loop=build_loop())
        for name in outputs[0]:
            for alone, beside in ((0, 2), (1, 3)):
                if outputs[alone][name].tobytes() != outputs[beside][name].tobytes():
                    text = f"two graphs of op `{call.op_type}` that run at the same time write other numbers to "
                    text += f"`{name}` than each of them alone"
                    return (Finding(text, findings.RACE_HINT, kind="data-race"),)
        return ()

    # --- processes ---------------------------------------------------------------------------------------

    def _of_error(self, error: RunFailed, prepared: _PreparedChecks, call: OpCall) -> Finding:
        """The finding of a crash at a guard page, or of changed bytes outside a tensor; other errors are raised."""
        if isinstance(error, OpCrashed) and error.fault is not None and error.beside:
            inner = [frame.library for frame in error.fault.frames]
            runtime = prepared.session.runtime.path
            if str(prepared.library) not in inner[: inner.index(runtime) if runtime in inner else None]:
                raise error  # not in the kernel
            with self._stacks(prepared, call) as stacks:
                stack = stacks.summary(error.fault.frames)
            lines = [f"in {shown(stack.calls[0])}"] if stack.calls else []
            lines += [f"called by {shown(called)}" for called in stack.calls[1:]]
            return Finding(
                f"{error.message}, in {stack.where}", error.hint, kind="out-of-bounds", evidence="\n".join(lines)
            )
        if not isinstance(error, OutOfBounds):
            raise error
        seen = "seen after the execution: the bytes there have changed"
        return Finding(error.message, error.hint, kind="out-of-bounds", evidence=seen)

    def _stacks(self, prepared: _PreparedChecks, call: OpCall) -> StackReader:
        folder = self._built.folder
        root = folder.path if folder is not None else None
        return StackReader(prepared.library, root, package=self._built.package, op=call.op_type)

    def _prepare(self, variant: Variant) -> _PreparedChecks:
        if variant.folder not in self._prepared:
            self._prepared[variant.folder] = self._start(variant)
        return self._prepared[variant.folder]

    def _start(self, variant: Variant) -> _PreparedChecks:
        library = self._built.library
        preload: tuple[Path, ...] = () if variant.sanitizers else (build_watch(),)
        if self._built.folder is not None:
            package = self._built.folder
            names = [row.id for row in package.rows if row.native and row.backend == self._backend]
            [step] = variants.plan(package, names, variant, toolchain="auto", env=tools.environment())
            make.build(package, [step], on_step=self._on_step)
            library, preload = step.artifact, preload or step.preload
        elif variant.sanitizers:
            raise UsageError(
                f"{library} is not of a package that udogen generated: it cannot be built with a sanitizer here",
                hint="give the folder of a generated package",
            )
        logs = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="udogen-")))
        env = {}
        if variant.sanitizers:
            options = f"{_OPTIONS}{logs / 'report'}"
            # Python's allocator would hide the bounds of allocations from the sanitizer.
            env = {
                **dict.fromkeys(("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"), options),
                "PYTHONMALLOC": "malloc",
            }
        session = OpSession(
            library,
            self._built.provider,
            backend=self._backend,
            qnn_lib=self._options.qnn_lib,
            runtime=self._kind,
            timeout=self._options.timeout,
            preload=preload,
            env=env,
        )
        return _PreparedChecks(library.resolve(), self._stack.enter_context(session), logs)


class PageGuards:
    """`--guard` on places that run Hexagon instructions: the harness puts guard pages around tensors."""

    def __init__(self, session: HexagonSession) -> None:
        self._session = session

    def check(self, call: OpCall) -> tuple[Finding, ...]:
        """Out-of-bounds reads and writes."""
        return _guarded(self._session, call, self._finding)

    def _finding(self, error: RunFailed) -> Finding:
        if not isinstance(error, OutOfBounds):
            raise error
        return Finding(error.message, error.hint, kind="out-of-bounds", evidence="\n".join(error.details))


def _guarded(
    session: OpSession | HexagonSession, call: OpCall, finding_of: Callable[[RunFailed], Finding]
) -> tuple[Finding, ...]:
    """The findings of one run with a guard page after each tensor, and one with a page before it."""
    by_sentence: dict[str, Finding] = {}
    for side in ("end", "begin"):
        try:
            session.run(replace(call, loops=1), Watch(guard=side))
        except RunFailed as error:
            finding = finding_of(error)
            what = error.message.partition(" bytes)")[0]
            if what not in by_sentence or isinstance(error, OpCrashed):  # a crash also has the source line
                by_sentence[what] = finding
    return tuple(by_sentence.values())


@dataclass(frozen=True)
class _PreparedChecks:
    """A process in which one variant of the package is registered."""

    library: Path
    session: OpSession
    logs: Path

    def forget_reports(self) -> None:
        for log in self.logs.iterdir():
            log.unlink()

    def reports(self) -> str:
        return "\n".join(log.read_text("utf-8", "replace") for log in sorted(self.logs.iterdir()))


# --- the checks of a case -------------------------------------------------------------------------------------


def check_case(outcome: Outcome, checks: SafetyChecks | PageGuards, built: Built, op: Op | None) -> Outcome:
    """The outcome of a case with its safety findings; any finding makes the case fail."""
    case = outcome.case
    if case.refusal or outcome.status == "skipped" or case.error is not None:
        return outcome
    try:
        reported = checks.check(case.call(op, built))
    except (ToolMissing, BuildFailed):
        raise
    except RunFailed as error:
        if outcome.status == "error":  # it also fails without the checks, which is already reported
            return outcome
        return replace(outcome, status="error", error=CaseError.of(error))
    if not reported:
        return outcome
    status: Status = "error" if outcome.status == "error" else "failed"
    return replace(outcome, status=status, findings=(*outcome.findings, *reported))


def unchecked(options: SafetyOptions, places: Iterable[Place]) -> tuple[str, ...]:
    """Warnings about what no check covers, so that nothing unchecked seems to be safe."""
    asked = [name for name in ("heap", "guard", "sanitize") if getattr(options, name)]
    names = [*asked, *(f"sanitize {name}" for variant in options.sanitize for name in variant.sanitizers)]
    used = list(dict.fromkeys(places))
    sentences = [f"--{name}: {why}" for place in used for name, why in place.blind.items() if name in names]
    instructions = _ids(place for place in used if place.instructions)
    if (others := [name for name in asked if name != "guard"]) and instructions:
        flags = ", ".join(f"--{name}" for name in others)
        sentences.append(f"{flags}: not checked on {', '.join(instructions)}, where code for another processor runs")
    clients = _ids(place for place in used if place.client)
    if names and clients:
        flags = ", ".join(f"--{name}" for name in names)
        sentences.append(f"{flags}: not checked on {', '.join(clients)}, where another program runs the op")
    return tuple(sentences)


def _ids(places: Iterable[Place]) -> list[str]:
    return [place.id for place in places]
