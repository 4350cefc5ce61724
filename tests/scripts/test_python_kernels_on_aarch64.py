"""Kernels in Python on aarch64 Linux, under qemu-aarch64 in udogen's CPU emulator, through a stand-in for adb."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.making import ROOT
from tests.scripts.standing import Device

pytest.importorskip("halide", reason="pip install 'udogen[kernels]'")


@pytest.mark.parametrize("case", ["LeakyRelu/16x16", "*"], ids=["one", "all"])
def test_examples(case: str, emulator64: Path, qemu: str, tmp_path: Path) -> None:
    device = Device(tmp_path / "device", qemu=qemu)
    env = {
        "PATH": f"{device.base / 'bin'}:{os.environ['PATH']}",
        "UDOGEN_REMOTE": str(device.root),
        "UDOGEN_VENDOR_DIR": str(emulator64),
    }
    example = ROOT / "examples" / "python_kernels"
    done = udogen("test", example, "--on", "adb:ABC 1", "--backend", "cpu-emulator", "--case", case, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed in" in done.stdout, done.stdout
