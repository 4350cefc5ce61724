"""Packages count executions: in the real libQnnCpu and libQnnHtp, for any caller, and to a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probe import PROVIDER, X, call, result, tensor

from tests.command_line import udogen
from tests.making import LONG, ONE_KERNEL, ONE_OP, ROOT, cpu_package, gpu_package, htp_package, make_packages
from udogen.runtime.built import Built, find_built
from udogen.runtime.execution_counts import NoCounter, NotExecuted, Proof, Rise, proved, unproved
from udogen.runtime.ops import OpSession, executions

EXAMPLE = ROOT / "examples" / "leaky_relu"
CODE = Path(__file__).with_name("counting.py")


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return cpu_package(ONE_OP, tmp_path_factory.mktemp("cpu"), ONE_KERNEL)


@pytest.fixture(scope="module")
def htp(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return htp_package(EXAMPLE / "LeakyRelu.xml", tmp_path_factory.mktemp("htp"), EXAMPLE / "kernels")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return the same op in a package of another name."""
    folder = tmp_path_factory.mktemp("other")
    text = ONE_OP.read_text("utf-8")
    assert "LeakyReluPackage" in text
    (folder / "Other.xml").write_text(text.replace("LeakyReluPackage", "OtherPackage"), "utf-8")
    kernels = folder / "kernels" / "cpu"
    kernels.mkdir(parents=True)
    kernel = (ONE_KERNEL / "LeakyRelu.cpp").read_text("utf-8").replace("LeakyReluPackage", "OtherPackage")
    (kernels / "LeakyRelu.cpp").write_text(kernel, "utf-8")
    return cpu_package(folder / "Other.xml", folder / "out", folder / "kernels")


@pytest.fixture
def x(tmp_path: Path) -> str:
    np.save(tmp_path / "x.npy", np.float32([[-1, 0, 2]]))
    return f"input={tmp_path / 'x.npy'}"


# --- udogen run op -------------------------------------------------------------------------------------------------


def test_an_op_on_cpu_and_what_is_counted(cpu: Built, x: str) -> None:
    done = udogen("run", "op", cpu.library, "LeakyRelu", "--input", x, "--loops", 3, "--prove")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "  LeakyRelu: 3 executions in LeakyReluPackage (0 before, 3 after)"
    done = udogen("run", "op", cpu.library, "LeakyRelu", "--input", x, "--prove", "--json")
    assert json.loads(done.stdout)["proof"] == {
        "package": "LeakyReluPackage", "op": "LeakyRelu", "counted": "executions", "executed": True,
        "before": 0, "ready": 0, "after": 1, "count": 1,
    }  # fmt: skip
    assert "proof" not in json.loads(udogen("run", "op", cpu.library, "LeakyRelu", "--input", x, "--json").stdout)


def test_an_op_on_htp_counts_calls_of_its_kernel(htp: Built, x: str) -> None:
    done = udogen("run", "op", htp.library, "LeakyRelu", "--backend", "htp", "--input", x, "--prove")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "  LeakyRelu: 1 kernel call in LeakyReluPackage (0 before, 1 after)"


def test_on_gpu_nodes_are_counted_for_the_backend_runs_their_kernels(tmp_path: Path, x: str) -> None:
    """On udogen's emulator on PoCL."""
    built = gpu_package(EXAMPLE / "LeakyRelu.xml", tmp_path, EXAMPLE / "kernels")
    run = ("run", "op", built.library, "LeakyRelu", "--backend", "gpu", "--input", x, "--prove")
    done = udogen(*run, "--save-context", tmp_path / "c.bin")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "  LeakyRelu: 1 node made in LeakyReluPackage (0 before, 1 after)"
    done = udogen(*run, "--context", tmp_path / "c.bin")
    assert done.stdout.splitlines()[-1] == "  LeakyRelu: 1 node made in LeakyReluPackage (0 before, 1 after)"


def test_a_session_counts_from_call_to_call(cpu: Built) -> None:
    one = replace(call("LeakyRelu", (tensor("input"),), (result("output"),)), package="LeakyReluPackage")
    with OpSession(cpu.library, cpu.provider, timeout=20) as session:
        proofs = [session.run(replace(one, loops=loops)).proof for loops in (2, 3)]
    assert [proof and proof.of_op for proof in proofs] == [Rise(0, 0, 2), Rise(2, 2, 5)]


def test_an_op_of_qnn_itself_does_not_count(cpu: Built) -> None:
    """As in a runtime that uses its own op: here because the call requests it."""
    relu = replace(call("Relu", (tensor("input"),), (result("output"),)), package="qti.aisw", loops=2)
    with OpSession(cpu.library, cpu.provider, timeout=20) as session:
        answer = session.run(relu)
    np.testing.assert_array_equal(answer.outputs["output"], np.maximum(X, 0))
    with pytest.raises(NotExecuted) as caught:
        proved(answer.proof, cpu.library)
    assert caught.value.exit_code == 6
    assert caught.value.message == (
        "op `Relu` was not executed by package LeakyReluPackage: the graph ran 2 times, and the package counted no "
        "execution"
    )
    assert caught.value.hint == (
        "the runtime took another op of that name, such as its own, or a rewrite of the package replaced it: look at "
        "the nodes' package in the graph"
    )


@pytest.mark.parametrize(
    ("of_op", "of_package", "loops", "executed", "sentence"),
    [
        (Rise(0, 0, 2), Rise(0, 0, 2), 2, True, "Op: 2 kernel calls in P (0 before, 2 after)"),
        (Rise(7, 7, 8), Rise(7, 7, 8), 2, False, "Op: 1 kernel call in P (7 before, 8 after)"),
        (
            Rise(0, 1, 1),
            Rise(0, 1, 1),
            2,
            True,
            "Op: taken by P when the graph was prepared: its own rewrite replaced the node, or HTP computed it as "
            "a constant; then 0 kernel calls of its ops",
        ),
        (Rise(0, 0, 0), Rise(4, 4, 8), 2, True, "Op: its node became other ops of P, 4 kernel calls"),
        (Rise(3, 3, 3), Rise(4, 4, 4), 1, False, "Op: 0 kernel calls in P (3 before, 3 after)"),
    ],
)
def test_what_counts_as_executed(of_op: Rise, of_package: Rise, loops: int, executed: bool, sentence: str) -> None:
    proof = Proof("P", "Op", "calls", loops, of_op, of_package)
    assert (proof.executed, proof.sentence) == (executed, sentence)


def test_a_package_of_which_one_op_was_executed_is_proved() -> None:
    assert unproved({("P", "A", "executions"): 1, ("P", "C", "executions"): 0}) is None


def test_a_package_without_counters(probe: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    done = udogen("run", "op", probe, "AddOne", "--input", f"x={tmp_path / 'x.npy'}", "--prove")
    assert done.returncode == 5
    assert done.stderr == (
        f"error: the op package {probe} does not count its executions: it was built by an older udogen, or is not "
        "udogen's\n  = run `udogen generate` again, which keeps your kernels, then `udogen build`\n"
    )
    with OpSession(probe, PROVIDER, timeout=20) as session:
        assert session.run(call("AddOne")).proof is None


def test_where_kernels_are_called_by_udogen_itself_there_is_nothing_to_prove(tmp_path: Path, x: str) -> None:
    done = udogen("run", "op", tmp_path, "LeakyRelu", "--backend", "hexagon", "--input", x, "--prove")
    assert done.returncode == 2
    assert "--prove means nothing with --backend hexagon" in done.stderr


def test_a_library_that_is_not_loaded_here(cpu: Built) -> None:
    with pytest.raises(NoCounter) as caught:
        executions(cpu.library)
    assert caught.value.message == (
        f"the op package {cpu.library} is not loaded in this process, so its counts cannot be read"
    )
    assert caught.value.hint == "if it runs in another process, set UDOGEN_PROVE=FILE there"


# --- udogen run context --------------------------------------------------------------------------------------------


def test_contexts(cpu: Built, other: Built, x: str, tmp_path: Path) -> None:
    """A package that is registered but has no node in any graph is an error."""
    binary = tmp_path / "c.bin"
    assert udogen("run", "op", cpu.library, "LeakyRelu", "--input", x, "--save-context", binary).returncode == 0
    (tmp_path / "d.bin").write_bytes(binary.read_bytes())
    run = (
        "run",
        "context",
        binary,
        tmp_path / "d.bin",
        "--backend",
        "cpu",
        "--loops",
        2,
        "--prove",
        "--op-package",
        cpu.library,
    )
    done = udogen(*run)
    assert done.returncode == 0, done.stderr
    assert "\nLeakyRelu: 4 executions in LeakyReluPackage\n" in done.stdout
    done = udogen(*run, "--op-package", other.library, "--json")
    reported = json.loads(done.stdout)
    assert (done.returncode, reported["ok"], reported["error"]["kind"]) == (6, False, "not-executed")
    assert reported["error"]["message"] == "no op of package OtherPackage was executed, although the graphs ran"
    assert [row["ok"] for row in reported["contexts"]] == [True, True]
    assert reported["contexts"][1]["graphs"][0]["proof"] == [
        {"package": "LeakyReluPackage", "op": "LeakyRelu", "counted": "executions", "count": 2},
        {"package": "OtherPackage", "op": "LeakyRelu", "counted": "executions", "count": 0},
    ]
    done = udogen(*run, "--op-package", other.library)
    assert done.returncode == 6
    assert "\nLeakyRelu: no execution in OtherPackage\n" in done.stdout
    assert "error: no op of package OtherPackage was executed, although the graphs ran\n" in done.stderr


def test_contexts_with_a_package_that_does_not_count(cpu: Built, probe: Path, x: str, tmp_path: Path) -> None:
    binary = tmp_path / "c.bin"
    assert udogen("run", "op", cpu.library, "LeakyRelu", "--input", x, "--save-context", binary).returncode == 0
    done = udogen("run", "context", binary, "--backend", "cpu", "--prove", "--op-package", probe)
    assert done.returncode == 5
    assert f"the op package {probe} does not count its executions" in done.stderr
    done = udogen("run", "context", binary, "--backend", "cpu", "--prove")
    assert (done.returncode, done.stderr) == (
        2,
        "error: --prove is about op packages, and none was given\n  = --op-package LIB registers one\n",
    )


# --- in one process ------------------------------------------------------------------------------------------------


def run_case(case: str, *libraries: Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    given = [*libraries, *["/nowhere"] * (3 - len(libraries))]
    argv = [sys.executable, CODE, case, *given]
    done = subprocess.run(
        list(map(str, argv)),
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def counted(case: str, *libraries: Path) -> Any:
    return json.loads(run_case(case, *libraries).stdout.splitlines()[-1])


def test_two_packages_in_one_process(cpu: Built, other: Built) -> None:
    assert counted("two_packages", cpu.library, other.library) == [
        {"LeakyReluPackage": {"LeakyRelu": 0}, "OtherPackage": {"LeakyRelu": 0}},
        {"LeakyReluPackage": {"LeakyRelu": 3}, "OtherPackage": {"LeakyRelu": 2}},
    ]


def test_one_package_for_two_backends_in_one_process(cpu: Built, other: Built, htp: Built) -> None:
    assert counted("two_backends", cpu.library, other.library, htp.library) == [
        {"LeakyReluPackage": {"LeakyRelu": 5}},
        {"LeakyReluPackage": {"LeakyRelu": 1}},
    ]


def test_threads_lose_no_count(cpu: Built) -> None:
    found, expected = counted("threads", cpu.library)
    assert found == {"LeakyReluPackage": {"LeakyRelu": expected}}


def test_a_package_may_be_initialized_several_times(cpu: Built) -> None:
    codes, reported, by_op = counted("initialized_twice", cpu.library)
    assert codes == [3001, 0, 0, 0, 0, 3001, 0, 0]
    assert (reported, by_op) == ([0, 0, 2**64 - 1], {"LeakyRelu": 0})


# --- to a file -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return a package that is built with --prove."""
    [made] = make_packages([ONE_OP], tmp_path_factory.mktemp("writer"), chosen=["cpu"], kernels=ONE_KERNEL)
    done = udogen("build", "--prove", "-C", made.folder)
    assert done.returncode == 0, done.stderr
    return find_built(made.folder, backend="cpu")


@pytest.mark.parametrize("backend", ["cpu", "gpu", "htp"])
def test_only_a_package_built_with_prove_knows_the_variable(backend: str, tmp_path: Path) -> None:
    """Building it without --prove in the same folder makes it a product again."""
    [made] = make_packages([EXAMPLE / "LeakyRelu.xml"], tmp_path, chosen=[backend], kernels=EXAMPLE / "kernels")
    for options in ([], ["--prove"], []):
        done = udogen("build", f"{backend}_x86", *options, "-C", made.folder)
        assert done.returncode == 0, done.stderr
        [library] = made.folder.glob("*/x86_64-linux-clang/*.so")
        assert (b"UDOGEN_PROVE" in library.read_bytes()) == bool(options)


def test_a_product_writes_nothing(cpu: Built, tmp_path: Path) -> None:
    assert run_case("counted_at_the_end", cpu.library, cwd=tmp_path, UDOGEN_PROVE="proof.txt").stderr == ""
    assert not list(tmp_path.iterdir())


def test_a_file_gets_a_line_each_time_that_the_package_is_terminated(writer: Built, tmp_path: Path) -> None:
    """Two backends one after the other; the file name is relative to a folder that the process leaves."""
    assert run_case("counted_at_the_end", writer.library, cwd=tmp_path, UDOGEN_PROVE="proof.txt").stderr == ""
    assert (tmp_path / "proof.txt").read_text() == (
        "LeakyReluPackage LeakyRelu 1 executions\nLeakyReluPackage LeakyRelu 2 executions\n"
    )


def test_a_process_that_ends_without_terminating_the_package(writer: Built, tmp_path: Path) -> None:
    run_case("left_alone", writer.library, UDOGEN_PROVE=str(tmp_path / "proof.txt"))
    assert (tmp_path / "proof.txt").read_text() == "LeakyReluPackage LeakyRelu 4 executions\n"


def test_a_file_that_cannot_be_written_is_reported_and_changes_nothing(writer: Built, tmp_path: Path) -> None:
    reported = run_case("counted_at_the_end", writer.library, cwd=tmp_path, UDOGEN_PROVE="no/where")
    assert reported.stderr == "UDOGEN_PROVE=no/where cannot be written: No such file or directory\n"
    assert not list(tmp_path.iterdir())
    reported = run_case("counted_at_the_end", writer.library, cwd=tmp_path, UDOGEN_PROVE="")
    assert reported.stderr == ""
    assert not list(tmp_path.iterdir())
