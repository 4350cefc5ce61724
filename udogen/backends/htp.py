"""The HTP backend: C++ for QHPI, the C plug-in interface of HTP.  `htp_core` has the older C++ interface."""

from __future__ import annotations

from dataclasses import replace

from udogen.backends import common, htp_core, op_tables, vendor
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
    udo_target,
)
from udogen.backends.plan import Source
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage
from udogen.qnn import socs

_UTILS = ("HtpBackendUtils.cpp", "HtpGraph.cpp", "HtpParameters.cpp", "HtpRegistration.cpp")


def _view(base: op_tables.OpNames, op: Op) -> op_tables.OpNames:
    """Add tables of the defaults of parameters, if a client may leave out one before others."""
    if len(op.params) < 2:
        return base
    base = replace(base, most_inputs=base.most_inputs + 1)
    tables = {table.name: table for table in base.tables}
    rows = []
    for index, param in enumerate(op.params):
        if param.default is None:
            continue
        name = base.table_names[param.role, param.name]
        datatype = op_tables.default_type(param)
        if param.is_scalar:
            default = op_tables.scalar_default(param, name)
            datatype = default.datatype
            tables |= {table.name: table for table in (default.data, default.dims)}
        rows.append((str(index), op_tables.code(datatype), f"{name}_data", f"sizeof {name}_data", f"{name}_dims"))
    if not rows:
        return base
    defaults = op_tables.Table("ParamDefault", f"{base.prefix}_defaults", tuple(rows))
    return replace(base, tables=(*tables.values(), defaults), param_defaults=defaults.name)


def _element(datatype: DataType) -> str:
    """Signed types of 8 and 16 bits arrive as unsigned with an offset, halves as udo::Half."""
    if datatype.name == "FLOAT_16":
        return "udo::Half"
    if datatype.bits in (8, 16):
        return f"std::uint{datatype.bits}_t"
    return op_tables.stored(datatype)


def _shift(datatype: DataType) -> int:
    """The offset of signed types."""
    signed = datatype.name in ("INT_8", "INT_16", "SFIXED_POINT_8", "SFIXED_POINT_16")
    return 1 << (datatype.bits - 1) if signed else 0


def _default(default: op_tables.Default, view: str) -> op_tables.Expression:
    """A view of the tables."""
    shift = f", {_shift(default.datatype)}" if _shift(default.datatype) else ""
    element = f"elementOf({op_tables.code(default.datatype)})"
    return op_tables.Expression(f"{view}({default.data.name}, shapeOf({default.dims.name}), {element}{shift})")


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

_FOLDER = common.BackendFolder(
    backend="htp",
    library="libQnn{package}.so",
    targets=tuple(each.id for each in _TARGETS),
    headers=("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h", "HTP/core/qhpi.h"),
    templates={"Makefile": "Makefile.mako", "src/{package}Interface.cpp": "src/Interface.cpp.mako"},
    copies=(
        "src/utils/BackendTensor.hpp",
        "src/utils/HtpBackendUtils.hpp",
        "src/utils/HtpGraph.hpp",
        "src/utils/HtpHooks.hpp",
        "src/utils/HtpParameters.hpp",
        "src/utils/HtpRegistration.hpp",
        *(f"src/utils/{name}" for name in _UTILS),
    ),
    shared=(
        "src/utils/PackageTables.hpp",
        "src/utils/Validation.hpp",
        "src/utils/Validation.cpp",
        "makefiles/Makefile.linux-x86_64",
        "makefiles/Makefile.linux-aarch64",
        "makefiles/Makefile.android-aarch64",
        "makefiles/Makefile.hexagon",
        "makefiles/hexagon/layout.ld",
        "makefiles/hexagon/start.cpp",
        common.VIEWS,
    ),
    glue="HtpHooks.hpp",
    hooks=True,
    api="qhpi",
    dialect=op_tables.Dialect(element=_element, key=lambda _param, index: str(index), default=_default, shift=_shift),
    view=_view,
    data={"architectures": common.architectures_of("htp"), "core": False},
)

# Of a package whose kernels register themselves with QHPI, as Qualcomm's generator writes them.
_VENDOR_FOLDER = replace(
    _FOLDER,
    templates={
        "Makefile": "Makefile.mako",
        "src/{package}Interface.cpp": "src/VendorInterface.cpp.mako",
        "include/HTP/core/qhpi.h": "include/HTP/core/qhpi.h.mako",
    },
    copies=tuple(f"include/HTP/core/{name}.h" for name in ("constraints", "intrinsics", "log")),
    shared=tuple(path for path in _FOLDER.shared if path != common.VIEWS),
    op_templates={},
    view=lambda base, _op: base,
)


def contents(package: OpPackage, source: Source, place: common.Placement = common.QNN) -> common.Contents:
    """What the HTP backend contributes to a package folder."""
    if source.htp_api == "core":
        return htp_core.contents(package, source, _FOLDER, place)
    if source.vendor.get("htp"):
        vendor.refuse_mixture("htp", package, source, complete=True)
        own = replace(_VENDOR_FOLDER, data={**_VENDOR_FOLDER.data, "registrations": source.registrations})
        return common.contents(package, source, own, place)
    return common.contents(package, source, _FOLDER, place)


def _ends(op: Op) -> frozenset[str]:
    """The optional inputs at the end whose absence shows in the number of a node's values, or in their types.

    A node has its inputs, then its parameters, which may be absent at the end, too.
    """
    found: list[str] = []
    types = [row for param in op.params for row in param.datatypes]
    arrive = {_element(row) for row in types}
    arrive |= {"std::int32_t" for row in types if row.integral}  # ONNX Runtime passes all integers so
    arrive |= {"float" for row in types if row.kind == "bool"}
    counted = all(param.required for param in op.params)
    for tensor in reversed(op.inputs):
        alike = {_element(row) for row in tensor.accepted}
        if (tensor.mandatory and tensor.default is None) or tensor.repeated or not (counted or not alike & arrive):
            break
        found.append(tensor.name)
    return frozenset(found)


def _udo(target: Target) -> Target:
    """A target as the UDO documentation names it: HTP is the DSP."""
    ending = "_AltPrep" if target.id == "htp_aarch64" else ""
    return udo_target(target)._replace(id=target.id.replace("htp_", "dsp_"), ending=ending)


def _instead(kind: str) -> tuple[str, ...]:
    """The types that the DSP passes to an op: bytes and floats, since V68 also integers of 32 bits."""
    found = {"float": ("FLOAT_32",), "int": ("INT_32",), "uint": ("UINT_32",)}
    return found.get(kind, ("UFIXED_POINT_8", "UINT_8"))


def _socs() -> dict[str, str]:
    rows = (f'{{"{row.name}", {row.model}, {row.arch.removeprefix("v")}, {row.tcm}}},' for row in socs.ALL.values())
    return {"socs.inc": "\n".join(rows) + "\n"}


_RANKS = tuple(range(1, 6))  # libQnnHtp 2.47 crashes on rank 0 and has no flat layout beyond 6
# What checks miss there, and an alternative; measured with kernels that have exactly these faults.
_SIDE_BY_SIDE = (
    "on htp tensors lie side by side in memory of the runtime, where stray accesses are not seen "
    "(--backend hexagon sees them, and --backend htp-emulator what is written)"
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
    ends=_ends,
    has_texts=False,
    names_params=False,
    delivers=(
        *("FLOAT_32", "FLOAT_16", "UFIXED_POINT_8", "SFIXED_POINT_8", "UFIXED_POINT_16", "SFIXED_POINT_16"),
        *("INT_32", "UINT_32", "INT_16", "UINT_16", "INT_8", "UINT_8", "BOOL_8"),
    ),
    activations=True,
    contents=contents,
    libraries="build",
    interfaces={"qhpi": "htp", "core": "htp_core"},
    usual=True,
    targets=_TARGETS,
    udo_targets=tuple(_udo(each) for each in _TARGETS if each.id != "htp_android"),
    runtime=HostRuntime(
        "libQnnHtp.so",
        ranks=_RANKS,
        keeps_memory=True,  # 2.47 of x86-64 does
        validates=False,  # 2.47 to 2.51 do not: a client must ask for it
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
    emulator=Emulator("libUdogenEmulatorHtp.so", traces_graph=True, tables=_socs),
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
        Place("htp-ort", "htp", "ONNX Runtime with Qualcomm's HTP runtime", "ort", _RANKS, "HTP (ONNX Runtime)", "htp"),
        Place("htp-emulator", "htp", "udogen's HTP emulator", "emulator", _RANKS, "HTP, emulated", "htp", usual=False),
    ),
    calls_runtime=True,
    two_halves=True,
    prepares_for_soc=True,
)
