"""Paths of the data files: next to the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from udogen.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent


@cache
def _data_root() -> Path:
    inside = _PACKAGE / "data"  # where the wheel puts these folders (see pyproject.toml)
    return inside if (inside / "templates").is_dir() else _PACKAGE.parent


def templates() -> Path:
    """The folder of Mako templates and of the files that are copied unchanged."""
    return _data_root() / "templates"


def schemas() -> Path:
    """The folder with OpDef.xsd and udo_config.schema.json."""
    return _data_root() / "schemas"


def examples() -> list[str]:
    """The names of the examples."""
    return sorted(path.parent.name for path in (_data_root() / "examples").glob("*/README.md"))


def example(name: str) -> dict[Path, bytes]:
    """The files of an example, by path; what was built or imported in a checkout is left out."""
    root = _data_root() / "examples" / name
    files = [path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file()]
    return {path: (root / path).read_bytes() for path in files if not {"__pycache__", "out"} & {*path.parts}}


def read_toml(content: bytes) -> dict[str, Any]:
    """The content of a TOML file as plain data; ValueError or RecursionError if it is not TOML; see `syntax_fault`."""
    # `tomllib` is part of Python since 3.11; the package tomli is the same for earlier versions
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    document: dict[str, Any] = toml.loads(content.decode("utf-8"))
    return document


def syntax_fault(fault: Exception) -> str:
    """Why JSON or TOML cannot be read, from the exception of Python's parser."""
    if isinstance(fault, RecursionError):
        return "it is nested too deep"
    return "a number in it has too many digits" if "set_int_max_str_digits" in str(fault) else str(fault)


def tables() -> Path:
    """The folder of facts: TOML files, one row for each fact."""
    return _PACKAGE / "data"


@cache
def facts(table: str) -> dict[str, Any]:
    """The content of one of the tables."""
    return read_toml((tables() / f"{table}.toml").read_bytes())


def toml_text(text: str) -> str:
    """A string literal of TOML: as in JSON, with DEL escaped too."""
    import json  # not at the top: it takes 3 ms, and opening a context does not need it

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def qnn_headers() -> Path:
    """The folder of udogen's QNN headers, for a compiler: `f"-I{qnn_headers()}"`."""
    return _PACKAGE / "qnn" / "include"


def emulator(name: str) -> Path:
    """The folder with the C sources of a backend of the emulator."""
    return _PACKAGE / "emulator" / name


def cache_path() -> Path:
    """The folder for files that can be recreated: XDG_CACHE_HOME/udogen; a relative XDG_CACHE_HOME is ignored."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "udogen"
    if home():
        return Path(home(), ".cache", "udogen")
    import tempfile  # rarely used

    return Path(tempfile.gettempdir()) / f"udogen-{os.geteuid()}"


def choose_cache() -> Path | None:
    """For a user without a folder: the cache, also of the programs that this process starts."""
    if os.path.isabs(os.environ.get("XDG_CACHE_HOME", "")) or home():
        return None
    cache = cache_path()
    with contextlib.suppress(OSError):
        make_private(cache)
    os.environ["XDG_CACHE_HOME"] = str(cache)
    return cache


def home() -> str:
    """The user's folder: HOME if it is set, else that of the user's entry in passwd; empty if there is none."""
    folder = os.environ.get("HOME", os.path.expanduser("~"))
    return folder if os.path.isabs(folder) else ""


def cache_dir(name: str) -> Path:
    """A folder in the cache; its content is executed, so no other user may write to it (`UsageError`).

    If it cannot be created, only writing to it fails.
    """
    root = cache_path()
    with contextlib.suppress(OSError):
        make_private(root)
    return root / name


def make_private(root: Path) -> None:
    """Create a folder that no other user can read; refuse an existing one that could hold files of other users."""
    os.makedirs(root.parent, mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    found = root.stat()
    why = ""
    if found.st_uid != os.geteuid():
        why = f"belongs to another user (number {found.st_uid})"
    elif found.st_mode & 0o022:
        why = f"can be written by others (mode {stat.S_IMODE(found.st_mode):o})"
    elif found.st_mode & 0o077:
        root.chmod(0o700)
    if why:
        raise UsageError(
            f"the cache {root} {why}, and its files are executed",
            hint="remove that folder, or set XDG_CACHE_HOME to your own folder",
        )


def pip_install(extra: str) -> str:
    """The command that installs what an extra of udogen needs, for the way in which udogen is installed."""
    import json  # this function is for messages
    from importlib.metadata import PackageNotFoundError, distribution
    from shlex import quote

    try:
        origin = json.loads(distribution("udogen").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # the checkout is on PYTHONPATH
        origin = {"url": _PACKAGE.parent.as_uri(), "dir_info": {}}
    url = origin.get("url", "")
    if not url:
        return f"pip install 'udogen[{extra}]'"
    if not url.startswith("file:"):
        return f"pip install {quote(f'udogen[{extra}] @ {url}')}"
    flag = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {flag}{quote(f'{unquote(urlsplit(url).path)}[{extra}]')}"


def content_key(*contents: bytes) -> str:
    """A short key that changes whenever one of the contents does."""
    import hashlib  # not at the top: it loads OpenSSL, which most verbs do not need

    digest = hashlib.sha256()
    for content in contents:
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()[:16]
