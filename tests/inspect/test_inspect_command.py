"""`udogen inspect` as users call it: packages, folders, exit codes, streams, and the structure of its JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from toys import Make

from tests.command_line import udogen
from tests.making import ONE_KERNEL, ROOT, make_packages

LEAKY = ROOT / "examples" / "leaky_relu"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, htp: Path, cpu: Path) -> Path:
    """The CPU and the HTP package of leaky_relu, built for this machine."""
    folder = tmp_path_factory.mktemp("out")
    make_packages([LEAKY / "LeakyRelu.xml"], folder, chosen=["cpu", "htp"], kernels=ONE_KERNEL)
    done = udogen("build", "-C", folder)
    assert done.returncode == 0, done.stderr
    return folder


def reply(*arguments: object, code: int = 0, **env: str) -> dict[str, Any]:
    done = udogen("inspect", *arguments, "--json", env={"QNN_SDK_ROOT": "", **env})
    assert done.returncode == code, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is (code == 0)
    return dict(found)


def test_a_folder_of_packages(out: Path) -> None:
    libraries = reply(out)["libraries"]
    assert [library["target"] for library in libraries] == ["cpu_x86", "htp_x86"]
    for library in libraries:
        assert (library["verdict"], library["findings"]) == ("will register", [])
        assert library["registered"]["package"] == "LeakyReluPackage"
        assert library["registered"]["ops"] == ["LeakyRelu"]


def test_the_keys_of_the_result_are_documented(out: Path) -> None:
    [library] = reply(out / "LeakyReluPackageHtp")["libraries"]
    document = (ROOT / "docs" / "inspect.md").read_text("utf-8")

    def keys(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {key for item in value.values() for key in keys(item)}
        return {key for item in value for key in keys(item)} if isinstance(value, list) else set()

    assert [key for key in sorted(keys(library)) if f"`{key}`" not in document] == []


def test_what_a_person_reads(out: Path) -> None:
    for width in (80, 120):
        done = udogen("inspect", out, env={"COLUMNS": str(width), "QNN_SDK_ROOT": ""})
        assert done.returncode == 0
        lines = done.stdout.splitlines()
        wrapped = [line for line in lines if line.startswith(" ")]
        assert max(map(len, wrapped)) <= width
        assert sum(line.endswith(": will register") for line in lines) == 2


def test_the_library_of_a_package_is_recognised(out: Path) -> None:
    library = next(out.glob("*Htp/build/*/*.so"))
    [found] = reply(library)["libraries"]
    assert found["target"] == "htp_x86"
    beside = Path(shutil.copy(library, library.with_name("libBeside.so")))
    assert reply(beside)["unbuilt"] == []
    beside.unlink()
    copied = Path(shutil.copy(library, out.parent / "libElsewhere.so"))
    [found] = reply(copied, "--no-register", code=3)["libraries"]
    assert (found["target"], found["verdict"], found["registered"]) == (None, "cannot be judged", None)


def test_sources_that_changed(out: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(out / "LeakyReluPackageCpu", tmp_path / "Renamed"))
    kernel = moved / "src" / "ops" / "LeakyRelu.cpp"
    kernel.write_text(kernel.read_text() + "// more\n")
    [library] = reply(moved)["libraries"]
    assert library["verdict"] == "will register, but"
    [note] = library["findings"]
    assert note["severity"] == "warning"
    assert note["message"].startswith("libLeakyReluPackage.so was built from another src/ops/LeakyRelu.cpp; run")


def test_a_package_that_is_not_built_beside_one_that_is(out: Path, tmp_path: Path) -> None:
    both = Path(shutil.copytree(out, tmp_path / "both"))
    shutil.rmtree(both / "LeakyReluPackageHtp" / "build")
    folder = str(both / "LeakyReluPackageHtp")
    found = reply(both)
    assert (len(found["libraries"]), found["unbuilt"]) == (1, [folder])
    assert f"{folder}: none of its libraries is built" in udogen("inspect", both).stdout


def test_a_library_of_another_package_in_its_place(out: Path, tmp_path: Path, make: Make) -> None:
    package = Path(shutil.copytree(out / "LeakyReluPackageHtp", tmp_path / "LeakyReluPackageHtp"))
    shutil.copy(make("-DQHPI"), next(package.glob("build/*/*.so")))
    [found] = reply(package, code=5)["libraries"]
    assert (
        "it exports ToyInterfaceProvider; package LeakyReluPackage is registered with"
        in (found["findings"][0]["message"])
    )


def test_libraries_that_are_not_of_us(tmp_path: Path, make: Make, make_for: Make, htp: Path) -> None:
    (tmp_path / "deep").mkdir()
    shutil.copy(make("-DQHPI"), tmp_path / "deep" / "libToy.so")
    shutil.copy(make("-DNO_PROVIDER"), tmp_path / "libHelper.so")
    found = reply(tmp_path)
    assert [(Path(row["path"]).name, row["verdict"]) for row in found["libraries"]] == [
        ("libHelper.so", "will not register"),  # it is not an op package, and is ignored next to one
        ("libToy.so", "will register"),
    ]
    done = udogen("inspect", tmp_path)
    assert f"{tmp_path / 'libHelper.so'}: not an op package\n" in done.stdout
    assert done.returncode == 0 and "error" not in done.stderr
    shutil.copy(make_for("hexagon v73", "-DQHPI"), tmp_path / "libQnnToy.so")
    reply(tmp_path, code=3)
    (tmp_path / "libCut.so").write_bytes((tmp_path / "libQnnToy.so").read_bytes()[:300])
    reply(tmp_path, code=5)


def test_runtimes_for_a_folder_are_taken_by_machine(tmp_path: Path, make: Make, make_for: Make, htp: Path) -> None:
    shutil.copy(make("-DQHPI"), tmp_path / "libToy.so")
    shutil.copy(make_for("hexagon v73", "-DQHPI"), tmp_path / "libQnnToy.so")
    skel = make_for("hexagon v73", "-DSKEL", "-DNO_PROVIDER", name="libQnnHtpV73Skel.so")
    found = reply(tmp_path, "--against", skel)
    assert [row["against"]["origin"] for row in found["libraries"]] == ["given", "onnxruntime_qnn"]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "it has no libQnnHtpV73Skel.so" in reply(tmp_path, "--against", empty, code=2)["error"]["message"]


def test_mistakes(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("text")
    for arguments, code in (
        ([], 2),
        ([tmp_path / "none"], 2),
        (["--nonsense", "x.so"], 2),
        ([tmp_path / "text.so"], 5),
        ([ROOT / "docs"], 2),
    ):
        done = udogen("inspect", *arguments)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr and "internal" not in done.stderr
        assert (done.stdout == "") is (code == 2)
