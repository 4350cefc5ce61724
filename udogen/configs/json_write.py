"""Model -> JSON UDO config, with a warning of what JSON cannot store."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from udogen import backends
from udogen.findings import Findings
from udogen.opdef import values
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage, Rank, Tensor, TensorSupplement, Value

# Name of a backend -> SNPE's core: HTP is DSP with versions of Hexagon.
_CORES = {name: each.json_names[0] for each in backends.ALL.values() for name in each.json_names[::-1]}
# Layouts of Qualcomm's JSON reader (release 2.25); types that it lacks -> types with the same storage.
_LAYOUTS = ("NHWC", "NCHW", "NONTRIVIAL")
_STORED_ALIKE = {
    "UFIXED_POINT_8": "UINT_8",
    "UFIXED_POINT_16": "UINT_16",
    "UFIXED_POINT_32": "UINT_32",
    "SFIXED_POINT_32": "INT_32",
    "BOOL_8": "UINT_8",
}
_VERSIONS = (65, 66, 68, 69, 73, 75, 79)


def write(packages: Sequence[OpPackage], findings: Findings) -> str:
    """The `UdoPackage_i` of all packages."""
    body = {f"UdoPackage_{index}": _Writer(package, findings).package() for index, package in enumerate(packages)}
    return json.dumps(body, indent=4, ensure_ascii=False) + "\n"


class _Writer:
    """Writes one package, and collects what JSON cannot store."""

    def __init__(self, package: OpPackage, findings: Findings) -> None:
        self._package, self._problems = package, findings
        self._lost: list[str] = []

    def package(self) -> dict[str, Any]:
        package = self._package
        for what, value in (("Domain", package.domain), ("Version", package.version), ("UseQHPI", package.use_qhpi)):
            if value not in ("", None):
                self._lost.append(f"{what} of `{package.name}`")
        known = {(op.name, tensor.role, tensor.name) for op in package.ops for tensor in op.tensors}
        for supplement in package.supplements:
            for entry in supplement.ops:
                for each in entry.tensors:
                    if (entry.name, each.role, each.name) not in known:
                        owner = f"`{each.name}` of `{entry.name}`"
                        self._lost.append(f"supplement of {supplement.backend} for {owner}, which is not defined")
            if supplement.runtime:
                self._lost.append(f"Runtime of the supplement of {supplement.backend}")
        row: dict[str, Any] = {
            "Operators": [self._op(op) for op in package.ops],
            "UDO_PACKAGE_NAME": package.name,
        }
        if package.output_path:
            row["UDO_PACKAGE_PATH"] = package.output_path
        if package.snpe_udo_root:
            row["SNPE_UDO_ROOT"] = package.snpe_udo_root
        if self._lost:
            number = f"{len(self._lost)} item{'s' * (len(self._lost) > 1)}"
            self._problems.warn(package.location, f"JSON UDO cannot store {number}: {'; '.join(self._lost)}")
        return row

    def _op(self, op: Op) -> dict[str, Any]:
        for what, exists in (
            ("description", op.description),
            ("references", op.references),
            ("UseDefaultTranslation", op.use_default_translation is not None),
        ):
            if exists:
                self._lost.append(f"{what} of `{op.name}`")
        scalars = [param for param in op.params if param.is_scalar]
        tensors = [param for param in op.params if not param.is_scalar]
        if tuple(scalars + tensors) != op.params:
            self._problems.warn(
                op.location,
                f"the order of the parameters of `{op.name}` changes",
                "JSON has all scalar parameters before the tensor parameters",
            )
        groups = {"inputs": op.inputs, "outputs": op.outputs, "scalar_params": scalars, "tensor_params": tensors}
        row: dict[str, Any] = {"type": op.name}
        row |= {key: [self._tensor(tensor, op) for tensor in group] for key, group in groups.items() if group}
        cores, archs = self._cores(op)
        row["core_types"] = list(cores)
        if archs:
            row["dsp_arch_types"] = list(archs)
        return row

    def _cores(self, op: Op) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """`core_types` and `dsp_arch_types`."""
        named, archs = backends.of_supplements(op, self._package)
        for name in named:
            core = _CORES.get(name)
            if core is None:
                self._lost.append(f"backend {name} of `{op.name}`")
            elif core != name:
                every = core in named and not archs  # without a version, the core is of those before this backend
                hexagon = next(backend.hexagon for backend in backends.ALL.values() if name in backend.names)
                archs = tuple(
                    dict.fromkeys((*archs, *(f"v{version}" for version in _VERSIONS if every or version in hexagon)))
                )
                self._problems.warn(
                    op.location,
                    f"the backend {name} of `{op.name}` is written as {core} with dsp_arch_types {', '.join(archs)}",
                    "SNPE's name for it; remove the versions that you do not need",
                )
        return tuple(dict.fromkeys(_CORES[name] for name in named if name in _CORES)), archs

    def _tensor(self, tensor: Tensor, op: Op) -> dict[str, Any]:
        owner = f"`{tensor.name}` of `{op.name}`"
        supported = backends.of_op(op, self._package)
        written = _one(tensor, tensor.datatypes, supported)
        self._lost += [f"{loss} of {owner}" for loss in _losses(tensor, written)]
        per_core = self._per_core(tensor, op, supported)
        row: dict[str, Any] = {"name": tensor.name}
        if per_core and tensor.backend_specific:
            row["per_core_data_types"] = per_core
        else:
            if per_core:
                self._lost.append(f"data types in supplements of {owner}")
            if written is not None:
                row["data_type"] = self._type(written, tensor, op)
        optional = {
            "default_value": tensor.default_text or None if tensor.default is None else _plain(tensor.default),
            "static": tensor.static or None,
            "repeated": tensor.repeated or None,
            "tensor_layout": tensor.layout if tensor.layout in _LAYOUTS and not tensor.is_scalar else None,
            "quantization_mode": tensor.quantization_mode or None,
        }
        return row | {key: value for key, value in optional.items() if value is not None}

    def _per_core(self, tensor: Tensor, op: Op, supported: Sequence[str]) -> dict[str, str]:
        """The type of a tensor on each core, from supplements."""
        types: dict[str, str] = {}
        for core, entry in _supplements(tensor, op, self._package):
            owner = f"`{tensor.name}` of `{op.name}` on {core}"
            cores = [backend for backend in supported if core in backends.ALL[backend].json_names]
            own = _one(tensor, entry.datatypes, cores)
            if own is not None:
                word = self._type(own, tensor, op)
                if types.setdefault(core, word) != word:
                    self._lost.append(f"data type {own.name} of {owner}, besides {types[core]}")
            self._lost += [f"{loss} of {owner}" for loss in _supplement_losses(entry)]
        return types

    def _type(self, datatype: DataType, tensor: Tensor, op: Op) -> str:
        """The name of a type for Qualcomm's JSON reader."""
        alike = _STORED_ALIKE.get(datatype.name)
        if alike is None:
            return datatype.name
        what = f"the data type {datatype.name} of `{tensor.name}` of `{op.name}` is written as {alike}"
        self._problems.warn(tensor.location, what, "Qualcomm's JSON reader has only this name for types stored so")
        return alike


def _plain(value: Value) -> Any:
    """A default in JSON: numbers and lists; text for infinities and NaN."""
    finite = all(math.isfinite(leaf) for leaf in values.flatten(value) if isinstance(leaf, float))
    return value if finite else values.show(value)


def _one(tensor: Tensor, datatypes: Sequence[DataType], supported: Sequence[str]) -> DataType | None:
    """The type that holds the default and is delivered by most of these backends."""

    def faults(datatype: DataType) -> tuple[bool, int]:
        unfit = tensor.default is not None and values.fault_of_default(tensor.default, datatype, Rank()) is not None
        return unfit, sum(not backends.delivers(backend, datatype, tensor) for backend in supported)

    return min(datatypes, key=faults, default=None)


def _losses(tensor: Tensor, written: DataType | None) -> Iterator[str]:
    """What JSON cannot store.  In JSON a parameter is mandatory if it has no default; inputs and outputs always are."""
    mandatory = tensor.role != "param" or (tensor.default is None and not tensor.default_text)
    if len(tensor.datatypes) > 1:
        yield "data type " + ", ".join(datatype.name for datatype in tensor.datatypes if datatype is not written)
    if tensor.is_scalar:
        if not tensor.rank.scalar:
            yield f"rank {tensor.rank} (becomes a scalar)"
    elif tensor.rank != Rank():
        yield f"rank {tensor.rank}"
    for what, exists in (
        (f"<Mandatory>{str(tensor.mandatory).lower()}</Mandatory>", tensor.mandatory != mandatory),
        ("enumeration", tensor.enum),
        ("constraints", tensor.constraints),
        ("description", tensor.description),
        ("text of the shape", tensor.shape_text),
        ("QuantParam", tensor.quant),
        ("DynamicShape", tensor.dynamic_shape is not None),
        ("OnlyDefaultSupported", tensor.only_default),
        (f"layout {tensor.layout}", tensor.layout and (tensor.is_scalar or tensor.layout not in _LAYOUTS)),
    ):
        if exists:
            yield what


def _supplement_losses(entry: TensorSupplement) -> Iterator[str]:
    if len(entry.datatypes) > 1:
        yield "all but one data type"
    for what, exists in (
        ("layout", entry.layouts),
        ("text of the shape", entry.shape_text),
        ("default", entry.default is not None),
        ("constraints", entry.constraints),
        ("QuantParam", entry.quant),
        ("OnlyDefaultSupported", entry.only_default),
    ):
        if exists:
            yield what


def _supplements(tensor: Tensor, op: Op, package: OpPackage) -> Iterator[tuple[str, TensorSupplement]]:
    """The supplements of a tensor, by core."""
    for supplement in package.supplements:
        [name], _ = backends.split_dsp([supplement.backend])
        if name not in _CORES:
            continue
        for entry in supplement.ops:
            if entry.name == op.name:
                for each in entry.tensors:
                    if (each.role, each.name) == (tensor.role, tensor.name):
                        yield _CORES[name], each
