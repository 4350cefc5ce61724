"""HTP packages built for devices by zig: libraries that a DSP or an ARM core could load.  None ran on hardware."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build.devices import ALL, CACHED, EMPTY, KERNEL, LIBRARY, Elf, build, compiled, generated, qhpi
from tests.making import LONG, compiler
from tests.wheels import device_libraries
from udogen import backends, resources
from udogen.build.zig_libraries import HEXAGON


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    compiler("zig")
    return generated(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package; `library` builds it for the versions that tests request."""
    compiler("zig")
    return generated(tmp_path_factory.mktemp("zig"))


@pytest.fixture(scope="module")
def skels() -> Path:
    return device_libraries()


def library(built: Path, name: str) -> Elf:
    path = built / "build" / f"hexagon-{name}" / LIBRARY
    if not path.is_file():
        done = build(built, f"htp_{name}", **CACHED)
        assert done.returncode == 0, done.stderr
        assert sorted(compiled(done)) == sorted(
            [KERNEL, "makefiles/hexagon/start.cpp", "src/LeakyReluPackageInterface.cpp", "src/udogen_htp.cpp"]
        )
    return Elf(path)


@pytest.mark.parametrize("name", ALL)
def test_a_library_as_those_of_the_dsp_are(built: Path, name: str) -> None:
    """Compare with Qualcomm's own libraries for the DSP: two segments, the version of the ABI, few relocations."""
    elf = library(built, name)
    assert (elf.machine, elf.kind, elf.flags) == ("EM_QDSP6", "ET_DYN", ALL[name].flags)
    assert elf.segments == [("PT_LOAD", 5), ("PT_LOAD", 6), ("PT_DYNAMIC", 6)]
    assert elf.tags[0x70000001] == 3, "DT_HEXAGON_VER"
    assert not {"DT_INIT_ARRAY", "DT_FLAGS_1", "DT_VERNEED"} & elf.tags.keys()
    assert {"DT_INIT", "DT_FINI", "DT_HASH"} <= elf.tags.keys()
    assert elf.needed == [] and elf.soname == [LIBRARY]
    assert elf.exported == {
        "qhpi_init", "LeakyReluPackageInterfaceProvider", "LeakyReluPackageExecutions", "LeakyReluPackageCounted"
    }  # fmt: skip
    assert elf.relocations() <= {6, 33, 34, 35}, "R_HEX_32, GLOB_DAT, JMP_SLOT, RELATIVE"


@pytest.mark.parametrize("name", ALL)
def test_what_is_undefined_is_on_every_dsp(built: Path, name: str) -> None:
    """Except for C++ itself (_Z…), which is in libc++.so.1 and libc++abi.so.1 of the device."""
    undefined = {symbol for symbol in library(built, name).undefined if not symbol.startswith("_Z")}
    assert undefined <= qhpi() | backends.ALL["htp"].dsp_symbols


def test_what_is_undefined_is_in_the_real_skels(built: Path, skels: Path) -> None:
    """Every symbol is exported by the skel that loads the package, or imported by the skel itself from the DSP."""
    for row in ALL.values():
        skel = Elf(skels / f"libQnnHtp{row.variable}Skel.so")
        assert skel.flags == row.flags
        lost = library(built, row.name).undefined - skel.exported - skel.undefined
        assert {each for each in lost if not each.startswith("_Z")} <= {"abort"}, row.name
        assert qhpi() & library(built, row.name).undefined <= skel.exported


def test_the_list_of_the_dsp_s_symbols_is_true_of_the_skels(skels: Path) -> None:
    """Each name of the C library that a skel imports is in the list; only newer system services are missing from it."""
    for row in ALL.values():
        skel = Elf(skels / f"libQnnHtp{row.variable}Skel.so")
        unknown = {each for each in skel.undefined if not each.startswith(("_Z", "__cxa", "HAP_", "crm_", "qurt_"))}
        unknown -= backends.ALL["htp"].dsp_symbols
        assert len(unknown) < 20, sorted(unknown)
        assert not unknown & {"memcpy", "expf", "vsnprintf", "__wrap_malloc", "__hexagon_divsi3"}


def test_make_by_hand_in_parallel_and_clean(folder: Path) -> None:
    compiler("zig")
    env = {**os.environ, **EMPTY, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["make", "-j2", "all"], cwd=folder, env=env, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    names = ["x86_64-linux-clang", "aarch64-linux-gnu", *(f"hexagon-{name}" for name in ALL)]
    assert sorted(path.name for path in (folder / "build").iterdir()) == sorted(names)
    assert all((folder / "build" / name / LIBRARY).is_file() for name in names)
    assert subprocess.run(["make", "clean"], cwd=folder).returncode == 0
    assert not list((folder / "build").iterdir()) and not list((folder / "obj").iterdir())


def test_a_kernel_with_much_of_cpp_in_it(folder: Path) -> None:
    """Constructors before main, the heap, mathematics, HVX: their symbols are available; thread_local is reported."""
    kernel = folder / KERNEL
    before = kernel.read_text()
    kernel.write_text(
        before
        + """
#include <cstdlib>
#include <memory>
#include <vector>
#include <hexagon_types.h>
#include <hexagon_protos.h>
struct Table { Table(); ~Table(); std::vector<float> numbers; };
Table::Table() { for (int i = 0; i < std::atoi("9"); ++i) numbers.push_back(std::erf(i) + std::pow(1.5f, i)); }
void* volatile kept;
Table::~Table() { kept = std::malloc(numbers.size()); std::free(kept); }
Table table;
extern "C" __attribute__((visibility("default"))) void add(HVX_Vector* to, const HVX_Vector* a) {
  *to = Q6_Vub_vadd_VubVub_sat(*to, *a);
}
"""
    )
    done = build(folder, "htp_v69")
    assert done.returncode == 0, done.stderr
    elf = library(folder, "v69")
    assert {"__cxa_atexit", "__wrap_malloc", "__wrap_free", "erf", "pow", "_Znwj"} <= elf.undefined
    cpp = {each for each in elf.undefined if each.startswith(("_ZN", "_Zn", "_Zd"))}
    assert elf.undefined - cpp <= qhpi() | backends.ALL["htp"].dsp_symbols
    assert "malloc" not in elf.undefined and "DT_INIT_ARRAY" not in elf.tags

    kernel.write_text(before + "\nthread_local int counter = 3;\nint* address() { return &counter; }\n")
    done = build(folder, "htp_v69")
    assert done.returncode == 4 and "thread_local variables do not work on the DSP" in done.stderr


def test_flags_of_the_users_own(folder: Path) -> None:
    """The linker accepts flags that are meant for a compiler."""
    (folder / "user.mk").write_text("EXTRA_CXXFLAGS := -DX='a b'\nEXTRA_LDFLAGS := -Wl,-z,now -Wl,--defsym=mine=7\n")
    done = build(folder, "htp_v73")
    assert done.returncode == 0, done.stderr
    link = (folder / "obj/hexagon-v73/link").read_text()
    assert " -z now --defsym=mine=7 " in link
    assert library(folder, "v73").tags.get("DT_FLAGS_1") == 1, "DF_1_NOW"


def test_the_aarch64_library_asks_for_the_runtime(folder: Path, skels: Path) -> None:
    """The functions of QHPI are in libQnnHtpPrepare.so there; a library that does not link to it finds none of them."""
    compiler("zig")
    done = build(folder, "htp_aarch64")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{folder}/build/aarch64-linux-gnu/{LIBRARY} (3 compiled)\n"
    elf = Elf(folder / "build/aarch64-linux-gnu" / LIBRARY)
    assert (elf.machine, elf.kind) == ("EM_AARCH64", "ET_DYN")
    assert elf.needed[0] == "libQnnHtpPrepare.so"
    assert qhpi() & elf.undefined <= Elf(skels / "libQnnHtpPrepare.so").exported
    assert {"qhpi_init", "LeakyReluPackageInterfaceProvider"} <= elf.exported


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of a program that loads a library as the DSP does, under qemu."""
    zig = compiler("zig")
    qemu = compiler("qemu-hexagon")
    program = tmp_path_factory.mktemp("loader") / "loader"
    done = subprocess.run(
        [*shlex.split(zig), *HEXAGON.flags, "-std=c++17", "-fno-exceptions", f"-I{resources.qnn_headers()}",
         str(Path(__file__).parent / "dsp/loader.cpp"), "-o", str(program)],
        capture_output=True, text=True, timeout=LONG,
        cwd=program.parent,  # with .venv below it, zig would recompile its libraries
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [qemu, "-cpu", "v67", str(program)]


@pytest.mark.parametrize("name", ALL)
def test_a_library_is_loaded_and_runs_under_qemu(built: Path, loader: list[str], name: str) -> None:
    """With a stand-in for the DSP's loader: the real one runs only on a DSP."""
    done = subprocess.run([*loader, str(library(built, name).path)], capture_output=True, text=True, timeout=60)
    printed = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert printed[0].startswith("LeakyReluPackage: 1 ops, LeakyReluPackage::LeakyRelu with ")
    assert printed[1:] == [
        "qhpi_init: LeakyReluPackage",
        "run: 0",
        "-2 -1.5 -1 -0.5 0 1 2 3 ",
        "HAP_debug 3: op LeakyRelu: the output must have the shape of the input",
        "run: 2",
        "executions: 2",
        "init: 0",
        "terminate: 0",
    ]


def test_constructors_run_when_a_library_is_loaded(folder: Path, loader: list[str]) -> None:
    kernel = folder / KERNEL
    lines = 'struct Loaded {{ Loaded() {{ udo::log(QNN_LOG_LEVEL_ERROR, "{0} of %d", 7); }} }} {0};\n'
    kernel.write_text(kernel.read_text() + lines.format("first") + lines.format("second").replace("Loaded", "Again"))
    done = build(folder, "htp_v73")
    assert done.returncode == 0, done.stderr
    library = folder / "build/hexagon-v73" / LIBRARY
    ran = subprocess.run([*loader, str(library)], capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines()[:2] == ["HAP_debug 3: first of 7", "HAP_debug 3: second of 7"]
