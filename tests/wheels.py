"""Files from wheels that udogen itself does not need: Qualcomm's libraries for devices, ExecuTorch's own Python.

Each wheel is downloaded once, and kept in the cache: 87 MB and 19 MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.making import LONG
from udogen import resources
from udogen.backends import architectures

WHEEL = "onnxruntime-qnn==2.7.0"
SDK = "v2.51.0.260929181845"
PARTS = (
    "libQnnHtp.so",
    "libQnnHtpPrepare.so",
    *(f"libQnnHtp{row.variable}Skel.so" for row in architectures.of_backend("htp").values() if row.open),
)


# The parts of ExecuTorch that do not need torch: how its Qualcomm backend reads configs, and its options.
EXECUTORCH = "executorch==1.5.1"
_EXECUTORCH_PARTS = [
    f"executorch/backends/{part}"
    for part in (
        "__init__.py",
        "qualcomm/__init__.py",
        "qualcomm/custom_op/interface.py",
        "qualcomm/serialization/qc_schema.py",
    )
]


def executorch() -> Path:
    """Return a folder for PYTHONPATH."""
    return parts_of(EXECUTORCH, "manylinux_2_28_x86_64", {part: part for part in _EXECUTORCH_PARTS})


def device_libraries() -> Path:
    """Return a folder with the parts: that of UDOGEN_TEST_SKELS, or the wheel's; skip the test if there is none."""
    if given := os.environ.get("UDOGEN_TEST_SKELS"):
        return Path(given)
    return parts_of(WHEEL, "manylinux_2_34_aarch64", {f"onnxruntime_qnn/{part}": part for part in PARTS})


def install(wheel: str, folder: Path) -> Path:
    """Install a wheel for this machine into a folder; the test is skipped if it is not available."""
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), wheel]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, check=False)
    if done.returncode:
        pytest.skip(f"{wheel} is not available here: {done.stderr.strip().splitlines()[-1:]}")
    return folder


def parts_of(wheel: str, platform: str, parts: Mapping[str, str]) -> Path:
    """Return a folder with renamed members of a wheel; it is downloaded once, and the test is skipped if that fails."""
    folder = resources.cache_dir("test-wheels") / wheel
    if all((folder / name).is_file() for name in parts.values()):
        return folder
    argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    argv += ["--platform", platform, "--python-version", "3.11", "-d", str(folder), wheel]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG)
    if done.returncode:
        pytest.skip(f"{wheel} for {platform} is not available: {done.stderr[-200:]}")
    for file in folder.glob("*.whl"):  # another worker may have downloaded it at the same time
        with zipfile.ZipFile(file) as archive:
            for member, name in parts.items():
                _put(folder / name, archive.read(member))
        file.unlink(missing_ok=True)
    return folder


def _put(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    made = file.with_name(f".{file.name}-{os.getpid()}")
    made.write_bytes(data)
    made.replace(file)
