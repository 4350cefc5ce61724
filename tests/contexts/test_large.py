"""A context of one gigabyte, restored by a client in C and by udogen: the library's cost, and udogen's overhead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contexts import c_client
from tests.contexts.large import GRAPH, MEGABYTES, made
from tests.making import need_runtime
from udogen.runtime import find_runtime


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The context binary."""
    need_runtime("htp")
    return made(tmp_path_factory.mktemp("large") / "large.bin")


def test_restoring_a_gigabyte_takes_what_the_library_takes(large: Path, tmp_path: Path) -> None:
    runtime = find_runtime("htp", kind="real").path
    client = c_client.build(tmp_path)
    theirs = c_client.run([client], large, runtime=runtime, graph=GRAPH, loops=0, room=tmp_path)
    ours = c_client.run(c_client.PYTHON, large, runtime=runtime, graph=GRAPH, loops=0, room=tmp_path)
    print(f"\npeak {ours.peak:.0f} MB, a client in C {theirs.peak:.0f} MB; start to first execution "
          f"{ours.start:.2f} s, in C {theirs.start:.2f} s")  # fmt: skip
    assert theirs.peak > 2 * MEGABYTES, "the library holds the binary and its own copy"
    assert ours.peak <= 1.1 * theirs.peak
    assert ours.peak - theirs.peak <= 50, "megabytes: the interpreter, numpy and all of ours"
