"""The DSP backend (V65, V66): how a model is said in C++ against UDO's functions, one op in each library."""

from __future__ import annotations

from dataclasses import dataclass, replace

from udogen.backends import cxx, folder, targets
from udogen.backends.plan import Source
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.opdef.names import cpp_string

_FOLDER = folder.Folder(
    backend="dsp",
    library="libQnn{package}.so",
    targets=targets.of_backend("dsp"),
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
        "src/utils/CustomOpUtils.hpp",
        "src/utils/DSP/DspBackendUtils.hpp",
        "src/utils/DSP/DspBackendUtils.cpp",
        "src/utils/DSP/DspParams.cpp",
        "src/utils/DSP/DspParams.hpp",
    ),
    shared=("makefiles/Makefile.hexagon", "makefiles/hexagon/layout.ld", "makefiles/hexagon/start.cpp"),
    data={"architectures": folder.architectures_of("dsp")},
)


@dataclass(frozen=True, eq=False, repr=False)
class _DspOp(cxx.OpView):
    interface: str
    library: str
    input_quantization: tuple[str, ...]
    output_quantization: tuple[str, ...]


def contents(package: OpPackage, source: Source, place: folder.Placement = folder.QNN) -> folder.Contents:
    """What the DSP backend contributes; where there are several ops, libraries and their sources are named by them."""
    op_of = "{op}" if len(package.ops) > 1 else ""
    interface = f"src/{package.name}{op_of}Interface.cpp"
    library = f"libQnn{package.name}{op_of}.so"

    def view(base: cxx.OpView, op: Op) -> cxx.OpView:
        return _DspOp(
            **cxx.fields_of(base),
            interface=interface.format(op=op.name),
            library=library.format(op=op.name),
            input_quantization=tuple(_quantization(tensor) for tensor in op.inputs),
            output_quantization=tuple(_quantization(tensor) for tensor in op.outputs),
        )

    files = {"include/ops/{op}.hpp": "include/ops/Op.hpp.mako", interface: "src/Interface.cpp.mako"}
    own = replace(_FOLDER, op_templates=files, view=view)
    made = folder.contents(package, source, own, _DIALECT, place)
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
    """What queryOp answers: floats as they are, or the stored numbers with their range."""
    return "UDO_QUANTIZATION_NONE" if tensor.datatypes[0].kind == "float" else "UDO_QUANTIZATION_TF"


_DIALECT = cxx.Dialect(element=cxx.stored, key=lambda param, _index: cpp_string(param.name), default=cxx.raw_tensor)
