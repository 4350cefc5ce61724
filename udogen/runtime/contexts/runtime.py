"""A QNN backend in this process, with op packages and contexts."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING

from udogen import backends, error_tables
from udogen.errors import RunFailed, UsageError
from udogen.qnn import heads, socs, system
from udogen.qnn.handles import (
    BackendHandle,
    Closing,
    ContextHandle,
    ContextOptions,
    DeviceHandle,
    DeviceInfo,
    LogHandle,
    ProfileHandle,
    SupportedOp,
    devices,
    run_all,
)
from udogen.qnn.interface import ERROR, INFO, WARN, Interface, LogSink, QnnError, captured_prints
from udogen.qnn.system import BinaryInfo
from udogen.qnn.tensors import OpConfig
from udogen.runtime.arguments import PathArgument
from udogen.runtime.contexts import manifest
from udogen.runtime.contexts.context import (
    Context,
    ContextCleanup,
    check_not_lost,
    close_at_exit,
    lost_libraries,
    open_runtimes,
)
from udogen.runtime.contexts.manifest import flat_view, mapped_file
from udogen.runtime.library import (
    RuntimeInfo,
    RuntimeLibrary,
    check_build,
    check_loadable,
    check_provider,
    check_symbols,
    find_runtime,
    forget_builds,
    only_provider,
)
from udogen.runtime.worker.loaded_package import LoadedPackage, listen

if TYPE_CHECKING:
    from udogen.runtime.contexts.binaries import StoredContext


ALONE = threading.Lock()  # sessions of ONNX Runtime hold it too
_RESTORES = threading.Lock()  # one restore at a time if the log is searched for dropped nodes


def _chosen(options: ContextOptions | None, *, deferred: bool) -> ContextOptions:
    if options is not None and deferred and not options.deferred:
        hint = "set it in the options: ContextOptions(deferred=True)"
        raise UsageError("deferred=True contradicts the options", hint=hint)
    return options or ContextOptions(deferred=deferred)


class Runtime(Closing):
    """One QNN backend in this process, real or emulated, with op packages and contexts.

    It runs in your process: an op that crashes ends your program (`udogen run context` uses a child process).  It may
    be used from several threads.  `log` is called with each line that the runtime and the op packages log, up to
    `log_level`; the default is the logger `udogen.runtime`.

    It is closed by `with`, by `close`, at the end of the interpreter, or when neither it nor its contexts are in use.
    """

    uses_arrays = True  # import numpy while a library restores the first context
    captures_prints = True  # what the library prints goes to `log`
    closed = True  # until it is open

    def __init__(
        self,
        backend: str = "htp",
        *,
        runtime: str = "auto",
        qnn_lib: PathArgument | RuntimeLibrary | None = None,
        system: PathArgument | None = None,
        soc: int | str = 0,
        log: LogSink | None = None,
        log_level: int = WARN,
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.process = os.getpid()
        if isinstance(qnn_lib, RuntimeLibrary):
            chosen = qnn_lib
        else:
            chosen = find_runtime(backend, qnn_lib=qnn_lib, runtime=runtime, on_step=on_step)
        check_loadable(chosen.path, "runtime library")
        check_not_lost(chosen.path)
        self._soc = socs.number_of(soc)
        self.backend, self.path, self.emulator = chosen.backend, chosen.path, chosen.emulator
        self._behaviour = chosen.behaviour
        self.turn = ALONE if chosen.serial else None  # held by executions that must not run in parallel
        self._forks = chosen.emulator or chosen.behaviour.forks
        self.system = chosen.system
        if system is not None:
            self.system = Path(system)
            check_loadable(self.system, "system library")
        self._sink, self._log_level = log or _to_logging, log_level
        prints = chosen.behaviour.prints and self.captures_prints and not chosen.emulator
        printed = partial(self._log_line, INFO) if prints else None
        with captured_prints(printed):
            self.interface = Interface.load(chosen.path)  # for calls that have no wrapper
        self.interface.printed = printed
        self.name, self.build_id = self.interface.name, self.interface.build_id()
        # libQnnCpu reports no support, accepts an execution nevertheless, and never reports its end.
        self.asynchronous = self.interface.supports("QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION")
        self._devices = dict[int | None, DeviceHandle]()
        # Contexts are held weakly, so they are collected when unused.  Their cleanup is kept until it has run.
        self._contexts: dict[ContextCleanup, weakref.ref[Context]] = {}
        self._packages: list[LoadedPackage] = []  # that were registered, without those for Hexagon
        self._lock = threading.RLock()
        with ExitStack() as stack:
            # Without a log callback the libraries print to stdout.
            self._log = stack.enter_context(LogHandle(self.interface, self._log_line, max(log_level, WARN)))
            self._backend = stack.enter_context(BackendHandle(self.interface, self._log))
            self._stack = stack.pop_all()
        self.closed = False
        close_at_exit(self)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self.contexts)} contexts, {len(self._packages)} op packages"
        return f"<Runtime {self.name} ({self.backend}{', emulator' if self.emulator else ''}): {state}>"

    # --- properties ----------------------------------------------------------------------------------------------

    @property
    def about(self) -> RuntimeInfo:
        """Its names and versions."""
        api, backend = self.interface.api_version, self.interface.backend_version
        return RuntimeInfo(self.name, self.build_id, api, backend, str(self.path), self.emulator)

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The open contexts."""
        return tuple(context for row in list(self._contexts.values()) if (context := row()) is not None)

    def devices(self) -> tuple[DeviceInfo, ...]:
        """The processors of the platform; none if the backend does not report them, as libQnnCpu."""
        self.check_open()
        try:
            return devices(self.interface)
        except QnnError:
            return ()

    # --- op packages and contexts -------------------------------------------------------------------------------------

    def register(self, library: PathArgument, provider: str = "", target: str | None = None) -> None:
        """Register an op package: its library, or the folder it was built in; `provider` is a symbol that it exports.

        With the target HTP it is the name of a library for Hexagon, which is searched for there, in ADSP_LIBRARY_PATH.
        """
        library = Path(library)
        self.check_open()
        if target == "HTP":
            with self._lock:
                self.check_open()
                self._backend.register(Path(library.name), provider, target)
            return
        if library.is_dir():
            from udogen.runtime.built import find_built  # slow to import, and not needed for a library

            built = find_built(library, backend=self.backend)
            library, provider = built.library, provider or built.provider
        check_loadable(library, "op package")
        provider = provider or only_provider(library)
        check_provider(library, provider)
        calls_runtime = backends.ALL[self.backend].calls_runtime
        if calls_runtime:
            check_symbols(self.path, library)
        library, loaded = library.resolve(), None
        with self._lock:
            self.check_open()
            if not self._behaviour.forwards_log:
                loaded, unlisten = listen(library, provider, self._log_line, level=max(self._log_level, WARN))
                self._stack.callback(unlisten)
            self.register_file(library, provider, target, loaded=loaded)
            if calls_runtime and not self.emulator:
                check_build(self.path, self._packages[-1].info()[0], library)

    def register_file(
        self, library: Path, provider: str, target: str | None = None, *, loaded: LoadedPackage | None = None
    ) -> None:
        """Register an op package without any checks; its log is left to the caller.

        `loaded` is the same package, if the caller has loaded it.
        """
        self._backend.register(library, provider, target)
        self._packages.append(loaded or LoadedPackage(str(library), provider))

    def validate(self, op: OpConfig) -> None:
        """Raise unless the backend or the op's package accepts this node, which libQnnHtp adds without a check."""
        self.check_open()
        self._backend.validate(op)

    def operations(self) -> list[SupportedOp]:
        """All ops that it has, built in and of registered packages."""
        self.check_open()
        return self._backend.operations()

    def executions(self) -> dict[str, dict[str, int]]:
        """Package -> op -> how often it was executed in this process (`udogen.runtime.executions`).

        Covers the packages that were registered here; the counters of a library on a Hexagon cannot be read.
        """
        from udogen.runtime.execution_counts import counted_package

        packages = [counted_package(package.path, package.provider) for package in self._packages]
        return {package.name: package.counts() for package in packages}

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
        """Restore the context of a binary: a path, which is mapped and never read into memory, or bytes.

        A file is compared with its manifest, unless `check_manifest` is False; a file that differs is an error, a file
        without a manifest causes a warning (`warnings`).

        With `info` libQnnSystem is not needed to read the description.  `device` is a number of `devices()`.  With
        `deferred` the graphs are initialized by `Context.finalize`.  With `profile` executions are measured.
        """
        chosen = _chosen(options, deferred=bool(deferred))
        self.check_open()
        with ExitStack() as stack:
            if isinstance(binary, Closing):
                from udogen.runtime.contexts.binaries import StoredContext  # 15 ms that restoring a file does not need

                assert isinstance(binary, StoredContext)
                name, info, binary = name or str(binary.path), info or binary.info, binary.data
            if isinstance(binary, (str, os.PathLike)):
                place = Path(binary)
                name, binary = name or str(place), stack.enter_context(mapped_file(place))
                if check_manifest:
                    manifest.check(place).refuse()
                    if text := manifest.unverified([place]):
                        warnings.warn(text, stacklevel=2)
            name = name or "(bytes)"
            content: memoryview = flat_view(binary)
            info = self._info_of(content, name, info)
            with self._lock, ExitStack() as failing:
                self.check_open()
                measures = failing.enter_context(ProfileHandle(self._backend, detailed=True)) if profile else None
                with self.turn or nullcontext(), self._importing_arrays():
                    handle = self._restored(content, device, chosen, name)
                failing.pop_all()
                context = self._opened(Context(self, handle, info, name=name, options=chosen, profile=measures))
            if chosen.deferred:  # the runtime reads the binary again in `finalize`
                context.keep(stack.pop_all().close)
            return context

    def _info_of(self, content: memoryview, name: str, info: BinaryInfo | None) -> BinaryInfo:
        """The description of a binary, read if none is given; raises if this runtime cannot restore it."""
        head = heads.check(content, name)
        if head.emulator != self.emulator:
            maker, kind = ("udogen's emulator", "emulator") if head.emulator else ("Qualcomm's runtime", "real")
            raise RunFailed(f"{name} was made by {maker}; {self.name} cannot restore it", hint=f"use --runtime {kind}")
        self._check_backend(head.backend_id, name)
        if info is None:
            check_loadable(self.system, "system library")
            info = system.binary_info(self.system, content, name=name)
        self._check_backend(info.backend_id, name)
        return info

    def _restored(self, binary: memoryview, device: int | None, options: ContextOptions, name: str) -> ContextHandle:
        if not self._behaviour.drops_unknown_ops or self.emulator:
            return self._backend.restore(binary, self.device(device), options)
        began = time.monotonic()
        with _RESTORES, self._log.everything() as lines:
            handle = self._backend.restore(binary, self.device(device), options)
        missing = error_tables.left_out(text for _, text in lines)
        if missing is None:
            return handle
        handle.close()
        op, package = missing
        what = "that package is not registered"
        hint = "register it first: `udogen run context --op-package LIB`, packages of a model, or Runtime.register"
        if package in [registered.info()[0] for registered in self._packages]:
            what = "its package does not take it"
            hint = "use the package, and its version, that the binary was made with"
        raise RunFailed(
            f"{name} cannot be restored: it needs the op `{op}` of the op package `{package}`; {what}",
            hint=hint,
            details=[text for _, text in self.interface.lines(began)],
        )

    def _log_line(self, level: int, text: str) -> None:
        if level <= WARN and error_tables.without_noise([text]):
            self.interface.record_line(level, text)
        if level <= self._log_level:
            self._sink(level, text)

    def _check_backend(self, number: int, name: str) -> None:
        made_for = backends.by_number(number)
        if made_for is not None and made_for.id != self.backend:
            raise RunFailed(
                f"{name} was made for the backend {made_for.id}, not {self.backend}",
                hint=f"use --backend {made_for.id}",
            )

    def new_context(self, name: str = "new", *, options: ContextOptions | None = None) -> Context:
        """An empty context to build graphs in: `Context.new_graph`, then `Context.finalize_graph`."""
        chosen = options or ContextOptions()
        with self._lock:
            self.check_open()
            handle = self._backend.context(self.device(), chosen)
            here = self.interface
            info = BinaryInfo(here.backend_id, self.build_id, here.api_version, here.backend_version, soc="", graphs=())
            return self._opened(Context(self, handle, info, name=name, options=chosen, restored=False))

    @contextmanager
    def _importing_arrays(self) -> Iterator[None]:
        """Import numpy in a thread, while a library call runs without the interpreter's lock."""
        module = "udogen.runtime.contexts.arrays"
        if module in sys.modules or not self.uses_arrays:
            yield
            return

        def run() -> None:
            time.sleep(0.002)  # until the library is called: an import keeps the lock for 5 ms
            import_module(module)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def _opened(self, context: Context) -> Context:
        self._contexts[context.ending] = weakref.ref(context)
        return context

    def device(self, number: int | None = None) -> DeviceHandle | None:
        """The device of contexts with this number, made with the first of them; None: the backend's default."""
        if number is None and not self._soc:
            return None
        if number not in self._devices:
            handle = DeviceHandle(self.interface, self._log, soc=self._soc, number=number)
            self._devices[number] = self._stack.enter_context(handle)
        return self._devices[number]

    # --- closing ----------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Do not free the backend (see `Context.abandon`)."""
        self._backend.raw = None

    def forget(self, context: Context) -> None:
        """Remove a context that was closed."""
        self._contexts.pop(context.ending, None)

    def check_open(self) -> None:
        """Raise after it was closed, and in another process."""
        self.check_process("the runtime")
        if self.closed:
            raise RunFailed("the runtime is closed", hint="use it inside its `with` block")

    def check_process(self, what: str) -> None:
        """Raise in a process that was forked from the one that opened the runtime."""
        if self.process != os.getpid():
            raise RunFailed(
                f"{what} cannot be used in process {os.getpid()}: the runtime was opened in process {self.process}",
                hint="open a runtime in the process that executes: none can be used after a fork",
            )

    def close(self) -> None:
        """Close every context, last to first, then the backend."""
        with self._lock:
            self.closed = True  # nothing can be added from here on
            open_runtimes.pop(self, None)
            is_last = not any(other.path == self.path for other in open_runtimes)
        steps = [context.close for context in reversed(self.contexts)]
        steps += [unused.run for unused in reversed(list(self._contexts))]  # contexts that are not in use
        run_all([*steps, self._stack.close, self._contexts.clear])
        if is_last:
            forget_builds(self.path)

    def __del__(self) -> None:
        if not self.closed and self.process == os.getpid():
            self.close()  # its contexts are unused too, as each refers to it

    def disown(self) -> None:
        """Disable it in a forked process: everything belongs to the parent."""
        self._lock = threading.RLock()
        for context in self.contexts:
            context.disown()
        if not self._forks:
            lost_libraries[self.path] = self.process


def _to_logging(level: int, line: str) -> None:
    import logging  # 5 ms; a worker sends its lines to its parent and does not need it

    logger = logging.getLogger("udogen.runtime")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # silent unless the program configures logging
    known = {ERROR: logging.ERROR, WARN: logging.WARNING, INFO: logging.INFO}
    logger.log(known.get(level, logging.DEBUG), "%s", line)
