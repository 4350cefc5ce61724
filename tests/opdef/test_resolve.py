"""The view of one backend: supplements merged, nothing left open, types that its runtime delivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.opdef.texts import X, Y, collection, op, packages, param, supplement, tensor, udo
from udogen import GenerateOptions, backends
from udogen.configs import resolve
from udogen.findings import Finding, Findings
from udogen.generate.pipeline import resolve_all
from udogen.opdef.model import Op, Tensor

OPEN = tensor("Input", "x", "BACKEND_SPECIFIC") + Y


def resolved(
    tmp_path: Path, text: str, backend: str = "cpu", *, forced: bool = False
) -> tuple[Op, tuple[Finding, ...]]:
    findings = Findings()
    package = resolve.for_backend(packages(tmp_path, text)[0], backend, findings, forced=forced)
    return package.ops[0], findings.all()


def entry(body: str, tag: str = "Input", name: str = "x") -> str:
    return f"<{tag}><Name>{name}</Name>{body}</{tag}>"


def types(found: Tensor) -> str:
    return " ".join(datatype.name for datatype in found.datatypes)


def test_scalars_that_no_client_can_pass(tmp_path: Path) -> None:
    _, findings = resolved(tmp_path, collection(op(X + Y + param("k", "FLOAT_16") + param("n", "FLOAT_32"))))
    [found] = [finding.message for finding in findings]
    assert found == "`k` of `Scale` is a scalar of FLOAT_16, which QNN's API cannot pass"


def test_layout_text_and_constraints_by_id(tmp_path: Path) -> None:
    constraints = '<Constraint id="{}" Type="Value">{}</Constraint>'
    own = constraints.format(0, "ours 0") + constraints.format(1, "ours 1")
    theirs = constraints.format(1, "theirs 1") + constraints.format(2, "theirs 2")
    shape = "<Shape><Layout>NHWC</Layout><Text>theirs</Text></Shape>"
    text = collection(op(tensor("Input", "x", more=own) + Y), supplement(entry(theirs + shape)))
    found, _ = resolved(tmp_path, text)
    assert [constraint.text for constraint in found.inputs[0].constraints] == ["ours 0", "theirs 1", "theirs 2"]
    assert (found.inputs[0].layout, found.inputs[0].shape_text) == ("NHWC", "theirs")


def param_of(tmp_path: Path, own: str, more: str) -> tuple[Tensor, list[str]]:
    """Return the parameter `a` with its supplement, and the messages."""
    text = collection(op(X + Y + own), supplement(entry(more, "Parameter", "a")))
    found, output = resolved(tmp_path, text)
    return found.params[0], [finding.message for finding in output]


def test_defaults_of_supplements(tmp_path: Path) -> None:
    own = param("a", "BACKEND_SPECIFIC", default="1.0")
    more = "<Datatype>INT_32</Datatype><OnlyDefaultSupported>true</OnlyDefaultSupported>"
    found, output = param_of(tmp_path, own, more)
    assert (found.default, found.only_default, type(found.default), output) == (1, True, int, [])
    assert param_of(tmp_path, own, more + "<Default>3</Default>")[0].default == 3
    _, output = param_of(tmp_path, param("a", "BACKEND_SPECIFIC", default="300"), "<Datatype>UINT_8</Datatype>")
    assert output == ["the default of `a` of `Scale` is 300, but UINT_8 holds 0 … 255"]
    enum = "<Enumeration><Enum>NEAREST</Enum><Enum>LINEAR</Enum></Enumeration>"
    own = param("a", "UINT_32", more=enum, default="NEAREST")
    assert param_of(tmp_path, own, "<Default>LINEAR</Default>")[0].default == 1
    found, _ = param_of(tmp_path, param("a", "BACKEND_SPECIFIC", default="N-1"), "<Datatype>INT_32</Datatype>")
    assert (found.default, found.default_text) == (None, "N-1")


@pytest.mark.parametrize(
    ("archs", "backend", "expected"),
    [("DSP_V68", "htp", "INT_8"), ("DSP_V66", "dsp", "UINT_8"), ("HTP", "htp", "INT_16"), ("DSP", "dsp", "FLOAT_32")],
)
def test_the_most_special_supplement_wins(archs: str, backend: str, expected: str, tmp_path: Path) -> None:
    supplements = "".join(
        supplement(entry(f"<Datatype>{datatype}</Datatype>"), name)
        for name, datatype in (("DSP_V68", "INT_8"), ("DSP_V66", "UINT_8"), ("HTP", "INT_16"), ("DSP", "FLOAT_32"))
        if name in (archs, "DSP", "HTP")
    )
    found, output = resolved(tmp_path, collection(op(OPEN, backends=archs), supplements), backend)
    assert types(found.inputs[0]) == expected
    assert not output


def test_supplements_add_up(tmp_path: Path) -> None:
    layout = supplement(entry("<Shape><Layout>NHWC</Layout></Shape>"), "DSP_V68")
    text = collection(op(OPEN, backends="DSP_V68"), layout + supplement(entry("<Datatype>UINT_8</Datatype>"), "DSP"))
    found, output = resolved(tmp_path, text, "htp")
    assert (types(found.inputs[0]), found.inputs[0].layout) == ("UINT_8", "NHWC")
    assert not output


NAMED = {
    "CPU": "cpu", "CPU GPU": "cpu gpu", "HTP": "htp", "HTP_FP16": "htp", "DSP": "dsp", "DSP_V65": "dsp",
    "DSP_V66 DSP_V68": "htp dsp", "DSP_V73": "htp", "DSPV68": "htp", "dsp_v68 cpu": "cpu htp", "AIC": "", "": "",
}  # fmt: skip


def test_which_backends(tmp_path: Path) -> None:
    for names, expected in NAMED.items():
        package = packages(tmp_path, collection(op(backends=names)))[0]
        assert " ".join(backends.of_op(package.ops[0], package)) == expected, names
    package = packages(tmp_path, udo(core_types=["CPU", "DSP"], dsp_arch_types=["v66", "V73"]))[0]
    assert backends.of_op(package.ops[0], package) == ("cpu", "htp", "dsp")


# --- undefined types, and types that are never delivered --------------------------------------------------


def test_open_types_are_all_that_the_backend_has(tmp_path: Path) -> None:
    for backend in backends.ALL:
        found, [*_, warning] = resolved(tmp_path, collection(op(OPEN, backends=backend.upper())), backend)
        assert "FLOAT_32" in types(found.inputs[0])
        assert not warning.is_error and "BACKEND_SPECIFIC, which no supplement defines for" in warning.message
        assert f'<SupplementalOpDefList Backend="{backend.upper()}">' in warning.hint
    found, output = resolved(tmp_path, collection(op(OPEN, backends="HTP")), forced=True)
    assert types(found.inputs[0]) == " ".join(backends.ALL["cpu"].delivers)
    assert not output


def test_per_core_types_in_both_spellings(tmp_path: Path) -> None:
    for key in ("per_core_data_types", "per_core_data_type"):
        text = udo(inputs=[{"name": "x", key: {"CPU": "FLOAT_32", "DSP": "UINT_8"}}], core_types=["CPU", "DSP"])
        assert types(resolved(tmp_path, text)[0].inputs[0]) == "FLOAT_32"
        # the type that the UDO documents call UINT_8 on DSP is fixed point
        assert types(resolved(tmp_path, text, "dsp")[0].inputs[0]) == "UFIXED_POINT_8 UINT_8"


def test_types_that_are_never_delivered(tmp_path: Path) -> None:
    found, output = resolved(tmp_path, collection(op(tensor("Input", "x", "FLOAT_16") + Y)))
    assert [each.is_error for each in output] == [True]
    body = "".join(tensor("Input", name, "FLOAT_16 FLOAT_32") for name in "abcdefgh") + Y
    found, output = resolved(tmp_path, collection(op(body)))
    assert {types(each) for each in found.inputs} == {"FLOAT_32"}
    assert [each.message for each in output] == [
        "`a`, `b`, `c`, `d`, `e`, `f` … of `Scale` may be FLOAT_16, which the CPU runtime never passes to an op"
    ]
    found, output = resolved(tmp_path, collection(op(tensor("Input", "x", "UFIXED_POINT_32") + Y)))
    assert (types(found.inputs[0]), [each.is_error for each in output]) == ("UINT_32", [False])
    assert not resolved(tmp_path, collection(op(tensor("Input", "x", "FLOAT_16") + Y, backends="HTP")), "htp")[1]


def test_a_type_that_udo_ignores_beside_one_that_is_delivered_is_left_out(tmp_path: Path) -> None:
    findings = Findings()
    text = collection(op(tensor("Input", "x", "FLOAT_16 INT_32") + Y))
    package = resolve.for_backend(packages(tmp_path, text)[0], "cpu", findings, layout="snpe")
    assert types(package.ops[0].inputs[0]) == "INT_32"
    assert [each.message for each in findings.all()] == [
        "`x` of `Scale` may be FLOAT_16, which the CPU runtime never passes to an op"
    ]


def test_scalars_and_strings_may_be_of_any_type(tmp_path: Path) -> None:
    found, output = resolved(tmp_path, collection(op(X + Y + param("a", "INT_64") + param("b", "STRING", rank="1D"))))
    assert [types(each) for each in found.params] == ["INT_64", "STRING"]
    assert not output


def test_repeated(tmp_path: Path) -> None:
    for tag, other in (("Input", Y), ("Output", X)):
        text = collection(op(other + tensor(tag, "many", more="<Repeated>true</Repeated>")))
        found = {name: resolved(tmp_path, text, name, forced=True)[1] for name in backends.ALL}
        refused = {name: [finding.message for finding in each if finding.is_error] for name, each in found.items()}
        support = "`many` of `Scale` is repeated, which {} does not support".format
        expected = {name: [support(backends.ALL[name].title)] if name in ("dsp", "htp") else [] for name in refused}
        assert refused == expected


@pytest.mark.parametrize("chosen", [(), ("htp",)])
def test_a_limit_of_one_backend_stops_that_backend_alone(chosen: tuple[str, ...], tmp_path: Path) -> None:
    """A string, which HTP does not support: the CPU's package is generated anyway, unless HTP was requested."""
    texts = [param("mode", "STRING"), param("kind", "STRING", default="near")]
    [package] = packages(tmp_path, collection(op(X + Y + "".join(texts), backends="CPU HTP")))
    findings = Findings()
    [(_, found)] = resolve_all([package], findings, GenerateOptions(backends=chosen))
    assert list(found) == (["cpu"] if not chosen else ["htp"])
    assert bool(findings.errors) == bool(chosen)
    assert any("is not generated for HTP" in warning.message for warning in findings.warnings) != bool(chosen)


def test_unresolved_is_a_doubt(tmp_path: Path) -> None:
    findings = Findings()
    resolve.unresolved(packages(tmp_path, collection(op(OPEN, backends="CPU GPU")))[0], findings)
    assert [warning.message.split(",")[-1] for warning in findings.warnings] == [
        " which no supplement defines for CPU",
        " which no supplement defines for GPU",
    ]
    assert not findings.errors


def listed(*names: str) -> str:
    """Return supplements that only declare support of the op."""
    supported = "<SupportedOps><OpName>Scale</OpName></SupportedOps>"
    one = "<SupplementalOpDefList Backend={!r}>{}</SupplementalOpDefList>"
    return "".join(one.format(name, supported) for name in names)


@pytest.mark.parametrize(
    ("named", "supplements", "wanted", "archs"),
    [
        ("", ["DSP_V68"], "htp", "v68"),
        ("", ["DSP_V66"], "dsp", "v66"),
        ("", ["DSP_V66", "DSP_V68", "DSP_V73"], "htp dsp", "v66 v68 v73"),
        ("DSP_V66", ["DSP_V69"], "htp dsp", "v66 v69"),
        ("CPU DSP_V68", ["DSP_V66"], "cpu htp dsp", "v68 v66"),
        ("DSP", ["DSP_V75"], "htp", "v75"),
        ("CPU", ["DSP"], "cpu dsp", ""),
        ("HTP", ["DSP_V66"], "htp dsp", "v66"),
    ],
)
def test_a_supplement_that_lists_an_op_sets_the_version_too(
    tmp_path: Path, named: str, supplements: list[str], wanted: str, archs: str
) -> None:
    text = collection(op(X + Y, backends=named), listed(*supplements))
    [package] = packages(tmp_path, text)
    assert " ".join(backends.of_op(package.ops[0], package)) == wanted
    for backend in wanted.split():
        assert " ".join(resolve.for_backend(package, backend, Findings()).ops[0].dsp_archs) == archs
