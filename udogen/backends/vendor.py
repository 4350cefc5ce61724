"""Kernels in the style of Qualcomm's generators: how they are known, and what a package has beside them.

Their support headers are ours; of Qualcomm's only the names are there that such kernels use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from udogen.backends import common, op_tables
from udogen.backends.plan import PlannedFile, Source
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.names import cpp_string

APIS = ("args", "vendor")  # the styles of kernels, the usual one first

# What only sources in this style have.
_MARKS = {
    "cpu": re.compile(rb"\bREGISTER_OP\s*\(|\bCustomOp\s*[*&]"),
    "gpu": re.compile(rb"\bQnnGpu_Kernel_t\b|\bQnnGpuOpPackage_Node_t\b"),
    "dsp": re.compile(rb"\bUdoDspShared\b"),
}
BACKENDS = tuple(_MARKS)
# Comments and literals: words in them are no marks.
_NO_CODE = re.compile(rb'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)


def code(source: bytes) -> bytes:
    """A source without comments and literals."""
    return _NO_CODE.sub(b" ", source)


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
    made = common.contents(
        package, replace(source, kernels={**source.kernels, "cpu": complete}), own, dialect, place
    )
    return _with_skeletons(made, "qnn/cpu/src/ops/VendorOp.cpp.mako", chosen)


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
