"""The GPU backend: C++, and OpenCL that `libQnnGpu.so` compiles and runs."""

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
        "gpu_x86",
        "gpu",
        ("x86_64-linux-clang",),
        "x86-64 Linux",
        "x86",
        "registered, executed and compared with numpy in udogen's own GPU emulator on PoCL (OpenCL on the CPU)",
        native=True,
    ),
    Target(
        "gpu_aarch64",
        "gpu",
        ("aarch64-linux-gnu",),
        "aarch64 Linux",
        "aarch64",
        "built by zig, its ELF inspected; not run: no public `libQnnGpu.so` runs without an Adreno GPU",
    ),
    Target(
        "gpu_android",
        "gpu",
        ("arm64-v8a",),
        "Android arm64-v8a",
        "ndk",
        NOT_BUILT.format("`clang++` of the NDK"),
        usual=True,
    ),
)

_RANKS = tuple(range(9))

_BLIND = "on gpu this checks the package's C++, not its OpenCL kernels"

BACKEND = Backend(
    id="gpu",
    title="GPU",
    suffix="Gpu",
    number=4,
    names=("GPU",),
    json_names=("GPU",),
    contents=on_call("udogen.backends.gpu_files", "contents"),
    opencl=True,
    kernels=("{}.cpp", "{}.cl", "{}.py"),
    common_kernels=(".py",),
    kernel_texts=("{utils}/src/Prelude.cl", "{folder}/src/ops/{op}.cl"),
    targets=_TARGETS,
    udo_targets=tuple(udo_target(target) for target in _TARGETS),
    runtime=HostRuntime(
        "libQnnGpu.so",
        ranks=_RANKS,
        machines=("aarch64",),  # the one for x86-64 needs a target server and offline compilers
        hint="set QNN_SDK_ROOT; or --runtime emulator, which needs OpenCL",
    ),
    emulator=Emulator(
        "libUdogenEmulatorGpu.so",
        "CL/cl.h",
        "apt-get install opencl-headers ocl-icd-libopencl1 pocl-opencl-icd (PoCL: OpenCL on the processor itself)",
    ),
    udo=UdoCore(
        core="GPU",
        folder="jni/src/GPU",
        library="libUdo{}ImplGpu.so",
        shows=("include/GpuCustomOpPackage.hpp", "include/Operation.hpp", "src/GpuCustomOpPackage.cpp"),
        android=True,
        calculates=("FLOAT_16", "FLOAT_32"),
        not_run="this machine has no Adreno GPU, and libQnnGpu.so runs on no other",
        net_run=("--use_gpu",),
    ),
    places=(
        Place(
            "gpu",
            "gpu",
            "GPU: udogen's emulator on OpenCL, if there is no Adreno",
            "auto",
            _RANKS,
            "GPU",
            compiles=True,
            blind={"guard": _BLIND, "sanitize address": _BLIND},
        ),
    ),
)
