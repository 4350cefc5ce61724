"""The CPU library of a UDO package accepts floats and quantized data, in Qualcomm's own runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.making import make, make_packages, need_runtime
from tests.snpe.packages import config, package
from udogen import ConfigError, RunFailed
from udogen.configs import resolve
from udogen.configs.load import load
from udogen.runtime.built import Built, find_built
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpSession

KERNELS = {
    # y = k * x * w + table[0]; written for floats only.
    "Affine": """
  for (std::size_t i = 0; i < args.x.size(); ++i) {
    args.y[i] = args.k * args.x[i] * args.w.data()[i % args.w.size()] + args.table[0];
  }""",
    # The sum of all inputs.
    "Total": """
  for (float& each : args.y) each = 0.0f;
  for (std::size_t k = 0; k < args.parts.size(); ++k) {
    const auto part = args.parts[k];
    for (std::size_t i = 0; i < part.size(); ++i) args.y[i] += part[i];
  }""",
    # A config of bytes: the kernel gets the type at each execution.
    "Negate": """
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y.setReal(i, -args.x.real(i));""",
}
PREPARE = {"Affine": 'if (args.table[0] != 0.5f) return udo::error("the parameter is %g", double(args.table[0]));'}


def tensor(name: str, cpu: str = "FLOAT_32", **more: object) -> dict[str, object]:
    return {"name": name, "per_core_data_types": {"CPU": cpu, "DSP": "UINT_8"}, **more}


def op(name: str, inputs: list[object], output: object, **more: object) -> dict[str, object]:
    body = {"type": name, "inputs": inputs, "outputs": [output]}
    return {**body, "core_types": ["CPU", "DSP"], "dsp_arch_types": ["v68"], **more}


OPS = [
    op(
        "Affine", [tensor("x"), tensor("w", static=True)], tensor("y"),
        scalar_params=[{"name": "k", "data_type": "FLOAT_32", "default_value": 1.0}],
        tensor_params=[{"name": "table", "data_type": "FLOAT_32"}],
    ),
    op("Total", [tensor("parts", repeated=True)], tensor("y"), core_types=["CPU"], dsp_arch_types=[]),
    op("Negate", [tensor("x", "UINT_8")], tensor("y", "FIXED_8")),
]  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return the package, with kernels that a user would write for floats."""
    need_runtime("cpu")
    base = tmp_path_factory.mktemp("quantized")
    kernels = base / "kernels" / "cpu"
    kernels.mkdir(parents=True)
    for name, body in KERNELS.items():
        (kernels / f"{name}.cpp").write_text(
            f'#include "ops/{name}.hpp"\nnamespace ops::Mixed::{name} {{\nstruct State {{}};\n'
            f"udo::Status prepare([[maybe_unused]] const Args& args, State&) {{ {PREPARE.get(name, '')}\n"
            f"  return udo::ok;\n}}\n"
            f"udo::Status execute(const Args& args) {{{body}\n  return udo::ok;\n}}\n"
            f"}}  // namespace ops::Mixed::{name}\n"
        )
    [made] = make_packages(
        [config(base, package("Mixed", *OPS))], base / "out", chosen=["cpu"], kernels=base / "kernels"
    )
    done = make(made.folder, "cpu_x86")
    assert done.returncode == 0, done.stderr
    return find_built(made.folder)


def run(built: Built, name: str, inputs: Mapping[str, Any], **more: Any) -> Any:
    with OpSession(built.library, built.provider, timeout=60) as session:
        call = make_call(built.op(name, "cpu"), built, name, CallOptions(inputs=inputs, **more))
        [output] = session.run(call).outputs.values()
        return output


def quantized(real: Any, scale: float, offset: int) -> Any:
    return np.clip(np.round(real / scale) - offset, 0, 255).astype("uint8")


def real(stored: Any, scale: float, offset: int) -> Any:
    return scale * (stored.astype("float64") + offset)


DICE = np.random.default_rng(7)
X, W = DICE.uniform(-2, 2, (2, 3, 4)).astype("f4"), DICE.uniform(-1, 1, (4,)).astype("f4")
XQ, WQ, YQ, TQ = (0.02, -100), (0.01, -100), (0.025, -90), (0.5, -3)
TABLE = np.array([0.5], "f4")


@pytest.mark.parametrize("what", ["x", "w", "y", "table", "x w", "x y", "x w y table"])
def test_quantized_and_floats_in_any_mixture(built: Built, what: str) -> None:
    """Each tensor may have floats or 8-bit data; a quantized output is right within one step."""
    quants = {name: encoding for name, encoding in {"x": XQ, "w": WQ, "y": YQ, "table": TQ}.items() if name in what}
    given = {
        name: quantized(array, *quants[name]) if name in quants else array
        for name, array in {"x": X, "w": W, "table": TABLE}.items()
    }
    seen = {name: real(array, *quants[name]) if name in quants else array.astype("f8") for name, array in given.items()}
    dtypes, params = {"y": "UFIXED_POINT_8" if "y" in what else "FLOAT_32"}, {"table": given.pop("table")}
    found = run(built, "Affine", given, quants=quants, dtypes=dtypes, params=params)
    wanted = seen["x"] * seen["w"] + 0.5
    if "y" in what:
        assert found.dtype == np.uint8
        assert np.abs(found.astype(int) - quantized(wanted, *YQ).astype(int)).max() <= 1
    else:
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_from_a_stored_context(built: Built) -> None:
    """Restored in a new process, quantized tensors are still converted to floats."""
    stored = quantized(X, *XQ)
    options = CallOptions(
        inputs={"x": stored, "w": W},
        quants={"x": XQ, "y": YQ},
        dtypes={"y": "UFIXED_POINT_8"},
        params={"table": TABLE},
    )
    call = make_call(built.op("Affine", "cpu"), built, "Affine", options)
    with OpSession(built.library, built.provider, timeout=60) as session:
        first = session.run(replace(call, save_context=True))
    with OpSession(built.library, built.provider, timeout=60) as session:
        again = session.run(replace(call, context=first.context))
    np.testing.assert_array_equal(again.outputs["y"], first.outputs["y"])
    assert len(set(first.outputs["y"].ravel().tolist())) > 4


@pytest.mark.parametrize("stored", [(), (1,), (0, 2)], ids=["floats", "one", "two"])
def test_of_repeated_inputs_some_may_be_quantized(built: Built, stored: tuple[int, ...]) -> None:
    parts: dict[str, Any] = {f"parts.{index}": X + index for index in range(3)}
    quants, wanted = {}, np.zeros_like(X, dtype="f8")
    for index, (name, part) in enumerate(parts.items()):
        if index in stored:
            quants[name] = (0.05, -60)
            parts[name] = quantized(part, 0.05, -60)
        wanted += real(parts[name], 0.05, -60) if index in stored else part
    found = run(built, "Total", parts, quants=quants, dtypes={"y": "FLOAT_32"})
    np.testing.assert_allclose(found, wanted, atol=2e-6)


def test_a_config_of_bytes_takes_floats_too(built: Built) -> None:
    """The views support several types: no tensor can be converted to bytes without a scale."""
    np.testing.assert_array_equal(run(built, "Negate", {"x": X}, dtypes={"y": "FLOAT_32"}), -X)
    stored = quantized(X, *XQ)
    found = run(built, "Negate", {"x": stored}, quants={"x": XQ, "y": XQ}, dtypes={"y": "UFIXED_POINT_8"})
    assert np.abs(found.astype(int) - quantized(-real(stored, *XQ), *XQ).astype(int)).max() <= 1


def test_other_types_are_still_refused(built: Built) -> None:
    with pytest.raises(RunFailed, match="holds int32; it must be"):
        run(built, "Affine", {"x": X.astype("i4"), "w": W}, params={"table": TABLE})


def one_type(folder: Path, dtype: str, core: str, **more: object) -> Path:
    """Write a config of one op with one type."""
    x = {"name": "x", "data_type": dtype}
    op = {"type": "A", "inputs": [x], "outputs": [x | {"name": "y"}], "core_types": [core], **more}
    return config(folder, package("P", op))


def test_a_type_that_a_core_does_not_know_is_ignored(tmp_path: Path) -> None:
    """With a warning that names the place, the type and the core; nothing is refused."""
    for written, core, archs, taken, layout in (
        ("FLOAT_16", "CPU", [], "FLOAT_32 UFIXED_POINT_8", ""),
        ("UINT_16", "CPU", [], "FLOAT_32 UFIXED_POINT_8", ""),
        ("UINT_32", "DSP", ["v66"], "UFIXED_POINT_8 UINT_8", ""),
        ("FLOAT_16", "DSP", ["v66"], "FLOAT_32", "qnn"),
    ):
        [made], findings = load([one_type(tmp_path, written, core, dsp_arch_types=archs)])
        found = resolve.for_backend(made, core.lower(), findings, layout=layout).ops[0]
        assert [" ".join(row.name for row in each.accepted) for each in found.tensors] == [taken] * 2
        assert not findings.errors
        message = f"`x` of `A` is {written}, which {core} does not support: it is ignored"
        assert message in [warning.message for warning in findings.warnings]
        assert {warning.location.line > 0 for warning in findings.warnings} == {True}


def test_where_no_type_is_left_it_is_an_error(tmp_path: Path) -> None:
    """A string is not a tensor; in the layout of QNN the types of a config are taken literally."""
    path = one_type(tmp_path, "STRING", "CPU")
    with pytest.raises(ConfigError) as caught:
        make_packages([path], tmp_path / "out")
    assert "`x` of `A` is STRING, which the CPU runtime never passes to an op" in caught.value.findings[0].message
    one_type(tmp_path, "FLOAT_16", "CPU")
    with pytest.raises(ConfigError):
        make_packages([path], tmp_path / "out", layout="qnn")
    assert make_packages([path], tmp_path / "out")
