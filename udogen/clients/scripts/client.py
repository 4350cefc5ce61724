"""Our own client (client.c), compiled for the machine where it runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from udogen import resources
from udogen.backends.targets import ALL
from udogen.build import tools
from udogen.build.emulator import compile_or_fail, make_once
from udogen.build.toolchains import choose
from udogen.build.tools import Environment
from udogen.errors import ToolMissing

NAME = "udogen-client"
_SOURCE = Path(__file__).with_name("client.c")
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra")
_TARGETS = {"pc": ("cpu_x86", "X86_CXX"), "linux": ("cpu_aarch64", "AARCH64_CXX")}
_NDK_CLANG = "toolchains/llvm/prebuilt/linux-x86_64/bin/clang"


def build_client(
    system: str, env: Environment | None = None, *, on_step: Callable[[str], None] = lambda _line: None
) -> Path:
    """The program for a PC, Android or Linux on aarch64; from the cache where it is there."""
    command, headers = _compiler(system, env or tools.environment()), resources.qnn_headers()
    argv = [*command, *_FLAGS, f"-I{headers}", str(_SOURCE), "-o", NAME, "-ldl"]
    read = [_SOURCE, *sorted(headers.rglob("*.h"))]
    key = resources.content_key(*(each.read_bytes() for each in read), *(each.encode() for each in argv))
    room = resources.cache_dir("client") / f"{system}-{key}"

    def make(into: Path) -> None:
        on_step("our client is compiled")
        compile_or_fail(argv, into, "our client")

    make_once(room, make)
    return room / NAME


def _compiler(system: str, env: Environment) -> list[str]:
    if system == "android":
        clang = Path(env.android_ndk_root or "/", _NDK_CLANG)
        if not env.android_ndk_root or not clang.is_file():
            said = (
                f"is {env.android_ndk_root}, but there is no {_NDK_CLANG} in it" if env.android_ndk_root else "is unset"
            )
            raise ToolMissing(
                f"our client for Android needs its NDK: ANDROID_NDK_ROOT {said}",
                hint="set ANDROID_NDK_ROOT; --client qnn-net-run needs no compiler; --linux is for Linux behind adb",
            )
        return [str(clang), "--target=aarch64-none-linux-android21"]
    target, variable = _TARGETS[system]
    choice = choose(ALL[target], env, "open")
    # A compiler of C++ also compiles C, if it is told so.
    return [*shlex.split(dict(choice.variables)[variable]), "-x", "c"]
