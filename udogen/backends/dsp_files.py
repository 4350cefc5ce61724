"""The files of a package for the DSP backend."""

from __future__ import annotations

from dataclasses import dataclass, replace

from udogen.backends import common, dsp, op_tables, vendor
from udogen.backends.plan import Source
from udogen.opdef.model import Op, OpPackage, Tensor

_FOLDER = common.BackendFolder(
    backend="dsp",
    library="libQnn{package}.so",
    targets=dsp.BACKEND.target_ids(),
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
    copies=(),
    shared=("makefiles/Makefile.hexagon", "makefiles/hexagon/layout.ld", "makefiles/hexagon/start.cpp"),
    header=(
        "shared/BackendUtils.hpp",
        "shared/Values.hpp",
        "dsp/BackendTensor.hpp",
        "shared/CustomOpUtils.hpp",
        "dsp/Dsp.hpp",
        "shared/Executions.hpp",
        "dsp/DspBackendUtils.hpp",
    ),
    support=(
        "shared/BackendUtils.cpp",
        "shared/Executions.cpp",
        "dsp/DspParams.hpp",
        "dsp/DspParams.cpp",
        "dsp/DspBackendUtils.cpp",
    ),
    data={"architectures": common.architectures_of("dsp")},
)

# For a package whose kernels are in the style of Qualcomm's generators.
_VENDOR_FOLDER = _FOLDER._replace(
    templates={"Makefile": "Makefile.mako", "include/DspOps.hpp": "include/VendorDspOps.hpp.mako"},
    header=("shared/BackendUtils.hpp", "shared/Executions.hpp", "dsp/DspVendorOps.hpp"),
    support=(
        "shared/BackendUtils.cpp",
        "shared/Executions.cpp",
        "dsp/DspParams.hpp",
        "shared/VendorParams.hpp",
        "dsp/DspVendorOps.cpp",
    ),
)


@dataclass(frozen=True, eq=False, repr=False)
class _DspOp(op_tables.OpNames):
    interface: str
    library: str
    sorts_params: str
    input_quantization: tuple[str, ...]
    output_quantization: tuple[str, ...]


def contents(package: OpPackage, source: Source, place: common.Placement = common.QNN) -> common.Contents:
    """What the DSP backend contributes; each of several ops has its own library, whose name ends with the op's."""
    op_of = "{op}" if len(package.ops) > 1 else ""
    interface = f"src/{package.name}{op_of}Interface.cpp"
    library = f"libQnn{package.name}{op_of}.so"

    def view(base: op_tables.OpNames, op: Op) -> op_tables.OpNames:
        return _DspOp(
            **vars(op_tables.with_only_defaults(base, op) if source.vendor.get("dsp") else base),
            interface=interface.format(op=op.name),
            library=library.format(op=op.name),
            sorts_params="false" if place.has_cl_files else "true",
            input_quantization=tuple(_quantization(tensor) for tensor in op.inputs),
            output_quantization=tuple(_quantization(tensor) for tensor in op.outputs),
        )

    if source.vendor.get("dsp"):
        vendor.refuse_mixture("dsp", package, source)
        folder = _VENDOR_FOLDER._replace(op_templates={interface: "src/VendorInterface.cpp.mako"}, view=view)
    else:
        files = {"include/ops/{op}.hpp": "../shared/include/ops/Op.hpp.mako", interface: "src/Interface.cpp.mako"}
        folder = _FOLDER._replace(op_templates=files, view=view)
    in_one = common.contents(package, source, folder, place)
    if not op_of:
        return in_one
    [part] = in_one.parts
    sources = {op: [place.own(path) for path in (interface.format(op=op), f"src/ops/{op}.cpp")] for op in part.ops}
    of_all = [path for path in part.sources if not any(path in own for own in sources.values())]
    parts = [
        replace(part, library=library.format(op=op), ops=(op,), op=op, sources=tuple(sorted([*of_all, *sources[op]])))
        for op in part.ops
    ]
    return in_one._replace(parts=tuple(parts))


def _quantization(tensor: Tensor) -> str:
    """What queryOp returns: plain floats, or stored numbers with their range."""
    return "UDO_QUANTIZATION_NONE" if tensor.datatypes[0].kind == "float" else "UDO_QUANTIZATION_TF"
