"""Environment variables (no other module reads them), and programs of this machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from udogen import resources
from udogen.backends import architectures
from udogen.errors import ToolMissing, UsageError


@dataclass(frozen=True)
class Environment:
    """The variables of the vendor's documentation; empty if unset."""

    qnn_sdk_root: str = ""
    snpe_root: str = ""
    snpe_udo_root: str = ""
    hexagon_sdk_root: str = ""
    hexagon_sdk4_root: str = ""
    hexagon_tools_root: str = ""
    sdk_setup_env: str = ""
    android_ndk_root: str = ""
    cl_library_path: str = ""
    x86_cxx: str = ""
    aarch64_cxx: str = ""
    udogen_launcher: str = ""  # udogen's own: a program in front of each compiler
    # By version (v73): HEXAGON_SDK_ROOT_V73 and HEXAGON_TOOLS_VERSION_V73 of the vendor's HTP Makefiles.
    hexagon_sdk_roots: Mapping[str, str] = field(default_factory=dict)
    hexagon_tools_versions: Mapping[str, str] = field(default_factory=dict)


_BY_VERSION = {"hexagon_sdk_roots": "HEXAGON_SDK_ROOT_{}", "hexagon_tools_versions": "HEXAGON_TOOLS_VERSION_{}"}
VARIABLES = (
    *(name.upper() for name in Environment.__dataclass_fields__ if name not in _BY_VERSION),
    *(name.format(arch.variable) for name in _BY_VERSION.values() for arch in architectures.ALL.values()),
)


def environment(*, launcher: str | None = None) -> Environment:
    """The current variables; `launcher` replaces UDOGEN_LAUNCHER."""
    by_version = {
        field: {arch.name: _variable(name.format(arch.variable)) for arch in architectures.ALL.values()}
        for field, name in _BY_VERSION.items()
    }
    plain = {name: _variable(name.upper()) for name in Environment.__dataclass_fields__ if name not in _BY_VERSION}
    if launcher is not None:
        plain["udogen_launcher"] = launcher
    return Environment(**plain, **by_version)  # type: ignore[arg-type]


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()


def library_path() -> list[Path]:
    """The folders of LD_LIBRARY_PATH; an empty entry is the current folder."""
    text = os.environ.get("LD_LIBRARY_PATH", "")
    return [Path(entry or ".") for entry in text.replace(";", ":").split(":")] if text else []


def preloading(libraries: Sequence[Path]) -> dict[str, str]:
    """The variable that makes a child process load these libraries first."""
    given = os.environ.get("LD_PRELOAD", "")
    return {"LD_PRELOAD": ":".join([*map(str, libraries), *([given] if given else [])])} if libraries else {}


def custom_op_domains() -> str:
    """The custom ops that ONNX Runtime's QNN provider registers itself: `DOMAIN:OP,OP;DOMAIN:OP`."""
    return os.environ.get("ORT_QNN_CUSTOM_OP_DOMAINS", "")


def program(name: str) -> str:
    """The path of a program on PATH, or empty."""
    import shutil  # takes 5 ms, and restoring a context does not need it

    return shutil.which(name) or ""


def missing_program(command: str) -> str:
    """The first word of a command line if no such program exists, else empty."""
    try:
        first = next(iter(shlex.split(command)), "")
    except ValueError:  # an unclosed quote
        first = command
    return "" if not first or program(first) else first


# QEMU's newest Hexagon (Debian's 7.2); integer HVX of later versions runs on it.
QEMU_CPU = "v67"
# It prints this for instructions that it decodes wrongly or not at all; others that it cannot execute raise SIGILL.
UNKNOWN_INSTRUCTION = ": assertion failed: ("

_WORD = re.compile(r"[\w@%+=:,./~-]+\Z")


def launcher(env: Environment) -> tuple[str, ...]:
    """The words of the program in front of each compiler (ccache, sccache, distcc), if any."""
    words = tuple(env.udogen_launcher.split())
    for word in words:
        if not _WORD.match(word):
            raise UsageError(
                f"the launcher `{env.udogen_launcher}` contains `{word}`: only letters, digits and @%+=:,./~-_ "
                "are allowed",
                hint="give a program and its arguments, separated by spaces; no shell is involved",
            )
    if words and not program(words[0]):
        raise ToolMissing(
            f"the launcher `{words[0]}` (--launcher, UDOGEN_LAUNCHER) is not on PATH",
            hint=f"install it (ccache, sccache and distcc: apt-get install {Path(words[0]).name}), or leave it out",
        )
    return words


def need(name: str, *, why: str, how: str) -> str:
    """The path of a program; raises if it is missing."""
    path = program(name)
    if not path:
        raise ToolMissing(f"`{name}` is not on PATH; it is needed {why}", hint=how)
    return path


def zig() -> tuple[str, ...]:
    """The command of zig from PyPI (`ziglang`); empty if it is not installed."""
    if importlib.util.find_spec("ziglang") is None:
        return ()
    return (sys.executable, "-m", "ziglang")


def zig_file() -> Path:
    """A file of zig's own library, as installed from PyPI; a missing file if zig is not installed."""
    spec = importlib.util.find_spec("ziglang")
    return Path(spec.origin if spec and spec.origin else "/nonexistent").parent / "lib" / "std" / "std.zig"


def host_compiler(language: str, purpose: str) -> tuple[str, ...]:
    """A compiler for this machine and for `c++` or `cc`; raises with the purpose if none is installed."""
    names = ("clang++", "g++") if language == "c++" else ("cc", "gcc", "clang")
    if compiler := next((path for name in names if (path := program(name))), ""):
        return (compiler,)
    if not zig():
        raise ToolMissing(
            f"no {'C++' if language == 'c++' else 'C'} compiler found; {purpose}",
            hint=f"install {' or '.join(names[-2:])}, or `pip install ziglang`",
        )
    return (*zig(), language)


def zig_cache() -> Path:
    """The folder of zig's cache."""
    variables = (("ZIG_GLOBAL_CACHE_DIR", ""), ("XDG_CACHE_HOME", "zig"))
    found = (Path(value) / below for name, below in variables if (value := os.environ.get(name, "")))
    return next(found, Path(resources.home(), ".cache", "zig"))


def qnn_sdk(env: Environment) -> Path | None:
    """The QNN SDK in QNN_SDK_ROOT, if set; raises if the folder is not an SDK."""
    if not env.qnn_sdk_root:
        return None
    root = Path(env.qnn_sdk_root)
    if not (root / "include" / "QNN" / "QnnInterface.h").is_file():
        raise ToolMissing(
            f"QNN_SDK_ROOT is {root}, which has no include/QNN/QnnInterface.h",
            hint="set it to the unzipped Qualcomm AI Engine Direct SDK, or unset it to use udogen's own headers",
        )
    return root
