"""The HTP backend: how a model is said in C++ against QHPI, the C plug-in interface of HTP."""

from __future__ import annotations

from udogen.generate.backends import cxx
from udogen.generate.plan import Plan, PlannedFile, Source, record
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import OpPackage
from udogen.opdef.names import cpp_string

_HEADERS = ("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h", "HTP/core/qhpi.h")
_COPIES = ("src/utils/CustomOpUtils.hpp", "src/utils/HtpBackendUtils.hpp", "src/utils/HtpBackendUtils.cpp")
_SHARED = (
    "makefiles/linux.mk",
    "makefiles/Makefile.linux-x86_64",
    "src/utils/BackendUtils.hpp",
    "src/utils/BackendUtils.cpp",
)
_TARGETS = ("htp_x86",)


def plan(package: OpPackage, source: Source) -> Plan:
    """The HTP package folder."""
    shared = {
        "package": record(
            name=package.name, literal=cpp_string(package.name), provider=f"{package.name}InterfaceProvider"
        ),
        "config": source.label,
    }
    ops = [cxx.op(number, op, _DIALECT) for number, op in enumerate(package.ops)]
    for op in ops:
        op.qualified = cpp_string(f"{package.name}::{op.name}")
    tables = [table for op in ops for table in op.tables]
    everything = {**shared, "ops": ops, "tables": tables, "count": len(ops)}
    interface = PlannedFile(
        f"src/{package.name}Interface.cpp", template="qnn/htp/src/Interface.cpp.mako", data=everything
    )
    files = [
        PlannedFile("Makefile", template="qnn/htp/Makefile.mako", data=everything),
        interface,
        *(PlannedFile(path, copy=f"qnn/htp/{path}") for path in _COPIES),
        *(PlannedFile(path, copy=f"qnn/shared/{path}") for path in _SHARED),
        *(PlannedFile(f"include/QNN/{path}", copy=f"headers:{path}") for path in _HEADERS),
        *(PlannedFile(f"config/{name}", content=content) for name, content in source.configs.items()),
    ]
    for op in ops:
        data = {**shared, "op": op}
        files.append(PlannedFile(op.header, template="qnn/htp/include/ops/Op.hpp.mako", data=data))
        ready = source.kernels.get("htp", {}).get(op.name)
        template = "" if ready is not None else "qnn/htp/src/ops/Op.cpp.mako"
        files.append(PlannedFile(op.kernel, template=template, data=data, content=ready, yours=True))
    return Plan(
        package=package.name,
        backend="htp",
        layout="qnn",
        libraries="build",
        library=f"libQnn{package.name}.so",
        provider=f"{package.name}InterfaceProvider",
        ops=tuple(op.name for op in package.ops),
        configs=tuple(f"config/{name}" for name in source.configs),
        targets=_TARGETS,
        files=tuple(sorted(files, key=lambda file: file.path)),
    )


def _element(datatype: DataType) -> str:
    """Signed types of 8 and 16 bits arrive as unsigned ones with an offset, halves as our own type."""
    if datatype.name == "FLOAT_16":
        return "udo::Half"
    if datatype.bits in (8, 16):
        return f"std::uint{datatype.bits}_t"
    return cxx.stored(datatype)


def _default(_table: str, view: str, default: cxx.Default) -> tuple[None, str]:
    """A view of the tables."""
    return None, f"{view}({default.data}, shapeOf({default.dims}), elementOf({cxx.code(default.datatype)}))"


_DIALECT = cxx.Dialect(element=_element, key=lambda _param, index: str(index), default=_default)
