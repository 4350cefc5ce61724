"""The files of a package for the HTP backend: QHPI, or the older C++ interface (`htp_core`)."""

from __future__ import annotations

from dataclasses import replace

from udogen.backends import common, htp, htp_core, op_tables, vendor
from udogen.backends.plan import Source
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage


def _view(base: op_tables.OpNames, op: Op) -> op_tables.OpNames:
    """Add tables of parameter defaults, if a client may omit a parameter that others follow."""
    if len(op.params) < 2:
        return base
    return op_tables.with_defaults(base, op, _FOLDER.dialect, op_tables.scalar_type_of_htp)


def _element(datatype: DataType) -> str:
    """The C++ element type: signed types of 8 and 16 bits arrive as unsigned with an offset, halves as udo::Half."""
    if datatype.name == "FLOAT_16":
        return "udo::Half"
    if datatype.bits in (8, 16):
        return f"std::uint{datatype.bits}_t"
    return op_tables.stored(datatype)


def _shift(datatype: DataType) -> int:
    """The offset of signed types; 0 for others."""
    signed = datatype.name in ("INT_8", "INT_16", "SFIXED_POINT_8", "SFIXED_POINT_16")
    return 1 << (datatype.bits - 1) if signed else 0


def _default(default: op_tables.Default, view: str) -> op_tables.Expression:
    """A view of the tables."""
    shift = f", {_shift(default.datatype)}" if _shift(default.datatype) else ""
    element = f"elementOf({op_tables.code(default.datatype)})"
    return op_tables.Expression(f"{view}({default.data.name}, shapeOf({default.dims.name}), {element}{shift})")


_FOLDER = common.BackendFolder(
    backend="htp",
    library="libQnn{package}.so",
    targets=htp.BACKEND.target_ids(),
    headers=("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h", "HTP/core/qhpi.h"),
    templates={"Makefile": "Makefile.mako", "src/{package}Interface.cpp": "src/Interface.cpp.mako"},
    copies=(),
    shared=(
        "makefiles/Makefile.hexagon",
        "makefiles/hexagon/layout.ld",
        "makefiles/hexagon/start.cpp",
    ),
    header=(
        "shared/BackendUtils.hpp",
        "shared/Values.hpp",
        "htp/BackendTensor.hpp",
        "shared/CustomOpUtils.hpp",
        "shared/PackageTables.hpp",
        "htp/HtpBackendUtils.hpp",
        "htp/HtpParameters.hpp",
        "shared/Executions.hpp",
        "htp/HtpKernels.hpp",
        "htp/HtpRegistration.hpp",
    ),
    support=(
        "shared/Validation.hpp",
        "shared/BackendUtils.cpp",
        "shared/Executions.cpp",
        "shared/WithoutRefusal.cpp",
        "shared/Validation.cpp",
        "htp/HtpValidation.cpp",
        "htp/HtpBackendUtils.cpp",
        "htp/HtpParameters.cpp",
        "htp/HtpRegistration.cpp",
    ),
    api="qhpi",
    dialect=op_tables.Dialect(element=_element, key=lambda _param, index: str(index), default=_default, shift=_shift),
    view=_view,
    data={
        "architectures": common.architectures_of("htp"),
        "usual": " ".join(f"htp_{arch.name}" for arch in common.architectures_of("htp") if arch.usual),
        "core": False,
    },
)

# For a package whose kernels register themselves with QHPI, as Qualcomm's generator writes them.
_VENDOR_FOLDER = _FOLDER._replace(
    templates={
        "Makefile": "Makefile.mako",
        "src/{package}Interface.cpp": "src/VendorInterface.cpp.mako",
        "include/HTP/core/qhpi.h": "include/HTP/core/qhpi.h.mako",
    },
    copies=tuple(f"include/HTP/core/{name}.h" for name in ("constraints", "intrinsics", "log")),
    header=_FOLDER.header[: _FOLDER.header.index("shared/Executions.hpp")],
    support=(
        "shared/Validation.hpp",
        "shared/BackendUtils.cpp",
        "shared/WithoutRefusal.cpp",
        "shared/Validation.cpp",
        "htp/HtpValidation.cpp",
        "htp/HtpBackendUtils.cpp",
        "htp/HtpParameters.cpp",
        "htp/HtpAbsent.cpp",
        "htp/HtpOrder.cpp",
        "htp/HtpVendorOps.cpp",
    ),
    op_templates={},
    view=lambda base, op: op_tables.with_defaults(
        replace(base, tables=tuple(base.spec_tables)), op, _FOLDER.dialect, op_tables.scalar_type_of_htp
    ),
)


def contents(package: OpPackage, source: Source, place: common.Placement = common.QNN) -> common.Contents:
    """What the HTP backend contributes to a package folder."""
    if source.htp_api == "core":
        return htp_core.contents(package, source, _FOLDER, place)
    if source.vendor.get("htp"):
        vendor.refuse_mixture("htp", package, source, complete=True)
        own = _VENDOR_FOLDER._replace(data={**_VENDOR_FOLDER.data, "registrations": source.registrations})
        return common.contents(package, source, own, place)
    return common.contents(package, source, _folder(package, source), place)


def _folder(package: OpPackage, source: Source) -> common.BackendFolder:
    """The folder with the parts of the support library that this package needs.

    The order of parameters matters if an op has several; hooks are needed if a kernel's file has the word `Hooks`.
    """
    several = any(len(op.params) > 1 for op in package.ops)
    absent = several or source.hooks or not all(tensor.required for op in package.ops for tensor in op.inputs)
    support = (
        *_FOLDER.support,
        "htp/HtpAbsent.cpp" if absent else "htp/HtpWithoutAbsent.cpp",
        "htp/HtpOrder.cpp" if several else "htp/HtpWithoutOrder.cpp",
    )
    if not source.hooks:
        return _FOLDER._replace(support=support)
    header = (*_FOLDER.header, "htp/HtpGraph.hpp", "htp/HtpHooks.hpp")
    return _FOLDER._replace(header=header, support=(*support, "htp/HtpGraph.cpp"), hooks=True)


def absent_at_end(op: Op) -> frozenset[str]:
    """The trailing optional inputs whose absence is visible in the number of a node's values, or in their types.

    A node has its inputs, then its parameters, of which the last ones may be absent, too.
    """
    names: list[str] = []
    types = [row for param in op.params for row in param.datatypes]
    arrive = {_element(row) for row in types}
    arrive |= {"std::int32_t" for row in types if row.integral}  # ONNX Runtime: all integers; HTP: UINT_32
    arrive |= {"float" for row in types if row.kind == "bool"}
    counted = all(param.required for param in op.params)
    for tensor in reversed(op.inputs):
        alike = {"std::int32_t" if row.name == "UINT_32" else _element(row) for row in tensor.accepted}
        if (tensor.mandatory and tensor.default is None) or tensor.repeated or not (counted or not alike & arrive):
            break
        names.append(tensor.name)
    return frozenset(names)
