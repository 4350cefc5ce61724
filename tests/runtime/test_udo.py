"""A UDO package on this machine: its registration read in a child, its libraries found, compared, registered, run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import succeeds
from tests.hexagon.running import need_tools, on_hexagon
from tests.making import ROOT, cpu_package, make_packages, make_well, need_opencl, need_runtime
from tests.snpe import packages
from tests.snpe.packages import KERNELS, SOFTMAX, X86
from udogen import RunFailed, UsageError, resources
from udogen.build import tools
from udogen.runtime import OpCrashed, OpTimedOut, Tensor
from udogen.runtime.built import find_built, find_source
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpCall, OpSession, add_op_package, read_registration
from udogen.runtime.package_queries import RegistrationUnreadable
from udogen.runtime.snpe.host import LibraryMissing, OtherOps, OtherPackage, WrongMachine

BROKEN = Path(__file__).with_name("registration.c")
CPU, GPU, DSP = (f"libUdoSoftmaxUdoPackageImpl{core}.so" for core in ("Cpu", "Gpu", "Dsp"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the documentation's package, with V66 in addition to V68, built for this machine by its own Makefile."""
    out = tmp_path_factory.mktemp("softmax")
    config = out / SOFTMAX.name
    config.write_text(SOFTMAX.read_text().replace('"dsp_arch_types": ["v68"]', '"dsp_arch_types": ["v66", "v68"]'))
    [made] = make_packages([config], out, kernels=KERNELS)
    make_well(made.folder, "all_x86", "dsp_x86", "gpu_x86")
    return made.folder


@pytest.fixture(scope="session")
def registration(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of its registration library, without the others beside it."""
    return Path(shutil.copy(folder / X86 / "libUdoSoftmaxUdoPackageReg.so", tmp_path_factory.mktemp("reg")))


@pytest.fixture(scope="session")
def cpu(folder: Path) -> Path:
    need_runtime("cpu")
    return folder / X86 / CPU


@pytest.fixture(scope="session")
def htp(folder: Path) -> Path:
    need_runtime("htp")
    return folder / X86 / DSP


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, the only one of LD_LIBRARY_PATH."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    return folder


def broken(folder: Path, *flags: str) -> Path:
    """Return a registration library with one fault."""
    made = folder / "libUdoThingReg.so"
    argv = ["gcc", "-std=c11", "-Wall", "-Wextra", "-shared", "-fPIC", f"-I{resources.qnn_headers()}", str(BROKEN)]
    subprocess.run([*argv, "-o", str(made), *flags], check=True)
    return made


def foreign(made: Path, target: str = "aarch64-linux-gnu", name: str = "SoftmaxUdoPackage") -> Path:
    """Return a library for another machine with a provider of this name."""
    zig = tools.zig()
    if not zig:
        pytest.skip("zig is not installed")
    code = made.with_suffix(".c")
    code.write_text(f"int {name}InterfaceProvider(void *out) {{ return out == 0; }}\n")
    argv = [*zig, "cc", "-target", target, "-shared", "-fPIC", "-nostdlib", str(code), "-o", str(made)]
    subprocess.run(argv, check=True, capture_output=True)
    return made


# --- run ------------------------------------------------------------------------------------------------------------


def test_the_softmax_of_the_documentation_runs_on_both_cores(
    registration: Path, cpu: Path, htp: Path, place: Path
) -> None:
    shutil.copy(cpu, place / CPU)
    shutil.copy(htp, place / DSP)
    package = add_op_package(registration)
    assert [(core.core, core.state) for core in package.cores] == [
        ("CPU", "registered"),
        ("GPU", "not tried"),
        ("DSP", "registered"),
    ]
    assert package.core("CPU").path == place / CPU
    assert package.core("CPU").compared == ("package", "ops", "validation")
    assert package.core("DSP").compared == ("package", "ops", "inputs", "outputs", "data types")
    assert "no Adreno GPU" in package.core("GPU").why

    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 4, 5, 6), dtype=np.float32)
    with package.open("CPU") as session:
        call = OpCall(
            "Softmax",
            "SoftmaxUdoPackage",
            (Tensor("Placeholder", "FLOAT_32", x.shape, data=x),),
            (Tensor("Output", "FLOAT_32", x.shape),),
        )
        got = session.run(call).outputs["Output"]
    np.testing.assert_allclose(got, softmax(x), atol=1e-6)

    stored = rng.integers(0, 256, x.shape, dtype=np.uint8)
    with package.open("DSP") as session:
        call = OpCall(
            "Softmax",
            "SoftmaxUdoPackage",
            (Tensor("Placeholder", "UFIXED_POINT_8", x.shape, data=stored, quant=(0.05, -128)),),
            (Tensor("Output", "UFIXED_POINT_8", x.shape, quant=(1 / 256, 0)),),
        )
        got = session.run(call).outputs["Output"]
    assert np.abs(got.astype(int) - steps(stored)).max() <= 1

    with pytest.raises(RunFailed, match=f"{GPU} was not registered: this machine has no Adreno GPU"):
        package.open("GPU")


def softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def steps(stored: np.ndarray) -> np.ndarray:
    """Return softmax in steps of 1/256, for stored numbers of 8 bits."""
    return np.clip(np.rint(softmax((stored.astype(np.float32) - 128) * 0.05) * 256), 0, 255)


@pytest.mark.parametrize("backend", ["dsp", "htp"])
def test_both_families_of_the_dsp_run_as_hexagon_code(folder: Path, backend: str) -> None:
    need_tools()
    stored = np.random.default_rng(12).integers(0, 256, (1, 4, 5, 6), dtype=np.uint8)
    built = find_source(folder, backend=backend)
    options = CallOptions({"Placeholder": stored}, quants={"Placeholder": (0.05, -128), "Output": (1 / 256, 0)})
    result = on_hexagon(built, make_call(built.op("Softmax", backend), built, "Softmax", options))
    assert np.abs(result.outputs["Output"].astype(int) - steps(stored)).max() <= 1


def test_the_gpu_library_runs_in_the_emulator(folder: Path) -> None:
    need_opencl()
    x = np.random.default_rng(13).standard_normal((1, 4, 5, 6), dtype=np.float32)
    built = find_built(folder, backend="gpu")
    with OpSession(built.library, built.provider, backend="gpu", timeout=120) as session:
        call = make_call(built.op("Softmax", "gpu"), built, "Softmax", CallOptions({"Placeholder": x}))
        np.testing.assert_allclose(session.run(call).outputs["Output"], softmax(x), atol=1e-5)


def test_run_op_takes_the_registration_library(registration: Path, cpu: Path, place: Path, tmp_path: Path) -> None:
    shutil.copy(cpu, place / CPU)
    np.save(tmp_path / "x.npy", np.zeros((1, 2, 2, 4), np.float32))
    given = ("--input", f"Placeholder={tmp_path / 'x.npy'}", "--output", f"Output={tmp_path / 'y.npy'}")
    succeeds("run", "op", registration, "Softmax", *given, "--dtype", "Output=FLOAT_32", "--shape", "Output=1x2x2x4")
    assert (np.load(tmp_path / "y.npy") == 0.25).all()


def test_one_core_alone(registration: Path, cpu: Path, place: Path) -> None:
    shutil.copy(cpu, place / CPU)
    assert [core.core for core in add_op_package(registration, cores=["CPU"]).cores] == ["CPU"]
    with pytest.raises(UsageError, match="package SoftmaxUdoPackage has no library for NPU"):
        add_op_package(registration, cores=["NPU"])


def test_a_library_for_hexagon_is_not_tried(registration: Path, cpu: Path, place: Path) -> None:
    shutil.copy(cpu, place / CPU)
    foreign(place / DSP, "hexagon-linux-musl")
    state = add_op_package(registration).core("DSP")
    assert (state.state, state.path) == ("not tried", place / DSP)
    assert state.why.startswith("it is built for hexagon v")


def test_the_loader_passes_over_libraries_of_other_machines(
    registration: Path, cpu: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign(place / CPU)
    right = tmp_path / "right"
    right.mkdir()
    shutil.copy(cpu, right / CPU)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{place}:{right}")
    assert add_op_package(registration, cores=["CPU"]).core("CPU").path == right / CPU


# --- mistakes -------------------------------------------------------------------------------------------------------


def test_a_library_that_is_missing(registration: Path, place: Path) -> None:
    with pytest.raises(LibraryMissing) as caught:
        add_op_package(registration)
    assert (caught.value.exit_code, caught.value.message, caught.value.hint) == (
        5,
        f"the loader does not find {CPU}, the CPU library of package SoftmaxUdoPackage",
        "add the folder it is in to LD_LIBRARY_PATH; build it first if it is nowhere",
    )
    assert caught.value.details == (f"looked in {place}", "looked in the folders of the system")


def test_one_core_is_enough_where_the_others_were_not_asked_for(registration: Path, cpu: Path, place: Path) -> None:
    """The documentation builds only `cpu_x86` for the quantizer, for packages of any cores."""
    shutil.copy(cpu, place / CPU)
    package = add_op_package(registration)
    assert {core.core: core.state for core in package.cores} == {
        "CPU": "registered",
        "GPU": "not tried",
        "DSP": "missing",
    }
    with pytest.raises(RunFailed, match=f"{DSP} was not registered: the loader does not find {DSP}"):
        package.open("DSP")
    with pytest.raises(LibraryMissing):
        add_op_package(registration, cores=["CPU", "DSP"])


def test_a_library_beside_the_registration_is_not_taken_silently(
    registration: Path, cpu: Path, place: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "my libraries"
    moved.mkdir()
    shutil.copy(registration, moved)
    shutil.copy(cpu, moved / CPU)
    with pytest.raises(LibraryMissing) as caught:
        add_op_package(moved / registration.name)
    assert caught.value.hint == f"export LD_LIBRARY_PATH='{moved}':$LD_LIBRARY_PATH"


def test_a_library_of_another_package(registration: Path, place: Path) -> None:
    code = place / "other.c"
    code.write_text("int OtherInterfaceProvider(void *out) { return out == 0; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", str(code), "-o", str(place / CPU)], check=True)
    with pytest.raises(OtherPackage) as caught:
        add_op_package(registration)
    assert (caught.value.exit_code, caught.value.message, caught.value.hint) == (
        5,
        f"{place / CPU} is of package Other, and libUdoSoftmaxUdoPackageReg.so registers package SoftmaxUdoPackage",
        "put the CPU library of SoftmaxUdoPackage first in LD_LIBRARY_PATH",
    )


def test_a_library_that_is_no_op_package(registration: Path, place: Path) -> None:
    (place / "none.c").write_text("int nothing;\n")
    subprocess.run(["gcc", "-shared", "-fPIC", str(place / "none.c"), "-o", str(place / CPU)], check=True)
    with pytest.raises(OtherPackage, match="exports no SoftmaxUdoPackageInterfaceProvider: it is not an op package"):
        add_op_package(registration)
    (place / CPU).write_text("no library at all")
    with pytest.raises(RunFailed, match="is not a shared library"):
        add_op_package(registration)


def changed(folder: Path, before: str, after: str) -> Path:
    """Return the registration library of another config of the same package."""
    (folder / "other.json").write_text(SOFTMAX.read_text().replace(before, after))
    return packages.registration(folder / "other.json", folder / "out")


def test_a_library_with_other_ops(cpu: Path, place: Path, tmp_path: Path) -> None:
    shutil.copy(cpu, place / CPU)
    with pytest.raises(OtherOps) as caught:
        add_op_package(changed(tmp_path, '"type": "Softmax"', '"type": "Softmin"'))
    assert (caught.value.exit_code, caught.value.message, caught.value.hint) == (
        5,
        f"{place / CPU} has other ops than its registration: it lacks Softmin; "
        "it has Softmax, which libUdoSoftmaxUdoPackageReg.so does not know",
        "generate and build both from the same config",
    )


MORE = '"inputs":[{"name":"more","data_type":"FLOAT_32"},'
BETA = '"scalar_params":[{"name":"beta","data_type":"FLOAT_32"}],"core_types"'


@pytest.mark.parametrize(
    ("core", "before", "after", "fault"),
    [
        (
            "DSP",
            '"DSP":"UINT_8"',
            '"DSP":"FLOAT_32"',
            ": its kernel has QUInt8 for `Placeholder`, registered is FLOAT_32",
        ),
        ("DSP", '"inputs":[', MORE, ": its kernel takes 1 inputs, registered are 2"),
        (
            "CPU",
            '"CPU":"FLOAT_32"',
            '"CPU":"INT_32"',
            "; as registered, input 0 `Placeholder` is INT_32 (0x0032); it must be FLOAT_32 or UFIXED_POINT_8",
        ),
        ("CPU", '"inputs":[', MORE, "; as registered, has 2 inputs; it must have 1"),
        ("CPU", '"core_types"', BETA, "; as registered, has no parameter `beta`"),
    ],
)
def test_a_library_with_the_same_op_otherwise(
    request: pytest.FixtureRequest, place: Path, tmp_path: Path, core: str, before: str, after: str, fault: str
) -> None:
    """Detected by its kernel records, or by its own validation."""
    built, library = request.getfixturevalue("htp" if core == "DSP" else "cpu"), DSP if core == "DSP" else CPU
    made = changed(tmp_path, before, after)
    shutil.copy(built, place / library)
    with pytest.raises(OtherOps) as caught:
        add_op_package(made, cores=[core])
    described = f"op Softmax of {place / library} is not as its registration describes it"
    assert caught.value.message == described + fault


def test_validation_is_asked_with_every_kind_of_parameter(place: Path, tmp_path: Path) -> None:
    need_runtime("cpu")
    config = ROOT / "tests" / "configs" / "Udo.xml"
    shutil.copy(cpu_package(config, tmp_path / "cpu", layout="snpe").library, place / "libUdoManyUdoImplCpu.so")
    state = add_op_package(packages.registration(config, tmp_path / "all"), cores=["CPU"]).core("CPU")
    assert state.compared == ("package", "ops", "validation")
    assert state.package is not None
    assert state.package.operations == ("Everything", "Join")


def test_a_library_for_another_machine(registration: Path, place: Path) -> None:
    foreign(place / CPU)
    with pytest.raises(WrongMachine) as caught:
        add_op_package(registration)
    assert (caught.value.exit_code, caught.value.message, caught.value.hint) == (
        5,
        f"{place / CPU} is built for aarch64, and CPU of this machine needs x86_64",
        "put the library for x86_64 into LD_LIBRARY_PATH before it; the target cpu_x86 builds one",
    )


def test_a_registration_that_names_a_folder(tmp_path: Path, place: Path) -> None:
    made = broken(tmp_path, '-DFOLDER="/data/libThing.so"')
    with pytest.raises(OtherPackage, match=r"names `/data/libThing\.so` for CPU"):
        add_op_package(made)


def test_a_registration_for_another_machine(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"the registration library .* is built for aarch64, this machine is x86_64"):
        read_registration(foreign(tmp_path / "libReg.so"))


@pytest.mark.parametrize(
    ("flag", "kind", "printed"),
    [
        ("-DINCOMPLETE", RegistrationUnreadable, "exports no SnpeUdo_validateOperation"),
        (
            "-DREFUSES",
            RunFailed,
            "SnpeUdo_initRegLibrary of the registration library returned 4 (SNPE_UDO_MEM_ALLOC_ERROR)",
        ),
        (
            "-DSILENT",
            RunFailed,
            "SnpeUdo_getRegInfo of the registration library returned neither error nor result",
        ),
        ("-DLYING", RunFailed, "cannot be read: a count is not 0, but its array is NULL"),
        ("-DCRASHES", OpCrashed, "crashed with SIGSEGV (segmentation fault) in phase `SnpeUdo_initRegLibrary`"),
        ("-DLEAVES", OpCrashed, "ended the process with exit code 3 in phase `SnpeUdo_initRegLibrary`"),
        ("-DHANGS", OpTimedOut, "did not return within 2 s in phase `SnpeUdo_initRegLibrary`"),
    ],
)
def test_a_registration_that_does_not_answer(tmp_path: Path, flag: str, kind: type[RunFailed], printed: str) -> None:
    with pytest.raises(kind) as caught:
        read_registration(broken(tmp_path, flag), timeout=2 if flag == "-DHANGS" else 30)
    assert printed in caught.value.message
    assert "the op package" not in caught.value.message


def test_a_registration_of_an_older_release_has_names_of_tensors(tmp_path: Path) -> None:
    found = read_registration(broken(tmp_path, "-DMINOR=3"))
    assert found.api_version == (1, 3, 0)
    reported = [(op.type, [x.name for x in op.inputs], [y.name for y in op.outputs]) for op in found.ops]
    assert reported == [("First", ["a", "b"], ["a"]), ("Second", ["a"], ["a", "b"])]


def test_what_is_no_registration_library(cpu: Path, tmp_path: Path) -> None:
    with pytest.raises(RegistrationUnreadable, match="exports no function of a registration library") as caught:
        read_registration(cpu)
    assert caught.value.hint == "give the registration library, libUdo<Package>Reg.so"
    with pytest.raises(RunFailed, match="no registration library at"):
        read_registration(tmp_path / "none.so")
