"""Memory that is filled with a known byte before an op writes it: unwritten elements keep it, on every host runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from probe import PROVIDER, X, call, result, tensor

from udogen import RunFailed
from udogen.runtime import OpCrashed, OpFailed, Scalar
from udogen.runtime.ops import OpSession

BYTES = [0x5A, 0xC3, 0xFF]


@pytest.mark.parametrize("loops", [1, 3])
@pytest.mark.parametrize("poison", [0, *BYTES])
def test_what_an_op_does_not_write_shows_it(session: OpSession, poison: int, loops: int) -> None:
    answer = session.run(replace(call("Dump", loops=loops), poison=poison)).outputs["y"]
    assert answer.tobytes() == bytes([poison]) * answer.nbytes


def test_what_an_op_writes_does_not_show_it(session: OpSession) -> None:
    for poison in (*BYTES, 0):
        step = Scalar("step", "FLOAT_32", 2.5)
        answer = session.run(replace(call("AddOne", params=(step,), loops=3), poison=poison))
        np.testing.assert_array_equal(answer.outputs["y"], X + 2.5)


def test_outputs_of_one_byte_and_of_rank_0(session: OpSession) -> None:
    byte = np.array([[1, 2, 3]], np.uint8)
    shapes = {"UINT_8": byte, "INT_32": byte.astype(np.int32), "FLOAT_32": np.float32(4).reshape(())}
    for dtype, array in shapes.items():
        output = (result(dtype=dtype, shape=array.shape),)
        answer = session.run(replace(call("Dump", (tensor(array=array, dtype=dtype),), output), poison=0xC3))
        assert answer.outputs["y"].tobytes() == b"\xc3" * array.nbytes


def test_the_code_that_an_op_returns_comes_through(session: OpSession) -> None:
    with pytest.raises(OpFailed, match=r"^op `Fails` returned 7 "):
        session.run(replace(call("Fails", params=(Scalar("code", "INT_32", 7),)), poison=0x5A))
    with pytest.raises(OpCrashed, match=r"(?m)^op `Abort` crashed with SIGABRT \(abort\) in phase `execute`$"):
        session.run(replace(call("Abort"), poison=0x5A))
    past = r"(?m)^op `Overrun` wrote past the end of its output `y` \(24 bytes\): at byte 24, 32 in all$"
    with pytest.raises(RunFailed, match=past):
        session.run(replace(call("Overrun"), poison=0x5A))


def test_a_poison_is_a_byte(session: OpSession) -> None:
    with pytest.raises(RunFailed, match=r"(?m)^outputs cannot be filled with 256$"):
        session.run(replace(call("AddOne"), poison=256))


def test_a_context_that_is_restored(session: OpSession) -> None:
    saved = session.run(replace(call("AddOne"), save_context=True)).context
    assert saved is not None
    answer = session.run(replace(call("AddOne"), context=saved, poison=0xC3))
    np.testing.assert_array_equal(answer.outputs["y"], X + 1)


def test_nothing_is_left_behind(session: OpSession) -> None:
    def open_now() -> tuple[int, int]:
        folder = Path(f"/proc/{session.pid}")
        return len(list((folder / "fd").iterdir())), (folder / "maps").read_text().count("\n")

    def run(times: int) -> None:
        for poison in [0x5A, 0xC3] * times:
            session.run(replace(call("AddOne"), poison=poison))

    run(10)
    fds, maps = open_now()
    run(50)
    after = open_now()
    assert after[0] <= fds + 2  # a reply arrives before the worker has closed its memory; a leak would be 100
    assert after[1] <= maps + 4  # the heap may get an arena


def test_in_our_emulator_too(probe: Path) -> None:
    """udogen's emulator of the CPU backend, not Qualcomm's library."""
    with OpSession(probe, PROVIDER, runtime="emulator", timeout=60) as session:
        for poison in (0x5A, 0xC3):
            answer = session.run(replace(call("Dump"), poison=poison)).outputs["y"]
            assert answer.tobytes() == bytes([poison]) * answer.nbytes
