"""The classes of the objects in this folder, one object for each backend.

Everything that differs between backends is a field here; no code compares names of backends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from udogen.backends import architectures

if TYPE_CHECKING:
    from udogen.backends.common import Contents, Placement
    from udogen.backends.plan import Source
    from udogen.opdef.model import Op, OpPackage, Tensor

PROVIDER = "InterfaceProvider"  # suffix of the symbol that a client registers; the prefix is the package's name
STRICT = "-Wl,-z,defs"  # links a library without undefined symbols
NOT_BUILT = "command line recorded by a stand-in {}; not built with a real NDK, not run on hardware"


class Target(NamedTuple):
    """A make target: the folder of its library, and the machine it is for."""

    id: str
    backend: str
    folders: tuple[str, ...]  # below libs/; the toolchain chooses one, by default the first
    machine: str  # its readable name
    compiler: str  # the kind of compiler that it needs: x86, aarch64, android, hexagon, …
    verified: str  # how it was verified, for the README
    native: bool = False  # runs on this machine
    arch: str = ""  # the version of Hexagon
    ending: str = ""  # suffix of its library's name, if several libraries of a package are in one folder
    usual: bool = False  # part of the group `all`, and of the group named after the backend

    @property
    def folder(self) -> str:
        """The folder of its library, unless the toolchain chooses another one."""
        return self.folders[0]

    @property
    def for_android(self) -> bool:
        """Whether its library is for Android: built by `ndk-build`, or by the compiler of the NDK."""
        return self.compiler in ("android", "ndk")


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


def on_call(module: str, function: str) -> Callable[..., Any]:
    """Return a function whose module is imported on call: runtimes do not need the code that generates packages."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), function)(*arguments)

    return call


def udo_target(target: Target) -> Target:
    """The same target in a package of the UDO documentation, which has different folders, and ndk-build."""
    folders = (_UDO_FOLDERS.get(folder, folder.replace("hexagon-", "dsp_")) for folder in target.folders)
    if target.compiler == "ndk":
        target = target._replace(compiler="android", verified=NOT_BUILT.format("`ndk-build`"))
    return target._replace(folders=tuple(folders))


class UdoCore(NamedTuple):
    """A backend in a package of the UDO documentation (layout `snpe`), and how SNPE runs it."""

    core: str  # CPU, GPU, DSP: its name in the SnpeUdo API; several backends may share one core
    folder: str  # of its sources
    library: str  # `{}` is the name of the package
    link: str = STRICT  # flags for undefined symbols
    shows: tuple[str, ...] = ()  # files of the folder in the documentation, other than the interface and the ops
    support: str = ""  # the file of the folder that has support code in the documentation
    android: bool = False  # ndk-build builds its library for devices
    own_makefile: bool = False  # the documentation has a Makefile.linux-x86_64 in its folder
    one_library: bool = False  # the library for the oldest version of Hexagon serves all versions
    loaded_with: str = ""  # a library of SNPE that must be loaded with it on aarch64
    calculates: tuple[str, ...] = ()  # the types in which kernels of SNPE's own packages calculate
    # Kind of a type that the core lacks -> the types that replace it ("Compiling a UDO package").
    instead: Callable[[str], tuple[str, ...]] | None = None
    floats_and_bytes: bool = False  # models have floats or bytes, and a config names only one of them
    native: str = ""  # the target whose library this machine's runtime loads
    machines: tuple[str, ...] = ()  # other machines whose libraries the core loads
    not_run: str = ""  # why no runtime of this machine runs it
    net_run: tuple[str, ...] = ()  # options of snpe-net-run
    compared: str = ""  # the part of its library that is compared with the registration: `records` or `validation`


class HostRuntime(NamedTuple):
    """Qualcomm's library that runs the packages of a backend, with measured properties."""

    library: str
    ranks: tuple[int, ...]  # of tensors
    forwards_log: bool = True  # it calls a package's logInitialize; otherwise the worker does
    clears_outputs: bool = False  # it fills outputs with zeros at each execution
    keeps_memory: bool = False  # it keeps tensor memory from one graph to the next, until the process ends
    validates: bool = True  # it calls a package's validateOpConfig before it adds a node
    machines: tuple[str, ...] = ("x86_64", "aarch64")  # on which it can run
    # Machines on which graphs of a process block each other: two concurrent executions never return.
    one_at_a_time: tuple[str, ...] = ()
    forks: bool = True  # a process forked while the library is in use can use it and exit normally
    prints: bool = False  # it prints log lines to stdout and stderr (`udogen.qnn.interface`)
    hint: str = "pip install onnxruntime-qnn==2.3.0 (the last release that carries libQnnCpu.so), or set QNN_SDK_ROOT"
    essential: bool = False  # a machine without it is not ready for udogen
    ort_below: tuple[int, ...] = ()  # the first release of ONNX Runtime's plug-in without it
    strict_in_ort: bool = True  # a session of ONNX Runtime can forbid the fallback to other processors
    wide_in_ort: bool = True  # custom ops may have tensors of 64 bits in ONNX Runtime
    drops_unknown_ops: bool = False  # it restores contexts without the ops of unregistered packages
    buffers: bool = False  # it accepts client buffers for weights and spill-fill (external buffers)


class Emulator(NamedTuple):
    """udogen's emulator of a backend: a folder of udogen/emulator, next to `core`."""

    library: str
    header: str = ""  # a header that its sources need in addition to udogen's
    install: str = ""  # how to install the header and the runtime
    tables: Callable[[], dict[str, str]] = dict  # files that its sources include, generated from tables


class Harness(NamedTuple):
    """A program that replaces the runtime of a backend under qemu-hexagon."""

    arch: str  # the default version of Hexagon
    sources: tuple[str, ...]
    ranks: tuple[int, ...]
    protocol: str  # of requests and results: `qhpi` or `udo`
    records: bool  # a package may have several kernels of an op (--kernel, --slices)
    elsewhere: str  # an alternative for debuggers and sanitizers
    wrapped: tuple[str, ...] = ("__cxa_throw",)  # functions that it wraps: QEMU unwinds no exceptions
    flags: str = ""


class Program:
    """A program that runs ops in a place; plug-ins derive from it.  Nothing is loaded until a method is called."""

    networks = False  # whether it runs whole models, as in `[[network]]` of test files

    def check(self, backend: str) -> None:
        """Raise if something is not installed; `backend` is that of the place."""

    def open(self, built: Any, backend: str, timeout: float | None) -> Any:
        """A session as a context manager: it has `runtime`, `run` and `run_chain`, as `OpSession`."""
        raise NotImplementedError

    def param_fault(self, _param: Tensor) -> str:
        """Why the program cannot pass a parameter to the op; empty if it can."""
        return ""

    def op_types(self, model: Path, until: str) -> Collection[str]:
        """The types of the nodes of a network."""
        raise NotImplementedError

    def run_network(self, **options: Any) -> Any:
        """Run a network, and return a `NetworkReport`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Place:
    """A place where ops run, for test files and `--backend`."""

    id: str
    config: str  # the backend of its packages; empty: it needs none
    title: str
    kind: str  # a kind of `find_runtime`; `instructions`: no runtime, but the instruction set; or `client`
    ranks: tuple[int, ...]
    heading: str  # in reports
    twin: str = ""  # it also runs the cases of this place
    usual: bool = True  # used by default
    compiles: bool = False  # its emulator may have to be compiled before it starts
    blind: Mapping[str, str] = field(default_factory=dict)  # safety check -> why it finds nothing, and an alternative
    program: Program | None = None  # of the kind `client`
    device: str = ""  # the device as `--on` names it; empty: this machine

    @property
    def instructions(self) -> bool:
        """True if it runs Hexagon code in QEMU: each call is a process; packets are counted, times are meaningless."""
        return self.kind == "instructions"

    @property
    def client(self) -> bool:
        """True if a program that loads packages runs the op; times and memory cannot be measured."""
        return self.program is not None

    @property
    def watched(self) -> bool:
        """True for a runtime in a worker, where times are measured and memory is watched."""
        return not self.instructions and not self.client and not self.device

    @property
    def base(self) -> str:
        """The same place on this machine."""
        return self.id.partition("@")[0]


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of library: for a backend, for registration with SNPE, or for converters."""

    id: str  # on the command line and in manifests
    title: str
    targets: tuple[Target, ...] = ()
    udo_targets: tuple[Target, ...] = ()  # in a package of the UDO documentation
    udo: UdoCore | None = None
    opencl: bool = False  # its sources may call OpenCL
    cmake: bool = False  # CMake can build it, as is necessary on Windows
    registration: bool = False  # SNPE loads it, and finds the other libraries of a package through it
    converter: bool = False  # converters load it

    @property
    def runs_ops(self) -> bool:
        """True for backends."""
        return False

    def target_ids(self, layout: str = "qnn") -> tuple[str, ...]:
        """The names of its targets in this layout."""
        return tuple(target.id for target in (self.udo_targets if layout == "snpe" else self.targets))


@dataclass(frozen=True, eq=False, kw_only=True)
class Backend(Kind):
    """One backend of QNN: what it accepts, how packages for it are generated, and where they run."""

    # Its names.
    suffix: str  # in file and folder names
    number: int  # in the API of QNN
    names: tuple[str, ...]  # in configs; DSP with a version names the backend for that version
    json_names: tuple[str, ...]  # of its supplements in a JSON config
    hexagon: range = range(0)  # the versions of Hexagon that it runs on
    # What it accepts.
    can_repeat: bool = True  # inputs and outputs of variable number
    can_omit: bool = True  # absent inputs and outputs
    ends: Callable[[Op], frozenset[str]] | None = None  # if not can_omit: trailing inputs that may still be absent
    has_texts: bool = True  # string parameters
    names_params: bool = True  # parameters are found by name, otherwise by position
    # Types of tensors that reach a custom op (measured); empty: the backend itself refuses other types.
    delivers: tuple[str, ...] = ()
    params: tuple[str, ...] = ()  # of tensor parameters, if they differ
    one_type: bool = False  # an op declares one type for each input and output, for all graphs
    activations: bool = False  # in JSON configs UINT_8 and UINT_16 mean fixed point
    # How packages for it are generated.
    contents: Callable[[OpPackage, Source, Placement], Contents]
    libraries: str = "libs"  # the output folder of Qualcomm's Makefiles
    interfaces: Mapping[str, str] = field(default_factory=dict)  # if it has several: name -> folder of kernels
    kernels: tuple[str, ...] = ("{}.cpp",)  # files of one op's kernel
    common_kernels: tuple[str, ...] = ()  # suffixes of files kernels/<Op>… that several backends share, and it uses
    stores_unsigned: bool = False  # signed types of 8 and 16 bits reach a kernel as unsigned types with an offset
    kernel_texts: tuple[str, ...] = ()  # files of a package of the UDO documentation that are built into its library
    library_per_op: bool = False
    usual: bool = False  # generated by default
    # Where its packages run.
    runtime: HostRuntime | None = None
    skels: tuple[str, ...] = ()  # its libraries on Hexagon; `{arch}` is the version
    device_libraries: tuple[str, ...] = ()  # additional libraries on Arm with functions that its packages call
    symbols: str = ""  # the file in this folder that lists symbols which its Hexagon libraries may leave undefined
    emulator: Emulator | None = None
    harness: Harness | None = None
    places: tuple[Place, ...] = ()  # in which `udogen test` runs ops
    restored_by_ort: bool = True  # ONNX Runtime restores its contexts
    # Its packages call functions of the runtime's library, found in the first loaded library that has them.
    calls_runtime: bool = False
    prepares_for_soc: bool = False  # graphs are prepared for one processor (--soc, --arch)
    # On a device a package is two libraries: for Arm, which registers (target CPU), and for Hexagon (target HTP).
    two_halves: bool = False

    @property
    def runs_ops(self) -> bool:
        """True for backends."""
        return True

    @property
    def dsp_symbols(self) -> frozenset[str]:
        """Symbols that the DSP provides to every library."""
        lines = Path(__file__).with_name(self.symbols).read_text("utf-8").splitlines() if self.symbols else []
        return frozenset(name for line in lines if not line.startswith("#") for name in line.split())

    def kernels_folder(self, interface: str) -> str:
        """The folder of its kernels: named after the backend, or set by the interface."""
        return self.interfaces.get(interface, self.id)
