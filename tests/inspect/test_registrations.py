"""`udogen inspect` of a registration library of SNPE."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from toys import shown

from tests.making import ROOT
from tests.snpe.packages import registration
from udogen import resources
from udogen.build import tools
from udogen.inspect import inspection
from udogen.inspect.inspection import InspectedLibrary, Inspection, InspectOptions, inspect
from udogen.runtime.built import find_built

MANY = ROOT / "tests" / "configs" / "Udo.xml"
BROKEN = ROOT / "tests" / "runtime" / "registration.c"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the registration library of a generated package."""
    return registration(MANY, tmp_path_factory.mktemp("udo"))


def look(path: Path, *, register: bool = True) -> InspectedLibrary:
    return inspect(path, InspectOptions((), tools.environment(), register=register))


def broken(folder: Path, *flags: str) -> Path:
    made = folder / "libUdoThingReg.so"
    argv = ["gcc", "-std=c11", "-shared", "-fPIC", f"-I{resources.qnn_headers()}", str(BROKEN), "-o", str(made)]
    subprocess.run([*argv, *flags], check=True)
    return made


def test_it_is_shown_whole(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    found = look(library)
    assert found.verdict == "will register, but"
    assert "warning: the loader does not find libUdoManyUdoImplCpu.so, the CPU library of package ManyUdo" in shown(
        found
    )
    text = "\n".join(inspection.lines(Inspection((found,)), width=400))
    for line in (
        "  is          a registration library of SNPE (UDO)",
        "  package     ManyUdo 2.5.0, API 1.6.0 of UDO",
        "  libraries   CPU libUdoManyUdoImplCpu.so, GPU libUdoManyUdoImplGpu.so, DSP libUdoManyUdoImplDsp.so",
    ):
        assert line in text.splitlines()
    assert "Quantized for DSP" in text and "Everything for CPU GPU DSP" in text


def test_as_json(library: Path) -> None:
    argv = [sys.executable, "-m", "udogen", "inspect", str(library), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)["libraries"]
    assert found["package"]["style"] == "udo"
    assert found["registration"]["package"] == "ManyUdo"
    assert [op["type"] for op in found["registration"]["ops"]] == ["Everything", "Join", "Quantized"]


def test_nothing_of_it_runs_where_nothing_shall(tmp_path: Path) -> None:
    found = look(broken(tmp_path, "-DCRASHES"), register=False)
    assert "will not" not in found.verdict
    text = "\n".join(inspection.lines(Inspection((found,)), width=100))
    assert "describes   not read" in text


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("-DCRASHES", "crashed with SIGSEGV"),
        ("-DREFUSES", "returned 4 (SNPE_UDO_MEM_ALLOC_ERROR)"),
        ("-DINCOMPLETE", "it exports no SnpeUdo_validateOperation"),
    ],
)
def test_what_stops_it(tmp_path: Path, flag: str, sentence: str) -> None:
    found = look(broken(tmp_path, flag))
    assert found.verdict == "will not register"
    assert sentence in shown(found)


def test_no_op_package_is_found_behind_a_core_that_it_has_not(tmp_path: Path) -> None:
    from udogen import UsageError

    with pytest.raises(UsageError) as caught:
        find_built(broken(tmp_path), backend="htp")
    assert caught.value.message == "package Thing names no library that runs on the htp backend of this machine"
    assert caught.value.hint == "--backend cpu"
