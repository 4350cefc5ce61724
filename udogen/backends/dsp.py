"""The DSP backend (V65, V66): C++ for UDO's functions, one op in each library."""

from __future__ import annotations

from udogen.backends.backend import Backend, Harness, Place, UdoCore, hexagon_targets, on_call

_TARGETS = hexagon_targets("dsp")

_LIBRARIES = "dsp_v60"  # the folder for all versions before V68 in a package of the UDO documentation

_RANKS = (0, 1, 2, 3, 4)  # Hexagon NN stores tensors with four axes

BACKEND = Backend(
    id="dsp",
    title="DSP V65/V66",
    suffix="Dsp",
    common_kernels=(".cpp", ".py"),
    kernels=("{}.cpp", "{}.py"),
    number=5,
    names=("DSP",),
    json_names=("DSP",),
    hexagon=range(68),
    can_repeat=False,
    # An absent input keeps its position (UDO_LAYOUT_NULL).
    # "Compiling a UDO package": the DSP passes bytes, or floats converted from them.
    delivers=("FLOAT_32", "UFIXED_POINT_8", "UINT_8"),
    # Parameters are copied unchanged; UDO has no 64-bit values.
    params=(
        *("FLOAT_32", "FLOAT_16", "INT_32", "UINT_32", "INT_16", "UINT_16", "INT_8", "UINT_8", "BOOL_8"),
        *("SFIXED_POINT_8", "UFIXED_POINT_8", "SFIXED_POINT_16", "UFIXED_POINT_16"),
        *("SFIXED_POINT_32", "UFIXED_POINT_32"),
    ),
    one_type=True,
    activations=True,
    contents=on_call("udogen.backends.dsp_files", "contents"),
    libraries="build",
    library_per_op=True,
    targets=_TARGETS,
    udo_targets=tuple(target._replace(folders=(_LIBRARIES,)) for target in _TARGETS),
    skels=("libQnnDsp{arch}Skel.so", "libSnpeDsp{arch}Skel.so"),
    symbols="dsp_symbols_v65_v66.txt",
    harness=Harness(
        arch="v66",
        sources=("dsp", "dsp_functions", "dsp_request", "guards", "wire", "common"),
        ranks=_RANKS,
        protocol="udo",
        records=False,
        elsewhere="a kernel for --backend cpu that does the same can be debugged on this machine",
        # An op must not use the heap while it executes: the harness counts calls.
        wrapped=("__cxa_throw", "malloc", "calloc", "realloc"),
    ),
    # One folder for the whole family, named after its first version.
    udo=UdoCore(
        core="DSP",
        folder="jni/src/DSP_V65",
        library="libUdo{}ImplDsp.so",
        shows=("include/DspOps.hpp",),
        one_library=True,
        calculates=("INT_8", "INT_16"),
        instead=lambda kind: ("FLOAT_32",) if kind == "float" else ("UFIXED_POINT_8", "UINT_8"),
    ),
    places=(Place("dsp", "dsp", "DSP V65/V66 kernels under qemu-hexagon", "instructions", _RANKS, "DSP"),),
)
