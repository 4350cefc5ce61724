"""JSON UDO config -> model.

`per_core_data_types` becomes a BACKEND_SPECIFIC type and a supplement per core, as in XML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from udogen.backends import architectures, canonical, split_dsp
from udogen.documents.document import Document, Node, parse
from udogen.documents.json_text import Path
from udogen.documents.typed import INVALID, Hint, one_of, read_keys, require, value_of
from udogen.errors import UsageError
from udogen.findings import Findings, Location, nearest
from udogen.opdef import datatypes, values
from udogen.opdef.model import Op, OpPackage, OpSupplement, Rank, Supplement, Tensor, TensorSupplement, Value

_LISTS = {"inputs": "input", "outputs": "output", "tensor_params": "param", "scalar_params": "param"}


def read(data: bytes, file: str, findings: Findings) -> list[OpPackage]:
    """The packages of the file; none if something in it is wrong."""
    before = len(findings.errors)
    document = parse(data, file, findings)
    if document is None or value_of(document.top, _PACKAGES) is INVALID or len(findings.errors) > before:
        return []
    reader = _JsonReader(document, file, findings)
    return [reader.package((key,), body) for key, body in document.value.items()]


# --- keys: as in schemas/udo_config.schema.json -----------------------------------------------------------------------


def _datatype(node: Node) -> Any:
    text = value_of(node, str)
    if text is not INVALID and datatypes.parse(text) is None:
        near = nearest(text, datatypes.spellings(), cutoff=0.75)
        raise UsageError(
            f"{node.shown} is not a data type",
            hint=f"did you mean {near}?" if near else "such as FLOAT_32, FIXED_8, UINT_8, INT_32",
        )
    return text


def _architecture(node: Node) -> Any:
    text = value_of(node, str)
    if text is not INVALID and not re.fullmatch(r"[vV]\d{2}", text):
        raise UsageError(f"{node.shown} is not a DSP architecture", hint=f"one of: {', '.join(architectures.ALL)}")
    return text


def _default(node: Node) -> object:
    values = node.value if isinstance(node.value, list) else [node.value]
    kinds = (bool, int, float, list) if isinstance(node.value, list) else (bool, int, float, str)
    if not all(isinstance(each, kinds) for each in values):
        raise UsageError(f"{node.shown} is not a value", hint='for example 1, [1, 1], true or "MODE"')
    return node.value


def _object(keys: Mapping[str, Hint], *required: str) -> Hint:
    """A hint: an object with these keys; others are ignored with a warning."""

    def read(node: Node) -> Any:
        if not isinstance(node.value, dict):
            return value_of(node, Mapping[str, object])
        for name in required:
            require(node, name)
        return read_keys(node, keys, strict=False)

    return read


def _filled(hint: Hint) -> Hint:
    """A hint: a list or an object that is not empty."""

    def read(node: Node) -> Any:
        if node.value in ([], {}):
            node.error(f"{node.key} is empty", "add at least one")
            return INVALID
        return value_of(node, hint)

    return read


_PER_CORE = Mapping[str, Annotated[str, _datatype]]
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


_PerCore = dict[str, dict[str, list[TensorSupplement]]]  # core -> op -> its supplements


class _JsonReader:
    def __init__(self, text: Document, file: str, findings: Findings) -> None:
        self._text = text
        self._file = file
        self._problems = findings

    def package(self, path: Path, body: dict[str, Any]) -> OpPackage:
        per_core: _PerCore = {}
        ops = tuple(self._op((*path, "Operators", index), op, per_core) for index, op in enumerate(body["Operators"]))
        return OpPackage(
            name=body["UDO_PACKAGE_NAME"],
            ops=ops,
            supplements=tuple(
                Supplement(
                    backend=core,
                    ops=tuple(OpSupplement(op, tuple(tensors)) for op, tensors in by_op.items()),
                    location=next(iter(by_op.values()))[0].location,
                )
                for core, by_op in per_core.items()
            ),
            output_path=body.get("UDO_PACKAGE_PATH", ""),
            snpe_udo_root=body.get("SNPE_UDO_ROOT", ""),
            sources=(self._file,),
            language="json",
            location=self._text.place((*path, "UDO_PACKAGE_NAME")),
        )

    def _op(self, path: Path, body: dict[str, Any], per_core: _PerCore) -> Op:
        name = body["type"]
        found: dict[str, list[Tensor]] = {key: [] for key in _LISTS}
        for key, role in _LISTS.items():
            for index, each in enumerate(body.get(key, ())):
                tensor = self._tensor((*path, key, index), each, key, index)
                found[key].append(tensor)
                for core, (datatype, place) in self._per_core(each, (*path, key, index)).items():
                    extra = TensorSupplement(tensor.name, role, (datatype,), location=place)
                    per_core.setdefault(canonical(core), {}).setdefault(name, []).append(extra)
        backends, _ = split_dsp(body.get("core_types", ()))
        archs = tuple(dict.fromkeys(arch.lower() for arch in body.get("dsp_arch_types", ())))
        if archs and "DSP" not in backends:
            self._problems.warn(
                self._text.place((*path, "dsp_arch_types")),
                f"`{name}` names DSP architectures, but DSP is not among its core_types",
                'add "DSP" to core_types, or remove dsp_arch_types',
            )
        return Op(
            name=name,
            inputs=tuple(found["inputs"]),
            outputs=tuple(found["outputs"]),
            params=tuple(found["scalar_params"] + found["tensor_params"]),
            backends=backends,
            dsp_archs=archs,
            location=self._text.place((*path, "type")),
        )

    def _tensor(self, path: Path, body: dict[str, Any], key: str, index: int) -> Tensor:
        known = _SCALAR if key == "scalar_params" else _TENSOR
        body = {name: value for name, value in body.items() if name in known}
        place = self._text.place(path)
        name = body.get("name", "")
        if not name and _LISTS[key] != "param":
            name = f"{_LISTS[key]}_{index}"  # the documentation makes these names optional
        datatype = datatypes.parse(body.get("data_type", ""))
        types = (datatype,) if datatype else ()
        if self._per_core(body, path):
            if types:
                self._problems.warn(
                    place, f"`{name}` has data_type and per_core_data_types", "per_core_data_types are used"
                )
            types = (datatypes.BACKEND_SPECIFIC,)
        elif not types and _LISTS[key] == "param":
            types = (datatypes.BY_NAME["FLOAT_32"],)
            self._problems.warn(place, f"parameter `{name}` has no data type", 'treated as "data_type": "FLOAT_32"')
        elif not types:
            self._problems.error(place, f"`{name}` has no data type", 'add "data_type" or "per_core_data_types"')
        default, default_text = self._default(path, body, types)
        return Tensor(
            name=name,
            role=_LISTS[key],
            datatypes=types,
            rank=Rank(scalar=key == "scalar_params"),
            layout=body.get("tensor_layout", ""),
            mandatory=_LISTS[key] != "param" or "default_value" not in body,
            default=default,
            default_text=default_text,
            static=body.get("static", False),
            repeated=body.get("repeated", False),
            quantization_mode=body.get("quantization_mode", ""),
            location=place,
        )

    def _default(
        self, path: Path, body: dict[str, Any], types: tuple[datatypes.DataType, ...]
    ) -> tuple[Value | None, str]:
        """`default_value`, which is in Qualcomm's examples and tools, but not in the documentation."""
        raw = body.get("default_value", "")
        text = " ".join(raw.split()) if isinstance(raw, str) else json.dumps(raw)
        if not text:
            return None, ""
        value = values.from_json(text if isinstance(raw, str) else raw, types)
        if value is not None and len(text) <= values.LONGEST:
            return value, ""
        self._problems.warn(
            self._text.place((*path, "default_value")),
            f"the default of `{body.get('name', '')}` is not a value: `{text[:60]}`",
            "it is stored as text; kernels see the parameter as absent",
        )
        return None, text[: values.LONGEST]

    def _per_core(self, body: dict[str, Any], path: Path) -> dict[str, tuple[datatypes.DataType, Location]]:
        return {
            core: (known, self._text.place((*path, key, core)))
            for key in ("per_core_data_type", "per_core_data_types")
            for core, text in body.get(key, {}).items()
            if (known := datatypes.parse(text)) is not None
        }
