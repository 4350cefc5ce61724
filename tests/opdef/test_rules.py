"""Configs that no rule reports; those that rules report are in broken/."""

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


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT.keys())
def test_no_problem_is_reported(text: str, tmp_path: Path) -> None:
    assert problems_of(tmp_path, text) == []
