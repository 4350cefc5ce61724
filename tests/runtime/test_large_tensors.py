"""A large tensor is copied at most once on its way to an op, and leaves no memory behind."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from probe import PROVIDER, call, result, tensor

from tests.bench.memory_peak import peak
from udogen.runtime import OpCrashed
from udogen.runtime.ops import OpSession, shared_array

SHAPE = (1, 16 << 20)
SIZE = 64 << 20  # bytes


def memories(pid: int | str) -> list[str]:
    """Return the shared memory that a process has open or mapped."""
    folder = Path(f"/proc/{pid}/fd")
    names = [os.readlink(folder / each) for each in os.listdir(folder) if (folder / each).is_symlink()]
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [name for name in (*names, *maps) if "/memfd:udogen " in name]


@pytest.mark.parametrize(("make", "most"), [(np.empty, 2.0), (shared_array, 1.0)])
def test_memory_of_a_large_tensor(build: object, probe: Path, make: object, most: float) -> None:
    """In addition to input and output: the copy of the input that libQnnCpu makes, and that for the worker."""
    array = make(SHAPE, np.float32)  # type: ignore[operator]
    array[:] = 1
    gc.collect()  # arrays of other tests
    before = len(memories("self"))
    with OpSession(probe, PROVIDER) as session:
        session.run(call("AddOne"))
        with peak([os.getpid(), session.pid or 0]) as found:
            y = session.run(call("AddOne", (tensor(array=array),), (result(shape=SHAPE),))).outputs["y"]
            assert y.min() == y.max() == 2
        assert found[0] - SIZE < (most + 0.3) * SIZE
        assert not memories(session.pid or 0)
        assert len(memories("self")) == before + 1
    assert y.min() == 2, "results outlive their session"
    del y
    assert len(memories("self")) == before


def test_a_worker_that_dies_leaves_no_memory(probe: Path) -> None:
    array = shared_array((2, 3), np.float32)
    there = len(memories("self"))
    with OpSession(probe, PROVIDER) as session:
        for _ in range(3):
            with pytest.raises(OpCrashed):
                session.run(call("Segfault", (tensor(array=array),)))
        array[:] = 4
        assert np.array_equal(session.run(call("AddOne", (tensor(array=array),))).outputs["y"], array + 1)
    assert not [name for name in os.listdir("/dev/shm") if "udogen" in name]
    assert len(memories("self")) == there


def test_one_shared_array_for_several_tensors_and_more_than_a_message_refers_to(probe: Path) -> None:
    """Each tensor has separate guards, and the number of shared arrays is unlimited."""
    array = shared_array((2, 3), np.float32)
    array[:] = 4
    many = [shared_array((2, 3), np.float32) for _ in range(300)]
    with OpSession(probe, PROVIDER) as session:
        for inputs in ([array, array, array], [array, *many, array]):
            given = tuple(tensor(f"x{at}", array=each) for at, each in enumerate(inputs))
            session.run(call("Dump", given))
            assert session.restarts == 0
