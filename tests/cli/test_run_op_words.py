"""`udogen run op`: optional parts, other spellings, and typing mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.making import ROOT, make, make_packages, need_runtime
from udogen.opdef import datatypes
from udogen.opdef.datatypes import BY_NAME

HERE = ROOT / "tests" / "cli" / "scale_by"
X = np.float32([1, 2, 3])


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package for HTP only, whose tensors have at least one axis."""
    need_runtime("htp")
    [made] = make_packages(
        [HERE / "ScaleBy.xml"],
        tmp_path_factory.mktemp("scale_by"),
        chosen=["htp"],
        kernels=HERE / "kernels",
        layout="qnn",
    )
    done = make(made.folder, "htp_x86")
    assert done.returncode == 0, done.stderr
    np.save(made.folder / "x.npy", X)
    np.save(made.folder / "by.npy", np.float32(2))
    return made.folder


def run(package: Path, *more: str) -> tuple[int, str, str]:
    given = ("--input", f"x={package / 'x.npy'}", "--input", f"by={package / 'by.npy'}")
    done = udogen("run", "op", package, "ScaleBy", *given, "--json", *more)
    return done.returncode, done.stdout, done.stderr


def test_a_folder_for_one_backend_needs_no_backend_and_a_scalar_input_may_be_an_array_of_rank_0(package: Path) -> None:
    code, out, err = run(package, "--dtype", "y=float32", "--param", "mode=EXACT")
    assert code == 0, err
    reply = json.loads(out)
    assert reply["backend"] == "htp"
    assert reply["outputs"]["y"]["data"] == [2, 4, 6]


@pytest.mark.parametrize(
    ("more", "message", "hint"),
    [
        (("--param", "mood=EXACT"), "op `ScaleBy` has no parameter `mood`", "did you mean `mode`?"),
        (
            ("--param", "mode=EXCAT"),
            "parameter `mode`: `EXCAT` is not one of its names",
            "did you mean `EXACT`? one of FAST, EXACT, or its number",
        ),
        (
            ("--param", "mode=soon"),
            "parameter `mode`: `soon` is not one of its names",
            "one of FAST, EXACT, or its number",
        ),
        (
            ("--param", "mode=5"),
            "parameter `mode` of op `ScaleBy` is 5, but the enumeration has only 0 … 1",
            "one of FAST, EXACT",
        ),
        (("--dtype", "y=float31"), "`float31` is not a data type", "did you mean `FLOAT_32`?"),
        (("--dtype", "z=float32"), "op `ScaleBy` has no tensor `z`", "it has: x, by, y, mode"),
    ],
)
def test_a_mistake_is_one_of_usage_and_names_what_there_is(
    package: Path, more: tuple[str, ...], message: str, hint: str
) -> None:
    code, out, _ = run(package, *more)
    assert code == 2
    error = json.loads(out)["error"]
    assert (error["message"], error["hint"]) == (message, hint)


@pytest.mark.parametrize(
    ("text", "allowed", "name"),
    [
        ("float32", (), "FLOAT_32"),
        ("Float_32", (), "FLOAT_32"),
        ("qnn_datatype_int_32", (), "INT_32"),
        ("uint8", (), "UINT_8"),
        ("uint8", ("FLOAT_32", "UFIXED_POINT_8"), "UFIXED_POINT_8"),
        ("bool", (), "BOOL_8"),
        ("fixed_8", (), "UFIXED_POINT_8"),
        ("complex64", (), None),
    ],
)
def test_types_by_other_names(text: str, allowed: tuple[str, ...], name: str | None) -> None:
    found = datatypes.meant(text, [BY_NAME[each] for each in allowed])
    assert (found.name if found else None) == name


_COUNTED = """
import json, os, sys
from pathlib import Path
from udogen import process
from udogen.cli import main
from udogen.configs import load
counts = dict(configs=0, manifests=0, processes=0)
def counted(name, function):
    def call(*args, **more):
        counts[name] += 1
        return function(*args, **more)
    return call
load.read = counted("configs", load.read)
process.Supervised.__init__ = counted("processes", process.Supervised.__init__)
def opened(event, arguments):
    counts["manifests"] += event == "open" and str(arguments[0]).endswith("manifest.json")
sys.addaudithook(opened)
place = sys.argv.pop(1)
try:
    main.main()
finally:
    Path(place).write_text(json.dumps(counts))
"""


def counted(package: Path, *more: str) -> tuple[subprocess.CompletedProcess[str], dict[str, int]]:
    """Run `udogen run op` in the package's folder; count parsed configs, opened manifests and started processes."""
    argv = [sys.executable, "-c", _COUNTED, "counts.json", "run", "op", ".", *more]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=package, env=env, capture_output=True, text=True)
    return done, json.loads((package / "counts.json").read_text())


INPUTS = ("--input", "x=x.npy", "--input", "by=by.npy", "--dtype", "y=float32")
MISTAKES = {
    ("ScaleBy", *INPUTS, "--input", "z=x.npy"): "`z`",
    ("ScaleBy", *INPUTS, "--output", "z=z.npy"): "`z`",
    ("ScaleBy", *INPUTS, "--param", "mood=EXACT"): "op `ScaleBy` has no parameter `mood`",
    ("ScaleBy", *INPUTS, "--dtype", "x=float33"): "`float33` is not a data type",
    ("ScaleBy",): "op `ScaleBy` needs the input",
    ("ScaleBy", "--input", "x=1x16xabc"): "x=1x16xabc: this is not a shape",
    ("ScaleBy", "--input", "x=nothing.npy"): "nothing.npy cannot be read: No such file",
}


def test_the_config_and_the_manifest_are_read_once(package: Path) -> None:
    done, counts = counted(package, "ScaleBy", *INPUTS)
    assert done.returncode == 0, done.stderr
    assert counts == {"configs": 1, "manifests": 1, "processes": 1}


@pytest.mark.parametrize("given", MISTAKES, ids=" ".join)
def test_a_mistake_starts_nothing(package: Path, given: tuple[str, ...]) -> None:
    done, counts = counted(package, *given)
    assert done.returncode == 2 and MISTAKES[given] in done.stderr
    assert counts == {"configs": 1, "manifests": 1, "processes": 0}


def test_a_misspelt_op_starts_nothing(package: Path) -> None:
    done, counts = counted(package, "ScaleBye")
    assert done.returncode == 2
    assert "did you mean `ScaleBy`?" in done.stderr
    assert counts == {"configs": 0, "manifests": 1, "processes": 0}
