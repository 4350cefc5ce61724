"""Programs and SDK trees that stand in for the vendor's, which cannot be had here: they record how they are called."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

from udogen import resources


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def compiler(path: Path, log: Path) -> Path:
    """A compiler that adds its command line to a file, one argument a line, and writes a file where -o says."""
    return script(
        path,
        f'{{ echo "== $(basename "$0")"; for each in "$@"; do echo "$each"; done; }} >> \'{log}\'\n'
        'while [ $# -gt 0 ]; do if [ "$1" = -o ]; then echo stand-in > "$2"; fi; shift; done\n',
    )


def qnn_sdk(root: Path) -> Path:
    """A tree that looks like the QNN SDK, made of our own headers."""
    shutil.copytree(resources.qnn_headers(), root / "include" / "QNN")
    return root


def hexagon_sdk(root: Path, *versions: str, log: Path) -> Path:
    """A tree that looks like a Hexagon SDK with these versions of the tools."""
    for version in versions:
        compiler(root / "tools/HEXAGON_Tools" / version / "Tools/bin/hexagon-clang++", log)
    return root


def ndk(root: Path, log: Path) -> Path:
    """A tree that looks like the Android NDK, as far as HTP packages need it."""
    compiler(root / "toolchains/llvm/prebuilt/linux-x86_64/bin/clang++", log)
    return root


def ndk_build(root: Path, log: Path) -> Path:
    """A tree that looks like the Android NDK, as far as CPU and GPU packages need it: an ndk-build that writes down its
    arguments and the variables that Android.mk reads, and a library where APP_ABI and NDK_LIBS_OUT say."""
    variables = "PACKAGE_NAME SOURCES KERNEL_TEXTS CL_LIBRARY_PATH QNN_SDK_ROOT EXTRA_CXXFLAGS EXTRA_LDFLAGS"
    script(
        root / "ndk-build",
        f'{{ echo "== $(basename "$0")"; for each in "$@"; do echo "$each"; done\n'
        f'for each in {variables}; do eval "echo \\"\\$each is \\$$each\\""; done; }} >> \'{log}\'\n'
        'mkdir -p libs/arm64-v8a && echo stand-in > "libs/arm64-v8a/lib$PACKAGE_NAME.so"\n',
    )
    return root
