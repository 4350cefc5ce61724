"""Files become packages: several files, several packages, habits of JSON authors, source locations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.opdef.texts import (
    X,
    Y,
    collection,
    only_op,
    op,
    packages,
    param,
    problems_of,
    supplement,
    tensor,
    udo,
    warnings,
)
from udogen import ConfigError
from udogen.configs.load import load

CPU_X = "<Input><Name>x</Name><Datatype>FLOAT_32</Datatype></Input>"


# --- several files, several packages ----------------------------------------------------------------------


def test_files_of_one_package_become_one(tmp_path: Path) -> None:
    (package,) = packages(tmp_path, collection(), collection(op(name="Shift"), supplement(CPU_X, name="Shift")))
    assert [each.name for each in package.ops] == ["Scale", "Shift"]
    assert (len(package.supplements), len(package.sources)) == (1, 2)
    in_xml = collection().replace('Domain="aisw" Version="1.0"', 'Domain="" Version=""')
    (package,) = packages(tmp_path, in_xml, udo(type="Shift"))
    assert [each.name for each in package.ops] == ["Scale", "Shift"]
    (package,) = packages(tmp_path, collection(), collection(op(backends="HTP")))
    assert [(each.name, each.backends) for each in package.ops] == [("Scale", ("CPU", "HTP"))], "what both say alike"
    (package,) = packages(tmp_path, collection(), collection(op(name="B")).replace("Version", 'UseQHPI="true" Version'))
    assert package.use_qhpi is True
    assert [each.name for each in packages(tmp_path, collection(), collection(name="Other"))] == ["Demo", "Other"]
    (tmp_path / "demo.xml").write_text(collection())
    (package,), findings = load([tmp_path / "demo.xml", str(tmp_path / "demo.xml")])
    assert (len(package.ops), len(package.sources), findings.all()) == (1, 1, ()), "a file given twice is read once"


def test_files_that_disagree(tmp_path: Path) -> None:
    [warning] = warnings(tmp_path, collection(), collection(op(name="B")).replace("1.0", "2"))
    assert "has another Domain or Version" in warning
    other = collection(op(tensor("Input", "z") + tensor("Output", "y")))
    [error] = [each for each in problems_of(tmp_path, collection(), other) if each.is_error]
    assert "in another file too, and differently" in error.message
    assert str(error.location).endswith("config1.xml:3") and "config0.xml:3" in error.message + error.hint


def test_who_makes_too_many_mistakes_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load([_written(tmp_path, collection("".join(op("", name=f"Op{n}") for n in range(2000))))])
    assert len(caught.value.findings) == 40
    assert caught.value.hint == "and more: checking ended here"


# --- bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [("utf-8", "UTF-8"), ("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16"), ("utf-16-le", "UTF-16"),
     ("utf-16-be", "UTF-16"),
     ("latin-1", "ISO-8859-1"), ("cp1252", "windows-1252"), ("utf-32", "UTF-32")],
)  # fmt: skip
def test_xml_in_any_declared_encoding(encoding: str, declared: str, tmp_path: Path) -> None:
    body = collection(op("<Description><Content>größer</Content></Description>" + X + Y))
    data = f'<?xml version="1.0" encoding="{declared}"?>\n{body}'.encode(encoding)
    (package,) = load([_written(tmp_path, data)])[0]
    assert package.ops[0].description[0].text == "größer"


# Ways to write a DTD; in the last three, `<!DOCTYPE` is not in the bytes of the file.
DTDS = {
    "utf-8": b"<!DOCTYPE a>", "utf-16": "<!DOCTYPE a>".encode("utf-16"), "latin-1": b'<!DOCTYPE a SYSTEM "a.dtd">',
    "utf-7": b"+ADw-!DOCTYPE a+AD4-", "iso-2022-jp": b"<\x1b(B!DOCTYPE a>", "iso-2022-kr": b"<!\x0fDOCTYPE a>",
}  # fmt: skip


@pytest.mark.parametrize("encoding", DTDS)
def test_a_dtd_is_refused_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    dtd, text = DTDS[encoding], f'<?xml version="1.0" encoding="{encoding}"?>%%{collection(op(X + Y))}'
    before, after = (part.encode("utf-16-le" if encoding == "utf-16" else "ascii") for part in text.split("%%"))
    if encoding == "utf-16":
        before, dtd = b"\xff\xfe" + before, dtd[2:]
    with pytest.raises(ConfigError) as raised:
        load([_written(tmp_path, before + dtd + after)])
    assert any("a config may not have a DTD or entities" in finding.message for finding in raised.value.findings)


def test_json_in_its_encodings(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (package,) = load([_written(tmp_path, udo().encode(encoding))])[0]
        assert package.ops[0].name == "Scale"


def test_places_with_any_newline(tmp_path: Path) -> None:
    for newline in ("\n", "\r\n"):
        text = collection(op(tensor("Input", "x;") + Y)).replace("\n", newline)
        assert [finding.location.line for finding in problems_of(tmp_path, text.encode())] == [4]


# --- locations --------------------------------------------------------------------------------------------


# --- habits of JSON authors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (udo().replace('"CPU"\n', '"CPU",\n'), "trailing comma before `]`"),
        (udo().replace('"y",', '"y",').replace('"FLOAT_32"\n', '"FLOAT_32",\n', 1), "trailing comma before `}`"),
        ("// about\n" + udo(), "JSON does not allow comments"),
        (udo().replace("{", "{ /* a\n b */", 1), "JSON does not allow comments"),
        (udo().replace('"type": "Scale"', '"type": "Other", "type": "Scale"'), "the key `type` occurs twice"),
        (udo(latency=3), "`latency` is not a known key"),
    ],
)
def test_accepted_with_a_warning(text: str, printed: str, tmp_path: Path) -> None:
    assert only_op(tmp_path, text).name == "Scale"
    found = warnings(tmp_path, text)
    assert len(found) == 1
    assert printed in found[0]


def test_a_comment_is_no_string(tmp_path: Path) -> None:
    text = udo(inputs=[{"name": "x // y", "data_type": "FLOAT_32"}])
    assert not warnings(tmp_path, text)
    assert only_op(tmp_path, text).inputs[0].name == "x // y"


@pytest.mark.parametrize(
    ("raw", "datatype", "value"),
    [(1, "INT_32", 1), (1.0, "INT_32", 1), ([1.0, 2], "UINT_8", (1, 2)), (True, "BOOL_8", True),
     ("a b", "STRING", "a b"),
     ("1.5", "FLOAT_32", 1.5), ([[1, 2], [3, 4]], "INT_32", ((1, 2), (3, 4)))],
)  # fmt: skip
def test_default_value(raw: object, datatype: str, value: object, tmp_path: Path) -> None:
    found = only_op(tmp_path, udo(tensor_params=[{"name": "a", "data_type": datatype, "default_value": raw}])).params[0]
    assert (found.default, found.mandatory) == (value, False)


def test_a_parameter_without_default_value_is_mandatory(tmp_path: Path) -> None:
    text = udo(
        inputs=[{"data_type": "FLOAT_32", "default_value": [1]}], scalar_params=[{"name": "a", "data_type": "INT_32"}]
    )
    found = only_op(tmp_path, text)
    assert found.params[0].mandatory
    assert (found.inputs[0].mandatory, found.inputs[0].default) == (True, (1,))


def test_paths_are_kept(tmp_path: Path) -> None:
    body = json.loads(udo())
    body["UdoPackage_0"] |= {"UDO_PACKAGE_PATH": "out", "SNPE_UDO_ROOT": "/opt/snpe"}
    (package,) = packages(tmp_path, json.dumps(body))
    assert (package.output_path, package.snpe_udo_root) == ("out", "/opt/snpe")


# --- the content of XML -----------------------------------------------------------------------------------


def test_everything_of_a_tensor(tmp_path: Path) -> None:
    more = (
        "<Description>Plain.<Content>Some\n  prose.</Content><Code>y = x</Code></Description>"
        '<Constraint id="3" Type="Shape">Rank <Code>r</Code> &gt;= 1</Constraint>'
        '<Constraint id="" Type=""></Constraint>'
        "<QuantParam><Encoding>SCALE_OFFSET</Encoding><Axis>3</Axis><Symmetric>true</Symmetric></QuantParam>"
        "<DynamicShape><Text>all of\n it</Text></DynamicShape><IsStaticTensor>1</IsStaticTensor><Repeated/>"
    )
    found = only_op(
        tmp_path, collection(op(tensor("Input", "x", "FIXED_8 QNN_DATATYPE_FLOAT_32", rank="4D", more=more) + Y))
    ).inputs[0]
    assert [(each.text, each.code) for each in found.description] == [
        ("Plain.", False),
        ("Some prose.", False),
        ("y = x", True),
    ]
    assert [(constraint.id, constraint.type, constraint.text, constraint.code) for constraint in found.constraints] == [
        (3, "Shape", "Rank >= 1", "r")
    ]
    assert found.quant[0].settings == (("Symmetric", "true"),)
    assert (found.dynamic_shape, found.static, found.repeated) == ("all of it", True, False)
    assert [datatype.name for datatype in found.datatypes] == ["UFIXED_POINT_8", "FLOAT_32"]


def test_everything_of_an_op(tmp_path: Path) -> None:
    body = (
        '<Reference Source="ONNX" Url="https://example.org?a=1&amp;b=2">Mul</Reference><Reference/>'
        "<UseDefaultTranslation>false</UseDefaultTranslation>"
    )
    found = only_op(tmp_path, collection(op(body + X + Y, backends="DSP_V68 CPU dsp_v73")))
    assert [(reference.source, reference.text) for reference in found.references] == [("ONNX", "Mul"), ("", "")]
    assert (found.use_default_translation, found.backends, found.dsp_archs) == (False, ("DSP", "CPU"), ("v68", "v73"))


WHERE = 'xmlns:xs="http://www.w3.org/2001/XMLSchema-instance" xs:noNamespaceSchemaLocation="OpDef.xsd" PackageName'
REPEATED = "<Repeated>true</Repeated>"
ENUM = "<Enumeration><Enum>A</Enum><Enum>B</Enum></Enumeration>"
CONSTRAINTS = "".join(f'<Constraint id="{number}" Type="Value">positive</Constraint>' for number in (0, 1))
SUPPORTED = "<SupportedOps><OpName>Scale</OpName></SupportedOps>"
ACCEPTED = {
    **{
        empty: collection(op(tensor("Input", "x", more=empty) + Y))
        for empty in ("<Repeated></Repeated>", "<IsStaticTensor/>", "<Default></Default>")
    },
    "comments and processing instructions": (
        f"<!-- one --><?two three?>{collection(op('<!-- in -->' + X + Y + '<?pi?>'), '<!-- end -->')}<!-- after -->"
    ),
    "a location of the schema": collection().replace("PackageName", WHERE),
    "an op of its package's name": collection(op(name="Demo")),
    "names that become identifiers": collection(op(tensor("Input", "in[0]") + tensor("Input", "in[1]") + Y)),
    "a repeated input and a repeated output": collection(
        op(tensor("Input", "a", more=REPEATED) + tensor("Output", "b", more=REPEATED))
    ),
    "an optional input at the end": collection(op(X + tensor("Input", "bias", mandatory="false") + Y)),
    "a default of the second type": collection(op(X + Y + param("a", "INT_32 FLOAT_32", default="1.5"))),
    "a name of an enumeration": collection(op(X + Y + param("mode", "UINT_32", default="B", more=ENUM))),
    "a number of an enumeration": collection(op(X + Y + param("mode", "INT_32", default="1", more=ENUM))),
    "constraints with ids": collection(op(tensor("Input", "x", more=CONSTRAINTS) + Y)),
    "all backends": collection(op(backends="CPU GPU HTP HTP_FP16 DSP_V66 DSP_V68 AIC LPAI HTA"), supplement(CPU_X)),
    "only a supplement supports it": collection(
        op(backends=""), f'<SupplementalOpDefList Backend="CPU">{SUPPORTED}</SupplementalOpDefList>'
    ),
    "JSON without names": udo(inputs=[{"data_type": "FLOAT_32"}] * 2, outputs=[{"data_type": "FLOAT_32"}] * 2),
    "JSON with a parameter": udo(scalar_params=[{"name": "a", "data_type": "INT_32", "default_value": 1}]),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_accepted_without_a_warning(what: str, tmp_path: Path) -> None:
    assert not problems_of(tmp_path, ACCEPTED[what])


def _written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "config"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
