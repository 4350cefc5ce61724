"""`udogen script --device adb|ssh`, run with stand-ins for adb and ssh that execute here (standing.py).

udogen's client runs as a program of aarch64 Linux under qemu-aarch64, with a package built for aarch64, in udogen's CPU
emulator built for aarch64 and named libQnnCpu.so, because there is no public one.  The vendor's programs are stand-ins
that check their options, files and environment (vendor_tool.py).  No real device was used.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.clients.laying import PLAIN, lay
from tests.command_line import udogen
from tests.making import ROOT
from tests.scripts.conftest import Made, X, Y
from tests.scripts.standing import Device, called, environment, interrupt

ON = ["adb", "ssh:user@board"]


def script(out: Path, *arguments: object) -> Path:
    done = udogen("script", *arguments, "-o", out)
    assert done.returncode == 0, done.stderr
    return out


# --- udogen's client, as a program of aarch64 ---------------------------------------------------------------


def test_our_client_runs_on_aarch64(aarch64: Made, emulator64: Path, qemu: str, tmp_path: Path) -> None:
    arguments = ["--client", "cpp", "--on", "ssh:user@board", "--model", aarch64.file("emulator.bin"), *aarch64.inputs]
    out = script(tmp_path / "it's $1", aarch64.folder / "cpu", *arguments)
    device = Device(tmp_path / "device", qemu=qemu)
    for pushed in ("6 files pushed, 0 were already there", "0 files pushed, 6 were already there"):
        done = device.run(out / "run.py", UDOGEN_VENDOR_DIR=str(emulator64))
        assert done.returncode == 0, done.stdout + done.stderr
        assert pushed in done.stderr.splitlines()
        assert "output: right, 24 values, the largest difference is 0\n" in done.stdout
    np.testing.assert_array_equal(np.fromfile(out / "outputs/002/out/output.raw", "<f4"), Y.ravel())
    assert not list(device.root.glob("*/runs/*")), "the folders of the runs are left behind"
    done = device.run(out / "run.py", "--clean")
    assert (done.returncode, list(device.root.iterdir())) == (0, [])


# --- the vendor's programs ----------------------------------------------------------------------------------

PROGRAMS = ("qnn-net-run", "snpe-net-run")


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an SDK in its usual layout: stand-ins for its programs, empty files for its libraries."""
    root = tmp_path_factory.mktemp("sdk") / "an sdk"
    libraries = "libQnnCpu libQnnHtp libQnnHtpPrepare libQnnSystem libQnnHtpNetRunExtensions libSNPE libSnpeHtpPrepare"
    for platform in ("aarch64-android", "aarch64-oe-linux-gcc11.2", "x86_64-linux-clang"):
        for folder in ("bin", "lib"):
            (root / folder / platform).mkdir(parents=True)
        for name in libraries.split():
            (root / "lib" / platform / f"{name}.so").write_bytes(b"a library")
        tool = f"exec {shlex.quote(sys.executable)} {shlex.quote(str(ROOT / 'tests/scripts/vendor_tool.py'))}"
        for name in PROGRAMS:
            path = root / "bin" / platform / name
            path.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} {tool} {name} "$@"\n')
            path.chmod(0o755)
        for each in ("libQnnHtp", "libSnpeHtp"):
            (root / "lib" / platform / f"{each}V73Stub.so").write_bytes(b"a stub")
    skels = root / "lib" / "hexagon-v73" / "unsigned"
    skels.mkdir(parents=True)
    for each in ("libQnnHtp", "libSnpeHtp"):
        (skels / f"{each}V73Skel.so").write_bytes(b"a skel")
    return root


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return the example for every target, with stand-ins for its libraries, in both layouts; x, y and a model."""
    base = tmp_path_factory.mktemp("laid")
    made = Made(base / "it's $HOME")
    lay(PLAIN, made.folder / "qnn")
    lay(PLAIN, made.folder / "udo", layout="snpe", chosen=("cpu", "htp"))
    np.save(made.file("x.npy"), X)
    np.save(made.file("y.npy"), Y)
    made.file("model.so").write_bytes(b"\x7fELF")
    return made


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_program_of_the_vendor_finds_everything(laid: Made, sdk: Path, tmp_path: Path, client: str, on: str) -> None:
    folder = laid.folder / ("udo" if client == "snpe-net-run" else "qnn")
    arguments = ["--client", client, "--on", on, "--target", "v73", "--model", laid.file("model.so")]
    out = script(tmp_path / "out $2", folder, *arguments, *laid.inputs)
    device = Device(tmp_path / "device")
    done = device.run(out / "run.py", **{"SNPE_ROOT" if client == "snpe-net-run" else "QNN_SDK_ROOT": str(sdk)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "output: right, 24 values, the largest difference is 0\n" in done.stdout
    called = json.loads((out / "outputs/001/out/called.json").read_text())
    run, dsp = called["LD_LIBRARY_PATH"].split(":")[0], called["ADSP_LIBRARY_PATH"].split(";")
    assert ":" not in called["ADSP_LIBRARY_PATH"]
    if client == "qnn-net-run":
        assert dsp[0] == run
        assert called["backend"] == {"devices": [{"device_id": 0, "dsp_arch": "v73", "pd_session": "unsigned"}]}
        assert {"libQnnLeakyReluPackage.so", "libQnnLeakyReluPackage_HTP.so"} <= set(called["files"])
    else:
        assert dsp[:2] == [f"{run}/dsp", run]
        assert called["arguments"][-2:] == ["--platform_options", "unsignedPD:ON"]
        assert "dsp/libUdoLeakyReluPackageImplDsp.so" in called["files"]


# --- the version of Hexagon ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def net_run(laid: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    arguments = [*"--client qnn-net-run --on adb --target v73 --model".split(), laid.file("model.so"), *laid.inputs]
    return script(tmp_path_factory.mktemp("net_run") / "out", laid.folder / "qnn", *arguments)


WRONG = "this is for Hexagon v73, and the device has v75", "udogen build htp_v75, and udogen script --target v75"


@pytest.mark.parametrize(
    ("facts", "env", "code", "error", "hint"),
    [
        ({"props": {"ro.soc.model": "SM8650-AB"}}, {}, 5, *WRONG),
        ({"props": {"ro.board.platform": "pineapple"}}, {}, 5, *WRONG),
        ({"props": {"ro.soc.model": "nobody knows"}}, {"UDOGEN_HTP_ARCH": "v75"}, 5, *WRONG),
        (
            {"machine": "armv7l"},
            {},
            5,
            "this is for aarch64, and the device is armv7l",
            "write a script for it: udogen script --on, --target",
        ),
        (
            {},
            {"UDOGEN_REMOTE": "/data/a,b"},
            2,
            "the folder /data/a,b/LeakyReluPackage-qnn-net-run contains `,`, a separator of qnn-net-run or its loaders",
            "set UDOGEN_REMOTE to another folder",
        ),
    ],
)
def test_devices_and_folders_that_do_not_fit(
    net_run: Path, sdk: Path, tmp_path: Path, facts: dict, env: dict, code: int, error: str, hint: str
) -> None:
    done = Device(tmp_path, **facts).run(net_run / "run.py", QNN_SDK_ROOT=str(sdk), **env)
    assert (done.returncode, done.stderr.splitlines()) == (code, [f"error: {error}", f"  = {hint}"])


# --- missing and broken parts -------------------------------------------------------------------------------


def test_one_error_has_everything_missing_and_nothing_is_pushed(net_run: Path, tmp_path: Path) -> None:
    device = Device(tmp_path)
    done = device.run(net_run / "run.py", QNN_SDK_ROOT="/no/sdk")
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "error: the vendor's qnn-net-run libQnnHtp.so libQnnHtpPrepare.so libQnnHtpV73Stub.so libQnnHtpV73Skel.so "
        "libQnnHtpNetRunExtensions.so: neither here nor on the device",
        "  = set QNN_SDK_ROOT to the SDK (it is /no/sdk), or UDOGEN_VENDOR_DIR to a folder that has them",
        "  = or set UDOGEN_DEVICE_DIR to their folder on the device",
    ]
    assert not any(call.startswith("push") for call in device.calls)
    assert not device.root.exists()


def test_what_the_device_has_is_not_pushed(net_run: Path, sdk: Path, tmp_path: Path) -> None:
    device = Device(tmp_path)
    there = tmp_path / "vendor's"
    there.mkdir()
    for folder in ("bin/aarch64-android", "lib/aarch64-android", "lib/hexagon-v73/unsigned"):
        for each in (sdk / folder).iterdir():
            (there / each.name).symlink_to(each)
    done = device.run(net_run / "run.py", UDOGEN_DEVICE_DIR=str(there))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 files pushed, 0 were already there\n" in done.stderr


@pytest.mark.parametrize(
    ("on", "error", "hint"),
    [
        ("adb", "adb does not reach the device: error: device offline", "`adb devices` lists all devices and their"),
        ("adb:DEF", "adb does not reach the device: error: device 'DEF' not found", "`adb devices` lists all devices"),
        (
            "ssh:nobody",
            "ssh does not reach the device: ssh: Could not resolve hostname nobody: Name or service not known",
            "it must work without a password, as with `ssh -o BatchMode=yes`",
        ),
    ],
)
def test_a_device_that_is_not_reached(laid: Made, tmp_path: Path, on: str, error: str, hint: str) -> None:
    arguments = ["--client", "qnn-net-run", "--on", on, "--target", "v73", "--model", laid.file("model.so")]
    out = script(tmp_path / "out", laid.folder / "qnn", *arguments)
    device = Device(tmp_path / "device")
    device.say("state", "error: device offline\n")
    done = device.run(out / "run.py")
    first, second = done.stderr.splitlines()
    assert (done.returncode, first) == (5, f"error: {error}") and second.startswith(f"  = {hint}")


def test_a_device_without_free_space(net_run: Path, sdk: Path, tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.say("full")
    done = device.run(net_run / "run.py", QNN_SDK_ROOT=str(sdk))
    assert done.returncode == 5
    assert "was not pushed: adb: error: failed to copy: No space left on device" in done.stderr.splitlines()[-2]
    assert done.stderr.splitlines()[-1] == "  = is the device full? run.py --clean removes what was pushed"
    assert not list(device.root.glob("*/runs/*"))


def test_a_client_that_fails_behind_an_old_adb_without_exit_codes(net_run: Path, sdk: Path, tmp_path: Path) -> None:
    (tmp_path / "qnn-net-run").write_text("#!/bin/sh\necho oh no\nexit 7\n")
    device = Device(tmp_path)
    device.say("old")
    done = device.run(net_run / "run.py", QNN_SDK_ROOT=str(sdk), UDOGEN_VENDOR_DIR=str(tmp_path))
    assert done.returncode == 5
    assert "error: qnn-net-run ended with 7\n" in done.stderr


def test_runs_on_one_device_at_once_do_not_meet(net_run: Path, sdk: Path, tmp_path: Path) -> None:
    device = Device(tmp_path / "device")
    env = {"UDOGEN_REMOTE": str(device.root), "QNN_SDK_ROOT": str(sdk)}
    runs = [
        subprocess.Popen(
            called(net_run / "run.py", "--out", tmp_path / str(number)),
            env=environment(device.base / "bin", **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(3)
    ]  # fmt: skip
    for run in runs:
        out, message = run.communicate(timeout=120)
        assert run.returncode == 0, out + message
        assert "output: right, 24 values" in out


# --- interrupted --------------------------------------------------------------------------------------------


def test_an_interrupt_stops_the_client_on_the_device(net_run: Path, sdk: Path, tmp_path: Path) -> None:
    device = Device(tmp_path / "device")
    sleeping = f"#!/bin/sh\necho $$ >{shlex.quote(str(tmp_path / 'pid'))}\nexec sleep 100\n"
    (tmp_path / "qnn-net-run").write_text(sleeping)
    env = {"UDOGEN_REMOTE": str(device.root), "QNN_SDK_ROOT": str(sdk), "UDOGEN_VENDOR_DIR": str(tmp_path)}
    interrupt(net_run / "run.py", "--out", tmp_path / "out", client=tmp_path / "pid", path=device.base / "bin", **env)
    assert not list(device.root.glob("*/runs/*"))
