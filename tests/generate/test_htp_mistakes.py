"""Errors of HTP packages, as users see them on the command line: cause, remedy, exit code 5."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import succeeds, udogen
from tests.making import KERNELS, ONE_KERNEL, ONE_OP, ROOT, htp_package, make_packages, make_well

SMALL = np.ones((1, 2, 2, 4), np.float32)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package whose ops do what an op must not do, one with hooks, one for the CPU, and arrays for them."""
    folder = tmp_path_factory.mktemp("mistakes")
    for name in ("Faults", "Hooks"):
        htp_package(ROOT / "tests" / "configs" / f"{name}.xml", folder, KERNELS / name.lower())
    [made] = make_packages([ONE_OP], folder, kernels=ONE_KERNEL)
    make_well(made.folder, "cpu_x86")
    np.save(folder / "small.npy", SMALL)
    np.save(folder / "large.npy", np.ones((1, 256, 256, 64), np.float32))
    return folder


def fails(out: Path, *arguments: object) -> dict[str, str]:
    done = udogen("run", "op", *arguments, "--json", cwd=out)
    assert done.returncode == 5, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    error: dict[str, str] = json.loads(done.stdout)["error"]
    assert error["hint"]
    return error


HTP = ("--backend", "htp")
CPU_LIBRARY = "LeakyReluPackage/libs/x86_64-linux-clang/libLeakyReluPackage.so"
HTP_LIBRARY = "HookPackage/build/x86_64-linux-clang/libQnnHookPackage.so"


@pytest.mark.parametrize(
    ("arguments", "printed", "remedy"),
    [
        (("FaultPackage", "Fails", *HTP, "--input", "x=small.npy"), "three is no number", "see the kernel"),
        (("FaultPackage", "Crashes", *HTP, "--input", "x=small.npy"), "crashed with SIGSEGV", "debugger"),
        (
            ("FaultPackage", "Throws", *HTP, "--input", "x=small.npy"),
            "threw an uncaught C++ exception",
            "catch exceptions",
        ),
        (
            ("FaultPackage", "Hangs", *HTP, "--input", "x=small.npy", "--timeout", "3"),
            "did not return within 3 s in phase `execute`",
            "a loop that never ends",
        ),
        (
            ("HookPackage", "Untiled", *HTP, "--input", "x=large.npy"),
            "does not fit in TCM: its tensors need 16 MiB at once",
            "op.tiles",
        ),
        (
            ("HookPackage", "Refused", *HTP, "--input", "x=small.npy", "--target", "HTP"),
            "cannot be registered for the target `HTP` (4003",
            "leave the target out, or give CPU",
        ),
        (
            (CPU_LIBRARY, "LeakyRelu", *HTP, "--input", "input=small.npy"),
            "is not an op package for HTP: it has neither qhpi_init nor op_pkg_init",
            "select the library's backend with --backend",
        ),
        (
            (HTP_LIBRARY, "Refused", "--backend", "cpu", "--input", "x=small.npy"),
            "needs a function of the HTP backend that this runtime lacks",
            "--backend htp",
        ),
        (
            ("HookPackage", "Refused", *HTP, "--input", "x=small.npy", "--soc", "9999"),
            "takes no such device",
            "choose another --soc",
        ),
    ],
    ids=["fails", "crashes", "throws", "hangs", "too-large", "target", "cpu-to-htp", "htp-to-cpu", "soc"],
)
def test_a_mistake_is_a_sentence(out: Path, arguments: tuple[str, ...], printed: str, remedy: str) -> None:
    error = fails(out, *arguments)
    assert printed in error["message"]
    assert remedy in error["hint"]


@pytest.mark.parametrize("chosen", [("--soc", "SM8750"), ("--soc", "69"), ("--soc", "V79"), ("--arch", "v79")])
def test_htp_prepares_for_a_processor_or_a_version(out: Path, chosen: tuple[str, str]) -> None:
    succeeds("run", "op", "HookPackage", "Chosen", *HTP, "--input", "x=small.npy", *chosen, cwd=out)


def test_a_processor_that_nobody_knows_is_misuse(out: Path) -> None:
    htp = ("HookPackage", "Refused", *HTP, "--input", "x=small.npy", "--soc", "Pentium")
    cpu = ("LeakyReluPackage", "LeakyRelu", "--input", "input=small.npy", "--soc", "SM8550")
    both = (*htp[:-2], "--soc", "SM8550", "--arch", "v73")
    for arguments, text in (
        (htp, "unknown processor"),
        (cpu, "is for --backend htp"),
        (both, "leave one of them out"),
    ):
        done = udogen("run", "op", *arguments, cwd=out)
        assert done.returncode == 2 and text in done.stderr


def test_an_optional_input_that_htp_always_has(tmp_path: Path) -> None:
    """`udogen test` skips such a case, with the reason; `run op` requires the input."""
    optional = "<Input><Name>b</Name><Mandatory>false</Mandatory><Datatype>FLOAT_32</Datatype></Input>"
    text = ONE_OP.read_text("utf-8").replace("<Output>", f"{optional}<Output>", 1)
    (tmp_path / "One.xml").write_text(text.replace("<SupportedBackend>CPU<", "<SupportedBackend>HTP<"), "utf-8")
    built = htp_package(tmp_path / "One.xml", tmp_path, ONE_KERNEL)
    np.save(tmp_path / "x.npy", SMALL)
    found = fails(tmp_path, built.library, "LeakyRelu", *HTP, "--input", "input=x.npy")
    assert found["kind"] == "not-expressible" and "always has the input `b` on this backend" in found["message"]
    assert found["hint"] == "--input b=FILE.npy (given: input)"
