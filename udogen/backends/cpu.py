"""The CPU backend: C++ for `libQnnCpu.so`."""

from __future__ import annotations

from udogen.backends.backend import (
    NOT_BUILT,
    Backend,
    Emulator,
    HostRuntime,
    Place,
    Target,
    UdoCore,
    on_call,
    udo_target,
)

_TARGETS = (
    Target(
        "cpu_x86",
        "cpu",
        ("x86_64-linux-clang",),
        "x86-64 Linux",
        "x86",
        "registered, executed and compared with numpy in the real `libQnnCpu.so` (SDK 2.47)",
        native=True,
        usual=True,
    ),
    Target(
        "cpu_aarch64",
        "cpu",
        ("aarch64-linux-gnu",),
        "aarch64 Linux",
        "aarch64",
        "built by zig, its ELF inspected; run under `qemu-aarch64` in udogen's own CPU emulator; not in a "
        "`libQnnCpu.so`: none is public",
    ),
    Target(
        "cpu_android",
        "cpu",
        ("arm64-v8a",),
        "Android arm64-v8a",
        "ndk",
        NOT_BUILT.format("`clang++` of the NDK"),
        usual=True,
    ),
)

_RANKS = tuple(range(9))

BACKEND = Backend(
    id="cpu",
    title="CPU",
    suffix="Cpu",
    common_kernels=(".cpp", ".py"),
    kernels=("{}.cpp", "{}.py"),
    number=3,
    names=("CPU",),
    json_names=("CPU",),
    # libQnnCpu 2.47 accepts other types without an error, and passes unset pointers to the op.
    delivers=("FLOAT_32", "UFIXED_POINT_8", "INT_32", "UINT_32", "INT_8", "UINT_8", "BOOL_8"),
    contents=on_call("udogen.backends.cpu_files", "contents"),
    targets=_TARGETS,
    udo_targets=tuple(udo_target(target) for target in _TARGETS),
    cmake=True,
    usual=True,
    runtime=HostRuntime(
        "libQnnCpu.so",
        ranks=_RANKS,
        forwards_log=False,  # 2.47 never calls a package's logInitialize
        clears_outputs=True,  # 2.47 does
        essential=True,
        ort_below=(2, 4),
        strict_in_ort=False,
        drops_unknown_ops=True,
    ),
    restored_by_ort=False,
    emulator=Emulator("libUdogenEmulatorCpu.so"),
    udo=UdoCore(
        core="CPU",
        folder="jni/src/CPU",
        library="libUdo{}ImplCpu.so",
        shows=(
            "src/CpuCustomOpPackage.cpp",
            "src/utils/BackendUtils.hpp",
            "src/utils/CustomOpUtils.hpp",
            "src/utils/CPU/CpuBackendUtils.hpp",
        ),
        support="src/utils/CPU/CpuBackendUtils.cpp",
        android=True,
        own_makefile=True,
        calculates=("FLOAT_16", "FLOAT_32"),
        instead=lambda _kind: ("FLOAT_32",),  # it passes floats on
        floats_and_bytes=True,
        native="cpu_x86",
        compared="validation",
    ),
    places=(
        Place("cpu", "cpu", "Qualcomm's CPU runtime", "auto", _RANKS, "CPU"),
        Place("cpu-emulator", "cpu", "udogen's CPU emulator", "emulator", _RANKS, "CPU, emulated", "cpu", usual=False),
    ),
)
