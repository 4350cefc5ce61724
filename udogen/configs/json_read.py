"""JSON UDO config -> model.

`per_core_data_types` becomes a BACKEND_SPECIFIC type and a supplement per core, as in XML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from udogen.backends import architectures, canonical, split_dsp
from udogen.documents.document import Node, parse
from udogen.documents.typed import INVALID, Hint, one_of, read_keys, require, value_of
from udogen.errors import UsageError, nearest
from udogen.findings import Findings, Location
from udogen.opdef import datatypes, values
from udogen.opdef.model import Op, OpPackage, OpSupplement, Rank, Supplement, Tensor, TensorSupplement, Value

_LISTS = {"inputs": "input", "outputs": "output", "tensor_params": "param", "scalar_params": "param"}


def read(data: bytes, file: str, findings: Findings) -> list[OpPackage]:
    """The packages of the file; none if something in it is wrong."""
    before = len(findings.errors)
    document = parse(data, file, findings)
    packages = INVALID if document is None else value_of(document.top, _PACKAGES)
    if packages is INVALID or len(findings.errors) > before:
        return []
    return [_package(package, findings) for package in packages.values()]


# --- keys: as in schemas/udo_config.schema.json -----------------------------------------------------------------------


def _datatype(node: Node) -> Any:
    text = value_of(node, str)
    datatype = INVALID if text is INVALID else datatypes.parse(text)
    if datatype is None:
        near = nearest(text, datatypes.spellings(), cutoff=0.75)
        raise UsageError(
            f"{node.shown} is not a data type",
            hint=f"did you mean {near}?" if near else "such as FLOAT_32, FIXED_8, UINT_8, INT_32",
        )
    return datatype


def _architecture(node: Node) -> Any:
    text = value_of(node, str)
    if text is not INVALID and not re.fullmatch(r"[vV]\d{2}", text):
        raise UsageError(f"{node.shown} is not a DSP architecture", hint=f"one of: {', '.join(architectures.ALL)}")
    return text


def _default(node: Node) -> object:
    values = node.value if isinstance(node.value, list) else [node.value]
    kinds = (bool, int, float, list) if isinstance(node.value, list) else (bool, int, float, str)
    if not all(isinstance(value, kinds) for value in values):
        raise UsageError(f"{node.shown} is not a value", hint='for example 1, [1, 1], true or "MODE"')
    return node.value


@dataclass(frozen=True)
class _Object:
    """An object with its known keys."""

    node: Node
    values: Mapping[str, Any]

    def get(self, key: str, otherwise: Any = "") -> Any:
        """The value of a key."""
        return self.values.get(key, otherwise)

    def place(self, *keys: str) -> Location:
        """The line of the object, or of something in it."""
        return self.node.document.place((*self.node.path, *keys))


def _object(keys: Mapping[str, Hint], *required: str) -> Hint:
    """A hint: an object with these keys; others are ignored with a warning."""

    def read(node: Node) -> Any:
        if not isinstance(node.value, dict):
            return value_of(node, Mapping[str, object])
        for name in required:
            require(node, name)
        return _Object(node, read_keys(node, keys, strict=False))

    return read


def _filled(hint: Hint) -> Hint:
    """A hint: a list or an object that is not empty."""

    def read(node: Node) -> Any:
        if node.value in ([], {}):
            node.error(f"{node.key} is empty", "add at least one")
            return INVALID
        return value_of(node, hint)

    return read


_PER_CORE = Mapping[str, Annotated[Any, _datatype]]
_SCALAR: Mapping[str, Hint] = {
    "name": str,
    "data_type": _datatype,
    "per_core_data_types": _PER_CORE,
    "per_core_data_type": _PER_CORE,
    "default_value": _default,
}
_LAYOUTS = ("", "NCHW", "NHWC", "NHCW", "NDHWC", "NCDHW", "NONTRIVIAL", "UNDEFINED", "BACKEND_SPECIFIC")
_TENSOR: Mapping[str, Hint] = {
    **_SCALAR,
    "static": bool,
    "repeated": bool,
    "tensor_layout": one_of(_LAYOUTS),
    "quantization_mode": str,
}
_OPERATOR: Mapping[str, Hint] = {
    "type": str,
    "inputs": _filled(tuple[Annotated[Any, _object(_TENSOR)], ...]),
    "outputs": _filled(tuple[Annotated[Any, _object(_TENSOR)], ...]),
    "scalar_params": tuple[Annotated[Any, _object(_SCALAR, "name")], ...],
    "tensor_params": tuple[Annotated[Any, _object(_TENSOR, "name")], ...],
    "core_types": tuple[Annotated[str, one_of(("CPU", "GPU", "DSP", "HTP"))], ...],
    "dsp_arch_types": tuple[Annotated[str, _architecture], ...],
}
_PACKAGE: Mapping[str, Hint] = {
    "Operators": _filled(tuple[Annotated[Any, _object(_OPERATOR, "type", "inputs", "outputs")], ...]),
    "UDO_PACKAGE_NAME": str,
    "UDO_PACKAGE_PATH": str,
    "SNPE_UDO_ROOT": str,
}
_PACKAGES = _filled(Mapping[str, Annotated[Any, _object(_PACKAGE, "Operators", "UDO_PACKAGE_NAME")]])


# --- the model --------------------------------------------------------------------------------------------------------

_PerCore = dict[str, dict[str, list[TensorSupplement]]]  # core -> op -> its supplements


def _package(body: _Object, findings: Findings) -> OpPackage:
    per_core: _PerCore = {}
    ops = tuple(_op(op, per_core, findings) for op in body.get("Operators"))
    return OpPackage(
        name=body.get("UDO_PACKAGE_NAME"),
        ops=ops,
        supplements=tuple(
            Supplement(
                backend=core,
                ops=tuple(OpSupplement(op, tuple(tensors)) for op, tensors in by_op.items()),
                location=next(iter(by_op.values()))[0].location,
            )
            for core, by_op in per_core.items()
        ),
        output_path=body.get("UDO_PACKAGE_PATH"),
        snpe_udo_root=body.get("SNPE_UDO_ROOT"),
        sources=(body.node.document.file,),
        language="json",
        location=body.place("UDO_PACKAGE_NAME"),
    )


def _op(body: _Object, per_core: _PerCore, findings: Findings) -> Op:
    name = body.get("type")
    tensors: dict[str, list[Tensor]] = {key: [] for key in _LISTS}
    for key, role in _LISTS.items():
        for index, row in enumerate(body.get(key, ())):
            tensors[key].append(tensor := _tensor(row, key, index, findings))
            for core, (datatype, place) in _per_core(row).items():
                extra = TensorSupplement(tensor.name, role, (datatype,), location=place)
                per_core.setdefault(canonical(core), {}).setdefault(name, []).append(extra)
    backends, _ = split_dsp(body.get("core_types", ()))
    archs = tuple(dict.fromkeys(arch.lower() for arch in body.get("dsp_arch_types", ())))
    if archs and "DSP" not in backends:
        findings.warn(
            body.place("dsp_arch_types"),
            f"`{name}` names DSP architectures, but DSP is not among its core_types",
            'add "DSP" to core_types, or remove dsp_arch_types',
        )
    return Op(
        name=name,
        inputs=tuple(tensors["inputs"]),
        outputs=tuple(tensors["outputs"]),
        params=tuple(tensors["scalar_params"] + tensors["tensor_params"]),
        backends=backends,
        dsp_archs=archs,
        location=body.place("type"),
    )


def _tensor(body: _Object, key: str, index: int, findings: Findings) -> Tensor:
    role, place, name = _LISTS[key], body.place(), body.get("name")
    if not name and role != "param":
        name = f"{role}_{index}"  # the documentation makes these names optional
    types = (body.get("data_type"),) if body.get("data_type") else ()
    if _per_core(body):
        if types:
            findings.warn(place, f"`{name}` has data_type and per_core_data_types", "per_core_data_types are used")
        types = (datatypes.BACKEND_SPECIFIC,)
    elif not types and role == "param":
        types = (datatypes.BY_NAME["FLOAT_32"],)
        findings.warn(place, f"parameter `{name}` has no data type", 'treated as "data_type": "FLOAT_32"')
    elif not types:
        findings.error(place, f"`{name}` has no data type", 'add "data_type" or "per_core_data_types"')
    default, default_text = _default_of(body, types, findings)
    return Tensor(
        name=name,
        role=role,
        datatypes=types,
        rank=Rank(scalar=key == "scalar_params"),
        layout=body.get("tensor_layout"),
        mandatory=role != "param" or "default_value" not in body.values,
        default=default,
        default_text=default_text,
        static=body.get("static", False),
        repeated=body.get("repeated", False),
        quantization_mode=body.get("quantization_mode"),
        location=place,
    )


def _default_of(body: _Object, types: tuple[datatypes.DataType, ...], findings: Findings) -> tuple[Value | None, str]:
    """`default_value`, which is in Qualcomm's examples and tools, but not in the documentation."""
    raw = body.get("default_value")
    text = " ".join(raw.split()) if isinstance(raw, str) else json.dumps(raw)
    if not text:
        return None, ""
    value = values.from_json(text if isinstance(raw, str) else raw, types)
    if value is not None and len(text) <= values.LONGEST:
        return value, ""
    findings.warn(
        body.place("default_value"),
        f"the default of `{body.get('name')}` is not a value: `{text[:60]}`",
        "it is stored as text; kernels see the parameter as absent",
    )
    return None, text[: values.LONGEST]


def _per_core(body: _Object) -> dict[str, tuple[datatypes.DataType, Location]]:
    return {
        core: (datatype, body.place(key, core))
        for key in ("per_core_data_type", "per_core_data_types")
        for core, datatype in body.get(key, {}).items()
    }
