"""Kernels in the styles of Qualcomm's generators: recognized, checked, completed.

The packages around them have support headers of udogen, with the names that such kernels use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from udogen.backends.plan import RegisterFunction, Source
from udogen.errors import UsageError
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.names import cpp_string

# The head of a function that registers ops with QHPI.
_REGISTERS = r"\bvoid\s+(register_\w+)\s*\(\s*(?:void)?\s*\)\s*\{"
# An op's record for QHPI that other sources can register: the line begins with its type, or with `extern`.
_RECORD = r"^[ \t]*(?:extern\s+)?QHPI_OpInfo_v1\s+(\w+)"
# Backend -> style -> what only sources in this style contain.  HTP has two: registration by the SDK's macros, and by
# QHPI as the generator of newer releases writes it.
_MARKS = {
    "cpu": {"vendor": re.compile(rb"\bREGISTER_OP\s*\(|\bCustomOp\s*[*&]|\bOpRegistrationReceiver\b")},
    "gpu": {"vendor": re.compile(rb"\bQnnGpu_Kernel_t\b|\bQnnGpuOpPackage_Node_t\b")},
    "dsp": {"vendor": re.compile(rb"\bUdoDspShared\b")},
    "htp": {
        "core": re.compile(rb"\bBEGIN_PKG_OP_DEFINITION\s*\("),
        "qhpi": re.compile(rf"\A(?=.*\bqhpi_register_ops_v1\s*\().*{_REGISTERS}|(?m:{_RECORD})".encode(), re.DOTALL),
    },
}
BACKENDS = ("cpu", "gpu", "dsp")  # whose kernels may be in the style of Qualcomm's generators
# SNPE 1.x: its UDO headers, or the generated header that includes them.  2.x has other names for all that kernels use.
_SNPE_1 = re.compile(
    rb'#\s*include\s*[<"](?:SnpeUdo/UdoImpl(?:Cpu|Gpu|Dsp)?\.h|[\w/]*ImplLib(?:Cpu|Gpu|Dsp)\.hpp?)[>"]'
)
# Headers of the Hexagon SDK that kernels include; without an SDK, udogen's are used.
_HEXAGON_HEADERS = ("HAP_farf.h", "hvx_internal.h", "qhmath_hvx.h")
_NO_CODE = re.compile(rb'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)  # comments and literals


def code(source: bytes) -> bytes:
    """A source without comments and literals."""
    return _NO_CODE.sub(b" ", source)


def without_comments(source: bytes) -> bytes:
    """A source without comments, with its literals."""
    return _NO_CODE.sub(lambda match: match[0] if match[0].startswith(b'"') else b" ", source)


def style(backend: str, source: bytes) -> str:
    """The style of a kernel: `vendor`, for HTP `core` or `qhpi`; empty for `execute(const Args&)`."""
    plain = code(source)
    return next((name for name, mark in _MARKS.get(backend, {}).items() if mark.search(plain)), "")


def is_for_snpe_1(source: bytes) -> bool:
    """Whether a source uses the UDO interface of SNPE 1.x, which SNPE 2 and QNN do not have."""
    return bool(_SNPE_1.search(source))


def refuse_snpe_1(backend: str, kernels: Mapping[str, bytes]) -> None:
    """Raise if a kernel uses the UDO interface of SNPE 1.x."""
    if old := sorted(op for op, text in kernels.items() if is_for_snpe_1(text)):
        raise UsageError(
            f"the kernels for {backend} of {', '.join(old)} use the UDO interface of SNPE 1.x (SnpeUdo_…), which "
            "SNPE 2 and QNN do not have",
            hint="move their computation into kernels that `udogen generate` writes",
        )


# The functions that compute, by style: GPU ones describe their kernels.
_COMPUTES = {
    "cpu": r"execute\s*\(",
    "gpu": r"setKernelInfo\s*\(",
    "dsp": r"\w*[eE]xecute\w*\s*\(",
    "core": r"\w+Impl\s*\(",
    "htp": r"\w+\s*\(\s*QHPI_RuntimeHandle\b",
}
_SAYS_NOTHING = re.compile(
    r"\breturn\b[^;]*;|\b(?:KERNEL_)?RETURN\s*\([^;]*?\)\s*;?|\bQnnGpu_Kernel_t\s+\w+\s*=\s*\w+\s*;"
    r"|\(\s*void\s*\)\s*\w+\s*;|[;{}]"
)


def has_no_code(style: str, source: bytes) -> bool:
    """Whether all functions that compute are as the generator writes them: they only return."""
    text = code(source).decode("utf-8", "replace")
    bodies = []
    for head in re.finditer(rf"\b{_COMPUTES[style]}[^;{{}}]*\)\s*\{{", text):
        bodies.append(_block(text, head.end()))
    return bool(bodies) and not any(_SAYS_NOTHING.sub("", body).strip() for body in bodies)


_REGISTRATION = re.compile(rf'(\bextern\s*"C"\s*)?{_REGISTERS}')


def registrations(sources: Iterable[bytes]) -> tuple[RegisterFunction, ...]:
    """The functions with which kernels for HTP register their ops with QHPI.

    A source whose records another one registers (`extern QHPI_OpInfo_v1 …`) needs no function of its own.
    """
    plain = [
        without_comments(source).decode("utf-8", "replace") for source in sources if style("htp", source) == "qhpi"
    ]
    borrowed = {name for text in plain for name in _records(text, borrowed=True)}
    return tuple(
        RegisterFunction(match[2], bool(match[1]) or _in_c_block(text[: match.start()]))
        for text in plain
        if not borrowed & _records(text, borrowed=False)
        for match in _REGISTRATION.finditer(text)
    )


def _records(text: str, *, borrowed: bool) -> set[str]:
    """The names of the records that a source has; `borrowed`: those that it only declares."""
    return {
        match[1]
        for match in re.finditer(rf"{_RECORD}(?=\s*(?:\[[^\]]*\]\s*)?([;={{,]))", text, re.MULTILINE)
        if (match[2] in ";,") == borrowed
    }


def qhpi_ops(source: bytes) -> list[str]:
    """The ops in a source's records for QHPI: names in initializers, and names that are assigned."""
    text = without_comments(source).decode("utf-8", "replace")
    name = r'"\w*::(?:"\s*")?(\w+)"'
    names = re.findall(rf"\.name\s*=[^;,]*?{name}", text)
    for record in re.finditer(r"\bQHPI_OpInfo_v1\s+\w+\s*(?:\[[^\]]*\]\s*)?=?\s*\{", text):
        names += re.findall(name, _block(text, record.end()))
    return list(dict.fromkeys(names))


def _block(text: str, begin: int) -> str:
    """The text from behind an opening brace to its closing one."""
    depth, end = 1, begin
    while depth and end < len(text):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[begin : end - 1]


def _in_c_block(before: str) -> bool:
    """Whether a block with C linkage that begins in this text is still open at its end."""
    return any(
        before.count("{", block.end()) >= before.count("}", block.end())
        for block in re.finditer(r'\bextern\s*"C"\s*\{', before)
    )


def hexagon_headers(kernels: Iterable[bytes]) -> tuple[str, ...]:
    """The headers of the Hexagon SDK that these sources include and udogen has, as files of a package."""
    included = {name for text in kernels for name in re.findall(rb'#\s*include\s*[<"]([\w.]+)[>"]', text)}
    return tuple(f"makefiles/hexagon/include/{name}" for name in _HEXAGON_HEADERS if name.encode() in included)


def have_hooks(kernels: Mapping[str, bytes]) -> bool:
    """Whether one of these kernels for HTP has hooks: its text has the word `Hooks`, or it is in Python."""
    return any(name.endswith(".py") or re.search(rb"\bHooks\b", text) for name, text in kernels.items())


def refuse_mixture(backend: str, package: OpPackage, source: Source, *, complete: bool = False) -> None:
    """Raise if kernels of a package have different styles; `complete`: also if a kernel is missing."""
    others = [op.name for op in package.ops if op.name not in source.vendor[backend]]
    others = [name for name in others if complete or name in source.kernels.get(backend, {})]
    if others:
        raise UsageError(
            f"the kernels for {backend} of {', '.join(source.vendor[backend])} are in the style of Qualcomm's "
            f"generators, those of {', '.join(others)} are {'missing or ' * complete}not",
            hint=f"use one package for each style: a package for {backend} has kernels of one style",
        )


def completed(package: OpPackage, source: Source) -> Source:
    """The source, in which CPU kernels that are only functions, as printed in documentation, are completed."""
    ops = {op.name: op for op in package.ops if op.name in source.vendor["cpu"]}
    given = source.kernels.get("cpu", {})
    kernels = {name: _complete(text, ops[name], package) if name in ops else text for name, text in given.items()}
    return replace(source, kernels={**source.kernels, "cpu": kernels})


def pasted(backend: str, kernels: Mapping[str, bytes]) -> dict[str, bytes]:
    """The kernels of a package that are only functions, pasted in place of the generated file."""
    functions = {op: code(text) for op, text in kernels.items() if backend == "cpu"}
    return {
        op: kernels[op]
        for op, text in functions.items()
        if b"REGISTER_OP" not in text and re.search(rb"\bexecute\s*\(", text)
    }


def _complete(kernel: bytes, op: Op, package: OpPackage) -> bytes:
    plain = code(kernel)
    if b"REGISTER_OP" in plain:
        return kernel
    space = f"{package.name}_{op.name}"
    head = '#include "CpuBackendUtils.hpp"\n#include "CustomOpPackage.hpp"\n\n'
    head += f"using namespace qnn::custom;\nusing namespace qnn::custom::utils;\n\nnamespace {space} {{\n"
    functions = [
        name if re.search(rf"\b{name}\s*\(".encode(), plain) else "nullptr"
        for name in ("execute", "finalize", "free", "validateOpConfig")
    ]
    tail = ""
    if not re.search(rb"\bpopulateFromNode\s*\(", plain):
        params = "".join(
            f"  if (getParam(node, {name}).first) operation->addParam({name}, getParam(node, {name}).second);\n"
            for name in (cpp_string(param.name) for param in op.params)
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
        f"  static CustomOpRegistration_t functions = {{{', '.join(functions)}, populateFromNode}};\n"
        f"  return &functions;\n}}\n\n}}  // namespace {space}\n\nREGISTER_OP({op.name}, {space}::registration)\n"
    )
    return head.encode() + kernel.rstrip() + b"\n" + tail.encode()
