"""The C++ style of HTP: whatever compiles, it needs the headers of the QNN SDK, and on a PC the C++ library of it."""

from __future__ import annotations

import shlex
from pathlib import Path

from udogen import process
from udogen.backends.backend import Target
from udogen.build import tools
from udogen.build.toolchains.choice import Choice, without_compiler
from udogen.build.tools import Environment
from udogen.errors import ToolMissing

_HEADER = "include/QNN/HTP/core/op_register_ext.h"
_LIBCXX = "-stdlib=libc++"


def choose(target: Target, env: Environment, found: Choice) -> Choice:
    """What builds a package of the C++ style, where `found` would build any other."""
    root = _sdk(target, env)
    variables = dict(found.variables)
    title = found.title
    if target.compiler == "x86":
        title, variables["X86_CXX"] = _with_libcxx(target, env)
    variables.update(QNN_SDK_ROOT=str(root), HEXAGON_TOOLS_ROOT=env.hexagon_tools_root)
    return found._replace(title=f"{title.partition(',')[0]}, headers of {root}", variables=tuple(variables.items()))


def _sdk(target: Target, env: Environment) -> Path:
    root = tools.qnn_sdk(env)
    hint = "set QNN_SDK_ROOT to the SDK of the release that the package shall run on; --htp-api qhpi needs none"
    if root is None:
        raise ToolMissing(
            f"{target.id} of a package generated with --htp-api core needs the headers of the QNN SDK, "
            "and QNN_SDK_ROOT is not set",
            hint=hint,
        )
    if not (root / _HEADER).is_file():
        raise ToolMissing(f"QNN_SDK_ROOT is {root}, but there is no {_HEADER} in it", hint=hint)
    return root


def _with_libcxx(target: Target, env: Environment) -> tuple[str, str]:
    """A compiler with libc++, for the SDK's C++ classes are those of libc++: title, command."""
    if unfit := without_compiler("sdk", "X86_CXX", env.x86_cxx):
        raise ToolMissing(unfit.why, hint=unfit.how)
    if env.x86_cxx:
        command = shlex.split(env.x86_cxx)
        if _has_libcxx(command):
            return env.x86_cxx, env.x86_cxx
        if _has_libcxx([*command, _LIBCXX]):
            return env.x86_cxx, f"{env.x86_cxx} {_LIBCXX}"
        raise ToolMissing(
            f"{target.id} needs a C++ compiler with libc++, the C++ library of the SDK, and X86_CXX "
            f"(`{env.x86_cxx}`) has none",
            hint="take clang++ with libc++-dev, or unset X86_CXX: zig has libc++ (pip install ziglang)",
        )
    clang = tools.program("clang++")
    if clang and _has_libcxx([clang, _LIBCXX]):
        return f"{clang} {_LIBCXX}", f"clang++ {_LIBCXX}"
    if tools.zig():
        return "zig", shlex.join([*tools.zig(), "c++"])
    raise ToolMissing(
        f"{target.id} needs a C++ compiler with libc++, the C++ library of the SDK",
        hint="`pip install ziglang`, or install clang with libc++-dev and libc++abi-dev",
    )


def _has_libcxx(command: list[str]) -> bool:
    asked = process.run([*command, "-x", "c++", "-dM", "-E", "-include", "cstddef", "/dev/null"], timeout=60)
    return asked.returncode == 0 and "_LIBCPP_VERSION" in asked.stdout
