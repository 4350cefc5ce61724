"""The HTP backend: how a model is said in C++ against QHPI, the C plug-in interface of HTP.

Its older interface, C++ of the SDK's headers, is in `htp_core`.
"""

from __future__ import annotations

from types import SimpleNamespace

from udogen.backends import cxx, folder, htp_core, targets
from udogen.backends.plan import Source, record
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage

_UTILS = ("HtpBackendUtils.cpp", "HtpGraph.cpp", "HtpParameters.cpp", "HtpRegistration.cpp")


def _say(said: SimpleNamespace, op: Op) -> None:
    """The defaults of parameters as tables, for an op of which a client may leave out one before others."""
    said.param_defaults = "{}"
    if len(op.params) < 2:
        return
    said.most_inputs += 1
    rows = []
    for index, param in enumerate(op.params):
        if param.default is None:
            continue
        name = f"op{said.number}Param{index}"
        if param.is_scalar:
            tables, datatype = cxx.scalar_default(param, name)
            said.tables += tables
        else:
            datatype = cxx.default_type(param)
        rows.append(f"{{{index}, {cxx.code(datatype)}, {name}Data, sizeof {name}Data, {name}Dims}}")
    if rows:
        said.param_defaults = f"op{said.number}Defaults"
        said.tables.append(record(type="ParamDefault", name=said.param_defaults, items=rows))


_FOLDER = folder.Folder(
    backend="htp",
    library="libQnn{package}.so",
    targets=targets.of_backend("htp"),
    headers=("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h", "HTP/core/qhpi.h"),
    templates={"Makefile": "Makefile.mako", "src/{package}Interface.cpp": "src/Interface.cpp.mako"},
    copies=(
        "src/utils/BackendTensor.hpp",
        "src/utils/HtpBackendUtils.hpp",
        "src/utils/HtpGraph.hpp",
        "src/utils/HtpHooks.hpp",
        "src/utils/HtpParameters.hpp",
        "src/utils/HtpRegistration.hpp",
        *(f"src/utils/{name}" for name in _UTILS),
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
        folder.VIEWS,
    ),
    glue="HtpHooks.hpp",
    hooks=True,
    api="qhpi",
    say=_say,
    data={"architectures": folder.architectures_of("htp"), "core": False, "utils": _UTILS},
)


def contents(package: OpPackage, source: Source, place: folder.Place = folder.as_called) -> folder.Contents:
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


def _default(_table: str, view: str, default: cxx.Default) -> tuple[None, str]:
    """A view of the tables."""
    shift = f", {_shift(default.datatype)}" if _shift(default.datatype) else ""
    return None, f"{view}({default.data}, shapeOf({default.dims}), elementOf({cxx.code(default.datatype)}){shift})"


_DIALECT = cxx.Dialect(
    element=_element, key=lambda _param, index: str(index), default=_default, shift=_shift, can_omit=False
)
