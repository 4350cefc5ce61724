"""Each way in which a package or an op can fail has a one-sentence message with a remedy; the session survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from probe import PROVIDER, Build, X, alive, call, result, tensor

from udogen import RunFailed
from udogen.runtime import OpCrashed, OpFailed, OpRefused, OpTimedOut, RegistrationFailed, Scalar
from udogen.runtime.failures import OutOfBounds
from udogen.runtime.ops import OpCall, OpSession
from udogen.verify import runner


def children() -> set[int]:
    """Return the process ids of the children of this process, including dead ones."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


# ---- packages that cannot be used ---------------------------------------------------------------------


def test_an_undefined_symbol_is_named(build: Build) -> None:
    with (
        pytest.raises(RunFailed, match="udogen_symbol_that_nobody_has") as caught,
        OpSession(build("-DUNDEFINED"), PROVIDER, timeout=20),
    ):
        pass
    assert "has an undefined symbol" in caught.value.message


@pytest.mark.parametrize(
    ("flag", "match", "hint"),
    [
        ("-DVERSION_2", "4008", "1.4.0"),
        ("-DMISSING_METHOD", r"4008.*Missing interface method", ""),
        # The runtime calls init again for a package that another backend of the same process has registered.
        ("-DINITIALIZED", r"cannot be registered .* already", ""),
    ],
)
def test_a_package_that_the_runtime_refuses(build: Build, flag: str, match: str, hint: str) -> None:
    with (
        pytest.raises(RegistrationFailed, match=match) as caught,
        OpSession(build(flag), PROVIDER, timeout=20),
    ):
        pass
    assert hint in caught.value.hint


def test_a_wrong_provider_a_missing_package_a_missing_runtime(probe: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="does not export"):
        OpSession(probe, "OtherInterfaceProvider")
    with pytest.raises(RunFailed, match="no op package"):
        OpSession(tmp_path / "libP.so", PROVIDER)
    (tmp_path / "libQnnCpu.so").write_text("not a library")
    with pytest.raises(RunFailed, match=r"the runtime library .* is not a shared library"):
        OpSession(probe, PROVIDER, qnn_lib=tmp_path / "libQnnCpu.so")


def test_a_runtime_that_is_none(probe: Path) -> None:
    before = children()  # a session of another file may still be ending
    with (
        pytest.raises(RegistrationFailed, match="is not a QNN runtime library"),
        OpSession(probe, PROVIDER, qnn_lib=probe, timeout=20),
    ):
        pass
    assert children() <= before


# ---- calls that are refused, and ops that fail --------------------------------------------------------


def refused_by_udogen_or_the_package() -> dict[str, tuple[OpCall, type[RunFailed], str, str]]:
    """Return name -> the call, its error, a pattern of the message, and a part of the hint."""
    half = X.astype(np.float16)
    wide = (tensor(array=half, dtype="FLOAT_16"),), (result(dtype="FLOAT_16"),)
    whole = (tensor(array=X.astype(np.int32), dtype="INT_32"),)
    named = r"3110 .* gave no reason: inputs FLOAT_32 \[2, 3\]; outputs FLOAT_32"
    return {
        "a wrong package": (call("AddOne", package="Prob"), OpRefused, "is the op package `Probe`, not `Prob`", ""),
        "a wrong op": (call("AddOn"), OpRefused, "has no op `AddOn`", "did you mean `AddOne`? it has: "),
        "two inputs": (
            call("AddOne", (tensor("x"), tensor("z"))),
            *(OpRefused, "1 input and 1 output expected, got 2 and 1", ""),
        ),
        "a type": (call("AddOne", whole), OpRefused, "input `x` must be FLOAT_32", ""),
        "a shape": (call("Refuse"), OpRefused, "must have rank 4, it has 2", ""),
        "no reason": (call("Mute", params=(Scalar("axis", "UINT_32", 1),)), OpRefused, named, ""),
        "not delivered": (call("CopyBytes", *wide), OpFailed, "does not deliver", "FLOAT_32"),
        "an error with a reason": (
            call("Fails", params=(Scalar("code", "UINT_32", 1002),)),
            *(OpFailed, "returned 1002 .*told to answer 1002", ""),
        ),
        "an error": (call("Fails", params=(Scalar("code", "UINT_32", 17),)), OpFailed, "returned 17 when", ""),
        "not made": (call("FailCreate"), OpFailed, "createOpImpl.*1002.*no memory for the table", ""),
        "overrun": (call("Overrun"), OutOfBounds, "past the end of its output `y`", ""),
    }


@pytest.mark.parametrize(
    ("op_call", "error", "match", "hint"),
    refused_by_udogen_or_the_package().values(),
    ids=list(refused_by_udogen_or_the_package()),
)
def test_a_call_that_fails(session: OpSession, op_call: OpCall, error: type[RunFailed], match: str, hint: str) -> None:
    with pytest.raises(error, match=match) as caught:
        session.run(op_call)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("op", "match"),
    [
        ("Segfault", "op `Segfault` crashed with SIGSEGV .* in phase `execute`"),
        ("Abort", "op `Abort` crashed with SIGABRT .* in phase `execute`"),
        ("CrashCreate", "op `CrashCreate` crashed with SIGABRT .* in phase `finalize`"),
        ("Throw", "op `Throw` threw an uncaught C.. exception .*thrown by the op"),
        ("Exit", "op `Exit` ended the process with exit code 7"),
    ],
)
def test_an_op_that_ends_the_process_ends_one_call(session: OpSession, op: str, match: str) -> None:
    with pytest.raises(OpCrashed, match=match) as caught:
        session.run(call(op))
    assert caught.value.hint
    np.testing.assert_array_equal(session.run(call("AddOne")).outputs["y"], X + 1)


def test_what_an_op_must_not_do_is_no_refusal() -> None:
    refusals = [kind for kind in (OpFailed, OpRefused, OutOfBounds) if runner.is_refusal(kind("in whichever words"))]
    assert refusals == [OpFailed, OpRefused]


# ---- nothing is left behind ---------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["Loop", "Spin"])
def test_an_op_that_never_ends_is_stopped_and_nothing_is_left(probe: Path, op: str) -> None:
    before = children()
    with OpSession(probe, PROVIDER, timeout=1) as session:
        pid = session.pid
        started = time.monotonic()
        with pytest.raises(OpTimedOut, match=f"op `{op}` did not return within 1 s in phase `execute`"):
            session.run(call(op))
        assert time.monotonic() - started < 30
        assert session.pid is None
        assert not Path(f"/proc/{pid}").exists()  # neither alive nor a zombie
        assert session.run(call("AddOne")).outputs["y"][0, 0] == 1
    assert children() == before


def test_an_exception_in_the_parent_ends_the_child(probe: Path) -> None:
    def interrupt(phase: str) -> None:
        if phase == "execute":
            raise KeyboardInterrupt

    with OpSession(probe, PROVIDER, on_phase=interrupt) as session:
        pid = session.pid
        with pytest.raises(KeyboardInterrupt):
            session.run(call("Spin"))
        assert pid is not None
        assert not alive(pid)


@pytest.mark.parametrize("in_thread", [False, True])
def test_the_child_dies_with_its_parent_even_in_an_endless_op(probe: Path, in_thread: bool) -> None:
    program = f"""
        import sys, threading
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from probe import *
        from pathlib import Path
        from udogen.runtime.ops import OpSession

        def work():
            say = lambda phase: print(phase, flush=True)
            with OpSession(Path({str(probe)!r}), PROVIDER, on_phase=say) as session:
                print("pid", session.pid, flush=True)
                session.run(call("Spin"))

        if {in_thread}:
            threading.Thread(target=work, daemon=True).start()
            threading.Event().wait()
        work()
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    pid = 0
    assert parent.stdout is not None
    for line in parent.stdout:
        pid = int(line.split()[1]) if line.startswith("pid") else pid
        if line.strip() == "execute":
            break
    assert alive(pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


def test_a_session_outlives_the_thread_that_opened_it(probe: Path) -> None:
    opened: list[OpSession] = []
    thread = threading.Thread(target=lambda: opened.append(OpSession(probe, PROVIDER, timeout=20).__enter__()))
    thread.start()
    thread.join()
    (session,) = opened
    assert session.run(call("AddOne")).outputs["y"][0, 0] == 1
    assert session.restarts == 0
    session.close()


def test_a_worker_that_died_between_two_calls_is_replaced(probe: Path) -> None:
    with OpSession(probe, PROVIDER, timeout=20) as session:
        session.run(call("AddOne"))
        assert session.pid is not None
        os.kill(session.pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while alive(session.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session.run(call("AddOne")).outputs["y"][0, 0] == 1
        assert session.restarts == 1


def test_no_file_descriptor_is_left_open(probe: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    with OpSession(probe, PROVIDER, timeout=20) as session:
        session.run(call("AddOne"))
    before = count()
    for op in ("AddOne", "Segfault"):
        with OpSession(probe, PROVIDER, timeout=20) as session:
            try:
                session.run(call(op))
            except OpCrashed:
                pass
    assert count() == before


def test_a_sanitizer_reports_the_line(build: Build) -> None:
    asan = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    if not Path(asan.stdout.strip()).is_absolute():
        pytest.skip("libasan is not installed")
    package = build("-fsanitize=address", "-g")
    env = {"LD_PRELOAD": asan.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    with OpSession(package, PROVIDER, timeout=60, env=env) as session:
        assert session.run(call("AddOne")).outputs["y"][0, 0] == 1
        with pytest.raises(OpCrashed, match=r"stopped by a sanitizer \(AddressSanitizer: SEGV .*probe_package"):
            session.run(call("Segfault"))
