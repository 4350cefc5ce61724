"""`udogen test` on the real libQnnCpu: right, wrong, crashing and hanging kernels, and how each is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

from tests.bench.clock import processor_seconds
from tests.command_line import udogen
from tests.making import ROOT, make_packages, need_runtime
from tests.opdef import texts
from tests.verify import toy
from tests.verify.toy import GOLDEN, RIGHT, WRONG, plain
from udogen import Outcome, TestOptions, UdogenError
from udogen.runtime.execution_counts import Proof, Rise
from udogen.runtime.ops import OpSession
from udogen.verify import planning, test_run
from udogen.verify.report import terminal
from udogen.verify.results import TestRun
from udogen.verify.test_files.read import load_test_files

Run = Callable[..., TestRun]


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose config and kernel do not change, so that they are compiled once."""
    need_runtime("cpu")
    return toy.write(tmp_path_factory.mktemp("toys") / "toy")


@pytest.fixture
def run(toys: Path) -> Run:
    def go(text: str, **options: object) -> TestRun:
        toy.write(toys, text)
        wanted = TestOptions(**{"backends": ("cpu",), "work": toys.parent / "work", **options})  # type: ignore[arg-type]
        return test_run.run(planning.plan(load_test_files(toys), wanted), wanted)

    return go


def of(found: TestRun, part: str) -> list[Outcome]:
    return [outcome for outcome in found.outcomes if part in outcome.case.name]


def test_right_numbers(run: Run) -> None:
    found = run(RIGHT)
    assert found.verdict.ok and found.verdict.passed == len(found.outcomes) == 10
    [state] = found.states
    assert state.state == "ran" and state.real and state.cases == 10
    assert {outcome.dtype for outcome in found.outcomes} == {"FLOAT_32", "UFIXED_POINT_8"}
    for outcome in found.outcomes:
        assert outcome.cost.execute is not None and outcome.cost.execute.loops == 5
        assert outcome.cost.execute.low <= outcome.cost.execute.median <= outcome.cost.execute.high


def test_right_numbers_of_another_kernel_are_no_pass(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if QNN used its own op of that name: the numbers may be right, but do not come from the package's kernel."""
    none = Rise(4, 4, 4)
    monkeypatch.setattr(
        OpSession,
        "_proof",
        lambda _session, _reply, call: Proof("ToyPackage", call.op_type, "executions", 2, none, none),
    )
    found = run(RIGHT)
    assert not found.verdict.ok and found.verdict.error == len(found.outcomes) == 10
    for outcome in found.outcomes:
        assert outcome.error is not None and (outcome.error.kind, outcome.error.message) == (
            "not-executed",
            "op `Scale` was not executed by package ToyPackage: the graph ran 2 times, and the package counted no "
            "execution",
        )


def test_a_crash_takes_one_case_down_and_what_is_wrong_is_explained(run: Run) -> None:
    found = run(WRONG)
    by_name = {outcome.case.name: outcome for outcome in found.outcomes}
    assert {name: each.status for name, each in by_name.items()} == {
        "4, factor=7": "passed",
        "4x4, factor=7": "failed",
        "8x8, factor=7": "failed",
        "3, factor=13": "passed",
        "5x5, factor=13": "error",
        "refused: 4, factor=99": "passed",
        "refused: 4, factor=98": "failed",
    }
    wrong = by_name["4x4, factor=7"]
    [tensor] = wrong.tensors
    assert tensor.wrong == 11 and tensor.first == (1, 1) and tensor.max_error == pytest.approx(0.5)
    assert wrong.smallest is not None and wrong.smallest.inputs["x"].size == 6
    crash = by_name["5x5, factor=13"]
    assert crash.error is not None and crash.error.kind == "op-crashed"
    assert crash.error.message.startswith("op `Scale` crashed with SIGILL")
    assert crash.smallest is not None and 9 < crash.smallest.inputs["x"].size <= 12
    assert [finding.kind for finding in by_name["refused: 4, factor=98"].findings] == ["not-refused"]


def test_an_op_that_does_not_come_back_is_stopped(run: Run) -> None:
    text = toy.HEAD + 'dtype = "FLOAT_32"\nparams = { factor = [14, 2] }\nshape = "3"\n'
    slow, right = run(text, timeout=1.0).outcomes
    assert slow.status == "error" and slow.error is not None and slow.error.kind == "op-timed-out"
    assert right.status == "passed"


def test_a_reference_that_fails_and_none_at_all(run: Run) -> None:
    [broken] = run(toy.HEAD.replace(":scale", ":broken") + 'dtype = "FLOAT_32"\nshape = "3"\n').outcomes
    assert broken.status == "error" and broken.error is not None and broken.error.kind == "reference"
    found = run('[[op]]\nname = "Scale"\ndtype = "FLOAT_32"\nshape = "3"\n')
    assert [outcome.status for outcome in found.outcomes] == ["ran"]
    assert not found.verdict.ok and found.verdict.reasons == ("nothing was compared: 1 case without expected values",)


def test_missing_places_are_reported_and_never_pass(run: Run, toys: Path) -> None:
    found = run(toy.HEAD + 'backends = ["gpu", "cpu"]\nshape = "3"\ndtype = "FLOAT_32"\n', backends=("gpu", "cpu"))
    by_name = {state.backend: state for state in found.states}
    assert by_name["gpu"].state in ("unbuilt", "missing") and by_name["gpu"].cases == 1
    if by_name["gpu"].state == "unbuilt":
        folders = f"{toys / 'kernels' / 'gpu'} or {toys / 'kernels' / 'GPU'}"
        assert by_name["gpu"].reason == f"there is no kernel Scale.cpp in {folders}"
    assert [outcome.backend for outcome in found.outcomes] == ["cpu"]
    assert terminal.summary(found).startswith("1 passed, 1 not run in ")


def test_a_kernel_that_does_not_compile_is_reported(tmp_path: Path) -> None:
    need_runtime("cpu")
    toy.write(tmp_path, toy.HEAD, kernel="#error unfinished\n")
    options = TestOptions(backends=("cpu",), work=tmp_path / "work")
    found = test_run.run(planning.plan(load_test_files(tmp_path), options), options)
    [state] = found.states
    assert state.state == "unbuilt" and "unfinished" in "\n".join(state.details)
    assert state.details[0].startswith(f"{tmp_path}/kernels/"), "the user's file, not its copy"
    assert not found.verdict.ok and found.outcomes == ()


def test_a_package_that_does_not_compile_is_no_success_beside_one_that_passes(tmp_path: Path) -> None:
    need_runtime("cpu")
    case = 'dtype = "FLOAT_32"\nshape = ["3", "5"]\n'
    toy.write(tmp_path, f'{toy.HEAD}{case}[[op]]\nname = "Scale"\nkernels = "broken"\n{case}')
    (tmp_path / "broken" / "cpu").mkdir(parents=True)
    (tmp_path / "broken" / "cpu" / "Scale.cpp").write_text("#error unfinished\n")
    done = udogen("test", tmp_path, "--backend", "cpu", "--json", "--junit", tmp_path / "junit.xml")
    reply = json.loads(done.stdout)
    assert done.returncode == 4 and not reply["ok"] and reply["counts"]["passed"] == 2, done.stderr
    [state] = [each for each in reply["backends"] if each["backend"] == "cpu"]
    assert (state["state"], state["cases"], state["build_failed"]) == ("unbuilt", 2, True)
    assert '<testcase classname="cpu" name="2 cases"' in (tmp_path / "junit.xml").read_text()
    (tmp_path / "reply.json").write_text(done.stdout)
    assert udogen("test", "--merge", tmp_path / "reply.json").returncode == 4


@pytest.mark.parametrize("is_generated", [False, True])
def test_an_op_that_does_not_compile_does_not_hide_the_others_of_its_package(
    tmp_path: Path, is_generated: bool
) -> None:
    need_runtime("cpu")
    reply_file, tmp_path = tmp_path / "reply.json", tmp_path / "toy"
    tests = "".join(f'{toy.HEAD.replace("Scale", op)}shape = "3"\ndtype = "FLOAT_32"\n' for op in ("Scale", "Broken"))
    toy.write(tmp_path, tests)
    begin, end = toy.CONFIG.index("    <OpDef>"), toy.CONFIG.index("  </OpDefList>")
    other = toy.CONFIG[begin:end].replace("Scale", "Broken")
    (tmp_path / "Toy.xml").write_text(toy.CONFIG[:end] + other + toy.CONFIG[end:])
    kernel = toy.KERNEL.replace("Scale", "Broken").replace("return udo::ok;", "return missing;", 1)
    broken = tmp_path / "kernels" / "cpu" / "Broken.cpp"
    broken.write_text(kernel)
    if is_generated:
        make_packages([tmp_path / "Toy.xml"], tmp_path, chosen=["cpu"], kernels=tmp_path / "kernels", layout="qnn")
        (tmp_path / "Toy.xml").unlink()
        broken = tmp_path / "ToyPackage" / "src" / "ops" / "Broken.cpp"
    done = udogen("test", tmp_path, "--backend", "cpu", "--json")
    reply = json.loads(done.stdout)
    assert done.returncode == 4, done.stderr
    cases = {case["op"]: case for case in reply["cases"]}
    assert {op: case["status"] for op, case in cases.items()} == {"Broken": "error", "Scale": "passed"}
    error = cases["Broken"]["error"]
    assert error["kind"] == "build-failed" and error["details"][0].startswith(f"{broken}:")
    reply_file.write_text(done.stdout)
    assert udogen("test", "--merge", reply_file).returncode == 4
    one = udogen("test", tmp_path, "--backend", "cpu", "--case", "Scale/*")
    assert one.returncode == 4 and "1 passed" in one.stdout and "Broken.cpp" in one.stdout + one.stderr


def test_a_reference_that_is_not_written_is_no_success(tmp_path: Path) -> None:
    need_runtime("cpu")
    toys, reply, junit = tmp_path / "toy", tmp_path / "reply.json", tmp_path / "junit.xml"
    case = 'shape = "3"\ndtype = "FLOAT_32"\n'
    toy.write(toys, toy.HEAD + case + toy.HEAD.replace("reference.py", "later.py") + case)
    (toys / "later.py").write_text("def scale(x, factor):\n    raise NotImplementedError('write it')\n")
    done = udogen("test", toys, "--backend", "cpu", "--json", "--junit", junit)
    reply.write_text(done.stdout)
    result = json.loads(done.stdout)
    [unwritten] = result["unwritten"]
    assert done.returncode == 5 and not result["ok"] and result["counts"]["passed"] == 1
    assert unwritten == f"{toys / 'later.py'}:2: write it"
    assert etree.parse(junit).getroot().get("errors") == "1"
    merged = udogen("test", "--merge", reply)
    assert merged.returncode == 5 and unwritten in merged.stdout


def test_an_output_that_is_not_compared_is_no_success(tmp_path: Path) -> None:
    """The first of two outputs is optional, so the reference may leave it out, and the op writes it nevertheless."""
    need_runtime("cpu")
    kernel = toy.KERNEL.replace("return udo::ok;\n}\n\n}", "args.z.setReal(0, 1.0f);\n  return udo::ok;\n}\n\n}")
    toys = toy.write(tmp_path / "toy", toy.HEAD + 'shape = "1"\ndtype = "FLOAT_32"\n', kernel=kernel)
    first = texts.tensor("Output", "z", mandatory="false")
    (toys / "Toy.xml").write_text(toy.CONFIG.replace("<Output>", f"{first}<Output>"))
    (toys / "reference.py").write_text("def scale(x, factor):\n    return {'y': factor * x}\n")
    done = udogen("test", toys, "--backend", "cpu")
    assert done.returncode == 5 and "the case expects no `z`, so it would not be compared" in done.stdout, done.stdout


def test_two_hundred_cases_take_less_than_ten_seconds_in_one_process(run: Run) -> None:
    text = (
        toy.HEAD
        + """
shape = ["16x16", "1x8x8x16", "7", "3x5", "1x28x28x64"]
params = { factor = ["default", 1, 3, 4] }
seed = [1, 2, 3, 4, 5]
"""
    )
    run(toy.HEAD)  # compiles, which is not measured
    before = processor_seconds()
    found = run(text)
    took = processor_seconds() - before
    assert found.verdict.passed == 200
    assert took < 10, took


def test_nothing_is_left_open(run: Run) -> None:
    def left() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(Path("/proc/self/maps").read_text().splitlines())

    run(WRONG)
    before = left()
    for _ in range(3):
        run(WRONG)
    after = left()
    assert after[0] <= before[0] and after[1] <= before[1] + 8, (before, after)


def test_only_cases_of_a_pattern(run: Run) -> None:
    assert {outcome.case.name for outcome in run(RIGHT, patterns=("3x5",)).outcomes} == {
        "3x5, factor=default",
        "3x5, factor=3",
    }
    assert len(run(RIGHT, patterns=("Scale/edge*",)).outcomes) == 2
    alone = [len(run(RIGHT, patterns=(each,)).outcomes) for each in ("3x5", "Scale/edge*")]
    assert len(run(RIGHT, patterns=("3x5", "Scale/edge*")).outcomes) == sum(alone)
    with pytest.raises(UdogenError, match="matches nothing"):
        run(RIGHT, patterns=("nothing",))


def test_an_example_on_every_available_backend(tmp_path: Path) -> None:
    for backend in ("cpu", "htp"):
        need_runtime(backend)
    options = TestOptions(measure=True, work=tmp_path)
    found = test_run.run(planning.plan(load_test_files(ROOT / "examples" / "add_sat_u8"), options), options)
    assert not found.bad
    ran = {state.backend: state for state in found.states if state.state == "ran"}
    assert {"cpu", "htp"} <= ran.keys() and all(ran[each].real for each in ("cpu", "htp"))
    for outcome in found.outcomes:
        assert outcome.passed and (outcome.cost.numpy is None) == bool(outcome.case.before)
        shown = (outcome.cost.packets is not None, outcome.cost.execute is not None)
        assert shown == (
            (True, False) if outcome.backend in ("hexagon", "dsp") else (False, not outcome.backend.endswith("-ort"))
        )
    absent = {state.backend: state.state for state in found.states if state.state != "ran"}
    assert absent["gpu"] == absent["cpu-emulator"] == absent["htp-emulator"] == "skipped"


def test_costs(run: Run) -> None:
    text = toy.HEAD + 'dtype = "FLOAT_32"\nshape = "1000"\noperations = 1\nbuiltin = { op = "Relu" }\nloops = 50\n'
    [right] = run(text, measure=True).outcomes
    cost = right.cost
    assert cost.execute is not None and cost.execute.loops == 50
    assert cost.numpy is not None and cost.builtin is not None and cost.builtin_name == "qti.aisw::Relu"
    assert cost.bytes_moved == 8000 and cost.operations == 1000 and cost.intensity == 0.125
    [refused] = run(text.replace("Relu", "Nonsense"), measure=True).outcomes
    assert refused.status == "passed" and refused.cost.builtin is None and refused.cost.builtin_fault


# --- the command line -----------------------------------------------------------------------------


def run_verb(name: str, toys: Path, text: str) -> subprocess.CompletedProcess[str]:
    toy.write(toys, text)
    return udogen("test", toys, "--backend", "cpu", "--case", name, env={"XDG_CACHE_HOME": str(toys.parent / "cache")})


@pytest.mark.parametrize(("name", "text", "code"), [("right", RIGHT, 0), ("wrong", WRONG, 6)])
def test_the_terminal(toys: Path, name: str, text: str, code: int) -> None:
    done = run_verb("Scale", toys, text)
    assert done.returncode == code, done.stderr
    assert plain(done.stdout) == (GOLDEN / f"{name}.txt").read_text("utf-8"), "see `make golden`"
    first, last = (line for line in done.stderr.splitlines() if "zig" not in line)
    assert first == f"  ToyPackage on cpu: {10 if name == 'right' else 7} cases"
    more = "cost`" if name == "right" else "html report.html`"
    assert last.startswith(f"next: `udogen test {toys} --backend cpu --case Scale --{more}"), last


def test_a_crash_alone_is_exit_code_5(toys: Path) -> None:
    assert run_verb("5x5, factor=13", toys, WRONG).returncode == 5


def test_json_and_junit_say_the_same(toys: Path, tmp_path: Path) -> None:
    toy.write(toys, WRONG)
    junit = tmp_path / "results.xml"
    env = {"XDG_CACHE_HOME": str(toys.parent / "cache")}
    done = udogen("test", toys, "--backend", "cpu", "--junit", junit, "--json", env=env)
    assert done.returncode == 6 and done.stderr == ""
    reply = json.loads(done.stdout)
    assert reply["ok"] is False
    counts = {"planned": 7, "passed": 3, "failed": 3, "error": 1, "skipped": 0, "ran": 0, "absent": 0, "unbuilt": 0}
    assert reply["counts"] == counts
    first = next(each for each in reply["cases"] if each["case"] == "4x4, factor=7")
    assert first["location"] == f"{toys / 'op_tests.toml'}:7" and first["tensors"][0]["first"]["at"] == [1, 1]
    root = etree.parse(junit).getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("7", "3", "1")
    error = root.find(".//error")
    assert error is not None and error.get("type") == "op-crashed"


def test_mistakes_in_the_test_file_are_shown_with_their_lines(tmp_path: Path) -> None:
    toy.write(tmp_path, '[[op]]\nname = "Scale"\nshapes = "3"\nseed = -4\n')
    done = udogen("test", tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr == (
        f"{tmp_path}/op_tests.toml:3: error: `shapes` is not a known key\n"
        '     3 | shapes = "3"\n'
        "       | ^^^^^^\n"
        "       = did you mean `shape`?\n"
        f"{tmp_path}/op_tests.toml:4: error: `seed`: -4 is out of range: 0 or more\n"
        "     4 | seed = -4\n"
        "       | ^^^^\n"
        "       = as in seed = 1, or seed = [1, 2, 3]\n"
        "error: 2 errors in the test file\n"
    )


def test_costs_are_kept_and_compared(toys: Path, tmp_path: Path) -> None:
    toy.write(toys, toy.HEAD + 'dtype = "FLOAT_32"\nshape = "3"\nloops = 10\n')
    env, kept = {"XDG_CACHE_HOME": str(toys.parent / "cache")}, tmp_path / "costs.json"
    done = udogen("test", toys, "--backend", "cpu", "--save-baseline", kept, env=env)
    assert done.returncode == 0, done.stderr
    content = json.loads(kept.read_text())
    [key] = content["costs"]
    assert key == "ToyPackage | Scale | 3 | FLOAT_32 | cpu"
    content["costs"][key] = dict.fromkeys(("median", "low", "high"), 1e-9)
    kept.write_text(json.dumps(content))
    done = udogen("test", toys, "--backend", "cpu", "--compare", kept, "--json", env=env)
    assert done.returncode == 0, done.stderr
    [change] = json.loads(done.stdout)["changes"]
    assert change["worse"] and change["ratio"] > 10 and change["what"] == "time"
    kept.write_text("{}")
    done = udogen("test", toys, "--compare", kept, env=env)
    assert done.returncode == 2 and f"{kept} is not a file of --save-baseline" in done.stderr


# --- existing packages, skeletons, pytest --------------------------------------------------------


def test_a_generated_skeleton_and_existing_packages(toys: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert udogen("new", out, "--from-config", toys / "Toy.xml").returncode == 0
    done = udogen("generate", toys / "Toy.xml", "--kernels", toys / "kernels", "-o", out)
    assert done.returncode == 0, done.stderr
    (out / "op_tests.toml").write_text((out / "op_tests.toml").read_text().replace('config = "Toy.xml"\n', ""))
    done = udogen("test", out, "--backend", "cpu")
    assert done.returncode == 5
    assert done.stderr == (
        "error: nothing to compare with: write the reference first\n"
        f"  {out / 'reference.py'}:12: write what Scale computes, and return `y`\n"
        "  = return the output from the inputs, which are numpy arrays; then run `udogen test` again\n"
    )
    reference = out / "reference.py"
    assert "def scale(x, factor):\n" in reference.read_text()
    reference.write_text(
        reference.read_text().replace("raise NotImplementedError", "return x * factor\n    raise NotImplementedError")
    )
    done = udogen("test", out / "ToyPackage", "--backend", "cpu", "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["counts"]["passed"] == 18
    with_none = udogen("test", out, "--no-build", "--backend", "htp")
    assert with_none.returncode == 2 and "no case of" in with_none.stderr


def run_pytest(folder: Path, *arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_pytest_collects_cases(toys: Path) -> None:
    toy.write(toys, WRONG)
    cache = toys.parent / "cache"
    done = run_pytest(toys, "--udogen", "--udogen-backend", "cpu", cache=cache)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "4 failed, 3 passed" in done.stdout
    assert "FAILED op_tests.toml::ToyPackage-cpu::Scale: 5x5, factor=13 [FLOAT_32]" in done.stdout
    assert "op `Scale` crashed with SIGILL" in done.stdout
    assert "Traceback" not in done.stdout and "runner.py" not in done.stdout
    one = run_pytest(toys, "--udogen", "-k", "4x4 and cpu and not ort", cache=cache)
    assert "1 failed" in one.stdout and "y: 11 of 16 values are wrong" in one.stdout
    without = run_pytest(toys, cache=cache)
    assert "no tests ran" in without.stdout
    toy.write(toys, '[[op]]\nname = "Scale"\ndtype = "FLOAT_32"\nshape = "3"\n')
    unchecked = run_pytest(toys, "--udogen", "--udogen-backend", "cpu", cache=cache)
    assert unchecked.returncode == 5 and "nothing was compared: 1 case without expected values" in unchecked.stdout


def test_pytest_reports_mistakes_of_the_test_file(tmp_path: Path) -> None:
    toy.write(tmp_path, '[[op]]\nname = "Scale"\nshapes = "3"\n')
    done = run_pytest(tmp_path, "--udogen", cache=tmp_path / "cache")
    assert done.returncode == 2
    assert "op_tests.toml:3: error: `shapes` is not a known key" in done.stdout
