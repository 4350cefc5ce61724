"""A backend in this process, in which context binaries are restored and executed."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UsageError
from udogen.qnn import context as qnn
from udogen.qnn import heads, system
from udogen.qnn.backend import Backend, Device, Log
from udogen.qnn.context import ContextOptions
from udogen.qnn.devices import DeviceInfo, devices
from udogen.qnn.handle import Closing
from udogen.qnn.interface import WARN, Interface, LogSink, opened
from udogen.qnn.profile import Profile
from udogen.runtime import arguments
from udogen.runtime.arguments import Given
from udogen.runtime.contexts.context import Context, Ending
from udogen.runtime.contexts.mapped import mapped
from udogen.runtime.library import (
    BACKENDS,
    KINDS,
    check_loadable,
    check_provider,
    find_runtime,
    interface_providers,
)

if TYPE_CHECKING:
    from mmap import mmap

    from udogen.qnn.system import BinaryInfo
    from udogen.runtime.contexts.binaries import StoredContext

_ALONE = threading.Lock()
_LAST_WAIT = 5.0  # seconds, for executions that other threads have not ended when the interpreter ends
_SLOTS = "udogen.runtime.contexts.slots"  # brings numpy, the slowest of all that graphs need


class Runtime(Closing):
    """One backend, real or emulated, with op packages and contexts.

    What runs here runs in your process: an op that crashes takes it along (`udogen run context` has a child for that).
    All of it may be used from several threads.  It is closed by `with`, `close`, at the end of the interpreter, or when
    nobody uses it or what was made of it.
    """

    def __init__(
        self,
        backend: str = "htp",
        *,
        kind: str = "auto",
        library: Given | None = None,
        system: Given | None = None,
        soc: int = 0,
        log: LogSink | None = None,
        log_level: int = WARN,
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._process, self._ended = os.getpid(), True  # until it is open
        arguments.expect(backend, str, "the backend", f"one of: {', '.join(BACKENDS)}")
        arguments.expect(kind, str, "the kind of runtime", "one of: " + ", ".join(KINDS))
        given = None if library is None else arguments.path(library, "the runtime library")
        found = find_runtime(backend, explicit=given, kind=kind, on_step=on_step)
        check_loadable(found.path, "runtime library")
        if found.path in _lost:
            raise RunFailed(
                f"{found.path.name} cannot be used in process {os.getpid()}: it was in use in its parent "
                f"({_lost[found.path]}) when that was forked, and its threads did not come along",
                hint='close the runtime before the fork, or start processes anew: multiprocessing.get_context("spawn")',
            )
        arguments.whole(soc, "soc")
        if log is not None and not callable(log):
            raise UsageError(
                f"log is {arguments.kind_of(log)}", hint="give a function of a level and a line: log=print"
            )
        self.backend, self.path, self.emulator = backend, found.path, found.emulator
        self.turn = _ALONE if found.serial else None  # of all graphs, where they must not run in parallel
        self._forks = found.emulator or found.backend.forks
        self.system = found.system if system is None else arguments.path(system, "the system library")
        check_loadable(self.system, "system library")
        self._interface = Interface.load(found.path)
        self.name, self.build_id = self._interface.name, self._interface.build_id()
        # libQnnCpu says no, takes an execution all the same, and never tells its end.
        self.asynchronous = self._interface.supports("QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION")
        self._soc, self._devices = soc, dict[int | None, Device]()
        # A context is the user's: it goes when nobody uses it.  How it ends is known here until it has.
        self._contexts: dict[Ending, weakref.ref[Context]] = {}
        self._composed: list[qnn.Context] = []
        self._packages: list[tuple[Path, str]] = []  # library, provider
        self._lock = threading.RLock()
        with ExitStack() as stack:
            self._log = stack.enter_context(Log(self._interface, log, log_level)) if log else None
            self._backend = stack.enter_context(Backend(self._interface, self._log))
            self._stack = stack.pop_all()
        self._ended = False
        _open[self] = None

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self.contexts)} contexts, {len(self._packages)} op packages"
        return f"<Runtime {self.name} ({self.backend}{', emulator' if self.emulator else ''}): {state}>"

    # --- what there is ----------------------------------------------------------------------------------------------

    @property
    def interface(self) -> Interface:
        """The backend's functions, for what this room does not wrap."""
        return self._interface

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The contexts that are open."""
        return tuple(each for row in list(self._contexts.values()) if (each := row()) is not None)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._ended

    def devices(self) -> tuple[DeviceInfo, ...]:
        """The processors of the platform, as far as the backend tells (libQnnCpu does not)."""
        self.check_open()
        return devices(self._interface)

    # --- what it is told --------------------------------------------------------------------------------------------

    def register(self, library: Given, provider: str = "", target: str | None = None) -> None:
        """Register an op package: its library, or the folder it was built in; `provider` as the library exports it.

        With the target HTP, the name of a library for Hexagon: it is looked for there, by ADSP_LIBRARY_PATH, not here.
        """
        library = arguments.path(library, "the op package")
        arguments.expect(provider, str, "the interface provider", "its name: `<Package>InterfaceProvider`")
        arguments.expect(target, (str, type(None)), "the target", "CPU, HTP, GPU or None")
        self.check_open()
        if target == "HTP":
            if self.turn is not None:
                raise RunFailed(
                    f"{self.name} of a PC registers no library for Hexagon: it runs on this processor",
                    hint="leave out the target, and give the library for this machine",
                )
            with self._lock:
                self.check_open()
                self._backend.register(Path(library.name), provider, target)
            return
        if library.is_dir():
            from udogen.runtime.built import find_built  # who gives a library does not wait for it

            built = find_built(library, backend=self.backend)
            library, provider = built.library, provider or built.provider
        check_loadable(library, "op package")
        if not provider:
            there = interface_providers(library)
            if len(there) != 1:
                names = ", ".join(there)
                raise RunFailed(
                    f"{library} exports {len(there)} interface providers",
                    hint=f"name one of: {names}" if names else "is it an op package?",
                )
            [provider] = there
        check_provider(library, provider)
        self._check_symbols(library)
        with self._lock:
            self.check_open()
            self._backend.register(library.resolve(), provider, target)
            self._packages.append((library.resolve(), provider))

    def executions(self) -> dict[str, dict[str, int]]:
        """Package -> op -> how often it was executed in this process (`udogen.runtime.executions`).

        Of the packages that were registered here; a library for Hexagon counts there, where nobody can ask it.
        """
        from udogen.runtime.proof import counted_package

        found = [counted_package(*each) for each in self._packages]
        return {each.name: each.counts() for each in found}

    def _check_symbols(self, library: Path) -> None:
        """A package of HTP finds the functions that it calls in the first library of the process that has them."""
        from udogen.build import elf  # only now: it is slow to import, and contexts of built-in ops need none

        here = self.path.resolve()
        before = opened[: opened.index(here)] if here in opened else []
        other = next(
            (each for each in before if each != here and "qhpi_register_ops_v1" in elf.read(each).exports), None
        )
        if self.backend == "htp" and other is not None:
            raise RunFailed(
                f"{library} cannot be registered in {self.name}: {other} was loaded into this process first, "
                "and the package would call that one's functions",
                hint="use one HTP runtime in a process; `udogen run context` has a child for each",
            )

    def restore(
        self,
        binary: Given | bytes | bytearray | memoryview | mmap | StoredContext,
        *,
        name: str = "",
        info: BinaryInfo | None = None,
        device: int | None = None,
        deferred: bool = False,
        options: ContextOptions | None = None,
        profile: bool = False,
    ) -> Context:
        """The context of a binary: a path, which is mapped and never read into memory, or bytes.

        `info` spares asking libQnnSystem what is in it.  `device` is a number of `devices()`.  With `deferred` the
        graphs come with `Context.finalize`.  With `profile` executions are measured (`Context.profile`).
        """
        wanted = _options(options, deferred)
        arguments.expect(name, str, "the name of a context", "a str")
        if device is not None:
            arguments.whole(device, "the device", hint="give a number of `devices()`, or None")
        self.check_open()
        with ExitStack() as stack:
            if isinstance(binary, Closing):
                from udogen.runtime.contexts.binaries import StoredContext

                arguments.expect(binary, StoredContext, "the context binary", "a path, bytes or a StoredContext")
                assert isinstance(binary, StoredContext)
                name, info, binary = name or str(binary.path), info or binary.info, binary.data
            if isinstance(binary, (str, os.PathLike)):
                place = arguments.path(binary, "the context binary")
                name, binary = name or str(place), stack.enter_context(mapped(place))
            name = name or "(bytes)"
            binary = _bytes(binary)
            self._check_maker(heads.check(binary, name), name)
            if info is None:
                info = system.binary_info(self.system, binary, name=name)
            self._check_backend(info.backend_id, name)
            with self._lock:
                self.check_open()
                measures = Profile(self._backend) if profile else None
                try:
                    with self.turn or nullcontext(), _importing(_SLOTS):
                        low = self._backend.restore(binary, self._device(device), wanted)
                except BaseException:
                    if measures:
                        measures.close()
                    raise
                made = Context(self, low, info, name=name, options=wanted, profile=measures)
                self._contexts[made.ending] = weakref.ref(made)
            if wanted.deferred:  # the runtime reads the binary again when it finalizes
                made.keep(stack.pop_all().close)
            return made

    def _check_maker(self, head: heads.Head, name: str) -> None:
        if head.emulator != self.emulator:
            maker, kind = ("udogen's emulator", "emulator") if head.emulator else ("Qualcomm's runtime", "real")
            raise RunFailed(f"{name} was made by {maker}; {self.name} cannot restore it", hint=f"use --runtime {kind}")

        self._check_backend(head.backend_id, name)

    def _check_backend(self, number: int, name: str) -> None:
        made_for = system.BACKENDS.get(number)
        if made_for is not None and made_for != self.backend:
            raise RunFailed(
                f"{name} was made for the backend {made_for}, not {self.backend}", hint=f"use --backend {made_for}"
            )

    def composing(self, device: int | None = None) -> qnn.Context:
        """A new, empty context of the API, to make graphs in; closed by `with`, `close`, or with the runtime."""
        with self._lock:
            self.check_open()
            made = self._backend.context(self._device(device))
            made.user = self
            self._composed = [*(each for each in self._composed if each.raw is not None), made]
            return made

    def _device(self, number: int | None) -> Device | None:
        if number is None and not self._soc:
            return None
        if number not in self._devices:
            made = Device(self._interface, self._log, soc=self._soc, number=number)
            self._devices[number] = self._stack.enter_context(made)
        return self._devices[number]

    # --- the end ----------------------------------------------------------------------------------------------------

    def forget(self, context: Context) -> None:
        """A context tells that it is closed."""
        self._contexts.pop(context.ending, None)

    def check_open(self) -> None:
        """Refuse any use after the end, and in another process."""
        self.check_process("the runtime")
        if self._ended:
            raise RunFailed("the runtime is closed", hint="use it inside its `with` block")

    def check_process(self, what: str) -> None:
        """Refuse any use in a process that was forked from the one that opened the runtime."""
        if self._process != os.getpid():
            raise RunFailed(
                f"{what} cannot be used in process {os.getpid()}: the runtime was opened in process {self._process}",
                hint="what a runtime has does not survive a fork: open one in the process that executes",
            )

    def close(self) -> None:
        """Close every context, last to first, then the backend."""
        errors: list[Exception] = []
        with self._lock:
            self._ended = True  # from here on nothing is added
            _open.pop(self, None)
        steps = [each.close for each in reversed(self.contexts)]
        steps += [each.run for each in reversed(list(self._contexts))]  # of contexts that nobody uses
        for step in [*steps, *(each.close for each in reversed(self._composed)), self._stack.close]:
            try:
                step()
            except Exception as problem:
                errors.append(problem)
        self._contexts.clear()
        if errors:
            raise errors[0]

    def __enter__(self) -> Runtime:
        self.check_open()
        return self

    def __del__(self) -> None:
        if not self._ended and self._process == os.getpid():
            self.close()  # its contexts are out of use too, for each of them refers to it

    def _disown(self) -> None:
        """In a process that was forked: all of it is the parent's."""
        self._lock = threading.RLock()
        for each in self.contexts:
            each.disown()
        if not self._forks:
            _lost[self.path] = self._process


_open: weakref.WeakKeyDictionary[Runtime, None] = weakref.WeakKeyDictionary()  # in the order of their opening
_lost: dict[Path, int] = {}  # libraries that do not work here, for they were in use when this process was forked


@atexit.register
def _close_all() -> None:
    """The interpreter ends: what is open is closed, last to first, before the destructors of libraries run.

    libQnnHtp with an op package in it that was not freed aborts in its destructors.
    """
    for runtime in reversed(list(_open)):
        try:
            if runtime._process != os.getpid():
                continue
            if all(each.idle(_LAST_WAIT) for each in runtime.contexts):
                runtime.close()
            else:  # a thread executes a graph without end
                _skip_destructors()
        except RunFailed:
            pass  # nobody is left who could do something about it


def _after_fork() -> None:
    """In the child: nothing of the parent's is used, freed or destroyed."""
    for runtime in list(_open):
        runtime._disown()
    _open.clear()
    if _lost:
        _skip_destructors()


def _skip_destructors() -> None:
    """Have the process end, with its exit code, before the destructors of the libraries that are loaded by now."""
    import ctypes

    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # glibc; called last to first
        libc.on_exit(libc._exit, None)
        libc["__cxa_atexit"](libc.fflush, None, None)


os.register_at_fork(after_in_child=_after_fork)


def _options(options: ContextOptions | None, deferred: bool) -> ContextOptions:
    if options is None:
        return ContextOptions(deferred=bool(deferred))
    arguments.expect(options, ContextOptions, "options", "a ContextOptions (udogen.qnn.context)")
    if deferred and not options.deferred:
        raise UsageError(
            "deferred=True, and options that say otherwise", hint="say it in the options: ContextOptions(deferred=True)"
        )
    return options


def _bytes(binary: Any) -> Any:
    """A context binary in memory, as it is."""
    hint = "give the path of a context binary (a str or a Path), or its bytes"
    try:
        view = memoryview(binary)
    except TypeError as problem:
        raise UsageError(f"the context binary is {arguments.kind_of(binary)}", hint=hint) from problem
    except ValueError as problem:  # a mapping that was closed
        raise UsageError(f"the context binary cannot be read: {problem}", hint=hint) from problem
    if not view.c_contiguous:
        raise UsageError("the context binary is not contiguous in its memory", hint=hint)
    return binary if view.format in ("B", "b", "c") and view.ndim == 1 else view.cast("B")


@contextmanager
def _importing(module: str) -> Iterator[None]:
    """Import what comes next while the library reads a binary, for which it lets go of the interpreter."""
    if module in sys.modules:
        yield
        return
    thread = threading.Thread(target=import_module, args=(module,))
    thread.start()
    try:
        yield
    finally:
        thread.join()
