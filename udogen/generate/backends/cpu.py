"""The CPU backend: how a model is said in C++ for `libQnnCpu.so`."""

from __future__ import annotations

from types import SimpleNamespace

from udogen.generate.backends import cxx
from udogen.generate.plan import Plan, PlannedFile, Source, record
from udogen.opdef.model import OpPackage
from udogen.opdef.names import cpp_string

_HEADERS = ("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h", "CPU/QnnCpuOpPackage.h")
_COPIES = (
    "makefiles/Application.mk",
    "src/utils/CustomOpUtils.hpp",
    "src/utils/CPU/CpuBackendUtils.hpp",
    "src/utils/CPU/CpuBackendUtils.cpp",
)
_SHARED = (
    "makefiles/linux.mk",
    "makefiles/Makefile.linux-x86_64",
    "makefiles/Makefile.linux-aarch64",
    "src/utils/BackendUtils.hpp",
    "src/utils/BackendUtils.cpp",
)
_TARGETS = ("cpu_x86", "cpu_aarch64", "cpu_android")


def plan(package: OpPackage, source: Source) -> Plan:
    """The CPU package folder."""
    shared = {
        "package": record(
            name=package.name, literal=cpp_string(package.name), provider=f"{package.name}InterfaceProvider"
        ),
        "config": source.label,
    }
    ops = [cxx.op(number, op, _DIALECT) for number, op in enumerate(package.ops)]
    tables = [table for op in ops for table in op.tables]
    defaults = [table for op in ops for table in op.defaults]
    everything = {**shared, "ops": ops, "tables": tables, "defaults": defaults, "count": len(ops)}
    files = [
        _rendered("Makefile", everything),
        _rendered("makefiles/Android.mk", everything),
        _rendered("src/CpuCustomOpPackage.cpp", everything),
        PlannedFile(f"src/{package.name}Interface.cpp", template="qnn/cpu/src/Interface.cpp.mako", data=shared),
        *(PlannedFile(path, copy=f"qnn/cpu/{path}") for path in _COPIES),
        *(PlannedFile(path, copy=f"qnn/shared/{path}") for path in _SHARED),
        *(PlannedFile(f"include/QNN/{path}", copy=f"headers:{path}") for path in _HEADERS),
        *(PlannedFile(f"config/{name}", content=content) for name, content in source.configs.items()),
    ]
    for op in ops:
        data = {**shared, "op": op}
        files.append(PlannedFile(op.header, template="qnn/cpu/include/ops/Op.hpp.mako", data=data))
        ready = source.kernels.get("cpu", {}).get(op.name)
        template = "" if ready is not None else "qnn/cpu/src/ops/Op.cpp.mako"
        files.append(PlannedFile(op.kernel, template=template, data=data, content=ready, yours=True))
    return Plan(
        package=package.name,
        backend="cpu",
        layout="qnn",
        libraries="libs",
        library=f"lib{package.name}.so",
        provider=f"{package.name}InterfaceProvider",
        ops=tuple(op.name for op in package.ops),
        configs=tuple(f"config/{name}" for name in source.configs),
        targets=_TARGETS,
        files=tuple(sorted(files, key=lambda file: file.path)),
    )


def _rendered(path: str, data: dict[str, object]) -> PlannedFile:
    return PlannedFile(path, template=f"qnn/cpu/{path}.mako", data=data)


def _default(table: str, _view: str, default: cxx.Default) -> tuple[SimpleNamespace, str]:
    """A tensor of the runtime's own kind, made of the tables."""
    made = f"defaultTensor({cxx.code(default.datatype)}, {default.data}, {default.dims}, {default.rank})"
    return record(type="", name=f"{table}Default", value=made), f"&{table}Default"


_DIALECT = cxx.Dialect(element=cxx.stored, key=lambda param, _index: cpp_string(param.name), default=_default)
