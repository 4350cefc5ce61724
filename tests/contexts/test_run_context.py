"""`udogen run context` as users call it: folders of shards, files, mistakes; Qualcomm's libraries and the emulators."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.contexts.conftest import run_json
from tests.contexts.stepping import SHAPE, array, binary
from tests.making import KERNELS, LONG, ROOT, htp_package, need_runtime
from udogen import UdogenError
from udogen.runtime import OpLibrary
from udogen.runtime.built import find_built
from udogen.runtime.channel import Done, Quit
from udogen.runtime.contexts.commands import RunOptions
from udogen.runtime.contexts.runs import ContextSession
from udogen.runtime.worker_process import WorkerProcess

CPU = ("--backend", "cpu", "--runtime", "emulator")


def run(*arguments: object, code: int = 0) -> str:
    """Return its output."""
    done = udogen("run", "context", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if not code else done.stdout + done.stderr


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Write three shards; the names are in the order 0, 2, 10, which is not alphabetical."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in (0, 2, 10):
        (folder / f"forward_{number}.bin").write_bytes(binary("cpu", "emulator"))
    return folder


# --- correct use ----------------------------------------------------------------------------------------------------


def test_a_folder_of_shards_in_the_order_of_their_numbers(shards: Path) -> None:
    found = run_json("context", shards, *CPU)
    assert [row["name"] for row in found["contexts"]] == ["forward_0", "forward_2", "forward_10"]
    assert found["runtime"]["emulator"] is True
    for row in found["contexts"]:
        assert row["ok"]
        assert sorted(graph["name"] for graph in row["graphs"]) == ["look", "step"]


def test_what_cannot_be_verified_is_reported_once(shards: Path) -> None:
    """Each flipped byte is refused if a manifest exists; without manifests there is one message, not one per file."""
    done = udogen("run", "context", shards, *CPU)
    assert done.returncode == 0
    [line] = [line for line in done.stderr.splitlines() if line.startswith("warning:")]
    assert "forward_0.bin and 2 more cannot be verified: no manifest is beside them" in line
    assert "`udogen inspect FILE --write-manifest`" in line
    assert run_json("context", shards, *CPU)["warnings"] == [line.removeprefix("warning: ")]
    for binary_file in shards.glob("*.bin"):
        assert udogen("inspect", binary_file, "--write-manifest").returncode == 0
    assert "warning:" not in udogen("run", "context", shards, *CPU).stderr
    assert run_json("context", shards, *CPU)["warnings"] == []
    data = bytearray((shards / "forward_2.bin").read_bytes())
    data[len(data) // 2] ^= 4
    (shards / "forward_2.bin").write_bytes(data)
    text = run(shards, *CPU, code=5)
    assert "forward_2: failed\n  error: " in text and "2 of 3 contexts fine, 4 graphs executed on CPU_UDO" in text


@pytest.mark.parametrize("kind", ["real", "emulator"])
def test_the_sharded_model(sharded_llm: Callable[[str], Path], kind: str, tmp_path: Path) -> None:
    folder = sharded_llm(kind)
    library = find_built(folder / "package", backend="htp").library
    plan = tmp_path / "plan.json"
    text = run(
        *("--ctx_dir", folder, "--runtime", kind, "--op-package", f"{library}:LlmPackageInterfaceProvider"),
        *("--graph", "kv_forward", "--bind_plan_out", plan, "--align", 128, "--loops", 2, "--output-dir", tmp_path),
    )
    assert "forward_7: restored in" in text
    assert "8 of 8 contexts fine, 8 graphs executed on HTP" in text
    assert np.load(tmp_path / "forward_7" / "kv_forward" / "logits.npy").dtype == np.uint16
    rows = json.loads(plan.read_text())["tensors"]
    assert {row["shard"] for row in rows} == set(range(8))
    assert all(row["offset"] % 128 == 0 for row in rows)


def test_inputs_from_files_and_outputs_to_files(shards: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "state.npy", array(2))
    array(3).tofile(tmp_path / "x.raw")
    np.save(tmp_path / "other.npy", array(40))
    text = run(
        *(shards, *CPU, "--graph", "step", "--output-dir", tmp_path / "out"),
        *("--input", f"state={tmp_path / 'state.npy'}", "--input", f"step:x={tmp_path / 'x.raw'}"),
        *("--input", f"forward_2:step:x={tmp_path / 'other.npy'}"),
    )
    assert f"x: FLOAT_32 1x4x8 <- {tmp_path / 'x.raw'} (raw bytes)" in text
    for name, expected in (("forward_0", 5), ("forward_2", 42), ("forward_10", 5)):
        assert np.array_equal(np.load(tmp_path / "out" / name / "step" / "next.npy"), array(expected))


def test_real_numbers_are_quantized(sharded_llm: Callable[[str], Path], tmp_path: Path) -> None:
    folder = sharded_llm("emulator")
    library = find_built(folder / "package", backend="htp").library
    np.save(tmp_path / "hidden.npy", np.full((1, 1, 64), 0.5, np.float32))
    text = run(
        *(folder / "forward_0.bin", "--runtime", "emulator", "--op-package", library, "--graph", "kv_forward"),
        *("--input", f"hidden={tmp_path / 'hidden.npy'}"),
    )
    assert "(quantized)" in text


@pytest.mark.parametrize("flags", [(), ("--separate",), ("--shared",), ("--shared", "--separate")])
def test_each_kind_of_memory(shards: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    np.save(tmp_path / "ones.npy", array(1))
    ones = ("--input", f"a={tmp_path / 'ones.npy'}", "--input", f"b={tmp_path / 'ones.npy'}")
    found = run_json("context", shards, *CPU, *flags, *ones, "--graph", "look")
    for row in found["contexts"]:
        [graph] = row["graphs"]
        assert (graph["outputs"][0]["least"], graph["outputs"][0]["largest"]) == (2, 2)


def test_shared_memory_that_the_runtime_does_not_take(tmp_path: Path) -> None:
    need_runtime("cpu")
    (tmp_path / "small.bin").write_bytes(binary("cpu", "real"))
    text = run(tmp_path, "--backend", "cpu", "--shared", code=5)
    assert "libQnnCpu.so registers no shared memory on this machine" in text
    assert "udogen's emulator" in text


@pytest.mark.parametrize("kind", ["emulator", "real"])
def test_a_device_that_the_machine_lacks_is_named(tmp_path: Path, kind: str) -> None:
    if kind == "real":
        need_runtime("htp")
    (tmp_path / "small.bin").write_bytes(binary("htp", kind))
    text = run(tmp_path, "--runtime", kind, "--device", 3, code=5)
    assert "there is no device HTP3: this machine has 1, numbered from 0" in text and "= select another device" in text


def test_measures(shards: Path) -> None:
    found = run_json("context", shards / "forward_0.bin", *CPU, "--profile")
    assert found["contexts"][0]["graphs"][0]["profile"][0]["value"] >= 0


def test_the_log_of_the_runtime(tmp_path: Path) -> None:
    need_runtime("cpu")
    (tmp_path / "small.bin").write_bytes(binary("cpu", "real"))
    done = udogen("run", "context", tmp_path, "--backend", "cpu", "--log_level", "5")
    assert done.returncode == 0
    assert "[runtime " in done.stderr


# --- failures of one shard ------------------------------------------------------------------------------------------


def test_ops_that_end_the_process_or_fail(tmp_path: Path) -> None:
    """In libQnnHtp: the child dies, the message names context, graph and signal, and the next context runs."""
    need_runtime("htp")
    built = htp_package(ROOT / "tests/configs/Faults.xml", tmp_path, KERNELS / "faults")
    argv = [sys.executable, "-m", "tests.contexts.crashing", built.library.parents[2], tmp_path]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, timeout=LONG)
    text = run(tmp_path, "--op-package", built.library, code=5)
    assert f"context {tmp_path / 'forward_0.bin'} crashed with SIG" in text
    assert "in phase `graph `only`: execute`" in text and "a debugger shows in which library" in text
    assert "forward_1: restored in" in text
    assert "three is no number" in text, "what the kernel of forward_2 says"
    assert "1 of 3 contexts fine, 1 graph executed" in text


def test_a_package_that_is_not_registered(sharded_llm: Callable[[str], Path]) -> None:
    text = run(sharded_llm("real") / "forward_0.bin", code=5)
    assert "needs the op LlmPackage::" in text
    assert "= register the package that the context was made with, of the same version: --op-package LIB" in text


def test_a_json_of_another_shape(shards: Path) -> None:
    done = udogen("inspect", shards / "forward_0.bin", "--json-out", shards / "forward_0_json.json")
    assert done.returncode == 0, done.stderr
    described = (shards / "forward_0_json.json").read_text()
    assert run(shards / "forward_0.bin", *CPU).count("!") == 0
    changed = described.replace('"name": "next"', '"name": "following"')
    assert changed != described
    (shards / "forward_0_json.json").write_text(changed)
    assert "  ! " in run(shards / "forward_0.bin", *CPU)


# --- errors on the command line -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no context was given"),
        (("{}", "--graph", "stepp"), "no context has the graph stepp\n  `stepp`: did you mean `step`?"),
        (("{}", "--input", "stat=x.npy"), "no graph has this input: stat\n  `stat`: did you mean `state`?"),
        (("{}", "--input", "state"), "--input state: this is not NAME=VALUE"),
        (("{}", "--align", "3"), "buffers cannot be aligned to 3 bytes"),
        (("{}", "--align", "8192"), "buffers cannot be aligned to 8192 bytes"),
        (("{}", "--log-level", "9"), "--log-level 9: there is no such level"),
        (("{}/no.bin",), "there is no file or folder"),
        (("{}", "--bind-plan-out", "/proc/plan.json"), "cannot write /proc/plan.json"),
        (("{}", "--bind-plan-out", "no/where.json"), "cannot write no/where.json: there is no folder no"),
        (("{}", "--soc", "SM8650"), "--soc is for --backend htp, not cpu"),
    ],
)
def test_mistakes(shards: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in run(*(argument.format(shards) for argument in arguments), *CPU, code=2)


@pytest.mark.parametrize(
    ("package", "code", "message"),
    [
        ("no.so", 5, "no op package at no.so"),
        ("lib.so:1x", 5, "no op package at lib.so:1x"),
        ("docs:P", 2, "docs contains no package that udogen generated"),
    ],
)
def test_op_packages_that_are_none(shards: Path, package: str, code: int, message: str) -> None:
    assert message in run(shards, *CPU, "--op-package", package, code=code)


def test_files_that_do_not_fit(shards: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "long.npy", array(1, (1, 4, 9)))
    np.save(tmp_path / "whole.npy", array(1).astype(np.int64))
    (tmp_path / "x.raw").write_bytes(b"12")
    (tmp_path / "x.npy").write_bytes(b"no array")
    for file, message in (
        ("long.npy", "has the shape [1, 4, 9], input `state` has [1, 4, 8]"),
        ("whole.npy", "is int64, tensor `state` is FLOAT_32 (float32)"),
        ("x.raw", f"has 2 bytes, input `state` (FLOAT_32 {list(SHAPE)}) has 128"),
        ("x.npy", "is not an array that numpy can load"),
        ("no.npy", "cannot be read: No such file or directory"),
    ):
        text = run(shards / "forward_0.bin", *CPU, "--input", f"state={tmp_path / file}", code=5)
        assert f"{tmp_path / file} {message}" in text


def test_no_child_is_left_where_its_runtime_does_not_start(tmp_path: Path) -> None:
    options = RunOptions(backend="cpu", runtime="emulator", packages=(OpLibrary(tmp_path / "none.so"),))
    before = children()
    with pytest.raises(UdogenError, match=r"none\.so"), ContextSession(options):
        pass
    assert children() == before


def children() -> set[str]:
    """Return the child processes of this one that have not ended."""
    return {each for task in Path("/proc/self/task").iterdir() for each in (task / "children").read_text().split()}


@pytest.mark.parametrize("module", ["udogen.runtime.contexts.worker", "udogen.runtime.models.worker"])
def test_a_worker_ends_by_itself_with_0(module: str) -> None:
    worker = WorkerProcess(module)
    assert worker.ask(Quit(), Done) == Done()
    assert worker.end(LONG) == 0
