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

# SNPE's name of the core of each name of a backend: HTP is DSP with the versions of Hexagon.
_CORES = {name: each.json_names[0] for each in backends.ALL.values() for name in each.json_names[::-1]}
_NO_WORD = "the JSON language has no word for it"

# What Qualcomm's reader of JSON knows (release 2.25), and what is stored alike where it lacks a type.
_LAYOUTS = ("NHWC", "NCHW", "NONTRIVIAL")
_STORED_ALIKE = {
    "UFIXED_POINT_8": "UINT_8",
    "UFIXED_POINT_16": "UINT_16",
    "UFIXED_POINT_32": "UINT_32",
    "SFIXED_POINT_32": "INT_32",
    "BOOL_8": "UINT_8",
}
_VERSIONS = (65, 66, 68, 69, 73, 75, 79)


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
    cores, archs = _cores(op, package, problems)
    found["core_types"] = list(cores)
    if archs:
        found["dsp_arch_types"] = list(archs)
    return found


def _cores(op: Op, package: OpPackage, problems: Problems) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`core_types` and `dsp_arch_types`."""
    named, archs = backends.of_supplements(op, package)
    known = ", ".join(dict.fromkeys(_CORES.values()))
    for name in named:
        core = _CORES.get(name)
        if core is None:
            problems.warn(op.location, f"the backend {name} of `{op.name}` is lost", f"JSON knows {known}")
        elif core != name:
            every = core in named and not archs  # that core without a version: those before this backend
            hexagon = next(each.hexagon for each in backends.ALL.values() if name in each.names)
            archs = tuple(dict.fromkeys((*archs, *(f"v{each}" for each in _VERSIONS if every or each in hexagon))))
            problems.warn(
                op.location,
                f"the backend {name} of `{op.name}` is written as {core} with dsp_arch_types {', '.join(archs)}",
                "which is what SNPE calls it; remove the versions that you do not need",
            )
    return tuple(dict.fromkeys(_CORES[name] for name in named if name in _CORES)), archs


def _tensor(tensor: Tensor, op: Op, package: OpPackage, problems: Problems) -> dict[str, Any]:
    supported = backends.of_op(op, package)
    written = _one(tensor, tensor.datatypes, supported)
    for loss in _losses(tensor, written):
        problems.warn(tensor.location, f"{loss} of `{tensor.name}` of `{op.name}`: lost", _NO_WORD)
    found: dict[str, Any] = {"name": tensor.name}
    per_core: dict[str, str] = {}
    for core, entry in _supplements(tensor, op, package):
        cores = [each for each in supported if core in backends.ALL[each].json_names]
        own = _one(tensor, entry.datatypes, cores)
        if own is not None:
            word = _type(own, tensor, op, problems)
            if per_core.setdefault(core, word) != word:
                what = f"the data type {own.name} of `{tensor.name}` of `{op.name}` on {core}"
                problems.warn(entry.location, f"{what}: lost", f"JSON has one type for all versions: {per_core[core]}")
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
            found["data_type"] = _type(written, tensor, op, problems)
    optional = {
        "default_value": tensor.default_text or None if tensor.default is None else _plain(tensor.default),
        "static": tensor.static or None,
        "repeated": tensor.repeated or None,
        "tensor_layout": tensor.layout if tensor.layout in _LAYOUTS and not tensor.is_scalar else None,
        "quantization_mode": tensor.quantization_mode or None,
    }
    return found | {key: value for key, value in optional.items() if value is not None}


def _type(datatype: DataType, tensor: Tensor, op: Op, problems: Problems) -> str:
    """The name of a type as Qualcomm's reader takes it."""
    alike = _STORED_ALIKE.get(datatype.name)
    if alike is None:
        return datatype.name
    what = f"the data type {datatype.name} of `{tensor.name}` of `{op.name}` is written as {alike}"
    problems.warn(tensor.location, what, "Qualcomm's reader of JSON knows no other name for what is stored so")
    return alike


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
        (f"the layout {tensor.layout}", tensor.layout and (tensor.is_scalar or tensor.layout not in _LAYOUTS)),
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
    """What supplements have of a tensor, by core."""
    for supplement in package.supplements:
        [name], _ = backends.split_dsp([supplement.backend])
        if name not in _CORES:
            continue
        for entry in supplement.ops:
            if entry.name == op.name:
                for each in entry.tensors:
                    if (each.role, each.name) == (tensor.role, tensor.name):
                        yield _CORES[name], each
