"""Model -> JSON UDO config.  What the language has no word for becomes a named warning."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from udogen import backends
from udogen.opdef import values
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage, Rank, Tensor, TensorSupplement, Value
from udogen.opdef.problems import Problems

_CORES = tuple(dict.fromkeys(name for each in backends.ALL.values() for name in each.json_names))
_NO_WORD = "the JSON language has no word for it"


def write(packages: Sequence[OpPackage], problems: Problems) -> str:
    """The `UdoPackage_i` of all packages."""
    body = {f"UdoPackage_{index}": _package(package, problems) for index, package in enumerate(packages)}
    return json.dumps(body, indent=4, ensure_ascii=False) + "\n"


def _package(package: OpPackage, problems: Problems) -> dict[str, Any]:
    for what, value in (("Domain", package.domain), ("Version", package.version), ("UseQHPI", package.use_qhpi)):
        if value not in ("", None):
            problems.warn(package.location, f"{what} `{value}` of `{package.name}` is lost", _NO_WORD)
    known = {(op.name, tensor.role, tensor.name) for op in package.ops for tensor in op.tensors}
    for supplement in package.supplements:
        for entry in supplement.ops:
            for each in entry.tensors:
                if (entry.name, each.role, each.name) not in known:
                    what = f"the supplement of {supplement.backend} for `{each.name}` of `{entry.name}`"
                    problems.warn(each.location, f"{what}: lost", "there is nothing of this name to supplement")
        if supplement.runtime:
            problems.warn(supplement.location, f"Runtime of the supplement of {supplement.backend} is lost", _NO_WORD)
    found: dict[str, Any] = {
        "Operators": [_op(op, package, problems) for op in package.ops],
        "UDO_PACKAGE_NAME": package.name,
    }
    if package.output_path:
        found["UDO_PACKAGE_PATH"] = package.output_path
    if package.snpe_udo_root:
        found["SNPE_UDO_ROOT"] = package.snpe_udo_root
    return found


def _op(op: Op, package: OpPackage, problems: Problems) -> dict[str, Any]:
    for what, there in (
        ("the description", op.description),
        ("the references", op.references),
        ("UseDefaultTranslation", op.use_default_translation is not None),
    ):
        if there:
            problems.warn(op.location, f"{what} of `{op.name}`: lost", _NO_WORD)
    scalars = [param for param in op.params if param.is_scalar]
    tensors = [param for param in op.params if not param.is_scalar]
    if tuple(scalars + tensors) != op.params:
        problems.warn(
            op.location,
            f"the order of the parameters of `{op.name}` changes",
            "JSON has all scalar parameters before the tensor parameters",
        )
    found: dict[str, Any] = {"type": op.name}
    for key, group in (
        ("inputs", op.inputs), ("outputs", op.outputs), ("scalar_params", scalars), ("tensor_params", tensors),
    ):  # fmt: skip
        if group:
            found[key] = [_tensor(tensor, op, package, problems) for tensor in group]
    named, archs = backends.of_supplements(op, package)
    for name in named:
        if name not in _CORES:
            problems.warn(op.location, f"the backend {name} of `{op.name}` is lost", "JSON knows " + ", ".join(_CORES))
    found["core_types"] = [name for name in named if name in _CORES]
    if archs:
        found["dsp_arch_types"] = list(archs)
    return found


def _tensor(tensor: Tensor, op: Op, package: OpPackage, problems: Problems) -> dict[str, Any]:
    supported = backends.of_op(op, package)
    written = _one(tensor, tensor.datatypes, supported)
    for loss in _losses(tensor, written):
        problems.warn(tensor.location, f"{loss} of `{tensor.name}` of `{op.name}`: lost", _NO_WORD)
    found: dict[str, Any] = {"name": tensor.name}
    per_core: dict[str, str] = {}
    for core, entry in _supplements(tensor, op, package):
        cores = [each for each in supported if core.startswith(backends.ALL[each].json_names)]
        own = _one(tensor, entry.datatypes, cores)
        if own is not None:
            per_core[core] = own.snpe or own.name
        for loss in _supplement_losses(entry):
            problems.warn(entry.location, f"{loss} of `{tensor.name}` of `{op.name}` on {core}: lost", _NO_WORD)
    if per_core and tensor.backend_specific:
        found["per_core_data_types"] = per_core
    else:
        if per_core:
            problems.warn(
                tensor.location,
                f"the data types of `{tensor.name}` of `{op.name}` in supplements: lost",
                "JSON has either one type for all cores or one for each",
            )
        if written is not None:
            found["data_type"] = written.snpe or written.name
    optional = {
        "default_value": tensor.default_text or None if tensor.default is None else _plain(tensor.default),
        "static": tensor.static or None,
        "repeated": tensor.repeated or None,
        "tensor_layout": tensor.layout or None,
        "quantization_mode": tensor.quantization_mode or None,
    }
    return found | {key: value for key, value in optional.items() if value is not None}


def _plain(value: Value) -> Any:
    """A default as JSON has it: numbers and lists; a text where JSON has no such number."""
    finite = all(math.isfinite(leaf) for leaf in values.flatten(value) if isinstance(leaf, float))
    return value if finite else values.show(value)


def _one(tensor: Tensor, datatypes: Sequence[DataType], supported: Sequence[str]) -> DataType | None:
    """One type for all of them: it holds the default, and the backends of the op deliver it."""

    def faults(datatype: DataType) -> tuple[bool, int]:
        unfit = tensor.default is not None and values.fault_of_default(tensor.default, datatype, Rank()) is not None
        return unfit, sum(not backends.delivers(each, datatype, tensor) for each in supported)

    return min(datatypes, key=faults, default=None)


def _losses(tensor: Tensor, written: DataType | None) -> Iterator[str]:
    """What JSON has no word for, by name.  There, a parameter is mandatory if it has no default; the rest always is."""
    mandatory = tensor.role != "param" or (tensor.default is None and not tensor.default_text)
    if len(tensor.datatypes) > 1:
        yield "the data type " + ", ".join(each.name for each in tensor.datatypes if each is not written)
    if tensor.is_scalar:
        if not tensor.rank.scalar:
            yield f"the rank {tensor.rank} (it becomes a scalar)"
    elif tensor.rank != Rank():
        yield f"the rank {tensor.rank}"
    for what, there in (
        (f"<Mandatory>{str(tensor.mandatory).lower()}</Mandatory>", tensor.mandatory != mandatory),
        ("the enumeration", tensor.enum),
        ("the constraints", tensor.constraints),
        ("the description", tensor.description),
        ("the text of the shape", tensor.shape_text),
        ("QuantParam", tensor.quant),
        ("DynamicShape", tensor.dynamic_shape is not None),
        ("OnlyDefaultSupported", tensor.only_default),
        ("the layout", tensor.layout and tensor.is_scalar),
    ):
        if there:
            yield what


def _supplement_losses(entry: TensorSupplement) -> Iterator[str]:
    if len(entry.datatypes) > 1:
        yield "all data types but one"
    for what, there in (
        ("the layout", entry.layouts),
        ("the text of the shape", entry.shape_text),
        ("the default", entry.default is not None),
        ("the constraints", entry.constraints),
        ("QuantParam", entry.quant),
        ("OnlyDefaultSupported", entry.only_default),
    ):
        if there:
            yield what


def _supplements(tensor: Tensor, op: Op, package: OpPackage) -> Iterator[tuple[str, TensorSupplement]]:
    for supplement in package.supplements:
        for entry in supplement.ops:
            if entry.name == op.name:
                for each in entry.tensors:
                    if (each.role, each.name) == (tensor.role, tensor.name):
                        yield supplement.backend, each
