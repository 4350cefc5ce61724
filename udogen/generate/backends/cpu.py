"""The CPU backend: how a model is said in C++ for `libQnnCpu.so`."""

from __future__ import annotations

from udogen.backends import cxx, folder, targets
from udogen.backends.plan import Source
from udogen.opdef.model import OpPackage
from udogen.opdef.names import cpp_string

_FOLDER = folder.Folder(
    backend="cpu",
    library="lib{package}.so",
    targets=targets.of_backend("cpu"),
    headers=("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h", "CPU/QnnCpuOpPackage.h"),
    templates={
        "Makefile": "Makefile.mako",
        "makefiles/Android.mk": "makefiles/Android.mk.mako",
        "src/CpuCustomOpPackage.cpp": "src/CpuCustomOpPackage.cpp.mako",
        "src/{package}Interface.cpp": "src/Interface.cpp.mako",
    },
    copies=(
        "src/utils/CustomOpUtils.hpp",
        "src/utils/CPU/CpuBackendUtils.hpp",
        "src/utils/CPU/CpuBackendUtils.cpp",
    ),
    shared=(
        "makefiles/Makefile.linux-x86_64",
        "makefiles/Makefile.linux-aarch64",
        "makefiles/Application.mk",
        "makefiles/ndk.mk",
        "src/utils/Validation.hpp",
        "src/utils/Validation.cpp",
    ),
)


def contents(package: OpPackage, source: Source, place: folder.Placement = folder.QNN) -> folder.Contents:
    """What the CPU backend contributes to a package folder."""
    return folder.contents(package, source, _FOLDER, _DIALECT, place)


_DIALECT = cxx.Dialect(element=cxx.stored, key=lambda param, _index: cpp_string(param.name), default=cxx.raw_tensor)
