"""JSON UDO config -> model.

`per_core_data_types` becomes a BACKEND_SPECIFIC type and a supplement per core, as in XML.
"""

from __future__ import annotations

import json as stdlib_json
from functools import cache
from typing import Any

from udogen import resources
from udogen.backends import architectures, canonical, split_dsp
from udogen.documents.document import Document, parse
from udogen.documents.json_text import Path
from udogen.opdef import datatypes, values
from udogen.opdef.model import Op, OpPackage, OpSupplement, Rank, Supplement, Tensor, TensorSupplement, Value
from udogen.opdef.problems import Location, Problems, nearest

_LISTS = {"inputs": "input", "outputs": "output", "tensor_params": "param", "scalar_params": "param"}


def read(data: bytes, file: str, problems: Problems) -> list[OpPackage]:
    """The packages of the file, as far as they can be read."""
    parsed = parse(data, file, problems)
    if parsed is None or not _fits_schema(parsed, problems):
        return []
    reader = _JsonReader(parsed, file, problems)
    return [reader.package((key,), body) for key, body in parsed.value.items()]


def _fits_schema(parsed: Document, problems: Problems) -> bool:
    """Quick check by compiled code; a slower validator then finds all faults."""
    import fastjsonschema

    try:
        _validator()(parsed.value)
        return True
    except fastjsonschema.JsonSchemaException:
        pass
    import jsonschema

    for fault in jsonschema.Draft7Validator(_schema()).iter_errors(parsed.value):
        message, hint = _explain(fault)
        problems.error(parsed.place(tuple(fault.absolute_path)), message, hint)
    return False


@cache
def _schema() -> Any:
    return stdlib_json.loads((resources.schemas() / "udo_config.schema.json").read_text("utf-8"))


@cache
def _keys(what: str) -> list[str]:
    """The keys of a package, an operator, a tensor or a scalar_param."""
    return sorted(_schema()["definitions"][what]["properties"])


@cache
def _validator() -> Any:
    import fastjsonschema

    return fastjsonschema.compile(_schema())


def _explain(fault: Any) -> tuple[str, str]:
    """A fault against the schema as message and hint."""
    key = next((f"`{part}`" for part in reversed(fault.absolute_path) if isinstance(part, str)), "the file")
    shown = stdlib_json.dumps(fault.instance)[:60]
    if fault.validator == "required":
        missing = next(name for name in fault.validator_value if name not in fault.instance)
        close = nearest(missing, fault.instance, cutoff=0.7)
        return (
            f"`{missing}` is missing",
            f"`{close}` exists; did you mean `{missing}`?" if close else f'add "{missing}"',
        )
    if fault.validator == "type":
        allowed = fault.validator_value if isinstance(fault.validator_value, list) else [fault.validator_value]
        hint = _KINDS[allowed[0]][1] if len(allowed) == 1 else "for example 1, or [1, 1]"
        return f"{key} must be {' or '.join(_KINDS[name][0] for name in allowed)}, not {shown}", hint
    if fault.validator in ("minItems", "minProperties"):
        return f"{key} is empty", "add at least one"
    if fault.validator == "enum":
        return f"{shown} is not allowed in {key}", _choice(fault.instance, [v for v in fault.validator_value if v])
    if fault.validator == "pattern" and key == "`dsp_arch_types`":
        return f"{shown} is not a DSP architecture", "may be: " + ", ".join(architectures.ALL)
    if fault.validator == "pattern":
        return f"{shown} is not a data type", _choice(fault.instance, datatypes.spellings())
    return f"{key}: {fault.message[:200]}", "see schemas/udo_config.schema.json"


def _choice(written: object, choices: list[str]) -> str:
    close = nearest(str(written), choices, cutoff=0.75)
    if close:
        return f"did you mean {close}?"
    return "may be: " + ", ".join(choices if len(choices) < 12 else ("FLOAT_32", "FIXED_8", "UINT_8", "INT_32 …"))


_KINDS = {
    "object": ("an object", "write it in braces: {…}"),
    "array": ("a list", "write it in brackets: […]"),
    "string": ("a string", 'write it in double quotes: "…"'),
    "boolean": ("true or false", "write it without quotes"),
    "number": ("a number", "write it without quotes"),
}


_PerCore = dict[str, dict[str, list[TensorSupplement]]]  # core -> op -> its supplements


class _JsonReader:
    def __init__(self, text: Document, file: str, problems: Problems) -> None:
        self._text = text
        self._file = file
        self._problems = problems

    def package(self, path: Path, body: dict[str, Any]) -> OpPackage:
        self._leftover(path, body, "package")
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
        self._leftover(path, body, "operator")
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
        what = "scalar_param" if key == "scalar_params" else "tensor"
        self._leftover(path, body, what)
        body = {name: value for name, value in body.items() if name in _keys(what)}
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
        text = " ".join(raw.split()) if isinstance(raw, str) else stdlib_json.dumps(raw)
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

    def _leftover(self, path: Path, body: dict[str, Any], what: str) -> None:
        known, shown = _keys(what), what.replace("_param", " parameter")
        for key in body.keys() - known:
            close = nearest(key, known)
            self._problems.warn(
                self._text.place((*path, key)),
                f"`{key}` is not a key of {'an' if what[0] in 'aeiou' else 'a'} {shown}; it is ignored",
                f"did you mean `{close}`?" if close else "known keys: " + ", ".join(known),
            )
