"""One test run on several machines: pytest-xdist over popen and ssh, `--shard` and `--merge`, recipes for CI."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lxml import etree

from tests.command_line import udogen
from tests.making import LONG, ROOT, need_runtime
from tests.scripts.test_device_places import project
from tests.ssh_server import ssh_server
from udogen import UsageError
from udogen.verify.report import machine, merge

Json = dict[str, Any]

SCALE = (ROOT / "docs" / "scale.md").read_text("utf-8")


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a built project of three cases."""
    need_runtime("cpu")
    folder = project(tmp_path_factory.mktemp("right") / "project")
    assert udogen("test", folder, "--backend", "cpu").returncode == 0
    return folder


def run_pytest(folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pytest", "--udogen", "--udogen-backend", "cpu", "-q", "-p", "no:cacheprovider"]
    env = {**os.environ, **({"PATH": path} if path else {}), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*argv, *arguments, str(folder)], cwd=folder, env=env, capture_output=True, text=True, timeout=LONG
    )


def test_pytest_on_two_workers_of_this_machine(right: Path, tmp_path: Path) -> None:
    done = run_pytest(right, "--tx", "2*popen", "--dist", "load", f"--junitxml={tmp_path / 'junit.xml'}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert etree.parse(tmp_path / "junit.xml").find("testsuite").get("tests") == "3"


def test_pytest_on_two_machines(right: Path, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with ssh_server(tmp_path / "one") as one, ssh_server(tmp_path / "two") as two:
        machines = []
        for each in (one, two):
            where = f"-F {each.config} -p {each.port} {each.host}"
            machines += ["--tx", f"ssh={where}//python={sys.executable}//chdir={each.folder / 'work'}"]
        done = run_pytest(
            right, *machines, "--rsyncdir", str(right), "--dist", "load", "-vv", f"--junitxml={tmp_path / 'junit.xml'}"
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert set(re.findall(r"\[(gw\d)\]", done.stdout)) == {"gw0", "gw1"}
    assert etree.parse(tmp_path / "junit.xml").find("testsuite").get("tests") == "3"


def test_parts_are_the_whole(right: Path, tmp_path: Path) -> None:
    whole = json.loads(udogen("test", right, "--backend", "cpu", "--json").stdout)
    parts = []
    for number in (1, 2):
        done = udogen("test", right, "--backend", "cpu", "--shard", f"{number}/2", "--json")
        assert done.returncode == 0, done.stderr
        (tmp_path / f"{number}.json").write_text(done.stdout)
        parts.append(tmp_path / f"{number}.json")
    done = udogen("test", "--merge", *parts, "--json", "--junit", tmp_path / "junit.xml")
    assert done.returncode == 0, done.stderr
    merged = json.loads(done.stdout)
    assert sorted(each["case"] for each in merged["cases"]) == sorted(each["case"] for each in whole["cases"])
    assert (merged["counts"], merged["ok"]) == (whole["counts"], True)
    assert [row["cases"] for row in merged["backends"] if row["state"] == "ran"] == [3]
    assert etree.parse(tmp_path / "junit.xml").getroot().get("tests") == "3"
    assert "\n  <testsuite name=" in (tmp_path / "junit.xml").read_text()  # a line for each element
    shown = udogen("test", "--merge", *parts).stdout
    assert re.search(r"^cpu +ran +3 ", shown, re.M), shown


def test_a_merged_failure_keeps_its_cause_and_exit_code(right: Path, tmp_path: Path) -> None:
    reply = json.loads(udogen("test", right, "--backend", "cpu", "--json").stdout)
    reply["cases"][0] |= {"status": "failed", "message": "2 of 7 numbers are wrong", "text": ["WRONG it is"]}
    reply["counts"] |= {"failed": 1, "passed": 2}
    reply["ok"] = False
    (tmp_path / "bad.json").write_text(json.dumps(reply))
    done = udogen("test", "--merge", tmp_path / "bad.json", "--junit", tmp_path / "junit.xml")
    assert (done.returncode, done.stdout.splitlines()[0]) == (6, "WRONG it is")
    failure = etree.parse(tmp_path / "junit.xml").find("testsuite/testcase/failure")
    assert (failure.get("message"), failure.text) == ("2 of 7 numbers are wrong", "WRONG it is")


@pytest.fixture(scope="module")
def parts(right: Path) -> dict[str, Json]:
    """Return both parts of a run, one of them of other tests too, a whole run, and one without a comparison."""
    first, second = (answer(right, "--shard", f"{part}/2") for part in (1, 2))
    other = answer(right, "--shard", "2/2", "--case", "LeakyRelu/")
    kernel = right / "kernels" / "LeakyRelu.cpp"
    kernel.write_text(f"{kernel.read_text()}\n")
    found = {"first": first, "second": second, "other": other, "changed": answer(right, "--shard", "2/2")}
    reference = right / "reference.py"
    reference.write_text(f"import helper_of_parts\n{reference.read_text()}")
    for part, name in ((1, "helped"), (2, "helped otherwise")):
        (right / "helper_of_parts.py").write_text(f"part = {part}\n")
        found[name] = answer(right, "--shard", f"{part}/2")
    return found


def answer(folder: Path, *arguments: str) -> Json:
    found: Json = json.loads(udogen("test", folder, "--backend", "cpu", "--json", *arguments).stdout)
    return found


def changed(part: Json, **keys: Any) -> Json:
    return {**copy.deepcopy(part), **keys}


NAN = float("nan")
MERGES: dict[str, tuple[Callable[[dict[str, Json]], list[Json]], int, str]] = {
    "both": (lambda p: [p["first"], p["second"]], 0, "3 passed"),
    "the same, with another pattern": (lambda p: [p["first"], p["other"]], 0, "3 passed"),
    "one is missing": (lambda p: [p["first"]], 2, "missing: part 2/2"),
    "one is there twice": (lambda p: [p["first"], p["first"]], 2, "the same part twice: "),
    "three files": (lambda p: [p["first"], p["second"], p["second"]], 2, "the same part twice: "),
    "other kernels": (lambda p: [p["first"], p["changed"]], 2, "missing of the tests of "),
    "other modules that a reference imports": (
        lambda p: [p["helped"], p["helped otherwise"]],
        2,
        "missing of the tests of ",
    ),
    "not ok": (lambda p: [p["first"], changed(p["second"], ok=False)], 2, "`ok` is false, and its rows are 1 passed"),
    "nothing was compared in one": (lambda p: [p["first"], unchecked(p["second"])], 2, "1.json is not ok"),
    "a case is gone": (
        lambda p: [p["first"], without_case(p["second"])],
        2,
        "1 case planned, and there are results of 0",
    ),
    "all are gone": (
        lambda p: [p["first"], changed(p["second"], cases=[])],
        2,
        "`counts.passed` is 1, and there are 0",
    ),
    "not a number, in place of null": (
        lambda p: [p["first"], changed(p["second"], cases=[{**case, "error": NAN} for case in p["second"]["cases"]])],
        2,
        "1.json is not the JSON of a test run",
    ),
    "an error": (lambda p: [p["first"], {"ok": False, "error": {"kind": "k", "message": "no x"}}], 2, "early: no x"),
    "not even": (lambda p: [p["first"], 5], 2, "1.json is not the JSON of a test run: the file must be an object"),  # type: ignore[list-item]
}


def unchecked(part: Json) -> Json:
    cases = [{**case, "status": "ran"} for case in part["cases"]]
    return changed(part, cases=cases, ok=False, counts={**part["counts"], "passed": 0, "ran": len(cases)})


def without_case(part: Json) -> Json:
    [*others, case] = part["cases"]
    return changed(part, cases=others, counts={**part["counts"], case["status"]: part["counts"][case["status"]] - 1})


@pytest.mark.parametrize("name", MERGES)
def test_only_complete_runs_are_merged(parts: dict[str, Json], tmp_path: Path, name: str) -> None:
    chosen, code, message = MERGES[name]
    files = []
    for number, part in enumerate(chosen(parts)):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(part))
    done = udogen("test", "--merge", *files, "--junit", tmp_path / "junit.xml")
    assert done.returncode == code and message in done.stdout + done.stderr, done.stdout + done.stderr
    assert "internal" not in done.stderr
    if (tmp_path / "junit.xml").exists():
        assert (etree.parse(tmp_path / "junit.xml").getroot().get("errors") == "0") == (code == 0)
    again = udogen("test", "--merge", *files, "--json")
    assert (again.returncode, json.loads(again.stdout)["ok"]) == (code, code == 0)


WRONG = (None, True, 5, -1, 1.5, float("nan"), 10**30, "", "\ud800", "x\0", [], [5], {}, {"x": None})


def broken(value: Any) -> Iterator[Any]:
    """Each value that has one thing less, or one of another type."""
    if isinstance(value, dict):
        for key in value:
            yield {name: each for name, each in value.items() if name != key}
            yield from ({**value, key: item} for item in (*WRONG, *broken(value[key])))
    elif isinstance(value, list) and value:
        yield from ([item, *value[1:]] for item in (*WRONG, *broken(value[0])))


def test_malformed_parts_never_pass_and_never_end_in_an_internal_error(parts: dict[str, Json], tmp_path: Path) -> None:
    """Each part that a merge takes has the same verdict as the original."""
    network = {"network": "n", "backend": "cpu", "bits": "8", "status": "error", "location": "", "seconds": 1.0}
    network |= {"text": [], "error": {"kind": "x", "message": "y"}, "first_wrong": None}
    part = changed(parts["first"], selection={"part": 1, "parts": 1, "tests": "x"}, networks=[network])
    part["cases"][0] |= {"status": "failed", "error": {"kind": "x", "message": "y"}}
    part |= {"ok": False}
    part["counts"] |= {"planned": 3, "passed": part["counts"]["passed"] - 1, "failed": 1, "error": 1}
    refused = taken = 0
    for each in (part, *broken(part)):
        (tmp_path / "part.json").write_text(json.dumps(each))
        try:
            result = merge.merge([tmp_path / "part.json"])
        except UsageError as fault:
            assert str(fault).startswith((f"{tmp_path}/part.json ", "these are not all parts of a run")), fault
            refused += 1
            continue
        assert not result["ok"] and result["counts"]["failed"] == 1
        assert machine.junit(result) and [line.encode() for line in merge.lines(result)] and json.dumps(result)
        taken += 1
    assert refused > 500 and taken > 100, (refused, taken)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shard", "3/2"], "error: --shard 3/2: this is not I/N"),
        (["--shard", "x"], "error: --shard x: this is not I/N"),
        (["--merge"], "error: --merge needs files"),
        (["a", "b"], "error: 2 folders are given"),
        (["--merge", "no.json"], "error: no.json cannot be read: No such file or directory"),
        (["--merge", "LICENSE"], "error: LICENSE is not the JSON of a test run"),
        (["--merge", "LICENSE", "--html", "x"], "error: --merge makes --json and --junit: results have no arrays"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    done = udogen("test", *arguments)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, message)


# --- recipes --------------------------------------------------------------------------------------------------


def recipes() -> dict[str, dict]:
    """Return the YAML blocks of docs/scale.md, by their first line."""
    return {
        text.splitlines()[0].removeprefix("# "): yaml.safe_load(text)
        for text in re.findall(r"^```yaml\n(.*?)^```", SCALE, re.M | re.S)
    }


def commands_of(recipe: dict) -> list[str]:
    """Return the udogen commands of the jobs of both CIs, in their order, as part 1 of 1."""
    commands = []
    for job in (recipe.get("jobs") or recipe).values():
        steps = [step.get("run", "") for step in job.get("steps", [])] if isinstance(job, dict) else []
        for text in [*steps, *(job.get("script", []) if isinstance(job, dict) else [])]:
            lines = re.sub(r"\$\{\{ (matrix\.part|strategy\.job-total) \}\}|\$CI_NODE_(INDEX|TOTAL)", "1", text)
            commands += [line for line in lines.splitlines() if line.startswith("udogen ")]
    return commands


@pytest.mark.parametrize("name", [".github/workflows/ops.yml", ".gitlab-ci.yml"])
def test_the_commands_of_a_recipe_run(right: Path, tmp_path: Path, name: str) -> None:
    """The commands that a runner would execute; the runner itself is not available here."""
    commands = commands_of(recipes()[name])
    assert len(commands) == 2
    (tmp_path / "ops").symlink_to(right)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for line in commands:
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LONG)
        assert done.returncode == 0, (line, done.stderr)
    root = etree.parse(tmp_path / "junit.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("3", "0")
