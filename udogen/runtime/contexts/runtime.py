"""A backend in this process, in which context binaries are restored and executed."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.errors import RunFailed, UsageError
from udogen.qnn import handles as qnn
from udogen.qnn import heads, interface, system
from udogen.qnn import interface as qnn_interface
from udogen.qnn.handles import (
    BackendHandle,
    Closing,
    ContextOptions,
    DeviceHandle,
    DeviceInfo,
    LogHandle,
    ProfileHandle,
    devices,
)
from udogen.qnn.interface import DEBUG, ERROR, INFO, WARN, Interface, LogSink
from udogen.qnn.system import BinaryInfo
from udogen.runtime import arguments, log_messages
from udogen.runtime.arguments import PathArgument
from udogen.runtime.contexts import manifest
from udogen.runtime.contexts.manifest import flat_view, mapped_file
from udogen.runtime.contexts.runtime import Context, ContextCleanup, lost, opened
from udogen.runtime.library import (
    BACKENDS,
    KINDS,
    check_loadable,
    check_provider,
    find_runtime,
    interface_providers,
)
from udogen.runtime.worker.loaded_package import LoadedPackage, listen

if TYPE_CHECKING:
    from mmap import mmap

    from udogen.qnn import handles as qnn
    from udogen.runtime.contexts.binaries import StoredContext

_ALONE = threading.Lock()
_RESTORES = threading.Lock()  # one at a time where the log says what was left out
_logger = logging.getLogger("udogen.runtime")
_logger.addHandler(logging.NullHandler())  # a program that asks for no log gets none
_SLOTS = "udogen.runtime.contexts.graph"  # brings numpy, the slowest of all that graphs need


class Runtime(Closing):
    """One backend, real or emulated, with op packages and contexts.

    What runs here runs in your process: an op that crashes takes it along (`udogen run context` has a child for that).
    All of it may be used from several threads.  `log` gets what the runtime and the op packages say, up to `log_level`;
    without one it goes to the logger `udogen.runtime` of Python's logging.

    It is closed by `with`, `close`, at the end of the interpreter, or when nobody uses it or what was made of it.
    """

    def __init__(
        self,
        backend: str = "htp",
        *,
        kind: str = "auto",
        library: PathArgument | None = None,
        system: PathArgument | None = None,
        soc: int = 0,
        log: LogSink | None = None,
        log_level: int = WARN,
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.process, self._ended = os.getpid(), True  # until it is open
        arguments.expect(backend, str, "the backend", f"one of: {', '.join(BACKENDS)}")
        arguments.expect(kind, str, "the kind of runtime", "one of: " + ", ".join(KINDS))
        given = None if library is None else arguments.path(library, "the runtime library")
        found = find_runtime(backend, explicit=given, kind=kind, on_step=on_step)
        check_loadable(found.path, "runtime library")
        if found.path in lost:
            raise RunFailed(
                f"{found.path.name} cannot be used in process {os.getpid()}: it was in use in its parent "
                f"({lost[found.path]}) when that was forked, and its threads did not come along",
                hint='close the runtime before the fork, or start processes anew: multiprocessing.get_context("spawn")',
            )
        arguments.whole(soc, "soc", most=arguments.MOST_32)
        arguments.whole(log_level, "the log level", least=ERROR, most=DEBUG)
        if not callable(on_step):
            raise UsageError(f"on_step is {arguments.kind_of(on_step)}", hint="give a function of a line")
        if log is not None and not callable(log):
            raise UsageError(
                f"log is {arguments.kind_of(log)}", hint="give a function of a level and a line: log=print"
            )
        self.backend, self.path, self.emulator = backend, found.path, found.emulator
        self.turn = _ALONE if found.serial else None  # of all graphs, where they must not run in parallel
        self._forks = found.emulator or found.backend.forks
        self.system = found.system if system is None else arguments.path(system, "the system library")
        check_loadable(self.system, "system library")
        sink = log or _to_logging
        printed = None
        if found.backend.prints and not found.emulator:

            def printed(line: str) -> None:
                if log_level >= INFO:
                    sink(INFO, line)

        with nullcontext() if printed is None else interface.captured_prints(printed):
            self._interface = Interface.load(found.path)
        self._interface.printed = printed
        self.name, self.build_id = self._interface.name, self._interface.build_id()
        # libQnnCpu says no, takes an execution all the same, and never tells its end.
        self.asynchronous = self._interface.supports("QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION")
        self._soc, self._devices = soc, dict[int | None, DeviceHandle]()
        # A context is the user's: it goes when nobody uses it.  How it ends is known here until it has.
        self._contexts: dict[ContextCleanup, weakref.ref[Context]] = {}
        self._composed: list[qnn.ContextHandle] = []
        self._packages: list[tuple[Path, str]] = []  # library, provider
        self._own_logs: list[LoadedPackage] = []  # of those whose log the backend does not ask for
        self._lock = threading.RLock()
        with ExitStack() as stack:
            self._sink, self._log_level = sink, log_level
            # Without a log the libraries print, to the program's stdout.
            self._log = stack.enter_context(LogHandle(self._interface, self._hear, max(log_level, WARN)))
            self._backend = stack.enter_context(BackendHandle(self._interface, self._log))
            self._stack = stack.pop_all()
        self._ended = False
        opened[self] = None

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

    def register(self, library: PathArgument, provider: str = "", target: str | None = None) -> None:
        """Register an op package: its library, or the folder it was built in; `provider` as the library exports it.

        With the target HTP, the name of a library for Hexagon: it is looked for there, by ADSP_LIBRARY_PATH, not here.
        """
        library = arguments.path(library, "the op package")
        arguments.expect(provider, str, "the interface provider", "its name: `<Package>InterfaceProvider`")
        arguments.expect(target, (str, type(None)), "the target", "CPU, HTP, GPU or None")
        self.check_open()
        if target == "HTP":
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
            if not BACKENDS[self.backend].forwards_log:
                package, unlisten = listen(library.resolve(), provider, self._hear, level=max(self._log_level, WARN))
                self._stack.callback(unlisten)
                self._own_logs.append(package)
            self._backend.register(library.resolve(), provider, target)
            self._packages.append((library.resolve(), provider))

    def executions(self) -> dict[str, dict[str, int]]:
        """Package -> op -> how often it was executed in this process (`udogen.runtime.executions`).

        Of the packages that were registered here; a library for Hexagon counts there, where nobody can ask it.
        """
        from udogen.runtime.execution_counts import counted_package

        found = [counted_package(*each) for each in self._packages]
        return {each.name: each.counts() for each in found}

    def _check_symbols(self, library: Path) -> None:
        """A package of HTP finds the functions that it calls in the first library of the process that has them."""
        from udogen.build import elf  # only now: it is slow to import, and contexts of built-in ops need none

        here = self.path.resolve()
        loaded = qnn_interface.opened
        before = loaded[: loaded.index(here)] if here in loaded else []
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
        binary: PathArgument | bytes | bytearray | memoryview | mmap | StoredContext,
        *,
        name: str = "",
        info: BinaryInfo | None = None,
        device: int | None = None,
        deferred: bool = False,
        options: ContextOptions | None = None,
        profile: bool = False,
        check_manifest: bool = True,
    ) -> Context:
        """The context of a binary: a path, which is mapped and never read into memory, or bytes.

        A file is compared with its manifest, unless `check_manifest` is False, and refused where it differs; of a file
        without one Python's `warnings` hear.

        `info` spares asking libQnnSystem what is in it.  `device` is a number of `devices()`.  With `deferred` the
        graphs come with `Context.finalize`.  With `profile` executions are measured (`Context.profile`).
        """
        wanted = _options(options, deferred)
        arguments.expect(name, str, "the name of a context", "a str")
        if info is not None:
            arguments.expect(info, BinaryInfo, "info", "what `StoredContext.info` says, or None")
        self.check_open()
        self._check_device(device)
        with ExitStack() as stack:
            if isinstance(binary, Closing):
                from udogen.runtime.contexts.binaries import StoredContext

                arguments.expect(binary, StoredContext, "the context binary", "a path, bytes or a StoredContext")
                assert isinstance(binary, StoredContext)
                name, info, binary = name or str(binary.path), info or binary.info, binary.data
            if isinstance(binary, (str, os.PathLike)):
                place = arguments.path(binary, "the context binary")
                name, binary = name or str(place), stack.enter_context(mapped_file(place))
                if check_manifest:
                    manifest.check(place).refuse()
                    if text := manifest.unverified([place]):
                        warnings.warn(text, stacklevel=2)
            name = name or "(bytes)"
            content: memoryview = flat_view(binary)
            self._check_maker(heads.check(content, name), name)
            if info is None:
                info = system.binary_info(self.system, content, name=name)
            self._check_backend(info.backend_id, name)
            with self._lock:
                self.check_open()
                measures = ProfileHandle(self._backend) if profile else None
                try:
                    with self.turn or nullcontext(), _importing(_SLOTS):
                        low = self._restored(content, device, wanted, name)
                except BaseException:
                    if measures:
                        measures.close()
                    raise
                made = Context(self, low, info, name=name, options=wanted, profile=measures)
                self._contexts[made.ending] = weakref.ref(made)
            if wanted.deferred:  # the runtime reads the binary again when it finalizes
                made.keep(stack.pop_all().close)
            return made

    def _restored(
        self, binary: memoryview, device: int | None, options: ContextOptions, name: str
    ) -> qnn.ContextHandle:
        if self.backend != "cpu" or self.emulator:
            return self._backend.restore(binary, self._device(device), options)
        began = time.monotonic()
        with _RESTORES, self._log.everything() as lines:
            low = self._backend.restore(binary, self._device(device), options)
        missing = log_messages.left_out(text for _, text in lines)
        if missing is None:
            return low
        low.close()
        op, package = missing
        if package in [each.info()[0] for each in self._own_logs]:
            what, hint = "its package does not take it", "it must be the package, and the version, it was made with"
        else:
            what = "that package is not registered"
            hint = "register it first: `udogen run context --op-package LIB`, or Runtime.register"
        raise RunFailed(
            f"{name} cannot be restored: it needs the op `{op}` of the op package `{package}`; {what}",
            hint=hint,
            details=[text for _, text in self._interface.lines(began)],
        )

    def _hear(self, level: int, text: str) -> None:
        if log_messages.without_noise([text]):
            self._interface.heard(level, text)
        if level <= self._log_level:
            self._sink(level, text)

    def _check_maker(self, head: heads.Head, name: str) -> None:
        if head.emulator != self.emulator:
            maker, kind = ("udogen's emulator", "emulator") if head.emulator else ("Qualcomm's runtime", "real")
            raise RunFailed(f"{name} was made by {maker}; {self.name} cannot restore it", hint=f"use --runtime {kind}")

        self._check_backend(head.backend_id, name)

    def _check_backend(self, number: int, name: str) -> None:
        made_for = system.BACKENDS_BY_ID.get(number)
        if made_for is not None and made_for != self.backend:
            raise RunFailed(
                f"{name} was made for the backend {made_for}, not {self.backend}", hint=f"use --backend {made_for}"
            )

    def composing(self, device: int | None = None) -> qnn.ContextHandle:
        """A new, empty context of the API, to make graphs in; closed by `with`, `close`, or with the runtime."""
        with self._lock:
            self.check_open()
            self._check_device(device)
            made = self._backend.context(self._device(device))
            made.user = self
            self._composed = [*(each for each in self._composed if each.raw is not None), made]
            return made

    def _check_device(self, number: int | None) -> None:
        if number is not None:
            hint = "give a number of `devices()`, or None"
            arguments.whole(number, "the device", most=arguments.MOST_32, hint=hint)

    def _device(self, number: int | None) -> DeviceHandle | None:
        if number is None and not self._soc:
            return None
        if number not in self._devices:
            made = DeviceHandle(self._interface, self._log, soc=self._soc, number=number)
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
        if self.process != os.getpid():
            raise RunFailed(
                f"{what} cannot be used in process {os.getpid()}: the runtime was opened in process {self.process}",
                hint="what a runtime has does not survive a fork: open one in the process that executes",
            )

    def close(self) -> None:
        """Close every context, last to first, then the backend."""
        errors: list[Exception] = []
        with self._lock:
            self._ended = True  # from here on nothing is added
            opened.pop(self, None)
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
        if not self._ended and self.process == os.getpid():
            self.close()  # its contexts are out of use too, for each of them refers to it

    def disown(self) -> None:
        """In a process that was forked: all of it is the parent's."""
        self._lock = threading.RLock()
        for each in self.contexts:
            each.disown()
        if not self._forks:
            lost[self.path] = self.process


def _to_logging(level: int, line: str) -> None:
    known = {ERROR: logging.ERROR, WARN: logging.WARNING, INFO: logging.INFO}
    _logger.log(known.get(level, logging.DEBUG), "%s", line)


def _options(options: ContextOptions | None, deferred: bool) -> ContextOptions:
    if options is None:
        return ContextOptions(deferred=bool(deferred))
    arguments.expect(options, ContextOptions, "options", "a ContextOptions (udogen.qnn.handles)")
    if deferred and not options.deferred:
        raise UsageError(
            "deferred=True, and options that say otherwise", hint="say it in the options: ContextOptions(deferred=True)"
        )
    return options


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
