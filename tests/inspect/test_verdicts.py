"""Every reason why a library does not register, with a library that has it; real runtimes, if available, agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from toys import Look, Make, shown

from udogen import RunFailed, UsageError
from udogen.runtime.ops import OpSession

SKEL = "-DSKEL"


def refused(path: Path, backend: str, provider: str = "ToyInterfaceProvider") -> str:
    """Return the message of the real runtime, which must refuse it."""
    with pytest.raises(RunFailed) as caught, OpSession(path, provider, backend=backend, timeout=20):
        pass
    return caught.value.message


# --- libraries for this machine ----------------------------------------------------------------------------


def test_packages_that_register(make: Make, look: Look, htp: Path, cpu: Path) -> None:
    for flags, runtime in ((["-DQHPI"], "HTP_QTI_AISW"), ([], "CPU_QTI_AISW")):
        found = look(make(*flags), register=True)
        assert (found.verdict, found.findings) == ("will register", ())
        assert found.evidence is not None and found.evidence.registered is not None
        package, shown_runtime = found.evidence.registered
        assert (package.name, package.operations, shown_runtime.name) == ("Toy", ("Copy",), runtime)


def test_without_registering_nothing_of_the_library_runs(make: Make, look: Look, htp: Path) -> None:
    crashes = make("-DQHPI", "-DCRASHES")
    found = look(crashes, htp)
    assert found.verdict == "cannot be judged"
    assert found.evidence is not None and found.evidence.registered is None
    found = look(crashes, htp, register=True)
    assert found.verdict == "will not register"
    assert "crashed with SIGSEGV (segmentation fault)" in shown(found)


def test_undefined_symbols(make: Make, look: Look, htp: Path, cpu: Path) -> None:
    found = look(make("-DMISSING"), cpu, register=True)
    assert found.verdict == "will not register"
    assert "undefined symbol: undefined_symbol" in shown(found) and "link the library that has it" in shown(found)
    assert "undefined symbol: undefined_symbol" in refused(make("-DMISSING"), "cpu")
    unknown = {"qhpi_of_tomorrow": ("-DQHPI", "-DUNKNOWN_FUNCTION"), "_ZN4hnnx11register_op": ("-DCORE",)}
    for symbol, flags in unknown.items():
        found = look(make(*flags), htp, register=True)
        assert found.verdict == "will not register" and f"undefined symbol: {symbol}" in shown(found)


def test_packages_of_another_backend(make: Make, look: Look, htp: Path, cpu: Path) -> None:
    found = look(make(), htp, register=True)
    assert "it has no HTP part (neither qhpi_init nor op_pkg_init), libQnnHtp.so is HTP" in shown(found)
    assert "neither qhpi_init nor op_pkg_init" in refused(make(), "htp")
    found = look(make("-DQHPI"), cpu, register=True)
    assert "its kernels are for HTP, libQnnCpu.so is the cpu backend" in shown(found)
    assert "undefined symbol" not in shown(found)  # it would only repeat the error
    refused(make("-DQHPI"), "cpu")


def test_what_a_package_must_export(make: Make, look: Look, htp: Path, cpu: Path) -> None:
    assert "it is not an op package" in shown(look(make("-DNO_PROVIDER")))
    assert "exports no interface provider (<Package>InterfaceProvider)" in shown(look(make("-DNO_PROVIDER", "-DQHPI")))
    hidden = make("-DQHPI", "-DEXPORT_INIT=")
    assert "exports no qhpi_init, which HTP calls first" in shown(look(hidden, htp))
    assert "neither qhpi_init nor op_pkg_init" in refused(hidden, "htp")
    found = look(make("-DSECOND"), cpu, register=True)
    assert found.verdict == "will register, but"
    assert "it has several interface providers; SecondInterfaceProvider was inspected" in shown(found)
    assert "the package calls itself Toy, its provider is SecondInterfaceProvider" in shown(found)


def test_libraries_of_other_kinds(make: Make, look: Look, htp: Path, cpu: Path) -> None:
    for runtime in (htp, cpu, htp.with_name("libQnnSystem.so")):
        assert "it is a QNN runtime library = give it to --against" in shown(look(runtime))
    [libc] = Path("/lib").glob("*-linux-gnu/libc.so.6")
    assert look(libc).verdict == "will not register"
    assert "it is not an op package" in shown(look(libc))
    snpe = make("-DPROVIDER=SnpeUdo_getVersion")
    assert "it is a UDO library of SNPE = SNPE registers it" in shown(look(snpe))


def test_libraries_that_the_loader_does_not_find(make: Make, look: Look, cpu: Path, tmp_path: Path) -> None:
    dependency = make("-DPROVIDER=other", name="libOther.so", folder=tmp_path)
    flags = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-l:libOther.so"]
    found = look(make(*flags), cpu, register=True)
    assert found.verdict == "will not register" and "libOther.so: cannot open shared object file" in shown(found)
    assert "libOther.so" in refused(make(*flags), "cpu")
    beside = make(*flags, "-Wl,-rpath,$ORIGIN", folder=tmp_path)
    assert look(beside, cpu, register=True).verdict == "will register"
    dependency.unlink()
    assert look(beside, cpu, register=True).verdict == "will not register"


# --- SDK releases ---------------------------------------------------------------------------------------------


def test_the_release_of_a_package_in_the_c_plus_plus_style(make: Make, look: Look, tmp_path: Path) -> None:
    runtime = make(SKEL, "-DNO_PROVIDER", name="libQnnHtp.so", folder=tmp_path)
    stub = ["-DCORE", f"-Wl,--defsym,_ZN4hnnx11register_opEPKc={0x1000}"]
    same, other, none = (make(*stub, *flag) for flag in (
        ['-DBUILD_ID="v2.99.0.991231235959_7"'], ['-DBUILD_ID="v2.43.0.260129000000"'], []
    ))  # fmt: skip
    assert look(same, runtime).verdict == "cannot be judged"
    found = look(other, runtime)
    assert found.verdict == "will not register"
    assert "built with the headers of SDK v2.43.0.260129000000, the runtime is of v2.99.0.991231235959" in shown(found)
    assert found.evidence is not None and found.evidence.facts.sdk.source == "its symbol udogen_qnn_sdk_build_id"
    assert "does not name the SDK of its headers" in shown(look(none, runtime))


def test_qhpi_needs_a_runtime_that_has_it(make: Make, look: Look, tmp_path: Path) -> None:
    runtime = make(SKEL, "-DNO_PROVIDER", name="libQnnHtp.so", folder=tmp_path)
    assert look(make("-DQHPI"), runtime).verdict == "cannot be judged"
    runtime.write_bytes(runtime.read_bytes().replace(b"v2.99.0", b"v2.46.0"))
    assert "use a runtime of SDK 2.47 or later" in shown(look(make("-DQHPI"), runtime))


# --- libraries for a device ---------------------------------------------------------------------------------


def test_a_hexagon_library_and_a_skel(make_for: Make, look: Look) -> None:
    skel = make_for("hexagon v73", SKEL, "-DNO_PROVIDER", name="libQnnHtpV73Skel.so")
    assert "it is the Hexagon half of a QNN runtime (skel)" in shown(look(skel))
    package = make_for("hexagon v73", "-DQHPI", "-DNEEDS_HAP")
    found = look(package)
    assert found.verdict == "cannot be judged"
    assert "no runtime was found to compare it with = give the libQnnHtpV73Skel.so" in shown(found)
    for against in (skel, skel.parent):  # the symbols that the skel imports must be in its system
        assert look(package, against).verdict == "should register"
    found = look(make_for("hexagon v73", "-DQHPI", "-DNEEDS_MALLOC"), skel)
    assert "malloc = the device has __wrap_malloc: link with -Wl,--wrap=malloc" in shown(found)
    found = look(make_for("hexagon v73", "-DQHPI", "-DNEEDS_WEAK"), skel)
    assert found.verdict == "should register" and found.evidence is not None
    assert list(found.evidence.resolution.assumed) == ["HAP_perhaps"]
    found = look(make_for("hexagon v73", "-DQHPI", "-DMISSING"), skel)
    assert "undefined_symbol = avoid them, link them in" in shown(found)


def test_a_library_that_only_the_system_of_a_dsp_has(make_for: Make, look: Look) -> None:
    """Qualcomm's compiler for Hexagon names libgcc.so in everything that it links."""
    skel = make_for("hexagon v73", SKEL, "-DNO_PROVIDER", name="libQnnHtpV73Skel.so")
    for name, verdict in (("libgcc.so", "should register"), ("libother.so", "will not register")):
        needed = make_for("hexagon v73", "-DNO_PROVIDER", name=name)
        package = make_for("hexagon v73", "-DQHPI", linked=("--no-as-needed", str(needed)))
        assert look(package, skel).verdict == verdict


def test_another_version_of_hexagon(make_for: Make, look: Look) -> None:
    skel = make_for("hexagon v73", SKEL, "-DNO_PROVIDER", name="libQnnHtpV73Skel.so")
    found = look(make_for("hexagon v75", "-DQHPI"), skel)
    assert found.verdict == "will not register"
    assert "built for Hexagon v75, libQnnHtpV73Skel.so is for v73, which is older = build htp_v73" in shown(found)
    found = look(make_for("hexagon v69", "-DQHPI"), skel)
    assert found.verdict == "should register, but"


def test_a_library_that_is_not_on_the_device(make_for: Make, look: Look) -> None:
    skel = make_for("hexagon v73", SKEL, "-DNO_PROVIDER", name="libQnnHtpV73Skel.so")
    pushed = make_for("hexagon v73", "-DNO_PROVIDER", "-DNEEDS_HAP", name="libpushed.so")
    package = make_for("hexagon v73", "-DQHPI", linked=(str(pushed),))
    assert "it needs libpushed.so, which the runtime does not need itself" in shown(look(package, skel))
    assert look(package, skel, pushed).verdict == "should register"


def test_a_runtime_of_another_machine(make: Make, make_for: Make, look: Look, htp: Path) -> None:
    hexagon = make_for("hexagon v73", "-DQHPI")
    assert "it is built for hexagon v73, libQnnHtp.so for x86_64" in shown(look(hexagon, htp, register=True))
    skel = make_for("hexagon v73", SKEL, "-DNO_PROVIDER", name="libQnnHtpV73Skel.so")
    found = look(make("-DQHPI"), skel, register=True)
    assert "it is built for x86_64, libQnnHtpV73Skel.so for hexagon v73" in shown(found)
    assert len(found.findings) == 1


def test_what_cannot_be_compared_with(make: Make, look: Look, tmp_path: Path) -> None:
    (tmp_path / "libQnnHtp.so").write_text("nothing")
    with pytest.raises(UsageError, match=r"no runtime to compare with: .* is not a shared library"):
        look(make("-DQHPI"), tmp_path / "libQnnHtp.so")
    (tmp_path / "libQnnHtp.so").unlink()
    with pytest.raises(UsageError, match=r"it has no libQnnHtp\.so"):
        look(make("-DQHPI"), tmp_path)
