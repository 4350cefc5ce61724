"""Python files of the user, loaded as modules; their exceptions become errors with file and line."""

from __future__ import annotations

import sys
import traceback
from functools import cache
from pathlib import Path
from types import ModuleType

from udogen.errors import UdogenError, UsageError, read_plain, reading
from udogen.resources import content_key


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
        exec(compile(read_plain(file), str(file), "exec"), vars(module))
    except SyntaxError as fault:
        raise UsageError(f"{file}:{fault.lineno or 0}: {fault.msg}", hint="fix the file") from fault
    except UdogenError:
        raise
    except Exception as fault:
        raise UsageError(
            f"{file} cannot be loaded: {type(fault).__name__}: {fault}",
            hint=last_line(fault, but=__file__) or "fix the file",
        ) from fault
    finally:
        sys.path.remove(str(file.parent))
    return module


def last_line(fault: BaseException, *, but: str) -> str:
    """The innermost line of a traceback that is not in the file `but`: `file:line: code`."""
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if frame.filename != but]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
