"""The files of a package for the CPU backend."""

from __future__ import annotations

from udogen.backends import common, cpu, vendor
from udogen.backends.plan import Source
from udogen.opdef.model import OpPackage

_FOLDER = common.BackendFolder(
    backend="cpu",
    library="lib{package}.so",
    targets=cpu.BACKEND.target_ids(),
    headers=("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h", "CPU/QnnCpuOpPackage.h"),
    templates={
        **common.NDK_TEMPLATES,
        "src/CpuCustomOpPackage.cpp": "src/CpuCustomOpPackage.cpp.mako",
        "src/{package}Interface.cpp": "src/Interface.cpp.mako",
    },
    copies=(
        "src/utils/BackendTensor.hpp",
        "src/utils/CPU/CpuBackendUtils.hpp",
        "src/utils/CPU/CpuBackendUtils.cpp",
    ),
    shared=(*common.NDK_SHARED, common.VIEWS),
    glue="CPU/CpuBackendUtils.hpp",
    data={"kernel_texts": False},
)

# For a package that also has kernels in the style of Qualcomm's generators.
_VENDOR_FOLDER = _FOLDER._replace(
    templates={
        **_FOLDER.templates,
        "src/{package}Interface.cpp": "src/VendorInterface.cpp.mako",
        "src/CustomOpTables.cpp": "src/CustomOpTables.cpp.mako",
    },
    copies=(
        *_FOLDER.copies,
        "include/CpuBackendUtils.hpp",
        "include/CustomBEMacros.hpp",
        "include/CustomOpPackage.hpp",
        "src/utils/CustomOps.cpp",
        "src/utils/CustomOps.hpp",
    ),
    vendor_kernel="src/ops/VendorOp.cpp.mako",
)


def contents(package: OpPackage, source: Source, place: common.Placement = common.QNN) -> common.Contents:
    """What the CPU backend contributes to a package folder."""
    if source.vendor.get("cpu"):
        return common.contents(package, vendor.completed(package, source), _VENDOR_FOLDER, place)
    return common.contents(package, source, _FOLDER, place)
