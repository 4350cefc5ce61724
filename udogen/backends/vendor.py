"""Kernels in the style of Qualcomm's generators: how they are known, and what a package has beside them.

Their support headers are ours; of Qualcomm's only the names are there that such kernels use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from udogen.backends import common, op_tables
from udogen.backends.plan import PlannedFile, Registration, Source
from udogen.errors import UsageError
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.names import cpp_string

APIS = ("args", "vendor")  # the styles of kernels, the usual one first

# What only sources in this style have.
_MARKS = {
    "cpu": re.compile(rb"\bREGISTER_OP\s*\(|\bCustomOp\s*[*&]|\bOpRegistrationReceiver\b"),
    "gpu": re.compile(rb"\bQnnGpu_Kernel_t\b|\bQnnGpuOpPackage_Node_t\b"),
    "dsp": re.compile(rb"\bUdoDspShared\b"),
}
BACKENDS = tuple(_MARKS)
# Headers of the Hexagon SDK that kernels include; ours stand for them where there is no SDK.
_HEXAGON_HEADERS = ("HAP_farf.h", "hvx_internal.h", "qhmath_hvx.h")
# Comments and literals: words in them are no marks.
_NO_CODE = re.compile(rb'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)


def code(source: bytes) -> bytes:
    """A source without comments and literals."""
    return _NO_CODE.sub(b" ", source)


def hexagon_headers(kernels: Iterable[bytes]) -> tuple[str, ...]:
    """The headers of the Hexagon SDK that these sources include and udogen has, as files of a package."""
    included = {name for text in kernels for name in re.findall(rb'#\s*include\s*[<"]([\w.]+)[>"]', text)}
    return tuple(f"makefiles/hexagon/include/{name}" for name in _HEXAGON_HEADERS if name.encode() in included)


_CORE = re.compile(rb"\bBEGIN_PKG_OP_DEFINITION\s*\(")


def is_core_style(source: bytes) -> bool:
    """Whether a kernel for HTP registers itself with the SDK's macros."""
    return bool(_CORE.search(code(source)))


_REGISTRATION = re.compile(r'(\bextern\s*"C"\s*)?\bvoid\s+(register_\w+)\s*\(\s*(?:void)?\s*\)\s*\{')


def registrations(source: bytes) -> tuple[Registration, ...]:
    """The functions with which a kernel for HTP registers its ops with QHPI, as newer generators write them."""
    text = without_comments(source).decode("utf-8", "replace")
    if "qhpi_register_ops_v1" not in text:
        return ()
    return tuple(
        Registration(found[2], bool(found[1]) or _in_c_block(text[: found.start()]))
        for found in _REGISTRATION.finditer(text)
    )


def _in_c_block(before: str) -> bool:
    """Whether a block with C linkage that begins in this text is still open at its end."""
    return any(
        before.count("{", block.end()) >= before.count("}", block.end())
        for block in re.finditer(r'\bextern\s*"C"\s*\{', before)
    )


def without_comments(source: bytes) -> bytes:
    """A source with its literals, without comments."""
    return _NO_CODE.sub(lambda found: found[0] if found[0].startswith(b'"') else b" ", source)


def is_vendor_style(backend: str, source: bytes) -> bool:
    """Whether a kernel for this backend is written in Qualcomm's style."""
    return backend in _MARKS and bool(_MARKS[backend].search(code(source)))


@dataclass(frozen=True, eq=False, repr=False)
class _VendorOp(op_tables.OpNames):
    param_names: tuple[str, ...]


class _KernelNames(NamedTuple):
    """An op as the table of its kind sees it."""

    name: str
    space: str


def cpu_contents(
    package: OpPackage,
    source: Source,
    folder: common.BackendFolder,
    dialect: op_tables.Dialect,
    place: common.Placement,
) -> common.Contents:
    """A package for the CPU: ops whose kernels are in Qualcomm's style, beside others."""
    chosen = source.vendor["cpu"]
    custom = [_KernelNames(op.name, f"ops::{package.name}::{op.name}") for op in package.ops if op.name in chosen]
    own = replace(
        folder,
        templates={
            **folder.templates,
            "src/{package}Interface.cpp": "src/VendorInterface.cpp.mako",
            "src/CustomOpTables.cpp": "src/CustomOpTables.cpp.mako",
        },
        copies=(
            *folder.copies,
            "include/CpuBackendUtils.hpp",
            "include/CustomBEMacros.hpp",
            "include/CustomOpPackage.hpp",
            "src/utils/CustomOps.cpp",
            "src/utils/CustomOps.hpp",
        ),
        data={**folder.data, "custom_ops": custom},
        view=_view,
    )
    given = source.kernels.get("cpu", {})
    complete = {name: _complete(text, name, package) if name in chosen else text for name, text in given.items()}
    made = common.contents(package, replace(source, kernels={**source.kernels, "cpu": complete}), own, dialect, place)
    return _with_skeletons(made, "qnn/cpu/src/ops/VendorOp.cpp.mako", chosen)


def gpu_contents(
    package: OpPackage,
    source: Source,
    folder: common.BackendFolder,
    dialect: op_tables.Dialect,
    place: common.Placement,
) -> common.Contents:
    """A package for the GPU whose kernels are all in Qualcomm's style."""
    _refuse_mixture("gpu", package, source)
    own = replace(
        folder,
        templates={
            "Makefile": "Makefile.mako",
            "makefiles/Android.mk": "makefiles/Android.mk.mako",
            "include/Operation.hpp": "include/VendorOperation.hpp.mako",
            "src/VendorTables.cpp": "src/VendorTables.cpp.mako",
            "src/{package}Interface.cpp": "src/Interface.cpp.mako",
        },
        copies=(
            "include/QnnGpuOpPackage.h",
            "makefiles/kernels.mk",
            "src/utils/GPU/GpuVendorOps.cpp",
            "src/utils/GPU/GpuVendorOps.hpp",
        ),
        kernel="src/ops/VendorOp.cpp.mako",
        op_templates={},
        data={**folder.data, "sorts_params": "false" if place.has_cl_files else "true"},
        view=_gpu_view,
    )
    return common.contents(package, source, own, dialect, place)


@dataclass(frozen=True, eq=False, repr=False)
class _GpuOp(op_tables.OpNames):
    kernel_text: str
    spec_tables: tuple[op_tables.Table, ...]


def _gpu_view(base: op_tables.OpNames, op: Op) -> op_tables.OpNames:
    tables = tuple(table for table in base.tables if not table.name.endswith(("_data", "_dims")))
    return _GpuOp(**op_tables.fields_of(base), kernel_text=f"src/ops/{op.name}.cl", spec_tables=tables)


def htp_contents(
    package: OpPackage,
    source: Source,
    folder: common.BackendFolder,
    dialect: op_tables.Dialect,
    place: common.Placement,
) -> common.Contents:
    """A package for HTP whose kernels all register themselves with QHPI."""
    missing = [op.name for op in package.ops if op.name not in source.vendor["htp"]]
    if missing:
        known = ", ".join(source.vendor["htp"])
        raise UsageError(
            f"the kernels for htp of {known} register themselves, and there is no such kernel of {', '.join(missing)}",
            hint="give one for each op of the package: a package for htp has kernels of one style",
        )
    own = replace(
        folder,
        templates={
            "Makefile": "Makefile.mako",
            "src/{package}Interface.cpp": "src/VendorInterface.cpp.mako",
            "include/HTP/core/qhpi.h": "include/HTP/core/qhpi.h.mako",
        },
        data={**folder.data, "registrations": source.registrations},
        copies=tuple(f"include/HTP/core/{name}.h" for name in ("constraints", "intrinsics", "log")),
        shared=tuple(path for path in folder.shared if path != common.VIEWS),
        op_templates={},
        view=_gpu_view,
    )
    return common.contents(package, source, own, dialect, place)


@dataclass(frozen=True, eq=False, repr=False)
class _DspOp(op_tables.OpNames):
    lower: str
    param_count: int
    interface: str
    library: str
    input_quantization: tuple[str, ...]
    output_quantization: tuple[str, ...]


def dsp_folder(folder: common.BackendFolder, package: OpPackage, source: Source) -> common.BackendFolder:
    """The folder of a package for the DSP whose kernels are all in Qualcomm's style, from that of other kernels."""
    _refuse_mixture("dsp", package, source)

    def view(base: op_tables.OpNames, op: Op) -> op_tables.OpNames:
        fields = {
            name: getattr(folder.view(base, op), name) for name in _DspOp.__dataclass_fields__ if name not in _NEW
        }
        return _DspOp(**fields, lower=op.name.lower(), param_count=len(op.params))

    [interface] = [path for path in folder.op_templates if path.endswith("Interface.cpp")]
    return replace(
        folder,
        templates={"Makefile": "Makefile.mako", "include/DspOps.hpp": "include/VendorDspOps.hpp.mako"},
        copies=("src/utils/DSP/DspVendorOps.cpp", "src/utils/DSP/DspVendorOps.hpp"),
        shared=tuple(path for path in folder.shared if path != common.VIEWS),
        op_templates={interface: "src/VendorInterface.cpp.mako"},
        kernel="src/ops/VendorOp.cpp.mako",
        view=view,
    )


_NEW = ("lower", "param_count")


def _refuse_mixture(backend: str, package: OpPackage, source: Source) -> None:
    """Raise where some kernels are in Qualcomm's style and others are not, and the backend cannot have both."""
    others = [op.name for op in package.ops if op.name not in source.vendor[backend]]
    given = [name for name in others if name in source.kernels.get(backend, {})]
    if given:
        chosen = ", ".join(source.vendor[backend])
        raise UsageError(
            f"the kernels for {backend} of {chosen} are in the style of Qualcomm's generators, those of "
            f"{', '.join(given)} are not: a package for {backend} has kernels of one style",
            hint="give each style a package of its own",
        )


def _view(base: op_tables.OpNames, op: Op) -> op_tables.OpNames:
    return _VendorOp(**op_tables.fields_of(base), param_names=tuple(cpp_string(param.name) for param in op.params))


def _with_skeletons(made: common.Contents, template: str, chosen: Iterable[str]) -> common.Contents:
    """The same, where kernels of these ops that nobody has written yet start from this template."""
    names = frozenset(chosen)

    def own(file: PlannedFile) -> PlannedFile:
        skeleton = file.user_owned and file.template and file.data["op"].name in names
        return replace(file, template=template) if skeleton else file

    return replace(made, files=tuple(own(file) for file in made.files))


def _complete(kernel: bytes, op: str, package: OpPackage) -> bytes:
    """A kernel for the CPU that has only the functions of its op, as documentation prints them, with what it lacks."""
    if b"REGISTER_OP" in code(kernel):
        return kernel
    [found] = [each for each in package.ops if each.name == op]
    space = f"{package.name}_{op}"
    head = '#include "CpuBackendUtils.hpp"\n#include "CustomOpPackage.hpp"\n\n'
    head += f"using namespace qnn::custom;\nusing namespace qnn::custom::utils;\n\nnamespace {space} {{\n"
    names = {
        name: name if re.search(rf"\b{name}\s*\(".encode(), code(kernel)) else "nullptr"
        for name in ("execute", "finalize", "free", "validateOpConfig")
    }
    tail = ""
    if not re.search(rb"\bpopulateFromNode\s*\(", code(kernel)):
        params = "".join(
            f"  if (getParam(node, {name}).first) operation->addParam({name}, getParam(node, {name}).second);\n"
            for name in (cpp_string(param.name) for param in found.params)
        )
        tail = (
            "\nQnn_ErrorHandle_t populateFromNode(QnnOpPackage_Node_t node, QnnOpPackage_GraphInfrastructure_t,\n"
            "                                   CustomOp* operation) {\n"
            "  for (uint32_t i = 0; i < numInputs(node); ++i) operation->addInput(getInput(node, i));\n"
            "  for (uint32_t i = 0; i < numOutputs(node); ++i) operation->addOutput(getOutput(node, i));\n"
            f"{params}  return QNN_SUCCESS;\n}}\n"
        )
    tail += (
        "\nCustomOpRegistration_t* registration() {\n"
        f"  static CustomOpRegistration_t functions = {{{', '.join(names.values())}, populateFromNode}};\n"
        f"  return &functions;\n}}\n\n}}  // namespace {space}\n\nREGISTER_OP({op}, {space}::registration)\n"
    )
    return head.encode() + kernel.rstrip() + b"\n" + tail.encode()
