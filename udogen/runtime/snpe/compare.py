"""Whether an implementation library of SNPE is the one that its registration speaks of, as far as can be found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from udogen.backends.plan import PROVIDER
from udogen.build import elf
from udogen.errors import RunFailed
from udogen.runtime.failures import Situation
from udogen.runtime.op.calls import OpPackageInfo
from udogen.runtime.package_queries import (
    DescribedOp,
    DescribedParam,
    DescribedTensor,
    JudgeOps,
    OpsJudged,
    ask,
    read_records,
)
from udogen.runtime.snpe.registration import RegisteredOp, RegisteredParam, RegisteredTensor, Registration

_SECONDS = 30.0


class OtherPackage(RunFailed):
    """An implementation library is of another package than its registration."""

    kind = "udo-other-package"


class OtherOps(RunFailed):
    """An implementation library has other ops than its registration, or the same ones otherwise."""

    kind = "udo-other-ops"


# How QHPI calls what SNPE calls by these words.
_ELEMENTS = {
    "FLOAT_16": {"Float16"},
    "FLOAT_32": {"Float32"},
    "INT_8": {"QInt8"},
    "INT_16": {"QInt16"},
    "INT_32": {"Int32", "QInt32"},
    "UINT_8": {"QUInt8"},
    "UINT_16": {"QUInt16"},
    "UINT_32": {"Int32"},
    "FIXED_8": {"QUInt8", "QInt8"},
    "FIXED_16": {"QUInt16", "QInt16"},
    "FIXED_32": {"QInt32", "Int32"},
}
_ANY = "Any_Element_Type"

# What a word of SNPE may stand for in QNN, the usual one first.
_MEANS = {
    "UINT_8": ("UINT_8", "UFIXED_POINT_8", "BOOL_8"),
    "UINT_16": ("UINT_16", "UFIXED_POINT_16"),
    "UINT_32": ("UINT_32", "UFIXED_POINT_32", "UINT_64"),
    "INT_8": ("INT_8", "SFIXED_POINT_8", "BOOL_8"),
    "INT_16": ("INT_16", "SFIXED_POINT_16"),
    "INT_32": ("INT_32", "SFIXED_POINT_32", "INT_64"),
    "FIXED_4": ("UFIXED_POINT_4", "SFIXED_POINT_4"),
    "FIXED_8": ("UFIXED_POINT_8", "SFIXED_POINT_8", "UINT_8", "INT_8"),
    "FIXED_16": ("UFIXED_POINT_16", "SFIXED_POINT_16", "UINT_16", "INT_16"),
    "FIXED_32": ("UFIXED_POINT_32", "SFIXED_POINT_32", "UINT_32", "INT_32"),
    "FLOAT_16": ("FLOAT_16", "BFLOAT_16"),
    "FLOAT_32": ("FLOAT_32", "FLOAT_64"),
}


def provider_of(registration: Registration) -> str:
    """The symbol that registers a core's library in QNN."""
    return f"{registration.package}{PROVIDER}"


def check_provider(registration: Registration, core: str, path: Path) -> None:
    """Refuse a library that exports no provider of the package."""
    exports = elf.read(path).exports
    there = sorted(name for name in exports if name.endswith(PROVIDER))
    if provider_of(registration) in there:
        return
    if there:
        raise _other_package(registration, core, path, " and ".join(name.removesuffix(PROVIDER) for name in there))
    raise OtherPackage(
        f"{path} exports no {provider_of(registration)}: it is no op package",
        hint=f"it must be the {core} library of package {registration.package}; build it again",
    )


def _other_package(registration: Registration, core: str, path: Path, name: str) -> OtherPackage:
    return OtherPackage(
        f"{path} is of package {name}, and {registration.path.name} registers package {registration.package}",
        hint=f"put the {core} library of {registration.package} first in LD_LIBRARY_PATH",
    )


def compare_names(registration: Registration, core: str, path: Path, package: OpPackageInfo) -> tuple[str, ...]:
    """Compare the names in a library with the registration; returns what was compared."""
    if package.name and package.name != registration.package:
        raise _other_package(registration, core, path, package.name)
    registered = [op.type for op in registration.ops_of(core)]
    if not package.operations:
        return ("package",) if package.name else ()
    alone = len(registration.libraries_of(core)) == 1  # several libraries share the ops of a core
    absent = [name for name in registered if alone and name not in package.operations]
    further = [name for name in package.operations if name not in registered]
    if absent or further:
        parts = [f"it has not {', '.join(absent)}"] if absent else []
        parts += [f"it has {', '.join(further)}, which {registration.path.name} does not know"] if further else []
        raise OtherOps(
            f"{path} has other ops than its registration: {'; '.join(parts)}",
            hint="generate and build both from the same config",
        )
    return ("package", "ops")


def compare_records(registration: Registration, path: Path, found: elf.Elf) -> bool:
    """Compare the kernels of HTP with the registration; False where there are none."""
    if "qhpi_init" not in found.exports:
        return False
    undefined = [symbol.name for symbol in found.imports if symbol.name.startswith("qhpi_")]
    records = {row["name"]: row["kernels"] for row in read_records(path, undefined, timeout=_SECONDS).ops}
    for op in registration.ops_of("DSP"):
        kernels = records.get(f"{registration.package}::{op.type}", [])
        faults = [_fault(op, kernel) for kernel in kernels]
        if kernels and all(faults):
            raise OtherOps(
                f"op {op.type} of {path} is not as its registration describes it: {faults[0]}",
                hint="generate and build both from the same config",
            )
    return bool(records)


def compare_validation(registration: Registration, path: Path) -> bool:
    """Whether the library's own validation accepts every op as it is registered; False where that cannot be found out.

    The interface of a CPU package has names only; what its ops take, only its validation knows.
    """
    ops = registration.ops_of("CPU")
    if any(tensor.types.get("CPU") not in _MEANS for op in ops for tensor in (*op.inputs, *op.outputs)):
        return False
    command = JudgeOps(
        path.resolve(), provider_of(registration), registration.package, tuple(_described(op) for op in ops)
    )
    judged = ask(command, OpsJudged, Situation(str(path)), _SECONDS).ops
    for op, row in zip(ops, judged, strict=False):
        if row.other:
            reason = row.reason.removeprefix(f"op {op.type}: ")
            raise OtherOps(
                f"op {op.type} of {path} is not as its registration describes it; as registered, {reason}",
                hint="generate and build both from the same config",
            )
    return bool(judged) and all(row.accepted for row in judged)


def _described(op: RegisteredOp) -> DescribedOp:
    def side(tensors: Sequence[RegisteredTensor]) -> tuple[DescribedTensor, ...]:
        return tuple(DescribedTensor(each.name, _MEANS[each.types["CPU"]]) for each in tensors)

    def param(each: RegisteredParam) -> DescribedParam:
        types = ("STRING",) if each.kind == "string" else _MEANS.get(each.type, ("FLOAT_32",))
        if each.kind == "tensor":
            return DescribedParam(each.name, types, each.shape, None)
        return DescribedParam(each.name, types, None, each.value)

    return DescribedOp(op.type, side(op.inputs), side(op.outputs), tuple(param(each) for each in op.params))


def _fault(op: RegisteredOp, kernel: Mapping[str, Any]) -> str:
    """In what a kernel does not fit the registration; parameters arrive as further inputs."""
    inputs, outputs = kernel["inputs"], kernel["outputs"]
    if len(outputs) != len(op.outputs):
        return f"its kernel writes {len(outputs)} outputs, registered are {len(op.outputs)}"
    if not len(op.inputs) <= len(inputs) <= len(op.inputs) + len(op.params):
        most = f" and {len(op.params)} parameters" if op.params else ""
        return f"its kernel takes {len(inputs)} inputs, registered are {len(op.inputs)}{most}"
    for tensor, record in (*zip(op.inputs, inputs, strict=False), *zip(op.outputs, outputs, strict=True)):
        if not _same_type(tensor, record["type"]):
            return f"its kernel has {record['type']} for `{tensor.name}`, registered is {tensor.types.get('DSP')}"
    return ""


def _same_type(tensor: RegisteredTensor, element: str) -> bool:
    word = tensor.types.get("DSP", "")
    return element == _ANY or word not in _ELEMENTS or element in _ELEMENTS[word]
