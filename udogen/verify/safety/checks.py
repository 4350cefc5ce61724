"""The checks of a kernel's safety, one row each, and who runs them: each in a process that is prepared for it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from udogen.build import make, tools, variants
from udogen.build.emulator import build_loop, build_watch
from udogen.build.variants import Variant
from udogen.errors import RunFailed, UsageError
from udogen.runtime.built import Built
from udogen.runtime.failures import OpCrashed, OutOfBounds
from udogen.runtime.hexagon.session import HexagonSession
from udogen.runtime.op.calls import OpCall, byte_sizes
from udogen.runtime.op.session import OpSession
from udogen.runtime.op.watch import Watch
from udogen.verify.results import Finding
from udogen.verify.safety import findings
from udogen.verify.safety.findings import Stacks, heap_findings, shown

_HEAP_EXECUTIONS = 20
# Locks of the runtime order what does not happen at the very same time, which on a busy machine takes a while.
_RACE_EXECUTIONS, _RACE_SECONDS = 10, 0.6  # at least so many, and so long
_OPTIONS = "detect_leaks=0:abort_on_error=1:handle_segv=0:handle_abort=0:symbolize=0:print_stacktrace=1:log_path="


@dataclass(frozen=True)
class Wanted:
    """What a person asked for."""

    heap: bool = False
    guard: bool = False
    leaks: bool = False
    sanitize: tuple[Variant, ...] = ()

    @property
    def anything(self) -> bool:
        """Whether there is something to check."""
        return self.heap or self.guard or self.leaks or bool(self.sanitize)


NOTHING = Wanted()


class Safety:
    """Checks calls of one package on one backend; processes and builds are kept from call to call.

    A package that udogen generated is built anew for it, beside the normal build: with line numbers, or with
    sanitizers; any other library is taken as it is, and cannot be sanitized.
    """

    def __init__(
        self,
        built: Built,
        wanted: Wanted,
        *,
        backend: str = "cpu",
        runtime: Path | None = None,
        runtime_kind: str = "auto",
        toolchain: str = "auto",
        timeout: float | None = None,
        rebuild: bool = True,
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._built, self._wanted, self._backend = built, wanted, backend
        self._runtime, self._kind, self._timeout = runtime, runtime_kind, timeout
        self._toolchain, self._rebuild, self._on_step = toolchain, rebuild, on_step
        self._stack = ExitStack()
        self._prepared: dict[str, _Prepared] = {}
        self._done: set[tuple[str, ...]] = set()

    def __enter__(self) -> Safety:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def check(self, call: OpCall) -> tuple[Finding, ...]:
        """What is wrong with this call, by every check that was asked for; none where all is well.

        What takes long (leaks, threads) is done for the first call of each op with the same data types.
        """
        found: list[Finding] = []
        if self._wanted.heap:
            found += self.heap(call)
        if self._wanted.guard:
            found += self.guard(call)
        if self._wanted.leaks and self._is_first("leaks", call):
            found += self.leaks(call)
        for variant in self._wanted.sanitize:
            if variant.is_parallel and self._hangs_with_threads():
                continue  # `outcomes.unchecked` says so
            if not variant.is_parallel or self._is_first(variant.folder, call):
                found += self.sanitized(call, variant)
        return tuple(found)

    def _is_first(self, check: str, call: OpCall) -> bool:
        key = (check, call.op_type, *(tensor.dtype for tensor in (*call.inputs, *call.outputs)))
        new = key not in self._done
        self._done.add(key)
        return new

    def heap(self, call: OpCall) -> tuple[Finding, ...]:
        """Who allocates while the op executes."""
        place = self._prepare(Variant())
        call = replace(call, loops=max(call.loops, _HEAP_EXECUTIONS))
        use = place.session.run(call, Watch(heap=True)).heap
        assert use is not None
        with self._stacks(place, call) as stacks:
            return heap_findings(use, stacks, op=call.op_type)

    def guard(self, call: OpCall) -> tuple[Finding, ...]:
        """Reads and writes beside tensors: once with a wall behind each of them, once with one before it."""
        place = self._prepare(Variant())
        found: dict[str, Finding] = {}
        for side in ("end", "begin"):
            try:
                place.session.run(replace(call, loops=1), Watch(guard=side))
            except (OpCrashed, RunFailed) as fault:
                finding = self._of_fault(fault, place, call)
                what = finding.sentence.partition(" bytes)")[0]
                if what not in found or isinstance(fault, OpCrashed):  # which knows the line
                    found[what] = finding
        return tuple(found.values())

    def leaks(
        self, call: OpCall, executions: int = findings.EXECUTIONS, cycles: int = findings.CYCLES
    ) -> tuple[Finding, ...]:
        """What is never freed."""
        place = self._prepare(Variant())
        told = place.session.leaks(call, executions=executions, cycles=cycles)
        with self._stacks(place, call) as stacks:
            return findings.leak_findings(told, stacks, op=call.op_type)

    def sanitized(self, call: OpCall, variant: Variant) -> tuple[Finding, ...]:
        """What sanitizers say; `thread` runs two graphs of the op at the same time."""
        place = self._prepare(variant)
        crash: RunFailed | None = None
        differing: tuple[Finding, ...] = ()
        place.forget_reports()
        try:
            if variant.is_parallel:
                differing = self._at_once(place.session, call)
            else:
                place.session.run(replace(call, loops=1), Watch(exact=True))
        except RunFailed as fault:
            crash = fault
        about = findings.Context(call.op_type, place.library, call, place.session.regions, byte_sizes(call))
        with self._stacks(place, call) as stacks:
            found = findings.findings_of(place.reports(), stacks, about) or differing
        if crash is not None and not found:
            raise crash
        return found

    def _hangs_with_threads(self) -> bool:
        """libQnnHtp 2.47 on x86 often does not come back where two graphs are executed at the same time."""
        return self._backend == "htp" and self._kind != "emulator"

    def _at_once(self, session: OpSession, call: OpCall) -> tuple[Finding, ...]:
        """Two graphs at the same time must answer what each answers alone."""
        answers = session.parallel(call, executions=_RACE_EXECUTIONS, seconds=_RACE_SECONDS, loop=build_loop())
        for name in answers[0]:
            for alone, beside in ((0, 2), (1, 3)):
                if answers[alone][name].tobytes() != answers[beside][name].tobytes():
                    return (
                        Finding(
                            "data-race",
                            f"two graphs of op `{call.op_type}` that run at the same time write other numbers to "
                            f"`{name}` than each of them alone",
                            "",
                            findings.RACE_HINT,
                        ),
                    )
        return ()

    # --- how they are run ---------------------------------------------------------------------------------------

    def _of_fault(self, fault: RunFailed, place: _Prepared, call: OpCall) -> Finding:
        """A crash at a wall, or what lay beside a tensor and was changed; any other failure is no finding."""
        if isinstance(fault, OpCrashed) and fault.fault is not None and fault.beside:
            inner = [frame.library for frame in fault.fault.frames]
            runtime = place.session.runtime.path
            if str(place.library) not in inner[: inner.index(runtime) if runtime in inner else None]:
                raise fault  # not in the kernel
            with self._stacks(place, call) as stacks:
                story = stacks.story(fault.fault.frames)
            lines = [f"in {shown(story.calls[0])}"] if story.calls else []
            lines += [f"called by {shown(each)}" for each in story.calls[1:]]
            return Finding("out-of-bounds", f"{fault.message}, in {story.where}", "\n".join(lines), fault.hint)
        if not isinstance(fault, OutOfBounds):
            raise fault
        return Finding(
            "out-of-bounds",
            fault.message,
            "seen after the execution: what lay there was another than before",
            fault.hint,
        )

    def _stacks(self, place: _Prepared, call: OpCall) -> Stacks:
        folder = self._built.folder
        root = folder.path if folder is not None else None
        return Stacks(place.library, root, package=self._built.package, op=call.op_type)

    def _prepare(self, variant: Variant) -> _Prepared:
        if variant.folder not in self._prepared:
            self._prepared[variant.folder] = self._made(variant)
        return self._prepared[variant.folder]

    def _made(self, variant: Variant) -> _Prepared:
        library = self._built.library
        preload: tuple[Path, ...] = () if variant.sanitizers else (build_watch(),)
        if self._built.folder is not None and (self._rebuild or variant.sanitizers):
            package = self._built.folder
            names = [row.id for row in package.rows if row.native and row.backend == self._backend]
            [step] = variants.plan(package, names, variant, toolchain=self._toolchain, env=tools.environment())
            make.build(package, [step.step], on_step=self._on_step)
            library, preload = step.step.artifact, preload or step.preload
        elif variant.sanitizers:
            raise UsageError(
                f"{library} is not of a package that udogen generated: it cannot be built with a sanitizer here",
                hint="give the folder of a generated package",
            )
        logs = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="udogen-")))
        env = {}
        if variant.sanitizers:
            options = f"{_OPTIONS}{logs / 'report'}"
            # Python's own allocator would hide from the sanitizer what begins and ends where.
            env = {
                **dict.fromkeys(("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"), options),
                "PYTHONMALLOC": "malloc",
            }
        session = OpSession(
            library,
            self._built.provider,
            backend=self._backend,
            runtime=self._runtime,
            runtime_kind=self._kind,
            timeout=self._timeout,
            preload=preload,
            env=env,
        )
        return _Prepared(library.resolve(), self._stack.enter_context(session), logs)


class PageGuards:
    """`--guard` where instructions are run: the harness puts pages around tensors that nobody may touch."""

    def __init__(self, session: HexagonSession) -> None:
        self._session = session

    def check(self, call: OpCall) -> tuple[Finding, ...]:
        """Reads and writes beside tensors: once with a page behind each of them, once with one before it."""
        found: dict[str, Finding] = {}
        for side in ("end", "begin"):
            try:
                self._session.run(replace(call, loops=1), Watch(guard=side))
            except OutOfBounds as fault:
                finding = Finding("out-of-bounds", fault.message, "\n".join(fault.details), fault.hint)
                found.setdefault(fault.message.partition(" bytes)")[0], finding)
        return tuple(found.values())


@dataclass(frozen=True)
class _Prepared:
    """A process in which one variant of the package is registered."""

    library: Path
    session: OpSession
    logs: Path

    def forget_reports(self) -> None:
        for each in self.logs.iterdir():
            each.unlink()

    def reports(self) -> str:
        return "\n".join(each.read_text("utf-8", "replace") for each in sorted(self.logs.iterdir()))


def need_tools(wanted: Wanted) -> None:
    """Raise where a tool is missing that these checks need, before anything is run."""
    for variant in wanted.sanitize:
        variants.need_compiler(variant, tools.environment())
    if wanted.heap or wanted.guard or wanted.leaks:
        build_watch()


def wanted_of(*, heap: bool, guard: bool, leaks: bool, sanitize: Sequence[str]) -> Wanted:
    """What the options of a command line ask for."""
    return Wanted(heap, guard, leaks, tuple(variants.parse(text) for text in sanitize))
