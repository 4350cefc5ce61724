"""The files of a package for the CPU backend."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from udogen.backends import common, cpu, op_tables, vendor
from udogen.backends.plan import Source
from udogen.opdef.datatypes import BY_NAME
from udogen.opdef.model import Op, OpPackage

_FOLDER = common.BackendFolder(
    backend="cpu",
    library="lib{package}.so",
    targets=cpu.BACKEND.target_ids(),
    headers=("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h", "CPU/QnnCpuOpPackage.h"),
    templates={
        **common.MAKEFILE,
        "src/CpuCustomOpPackage.cpp": "src/CpuCustomOpPackage.cpp.mako",
        "src/{package}Interface.cpp": "src/Interface.cpp.mako",
    },
    copies=(),
    shared=(),
    header=(
        "shared/BackendUtils.hpp",
        "shared/NodeTensors.hpp",
        "shared/Values.hpp",
        "cpu/BackendTensor.hpp",
        "shared/CustomOpUtils.hpp",
        "shared/Executions.hpp",
        "shared/PackageTables.hpp",
        "shared/Validation.hpp",
        "cpu/CpuBackendUtils.hpp",
    ),
    support=(
        "shared/BackendUtils.cpp",
        "shared/Executions.cpp",
        "cpu/Refusal.cpp",
        "shared/Validation.cpp",
        "cpu/CpuBackendUtils.cpp",
    ),
    data={"kernel_texts": False},
)

# For a package that also has kernels in the style of Qualcomm's generators.
_VENDOR_FOLDER = _FOLDER._replace(
    templates={
        **_FOLDER.templates,
        "src/{package}Interface.cpp": "src/VendorInterface.cpp.mako",
        "src/CustomOpTables.cpp": "src/CustomOpTables.cpp.mako",
    },
    copies=("include/CpuBackendUtils.hpp", "include/CustomBEMacros.hpp", "include/CustomOpPackage.hpp"),
    header=(*_FOLDER.header, "cpu/CustomOps.hpp"),
    support=("shared/VendorParams.hpp", *_FOLDER.support, "cpu/CustomOps.cpp"),
)


def _view(vendor_ops: Collection[str], base: op_tables.OpNames, op: Op) -> op_tables.OpNames:
    """The op, with defaults if its kernel is in Qualcomm's style; the runtime delivers each scalar as a double."""
    if op.name not in vendor_ops:
        return base
    return op_tables.with_defaults(base, op, scalar=lambda _param: BY_NAME["FLOAT_64"])


def contents(package: OpPackage, source: Source, place: common.Placement = common.QNN) -> common.Contents:
    """What the CPU backend contributes to a package folder."""
    if source.vendor.get("cpu"):
        data = {**_VENDOR_FOLDER.data, "sorts_params": "false" if place.has_cl_files else "true"}
        folder = _VENDOR_FOLDER._replace(data=data, view=partial(_view, source.vendor["cpu"]))
        return common.contents(package, vendor.completed(package, source), folder, place)
    return common.contents(package, source, _FOLDER, place)
