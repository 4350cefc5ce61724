"""`qnn-op-package-generator` and `snpe-udo-package-generator`: the vendor's flags, packages of udogen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import pytest

from tests.command_line import udogen
from tests.making import ROOT
from tests.opdef.texts import collection, op
from udogen.build.package import open_packages
from udogen.cli import vendor

LEAKY = ROOT / "examples" / "leaky_relu" / "LeakyRelu.xml"
SOFTMAX = ROOT / "examples" / "softmax" / "Softmax_Htp.json"
SCRIPTS = {
    vendor.QNN: ("qnn_main", vendor.qnn_generator),
    vendor.SNPE: ("snpe_main", vendor.snpe_generator),
}


def run(main: Callable[[], None], *arguments: object, code: int = 0, cwd: Path = ROOT) -> str:
    """Run a generator; return its output on both streams."""
    done = udogen(*arguments, cwd=cwd, main=main)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


qnn, snpe = partial(run, vendor.qnn_main), partial(run, vendor.snpe_main)


def content(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_console_scripts_are_these(name: str) -> None:
    main, command = SCRIPTS[name]
    assert f'{name} = "udogen.cli.vendor:{main}"' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert isinstance(command, click.Command) and command.name == name


@pytest.mark.parametrize(("generator", "config", "layout"), [(qnn, LEAKY, "qnn"), (snpe, SOFTMAX, "snpe")])
def test_the_tree_is_that_of_generate(generator: partial[str], config: Path, layout: str, tmp_path: Path) -> None:
    assert " package " in generator("-p", config, "-o", tmp_path / "theirs")
    assert udogen("generate", config, "--layout", layout, "-o", tmp_path / "own").returncode == 0
    assert content(tmp_path / "theirs") == content(tmp_path / "own") != {}


def test_without_o_packages_go_beside_the_first_config(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "demo.xml").write_text(collection())
    qnn("--config_path", tmp_path / "a" / "demo.xml")
    assert (tmp_path / "a" / "Demo" / "Makefile").is_file()


def test_ops_of_one_package_name_go_to_one_package(tmp_path: Path) -> None:
    (tmp_path / "one.xml").write_text(collection())
    (tmp_path / "two.xml").write_text(collection(op() + op(name="Shift")))
    (tmp_path / "other.xml").write_text(collection(name="Other"))
    qnn(*(word for name in ("one", "two", "other") for word in ("-p", tmp_path / f"{name}.xml")), "-o", tmp_path)
    assert [(each.name, each.ops) for each in open_packages(tmp_path)] == [
        ("Demo", ("Scale", "Shift")),
        ("Other", ("Scale",)),
    ]


def test_force_moves_a_package_aside_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "demo.xml").write_text(collection())
    call = ("-p", tmp_path / "demo.xml", "-o", tmp_path / "out")
    qnn(*call)
    kernel = tmp_path / "out" / "Demo" / "src" / "ops" / "Scale.cpp"
    kernel.write_text("// hours of work\n")
    qnn(*call)
    assert kernel.read_text() == "// hours of work\n", "without -f it stays where it is"
    message = qnn(*call, "-f")
    aside = tmp_path / "out" / "Demo.bak-1"
    assert f"is moved aside, to {aside}" in message
    assert (aside / "src" / "ops" / "Scale.cpp").read_text() == "// hours of work\n"
    assert "add code here" in kernel.read_text()
    qnn(*call, "--force-generation")
    assert (tmp_path / "out" / "Demo.bak-2").is_dir()
    assert [each.path.name for each in open_packages(tmp_path / "out")] == ["Demo"], "what was set aside is not built"


def test_force_takes_also_a_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "demo.xml").write_text(collection())
    unknown = tmp_path / "Demo" / "Makefile"
    unknown.parent.mkdir()
    unknown.write_text("all:\n")
    assert "did not generate" in qnn("-p", tmp_path / "demo.xml", "-o", tmp_path, code=2)
    qnn("-p", tmp_path / "demo.xml", "-o", tmp_path, "-f")
    assert (tmp_path / "Demo.bak-1" / "Makefile").read_text() == "all:\n"


def test_force_moves_nothing_when_the_config_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "demo.xml").write_text(collection())
    qnn("-p", tmp_path / "demo.xml", "-o", tmp_path)
    (tmp_path / "demo.xml").write_text(collection(op(name="1st")))
    qnn("-p", tmp_path / "demo.xml", "-o", tmp_path, "-f", code=2)
    assert (tmp_path / "Demo").is_dir() and not (tmp_path / "Demo.bak-1").exists()


def test_debug_shows_what_happens_to_each_file(tmp_path: Path) -> None:
    assert "created   " in qnn("-p", LEAKY, "-o", tmp_path, "--debug")


def test_a_config_that_is_missing_is_a_misuse(tmp_path: Path) -> None:
    assert "Missing option '-p'" in qnn("-o", "x", code=2)
    assert "cannot be read" in qnn("-p", tmp_path / "none.xml", code=2)


def test_a_udo_package_goes_here_by_default(tmp_path: Path) -> None:
    call = ("--config_path", SOFTMAX, "-c", "--gen_cmakelists")
    assert "--ignore_includes changes nothing" in snpe(*call, cwd=tmp_path)
    assert (tmp_path / "SoftmaxUdoPackage" / "jni" / "Android.mk").is_file()
    assert (tmp_path / "SoftmaxUdoPackage" / "CMakeLists.txt").is_file()
    assert "created   " in snpe(*call, "-f", "--debug", cwd=tmp_path)
    assert (tmp_path / "SoftmaxUdoPackage.bak-1").is_dir()


def test_the_qnn_generator_makes_converter_packages_and_cmake(tmp_path: Path) -> None:
    qnn("-p", LEAKY, "-cop", "--gen_cmakelists", "-o", tmp_path)
    assert (
        tmp_path / "LeakyReluPackage_Converter_Op_Package" / "ConverterOpPackage" / "ConverterOpPackage.cpp"
    ).is_file()
    assert (tmp_path / "LeakyReluPackageCpu" / "CMakeLists.txt").is_file()
