"""Locating errors in a model: truncated, with contexts replaced, and bisected; contexts and ONNX networks."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.contexts.conftest import nothing_left
from tests.contexts.test_context_models import LINKS, STATE, Numpy, build, ramp
from tests.making import ONE_KERNEL, ONE_OP, cpu_package
from udogen import Model, UdogenError, UsageError

REFERENCE = """
import numpy as np
def shard(graph, inputs):
    if graph == "peek":
        return {"x_out": inputs["x"] + inputs["past_total"]}
    total = inputs["x"] + inputs["past_total"]
    return {"total": total, "x_out": total + 2}
def wrong(graph, inputs):
    return {"totl": inputs["x"]}
def raises(graph, inputs):
    raise ValueError("no")
"""


@cache
def built(base: Path, backend: str, kind: str) -> Path:
    return build(base / f"bisect-{backend}-{kind}", backend, kind)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """Return two shards for the CPU emulator, to be changed."""
    made = Path(shutil.copytree(built(tmp_path_factory.getbasetemp(), "cpu", "emulator"), tmp_path / "model"))
    (tmp_path / "reference.py").write_text(REFERENCE)
    return made


def expected_tensors(steps: int) -> dict[str, np.ndarray]:
    """Return the outputs of the model's contexts, computed by numpy."""
    numbers, rows = Numpy(), {}
    for step in range(steps):
        x = ramp(step)
        for shard in range(2):
            numbers.totals[shard] = numbers.totals[shard] + x
            x = numbers.totals[shard] + shard + 1
            rows.setdefault(f"forward_{shard}.total", []).append(numbers.totals[shard])
            rows.setdefault(f"forward_{shard}.x_out", []).append(x)
    return {name: np.stack(each) for name, each in rows.items()}


@pytest.fixture
def feeds(tmp_path: Path) -> tuple[object, ...]:
    np.save(tmp_path / "x.npy", np.stack([ramp(number) for number in range(3)]))
    return "--graph", "step", "--feed", f"x={tmp_path / 'x.npy'}"


def test_a_model_ends_with_a_context(folder: Path, feeds: tuple[object, ...], tmp_path: Path) -> None:
    for until in ("forward_0", 0):
        with nothing_left(), Model.open(folder, links=LINKS, state=STATE, until=until) as model:
            assert model.names == ("forward_0",) and set(model.outputs("step")) == {"x_out"}
            np.testing.assert_array_equal(model.step(x=ramp(1), graph="step")["x_out"], ramp(1) + 1)
    with pytest.raises(UsageError, match=r"no context `forward_7` to end with") as caught:
        Model.open(folder, until="forward_7")
    assert "forward_1" in caught.value.hint
    done = udogen("run", "context", folder, *feeds, "--until", 0, "--steps", 2, "--output-dir", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out/step_1/x_out.npy"), expected_tensors(2)["forward_0.x_out"][1])


@pytest.mark.parametrize("memory", ["raw", "shared"])
@pytest.mark.parametrize(("backend", "kind"), [("cpu", "emulator"), ("htp", "emulator"), ("htp", "real")])
def test_a_context_is_replaced_by_numpy(
    tmp_path_factory: pytest.TempPathFactory, backend: str, kind: str, memory: str
) -> None:
    model_folder = built(tmp_path_factory.getbasetemp(), backend, kind)
    expected = expected_tensors(3)
    seen = []

    def second(graph: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        seen.append(graph)
        total = inputs["x"] + inputs["past_total"]
        return {"total": total, "x_out": total + 2}

    with Model.open(model_folder, links=LINKS, state=STATE, memory=memory, replace={"forward_1": second}) as model:
        for step in range(3):
            found = model.step(x=ramp(step), graph="step")["x_out"]
            np.testing.assert_array_equal(found, expected["forward_1.x_out"][step])
        assert (model.copied.state, model.copied.activation) == (0, 0)
    assert seen == ["step"] * 3


OTHERS = [("cpu", "emulator", "cpu", "real"), ("htp", "real", "htp", "emulator"), ("htp", "real", "cpu", "real")]


@pytest.mark.parametrize(("backend", "kind", "other", "other_kind"), OTHERS)
def test_a_context_runs_in_another_runtime(
    tmp_path_factory: pytest.TempPathFactory, backend: str, kind: str, other: str, other_kind: str
) -> None:
    base = tmp_path_factory.getbasetemp()
    mine, theirs = built(base, backend, kind), built(base, other, other_kind)
    name = "emulator" if other_kind == "emulator" else other
    with Model.open(
        mine, links=LINKS, state=STATE, shard_runtimes={"forward_1": f"{name}:{theirs / 'forward_1.bin'}"}
    ) as model:
        for step in range(2):
            found = model.step(x=ramp(step), graph="step")["x_out"]
            np.testing.assert_array_equal(found, expected_tensors(2)["forward_1.x_out"][step])
    if other == backend:
        return
    with pytest.raises(UsageError, match=rf"forward_1 is to run on {name}, but .* was made for") as caught:
        Model.open(mine, links=LINKS, state=STATE, shard_runtimes={"forward_1": name})
    assert "FILE.bin" in caught.value.hint


def test_a_context_on_another_backend_needs_the_op_packages_for_it(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    mine, theirs = (built(tmp_path_factory.getbasetemp(), backend, "emulator") for backend in ("cpu", "htp"))
    package = cpu_package(ONE_OP, tmp_path, ONE_KERNEL).folder
    assert package is not None
    runtimes = {"forward_1": f"htp-emulator:{theirs / 'forward_1.bin'}"}
    with pytest.raises(UsageError, match=r"context forward_1 is to run on another backend: .* no package for the htp"):
        Model.open(mine, links=LINKS, state=STATE, packages=[package.path], shard_runtimes=runtimes)


WRONG = {
    "an op": ({"replace": {"MatMul": "r.py:f"}}, "the model has no context of this name"),
    "a context twice": (
        {"replace": {"forward_1": "reference.py:shard"}, "shard_runtimes": {"forward_1": "emulator"}},
        "context forward_1 is replaced twice",
    ),
    "no function": ({"replace": {"forward_1": "reference.py:shrd"}}, "has no function `shrd`"),
    "no Python file": ({"replace": {"forward_1": "reference"}}, "which is no Python function"),
    "no runtime": ({"shard_runtimes": {"forward_1": "emulater"}}, "which is not a runtime"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_replaced(folder: Path, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, text = WRONG[what]
    monkeypatch.chdir(tmp_path)
    with nothing_left(), pytest.raises(UdogenError) as caught:
        Model.open(folder, **options)  # type: ignore[arg-type]
    assert text in str(caught.value) and caught.value.hint


@pytest.mark.parametrize(
    ("function", "text"),
    [("wrong", "returns no `total`"), ("raises", "that replaces context forward_1 raised ValueError: no")],
)
def test_a_function_that_fails_changes_no_state(
    folder: Path, tmp_path: Path, function: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Model.open(folder, links=LINKS, state=STATE, replace={"forward_1": f"reference.py:{function}"}) as model:
        with pytest.raises(UdogenError) as caught:
            model.step(x=ramp(0), graph="step")
        assert text in str(caught.value)
        assert not any(pair.copy_to().any() for pair in model.state.values())


def test_the_command_line_replaces_contexts(folder: Path, feeds: tuple[object, ...], tmp_path: Path) -> None:
    np.savez(tmp_path / "right.npz", **expected_tensors(3))
    against = (*feeds, "--against", tmp_path / "right.npz")
    done = udogen("bisect", folder, *against, "--replace", "forward_1=reference.py:shard", cwd=tmp_path)
    assert done.returncode == 0 and "no difference: 4 tensors agree in 3 steps" in done.stdout, done.stderr
    done = udogen("bisect", folder, *against, "--replace", "ElementWiseAdd=reference", cwd=tmp_path)
    assert done.returncode == 2 and "an op inside a context binary cannot be replaced" in done.stderr
    (folder / "model.toml").write_text(
        'contexts = ["."]\ngraphs = ["step"]\nuntil = 1\n[links]\nx = "x_out"\n[state]\npast_total = "total"\n'
        '[replace]\nforward_0 = "../reference.py:shard"\n[shard_runtimes]\nforward_1 = "emulator"\n'
    )
    done = udogen("bisect", folder / "model.toml", *feeds[2:], "--against", tmp_path / "right.npz")
    assert done.returncode == 6, "the reference is that of the other shard"
    assert "first difference: `forward_0.x_out`" in done.stdout


def test_bisect_names_the_first_tensor_that_differs(folder: Path, feeds: tuple[object, ...], tmp_path: Path) -> None:
    def bisected(arrays: dict[str, np.ndarray], *options: object) -> dict:
        np.savez(tmp_path / "expected.npz", **arrays)
        done = udogen("bisect", folder, *feeds, "--against", tmp_path / "expected.npz", "--json", *options)
        found: dict = json.loads(done.stdout)
        assert done.returncode == (0 if found["ok"] else 6), done.stderr
        return found

    right = expected_tensors(3)
    assert bisected(right)["steps"] == 3
    off = right | {"forward_1.total": right["forward_1.total"].copy(), "forward_1.x_out": right["forward_1.x_out"] + 9}
    off["forward_1.total"][1, 0, 0, 5] += 4
    off["forward_1.x_out"][:1] = right["forward_1.x_out"][:1]
    found = bisected(off)
    first = found["first"]
    assert (first["step"], first["context"], first["tensor"]) == (1, "forward_1", "forward_1.total")
    assert (first["stage"], first["stages"], first["elements"], first["index"]) == (1, 2, 1, [0, 0, 5])
    assert first["after"] == "forward_0.x_out" and found["steps"] == 2, "it ends with that step"

    behind = {name: np.concatenate([array[:1], array[:-1]]) for name, array in right.items()}
    assert "for the step after: state or inputs are one step off" in bisected(behind)["first"]["reason"]
    swapped = right | {"forward_0.x_out": right["forward_1.total"] * 0 + right["forward_1.x_out"]}
    swapped["forward_1.x_out"] = right["forward_0.x_out"]
    assert "are two links or states exchanged" in bisected(swapped)["first"]["reason"]
    scaled = {name: array * np.float32(2) for name, array in right.items()}
    assert bisected(scaled)["reasons"], "numbers show a factor"
    done = udogen("bisect", folder, "--against", tmp_path / "expected.npz", "--graph", "step")
    assert "no --feed: `x`" in done.stdout and done.returncode == 6
    for wrong, text in ((("--graph", "step"), "nothing to compare the model with"), ((), "nothing to compare")):
        done = udogen("bisect", folder, *wrong)
        assert done.returncode == 2 and text in done.stderr
