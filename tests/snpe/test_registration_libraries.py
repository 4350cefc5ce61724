"""The content of a registration library, read by an independent host in C: each library once, as built."""

from __future__ import annotations

import shlex
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.build.devices import EMPTY, Elf
from tests.making import ROOT, make, make_packages
from tests.snpe.packages import X86, config, libraries, op, package
from udogen.build import tools
from udogen.build.package import open_packages
from udogen.qnn.udo import RegisteredOp, RegisteredTensor
from udogen.runtime.ops import add_op_package
from udogen.runtime.package_queries import KernelTypes
from udogen.runtime.snpe import host as snpe_host
from udogen.runtime.snpe.host import LibraryMissing

NOTHING = {name: "" for name in EMPTY if not name.endswith("_CXX")}
OLD, NEW, BOTH = ["v66"], ["v68"], ["v66", "v68"]

# Ops, each with its cores and versions -> the libraries, in any order.
PACKAGES = {
    "several old": (
        [op("A", "DSP", archs=OLD), op("B", "DSP", archs=OLD), op("C", "DSP", archs=["v65"])],
        "DSP libUdoPAImplDsp.so, DSP libUdoPBImplDsp.so, DSP libUdoPCImplDsp.so",
    ),
    "one op, old and new": ([op("A", "DSP", archs=BOTH)], "DSP libUdoPImplDsp.so"),
    "several, old and new": (
        [op("A", "DSP", archs=BOTH), op("B", "DSP", archs=OLD), op("C", "DSP", archs=NEW)],
        "DSP libUdoPAImplDsp.so, DSP libUdoPBImplDsp.so, DSP libUdoPImplDsp.so",
    ),
    "every core": (
        [op("A", "CPU", "GPU", "DSP", archs=BOTH), op("B", "CPU", "DSP", archs=BOTH)],
        "CPU libUdoPImplCpu.so, DSP libUdoPAImplDsp.so, DSP libUdoPBImplDsp.so, DSP libUdoPImplDsp.so, "
        "GPU libUdoPImplGpu.so",
    ),
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled host."""
    made = tmp_path_factory.mktemp("host") / "registration_host"
    source = ROOT / "tests/snpe/registration_host.c"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/udogen/qnn/include"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(made), "-ldl"], check=True)
    return made


def reported(host: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Return (libraries, ops), as the host prints them."""
    [library] = (folder / X86).glob("libUdo*Reg.so")
    lines = subprocess.run([host, library], check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [line.split(" ", 1) for line in lines]
    return [text for kind, text in rows if kind == "library"], [text for kind, text in rows if kind == "op"]


@pytest.mark.parametrize("name", PACKAGES)
def test_each_library_is_named_once(host: Path, tmp_path: Path, name: str) -> None:
    ops, wanted = PACKAGES[name]
    [made] = make_packages([config(tmp_path, package("P", *ops))], tmp_path)
    done = make(made.folder, "reg_x86", **NOTHING)
    assert done.returncode == 0, done.stderr
    found, registered = reported(host, made.folder)
    assert ", ".join(sorted(found)) == wanted
    assert sorted(registered) == [f"{each['type']} {' '.join(each['core_types'])}" for each in ops]
    built = {part.library for part in open_packages(made.folder) if part.backend != "reg"}
    assert {text.split()[1] for text in found} == built, "the names that the Makefiles build"


def test_every_library_is_reachable_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries for V66 only are missing here, and hide no other library."""
    ops, _ = PACKAGES["every core"]
    [made] = make_packages([config(tmp_path, package("P", *ops))], tmp_path)
    done = make(made.folder, "cpu_x86", "dsp_x86", **NOTHING)
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("LD_LIBRARY_PATH", str(made.folder / X86))
    reg = made.folder / X86 / "libUdoPReg.so"
    registered = add_op_package(reg)
    assert [(core.library, core.state) for core in registered.cores] == [
        ("libUdoPImplCpu.so", "registered"),
        ("libUdoPImplGpu.so", "not tried"),
        ("libUdoPImplDsp.so", "registered"),
        ("libUdoPAImplDsp.so", "missing"),
        ("libUdoPBImplDsp.so", "missing"),
    ]
    assert registered.core("DSP").library == "libUdoPImplDsp.so"
    (made.folder / X86 / "libUdoPImplDsp.so").unlink()
    with pytest.raises(LibraryMissing, match=r"does not find libUdoPImplDsp\.so"):
        add_op_package(reg, cores=["DSP"])


def test_every_library_is_built_by_its_own_makefile(host: Path, tmp_path: Path) -> None:
    """By zig: those of V66 in dsp_v60, that of V68 in dsp_v68; each exports the provider of the package."""
    ops, _ = PACKAGES["every core"]
    [made] = make_packages([config(tmp_path, package("P", *ops))], tmp_path)
    zig = shlex.join(tools.zig())
    given = {"ZIG": zig, "AARCH64_CXX": f"{zig} c++ -target aarch64-linux-gnu.2.31", **NOTHING}
    done = make(made.folder, "dsp", "cpu_x86", "gpu_x86", **given)
    assert done.returncode == 0, done.stderr
    found, _ = reported(host, made.folder)
    there = {path for path in libraries(made.folder) if not path.endswith("Reg.so")}
    assert there == {
        "dsp_v60/libUdoPAImplDsp.so",
        "dsp_v60/libUdoPBImplDsp.so",
        "dsp_v68/libUdoPImplDsp.so",
        "x86-64_linux_clang/libUdoPImplCpu.so",
        "x86-64_linux_clang/libUdoPImplGpu.so",
    }
    assert sorted(Path(path).name for path in there) == sorted(text.split()[1] for text in found)
    for path in there:
        assert "PInterfaceProvider" in Elf(made.folder / "libs" / path).exported


RIGHT, WRONG = (KernelTypes((kind,), (kind,)) for kind in ("Float32", "QUInt8"))


@pytest.mark.parametrize(
    ("kernels", "is_right"),  # None: it is not compared
    [([], None), ([RIGHT], True), ([WRONG], False), ([RIGHT, WRONG], True), ([WRONG, RIGHT], True),
     ([WRONG, WRONG], False)],
)  # fmt: skip
def test_one_kernel_of_several_must_be_as_registered(
    kernels: list[object], is_right: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = RegisteredTensor("x", "NHWC", {"DSP": "FLOAT_32"}, repeated=False, static=False)
    registered = RegisteredOp("Op", ("DSP",), (), (tensor,), (tensor,), {})
    registration: Any = SimpleNamespace(package="P", path=Path("reg.so"), ops_of=lambda _core: [registered])
    found: Any = SimpleNamespace(exports=["qhpi_init"], imports=[])
    records = SimpleNamespace(ops={"P::Op": kernels})
    monkeypatch.setattr(snpe_host, "read_records", lambda *_, **__: records)
    with pytest.raises(snpe_host.OtherOps) if is_right is False else nullcontext():
        assert snpe_host.compare_records(registration, Path("lib.so"), found) is bool(is_right)
