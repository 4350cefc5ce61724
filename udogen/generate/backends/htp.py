"""The HTP backend: how a model is said in C++ against QHPI, the C plug-in interface of HTP.

Its older interface, C++ of the SDK's headers, is in `htp_core`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from udogen.backends import cxx, folder, htp_core, targets
from udogen.backends.plan import Source
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage


@dataclass(frozen=True, eq=False, repr=False)
class _HtpOp(cxx.OpView):
    param_defaults: str


def _view(base: cxx.OpView, op: Op) -> cxx.OpView:
    """With the defaults of parameters as tables, for an op of which a client may leave out one before others."""
    if len(op.params) < 2:
        return _HtpOp(**cxx.fields_of(base), param_defaults="{}")
    base = replace(base, most_inputs=base.most_inputs + 1)
    tables = {table.name: table for table in base.tables}
    rows = []
    for index, param in enumerate(op.params):
        if param.default is None:
            continue
        name = base.table_names[param.role, param.name]
        datatype = cxx.default_type(param)
        if param.is_scalar:
            default = cxx.scalar_default(param, name)
            datatype = default.datatype
            tables |= {table.name: table for table in (default.data, default.dims)}
        rows.append((str(index), cxx.code(datatype), f"{name}_data", f"sizeof {name}_data", f"{name}_dims"))
    if not rows:
        return _HtpOp(**cxx.fields_of(base), param_defaults="{}")
    defaults = cxx.Table("ParamDefault", f"{base.prefix}_defaults", tuple(rows))
    base = replace(base, tables=(*tables.values(), defaults))
    return _HtpOp(**cxx.fields_of(base), param_defaults=defaults.name)


_FOLDER = folder.Folder(
    backend="htp",
    library="libQnn{package}.so",
    targets=targets.of_backend("htp"),
    headers=("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h", "HTP/core/qhpi.h"),
    templates={"Makefile": "Makefile.mako", "src/{package}Interface.cpp": "src/Interface.cpp.mako"},
    copies=(
        "src/utils/CustomOpUtils.hpp",
        "src/utils/HtpBackendUtils.hpp",
        "src/utils/HtpGraph.hpp",
        "src/utils/HtpHooks.hpp",
        "src/utils/HtpParameters.hpp",
        "src/utils/HtpRegistration.hpp",
        "src/utils/HtpBackendUtils.cpp",
        "src/utils/HtpGraph.cpp",
        "src/utils/HtpParameters.cpp",
        "src/utils/HtpRegistration.cpp",
    ),
    shared=(
        "src/utils/Validation.hpp",
        "src/utils/Validation.cpp",
        "makefiles/Makefile.linux-x86_64",
        "makefiles/Makefile.linux-aarch64",
        "makefiles/Makefile.android-aarch64",
        "makefiles/Makefile.hexagon",
        "makefiles/hexagon/layout.ld",
        "makefiles/hexagon/start.cpp",
    ),
    api="qhpi",
    view=_view,
    data={"architectures": folder.architectures_of("htp"), "core": False},
)


def contents(package: OpPackage, source: Source, place: folder.Placement = folder.QNN) -> folder.Contents:
    """What the HTP backend contributes to a package folder."""
    if source.htp_api == "core":
        return htp_core.contents(package, source, _FOLDER, place)
    return folder.contents(package, source, _FOLDER, _DIALECT, place)


def _element(datatype: DataType) -> str:
    """Signed types of 8 and 16 bits arrive as unsigned ones with an offset, halves as our own type."""
    if datatype.name == "FLOAT_16":
        return "udo::Half"
    if datatype.bits in (8, 16):
        return f"std::uint{datatype.bits}_t"
    return cxx.stored(datatype)


def _shift(datatype: DataType) -> int:
    """That offset."""
    signed = datatype.name in ("INT_8", "INT_16", "SFIXED_POINT_8", "SFIXED_POINT_16")
    return 1 << (datatype.bits - 1) if signed else 0


def _default(default: cxx.Default, view: str) -> cxx.Expression:
    """A view of the tables."""
    shift = f", {_shift(default.datatype)}" if _shift(default.datatype) else ""
    element = f"elementOf({cxx.code(default.datatype)})"
    return cxx.Expression(f"{view}({default.data.name}, shapeOf({default.dims.name}), {element}{shift})")


_DIALECT = cxx.Dialect(
    element=_element, key=lambda _param, index: str(index), default=_default, shift=_shift, can_omit=False
)
