"""What a library of a package is for: the classes of the objects in this folder, one object for each backend.

All that differs from one backend to another is a field here, and is asked for; nothing compares names of backends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from udogen.backends import architectures, common
from udogen.backends.plan import Source
from udogen.opdef.model import Op, OpPackage

STRICT = "-Wl,-z,defs"  # how a library is linked that leaves nothing undefined
NOT_BUILT = "command line recorded by a stand-in {}; not built with a real NDK, not run on hardware"


class Target(NamedTuple):
    """One make target: where its library goes, and the machine it is for."""

    id: str
    backend: str
    folders: tuple[str, ...]  # below libs/; of several the toolchain chooses one, by itself the first is meant
    machine: str  # in words
    compiler: str  # the toolchain's word for what it must be able to compile for: x86, aarch64, android, hexagon, …
    verified: str  # how we know that it works, for the README
    native: bool = False  # runs on this machine
    arch: str = ""  # the version of Hexagon
    ending: str = ""  # of its library's name, where several libraries of a package lie in one folder
    usual: bool = False  # part of the groups `all` and that of the backend's name

    @property
    def folder(self) -> str:
        """Where its library goes, unless the toolchain chooses another folder."""
        return self.folders[0]


def hexagon_targets(backend: str) -> tuple[Target, ...]:
    """A target for each version of Hexagon that a backend runs on."""
    return tuple(
        Target(
            f"{backend}_{arch.name}",
            backend,
            (f"hexagon-{arch.name}",),
            f"Hexagon {arch.name}",
            "hexagon",
            arch.verified,
            arch=arch.name,
            usual=arch.open,
        )
        for arch in architectures.of_backend(backend).values()
    )


_UDO_FOLDERS = {"x86_64-linux-clang": "x86-64_linux_clang", "aarch64-android": "arm64-v8a"}


def udo_target(target: Target) -> Target:
    """The same target in a package of the UDO documentation, where libraries lie in other folders."""
    folders = (_UDO_FOLDERS.get(each, each.replace("hexagon-", "dsp_")) for each in target.folders)
    return target._replace(folders=tuple(folders))


@dataclass(frozen=True)
class UdoCore:
    """The place of a backend in a package of the UDO documentation (layout `snpe`), and how SNPE runs it."""

    core: str  # CPU, GPU, DSP: as the SnpeUdo API calls it; several backends may be one core
    folder: str  # of its sources
    library: str  # `{}` is the name of the package
    link: str = STRICT  # what may stay undefined
    shows: tuple[str, ...] = ()  # files of the folder that the documentation shows, besides the interface and the ops
    android: bool = False  # ndk-build makes its library for devices
    own_makefile: bool = False  # the documentation shows a Makefile.linux-x86_64 in its folder
    one_library: bool = False  # the library for the oldest version of Hexagon serves all
    loaded_with: str = ""  # a library of SNPE that must be loaded together with it on aarch64
    calculates: tuple[str, ...] = ()  # the types in which kernels of SNPE's own packages calculate
    # Of the kind of a type that the core does not know: the types that replace it ("Compiling a UDO package").
    instead: Callable[[str], tuple[str, ...]] | None = None
    floats_and_bytes: bool = False  # models are of floats or quantized, and a config names one of the two
    native: str = ""  # the target whose library the runtime of this machine loads
    machines: tuple[str, ...] = ()  # other machines whose libraries the core itself loads
    not_run: str = ""  # why no runtime of this machine runs it
    net_run: tuple[str, ...] = ()  # options of snpe-net-run
    compared: str = ""  # what of its library is compared with the registration: its `records` or its `validation`


@dataclass(frozen=True)
class HostRuntime:
    """Qualcomm's library that runs the packages of a backend, and what was measured of it."""

    library: str
    ranks: tuple[int, ...]  # of tensors
    forwards_log: bool = True  # it calls a package's logInitialize; where it does not, the worker does
    clears_outputs: bool = False  # it fills outputs with zeros at each execution: a client cannot fill them otherwise
    keeps_memory: bool = False  # of tensors, from one graph to the next: only in a new process is it new
    validates: bool = True  # it calls a package's validateOpConfig before it adds a node
    machines: tuple[str, ...] = ("x86_64", "aarch64")  # on which it can run
    # Machines on which all graphs of a process wait for each other: two executions at once never end.
    one_at_a_time: tuple[str, ...] = ()
    forks: bool = True  # a process that is forked while the library is in use can use it too, and end
    prints: bool = False  # to stdout and stderr, what belongs into a log (`udogen.qnn.interface`)
    hint: str = "pip install onnxruntime-qnn==2.3.0 (the last release that carries libQnnCpu.so), or set QNN_SDK_ROOT"
    essential: bool = False  # a machine without it is not ready for udogen
    ort_below: tuple[int, ...] = ()  # the first release of ONNX Runtime's plug-in that does not carry it
    strict_in_ort: bool = True  # a session of ONNX Runtime can be forbidden to use any other processor
    wide_in_ort: bool = True  # custom ops have tensors of 64 bits in ONNX Runtime
    drops_unknown_ops: bool = False  # it restores a context without the ops of a package that is not registered
    buffers: bool = False  # it takes buffers of the client for weights and spill-fill (external buffers)


@dataclass(frozen=True)
class Emulator:
    """A QNN backend of our own: a folder of udogen/emulator, beside `core`."""

    library: str
    header: str = ""  # that its sources need besides udogen's own
    install: str = ""  # what brings header and runtime
    traces_graph: bool = False  # it can show what becomes of a graph (--graph)
    tables: Callable[[], dict[str, str]] = dict  # files that its sources include, made of udogen's tables


@dataclass(frozen=True)
class Harness:
    """A program that plays the runtime of a backend under qemu-hexagon."""

    arch: str  # the version of Hexagon unless another one is chosen
    sources: tuple[str, ...]
    ranks: tuple[int, ...]
    protocol: str  # of requests and results: `qhpi` or `udo`
    records: bool  # a package has several kernels of an op, one of which is chosen (--kernel, --slices)
    elsewhere: str  # where debuggers and sanitizers work
    wrapped: tuple[str, ...] = ("__cxa_throw",)  # calls that the linker sends through it: QEMU unwinds no exception
    flags: str = ""


@dataclass(frozen=True, eq=False)
class Place:
    """One place in which ops run: as test files and `--backend` call it."""

    id: str
    config: str  # whose packages run there: a backend of configs
    title: str
    kind: str  # a kind of `find_runtime`; `instructions`: no runtime, but the instruction set; `ort`: ONNX Runtime
    ranks: tuple[int, ...]
    heading: str  # in reports
    twin: str = ""  # the place whose cases it takes too
    usual: bool = True  # also where it is not asked for
    blind: Mapping[str, str] = field(
        default_factory=dict
    )  # check of safety -> why it sees nothing there, and what does
    device: str = ""  # the device that it is on, as `--on` names it; empty: this machine

    @property
    def instructions(self) -> bool:
        """It runs Hexagon code in QEMU: each call is a process, packets are counted, time means nothing."""
        return self.kind == "instructions"

    @property
    def client(self) -> bool:
        """A program that loads packages runs the op, as users do; times and memory of the op are not seen."""
        return self.kind == "ort"

    @property
    def watched(self) -> bool:
        """A runtime in a child of udogen, in which times are measured and memory is watched."""
        return not self.instructions and not self.client and not self.device

    @property
    def base(self) -> str:
        """The place of this machine that test files name."""
        return self.id.partition("@")[0]


@dataclass(frozen=True, eq=False)
class Kind:
    """What a library of a package is for: a backend, registration with SNPE, or converters."""

    id: str  # as on the command line and in manifests
    title: str
    targets: tuple[Target, ...] = ()
    udo_targets: tuple[Target, ...] = ()  # in a package of the UDO documentation
    udo: UdoCore | None = None
    opencl: bool = False  # its sources may call OpenCL
    cmake: bool = False  # CMake builds it too, on Windows nothing else does
    registration: bool = False  # SNPE loads it, and finds the other libraries of a package by it
    converter: bool = False  # converters load it

    @property
    def runs_ops(self) -> bool:
        """True for backends."""
        return False

    def target_ids(self, layout: str = "qnn") -> tuple[str, ...]:
        """The names of its targets in this layout."""
        return tuple(each.id for each in (self.udo_targets if layout == "snpe" else self.targets))


@dataclass(frozen=True, eq=False, kw_only=True)
class Backend(Kind):
    """One backend of QNN: what it takes, how a package for it is made, and where its packages run."""

    # What it is called.
    suffix: str  # in file and folder names
    number: int  # in the API of QNN
    names: tuple[str, ...]  # in configs; DSP with a version is a name of the backend that runs on that version
    json_names: tuple[str, ...]  # of its supplements in a JSON config
    hexagon: range = range(0)  # the versions of Hexagon that it runs on
    # What it takes.
    can_repeat: bool = True  # inputs and outputs of unknown number
    can_omit: bool = True  # inputs and outputs that a client leaves out
    ends: Callable[[Op], frozenset[str]] | None = None  # where it cannot: inputs at the end that may be missing even so
    has_texts: bool = True  # parameters that are texts
    names_params: bool = True  # an op finds its parameters by name; otherwise by their place
    # Types of tensors that reach a custom op (measured); none: the backend itself refuses what it does not have.
    delivers: tuple[str, ...] = ()
    params: tuple[str, ...] = ()  # the same of tensor parameters, where it is other types
    one_type: bool = False  # an op declares once, for all graphs, of which type each input and output is
    activations: bool = False  # in JSON configs UINT_8 and UINT_16 mean fixed point
    # How a package for it is made.
    contents: Callable[[OpPackage, Source, common.Placement], common.Contents]
    libraries: str = "libs"  # where Qualcomm's Makefiles put what they build
    interfaces: Mapping[str, str] = field(default_factory=dict)  # where it has several: name -> folder of kernels
    kernels: tuple[str, ...] = ("{}.cpp",)  # files of one op's kernel
    common_kernels: tuple[str, ...] = ()  # endings of kernels/<Op>…, which serve several backends, that serve it too
    stores_unsigned: bool = False  # signed numbers of 8 and 16 bits reach a kernel as unsigned ones with an offset
    kernel_texts: tuple[str, ...] = ()  # files of a package of the UDO documentation that are built into its library
    library_per_op: bool = False
    usual: bool = False  # made where the user names none
    # Where its packages run.
    runtime: HostRuntime | None = None
    skels: tuple[str, ...] = ()  # its libraries on Hexagon; `{arch}` is the version
    device_libraries: tuple[str, ...] = ()  # further ones on Arm that have functions which its packages call
    symbols: str = ""  # the file here that lists what its libraries on Hexagon may leave undefined
    emulator: Emulator | None = None
    harness: Harness | None = None
    places: tuple[Place, ...] = ()  # in which `udogen test` runs ops
    restored_by_ort: bool = True  # ONNX Runtime restores its contexts
    # Its packages call functions of the runtime's library, and find them in the first library that has them.
    calls_runtime: bool = False
    prepares_for_soc: bool = False  # graphs are prepared for one processor (--soc, --arch)
    # A package on a device is two libraries: one for Arm, which registers (target CPU), one for Hexagon (target HTP).
    two_halves: bool = False

    @property
    def runs_ops(self) -> bool:
        """True for backends."""
        return True

    @property
    def dsp_symbols(self) -> frozenset[str]:
        """What every library that is loaded on its DSP may leave undefined: the DSP itself has it."""
        lines = Path(__file__).with_name(self.symbols).read_text("utf-8").splitlines() if self.symbols else []
        return frozenset(name for line in lines if not line.startswith("#") for name in line.split())

    def kernels_folder(self, interface: str) -> str:
        """The folder of its kernels: its name, or that of the interface they are written for."""
        return self.interfaces.get(interface, self.id)
