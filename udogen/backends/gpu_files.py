"""The files of a package for the GPU backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from udogen.backends import common, gpu, op_tables, vendor
from udogen.backends.plan import PlannedFile, Source
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.opdef.names import cpp_string, identifier

# Keywords of OpenCL C (version 3.0, sections 6.1 and 6.3) that C++ lacks: no argument can have these names.
_VECTORS = [f"{kind}{n}" for kind in "char short int long float double".split() for n in (2, 3, 4, 8, 16)]

_WORDS = {
    *_VECTORS,
    *(f"u{vector}" for vector in _VECTORS),
    *(
        "kernel global local constant private generic restrict inline half half2 half3 half4 half8 half16 quad complex "
        "imaginary uniform pipe read_only write_only read_write event_t sampler_t queue_t ndrange_t clk_event_t "
        "reserve_id_t image1d_t image1d_array_t image1d_buffer_t image2d_t image2d_array_t image2d_depth_t image3d_t "
        "uchar ushort uint ulong size_t ptrdiff_t intptr_t uintptr_t vec_step"
    ).split(),
}

# The OpenCL type of an argument by value (Kernel::value in templates/qnn/gpu/include/Operation.hpp).
_BY_VALUE = {
    "bool": "int", "float": "float", "double": "float",
    "std::int8_t": "char", "std::int16_t": "short", "std::int32_t": "int", "std::int64_t": "long",
    "std::uint8_t": "uchar", "std::uint16_t": "ushort", "std::uint32_t": "uint", "std::uint64_t": "ulong",
}  # fmt: skip


def contents(package: OpPackage, source: Source, place: common.Placement = common.QNN) -> common.Contents:
    """What the GPU backend contributes to a package folder."""
    if source.vendor.get("gpu"):
        vendor.refuse_mixture("gpu", package, source)
        data = {**_VENDOR_FOLDER.data, "sorts_params": "false" if place.has_cl_files else "true"}
        return common.contents(package, source, _VENDOR_FOLDER._replace(data=data), place)
    folder = _FOLDER if place.has_cl_files else _FOLDER._replace(kernel="src/ops/Op.text.cpp.mako")
    without_texts = common.contents(package, source, folder, place)
    ready = source.kernels.get("gpu", {})
    texts = [
        _kernel_text(file, ready)
        for file in without_texts.files
        if file.user_owned and file.data and _has_cl_file(file.data["op"].name, ready, place)
    ]
    return without_texts._replace(files=tuple(sorted((*without_texts.files, *texts), key=lambda file: file.path)))


def _has_cl_file(op: str, ready: Mapping[str, bytes], place: common.Placement) -> bool:
    """Whether a kernel's OpenCL is in a .cl file; a finished C++ file without one contains the OpenCL."""
    return f"{op}.cl" in ready or (place.has_cl_files and op not in ready)


def _kernel_text(cpp: PlannedFile, ready: Mapping[str, bytes]) -> PlannedFile:
    """The .cl file next to a C++ file."""
    op = cpp.data["op"]
    content = ready.get(f"{op.name}.cl")
    template = "" if content is not None else "qnn/gpu/src/ops/Op.cl.mako"
    return PlannedFile(op.kernel_text, template=template, data=cpp.data, content=content, user_owned=True)


@dataclass(frozen=True, eq=False, repr=False)
class _GpuOp(op_tables.OpNames):
    entry: str
    names: tuple[op_tables.Table, ...]
    input_names: str
    output_names: str
    param_names: str
    work: str  # the number of work items
    passed: tuple[str, ...]
    declared: tuple[str, ...]


def _view_of_op(base: op_tables.OpNames, op: Op) -> op_tables.OpNames:
    tables = {
        role: op_tables.Table(
            "const char*", f"{base.prefix}_{role}_names", tuple(cpp_string(_cl_name(t)) for t in tensors)
        )
        for role, tensors in (("input", op.inputs), ("output", op.outputs), ("param", op.params))
    }
    named = {role: table.name if table.items else "{}" for role, table in tables.items()}
    first = next((tensor for tensor in op.outputs if tensor.mandatory), None)
    by_value = _values(base)
    passed = [tensor for tensor in (*op.inputs, *op.outputs, *op.params) if _is_passed(tensor, by_value)]
    declared = [_declared(tensor, by_value) for tensor in passed]
    return _GpuOp(
        **vars(base),
        input_names=named["input"],
        output_names=named["output"],
        param_names=named["param"],
        entry=f"{op.name}_kernel",
        names=tuple(table for table in tables.values() if table.items),
        work=f"args.{identifier(first.name)}{'[0]' if first.repeated else ''}.size()" if first else "1",
        passed=tuple(_passed(tensor) for tensor in passed),
        declared=(*(f"{line}," for line in declared[:-1]), *declared[-1:]),
    )


def _values(view: op_tables.OpNames) -> dict[str, str]:
    """The members of an op's Args that are numbers, with their type in OpenCL."""
    bases = {enum.name: enum.base for enum in view.enums}
    kinds = {field.name: bases.get(field.type, field.type) for field in view.fields}
    return {name: _BY_VALUE[kind] for name, kind in kinds.items() if kind in _BY_VALUE}


def _is_passed(tensor: Tensor, by_value: dict[str, str]) -> bool:
    if tensor.repeated:  # the user's own loop iterates over them
        return False
    if tensor.role != "param":
        return tensor.default is None
    if identifier(tensor.name) in by_value:
        return True
    # Neither defaults nor strings are in GPU memory.
    return tensor.default is None and any(datatype.kind != "string" for datatype in tensor.datatypes)


def _passed(tensor: Tensor) -> str:
    how = "write" if tensor.role == "output" else "value" if tensor.role == "param" and tensor.is_scalar else "read"
    return f"{how}(args.{identifier(tensor.name)})"


def _declared(tensor: Tensor, by_value: dict[str, str]) -> str:
    name = _cl_name(tensor)
    if tensor.role == "param" and tensor.is_scalar:
        return f"const {by_value[identifier(tensor.name)]} {name}"
    return f"OUTPUT({name})" if tensor.role == "output" else f"INPUT({name})"


def _cl_name(tensor: Tensor) -> str:
    """The name of a tensor in OpenCL: as in C++, except for keywords; a repeated one gets a number appended."""
    name = identifier(tensor.name)
    return name if tensor.repeated else opencl_name(name)


def opencl_name(name: str) -> str:
    """A name of C++ in OpenCL: unchanged, unless it is a keyword there."""
    return f"{name}_" if name in _WORDS else name


def _view(tensor: Tensor) -> str:
    return "udo::Output" if tensor.role == "output" else "udo::Input"


_FOLDER = common.BackendFolder(
    backend="gpu",
    library="lib{package}.so",
    targets=gpu.BACKEND.target_ids(),
    headers=(
        "QnnCommon.h",
        "QnnTypes.h",
        "QnnLog.h",
        "QnnClientTypes.h",
        "QnnGraph.h",
        "QnnOpPackage.h",
        "GPU/QnnGpuGraph.h",
        "GPU/QnnGpuOpPackage.h",
    ),
    templates={
        **common.MAKEFILE,
        "src/GpuCustomOpPackage.cpp": "src/GpuCustomOpPackage.cpp.mako",
        "src/{package}Interface.cpp": "src/Interface.cpp.mako",
    },
    copies=("makefiles/kernels.mk", "src/Prelude.cl"),
    shared=(),
    header=(
        "shared/BackendUtils.hpp",
        "shared/NodeTensors.hpp",
        "shared/Values.hpp",
        "gpu/GpuOperation.hpp",
        "shared/Executions.hpp",
        "shared/PackageTables.hpp",
        "gpu/GpuBackendUtils.hpp",
    ),
    support=(
        "shared/Validation.hpp",
        "shared/BackendUtils.cpp",
        "shared/Executions.cpp",
        "shared/WithoutRefusal.cpp",
        "shared/Validation.cpp",
        "gpu/GpuOperation.cpp",
        "gpu/GpuBackendUtils.cpp",
    ),
    kernel="src/ops/Op.cpp.mako",
    for_python=(*common.FOR_PYTHON, "shared/Launches.hpp", "shared/Launches.cpp"),
    op_templates={"include/ops/{op}.hpp": "include/ops/Op.hpp.mako"},
    dialect=op_tables.Dialect(view=_view),
    view=_view_of_op,
    data={"kernel_texts": True},
)

# For a package whose kernels are in the style of Qualcomm's generators.
_VENDOR_FOLDER = _FOLDER._replace(
    templates={
        **common.MAKEFILE,
        "include/Operation.hpp": "include/VendorOperation.hpp.mako",
        "src/VendorTables.cpp": "src/VendorTables.cpp.mako",
        "src/{package}Interface.cpp": "src/Interface.cpp.mako",
    },
    copies=(
        "include/QnnGpuOpPackage.h",
        "makefiles/kernels.mk",
    ),
    header=(
        "shared/BackendUtils.hpp",
        "shared/NodeTensors.hpp",
        "shared/Executions.hpp",
        "shared/PackageTables.hpp",
        "gpu/GpuVendorOps.hpp",
    ),
    support=(
        "shared/Validation.hpp",
        "shared/VendorParams.hpp",
        "shared/BackendUtils.cpp",
        "shared/Executions.cpp",
        "shared/WithoutRefusal.cpp",
        "shared/Validation.cpp",
        "gpu/GpuVendorOps.cpp",
    ),
    op_templates={},
    view=op_tables.with_only_defaults,
)
