"""A fake machine, with SDKs that consist only of their version files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from udogen import ToolMissing, UdogenError
from udogen.backends import RUNTIMES
from udogen.backends.backend import Target
from udogen.build.toolchains import Choice
from udogen.build.tools import Environment
from udogen.doctor.checks import CheckOutcome, CheckResult, Machine, examine, exit_code, lines
from udogen.runtime.library import RuntimeLibrary

GOLDEN = Path(__file__).parent / "golden"

FILES = {
    "qnn/include/QNN/QnnInterface.h": "",
    "qnn/include/QNN/QnnSdkBuildId.h": '#define QNN_SDK_BUILD_ID "v2.43.0.260127150333_193827"\n',
    "qnn/lib/hexagon-v73/unsigned/libQnnHtpV73Skel.so": "",
    "qairt/sdk.yaml": "product: QAIRT\nversion: 2.25.0\nbuild_id: 240728104910_97711\n",
    "qairt/include/QNN/QnnInterface.h": "",
    "qairt/include/SNPE/SnpeUdo/UdoBase.h": "",
    "snpe-2.12.0.230626/include/SnpeUdo/UdoBase.h": "",
    "snpe-1.68/share/SnpeUdo/include/SnpeUdo/UdoBase.h": "",
    "snpe-1.68/ReleaseNotes.txt": "SNPE SDK\n\nSNPE 1.68.0\n",
    "Hexagon_SDK/3.5.4/tools/HEXAGON_Tools/8.3.07/Tools/bin/hexagon-clang++": "#!/bin/sh\n",
    "Hexagon_SDK/5.5.5.0/tools/HEXAGON_Tools/8.7.06/Tools/bin/hexagon-clang++": "#!/bin/sh\n",
    "Hexagon_SDK/6/hexagon_sdk.json": '{"root": {"version": "6.4.0.2"}}',
    "Hexagon_SDK/odd/hexagon_sdk.json": '["something else"]',
    "ndk/ndk-build": "#!/bin/sh\n",
    "ndk/source.properties": "Pkg.Desc = Android NDK\nPkg.Revision = 26.2.11394342\n",
    "opencl/libOpenCL.so": "",
    "bin/cxx": "#!/bin/sh\n",
}


def sdks(root: Path) -> Path:
    """Create the trees of all SDKs below a folder."""
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        if content.startswith("#!"):
            path.chmod(0o755)
    return root


def machine(
    root: Path,
    *,
    programs: Mapping[str, str] = {"make": "4.3", "g++": "12.2.0"},
    wheels: Mapping[str, str] = {"ziglang": "0.17.1"},
    runtimes: Sequence[str] = ("cpu", "htp"),
    builds: Sequence[str] = ("cpu_x86",),
    opencl: Sequence[str] = ("pocl",),
    **variables: str,
) -> Machine:
    """Return a machine with these programs (name -> version) and variables."""

    def program(name: str) -> str:
        if name in programs:
            return f"/usr/bin/{name}"
        return name if Path(name).is_file() and "/" in name else ""

    def choose(target: Target) -> Choice | UdogenError:
        if target.id in builds:
            return Choice("open", "g++, udogen's own headers", ())
        return ToolMissing("", hint=f"install a compiler for {target.machine}", details=["open: there is none"])

    def runtime(backend: str) -> RuntimeLibrary | UdogenError:
        row = RUNTIMES[backend]
        if backend in runtimes:
            return RuntimeLibrary(backend, row, Path("/runtime", row.library), "onnxruntime_qnn")
        return ToolMissing(f"the QNN runtime {row.library} is not installed", hint="pip install onnxruntime-qnn==2.3.0")

    return Machine(
        env=Environment(**variables),
        program=program,
        version=lambda argv: programs.get(Path(argv[0]).name, "1.2.3"),
        wheel=lambda name: wheels.get(name, ""),
        choose=choose,
        runtime=runtime,
        release=lambda _path: "2.47.0.260601114230",
        cache=root / "cache",
        opencl=tuple(Path("/etc/OpenCL/vendors", f"{name}.icd") for name in opencl),
    )


def everything(root: Path) -> Machine:
    """Return a machine with all SDKs, all correct."""
    sdks(root)
    names = ("make", "clang++", "g++", "aarch64-linux-gnu-g++", "cmake", "adb", "qemu-hexagon", "qemu-aarch64")
    return machine(
        root,
        programs=dict.fromkeys(names, "1.2.3"),
        builds=("cpu_x86", "cpu_android", "htp_v75"),
        qnn_sdk_root=str(root / "qnn"),
        snpe_root=str(root / "qairt"),
        snpe_udo_root=str(root / "qairt/include/SNPE/SnpeUdo"),
        hexagon_sdk_root=str(root / "Hexagon_SDK/3.5.4"),
        hexagon_sdk4_root=str(root / "Hexagon_SDK/5.5.5.0"),
        hexagon_tools_root=str(root / "Hexagon_SDK/5.5.5.0/tools/HEXAGON_Tools/8.7.06"),
        sdk_setup_env="Done",
        android_ndk_root=str(root / "ndk"),
        cl_library_path=str(root / "opencl"),
        x86_cxx=str(root / "bin/cxx"),
    )


def all_wrong(root: Path) -> Machine:
    """Return a machine where every variable names something else, and nothing is installed."""
    sdks(root)
    return machine(
        root,
        programs={},
        wheels={},
        runtimes=(),
        builds=(),
        opencl=(),
        qnn_sdk_root=str(root / "ndk"),
        snpe_root=str(root / "nowhere"),
        snpe_udo_root=str(root / "ndk"),
        hexagon_sdk4_root=str(root / "Hexagon_SDK/3.5.4"),
        hexagon_tools_root=str(root / "Hexagon_SDK/3.5.4/tools"),
        sdk_setup_env="Done",
        android_ndk_root=str(root / "qnn"),
        cl_library_path=str(root / "ndk"),
        x86_cxx="nope -O2",
        aarch64_cxx="'",
    )


MACHINES = {"bare": machine, "everything": everything, "all_wrong": all_wrong}


def text(name: str, root: Path) -> str:
    """Return the report of a machine, with its SDK folder replaced by /SDKS."""
    found = examine(MACHINES[name](root))
    rows = tuple(
        CheckResult(row.check, CheckOutcome(*(each.replace(str(root), "/SDKS") for each in row.outcome)))
        for row in found
    )
    return "\n".join(lines(rows, width=80)) + f"\nexit {exit_code(found)}\n"


def write_golden() -> None:
    """Rewrite tests/doctor/golden."""
    GOLDEN.mkdir(exist_ok=True)
    for name in MACHINES:
        with tempfile.TemporaryDirectory() as root:
            (GOLDEN / f"{name}.txt").write_text(text(name, Path(root)), "utf-8")
