"""`check`, `generate` and `convert` agree about configs, regardless of the changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.hostile.fuzz_configs import by_command_line, configs, does_not_compile, unescaped, verdict, verdicts
from tests.opdef.texts import X, Y, collection, op, param, tensor, udo
from udogen.configs import json_write


def test_configs_as_they_are_and_changed(tmp_path: Path) -> None:
    found = list(verdicts(len(configs()) + 60, 1, tmp_path))
    wrong = [each for each in found if not each.agree]
    assert not wrong, f"{wrong[0]}"
    assert sum(each.check == 0 for each in found) > 40 and sum(each.check == 2 for each in found) > 100


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/A.cpp", 'auto x = "Fz"zF";'),
        ("src/A.cpp", "// Fz\nzF"),
        ("src/A.cpp", "/* Fz*/zF */"),
        ("src/A.cpp", "int Fz$(zF = 1;"),
        ("Makefile", "X := Fz$(zF"),
        ("makefiles/linux.mk", "X := Fz`zF"),
        ("src/Fz$(zF.cpp", ""),
    ],
)
def test_text_that_is_not_escaped_is_found(path: str, text: str) -> None:
    assert list(unescaped({path: text.encode()}))


def test_escaped_text_is_no_finding() -> None:
    text = 'int FzOp; // Fz"zF $(\nauto x = "Fz\\"zF Fz$(zF"; /* Fz`zF */'
    assert not list(unescaped({"src/A.cpp": text.encode(), "config/a.xml": b"Fz$(zF", "Makefile": b"X := FzOp"}))


def test_the_command_line_agrees_and_what_is_generated_compiles(tmp_path: Path) -> None:
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    text = collection(op(X + tensor("Output", "y", "ALL_VALID") + param("t", default="2.5")))
    found = verdict(text, "config.xml", tmp_path)
    assert found.agree and not by_command_line(found, tmp_path)
    printed = list(does_not_compile(found.made, tmp_path / "compiled"))
    assert len(printed) > 5 and not any(printed), printed


NO_BACKEND = collection(op(backends=""))
OTHER_BACKEND = collection(op(backends="AIC"))
NOT_DELIVERED = collection(op(tensor("Input", "x", "FLOAT_16") + Y))
REPEATED = collection(op(tensor("Input", "x", more="<Repeated>true</Repeated>") + Y, backends="HTP"))
A_TEXT = collection(op(X + Y + param("t", "STRING"), backends="HTP"))


@pytest.mark.parametrize("text", [NO_BACKEND, OTHER_BACKEND, NOT_DELIVERED, REPEATED, A_TEXT])
def test_what_generate_refuses_check_refuses_too(tmp_path: Path, text: str) -> None:
    found = verdict(text, "config.xml", tmp_path)
    assert (found.check, found.generate) == (2, 2), found.printed


@pytest.mark.parametrize("value", [True, 1, "NHWC", ["NHWC"], {}])
def test_keys_of_tensors_in_scalar_parameters_are_ignored(tmp_path: Path, value: object) -> None:
    keys = ("tensor_layout", "static", "repeated", "quantization_mode")
    text = udo(scalar_params=[{"name": "p", "data_type": "FLOAT_32", **dict.fromkeys(keys, value)}])
    found = verdict(text, "config.json", tmp_path)
    assert (found.check, found.generate, found.converted, found.again) == (0, 0, 0, 0), found.printed
    assert all(f"`{key}` is not a known key; it is ignored" in found.printed for key in keys)


def test_of_several_types_one_is_written_that_the_backends_deliver(tmp_path: Path) -> None:
    """Not the first: JSON has only one type, and the result must be an equivalent config."""
    text = collection(op(tensor("Input", "x", "FLOAT_16 UINT_16 FLOAT_32") + Y, backends="CPU HTP"))
    found = verdict(text, "config.xml", tmp_path)
    assert found.agree, found.printed
    [package] = json.loads((tmp_path / "converted.json").read_text()).values()
    assert package["Operators"][0]["inputs"][0]["data_type"] == "FLOAT_32"
    lost = "Domain of `Demo`; Version of `Demo`; data type FLOAT_16, UINT_16 of `x` of `Scale`"
    assert f"JSON UDO cannot store 3 items: {lost}" in found.printed


def test_a_default_chooses_the_type(tmp_path: Path) -> None:
    text = collection(op(X + Y + param("p", "INT_32 FLOAT_32", default="2.5")))
    found = verdict(text, "config.xml", tmp_path)
    assert found.agree and found.converted == 0, found.printed
    [package] = json.loads((tmp_path / "converted.json").read_text()).values()
    assert package["Operators"][0]["scalar_params"][0]["data_type"] == "FLOAT_32"


def test_what_would_be_refused_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regardless of the writer."""
    json_text = udo().replace("FLOAT_32", "FLOAT_33")
    monkeypatch.setattr(json_write, "write", lambda packages, problems: json_text)
    found = verdict(collection(), "config.xml", tmp_path)
    assert (found.check, found.converted) == (0, 2)
    assert "this cannot be converted; the result would be refused" in found.printed
    assert "converted.json:" in found.printed and "'FLOAT_33' is not a data type" in found.printed
    assert not (tmp_path / "converted.json").exists()
