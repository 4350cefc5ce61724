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
from typing import NoReturn

from udogen.errors import RunFailed, UdogenError, UsageError, read_plain, reading
from udogen.resources import content_key
from udogen.supervisor import ENDS, continue_apart, end_all


class UserExit(Exception):
    """Code of the user raised an exception that would end this program, such as `SystemExit: 0`."""


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C, which is not an exception of the user's code."""


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Interrupted


@contextmanager
def user_code(file: Path | str) -> Iterator[None]:
    """Run code of the user, which cannot end this program: an exit becomes a `UserExit`; Ctrl-C remains an interrupt.

    `with user_code("reference.py"): function()`
    """
    _begin_apart()
    process, is_main = os.getpid(), threading.current_thread() is threading.main_thread()
    _watch_exit()
    outer = _running.name
    _running.name = str(file)
    before = signal.getsignal(signal.SIGINT) if is_main else None
    is_foreign = callable(before) and before not in (signal.default_int_handler, _interrupt)
    end = os._exit

    def leave(status: int) -> NoReturn:
        if os.getpid() != process:
            end(status)
        raise SystemExit(status)

    os._exit = leave
    _inside.append(process)
    try:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        yield
    except (Exception, _Interrupted):
        raise
    except BaseException as fault:
        if os.getpid() != process:  # a fork of the user's code ends here
            end(fault.code if isinstance(fault, SystemExit) and isinstance(fault.code, int) else 1)
        if is_foreign and isinstance(fault, KeyboardInterrupt):
            raise  # it may come from a handler of the program that uses udogen
        raise UserExit(words_of(fault)).with_traceback(fault.__traceback__) from fault
    finally:
        _running.name = outer
        os._exit = end
        _inside.pop()
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)


class _Running:
    """The file of the user's code that is running, in memory that the parent of this process reads."""

    def __init__(self) -> None:
        self._memory = mmap(-1, 4096)

    @property
    def name(self) -> str:
        """Empty if it is udogen's own code."""
        return self._memory[:].rstrip(b"\0").decode("utf-8", "ignore")

    @name.setter
    def name(self, name: str) -> None:
        size = len(self._memory)
        self._memory[:] = name.encode("utf-8", "replace")[:size].ljust(size, b"\0")


_running = _Running()


@cache
def _begin_apart() -> None:
    """Continue the command in a child process; this one reports an end inside the user's code that nothing can catch.

    Such ends are `_exit` of the C library, `abort` and SIGKILL.
    """
    mains = [sys.modules.get(name) for name in ("__main__", "udogen.__main__")]
    if any(getattr(main, "commands", ()) for main in mains) and threading.active_count() == 1:
        sys.stdout.flush()
        sys.stderr.flush()
        continue_apart(_report_end)


def _report_end(child: int, how: int) -> None:
    file, code = _running.name, os.waitstatus_to_exitcode(how)
    if file and -code not in ENDS:
        end_all(child, how)
        fault = RunFailed(f"{file}: it ended udogen with {end_of(code)}", hint="raise an exception instead")
        on_exit[-1](file, fault)
        sys.stdout.flush()
        sys.stderr.flush()
        _end(fault.exit_code)


def end_of(code: int) -> str:
    """How a process with this return code ended: `exit code 0`, `SIGKILL`."""
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


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
                _running.name = ""  # it is reported
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
        raise UsageError(
            f"{file} cannot be loaded: {words_of(fault)}",
            hint=last_line(fault) or "fix the file",
        ) from fault
    finally:
        if str(file.parent) in sys.path:
            sys.path.remove(str(file.parent))
    return module


_LIBRARIES = tuple(sysconfig.get_path(each) for each in ("stdlib", "purelib", "platlib"))
_OWN = str(Path(__file__).parent)


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
    frames = [each for each in stack if not each.filename.startswith((_OWN, "<"))]
    users = [each for each in frames if not each.filename.startswith(_LIBRARIES)]
    frames = frames if libraries else []
    return next((f"{each.filename}:{each.lineno}: {each.line}" for each in reversed(users or frames)), "")
