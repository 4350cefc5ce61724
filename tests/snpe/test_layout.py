"""The tree of a UDO package, for every set of cores, languages and architectures; the effect of regenerating."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command_line import udogen
from tests.making import CONFIGS, make_packages
from tests.snpe.packages import SOFTMAX, by_name, config, op, package, shown, softmax
from udogen.build.package import open_packages

DOCUMENTED = Path(__file__).with_name("documented.txt")


def printed(text: str) -> set[str]:
    """Return the files of a tree that is printed in the documentation."""
    found, above = set(), list[str]()
    for line in text.splitlines():
        branch, _, name = line.rpartition("-- ")
        depth = (len(branch) - 1) // 4
        above[depth:] = [name]
        found.add("/".join(above))
    return {path for path in found if not any(other.startswith(f"{path}/") for other in found)}


def test_the_package_of_the_documentation_file_for_file(tmp_path: Path) -> None:
    """The tree of the generator; a GPU kernel that is given as a .cl file is added."""
    files = printed(DOCUMENTED.read_text())
    assert len(files) == 33
    assert "jni/src/CPU/src/utils/CPU/CpuBackendUtils.cpp" in files and "common.mk" in files
    [made] = make_packages([SOFTMAX], tmp_path / "plain")
    assert shown(made.folder) == files
    assert shown(softmax(tmp_path / "with kernels")) == files | {"jni/src/GPU/src/ops/Softmax.cl"}


def test_each_core_has_its_folder(tmp_path: Path) -> None:
    path = config(
        tmp_path,
        package("Cpu", op("A", "CPU"), op("B", "CPU")),
        package("Gpu", op("A", "GPU")),
        package("Old", op("A", "DSP", archs=["v65", "v66"])),
        package("New", op("A", "DSP", archs=["v73"])),
        package("All", op("A", "CPU", "GPU", "DSP", archs=["v66", "v68", "v69", "v73"])),
    )
    folders = by_name(make_packages([path], tmp_path / "out"))
    rooms = {name: {each.name for each in (folder / "jni/src").iterdir()} for name, folder in folders.items()}
    assert rooms == {
        "Cpu": {"CPU", "reg", "utils"},
        "Gpu": {"GPU", "reg", "utils"},
        "Old": {"DSP_V65", "reg", "utils"},
        "New": {"DSP_V68", "reg", "utils"},
        "All": {"CPU", "GPU", "DSP_V65", "DSP_V68", "reg", "utils"},
    }
    assert {each.name for each in (folders["Cpu"] / "jni/src/CPU/src/ops").iterdir()} == {"A.cpp", "B.cpp"}


def test_the_targets_are_those_of_the_architectures(tmp_path: Path) -> None:
    path = config(
        tmp_path,
        package("Some", op("A", "DSP", archs=["v66", "v73"]), op("B", "DSP", archs=["v69"])),
        package("Any", op("A", "DSP", archs=["v68"])),
    )
    folders = by_name(make_packages([path], tmp_path / "out"))
    targets = {part.backend: part.targets for part in open_packages(folders["Some"])}
    assert targets["htp"] == ("dsp_x86", "dsp_aarch64", "dsp_v69", "dsp_v73")
    assert targets["dsp"] == ("dsp_v66",)
    assert [part.targets[2:] for part in open_packages(folders["Any"]) if part.backend == "htp"] == [("dsp_v68",)]


def test_old_architectures_share_a_folder_and_the_oldest_is_built(tmp_path: Path) -> None:
    path = config(tmp_path, package("Old", op("A", "DSP", archs=["v66", "v65"])))
    folders = by_name(make_packages([path], tmp_path / "out"))
    [dsp] = [part for part in open_packages(folders["Old"]) if part.backend == "dsp"]
    assert dsp.targets == ("dsp_v65",)
    assert dsp.artifacts(dsp.rows[0]) == [folders["Old"] / "libs/dsp_v60/libUdoOldImplDsp.so"]


def test_json_becomes_a_udo_package_and_xml_only_on_demand(tmp_path: Path) -> None:
    [json_, xml] = [SOFTMAX, CONFIGS / "both.xml"]
    usual = [made.plan.layout for made in make_packages([json_, xml], tmp_path / "usual")]
    assert usual == ["snpe", "qnn", "qnn"]
    assert {made.plan.layout for made in make_packages([json_], tmp_path / "qnn", layout="qnn")} == {"qnn"}
    [made] = make_packages([xml], tmp_path / "snpe", layout="snpe")
    assert made.folder.name == "BothPackage" and (made.folder / "jni/src/reg/BothPackageRegLib.cpp").is_file()


def test_where_the_package_goes(tmp_path: Path) -> None:
    there = tmp_path / "there"
    path = config(
        tmp_path, package("Named", op("A", "CPU"), UDO_PACKAGE_PATH=str(there)), package("Free", op("A", "CPU"))
    )
    here = tmp_path / "here"
    here.mkdir()
    assert udogen("generate", path, cwd=here).returncode == 0
    assert (there / "Named/Makefile").is_file() and (here / "Free/Makefile").is_file()
    assert udogen("generate", path, "-o", tmp_path / "reported", cwd=here).returncode == 0
    assert (tmp_path / "reported/Named/Makefile").is_file() and (tmp_path / "reported/Free/Makefile").is_file()


def test_a_config_that_leads_outside_the_current_folder_is_announced(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "link").symlink_to(tmp_path)
    leads = "is outside the current folder"
    for path, outside in (("..", 1), (str(tmp_path / "there"), 1), ("link/x", 1), ("in/../x", 0), ("", 0)):
        file = config(tmp_path, package("Named", op("A", "CPU"), UDO_PACKAGE_PATH=path))
        done = udogen("generate", file, "--dry-run", cwd=here)
        assert (done.returncode, leads in done.stderr) == (0, bool(outside)), (path, done.stderr)
    file = config(tmp_path, package("Named", op("A", "CPU"), UDO_PACKAGE_PATH="../there"))
    assert udogen("generate", file, "--strict", cwd=here).returncode == 2
    assert not (tmp_path / "there").exists()
    output = json.loads(udogen("generate", file, "--json", cwd=here).stdout)
    [warning] = [tensor for tensor in output["warnings"] if leads in tensor["message"]]
    assert str(tmp_path / "there") in warning["message"] and "-o" in warning["hint"]
    assert leads not in udogen("generate", file, "-o", tmp_path / "reported", cwd=here).stderr
    for path in ("a\0b", "x" * 5000, "\ud800"):
        file = config(tmp_path, package("Named", op("A", "CPU"), UDO_PACKAGE_PATH=path))
        done = udogen("generate", file, cwd=here)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr


def test_regenerating_keeps_kernels_and_takes_a_core_that_comes_to_it(tmp_path: Path) -> None:
    path = config(tmp_path, package("Grows", op("A", "CPU")))
    [before] = make_packages([path], tmp_path / "out")
    kernel = before.folder / "jni/src/CPU/src/ops/A.cpp"
    kernel.write_text(kernel.read_text() + "// mine\n")
    config(tmp_path, package("Grows", op("A", "CPU", "DSP", archs=["v68"]), op("B", "CPU")))
    [after] = make_packages([path], tmp_path / "out")
    assert after.folder == before.folder
    assert kernel.read_text().endswith("// mine\n")
    assert (after.folder / "jni/src/DSP_V68/src/ops/A.cpp").is_file()
    [again] = make_packages([path], tmp_path / "out")
    assert {change.action for change in again.changes} <= {"unchanged", "kept"}
    config(tmp_path, package("Grows", op("A", "DSP", archs=["v73"])))
    [last] = make_packages([path], tmp_path / "out")
    assert kernel.read_text().endswith("// mine\n"), "a kernel of a core that is gone stays"
    assert [change.path for change in last.changes if change.action == "orphaned"] == ["jni/src/CPU/src/ops/A.cpp"]


def test_a_folder_is_of_one_layout(tmp_path: Path) -> None:
    path = config(tmp_path, package("One", op("A", "CPU")))
    make_packages([path], tmp_path / "out")
    done = udogen("generate", path, "-o", tmp_path / "out", "--layout", "qnn")
    assert done.returncode == 2
    assert "contains the udo package One, not the cpu package One" in done.stderr


def test_a_path_of_the_config_is_the_default_of_the_variable(tmp_path: Path) -> None:
    """One that make would read otherwise is left out."""
    [made] = make_packages([config(tmp_path, package("One", op("A", "CPU"), SNPE_UDO_ROOT="/opt/snpe 2/x"))], tmp_path)
    assert "\nSNPE_UDO_ROOT := /opt/snpe 2/x\n" in (made.folder / "jni/src/reg/Makefile").read_text()
    for number, path in enumerate(("/opt/$(touch gone)", "/opt/`touch gone`", '/opt/"x', "/opt/a\nall: x")):
        written, out = config(tmp_path, package("One", op("A", "CPU"), SNPE_UDO_ROOT=path)), tmp_path / str(number)
        done = udogen("generate", written, "-o", out)
        assert done.returncode == 0, done.stderr
        assert "SNPE_UDO_ROOT" in done.stderr and "is left out of the Makefile" in done.stderr
        assert "\nSNPE_UDO_ROOT :=" not in (out / "One/jni/src/reg/Makefile").read_text()


def test_the_answer_of_generate_names_every_library(tmp_path: Path) -> None:
    [made] = json.loads(udogen("generate", SOFTMAX, "-o", tmp_path, "--json").stdout)["packages"]
    assert {part["backend"]: part["library"].removeprefix("libUdoSoftmaxUdoPackage") for part in made["parts"]} == {
        "cpu": "ImplCpu.so", "gpu": "ImplGpu.so", "htp": "ImplDsp.so", "reg": "Reg.so"
    }  # fmt: skip


def test_the_tags_that_the_page_promises(tmp_path: Path) -> None:
    """The head of every generated file has "Auto-generated"; "add code here" marks the places for user code."""
    [op_] = json.loads(SOFTMAX.read_text())["UdoPackage_0"]["Operators"]
    assert op_["core_types"] == ["CPU", "GPU", "DSP"] and op_["dsp_arch_types"] == ["v68"], "the config of the page"
    [made] = make_packages([SOFTMAX], tmp_path)
    texts = {path: (made.folder / path).read_text() for path in shown(made.folder) if not path.startswith("config/")}
    assert [path for path, text in texts.items() if "Auto-generated" not in "\n".join(text.splitlines()[:3])] == []
    to_write = {f"jni/src/{room}/src/ops/Softmax.cpp" for room in ("CPU", "GPU", "DSP_V68")}
    assert {path for path, text in texts.items() if "add code here" in text} == to_write
