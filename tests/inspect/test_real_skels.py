"""Compared with the real runtimes of devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from toys import Look, Make, shown

from tests.wheels import PARTS, SDK, device_libraries
from udogen.backends import architectures

VERSIONS = tuple(row.name for row in architectures.of_backend("htp").values() if row.open)  # zig compiles for them


@pytest.fixture(scope="module")
def device() -> Path:
    return device_libraries()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_package_for_each_hexagon(version: str, make_for: Make, look: Look, device: Path) -> None:
    found = look(make_for(f"hexagon {version}", "-DQHPI"), device)
    assert (found.verdict, shown(found)) == ("should register", "")
    assert found.evidence is not None
    assert found.evidence.runtime.main.path.name == f"libQnnHtp{version.upper()}Skel.so"
    assert found.evidence.runtime.sdk == SDK


def test_what_a_skel_does_not_have(make_for: Make, look: Look, device: Path) -> None:
    message = shown(look(make_for("hexagon v73", "-DQHPI", "-DNEEDS_MALLOC", "-DUNKNOWN_FUNCTION"), device))
    assert "2 undefined symbols found neither in libQnnHtpV73Skel.so" in message
    message = shown(look(make_for("hexagon v73", "-DQHPI", "-DNEEDS_MALLOC"), device))
    assert "malloc = the device has __wrap_malloc: link with -Wl,--wrap=malloc" in message
    message = shown(look(make_for("hexagon v75", "-DQHPI"), device / "libQnnHtpV69Skel.so"))
    assert "built for Hexagon v75, libQnnHtpV69Skel.so is for v69, which is older" in message


def test_a_package_for_the_arm_side(make_for: Make, look: Look, device: Path) -> None:
    package = make_for("aarch64", "-DQHPI")
    for against in (device, device / "libQnnHtp.so"):  # QHPI is in libQnnHtpPrepare.so next to it
        found = look(package, against)
        assert (found.verdict, shown(found)) == ("should register", "")
    message = shown(look(package, device / "libQnnHtpV73Skel.so"))
    assert "it is built for aarch64, libQnnHtpV73Skel.so for hexagon v73" in message


def test_the_libraries_of_the_wheel_themselves(look: Look, device: Path) -> None:
    for part in PARTS:
        words = "the Hexagon half of a QNN runtime (skel)" if "Skel" in part else "a QNN runtime library"
        assert f"it is {words}" in shown(look(device / part))
