"""The DSP backend (V65, V66): how a model is said in C++ against UDO's functions, one op in each library."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from udogen.backends import cxx, folder, targets
from udogen.backends.plan import Source, record
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
        "src/utils/BackendTensor.hpp",
        "src/utils/DSP/Dsp.hpp",
        "src/utils/DSP/DspBackendUtils.hpp",
        "src/utils/DSP/DspBackendUtils.cpp",
        "src/utils/DSP/DspParams.cpp",
        "src/utils/DSP/DspParams.hpp",
    ),
    shared=("makefiles/Makefile.hexagon", "makefiles/hexagon/layout.ld", "makefiles/hexagon/start.cpp", folder.VIEWS),
    glue="DSP/DspBackendUtils.hpp",
    data={"architectures": folder.architectures_of("dsp")},
)


def contents(package: OpPackage, source: Source, place: folder.Place = folder.as_called) -> folder.Contents:
    """What the DSP backend contributes; where there are several ops, libraries and their sources are named by them."""
    op_of = "{op}" if len(package.ops) > 1 else ""
    interface = f"src/{package.name}{op_of}Interface.cpp"
    library = f"libQnn{package.name}{op_of}.so"

    def say(said: SimpleNamespace, op: Op) -> None:
        said.interface = interface.format(op=op.name)
        said.library = library.format(op=op.name)
        said.input_quantization = [_quantization(tensor) for tensor in op.inputs]
        said.output_quantization = [_quantization(tensor) for tensor in op.outputs]

    files = {"include/ops/{op}.hpp": "../shared/include/ops/Op.hpp.mako", interface: "src/Interface.cpp.mako"}
    own = replace(_FOLDER, op_templates=files, say=say)
    made = folder.contents(package, source, own, _DIALECT, place)
    if not op_of:
        return made
    [part] = made.parts
    parts = [replace(part, library=library.format(op=op), ops=(op,), op=op) for op in part.ops]
    return replace(made, parts=tuple(parts))


def _quantization(tensor: Tensor) -> str:
    """What queryOp answers: floats as they are, or the stored numbers with their range."""
    return "UDO_QUANTIZATION_NONE" if tensor.datatypes[0].kind == "float" else "UDO_QUANTIZATION_TF"


def _default(table: str, _view: str, default: cxx.Default) -> tuple[SimpleNamespace, str]:
    """A tensor of the runtime's own kind, made of the tables."""
    made = f"defaultTensor({cxx.code(default.datatype)}, {default.data}, {default.dims}, {default.rank})"
    return record(type="", name=f"{table}Default", value=made), f"&{table}Default"


_DIALECT = cxx.Dialect(element=cxx.stored, key=lambda param, _index: cpp_string(param.name), default=_default)
