"""The DSP backend (V65, V66): C++ for UDO's functions, one op in each library."""

from __future__ import annotations

from dataclasses import dataclass, replace

from udogen.backends import common, op_tables, vendor
from udogen.backends.backend import Backend, Harness, Place, UdoCore, hexagon_targets
from udogen.backends.plan import Source
from udogen.opdef.model import Op, OpPackage, Tensor

_TARGETS = hexagon_targets("dsp")
_LIBRARIES = "dsp_v60"  # the folder for all versions before V68 in a package of the UDO documentation

_FOLDER = common.BackendFolder(
    backend="dsp",
    library="libQnn{package}.so",
    targets=tuple(each.id for each in _TARGETS),
    headers=(
        "QnnCommon.h",
        "QnnTypes.h",
        "QnnLog.h",
        "QnnOpPackage.h",
        "DSP/QnnDspOpPackage.h",
        "DSP/Udo/UdoImplDsp.h",
        "SnpeUdo/UdoBase.h",
        "SnpeUdo/UdoShared.h",
        "SnpeUdo/UdoImpl.h",
        "SnpeUdo/UdoImplDsp.h",
    ),
    templates={"Makefile": "Makefile.mako", "include/DspOps.hpp": "include/DspOps.hpp.mako"},
    copies=(
        "src/utils/BackendTensor.hpp",
        "src/utils/DSP/Dsp.hpp",
        "src/utils/DSP/DspBackendUtils.hpp",
        "src/utils/DSP/DspBackendUtils.cpp",
        "src/utils/DSP/DspParams.cpp",
        "src/utils/DSP/DspParams.hpp",
    ),
    shared=("makefiles/Makefile.hexagon", "makefiles/hexagon/layout.ld", "makefiles/hexagon/start.cpp", common.VIEWS),
    glue="DSP/DspBackendUtils.hpp",
    data={"architectures": common.architectures_of("dsp")},
)

# Of a package whose kernels are in the style of Qualcomm's generators.
_VENDOR_FOLDER = replace(
    _FOLDER,
    templates={"Makefile": "Makefile.mako", "include/DspOps.hpp": "include/VendorDspOps.hpp.mako"},
    copies=("src/utils/DSP/DspVendorOps.cpp", "src/utils/DSP/DspVendorOps.hpp"),
    shared=tuple(path for path in _FOLDER.shared if path != common.VIEWS),
    kernel="src/ops/VendorOp.cpp.mako",
)


@dataclass(frozen=True, eq=False, repr=False)
class _DspOp(op_tables.OpNames):
    interface: str
    library: str
    input_quantization: tuple[str, ...]
    output_quantization: tuple[str, ...]


def contents(package: OpPackage, source: Source, place: common.Placement = common.QNN) -> common.Contents:
    """What the DSP backend contributes; of several ops, each has a library, which its name ends."""
    op_of = "{op}" if len(package.ops) > 1 else ""
    interface = f"src/{package.name}{op_of}Interface.cpp"
    library = f"libQnn{package.name}{op_of}.so"

    def view(base: op_tables.OpNames, op: Op) -> op_tables.OpNames:
        return _DspOp(
            **vars(base),
            interface=interface.format(op=op.name),
            library=library.format(op=op.name),
            input_quantization=tuple(_quantization(tensor) for tensor in op.inputs),
            output_quantization=tuple(_quantization(tensor) for tensor in op.outputs),
        )

    if source.vendor.get("dsp"):
        vendor.refuse_mixture("dsp", package, source)
        folder = replace(_VENDOR_FOLDER, op_templates={interface: "src/VendorInterface.cpp.mako"}, view=view)
    else:
        files = {"include/ops/{op}.hpp": "../shared/include/ops/Op.hpp.mako", interface: "src/Interface.cpp.mako"}
        folder = replace(_FOLDER, op_templates=files, view=view)
    made = common.contents(package, source, folder, place)
    if not op_of:
        return made
    [part] = made.parts
    sources = {op: [place.own(path) for path in (interface.format(op=op), f"src/ops/{op}.cpp")] for op in part.ops}
    of_all = [path for path in part.sources if not any(path in own for own in sources.values())]
    parts = [
        replace(part, library=library.format(op=op), ops=(op,), op=op, sources=tuple(sorted([*of_all, *sources[op]])))
        for op in part.ops
    ]
    return replace(made, parts=tuple(parts))


def _quantization(tensor: Tensor) -> str:
    """What queryOp returns: plain floats, or stored numbers with their range."""
    return "UDO_QUANTIZATION_NONE" if tensor.datatypes[0].kind == "float" else "UDO_QUANTIZATION_TF"


_RANKS = (0, 1, 2, 3, 4)  # Hexagon NN keeps tensors with four axes

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
    # Parameters are copied as they are; UDO has no values of 64 bits.
    params=(
        *("FLOAT_32", "FLOAT_16", "INT_32", "UINT_32", "INT_16", "UINT_16", "INT_8", "UINT_8", "BOOL_8"),
        *("SFIXED_POINT_8", "UFIXED_POINT_8", "SFIXED_POINT_16", "UFIXED_POINT_16"),
        *("SFIXED_POINT_32", "UFIXED_POINT_32"),
    ),
    one_type=True,
    activations=True,
    contents=contents,
    libraries="build",
    library_per_op=True,
    targets=_TARGETS,
    udo_targets=tuple(each._replace(folders=(_LIBRARIES,)) for each in _TARGETS),
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
    # One folder for the whole family, named by its first version.
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
