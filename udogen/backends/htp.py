"""The HTP backend: C++ for QHPI, the C plug-in interface of HTP.  `htp_core` has the older C++ interface."""

from __future__ import annotations

from udogen.backends.backend import (
    NOT_BUILT,
    Backend,
    Emulator,
    Harness,
    HostRuntime,
    Place,
    Target,
    UdoCore,
    hexagon_targets,
    on_call,
    udo_target,
)
from udogen.qnn import socs

_TARGETS = (
    Target(
        "htp_x86",
        "htp",
        ("x86_64-linux-clang",),
        "x86-64 Linux",
        "x86",
        "registered, executed and compared with numpy in the real `libQnnHtp.so` (Qualcomm's emulator), "
        "one binary on SDK 2.47 to 2.51",
        native=True,
        usual=True,
    ),
    Target(
        "htp_aarch64",
        "htp",
        ("aarch64-android", "aarch64-linux-gnu"),
        "Android arm64-v8a with the NDK, else aarch64 Linux",
        "arm64",
        "built by zig, symbols checked against the real aarch64 `libQnnHtpPrepare.so`; not run on hardware",
        usual=True,
    ),
    Target(
        "htp_android",
        "htp",
        ("aarch64-android",),
        "Android arm64-v8a",
        "ndk",
        NOT_BUILT.format("`clang++` of the NDK"),
    ),
    *hexagon_targets("htp"),
)


def _udo(target: Target) -> Target:
    """A target as the UDO documentation names it: HTP is the DSP."""
    ending = "_AltPrep" if target.id == "htp_aarch64" else ""
    return udo_target(target)._replace(id=target.id.replace("htp_", "dsp_"), ending=ending)


def _instead(kind: str) -> tuple[str, ...]:
    """The types that the DSP passes to an op: bytes and floats, since V68 also 32-bit integers."""
    types = {"float": ("FLOAT_32",), "int": ("INT_32",), "uint": ("UINT_32",)}
    return types.get(kind, ("UFIXED_POINT_8", "UINT_8"))


def _socs() -> dict[str, str]:
    rows = (f'{{"{row.name}", {row.model}, {row.arch.removeprefix("v")}, {row.tcm}}},' for row in socs.ALL.values())
    return {"socs.inc": "\n".join(rows) + "\n"}


_RANKS = tuple(range(1, 6))  # libQnnHtp 2.47 crashes on rank 0 and has no flat layout beyond 6

# What checks miss on htp, and an alternative; measured with kernels that have exactly these bugs.
_SIDE_BY_SIDE = (
    "on htp the runtime has tensors side by side in its own memory, where stray accesses are not seen "
    "(--backend hexagon sees them)"
)

_HANGS = (
    "not checked on htp, whose runtime often hangs when two graphs are executed at the same time, "
    "with any op (--backend htp-emulator runs them)"
)

BACKEND = Backend(
    id="htp",
    title="HTP (DSP V68 and later)",
    suffix="Htp",
    common_kernels=(".cpp", ".py"),
    kernels=("{}.cpp", "{}.py"),
    stores_unsigned=True,
    number=6,
    names=("HTP",),
    json_names=("DSP", "HTP"),
    hexagon=range(68, 100),
    # libQnnHtp 2.47 refuses other types and strings, or crashes; it passes parameters without names.
    can_repeat=False,
    can_omit=False,
    ends=on_call("udogen.backends.htp_files", "absent_at_end"),
    has_texts=False,
    names_params=False,
    delivers=(
        *("FLOAT_32", "FLOAT_16", "UFIXED_POINT_8", "SFIXED_POINT_8", "UFIXED_POINT_16", "SFIXED_POINT_16"),
        *("INT_32", "UINT_32", "INT_16", "UINT_16", "INT_8", "UINT_8", "BOOL_8"),
    ),
    activations=True,
    contents=on_call("udogen.backends.htp_files", "contents"),
    libraries="build",
    interfaces={"qhpi": "htp", "core": "htp_core"},
    usual=True,
    targets=_TARGETS,
    udo_targets=tuple(_udo(target) for target in _TARGETS if target.id != "htp_android"),
    runtime=HostRuntime(
        "libQnnHtp.so",
        ranks=_RANKS,
        keeps_memory=True,  # 2.47 of x86-64 does
        validates=False,  # 2.47 to 2.51 do not: a client must request it
        one_at_a_time=("x86_64",),  # one thread pool there, for its simulated processor
        forks=False,  # 2.47 of x86-64 hangs when it is called, and crashes in its destructors
        prints=True,
        buffers=True,
        wide_in_ort=False,  # only before a Cast
    ),
    skels=("libQnnHtp{arch}Skel.so",),
    # On Arm, libQnnHtp.so opens libQnnHtpPrepare.so, and only that one exports QHPI (seen in 2.51).
    device_libraries=("libQnnHtpPrepare.so",),
    symbols="dsp_symbols.txt",
    emulator=Emulator("libUdogenEmulatorHtp.so", tables=_socs),
    harness=Harness(
        arch="v73",
        sources=("harness", "kernels", "tensors", "request", "guards", "wire", "common"),
        ranks=_RANKS,
        protocol="qhpi",
        records=True,
        elsewhere="run the same kernel with --backend htp, where debuggers and sanitizers work",
        # HVX floating point compiles, though QEMU does not run it.
        flags="-mhvx-qfloat -mhvx-ieee-fp",
    ),
    udo=UdoCore(
        core="DSP",
        folder="jni/src/DSP_V68",
        library="libUdo{}ImplDsp.so",
        link="-Wl,-z,undefs -Wl,-z,nodelete",  # see templates/qnn/htp/Makefile.mako
        loaded_with="libSnpeHtpPrepare.so",
        calculates=("INT_8", "INT_16"),
        instead=_instead,
        native="dsp_x86",
        compared="records",
        machines=("hexagon",),
        net_run=("--use_dsp",),
    ),
    places=(
        Place(
            "htp",
            "htp",
            "Qualcomm's HTP runtime",
            "auto",
            _RANKS,
            "HTP",
            blind={"guard": _SIDE_BY_SIDE, "sanitize address": _SIDE_BY_SIDE, "sanitize thread": _HANGS},
        ),
        Place("hexagon", "htp", "HTP kernels as Hexagon code under qemu-hexagon", "instructions", _RANKS, "Hexagon"),
        Place("htp-emulator", "htp", "udogen's HTP emulator", "emulator", _RANKS, "HTP, emulated", "htp", usual=False),
    ),
    calls_runtime=True,
    two_halves=True,
    prepares_for_soc=True,
)
