"""A config converted there and back is the same model; each difference is named in a warning."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from lxml import etree

from tests.command_line import udogen
from tests.opdef.models import common_packages, rich_packages
from tests.opdef.texts import collection, packages
from udogen import backends, resources
from udogen.configs import json_read, json_write, load, resolve, xml_write
from udogen.findings import Findings
from udogen.opdef.model import Op, OpPackage, Tensor, TensorSupplement


def to_xml(package: OpPackage) -> tuple[str, list[str]]:
    findings = Findings()
    return xml_write.write(package, findings), [finding.message for finding in findings.all()]


def to_json(package: OpPackage) -> tuple[str, list[str]]:
    findings = Findings()
    text = json_write.write([package], findings)
    return text, [item for finding in findings.all() for item in finding.message.split("; ")]


def read_back(text: str) -> OpPackage:
    findings = Findings()
    (found,) = load.parse(text.encode(), "a", findings)
    assert not findings.errors
    return found


@given(common_packages())
def test_what_both_can_say_is_never_lost(package: OpPackage) -> None:
    text, lost = to_json(package)
    assert not lost
    assert read_back(text) == package
    text, lost = to_xml(package)
    assert not lost
    again = read_back(text)
    assert to_xml(again)[0] == text
    assert to_json(again)[0] == to_json(package)[0]
    for backend in backends.ALL:  # a supplement for DSP is written for each of its versions
        resolved = [resolve.for_backend(each, backend, Findings(), layout="qnn").ops for each in (package, again)]
        assert resolved[0] == resolved[1]


@given(rich_packages())
def test_xml_is_written_as_it_was_read(package: OpPackage) -> None:
    text, lost = to_xml(package)
    assert not lost
    assert read_back(text) == package
    assert to_xml(read_back(text))[0] == text


@given(rich_packages())
def test_every_loss_is_named(package: OpPackage) -> None:
    text, lost = to_json(package)
    for what in differences(package, read_back(text)):
        assert any(all(f"`{word}`" in message for word in what) for message in lost), f"{what} of {lost}"
    if not lost:
        assert read_back(text) == package


def differences(old: OpPackage, new: OpPackage) -> Iterator[tuple[str, ...]]:
    """Yield the names that a warning must contain: (package), (op) or (tensor, op)."""
    if (old.domain, old.version, old.use_qhpi) != (new.domain, new.version, new.use_qhpi):
        yield (old.name,)
    assert [op.name for op in old.ops] == [op.name for op in new.ops]
    for own, theirs in zip(old.ops, new.ops, strict=True):
        if any(getattr(own, name) != getattr(theirs, name) for name in scalars(Op)):
            yield (own.name,)
        if [each.name for each in own.tensors] != [each.name for each in theirs.tensors]:
            yield (own.name,)
        same = {each.name: each for each in theirs.tensors}
        for tensor in own.tensors:
            if tensor != same[tensor.name]:
                yield (tensor.name, own.name)
    kept = {
        (supplement.backend, entry.name, tensor)
        for supplement in new.supplements
        for entry in supplement.ops
        for tensor in entry.tensors
    }
    for supplement in old.supplements:
        for entry in supplement.ops:
            for tensor in entry.tensors:
                empty = TensorSupplement(tensor.name, tensor.role, location=tensor.location)
                if tensor != empty and (supplement.backend, entry.name, tensor) not in kept:
                    yield (tensor.name, entry.name)


def scalars(kind: type) -> list[str]:
    return [
        field.name
        for field in dataclasses.fields(kind)
        if field.compare and field.name not in ("inputs", "outputs", "params")
    ]


def test_no_field_of_a_tensor_is_forgotten() -> None:
    """A new field of the model must be in the models above, or be listed as one of a single language."""
    source = (Path(__file__).parent / "models.py").read_text("utf-8")
    of_one_language = {"quantization_mode"}
    of_none = {"converted", "given"}  # added by resolving
    fields = {field.name for field in dataclasses.fields(Tensor) if field.compare}
    assert {name for name in fields if f"{name}=" not in source} == of_one_language | of_none


# --- the schemas ------------------------------------------------------------------------------------------


@cache
def xsd() -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(str(resources.schemas() / "OpDef.xsd")))


def json_schema() -> Any:
    return json.loads((resources.schemas() / "udo_config.schema.json").read_text("utf-8"))


@given(rich_packages())
def test_what_is_written_fits_the_schemas(package: OpPackage) -> None:
    text = to_xml(package)[0]
    xsd().assertValid(etree.fromstring(text.encode()))
    body = json.loads(to_json(package)[0])
    jsonschema.validate(body, json_schema())


def test_another_library_reads_the_schema_alike() -> None:
    xmlschema = pytest.importorskip("xmlschema", reason="the second opinion on OpDef.xsd")
    other = xmlschema.XMLSchema(str(resources.schemas() / "OpDef.xsd"))

    @given(rich_packages())
    def agree(package: OpPackage) -> None:
        other.validate(to_xml(package)[0])

    agree()
    for path in sorted((Path(__file__).parent / "broken").glob("*.xml")):
        try:
            root = etree.parse(str(path), etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))
        except (etree.XMLSyntaxError, OSError):
            continue
        if not root.docinfo.doctype:
            assert other.is_valid(etree.tostring(root, encoding="unicode")) == xsd().validate(root), path.name


RICH = {
    "UdoPackage_0": {
        "UDO_PACKAGE_NAME": "Demo",
        "UDO_PACKAGE_PATH": "out",
        "SNPE_UDO_ROOT": "udo",
        "Operators": [
            {
                "type": "Scale",
                "inputs": [
                    {"name": "x", "per_core_data_types": {"CPU": "FLOAT_32"}, "static": False, "repeated": True}
                ],
                "outputs": [{"tensor_layout": "NHWC", "quantization_mode": "TF", "data_type": "FIXED_8"}],
                "scalar_params": [{"name": "a", "data_type": "INT_32", "default_value": [1, [2]]}],
                "tensor_params": [{"name": "t", "per_core_data_type": {"DSP": "UINT_8"}}],
                "core_types": ["CPU", "DSP"],
                "dsp_arch_types": ["v68"],
            }
        ],
    }
}


def changed(value: Any) -> Iterator[Any]:
    """The value with one part left out or of another kind."""
    if isinstance(value, dict | list):
        keys = range(len(value)) if isinstance(value, list) else value
        for key in keys:
            rest = value[:key] + value[key + 1 :] if isinstance(value, list) else {**value}
            if isinstance(rest, dict):
                del rest[key]
            yield rest
            for other in changed(value[key]):
                yield [*value[:key], other, *value[key + 1 :]] if isinstance(value, list) else {**value, key: other}
    yield from (None, 3, True, "x", [], {}, ["x"], [3], {"x": 3}, {"x": "FLOAT_32"})


def test_the_json_schema_agrees_with_the_reader() -> None:
    jsonschema.Draft7Validator.check_schema(json_schema())
    validator = jsonschema.Draft7Validator(json_schema())
    accepted = 0
    for body in changed(RICH):
        text = json.dumps(body)
        packages = json_read.read(text.encode(), "a.json", Findings())
        assert validator.is_valid(body) == bool(packages), text
        accepted += bool(packages)
    assert accepted > 50
    known = {name: row["properties"] for name, row in json_schema()["definitions"].items() if "properties" in row}
    assert known["tensor"]["tensor_layout"]["enum"] == list(json_read._LAYOUTS)
    reads = {"package": json_read._PACKAGE, "operator": json_read._OPERATOR, "tensor": json_read._TENSOR}
    for what, keys in {**reads, "scalar_param": json_read._SCALAR}.items():
        assert known[what].keys() == keys.keys()


def test_the_schemas_know_every_data_type() -> None:
    from udogen.opdef import datatypes

    validator = jsonschema.Draft7Validator(json_schema()["definitions"]["data_type"])
    for spelling in datatypes.spellings():
        text = collection().replace("FLOAT_32", spelling)
        assert xsd().validate(etree.fromstring(text)), spelling
        assert validator.is_valid(spelling), spelling
    for wrong in ("FLOAT", "FLOAT_8", "QNN_DATATYPE_FIXED_8", "UINT_8 ", "", "QNN_DATATYPE_BACKEND_SPECIFIC"):
        assert not validator.is_valid(wrong)
    assert not xsd().validate(etree.fromstring(collection().replace("FLOAT_32", "FLOAT")))


@pytest.mark.parametrize("name", sorted(path.name for path in (Path(__file__).parent / "habits").iterdir()))
def test_real_habits(name: str, tmp_path: Path) -> None:
    """Real configs are accepted, resolve, and convert into themselves."""
    path = Path(__file__).parent / "habits" / name
    (package,) = packages(tmp_path, path.read_bytes())
    findings = Findings()
    resolve.for_backend(package, "cpu", findings, forced=True)
    assert not findings.errors
    if name.endswith(".xml"):
        assert to_xml(read_back(to_xml(package)[0]))[0] == to_xml(package)[0]
    else:
        assert read_back(to_json(package)[0]) == package


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(collection())
    for target, source in (("b.json", "a.xml"), ("c.xml", "b.json"), ("d.json", "c.xml")):
        assert udogen("convert", source, "--to", target[2:], "-o", target, cwd=tmp_path).returncode == 0
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "d.json").read_bytes()
