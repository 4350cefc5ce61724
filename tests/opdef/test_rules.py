"""Every rule that a schema cannot express: configs that it reports, and configs that it accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.opdef.texts import X, Y, collection, op, param, problems_of, supplement, tensor, udo

CPU_X = "<Input><Name>x</Name><Datatype>FLOAT_32</Datatype></Input>"


def enum(*names: str) -> str:
    return "<Enumeration>" + "".join(f"<Enum>{name}</Enum>" for name in names) + "</Enumeration>"


def constraint(number: str) -> str:
    return f'<Constraint id="{number}" Type="Value">positive</Constraint>'


def supported(name: str) -> str:
    names = f"<SupportedOps><OpName>{name}</OpName></SupportedOps>"
    return f'<SupplementalOpDefList Backend="CPU">{names}</SupplementalOpDefList>'


SILENT = {
    "the plain config": collection(),
    "an op of its package's name": collection(op(name="Demo")),
    "several ops": collection(op() + op(name="Shift")),
    "names that need turning into identifiers": collection(op(tensor("Input", "in[0]") + tensor("Input", "in[1]") + Y)),
    "one repeated input and one repeated output": collection(
        op(
            tensor("Input", "a", more="<Repeated>true</Repeated>")
            + tensor("Output", "b", more="<Repeated>1</Repeated>")
        )
    ),
    "an optional input at the end": collection(op(X + tensor("Input", "bias", mandatory="false") + Y)),
    "a default in the first of two types": collection(op(X + Y + param("a", "INT_32 FLOAT_32", default="1"))),
    "a default in the second of two types": collection(op(X + Y + param("a", "INT_32 FLOAT_32", default="1.5"))),
    "an enumeration": collection(
        op(X + Y + param("mode", "UINT_32", default="LINEAR", more=enum("NEAREST", "LINEAR")))
    ),
    "an enumeration with a number": collection(op(X + Y + param("mode", "INT_32", default="1", more=enum("A", "B")))),
    "a mandatory parameter without default": collection(op(X + Y + param("a"))),
    "constraints with ids": collection(op(tensor("Input", "x", more=constraint("0") + constraint("1")) + Y)),
    "all backends": collection(op(backends="CPU GPU HTP DSP_V66 DSP_V68 AIC LPAI HTA")),
    "the old name of a backend": collection(op(backends="HTP_FP16"), supplement(CPU_X, "HTP_FP16")),
    "an op that only a supplement supports": collection(
        op(backends=""),
        supported("Scale"),
    ),
    "a supplement": collection(op(), supplement(CPU_X)),
    "JSON": udo(scalar_params=[{"name": "a", "data_type": "INT_32"}]),
    "JSON without names": udo(inputs=[{"data_type": "FLOAT_32"}] * 2, outputs=[{"data_type": "FLOAT_32"}] * 2),
    "JSON with defaults": udo(scalar_params=[{"name": "a", "data_type": "INT_32", "default_value": 1}]),
}

ERRORS = {
    "the package name `a b` has": collection(name="a b"),
    "the package has no name": collection(name=""),
    "the op name `a.b` has": collection(op(name="a.b")),
    "an op has no name": collection(op(name="")),
    "op `Scale` is defined twice": collection(op() + op()),
    "differ only in upper and lower case": collection(op() + op(name="sCale")),
    "the name of input `a;` of `Scale`": collection(op(tensor("Input", "a;") + Y)),
    "the name of parameter `a;` of `Scale`": collection(op(X + Y + param("a;"))),
    "an output of `Scale` has no name": collection(op(X + tensor("Output", ""))),
    "a parameter of `Scale` has no name": collection(op(X + Y + param(""))),
    "are called `x`": collection(op(X + tensor("Output", "x"))),
    "`in[0]` and `in_0` of `Scale` become": collection(op(tensor("Input", "in[0]") + tensor("Input", "in_0") + Y)),
    "more than one repeated output": collection(
        op(X + "".join(tensor("Output", name, more="<Repeated>true</Repeated>") for name in "ab"))
    ),
    "output `y` of `Scale` has a default": collection(op(X + tensor("Output", "y", more="<Default>N-1</Default>"))),
    "the default of `a` of `Scale` is 1.5": collection(op(X + Y + param("a", "INT_32 UINT_8", default="1.5"))),
    "is a list, but its rank is": collection(op(X + Y + param("a", "INT_32", default="[1]"))),
    "`A` occurs twice": collection(op(X + Y + param("a", "INT_32", more=enum("A", "B", "A")))),
    "`a-b` and `a_b` of `a` become": collection(op(X + Y + param("a", "INT_32", more=enum("a-b", "a_b")))),
    "`a;` in the enumeration": collection(op(X + Y + param("a", "INT_32", more=enum("a;")))),
    "has an enumeration, but is not an integer": collection(op(X + Y + param("a", "FLOAT_32", more=enum("A")))),
    "the enumeration has only 0 … 1": collection(op(X + Y + param("a", "INT_32", default="2", more=enum("A", "B")))),
    "names no backend": collection(supplements=supplement("", backend="")),
}

WARNINGS = {
    "the Domain of the package is empty": collection().replace('Domain="aisw"', ""),
    "the package has no Version": collection().replace('Version="1.0"', ""),
    "supports no backend that udogen knows": collection(op(backends="")),
    "names an unknown backend, `NPU`": collection(op(backends="CPU NPU")),
    "a supplement for an unknown backend, `NPU`": collection(supplements=supplement(CPU_X, "NPU")),
    "per_core_data_types for an unknown backend, `NPU`": udo(
        inputs=[{"per_core_data_types": {"CPU": "FLOAT_32", "NPU": "FLOAT_32"}}]
    ),
    "is optional, `b` after it is not": collection(
        op(tensor("Input", "a", mandatory="false") + tensor("Input", "b") + Y)
    ),
    "is optional and has no default": collection(op(X + Y + tensor("Parameter", "a", mandatory="false"))),
    "has rank 1, but the rank is 2D": collection(op(X + Y + param("a", "INT_32", rank="2D", default="[1, 1]"))),
    "has two constraints with the id 0": collection(
        op(tensor("Input", "x", more=constraint("0") + constraint("0")) + Y)
    ),
    "SupportedOps of CPU names `Shift`": collection(supplements=supported("Shift")),
    "the supplement of CPU is for `Shift`": collection(supplements=supplement(CPU_X, name="Shift")),
    "the supplement of CPU is for input `z`": collection(supplements=supplement(CPU_X.replace("x", "z"))),
    "CPU supports only the default of `x`, but it has none": collection(
        supplements=supplement("<Input><Name>x</Name><OnlyDefaultSupported>true</OnlyDefaultSupported></Input>")
    ),
    "the default of `a` is not a value: `N-1`": collection(op(X + Y + param("a", "INT_32", default="N-1"))),
    "`1D or 4D` is an unusual rank for `x`": collection(op(tensor("Input", "x", rank="1D or 4D") + Y)),
    "the rank of `x` cannot be read: `some`": collection(op(tensor("Input", "x", rank="some") + Y)),
    "the rank of `x` is missing": collection(op(X.replace("<Rank>ND</Rank>", "") + Y)),
    "`x` has no <Shape>": collection(op(X.replace("<Shape><Rank>ND</Rank></Shape>", "") + Y)),
    "lacks Mandatory": collection(op(X.replace("<Mandatory>true</Mandatory>", "") + Y)),
    "FLOAT_32 occurs twice": collection(op(tensor("Input", "x", "FLOAT_32 FLOAT_32") + Y)),
    "`x` has more than one layout": collection(
        op(X.replace("</Rank>", "</Rank><Layout>NHWC</Layout><Layout>NCHW</Layout>") + Y)
    ),
    "the id of a constraint is an integer, not `one`": collection(op(tensor("Input", "x", more=constraint("one")) + Y)),
    "DSP is not among its core_types": udo(dsp_arch_types=["v68"]),
    "`x` has data_type and per_core_data_types": udo(
        inputs=[{"name": "x", "data_type": "FLOAT_32", "per_core_data_types": {"CPU": "FLOAT_32"}}]
    ),
    "parameter `a` has no data type": udo(scalar_params=[{"name": "a"}]),
    "`tensor_layuot` is not a known key": udo(inputs=[{"data_type": "FLOAT_32", "tensor_layuot": "NHWC"}]),
    "the default of `a` is not a value: `[null]`": udo(
        scalar_params=[{"name": "a", "data_type": "INT_32", "default_value": "[null]"}]
    ),
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT.keys())
def test_no_problem_is_reported(text: str, tmp_path: Path) -> None:
    assert problems_of(tmp_path, text) == []


ROWS = [*(("error", *row) for row in ERRORS.items()), *(("warning", *row) for row in WARNINGS.items())]


@pytest.mark.parametrize(("severity", "message", "text"), ROWS, ids=[row[1] for row in ROWS])
def test_one_problem_with_a_place_and_a_hint(severity: str, message: str, text: str, tmp_path: Path) -> None:
    [finding] = [each for each in problems_of(tmp_path, text) if severity == "warning" or each.is_error]
    assert finding.severity == severity and message in finding.message
    assert 0 < finding.location.line <= len(text.splitlines()) and finding.hint


def test_hints_name_what_was_meant(tmp_path: Path) -> None:
    (finding,) = problems_of(tmp_path, collection(supplements=supplement(CPU_X, name="Scael")))
    assert finding.hint == "did you mean `Scale`?"
    (finding,) = problems_of(tmp_path, collection(op(backends="CPU CPUU")))
    assert finding.hint == "did you mean CPU?"
