"""The command lines of the vendor's compilers, as stand-ins record them: golden files, rewritten by `make golden`."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.build import stand_ins
from tests.build.devices import EXAMPLE, build, generated
from tests.making import ROOT, make_packages
from tests.snpe import packages as udo
from udogen.verify.test_files.expand import load_examples

GOLDEN = ROOT / "tests" / "golden" / "build"


class Recorded(NamedTuple):
    """A build with stand-ins: the package, their log, the roots of the SDKs, and how the build ended."""

    folder: Path
    log: Path
    sdk: Path
    qnn: Path
    done: subprocess.CompletedProcess[str]


def hexagon_clang(work: Path) -> Recorded:
    """Build `htp_v73` with a Hexagon SDK and a QNN SDK."""
    folder, log = generated(work), work / "log"
    sdk = stand_ins.hexagon_sdk(work / "the sdk" / "hexagon-sdk-5.4.0", "8.6.02", log=log)
    qnn = stand_ins.qnn_sdk(work / "qnn sdk")
    done = build(folder, "htp_v73", "-j1", HEXAGON_SDK_ROOT=str(sdk), QNN_SDK_ROOT=str(qnn))
    return Recorded(folder, log, sdk, qnn, done)


def hexagon_clang_v66(work: Path) -> Recorded:
    """Build `dsp_v66` with a Hexagon SDK 3.5."""
    log = work / "log"
    [example] = load_examples(ROOT / "examples" / "add_sat_u8")
    [made] = make_packages([example.config], work / "it's here", chosen=["dsp"], kernels=example.kernels)
    sdk = stand_ins.hexagon_sdk(work / "the sdk" / "3.5.2", "8.3.07", log=log)
    tools = str(sdk / "tools/HEXAGON_Tools/8.3.07")
    done = build(
        made.folder, "dsp_v66", "-j1", HEXAGON_SDK_ROOT=str(sdk), HEXAGON_TOOLS_ROOT=tools, SDK_SETUP_ENV="Done"
    )
    return Recorded(made.folder, log, sdk, Path(), done)


def ndk_clang(work: Path) -> Recorded:
    """Build `htp_aarch64` and `all_android`, which are one library, with the NDK."""
    folder, log = generated(work), work / "log"
    sdk = stand_ins.ndk(work / "the ndk", log)
    done = build(folder, "htp_aarch64", "all_android", "-j1", ANDROID_NDK_ROOT=str(sdk))
    return Recorded(folder, log, sdk, Path(), done)


def ndk_clang_gpu(work: Path) -> Recorded:
    """Build `gpu_android` with the NDK and a device's OpenCL."""
    [made] = make_packages([EXAMPLE / "LeakyRelu.xml"], work / "it's here", chosen=["gpu"], kernels=EXAMPLE / "kernels")
    log, sdk, opencl = work / "log", work / "ndk", work / "cl libs"
    stand_ins.ndk(sdk, log)
    opencl.mkdir()
    (opencl / "libOpenCL.so").touch()
    done = build(made.folder, "gpu_android", ANDROID_NDK_ROOT=str(sdk), CL_LIBRARY_PATH=str(opencl))
    return Recorded(made.folder, log, sdk, Path(), done)


def udo_android(work: Path) -> Recorded:
    """Build `all_android` of the documentation's UDO package: ndk-build for ARM, the Hexagon SDK for the DSP."""
    folder, log = udo.softmax(work / "package"), work / "log"
    ndk = stand_ins.ndk_build(stand_ins.ndk(work / "ndk", log), log)
    sdk = stand_ins.hexagon_sdk(work / "hexagon-sdk-4.2.0", "8.4.09", log=log)
    qnn = stand_ins.qnn_sdk(work / "qnn")
    env = {
        "ANDROID_NDK_ROOT": str(ndk),
        "HEXAGON_SDK_ROOT": str(sdk),
        "QNN_SDK_ROOT": str(qnn),
        "SDK_SETUP_ENV": "Done",
    }
    opencl = work / "opencl"
    opencl.mkdir()
    (opencl / "libOpenCL.so").touch()
    done = build(folder, "all_android", "dsp_aarch64", "-j1", CL_LIBRARY_PATH=str(opencl), **env)
    return Recorded(folder, log, sdk, qnn, done)


def udo_dsp(work: Path) -> Recorded:
    """Build `dsp` for V66 and V68 in one package: Hexagon SDK 3.5.2 for V66, HEXAGON_SDK4_ROOT for V68."""
    folder, log = udo.two_families(work / "package"), work / "log"
    old = stand_ins.hexagon_sdk(work / "sdk3", "8.3.07", log=log)
    new = stand_ins.hexagon_sdk(work / "sdk4", "8.4.09", log=log)
    env = {"HEXAGON_SDK_ROOT": str(old), "HEXAGON_SDK4_ROOT": str(new)}
    env |= {"HEXAGON_TOOLS_ROOT": str(old / "tools/HEXAGON_Tools/8.3.07"), "SDK_SETUP_ENV": "Done"}
    done = build(folder, "dsp_v66", "dsp_v68", "-j1", **env)
    return Recorded(folder, log, old, Path(), done)


RECORDINGS: dict[str, Callable[[Path], Recorded]] = {
    "udo-android.txt": udo_android,
    "udo-dsp.txt": udo_dsp,
    "hexagon-clang.txt": hexagon_clang,
    "hexagon-clang-v66.txt": hexagon_clang_v66,
    "ndk-clang.txt": ndk_clang,
    "ndk-clang-gpu.txt": ndk_clang_gpu,
}


def recorded_commands(log: Path, work: Path) -> str:
    """Return the recorded command lines, sorted; those that differ only in source and object are merged."""
    text = log.read_text().replace(str(work), "TMP")
    log.unlink()
    return grouped(text)


def grouped(text: str) -> str:
    """Return the commands as the stand-ins write them, one argument a line."""
    commands: dict[str, list[str]] = {}
    for each in sorted(f"== {each}" for each in text.split("== ")[1:]):
        match each.splitlines():
            case [*arguments, "-o", made, source] if "-c" in arguments:
                commands.setdefault("\n".join(arguments) + "\n", []).append(f"-o {made} {source}\n")
            case _:
                commands[each] = [*commands[each], each] if each in commands else []
    return "".join(command + "".join(files) for command, files in commands.items())


def write_golden() -> None:
    """Write the current command lines to the golden files."""
    for name, record in RECORDINGS.items():
        with tempfile.TemporaryDirectory() as work:
            (GOLDEN / name).write_text(recorded_commands(record(Path(work)).log, Path(work)), "utf-8")
