"""What a kernel in Python is compiled for: a request to the worker, the worker's report, names for the C++ side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any, TypeVar

from udogen import backends
from udogen.backends import architectures

Kind = TypeVar("Kind")

QFLOAT = "qfloat"
IEEE = "ieee"  # also the folder of functions for the versions of Hexagon with IEEE floats
TWINS = "twins"  # the folder of scalar twins, and of the file that lists the functions and their arguments
FUNCTIONS = "functions.json"
HALVES = ("qnn/shared/support/Values.hpp", "kernels/halves.hpp")  # templates that C++ of half floats includes
SCALAR_UNDER_QEMU = "udogen runs no HVX floating point under QEMU: it runs scalar code, not the code for a device"

PLACE = "place"  # a file in the folder of a request: the place in the user's code that is running
RUNNING, RAN = "running the kernel", "the kernel ran"  # the lines around code of the user
COMPILING = "compiling "  # the beginning of the line that the worker prints before each function

# Passes of LLVM that take a quarter of the time for Hexagon, and change the packets of loops by 2 % at most; `hvc-va`
# replaces two unaligned loads by three aligned ones and a branch, in twice as many packets.  Loops are not unswitched:
# costs of vectors of Hexagon overflow there, so that LLVM would copy whole nests of loops for each of their conditions.
WITHOUT_PASSES = (
    "-hexagon-insert=false -hexbit-extract=false -hexbit-bitsplit=false -rdf-opt=false -disable-hexagon-amodeopt "
    "-hvc-va=false -enable-unswitch-cost-multiplier=false -unswitch-threshold=0"
)
LLVM_OPTIONS = {"HL_LLVM_ARGS": WITHOUT_PASSES}  # environment of the worker for Hexagon
MOST_SECONDS = 300  # of processor time for a function with vectors of one length: LLVM may never end
MOST_MEMORY = 4 << 30  # bytes of a worker, and of zig; the largest kernel of the examples needs 0.2 GB


@dataclass(frozen=True)
class TargetMachine:
    """A machine that code is compiled for: a row of `MACHINES`."""

    target: str  # as Halide names it
    vector: int  # bytes
    float_vectors: bool = True
    half_vectors: bool = True
    aligned: bool = False  # aligned tensors have separate functions
    partial: int = 1  # vectors of partial results of a row of floats
    integers: str = ""  # the target for real numbers as integers with a scale; empty if they are not used
    gpu: bool = False  # the functions record OpenCL kernels, which convert real numbers themselves
    halves: bool = False  # zig compiles functions of half floats, with the floats of Hexagon's versions
    float_twins: bool = False  # functions in floats are executed

    @property
    def is_emulated(self) -> bool:
        """Whether functions have no vectors of floats only because they run under QEMU."""
        return self.aligned and not self.float_vectors and self.target != self.integers


@dataclass(frozen=True)
class TensorPort:
    """An input, an output or a tensor parameter."""

    name: str  # as an identifier
    is_output: bool
    types: tuple[str, ...]  # how an element may be stored: f32, f16, u8, …
    real: bool  # whether the kernel sees real numbers where integers are stored
    optional: bool = False  # a client may omit it
    opencl: str = ""  # its name in OpenCL
    rank: int = 0  # the smallest that the config allows


@dataclass(frozen=True)
class Request:
    """One op of one package for one machine."""

    file: str
    op: str
    prefix: str  # the beginning of function names
    tensors: tuple[TensorPort, ...]
    scalars: Mapping[str, str]  # parameter -> f32 or i32
    machine: TargetMachine
    refused: Mapping[str, str] = field(default_factory=dict)  # what kernels in Python cannot take, and what it is
    texts: bool = False  # also write the assembly
    # Function -> how the compiler ended at it, each time: vectors get shorter.
    deaths: Mapping[str, Sequence[str]] = field(default_factory=dict)
    defaults: Mapping[str, float] = field(default_factory=dict)  # of scalars, for the calls that check functions
    values: tuple[str, ...] = ()  # the inputs and parameters of a node, in their order

    def as_json(self) -> str:
        """The request as JSON, for a file that the worker reads."""
        return json.dumps(asdict(self))

    @staticmethod
    def of_json(text: str) -> Request:
        """Read what `as_json` wrote."""
        row: dict[str, Any] = json.loads(text)
        row["tensors"] = tuple(TensorPort(**{**port, "types": tuple(port["types"])}) for port in row["tensors"])
        row["machine"] = TargetMachine(**row["machine"])
        row["values"] = tuple(row["values"])
        return Request(**row)


@dataclass(frozen=True)
class KernelVariant:
    """One function of a kernel: how its tensors are stored, and how rows are laid out."""

    types: tuple[str, ...]  # of the tensors, in their order; empty for an absent one
    last: bool = True  # rows are along the last axis, so that their elements are contiguous
    aligned: bool = False
    small: bool = False  # has the usual schedule, for outputs that are smaller than a tile of the other schedule

    def name(self, prefix: str) -> str:
        """The name of the function."""
        types = [stored or "none" for stored in self.types]
        name = "_".join(types if len(set(types)) > 1 else types[:1])
        kinds = {"_strided": not self.last, "_aligned": self.aligned, "_small": self.small}
        return f"{prefix}_{name}{''.join(kind for kind, is_one in kinds.items() if is_one)}"


@dataclass(frozen=True)
class Launch:
    """An OpenCL kernel that a function launches."""

    function: str
    entry: str  # its name in Halide
    name: str  # its name in the text
    arguments: str  # a letter for each: b is a buffer, M is memory of a work group, others are numbers by value
    text: str


@dataclass(frozen=True)
class Report:
    """What was compiled: all that the C++ side needs."""

    variants: tuple[KernelVariant, ...]
    views: tuple[tuple[str, int | str | None], ...]  # of each tensor: flat, rows (axis), whole (rank)
    table: bool  # whether an 8-bit op looks up its numbers in a table
    elementwise: bool  # whether elements depend only on those at the same index, so that tensors can be cut anywhere
    in_one: bool  # whether one thread calculates everything: elements depend on other elements of outputs
    auto: bool  # whether an autoscheduler made the functions for processors, so that small outputs have others
    tiles: bool  # whether all functions have tiles of sums, so that small outputs have others
    scalar: Mapping[str, str]  # functions without vectors, and why
    launches: tuple[Launch, ...] = ()
    not_on_gpu: str = ""  # why the op does not run on a GPU
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # lines of the kernel where each tensor is used
    untiled: Mapping[str, str] = field(default_factory=dict)  # functions that add products one by one, and why
    # Functions that allocate memory, and how often before they do anything else.
    allocations: Mapping[str, int] = field(default_factory=dict)
    # Functions for Hexagon that convert half floats by calculating with integers, and why.
    converted: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> str:
        """The report as JSON, for a file."""
        return json.dumps(asdict(self))

    @staticmethod
    def of_json(text: str) -> Report:
        """Read what `as_json` wrote."""
        row = json.loads(text)
        variants = (KernelVariant(**{**variant, "types": tuple(variant["types"])}) for variant in row["variants"])
        views = tuple((kind, value) for kind, value in row["views"])
        launches = tuple(Launch(**launch) for launch in row["launches"])
        lines = {name: tuple(numbers) for name, numbers in row["lines"].items()}
        known = {"variants": tuple(variants), "views": views, "launches": launches, "lines": lines}
        return Report(**{**row, **known})


def type_combinations(lists: Sequence[tuple[Kind, ...]]) -> list[tuple[Kind, ...]]:
    """The combinations of types of tensors that allow these: those that allow the same types have the same one."""
    distinct = list(dict.fromkeys(lists))
    places = [distinct.index(types) for types in lists]
    return [tuple(row[place] for place in places) for row in product(*distinct)]


# x86-64 since 2013.  Under qemu-hexagon, which does not support HVX floating point, Hexagon's functions are in a static
# program.
_X86 = TargetMachine("x86-64-linux-sse41-avx-avx2-fma-f16c", 32, partial=2)
_ARM = TargetMachine("arm-64-linux", 16, partial=2)
_HEXAGON = "hexagon-32-noos-hvx-hvx_{}"
_NEW = TargetMachine(_HEXAGON.format("v68"), 128, half_vectors=False, aligned=True, integers=_HEXAGON.format("v66"))
_OLD = {
    version: replace(_NEW, target=_HEXAGON.format(version), integers=_HEXAGON.format(version), float_vectors=False)
    for version in ("v65", "v66")
}
_VERSIONS = architectures.of_backend("htp")
_IEEE_FLOATS = "v79"  # the first version of Hexagon whose vectors have them
_EMULATED = replace(_NEW, float_vectors=False)
_UDO_X86 = "x86-64_linux_clang"  # the folder's name in the layout of the UDO documentation
_SANITIZERS = {"": "", "-address": "-asan", "-thread": "-tsan"}  # suffixes of builds that check kernels on this machine
MACHINES: Mapping[str, TargetMachine] = {
    f"{folder}{name}": replace(_X86, target=_X86.target + feature)
    for folder in ("x86_64-linux-clang", _UDO_X86)
    for name, feature in _SANITIZERS.items()
} | {
    "aarch64-linux-gnu": _ARM,
    "aarch64-android": _ARM,
    "arm64-v8a": _ARM,
    **{f"{kind}{v}": replace(_NEW, halves=True) for v in _VERSIONS for kind in ("hexagon-", "dsp_")},
    **{f"emulated-{v}": _EMULATED for v in _VERSIONS},
    "dsp_v60": _OLD["v65"],  # for V65 and V66
    **{f"{kind}-{v}": machine for v, machine in _OLD.items() for kind in ("hexagon", "emulated")},
}
IEEE_MACHINES = {name for name, row in MACHINES.items() if row.halves and name[-len(_IEEE_FLOATS) :] >= _IEEE_FLOATS}
_GPU_HOSTS = {machine: MACHINES[machine].target for machine in ("aarch64-linux-gnu", "arm64-v8a")} | {
    "x86_64-linux-clang": "x86-64-linux",
    _UDO_X86: "x86-64-linux",
}
GPU_MACHINES: Mapping[str, TargetMachine] = {
    folder: TargetMachine(f"{host}-opencl", 64, gpu=True) for folder, host in _GPU_HOSTS.items()
}


def machines_of(backend: str) -> Mapping[str, TargetMachine]:
    """The machines of a backend, by the names of their libraries' folders."""
    return GPU_MACHINES if backends.KINDS[backend].opencl else MACHINES
