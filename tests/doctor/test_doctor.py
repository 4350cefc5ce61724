"""`udogen doctor`: findings, errors and remedies, on fake machines and on this one."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.doctor import fake
from tests.making import ROOT, need_runtime, on_terminal
from udogen.backends import architectures
from udogen.build import sdks, tools
from udogen.doctor.checks import ALL, FOUND, WRONG, examine, exit_code
from udogen.qnn import socs


def states(root: Path, **variables: str) -> dict[str, tuple[str, str]]:
    """Return state and version by the name of the check."""
    found = examine(fake.machine(root, **variables))
    return {row.check.id: (row.outcome.state, row.outcome.version) for row in found}


@pytest.mark.parametrize("name", fake.MACHINES)
def test_report_of_a_machine(name: str, tmp_path: Path) -> None:
    message = fake.text(name, tmp_path)
    assert message == (fake.GOLDEN / f"{name}.txt").read_text("utf-8"), "see `make golden`"
    assert max(map(len, message.splitlines())) <= 80


def test_every_documented_variable_has_a_row() -> None:
    of_one_version = ("HEXAGON_SDK_ROOT_V", "HEXAGON_TOOLS_VERSION_V")
    variables = {name for name in tools.VARIABLES if not name.startswith(of_one_version)}
    assert variables <= {check.id for check in ALL}
    assert len({check.id for check in ALL}) == len(ALL)


@pytest.mark.parametrize(
    ("sdk", "folder", "version"),
    [
        (sdks.QNN, "qairt", "2.25.0.240728104910"),
        (sdks.SNPE, "snpe-2.12.0.230626", "2.12.0.230626"),
        (sdks.HEXAGON, "Hexagon_SDK/6", "6.4.0.2"),
        (sdks.HEXAGON, "Hexagon_SDK/odd", ""),
    ],
)
def test_versions_are_read_from_the_sdks_own_files(sdk: sdks.Sdk, folder: str, version: str, tmp_path: Path) -> None:
    """Further ones are in the golden reports."""
    root = fake.sdks(tmp_path) / folder
    assert (sdk.fault(root), sdk.version(root)) == ("", version)


@pytest.mark.parametrize("place_of_headers", ["qairt/include/SNPE/SnpeUdo", "snpe-2.12.0.230626", "qairt"])
def test_the_udo_headers_of_every_release_are_found(place_of_headers: str, tmp_path: Path) -> None:
    assert sdks.udo_headers(fake.sdks(tmp_path) / place_of_headers) is not None


def test_an_sdk_3_is_none_for_v68(tmp_path: Path) -> None:
    fake.sdks(tmp_path)
    three, five = str(tmp_path / "Hexagon_SDK/3.5.4"), str(tmp_path / "Hexagon_SDK/5.5.5.0")
    assert states(tmp_path, hexagon_sdk4_root=three)["HEXAGON_SDK4_ROOT"] == (WRONG, "")
    assert states(tmp_path, hexagon_sdk4_root=five)["HEXAGON_SDK4_ROOT"] == (FOUND, "5.5.5.0")
    assert states(tmp_path, hexagon_sdk_root=three)["HEXAGON_SDK_ROOT"] == (FOUND, "3.5.4")


# Hexagon tools -> versions of Hexagon, from Qualcomm 80-N3040-23, topic tools-releases.
TOOLS = {
    (8, 1): "v60 v62 v65",
    (8, 2): "v60 v62 v65 v66",
    (8, 3): "v60 v62 v65 v66 v67",
    (8, 4): "v62 v65 v66 v67 v68",
    (8, 5): "v65 v66 v67 v68 v69 v71",
    (8, 6): "v65 v66 v67 v68 v69 v71 v73",
    (8, 7): "v65 v66 v67 v68 v69 v71 v73 v75",
    (8, 8): "v68 v69 v71 v73 v75 v79",
    (19, 0): "v68 v69 v71 v73 v75 v77 v79 v81",
}


def test_the_releases_of_each_version_of_hexagon_know_it() -> None:
    for arch in architectures.ALL.values():
        known = [TOOLS.get(architectures.version(release.tools)[:2], "").split() for release in arch.releases]
        assert all(arch.name in each for each in known if each), arch.name
        assert any(known) or not arch.open, "the documentation of the tools ends with V81"


@pytest.mark.parametrize(
    "lacks",
    [{"programs": {}}, {"runtimes": ("htp",)}, {"builds": ()}],
    ids=["make", "runtime", "compiler"],
)
def test_without_what_is_essential_the_open_path_does_not_work(lacks: dict[str, object], tmp_path: Path) -> None:
    assert exit_code(examine(fake.machine(tmp_path))) == 0
    assert exit_code(examine(fake.machine(tmp_path, **lacks))) == 3  # type: ignore[arg-type]


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert states(tmp_path)["cache"][0] == WRONG


# --- this machine -------------------------------------------------------------------------------------------


def test_this_machine_works(tmp_path: Path) -> None:
    need_runtime("cpu")
    done = udogen("doctor", "--json", env=dict.fromkeys(tools.VARIABLES, ""))
    assert done.returncode == 0, done.stdout + done.stderr
    reply = json.loads(done.stdout)
    rows = {row["id"]: row for row in reply["rows"]}
    assert reply["ok"]
    assert rows["make"]["version"] and Path(rows["make"]["where"]).is_file()
    assert rows["cpu runtime"]["version"].startswith("2.47.")
    assert {row["group"] for row in reply["rows"]} == {check.group for check in ALL}


def test_programs_are_asked_side_by_side(tmp_path: Path) -> None:
    two = threading.Barrier(2, timeout=30)
    machine = fake.machine(tmp_path, programs=dict.fromkeys(("make", "g++"), ""))

    def version(_argv: Sequence[str]) -> str:
        two.wait()
        return "1.2.3"

    assert exit_code(examine(replace(machine, version=version))) == 0


def test_what_does_not_work_here_is_exit_code_3() -> None:
    done = udogen("doctor", env={"X86_CXX": "no-such-compiler"})
    assert done.returncode == 3
    assert "is no-such-compiler: `no-such-compiler` is not a program" in " ".join(done.stdout.split())
    assert "The open path does not work: see build cpu_x86 above." in done.stdout
    assert "\033[" not in done.stdout


def test_colours_are_for_terminals_and_can_be_turned_off() -> None:
    assert "\033[32m+" in on_terminal("doctor")[1]
    assert "\033[" not in on_terminal("doctor", NO_COLOR="1")[1]


def test_the_documented_sdks_and_processors_are_those_of_the_registries() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text("utf-8")
    rows = {row[0]: row[1:] for line in page.splitlines() if (row := [cell.strip() for cell in line.split("|")[1:-1]])}
    for arch in architectures.ALL.values():
        [row] = [cells for versions, cells in rows.items() if arch.name.upper() in versions.split(", ")]
        sdk, tools_of = (", ".join(dict.fromkeys(column)) for column in zip(*arch.releases, strict=True))
        known = " ".join(soc.name for soc in socs.ALL.values() if soc.arch == arch.name)
        assert row == [sdk, tools_of, known], arch.name
