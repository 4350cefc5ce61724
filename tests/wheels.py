"""Qualcomm's libraries for devices, which the aarch64 wheel carries: 87 MB, fetched once."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.making import LONG
from udogen import resources
from udogen.build import architectures

WHEEL = "onnxruntime-qnn==2.7.0"
SDK = "v2.51.0.260929181845"
PARTS = (
    "libQnnHtp.so",
    "libQnnHtpPrepare.so",
    *(f"libQnnHtp{row.variable}Skel.so" for row in architectures.of_backend("htp").values()),
)


def device_libraries() -> Path:
    """A folder with the parts: the one that UDOGEN_TEST_SKELS names, or the wheel's; skips where there is none."""
    if given := os.environ.get("UDOGEN_TEST_SKELS"):
        return Path(given)
    folder = resources.cache_dir("test-wheels") / WHEEL
    if all((folder / part).is_file() for part in PARTS):
        return folder
    argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    argv += ["--platform", "manylinux_2_34_aarch64", "--python-version", "3.11", "-d", str(folder), WHEEL]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG)
    if done.returncode:
        pytest.skip(f"{WHEEL} for aarch64 cannot be had: {done.stderr[-200:]}")
    for wheel in folder.glob("*.whl"):  # another worker may have fetched it at the same time
        with zipfile.ZipFile(wheel) as archive:
            for part in PARTS:
                made = folder / f".{part}-{os.getpid()}"
                made.write_bytes(archive.read(f"onnxruntime_qnn/{part}"))
                made.replace(folder / part)
        wheel.unlink(missing_ok=True)
    return folder
