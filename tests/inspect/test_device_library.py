"""Packages registered in the HTP library of a DSP, under qemu-hexagon: a stand-in for it, and Qualcomm's own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from toys import Make

from tests.command_line import udogen
from tests.making import ROOT, make_packages
from tests.making import udogen as build
from tests.wheels import device_libraries
from udogen.build import tools

SKEL = "libQnnHtpV{}Skel.so"
CANNOT, WILL_NOT = 3, 5

# Macros of the package, the exit code, and a part of the report.
ROWS = (
    ((), 0, "registered  1 op in libQnnHtpV68Skel.so under qemu-hexagon"),
    (("MISSING",), WILL_NOT, "undefined_symbol"),
    (("DUPLICATE",), WILL_NOT, "libQnnHtpV68Skel.so refused an op or a kernel"),
    (("DUPLICATE",), WILL_NOT, "give each kernel of the package its own function_name"),
    (("FAILS_AT_START",), WILL_NOT, "the initializers of the package crashed"),
    (("CRASHES",), WILL_NOT, "qhpi_init of the package crashed"),
    (("NO_OPS",), WILL_NOT, "its qhpi_init registered no op"),
    (("STARTS_A_THREAD",), CANNOT, "the initializers of the package called qurt_thread_create, which only a DSP has"),
)


@pytest.fixture(autouse=True)
def _needs() -> None:
    if not tools.zig() or shutil.which("qemu-hexagon") is None:
        pytest.skip("zig or qemu-hexagon is not installed")


def report(package: Path, skel: Path, *more: str) -> tuple[int, str]:
    """Return the exit code and the report, on one line."""
    done = udogen("inspect", package, "--device-library", skel, *more)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def check(package: Path, skel: Path, row: tuple[tuple[str, ...], int, str]) -> None:
    code, text = report(package, skel)
    assert code == row[1] and " ".join(row[2].split()) in text, text


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join((*row[0], "toy")))
def test_a_stand_in(row: tuple[tuple[str, ...], int, str], make_for: Make) -> None:
    skel = make_for("hexagon v68", "-DSKEL", "-DNO_PROVIDER", name=SKEL.format(68))
    check(make_for("hexagon v68", "-DQHPI", *(f"-D{name}" for name in row[0])), skel, row)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join((*row[0], "toy")))
def test_qualcomms_own(row: tuple[tuple[str, ...], int, str], make_for: Make) -> None:
    check(make_for("hexagon v68", "-DQHPI", *(f"-D{name}" for name in row[0])), device_libraries(), row)


def test_the_log_of_the_library_is_shown(make_for: Make) -> None:
    """Its variable arguments are passed as on a DSP."""
    skel = make_for("hexagon v73", "-DSKEL", "-DNO_PROVIDER", name=SKEL.format(73))
    package = make_for("hexagon v73", "-DQHPI", "-DDUPLICATE")
    assert "ERROR: kernel 1 of Toy has duplication, 0.5" in report(package, skel)[1]
    found = json.loads(udogen("inspect", package, "--device-library", skel, "--json").stdout)["libraries"][0]["device"]
    assert found["log"] == ["ERROR: kernel 1 of Toy has duplication, 0.5"]
    assert (found["registered"], found["ops"], found["library"]) == (False, 0, str(skel))


def test_the_package_is_not_blamed_for_the_library(make_for: Make) -> None:
    skel = make_for("hexagon v68", "-DSKEL", "-DSKEL_FAILS", "-DNO_PROVIDER", "-DQHPI", name=SKEL.format(68))
    code, text = report(make_for("hexagon v68", "-DQHPI"), skel)
    assert code == CANNOT and "libQnnHtpV68Skel.so could not be loaded: its initializers crashed" in text


def test_without_running_code(make_for: Make) -> None:
    skel = make_for("hexagon v68", "-DSKEL", "-DNO_PROVIDER", name=SKEL.format(68))
    code, text = report(make_for("hexagon v68", "-DQHPI", "-DFAILS_AT_START"), skel, "--no-register")
    assert code == 0 and "registered not tried" in text


EXAMPLES = ("add_sat_u8", "leaky_relu", "max_pool", "python_kernels", "repacked_weights", "softmax", "sharded_llm")


@pytest.mark.parametrize("version", ["v68", "v73"])
def test_the_examples_in_qualcomms_own(version: str, tmp_path: Path) -> None:
    skels = device_libraries()
    for name in EXAMPLES:
        folder = ROOT / "examples" / name
        configs, kernels = sorted(folder.glob("*.xml")), folder / "kernels"
        made = make_packages(configs, tmp_path, chosen=["htp"], kernels=kernels if kernels.is_dir() else None)
        for each in made:
            done = build("build", "-C", each.folder, f"htp_{version}")
            assert done.returncode == 0, done.stderr
    code, text = report(tmp_path, skels)
    assert code == 0, text
    assert text.count(f"in libQnnHtp{version.upper()}Skel.so under qemu-hexagon") >= len(EXAMPLES), text
