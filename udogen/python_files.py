"""Python files of the user, loaded as modules; their exceptions and exits become errors with file and line."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from mmap import mmap
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from udogen.errors import RunFailed, ToolMissing, UdogenError, UsageError, read_plain, reading
from udogen.resources import content_key, pip_install
from udogen.supervisor import ENDS, continue_apart, end_all


class UserExit(Exception):
    """Code of the user raised an exception that would end this program, such as `SystemExit: 0`."""


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C, which is not an exception of the user's code."""


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Interrupted


def _code_of(fault: BaseException) -> int:
    return fault.code if isinstance(fault, SystemExit) and isinstance(fault.code, int) else 1


@contextmanager
def user_code(file: Path | str) -> Iterator[None]:
    """Run code of the user, which cannot end this program: an exit becomes a `UserExit`; Ctrl-C remains an interrupt.

    `with user_code("reference.py"): function()`
    """
    _begin_apart()
    process, is_main = os.getpid(), threading.current_thread() is threading.main_thread()
    _watch_exit()
    outer = _running.place
    _running.place = str(file)
    before = signal.getsignal(signal.SIGINT) if is_main else None
    is_foreign = callable(before) and before not in (signal.default_int_handler, _interrupt)
    end = os._exit

    def leave(status: int) -> NoReturn:
        if os.getpid() != process:
            end(status)
        raise SystemExit(status)

    os._exit = leave
    _inside.append(process)
    follows = _running.is_read and sys.gettrace() is None
    try:
        if follows:
            sys.settrace(_running.follow)
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        yield
    except (Exception, _Interrupted):
        raise
    except BaseException as fault:
        if os.getpid() != process:  # a fork of the user's code ends here
            end(_code_of(fault))
        if is_foreign and isinstance(fault, KeyboardInterrupt):
            raise  # it may come from a handler of the program that uses udogen
        raise UserExit(words_of(fault)).with_traceback(fault.__traceback__) from fault
    finally:
        if follows:
            sys.settrace(None)
        _running.place = outer
        os._exit = end
        _inside.pop()
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)


_LONGEST_PLACE = 4096


def _place_in(data: bytes) -> str:
    return data.rstrip(b"\0").decode("utf-8", "ignore")


class _Running:
    """The place in the user's code that is running, in memory that the parent of this process reads."""

    def __init__(self) -> None:
        self._memory = mmap(-1, _LONGEST_PLACE)
        self._left = 100_000  # events that are followed, at most 0.1 s: a loop in Python would be ten times slower
        self._file = ""  # of the last event
        self.is_read = False  # another process reads it

    def write_to(self, file: Path) -> None:
        """Use a file, which another process reads after the end of this one."""
        file.write_bytes(bytes(_LONGEST_PLACE))
        with file.open("r+b") as opened:
            self._memory = mmap(opened.fileno(), _LONGEST_PLACE)
        self.is_read = True

    @property
    def place(self) -> str:
        """`file` or `file:line`; empty if it is udogen's own code."""
        return _place_in(self._memory[:])

    @place.setter
    def place(self, place: str) -> None:
        self._memory[:] = place.encode("utf-8", "replace")[:_LONGEST_PLACE].ljust(_LONGEST_PLACE, b"\0")

    def follow(self, frame: FrameType | None, event: str, _argument: object) -> Callable[..., Any] | None:
        """Trace the user's lines."""
        self._left -= 1
        if self._left < 0:
            sys.settrace(None)
            self.place = self._file
            return None
        if event == "return" and frame:
            frame = frame.f_back
        if frame is None or frame.f_code.co_filename.startswith(_NOT_USERS):
            return None
        self._file = frame.f_code.co_filename
        self.place = f"{self._file}:{frame.f_lineno}"
        return self.follow


_running = _Running()


def expect_end(where: str) -> None:
    """Set the place that an end of this process outside `user_code` is reported for; empty: it may end."""
    _running.place = where


def record_places(file: Path) -> None:
    """Write the place in the user's code that is running, whenever it changes, to a file for `read_place`."""
    _running.write_to(file)


def read_place(file: Path) -> str:
    """The place in the user's code at which a process ended that called `record_places`."""
    return _place_in(file.read_bytes())


@cache
def _begin_apart() -> None:
    """Continue the command in a child process; this one reports an end inside the user's code that nothing can catch.

    Such ends are `_exit` of the C library, `abort` and SIGKILL.
    """
    mains = [sys.modules.get(name) for name in ("__main__", "udogen.__main__")]
    is_command = on_end or any(getattr(main, "commands", ()) for main in mains)
    if is_command and threading.active_count() == 1:
        sys.stdout.flush()
        sys.stderr.flush()
        continue_apart(_report_end)
        _running.is_read = True


def _report_end(child: int, how: int) -> None:
    place, code = _running.place, os.waitstatus_to_exitcode(how)
    if place and -code not in ENDS:
        fault = RunFailed(f"{place}: it ended udogen with {end_of(code)}", hint="raise an exception instead")
        if on_end:
            on_end[-1](fault)
        end_all(child, how)
        on_exit[-1](place, fault)
        sys.stdout.flush()
        sys.stderr.flush()
        _end(fault.exit_code)


def end_of(code: int) -> str:
    """How a process with this return code ended: `exit code 0`, `SIGKILL`."""
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


# The last one raises an error for an end that nothing can catch, in a program that has used udogen and continues.
on_end: list[Callable[[RunFailed], NoReturn]] = []
_inside: list[int] = []  # the process of each `user_code` that is running
_end = os._exit


def print_exit(place: str, fault: RunFailed) -> bool:
    """Print why the process is about to end."""
    sys.stderr.write(f"error: {fault.message}\n  = {fault.hint}\n")
    return True


# The last one reports that code of the user calls `exit` at a place (empty if unknown); False: it is not the user's.
on_exit: list[Callable[[str, RunFailed], bool]] = [print_exit]


@cache
def _watch_exit() -> None:
    """End the process with a bad exit code if code of the user calls `exit` of the C library, in C or by ctypes."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "__cxa_atexit"):
        return

    def ended(_argument: object) -> None:
        if os.getpid() not in _inside:
            return  # the usual end, or that of a fork
        place, _, text = _last_of(traceback.extract_stack(), libraries=False).partition(": ")
        message = f"{place or 'code of the user'}: it called `exit` of the C library, which ends udogen"
        fault = RunFailed(message, hint=f"raise an exception instead of `{text}`" if text else "raise an exception")
        is_users = True
        try:
            is_users = on_exit[-1](place, fault)
        finally:
            if is_users:
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                _running.place = ""  # it is reported
                _end(fault.exit_code)

    called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ended)
    libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
    libc.__cxa_finalize.argtypes = [ctypes.c_void_p]
    own = ctypes.create_string_buffer(1)
    handle = ctypes.addressof(own)  # names the function below, to remove it
    libc.__cxa_atexit(ctypes.cast(called, ctypes.c_void_p), None, handle)

    def forget(_kept: object = (called, own)) -> None:
        libc.__cxa_finalize(handle)  # the interpreter ends before the C library does

    atexit.register(forget)


def words_of(fault: BaseException) -> str:
    """The type and the text of an exception of the user's code."""
    return str(fault) if isinstance(fault, UserExit) else f"{type(fault).__name__}: {fault}".removesuffix(": ")


def load_module(file: Path) -> ModuleType:
    """Run a Python file as a module that can import from its own folder. A file that has changed is loaded again."""
    with reading(file, hint="write it, or name another file"):
        changed = file.stat().st_mtime_ns
    return _load(file.resolve(), changed)


@cache
def _load(file: Path, _changed: int) -> ModuleType:
    module = ModuleType(f"udogen_of_{file.stem}_{content_key(bytes(file))}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses look up their module there
    sys.path.insert(0, str(file.parent))
    try:
        code = compile(read_plain(file), str(file), "exec")
        with user_code(file):
            exec(code, vars(module))
    except SyntaxError as fault:
        raise UsageError(f"{fault.filename or file}:{fault.lineno or 0}: {fault.msg}", hint="fix the file") from fault
    except UdogenError:
        raise
    except Exception as fault:
        if isinstance(fault, ModuleNotFoundError) and (extra := _EXTRAS.get(fault.name or "")):
            hint = pip_install(extra)
            raise ToolMissing(
                f"{file} needs the Python package {fault.name}, which is not installed", hint=hint
            ) from fault
        raise UsageError(
            f"{file} cannot be loaded: {words_of(fault)}",
            hint=last_line(fault) or "fix the file",
        ) from fault
    finally:
        if str(file.parent) in sys.path:
            sys.path.remove(str(file.parent))
    return module


_EXTRAS = {"halide": "kernels", "onnx": "onnx"}  # of udogen, by the package that kernels and references import
_LIBRARIES = tuple(sysconfig.get_path(path) for path in ("stdlib", "purelib", "platlib"))
_OWN = str(Path(__file__).parent)
_NOT_USERS = (_OWN, "<", *_LIBRARIES)


def modules_below(folders: Iterable[Path]) -> set[Path]:
    """The Python files in these folders that are imported as modules, without packages that are installed there."""
    roots = tuple(f"{folder.resolve()}{os.sep}" for folder in folders)
    files = {getattr(module, "__dict__", {}).get("__file__") or "" for module in list(sys.modules.values())}
    paths = {Path(file).resolve() for file in files if file.endswith(".py")}
    installed = (*_LIBRARIES, _OWN)
    return {
        path
        for path in paths
        if str(path).startswith(roots) and not str(path).startswith(installed) and "site-packages" not in path.parts
    }


def last_line(fault: BaseException) -> str:
    """The innermost line of the user's code in a traceback, or of a library: `file:line: code`."""
    return _last_of(traceback.extract_tb(fault.__traceback__))


def _last_of(stack: traceback.StackSummary, *, libraries: bool = True) -> str:
    frames = [frame for frame in stack if not frame.filename.startswith((_OWN, "<"))]
    users = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    frames = frames if libraries else []
    return next((f"{frame.filename}:{frame.lineno}: {frame.line}" for frame in reversed(users or frames)), "")
