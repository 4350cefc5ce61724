"""`udogen test --on`: devices as places.

A real ssh server on the loopback acts as a PC, on which the real libQnnCpu runs; a stand-in for adb (standing.py) acts
as a device with aarch64 Linux, whose programs run under qemu-aarch64, in udogen's CPU emulator.  No real device was
used.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from tests import making
from tests.command_line import udogen
from tests.making import LONG, ROOT, need_runtime
from tests.scripts.standing import Device, command_lines
from tests.ssh_server import SshServer, ssh_server

EXAMPLE = ROOT / "examples" / "leaky_relu"
_TESTS = """
config = "LeakyRelu.xml"
kernels = "kernels"
[[op]]
name = "LeakyRelu"
reference = "reference.py:leaky_relu"
[[op.case]]
name = "floats"
shape = ["7", "2x3"]
dtype = "FLOAT_32"
[[op.case]]
name = "bytes"
shape = "2x8"
dtype = "UFIXED_POINT_8"
"""


def project(folder: Path, **changes: str) -> Path:
    """Write the example with few cases, and with replaced texts in its kernel."""
    (folder / "kernels").mkdir(parents=True)
    kernel = (EXAMPLE / "kernels" / "LeakyRelu.cpp").read_text()
    for old, new in changes.items():
        assert old in kernel
        kernel = kernel.replace(old, new)
    (folder / "kernels" / "LeakyRelu.cpp").write_text(kernel)
    for name in ("LeakyRelu.xml", "reference.py"):
        (folder / name).write_bytes((EXAMPLE / name).read_bytes())
    (folder / "op_tests.toml").write_text(_TESTS)
    return folder


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SshServer, SshServer]]:
    """Yield two machines."""
    with (
        ssh_server(tmp_path_factory.mktemp("one")) as one,
        ssh_server(tmp_path_factory.mktemp("two")) as two,
    ):
        yield one, two


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with a correct kernel."""
    return project(tmp_path_factory.mktemp("right") / "it's $HOME")


def waits(condition: str) -> dict[str, str]:
    """Return a change of the kernel: if the condition is true, it never returns, and takes no CPU time."""
    return {
        '#include "ops': '#include <unistd.h>\n#include "ops',
        "const std::size_t size": f"while ({condition}) pause();\n  const std::size_t size",
    }


def env_of_adb(device: Device) -> dict[str, str]:
    return {"PATH": f"{device.base / 'bin'}:{os.environ['PATH']}", "UDOGEN_REMOTE": str(device.root)}


def env_of(server: SshServer, remote: Path) -> dict[str, str]:
    return {"PATH": server.path, "UDOGEN_REMOTE": str(remote)}


def cases_by_place(answer: dict) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in answer["cases"]:
        found.setdefault(row["backend"], []).append(row["status"])
    return found


def test_two_machines_run_the_cases_in_the_real_runtime(
    servers: tuple[SshServer, SshServer], right: Path, tmp_path: Path
) -> None:
    need_runtime("cpu")
    one, two = servers
    remote = tmp_path / "it's there"
    # Both accept the keys of the first.
    (two.folder / "client.pub").write_bytes((one.folder / "client.pub").read_bytes())
    where = ["--on", one.device, "--on", two.device, "--on", "here", "--backend", "cpu"]
    reports = ["--junit", tmp_path / "junit.xml", "--html", tmp_path / "report.html", "--json"]
    done = udogen("test", right, *where, *reports, env=env_of(one, remote))
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    places = ["cpu", f"cpu@{one.device}", f"cpu@{two.device}"]
    assert cases_by_place(answer) == {place: ["passed"] * 3 for place in places}
    assert {row["backend"]: row["real"] for row in answer["backends"] if row["state"] == "ran"} == dict.fromkeys(
        places, True
    )
    suites = etree.parse(tmp_path / "junit.xml").findall("testsuite")
    assert [suite.get("name") for suite in suites] == places
    page = (tmp_path / "report.html").read_text()
    assert all(f"CPU on {server.device}" in page for server in servers)
    assert list(remote.iterdir()) == [], "something is left on the device"


def test_the_cause_of_wrong_numbers_is_named_and_a_crash_is_one_case(
    servers: tuple[SshServer, SshServer], tmp_path: Path
) -> None:
    need_runtime("cpu")
    crash = "if (args.input.size() == 7) __builtin_trap();\n  const std::size_t size"
    wrong = project(
        tmp_path / "wrong",
        **{"const std::size_t size": crash, "i < size; ++i) out[i] = T": "i + 1 < size; ++i) out[i] = T"},
    )
    one, _ = servers
    where = ["--on", one.device, "--on", "here", "--backend", "cpu"]
    done = udogen("test", wrong, *where, "--json", env=env_of(one, tmp_path / "remote"))
    assert done.returncode == 6, done.stdout + done.stderr
    rows: dict[str, dict] = {}
    for row in json.loads(done.stdout)["cases"]:
        rows.setdefault(row["case"], {})[row["backend"]] = row
    device = f"cpu@{one.device}"
    crashed = next(found[device] for found in rows.values() if found[device]["status"] == "error")
    assert crashed["error"]["kind"] == "op-crashed"
    assert crashed["error"]["message"].startswith("op `LeakyRelu` crashed with SIGILL on ssh:")
    for found in rows.values():
        assert found[device]["status"] == found["cpu"]["status"]
        assert found[device]["findings"] == found["cpu"]["findings"]
    assert any(found[device]["findings"] for found in rows.values())


def test_a_case_that_takes_too_long(servers: tuple[SshServer, SshServer], tmp_path: Path) -> None:
    need_runtime("cpu")
    slow = project(tmp_path / "slow", **waits("args.input.size() == 7"))
    one, _ = servers
    where = ["--on", one.device, "--backend", "cpu", "--timeout", "3"]
    done = udogen("test", slow, *where, env=env_of(one, tmp_path / "remote"))
    assert done.returncode == 5, done.stdout + done.stderr
    assert f"op `LeakyRelu` did not return within 3 s on {one.device}" in done.stdout
    assert "2 passed, 1 error" in done.stdout
    assert list((tmp_path / "remote").iterdir()) == []


def test_an_interrupt_cleans_up(servers: tuple[SshServer, SshServer], tmp_path: Path) -> None:
    need_runtime("cpu")
    one, _ = servers
    slow = project(tmp_path / "slow", **waits("true"))
    remote = tmp_path / "remote"
    argv = [sys.executable, "-m", "udogen", "test", str(slow), "--backend", "cpu", "--timeout", "100"]
    running = subprocess.Popen(
        [*argv, "--on", one.device], env={**os.environ, "PYTHONPATH": str(ROOT), **env_of(one, remote)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + LONG
        while not list(remote.glob("*/runs/*/out/00000/log")):
            assert running.poll() is None and time.monotonic() < end
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        printed, _ = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130, printed
    assert list(remote.iterdir()) == []
    assert not [path for path in command_lines() if str(remote) in path]


@pytest.mark.parametrize("case", ["LeakyRelu", "LeakyRelu/16x16", "*"], ids=["cpp", "python", "all"])
def test_a_device_with_aarch64(right: Path, emulator64: Path, qemu: str, tmp_path: Path, case: str) -> None:
    """Kernels in C++, and those of the examples in Python."""
    if case != "LeakyRelu":
        pytest.importorskip("halide", reason="pip install 'udogen[kernels]'")
        right = ROOT / "examples" / "python_kernels"
    device = Device(tmp_path / "device", qemu=qemu)
    env = {**env_of_adb(device), "UDOGEN_VENDOR_DIR": str(emulator64)}
    done = udogen("test", right, "--on", "adb:ABC 1", "--backend", "cpu-emulator", "--case", case, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed in" in done.stdout
    assert "udogen's own emulator" in done.stdout
    assert list(device.root.iterdir()) == []


# --- missing features of a device ---------------------------------------------------------------------------


def test_a_device_that_adb_does_not_reach(right: Path, tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.say("state", "error: device offline\n")
    done = on_device(right, device)
    assert (done.returncode, nothing_sent(device)) == (3, True)
    assert "cpu@adb:ABC 1: not run (3 cases): adb does not reach the device: error: device offline\n" in done.stdout


@pytest.mark.parametrize(
    ("machine", "programs", "reason"),
    [
        ("armv7l", {}, "adb:ABC 1 is armv7l"),
        ("aarch64", {}, "the vendor's libQnnCpu.so: neither here nor on the device"),
    ],
)
def test_what_a_device_lacks_is_reported_before_anything_is_sent(
    right: Path, tmp_path: Path, machine: str, programs: dict[str, str], reason: str
) -> None:
    device = Device(tmp_path, machine=machine)
    for name, text in programs.items():
        device.own(name, f"#!/bin/sh\n{text}\n")
    done = on_device(right, device)
    assert nothing_sent(device)
    assert done.returncode == 3, done.stdout
    assert reason in done.stdout


def on_device(folder: Path, device: Device) -> subprocess.CompletedProcess[str]:
    return making.udogen("test", folder, "--on", "adb:ABC 1", "--backend", "cpu", env=env_of_adb(device))


def nothing_sent(device: Device) -> bool:
    return not any(" push " in call for call in device.calls) and not device.root.exists()


def test_a_port_without_a_server(servers: tuple[SshServer, SshServer], right: Path) -> None:
    one, _ = servers
    done = udogen("test", right, "--on", f"ssh:{one.host}:1", "--backend", "cpu", env={"PATH": one.path})
    assert done.returncode == 3 and "Connection refused" in done.stdout + done.stderr


NO_DEVICES = ["ssh:", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:a;rm", "ssh:u@$(rm)", "ssh:u:22222222"]


@pytest.mark.parametrize("device", [*NO_DEVICES, "adb:", "adb:-x", "usb:1", "x"])
def test_what_is_no_device(right: Path, device: str) -> None:
    done = udogen("test", right, "--on", device)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, f"error: --on {device}: this is not a device")


def test_a_place_that_does_not_run_on_devices(right: Path) -> None:
    done = udogen("test", right, "--on", "adb:1", "--backend", "hexagon")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: `hexagon` does not run on devices")
