"""A backend in this process, in which context binaries are restored and executed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed
from udogen.qnn import heads, system
from udogen.qnn.backend import Backend, Device, Log
from udogen.qnn.context import ContextOptions
from udogen.qnn.devices import DeviceInfo, devices
from udogen.qnn.handle import Closing
from udogen.qnn.interface import WARN, Interface, LogSink, opened
from udogen.qnn.profile import Profile
from udogen.runtime import known
from udogen.runtime.contexts.context import Context
from udogen.runtime.contexts.mapped import mapped
from udogen.runtime.library import BACKENDS, check_loadable, check_provider, find_runtime, interface_providers
from udogen.runtime.worker.op_package import LoadedPackage, listen

if TYPE_CHECKING:
    from udogen.qnn import context as qnn
    from udogen.qnn.system import BinaryInfo

_ALONE = threading.Lock()
_RESTORES = threading.Lock()  # one at a time where the log says what was left out
_SLOTS = "udogen.runtime.contexts.slots"  # brings numpy, the slowest of all that graphs need


class Runtime(Closing):
    """One backend, real or emulated, with op packages and contexts.

    What runs here runs in your process: an op that crashes takes it along (`udogen run context` has a child for that).
    All of it may be used from several threads.
    """

    def __init__(
        self,
        backend: str = "htp",
        *,
        kind: str = "auto",
        library: Path | None = None,
        system: Path | None = None,
        soc: int = 0,
        log: LogSink | None = None,
        log_level: int = WARN,
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        found = find_runtime(backend, explicit=library, kind=kind, on_step=on_step)
        check_loadable(found.path, "runtime library")
        self.backend, self.path, self.emulator = backend, found.path, found.emulator
        self.turn = _ALONE if found.serial else None  # of all graphs, where they must not run in parallel
        self.system = system or found.system
        check_loadable(self.system, "system library")
        self._interface = Interface.load(found.path)
        self.name, self.build_id = self._interface.name, self._interface.build_id()
        # libQnnCpu says no, takes an execution all the same, and never tells its end.
        self.asynchronous = self._interface.supports("QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION")
        self._soc, self._devices = soc, dict[int | None, Device]()
        self._contexts: list[Context] = []
        self._packages: list[tuple[Path, str]] = []  # library, provider
        self._own_logs: list[LoadedPackage] = []  # of those whose log the backend does not ask for
        self._lock = threading.RLock()
        with ExitStack() as stack:
            self._sink, self._log_level = log, log_level
            self._log = stack.enter_context(Log(self._interface, self._hear, max(log_level, WARN)))
            self._backend = stack.enter_context(Backend(self._interface, self._log))
            self._stack = stack.pop_all()

    # --- what there is ----------------------------------------------------------------------------------------------

    @property
    def interface(self) -> Interface:
        """The backend's functions, for what this room does not wrap."""
        return self._interface

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The contexts that are open."""
        return tuple(self._contexts)

    def devices(self) -> tuple[DeviceInfo, ...]:
        """The processors of the platform, as far as the backend tells (libQnnCpu does not)."""
        return devices(self._interface)

    # --- what it is told --------------------------------------------------------------------------------------------

    def register(self, library: Path, provider: str = "", target: str | None = None) -> None:
        """Register an op package; without `provider`, the only one that the library exports.

        With the target HTP, the name of a library for Hexagon: it is looked for there, by ADSP_LIBRARY_PATH, not here.
        """
        if target == "HTP":
            with self._lock:
                self._check_open()
                self._backend.register(Path(library.name), provider, target)
            return
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
            self._check_open()
            if not BACKENDS[self.backend].forwards_log:
                package, unlisten = listen(
                    library.resolve(), provider, self._hear_package, level=max(self._log_level, WARN)
                )
                self._stack.callback(unlisten)
                self._own_logs.append(package)
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
        binary: Any,
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
        wanted = options or ContextOptions(deferred=deferred)
        with ExitStack() as stack:
            if isinstance(binary, (str, Path)):
                name = name or str(binary)
                binary = stack.enter_context(mapped(Path(binary)))
            name = name or "(bytes)"
            self._check_maker(heads.check(binary, name), name)
            if info is None:
                info = system.binary_info(self.system, binary, name=name)
            self._check_backend(info.backend_id, name)
            with self._lock:
                self._check_open()
                measures = Profile(self._backend) if profile else None
                try:
                    with self.turn or nullcontext(), _importing(_SLOTS):
                        low = self._restored(binary, device, wanted, name)
                except BaseException:
                    if measures:
                        measures.close()
                    raise
                made = Context(self, low, info, name=name, options=wanted)
                made.profile = measures
                self._contexts.append(made)
            if wanted.deferred:  # the runtime reads the binary again when it finalizes
                made.keep(stack.pop_all().close)
            return made

    def _restored(self, binary: Any, device: int | None, options: ContextOptions, name: str) -> qnn.Context:
        if self.backend != "cpu" or self.emulator:
            return self._backend.restore(binary, self._device(device), options)
        began = time.monotonic()
        with _RESTORES, self._log.everything() as lines:
            low = self._backend.restore(binary, self._device(device), options)
        missing = known.left_out(text for _, text in lines)
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
        if known.telling([text]):
            self._interface.heard(level, text)
        if self._sink and level <= self._log_level:
            self._sink(level, text)

    def _hear_package(self, level: int, text: str) -> None:
        self._hear(level, text)
        if not self._sink:
            print(text, file=sys.stderr)  # as the package does with no log at all

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

    def composing(self, device: int | None = None) -> Any:
        """A new, empty context of the API (`udogen.qnn.context.Context`), to make graphs in."""
        with self._lock:
            self._check_open()
            return self._backend.context(self._device(device))

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
        if context in self._contexts:
            self._contexts.remove(context)

    def _check_open(self) -> None:
        if self._backend.raw is None:
            raise RunFailed("the runtime is closed", hint="use it inside its `with` block")

    def close(self) -> None:
        """Close every context, last to first, then the backend."""
        errors: list[Exception] = []
        for context in reversed(self.contexts):
            try:
                context.close()
            except Exception as problem:
                errors.append(problem)
        with self._lock:
            self._stack.close()
        if errors:
            raise errors[0]


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
