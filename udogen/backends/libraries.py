"""The kinds of libraries without ops: for registration with SNPE (`reg`), and for converters (`converter`)."""

from __future__ import annotations

from udogen.backends.backend import NOT_BUILT, Kind, Target, UdoCore

_READ = (
    "read through its C API by udogen's host, which registers its libraries in the real runtimes; not loaded by SNPE"
)
REGISTRATION = Kind(
    id="reg",
    title="registration library",
    udo_targets=(
        Target("reg_x86", "reg", ("x86-64_linux_clang",), "x86-64 Linux", "x86", _READ, native=True),
        Target("reg_aarch64", "reg", ("aarch64-linux-gnu",), "aarch64 Linux", "aarch64", "built by zig; not run"),
        Target("reg_android", "reg", ("arm64-v8a",), "Android arm64-v8a", "android", NOT_BUILT.format("`ndk-build`")),
    ),
    udo=UdoCore("", "jni/src/reg", "libUdo{}Reg.so", android=True),
    cmake=True,
    registration=True,
)

CONVERTER = Kind(
    id="converter",
    title="converter op package",
    targets=(
        Target(
            "converter_x86",
            "converter",
            ("",),
            "x86-64 Linux, where converters run",
            "x86",
            "built, loaded by udogen's host, which queries shapes and types; not tried with Qualcomm's converters",
            native=True,
            usual=True,
        ),
    ),
    converter=True,
)
