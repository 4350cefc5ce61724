"""udogen.Model and GraphBuilder: two contexts with a state each, compared with numpy; errors; closing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.command_line import udogen
from tests.contexts.conftest import nothing_left, run_json
from tests.contexts.stepping import BACKENDS
from tests.making import LONG, ROOT, need_runtime
from udogen import ConfigError, GraphBuilder, Model, RunFailed, UdogenError, UsageError, public_calls
from udogen.qnn.interface import Interface
from udogen.runtime import ModelDescription, QnnError, Runtime
from udogen.runtime.buffers.plan import BufferPlan
from udogen.runtime.contexts import report
from udogen.runtime.contexts.binaries import Shard
from udogen.runtime.contexts.commands import ContextRan
from udogen.runtime.library import RuntimeInfo
from udogen.runtime.models.description import read_description
from udogen.runtime.quantization import dequantize, grid_of

SHAPE = (1, 1, 8)
LINKS, STATE = {"x": "x_out"}, {"past_total": "total"}
CONTEXTS = 'contexts = ["."]\n'
MODEL = CONTEXTS + '[links]\nx = "x_out"\n[state]\npast_total = "total"\n'


def build(folder: Path, backend: str, kind: str, *, shards: int = 2) -> Path:
    """Build shards with two graphs: `step` (total = past + x, x_out = total + shard number), `peek` (x + past)."""
    if kind == "real":
        need_runtime(backend)
    for shard in range(shards):
        with GraphBuilder(backend, runtime=kind) as builder:
            with builder.graph("step", outputs=["total", "x_out"]) as graph:
                x, past = (graph.input(name, "FLOAT_32", SHAPE) for name in ("x", "past_total"))
                total = graph.op("ElementWiseAdd", [past, x], "total", like=x)
                number = graph.weight("number", np.full(SHAPE, shard + 1, np.float32))
                graph.op("ElementWiseAdd", [total, number], "x_out", like=x)
            with builder.graph("peek", outputs=["x_out"]) as graph:
                x, past = (graph.input(name, "FLOAT_32", SHAPE) for name in ("x", "past_total"))
                graph.op("ElementWiseAdd", [past, x], "x_out", like=x)
            builder.save(folder / f"forward_{shard}.bin")
    (folder / "model.toml").write_text(MODEL)
    return folder


@cache
def cached(base: Path, backend: str, kind: str) -> Path:
    return build(base / f"{backend}-{kind}", backend, kind)


@pytest.fixture
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Return the folder of the two shards, built once for each runtime."""
    return lambda backend, kind: cached(tmp_path_factory.getbasetemp(), backend, kind)


@pytest.fixture
def folder(model_of: Callable[[str, str], Path], tmp_path: Path) -> Path:
    """Return a copy of them for the CPU emulator, to be changed."""
    return Path(shutil.copytree(model_of("cpu", "emulator"), tmp_path / "model"))


class Numpy:
    """The same model in numpy."""

    def __init__(self) -> None:
        self.totals = [np.zeros(SHAPE, np.float32) for _ in range(2)]

    def step(self, x: np.ndarray) -> np.ndarray:
        for shard in range(2):
            self.totals[shard] = self.totals[shard] + x
            x = self.totals[shard] + shard + 1
        return x

    def peek(self, x: np.ndarray) -> np.ndarray:
        return x + self.totals[0] + self.totals[1]


def ramp(start: int) -> np.ndarray:
    return np.arange(start, start + 8, dtype=np.float32).reshape(SHAPE)


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["raw", "shared"])
@pytest.mark.parametrize(("backend", "kind"), BACKENDS)
def test_steps_compute_what_numpy_does(
    model_of: Callable[[str, str], Path], backend: str, kind: str, memory: str
) -> None:
    folder, expected = model_of(backend, kind), Numpy()
    with ExitStack() as stack:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = stack.enter_context(Model.open(folder, memory=memory))
        named = [f"libQnn{backend.capitalize()}.so registers no shared memory here"]
        expected_warnings = named if (kind, memory) == ("real", "shared") else []
        assert [str(each.message).partition(":")[0] for each in caught] == expected_warnings
        assert (model.runtime.backend, model.runtime.emulator) == (backend, kind == "emulator"), "as the binaries"
        assert sorted(model.graphs) == ["peek", "step"]
        places = {name: {pair.reading.address, pair.writing.address} for name, pair in model.state.items()}
        assert sorted(places) == ["forward_0.past_total", "forward_1.past_total"]
        for number in range(4):
            np.testing.assert_array_equal(
                model.step(x=ramp(number), graph="step")["x_out"], expected.step(ramp(number))
            )
            np.testing.assert_array_equal(model.step(x=ramp(9), graph="peek")["x_out"], expected.peek(ramp(9)))
        for shard, pair in enumerate(model.state.values()):
            np.testing.assert_array_equal(pair.copy_to(), expected.totals[shard])
        assert {name: {pair.reading.address, pair.writing.address} for name, pair in model.state.items()} == places
        assert model.copied == (2 * 8 * 32 if memory == "shared" else 0) + 2 * 32, "state is read by this test alone"
        assert [(row.steps, len(row.contexts)) for row in model.timings.values()] == [(4, 2), (4, 2)]
        model.reset()
        np.testing.assert_array_equal(model.step(x=ramp(1), graph="step")["x_out"], Numpy().step(ramp(1)))
        schema = json.loads((ROOT / "schemas/bind_plan.schema.json").read_text())
        jsonschema.validate(model.plan.as_json(), schema)
        assert len({row.buffer for row in model.plan.tensors}) == len(model.domain.buffers)
        assert any("forward_1.past_total" in row.buffer for row in model.plan.tensors)


def test_a_step_gives_arrays_of_its_own_or_writes_to_those_that_are_given(folder: Path) -> None:
    with Model.open(folder) as model:
        first = model.step({"x": ramp(0)}, graph="step")["x_out"]
        before = first.copy()
        given = np.empty(SHAPE, np.float32)
        assert model.step(x=ramp(1), graph="step", out={"x_out": given})["x_out"] is given
        np.testing.assert_array_equal(first, before)


def test_a_step_checks_no_arguments_of_udogens_own_calls(folder: Path) -> None:
    """All public names are loaded here, whose methods check their arguments."""
    called = set[str]()

    def trace(frame: Any, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == public_calls.__file__:
            called.add(f"{frame.f_back.f_code.co_qualname} calls {frame.f_code.co_name}")

    with Model.open(folder) as model:
        graph, arrays = model.sessions.contexts[0].graph("step"), {"x": ramp(0)}
        model.step(graph="step", **arrays)
        sys.setprofile(trace)
        try:
            for _ in range(3):
                model.step(graph="step", **arrays)
                graph(arrays)
        finally:
            sys.setprofile(None)
    assert not called


def test_steps_in_the_thread_of_a_model_give_the_same_numbers(folder: Path) -> None:
    with Model.open(folder) as model:
        expected = [model.step(x=ramp(number), graph="step")["x_out"] for number in range(20)]
        model.reset()
        futures = [model.step_async(x=ramp(number), graph="step") for number in range(20)]
        np.testing.assert_array_equal([future.result(timeout=60)["x_out"] for future in futures], expected)
        with pytest.raises(UsageError, match="takes no input `y`"):
            model.step_async(y=ramp(0), graph="step").result(timeout=60)
    with pytest.raises(RunFailed, match="the model is closed"):
        model.step_async(x=ramp(0), graph="step")


def test_quantized_tensors_take_real_numbers(tmp_path: Path) -> None:
    grid = grid_of(-4, 4, "UFIXED_POINT_8")
    with GraphBuilder("cpu", runtime="emulator") as builder:
        with builder.graph("g", outputs=["y"]) as graph:
            x = graph.input("x", "UFIXED_POINT_8", (4,), grid)
            graph.op("Reshape", [x], "y", shape=(2, 2), like=x)
        builder.save(tmp_path / "one.bin")
    real = np.array([-4, 0, 1, 4.0])
    with Model.open(tmp_path / "one.bin") as model:
        found = model.step(x=real)
        assert found["y"].dtype == np.uint8 and found == dict(found)
        np.testing.assert_allclose(found.real["y"].reshape(-1), real, atol=grid.scale / 2)
        assert found.real["y"][0, 1] == 0, "zero is one of the numbers of a grid"
        with pytest.raises(UsageError, match="tensor `x` has NaN, which fixed-point numbers cannot be"):
            model.step(x=[np.nan, 0, 1, 4])
    with Runtime("cpu", runtime="emulator") as runtime, runtime.restore(tmp_path / "one.bin") as context:
        outputs = context.graph("g")(x=np.array([0, 128, 255, 1], np.uint8))
        np.testing.assert_array_equal(outputs.real["y"], dequantize(outputs["y"], grid))


@pytest.mark.parametrize(
    ("steps", "backend", "kind"), [(10_000, "cpu", "emulator"), *((100_000, *backend) for backend in BACKENDS)]
)
def test_steps_leave_memory_and_descriptors_as_they_were(
    model_of: Callable[[str, str], Path], steps: int, backend: str, kind: str
) -> None:
    with Model.open(model_of(backend, kind), memory="shared" if kind == "emulator" else "raw") as model:
        x = ramp(0) * 0
        for _ in range(200):
            model.step(x=x, graph="step")
        before, opened = resident(), len(os.listdir("/proc/self/fd"))
        for _ in range(steps):
            model.step(x=x, graph="step")
        grown, more = resident() - before, len(os.listdir("/proc/self/fd")) - opened
        print(f"\n{steps} steps on {backend} {kind}: {grown / 1024:+.0f} KiB, {more:+} descriptors")
        assert grown < 1 << 20
        assert more == 0


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_the_sharded_model_is_understood(sharded_llm: Callable[[str], Path]) -> None:
    """On sessions of its own; the shapes determine which graph a step executes."""
    program = """
import sys, numpy as np
from udogen import Model
with Model.open(sys.argv[1], sessions=3, memory="shared") as model:
    assert model.wiring.links == {"hidden": "hidden_out"}
    assert model.wiring.state == {"past_key": "key", "past_value": "value"}
    assert len(model.state) == 16 and len(model.sessions.sessions) == 3
    for tokens in (16, 1, 1):
        out = model.step(hidden=np.zeros((1, tokens, 64)), mask=np.zeros((1, 1, tokens, 32)), position=0)
        assert out["logits"].shape == (1, tokens, 64)
    assert {name: row.steps for name, row in model.timings.items()} == {"prefill_forward": 1, "kv_forward": 2}
    assert model.graphs == ("prefill_forward", "kv_forward")
    table = str(model.memory).splitlines()
    kinds = ["model", "context", "compute", "unaccounted"]
    assert table[0].split() == ["memory", "[MiB]", "total", "free", "self", *kinds]
    assert [line.split()[0] for line in table[1:]] == ["HTP0", "HTP1", "HTP2", "host"]
    for row in model.memory.rows[:3]:
        assert row.used == row.model + row.context + row.compute and row.free == row.total - row.used
    assert model.memory.rows[3].context == 0, "state is registered, on the sessions"
    assert [row.unaccounted is None for row in model.memory.rows] == [True, True, True, False]
"""
    argv = [sys.executable, "-c", program, str(sharded_llm("emulator"))]
    env = {**os.environ, "UDOGEN_HTP_DEVICES": "SM8650,SM8650,SM8650", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr[-3000:]


# --- errors -----------------------------------------------------------------------------------------------------------


def test_packages_that_are_none(folder: Path) -> None:
    with nothing_left(), pytest.raises(UsageError, match=r"Model\.open: `packages` is a list with an int: 3"):
        Model.open(folder, packages=[3])  # type: ignore[list-item]


def test_a_link_that_connects_nothing_is_refused(folder: Path) -> None:
    alone = ModelDescription((folder / "forward_0.bin",), links=LINKS, state=STATE)
    with pytest.raises(UsageError, match="link `x=x_out` connects nothing: no context before one with that input"):
        Model.open(alone)


@pytest.mark.parametrize(
    ("lines", "place", "text"),
    [
        (["[state]", 'pas_total = "total"'], 3, "did you mean `past_total`?"),
        (["[links]", 'hiden = "x_out"'], 3, "link `hiden=x_out`: no graph has the input `hiden`"),
        (["[links]", 'x = "x_out"', '"0.x" = "1.x_out"'], 4, "input `x` of forward_0: nothing before it has an output"),
        (['links = { x = "x_ou" }'], 2, "link `x=x_ou`: no graph has the output `x_ou`"),
        (["", "# x =", "[state]", 'past_total = "sum"'], 5, "state `past_total=sum`: no graph has the output `sum`"),
        (["[state]", 'past_total = "total"', 'x = "total"'], 4, "is the next value of the states `past_total` and `x`"),
        (["[links]", 'past_total = "x_out"', "[state]", 'past_total = "total"'], 3, "`past_total` has two writers"),
        (['graphs = ["stp"]'], 2, "the model has no graph `stp`"),
        (["sessions = 3"], 2, "3 sessions are requested, but"),
        (["[links]", "x = 3"], 3, "`x` must be a string, not 3"),
        (["[state]", 'past_total = ["total"]'], 3, "`past_total` must be a string, not a list of 1"),
        (["[[links]]", 'x = "x_out"'], 2, "`links` must be an object, not a list of 1"),
        (["[links]", 'x = "x_out"', "[stat]", 'a = "b"'], 4, "did you mean `state`?"),
        (["[links]", '"1.x" = "1.x_out"'], 3, "input `x` of forward_1: nothing before it has an output `1.x_out`"),
        (["packages = [", '  ".",', '  "none",', "]"], 4, "there is no file or folder"),
        (["graphs = [", '  "step",', "  3,", "]"], 4, "`graphs` must be a string, not 3"),
        (["sessions = 0", "sessions = 1"], 3, "cannot overwrite a value"),
        (["", "backend = cpu"], 3, "invalid value"),
    ],
)
def test_what_is_wrong_in_a_description_is_reported_with_its_line(
    folder: Path, lines: list[str], place: int, text: str
) -> None:
    file = folder / "model.toml"
    file.write_text("\n".join(['contexts = ["."]', *lines, ""]))
    with nothing_left(), pytest.raises((UsageError, ConfigError)) as caught:
        Model.open(file)
    assert f"{file}:{place}: " in str(caught.value) and text in str(caught.value)
    assert caught.value.hint or isinstance(caught.value, ConfigError)


KEYS = ("contexts", "packages", "backend", "runtime", "soc", "graphs", "links", "state", "sessions", "session_limit")
VALUES = ('"x"', "-1", "1.5", "true", "[1]", '["x"]', "1979-05-27", '["a_file"]', '["empty"]', '"\\u0000"', "[[]]")
WRONG = (
    *((key, value) for key in (*KEYS, "memory") for value in VALUES),
    *(("contexts", value) for value in ("[]", "{}", '""')),
    *(("soc", value) for value in ('"SM9999"', '"v12"', "4294967296")),
    ("backend", '"htp"'),
    ("runtime", '"real"'),
    ("packages", '["a_file:Provider:HTP"]'),
    ("sessions", "3"),
    ("session_limit", '"0GB"'),
    ("link", "{}"),
)


def test_there_are_enough_wrong_descriptions() -> None:
    assert len(WRONG) >= 80


@pytest.mark.parametrize(("key", "value"), WRONG)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "BOM"])
def test_what_is_wrong_has_its_line(folder: Path, key: str, value: str, mark: str) -> None:
    (folder / "a_file").write_text("text")
    (folder / "empty").mkdir()
    file = folder / "model.toml"
    others = [] if key == "contexts" else ['contexts = ["."]']
    file.write_text(mark + "\n".join([*others, "# a comment", f"{key} = {value}", ""]), "utf-8")
    with nothing_left(), pytest.raises(UdogenError) as caught:
        Model.open(file)
    assert f"{file}:{len(others) + 2}:" in str(caught.value)
    assert caught.value.hint or isinstance(caught.value, ConfigError)


def test_types_and_shapes_of_links_and_states_must_agree(tmp_path: Path) -> None:
    for shard, (shape, dtype) in enumerate((((4,), "FLOAT_32"), ((2, 2), "FLOAT_32"))):
        with GraphBuilder("cpu", runtime="emulator") as builder:
            with builder.graph("g", outputs=["y"]) as graph:
                x = graph.input("x", dtype, shape)
                graph.op("Reshape", [x], "y", shape=(4, 1), like=x)
            builder.save(tmp_path / f"forward_{shard}.bin")
    for described, fault in (
        (ModelDescription((tmp_path,), links={"x": "y"}), "dimension 0 is 4 in output `y` of graph `g`"),
        (ModelDescription((tmp_path / "forward_0.bin",), state={"x": "y"}), "input `x` of graph `g` .* 1 dimensions"),
    ):
        with nothing_left(), pytest.raises(UsageError, match=fault):
            Model.open(described)


def test_a_missing_shard_is_named(folder: Path) -> None:
    (folder / "forward_1.bin").rename(folder / "forward_3.bin")
    with pytest.raises(UsageError, match=r"a shard of the model is missing: .*forward_1.bin and forward_2.bin"):
        Model.open(folder)
    (folder / "model.toml").write_text('\ncontexts = ["."]\n')
    with pytest.raises(UsageError, match=r"model.toml:2: a shard of the model is missing"):
        Model.open(folder)
    with pytest.raises(UsageError, match="there is no file or folder"):
        Model.open(folder / "gone")


def test_a_model_that_does_not_fit_is_refused_with_the_table(
    model_of: Callable[[str, str], Path], tmp_path: Path
) -> None:
    folder = model_of("htp", "emulator")
    size = sum((folder / f"forward_{shard}.bin").stat().st_size for shard in range(2))
    with pytest.raises(UsageError, match=r"2 layers that map .* do not fit into one session") as caught:
        Model.open(folder, sessions=1, session_limit=size)
    with pytest.raises(UsageError, match="'much' is not a size"):
        Model.open(folder, session_limit="much")
    with Model.open(folder, session_limit="2MiB") as model:
        assert model.memory.rows[0].total == 2 << 20
    assert any("HTP0" in line for line in caught.value.details)
    file = tmp_path / "model.toml"
    for sessions, fault in (
        (3, f"{file}:2: 3 sessions are requested, but"),
        (1, f"{file}:3: 2 layers that map "),
    ):
        file.write_text(f'contexts = ["{folder}"]\nsessions = {sessions}\nsession_limit = {size}\n')
        done = udogen("run", "steps", file, "--dry-run")
        assert done.returncode == 2 and fault in done.stderr, done.stderr


INPUTS = {
    "none": ({}, "graph `step` is given no input `x`"),
    "another": ({"x": ramp(0), "y": ramp(0)}, "graph `step` takes no input `y`"),
    "one of the state": (
        {"x": ramp(0), "past_total": ramp(0)},
        "takes no input `past_total`: it is a state, which the model",
    ),
    "another shape": ({"x": ramp(0).reshape(8)}, "the array has the shape [8], input `x` has [1, 1, 8]"),
    "another type": ({"x": ramp(0).astype(np.int32)}, "the array is int32, tensor `x` is FLOAT_32"),
}


@pytest.mark.parametrize("what", INPUTS)
def test_wrong_inputs_change_no_state(folder: Path, what: str) -> None:
    given, text = INPUTS[what]
    with Model.open(folder) as model:
        with pytest.raises(UdogenError) as caught:
            model.step(given, graph="step")
        assert text in str(caught.value)
        np.testing.assert_array_equal(model.step(x=ramp(3), graph="step")["x_out"], Numpy().step(ramp(3)))
        with pytest.raises(UsageError, match="several of the graphs of the model can take these inputs"):
            model.step(x=ramp(0))
        with pytest.raises(UsageError, match="did you mean `step`"):
            model.step(x=ramp(0), graph="stp")


def test_a_closed_model_says_so(folder: Path) -> None:
    model = Model.open(folder)
    model.close()
    model.close()
    for use in (
        *(model.reset, model.__enter__, lambda: model.step(x=ramp(0), graph="step"), lambda: model.memory),
        *(lambda: model.plan, lambda: model.profile_of("step"), lambda: model.tensors("step")),
    ):
        with pytest.raises(RunFailed, match="the model is closed"):
            use()
    assert "closed" in repr(model)


def test_a_step_that_fails_changes_no_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is that before the step; a model that is reopened works."""
    function, calls = Interface.function, count(1)

    def losing(self: Interface, name: str) -> Callable[..., int]:
        call = function(self, name)
        return call if name != "graphExecute" else lambda *args: 1007 if next(calls) == 4 else call(*args)

    monkeypatch.setattr(Interface, "function", losing)
    x = np.zeros(SHAPE, np.float32)
    with Model.open(folder) as model:  # a step executes two contexts: the second one fails
        model.step(x=x + 1, graph="step")
        before = [pair.copy_to() for pair in model.state.values()]
        with pytest.raises(RunFailed, match=r"stage 1 .graph `step` in .*1007") as lost:
            model.step(x=x + 2, graph="step")
        assert lost.value.details[0] == "in step 1 of the model, graph `step`"
        assert all((old == pair.copy_to()).all() for old, pair in zip(before, model.state.values(), strict=True))
    with Model.open(folder) as model:
        model.step(x=x + 1, graph="step")
        assert all((old == pair.copy_to()).all() for old, pair in zip(before, model.state.values(), strict=True))


# --- model.toml -------------------------------------------------------------------------------------------------------


def test_a_description_is_read(folder: Path, tmp_path: Path) -> None:
    as_json = tmp_path / "model.json"
    as_json.write_text(json.dumps({"contexts": [str(folder)], "links": LINKS, "session_limit": "3.5GB"}))
    assert read_description(as_json).session_limit == 3_500_000_000
    as_json.write_text('{\n "contexts": ["a:b"],\n "links": {\n  "x": 3\n }\n "state": {}}')
    with pytest.raises(ConfigError, match=r"model\.json:6: error: invalid JSON: expected `,` or `}` before"):
        read_description(as_json)
    as_json.write_text('{\n "contexts": ["' + str(folder) + '"],\n "links": {\n  "x": 3\n }}')
    with pytest.raises(ConfigError, match=r"model\.json:4: error: `x` must be a string, not 3"):
        read_description(as_json)
    as_json.write_text('{\n "contexts": ["' + str(folder) + '"],\n "sessions": 1,\n "sessions": 2}')
    with pytest.raises(ConfigError, match=r"model\.json:4: warning: the key `sessions` occurs twice") as caught:
        read_description(as_json)
    assert not caught.value.hint


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('contexts = ["."]\nlinkz = 3\n', "model.toml:2: error: `linkz` is not a known key; did you mean `links`?"),
        ('contexts = "."\n', "model.toml:1: error: `contexts` must be a list, not '.'"),
        ('contexts = ["."]\nstate = 3\n', "model.toml:2: error: `state` must be an object, not 3"),
        ('contexts = ["."]\nsession_limit = "much"\n', "model.toml:2: error: `session_limit`: 'much' is not a size"),
        ('links = {a = "b"}\n', "`contexts` names no file and no folder"),
        ('# shards\ncontexts = ["gone.bin"]\n', "model.toml:2: error: `contexts`: there is no file or folder"),
        ('contexts = ["."]\npackages = ["gone"]\n', "model.toml:2: error: `packages`: there is no file or folder"),
        ('contexts = ["."]\nmemory = "warm"\n', "model.toml:2: error: `memory`: 'warm' is not allowed"),
        ('contexts = ["."]\n[links]\nx = 3\n', "model.toml:3: error: `x` must be a string, not 3"),
        ("contexts = [", "model.toml:1: error: invalid TOML: "),
    ],
)
def test_a_wrong_description_is_refused_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "model.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        Model.open(tmp_path / "model.toml")
    assert fault in str(caught.value)


# --- the command line -------------------------------------------------------------------------------------------------


def test_the_command_line_runs_a_model(folder: Path, tmp_path: Path) -> None:
    steps = np.stack([ramp(number) for number in range(3)])
    np.save(tmp_path / "x.npy", steps)
    assert {path.name for path in folder.iterdir()} == {
        *(f"forward_{shard}{rest}" for shard in range(2) for rest in (".bin", ".bin.udogen.json", "_json.json")),
        "model.toml",
    }
    feed = ("--feed", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out")
    found = run_json(
        "steps", folder / "model.toml", "--graph", "step", "--steps", 3, *feed, "--plan", tmp_path / "plan.json"
    )
    expected = Numpy()
    for number in range(3):
        made = np.load(tmp_path / "out" / f"step_{number}" / "x_out.npy")
        np.testing.assert_array_equal(made, expected.step(ramp(number)))
    assert [row["graph"] for row in found["steps"]] == ["step"] * 3
    assert found["links"] == LINKS and found["state"] == STATE and found["copied"] == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    jsonschema.validate(plan, json.loads((ROOT / "schemas/bind_plan.schema.json").read_text()))
    done = udogen("run", "context", folder / "model.toml")
    assert done.returncode == 2 and f"`udogen run steps {folder / 'model.toml'}` executes it" in done.stderr
    text = udogen("run", "steps", folder, "--graph", "step", "--steps", 2).stdout
    assert "zeros: x" in text and "step: 2 steps" in text and "copied: 0 bytes" in text


def test_a_dry_run_shows_the_model_and_executes_nothing(folder: Path) -> None:
    done = udogen("run", "steps", folder, "--dry-run")
    assert done.returncode == 0, done.stderr
    for line in (
        "step: 2 contexts",
        "  forward_0 on CPU",
        "    input   x FLOAT_32 1x1x8",
        "    state   past_total FLOAT_32 1x1x8, next: total",
        "    link    x_out FLOAT_32 1x1x8 → x of forward_1",
        "    output  x_out FLOAT_32 1x1x8",
    ):
        assert line in done.stdout.splitlines()
    assert "executed" not in done.stdout


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--feed", "y=x.npy"), "no graph of the model takes the input `y`"),
        (("--tolerance", "1"), "--tolerance is for --against"),
        (("--steps", "3", "--feed", "x={right}"), "has 2 arrays for input `x`, step 3 of graph `step` needs one more"),
        (("--feed", "x={wrong}"), "wrong.npy has the shape [2, 7], input `x` has [1, 1, 8]"),
    ],
)
def test_mistakes_on_the_command_line(folder: Path, tmp_path: Path, options: tuple[str, ...], text: str) -> None:
    files = {"right": tmp_path / "x.npy", "wrong": tmp_path / "wrong.npy"}
    np.save(files["right"], np.stack([ramp(0), ramp(1)]))
    np.save(files["wrong"], np.zeros((2, 7), np.float32))
    done = udogen("run", "steps", folder, "--graph", "step", *(option.format(**files) for option in options))
    assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr


# --- GraphBuilder -----------------------------------------------------------------------------------------------------

MISTAKES = {
    "no shape": (lambda g, x: g.op("Relu", [x], "y"), "the output `y` of op `Relu` has no shape"),
    "a name twice": (lambda g, x: g.input("x", "FLOAT_32", (4,)), "graph `g` has a tensor `x` already"),
    "no such type": (lambda g, x: g.input("z", "FLOAT_33", (4,)), "tensor `z` is FLOAT_33, which is not a data type"),
    "no quantization": (lambda g, x: g.input("z", "UFIXED_POINT_8", (4,)), "has no quantization"),
    "no op writes it": (lambda g, x: g.op("Relu", [x], "yy", like=x), "no op of graph `g` writes the output `y`"),
    "an array as a tensor": (
        lambda g, x: g.op("Relu", [np.ones(4)], "y", shape=(4,)),
        "`inputs` is a list with a ndarray",
    ),
    "a weight of another type": (
        lambda g, x: g.weight("w", np.ones(4, np.int32), "FLOAT_32"),
        "weight `w` is int32, tensor `w` is FLOAT_32 (float32)",
    ),
    "a weight that its type cannot hold": (
        lambda g, x: g.weight("w", np.full(4, 300), "INT_8"),
        "weight `w` is int64, tensor `w` is INT_8 (int8)",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_in_a_graph_are_sentences(what: str) -> None:
    make, text = MISTAKES[what]
    with nothing_left(), GraphBuilder("cpu", runtime="emulator") as builder:
        with pytest.raises(UdogenError) as caught, builder.graph("g", outputs=["y"]) as graph:
            make(graph, graph.input("x", "FLOAT_32", (4,)))
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("op", "params", "clips"), [("Relu", {}, False), ("ReluMinMax", {"min_value": 0.0, "max_value": 2.0}, True)]
)
def test_libqnncpu_clips_8_bits_in_one_op_only(op: str, params: dict[str, float], clips: bool) -> None:
    """As stated in docs/models.md."""
    need_runtime("cpu")
    grid = grid_of(-1, 1, "UFIXED_POINT_8")
    with GraphBuilder("cpu", runtime="real") as builder:
        with builder.graph("g", outputs=["y"]) as graph:
            x = graph.input("x", "UFIXED_POINT_8", (1, 256), grid)
            graph.op(op, [x], "y", like=x, params=params)
        stored = np.arange(256, dtype=np.uint8)[None]
        expected = np.maximum(stored, -grid.offset) if clips else stored
        np.testing.assert_array_equal(builder.graphs["g"](x=stored)["y"], expected)


# --- locating errors --------------------------------------------------------------------------------------------------


def against(folder: Path, arrays: dict[str, np.ndarray], *options: object) -> tuple[int, str, dict]:
    """Return the exit code, the text and the JSON of a comparison with these arrays."""
    np.savez(folder / "f.npz", **arrays)
    command = ("run", "steps", folder, "--graph", "step", "--against", folder / "f.npz", *options)
    text, found = udogen(*command), udogen(*command, "--json")
    assert text.returncode == found.returncode
    return text.returncode, text.stdout + text.stderr, json.loads(found.stdout)


def test_the_first_difference_is_named(folder: Path, tmp_path: Path) -> None:
    """Without --steps as many are executed as the file has arrays for."""
    model, right = Numpy(), dict[str, np.ndarray]()
    for step in range(3):
        model.step(ramp(step))
        for shard, total in enumerate(model.totals):
            for name, value in (("total", total), ("x_out", total + shard + 1)):
                rows = right.setdefault(f"forward_{shard}.{name}", np.zeros((3, *SHAPE), np.float32))
                rows[step] = value
    np.save(tmp_path / "x.npy", np.stack([ramp(number) for number in range(3)]))
    feed = ("--feed", f"x={tmp_path / 'x.npy'}")

    def first(arrays: dict[str, np.ndarray], *options: object) -> dict:
        code, _, found = against(folder, arrays, *options)
        assert code == (0 if found["ok"] else 6) and len(found["steps"]) == 3
        return found["first"] or {}

    assert first(right, *feed) == {}
    off = right | {"forward_1.total": right["forward_1.total"].copy()}
    off["forward_1.total"][1, 0, 0, 5] += 4
    where = first(off, *feed)
    assert (where["step"], where["context"], where["tensor"]) == (1, "forward_1", "forward_1.total")
    assert (where["elements"], where["index"]) == (1, [0, 0, 5])
    assert "last tensor that agrees: `forward_0.x_out`" in against(folder, off, *feed)[1]
    assert first(off, *feed, "--tolerance", 4) == {}


def test_the_report_accounts_for_each_tensor(folder: Path, tmp_path: Path) -> None:
    """Outputs of the last context are compared; tensors that are not are named; comparing nothing is an error."""
    np.save(tmp_path / "x.npy", ramp(1))
    with Model.open(folder) as model:
        model.step(x=ramp(1), graph="step")
        right = model.tensors("step")
    last = "forward_1.x_out"
    assert set(right) == {f"forward_{shard}.{name}" for shard in range(2) for name in ("total", "x_out")}
    feed = ("--feed", f"x={tmp_path / 'x.npy'}")
    none: dict[str, list[str]] = {"model": [], "file": []}
    code, text, found = against(folder, right, *feed)
    assert code == 0 and "compared: 4 tensors, all equal" in text and found["not_compared"] == none
    code, text, found = against(folder, right | {last: right[last] + 1}, *feed)
    assert code == 6 and f"`{last}` is the first tensor that differs, in step 0" in text
    code, text, found = against(folder, {name: each for name, each in right.items() if name != last}, *feed)
    assert code == 0 and f"not compared: 1, which only the model has: {last}" in text
    assert found["not_compared"] == none | {"model": [last]}
    thrice = {name: np.stack([each] * 3) for name, each in right.items()}
    code, text, found = against(folder, thrice, *feed, "--steps", 1)
    assert code == 0 and "not compared: 4, which only the file has: " in text
    assert f"{last} from step 1 on" in found["not_compared"]["file"]
    code, text, found = against(folder, right | {"forward_1.old": right[last]}, *feed)
    assert code == 2 and "no context wrote `forward_1.old`" in text
    assert "1 of 5 arrays were not compared: forward_1.old" in str(found["error"])
    wrong: dict[str, tuple[dict[str, np.ndarray], tuple[str, ...]]] = {
        "nothing was compared": ({}, ()),
        "nothing was compared: ": ({last: np.zeros((0, *right[last].shape), np.float32)}, ()),
        "is <U1": ({last: np.array("a")}, ()),
        "is not a finite number": (right, ("--tolerance", "nan")),
    }
    for sentence, (arrays, options) in wrong.items():
        code, text, _ = against(folder, arrays, *feed, *options)
        assert code == 2 and sentence in text, (sentence, code, text)
    nothing = right | {last: np.full_like(right[last], np.nan)}
    assert against(folder, nothing, *feed, "--tolerance", 1e300)[0] == 6


@pytest.mark.parametrize(("backend", "kind"), [("htp", "real"), ("cpu", "real"), ("cpu", "emulator")])
def test_a_profile_has_the_ops_and_is_a_trace(
    model_of: Callable[[str, str], Path], tmp_path: Path, backend: str, kind: str
) -> None:
    """Qualcomm's HTP counts cycles per op, by the name of its output; a value that is not measured is not 0."""
    trace = tmp_path / "trace.json"
    done = udogen(
        "run", "steps", model_of(backend, kind), "--graph", "step", "--steps", 2, "--profile", "--trace", trace
    )
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stdout.splitlines() if line.endswith((" 0 µs", " 0 cycles"))]
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} == {"udogen", "graphs", "parts of graphs"}
    events = [event for event in events if event["ph"] != "M"]
    assert [event["name"] for event in events if event["tid"] == 1] == ["forward_0: step", "forward_1: step"]
    assert all(event["ph"] == "X" and event["dur"] > 0 for event in events)
    if (backend, kind) == ("htp", "real"):
        parts = [event for event in events if event["tid"] == 2]
        assert {name for part in parts for name in ("total", "x_out") if part["name"].startswith(name)} == {
            "total",
            "x_out",
        }
        assert all(part["args"]["cycles"] > 0 for part in parts)
        assert "total:" in done.stdout and " cycles  " in done.stdout
    with Model.open(model_of(backend, kind), profile=True) as model:
        model.step(x=ramp(0), graph="step")
        assert [(row.context, row.graph) for row in model.profile_of("step")] == [
            ("forward_0", "step"),
            ("forward_1", "step"),
        ]
        assert all(row.seconds > 0 and row.events for row in model.profile_of("step"))


UNKNOWN = {
    "a graph of a step": lambda model: model.step(x=ramp(0), graph="stp"),
    "an input of a step": lambda model: model.step(x=ramp(0), y=ramp(0), graph="step"),
    "an input that is missing": lambda model: model.step({}, graph="step"),
    "an output of a step": lambda model: model.step(x=ramp(0), out={"x_ut": ramp(0)}, graph="step"),
    "an output of a model": lambda model: model.origin("step", "x_ut"),
    "a graph of a context": lambda model: model.runtime.contexts[0].graph("stp"),
    "a tensor of a graph": lambda model: model.runtime.contexts[0].graph("step").binding("z"),
    "an input of a graph": lambda model: model.runtime.contexts[0].graph("step")(z=ramp(0)),
    "an output of a graph": lambda model: model.runtime.contexts[0].graph("step")(x=ramp(0), out={"z": ramp(0)}),
    "an array to bind": lambda model: model.runtime.contexts[0].graph("step").bind({"z": ramp(0)}),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_name_is_a_key_error_too(model_of: Callable[[str, str], Path], name: str) -> None:
    with Model.open(model_of("cpu", "emulator")) as model:
        with pytest.raises(UsageError) as refused:
            UNKNOWN[name](model)
        assert isinstance(refused.value, KeyError) and refused.value.exit_code == 2
        assert str(refused.value).startswith(refused.value.message) and refused.value.hint


# --- weights that are stored once -------------------------------------------------------------------------------------


def stored_twice(kind: str, place: Path, *, share: bool) -> tuple[bytes, np.ndarray, dict[tuple[str, ...], int]]:
    """A context of two graphs with one weight of 1 MiB, what one of them computes, and what they share."""
    grid, weights = grid_of(-4, 4, "UFIXED_POINT_8"), np.random.default_rng(1).normal(size=(1024, 1024))
    with GraphBuilder("htp", runtime=kind, share_weights=share) as builder:
        for name, rows in (("prefill", 16), ("decode", 1)):
            with builder.graph(name, outputs=["y"]) as graph:
                x = graph.input("x", np.uint8, (rows, 1024), grid)
                w = graph.weight("w", weights, np.uint8, grid)
                graph.op("MatMul", [x, w], "y", shape=(rows, 1024), quant=grid_of(-200, 200, np.uint8))
        if share:
            builder.save(place)
        return builder.context.binary(), builder.graphs["decode"](x=ROW)["y"], builder.shared


ROW = np.random.default_rng(2).integers(0, 255, (1, 1024), np.uint8)


@pytest.mark.parametrize("kind", ["emulator", "real"])
def test_a_weight_of_two_graphs_is_stored_once(kind: str, tmp_path: Path) -> None:
    if kind == "real":
        need_runtime("htp")
    (alone, expected, kept), (shared, found, _) = (
        stored_twice(kind, tmp_path / "both.bin", share=share) for share in (False, True)
    )
    assert len(alone) > 2 << 20 and len(shared) < 1.2 * (1 << 20)
    assert kept == {("prefill.w", "decode.w"): 1 << 20}
    np.testing.assert_array_equal(found, expected)
    with Runtime("htp", runtime=kind) as runtime:
        if kind == "real":  # "Shared weights buffer isn't supported on this platform"
            with pytest.raises(QnnError, match="1000"):
                runtime.restore(shared)
            for command in (("inspect", tmp_path / "both.bin"), ("run", "steps", tmp_path / "both.bin", "--dry-run")):
                said = " ".join(udogen(*command).stdout.split())
                assert re.search(r"stored once[\w ]*:? 1,0\d\d,\d\d\d bytes of weights for prefill, decode", said), said
            return
        with runtime.restore(shared) as context:
            np.testing.assert_array_equal(context.graph("decode")(x=ROW)["y"], expected)
            assert len(context.binary()) == len(alone), "the option is not stored"


def test_the_report_of_contexts_says_what_is_stored_once() -> None:
    """Only a device restores such contexts of HTP, and the emulator's descriptions have no sizes of shared weights."""
    said, plan = "4,198,400 bytes of weights for prefill, decode", BufferPlan((), (), "")
    ran = ContextRan(0.1, (), plan, "", (), shared=said)
    rows, runtime = [(Shard(Path("both.bin")), ran)], RuntimeInfo("HTP", "v2.47", "", "", "libQnnHtp.so")
    assert f"  stored once: {said}" in report.lines(rows, runtime)
    assert report.as_json(rows, runtime)["contexts"][0]["shared"] == said


def test_only_htp_shares_weights() -> None:
    with pytest.raises(UsageError, match="contexts of cpu store the weights of each graph"):
        GraphBuilder("cpu", runtime="emulator", share_weights=True)
