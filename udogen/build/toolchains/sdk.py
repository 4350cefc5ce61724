"""The vendor's way: headers of the QNN SDK, clang for x86, the Android NDK for devices."""

from __future__ import annotations

from pathlib import Path

from udogen import backends
from udogen.backends.backend import Target
from udogen.build import tools
from udogen.build.toolchains import hexagon_sdk
from udogen.build.toolchains.choice import Choice, Unfit, headers, without_compiler
from udogen.build.tools import Environment

COMPILERS = {
    "x86": "clang++",
    "aarch64": "`AARCH64_CXX`",
    "android": "`ndk-build`",
    "arm64": "clang++ of the NDK, `AARCH64_CXX`",
    "ndk": "clang++ of the NDK",
    "hexagon": "hexagon-clang++",
}
_NDK_CLANG = "toolchains/llvm/prebuilt/linux-x86_64/bin/clang++"
_OPENCL = "libOpenCL.so"
_GET_SDK = "install the Qualcomm AI Engine Direct SDK and set QNN_SDK_ROOT to its folder"


def choose(target: Target, env: Environment) -> Choice | Unfit:
    """The SDK's compiler for this target."""
    root = tools.qnn_sdk(env)
    if target.compiler == "android":
        return _with_opencl(target, env, _ndk(env, root, "ndk-build"))
    if target.compiler == "ndk" or (target.compiler == "arm64" and env.android_ndk_root):
        return _ndk(env, root, _NDK_CLANG)
    if target.compiler == "hexagon":
        return hexagon_sdk.choose(target, env, root)
    if root is None:
        return Unfit("sdk", "QNN_SDK_ROOT is not set", _GET_SDK)
    if target.compiler == "x86":
        if unfit := without_compiler("sdk", "X86_CXX", env.x86_cxx):
            return unfit
        compiler = env.x86_cxx or "clang++"
        if not env.x86_cxx and not tools.program("clang++"):
            return Unfit("sdk", "clang++ is not on PATH", "install clang, or set X86_CXX to a C++ compiler")
        return Choice("sdk", f"{compiler}, headers of {root}", (("QNN_SDK_ROOT", str(root)), ("X86_CXX", compiler)))
    if unfit := without_compiler("sdk", "AARCH64_CXX", env.aarch64_cxx):
        return unfit
    if env.aarch64_cxx:
        variables = (("QNN_SDK_ROOT", str(root)), ("AARCH64_CXX", env.aarch64_cxx), ("ANDROID_NDK_ROOT", ""))
        return Choice("sdk", f"{env.aarch64_cxx}, headers of {root}", variables, target.folders[-1])
    return Unfit("sdk", "AARCH64_CXX is not set", "set AARCH64_CXX to the device's cross compiler")


def _with_opencl(target: Target, env: Environment, found: Choice | Unfit) -> Choice | Unfit:
    """GPU packages whose sources call OpenCL link the device's libOpenCL.so, in CL_LIBRARY_PATH."""
    if isinstance(found, Unfit) or not backends.KINDS[target.backend].opencl:
        return found
    if env.cl_library_path and not (Path(env.cl_library_path) / _OPENCL).is_file():
        return Unfit(
            "sdk",
            f"CL_LIBRARY_PATH is {env.cl_library_path}, but there is no {_OPENCL} in it",
            f"set it to the folder of the device's {_OPENCL} (adb pull /vendor/lib64/{_OPENCL}), or unset it: "
            "a package whose own sources do not call OpenCL needs none",
        )
    return found._replace(variables=(*found.variables, ("CL_LIBRARY_PATH", env.cl_library_path)))


def _ndk(env: Environment, root: Path | None, program: str) -> Choice | Unfit:
    if not env.android_ndk_root:
        return Unfit(
            "sdk", "ANDROID_NDK_ROOT is not set", "install the Android NDK (r26c or later) and set ANDROID_NDK_ROOT"
        )
    if not (Path(env.android_ndk_root) / program).is_file():
        return Unfit(
            "sdk",
            f"ANDROID_NDK_ROOT is {env.android_ndk_root}, but there is no {program} in it",
            f"set ANDROID_NDK_ROOT to the folder that holds {program}",
        )
    name = program.rpartition("/")[2]
    return Choice(
        "sdk",
        f"{name} of {env.android_ndk_root}, {headers(root)}",
        (("ANDROID_NDK_ROOT", env.android_ndk_root), ("QNN_SDK_ROOT", str(root) if root else "")),
    )
