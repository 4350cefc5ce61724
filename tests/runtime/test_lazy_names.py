"""The names of `udogen.runtime`: each is there when it is asked for, and nothing is imported before that."""

from __future__ import annotations

import subprocess
import sys

import pytest

import udogen.runtime
from tests.making import ROOT


@pytest.mark.parametrize("name", udogen.runtime.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(udogen.runtime, name) is getattr(udogen.runtime, name)


def test_the_table_has_every_name_and_no_other() -> None:
    assert set(udogen.runtime._MODULES) == set(udogen.runtime.__all__)


def test_a_name_that_is_not_there_is_told_as_of_any_module() -> None:
    with pytest.raises(AttributeError, match=r"module 'udogen.runtime' has no attribute 'Sesion'"):
        udogen.runtime.Sesion  # type: ignore[attr-defined]  # noqa: B018


def test_restoring_imports_nothing_of_running_ops() -> None:
    program = "import sys, udogen.runtime; udogen.runtime.Runtime; print(*(m for m in sys.modules if 'udogen' in m))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "udogen.runtime.contexts.runtime" in loaded
    assert not loaded & {"udogen.runtime.op.session", "udogen.runtime.snpe.host", "udogen.runtime.op.marshal"}
