"""In the worker: memory for tensors in which accesses outside a tensor are detected.

`plain`: guards before and after the data, compared afterwards.  `guarded`: the data ends (`end`) or begins (`begin`)
at a guard page, and inputs are read-only.  `exact`: a separate allocation, for a sanitizer.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from udogen.errors import RunFailed
from udogen.qnn import abi
from udogen.qnn.handles import GraphHandle
from udogen.qnn.tensors import APP_READ, APP_WRITE, NULL, STATIC, OpConfig, QnnTensor
from udogen.runtime.channel import GUARD, Block, Region, SharedMemory
from udogen.runtime.contexts.context import Context
from udogen.runtime.contexts.graph import Graph
from udogen.runtime.failures import BEFORE, INTO, PAST, OutOfBounds, Stray
from udogen.runtime.op.calls import OpCall


class Rules(NamedTuple):
    """How a runtime treats nodes of custom ops."""

    delivers: Sequence[str] | None  # the data types that it passes to custom ops; None: all
    validates: bool  # whether it calls the package's validation
    phase: Callable[[str], None]


def new_graph(context: Context, call: OpCall, rules: Rules) -> GraphHandle:
    """A graph of the one op, not finalized yet."""
    rules.phase("create the graph")
    graph = context.new_graph("udogen")
    tensors = _Tensors()
    roles = [arg.role if arg.omitted or arg.static else APP_WRITE for arg in call.inputs]
    inputs = [graph.add_tensor(tensors.make(arg, role)) for arg, role in zip(call.inputs, roles, strict=True)]
    outputs = [graph.add_tensor(tensors.make(arg, APP_READ)) for arg in call.outputs]
    params = [
        graph.add_tensor(tensors.make(param, STATIC)) if isinstance(param, QnnTensor) else param
        for param in call.params
    ]
    node = OpConfig(
        call.op_type, package=call.package, op_type=call.op_type, inputs=inputs, outputs=outputs, params=params
    )
    if not rules.validates:
        rules.phase("validate the node")
        context.runtime.validate(node)
    rules.phase("add the node")
    graph.add_node(node)
    # Checked after the package has validated the node, because its own message is better.
    _refuse_undelivered(graph.tensors, rules.delivers)
    return graph


def bound_inputs(graph: Graph, call: OpCall) -> dict[str, QnnTensor]:
    """The arguments of a call by the names of the graph's inputs, without constants."""
    args = [arg for arg in call.inputs if not arg.static and not arg.omitted]
    if call.context is not None:  # in the order of the stored graph
        by_name = {arg.name: arg for arg in args}
        args = [by_name[tensor.name] for tensor in graph.inputs]
    return {tensor.name: arg for tensor, arg in zip(graph.inputs, args, strict=True)}


def tensors_of(call: OpCall) -> list[QnnTensor]:
    """The inputs of a call, and the arrays among its parameters."""
    return [*call.inputs, *(param for param in call.params if isinstance(param, QnnTensor))]


def block_of(arg: QnnTensor) -> Block:
    """The shared memory of an argument."""
    block: Any = arg.data
    assert isinstance(block, Block)
    return block


def _refuse_undelivered(tensors: Sequence[QnnTensor], delivers: Sequence[str] | None) -> None:
    for tensor in tensors:
        if delivers is not None and tensor.role != NULL and tensor.dtype not in delivers:
            raise RunFailed(
                f"`{tensor.name}` is {tensor.dtype}, and the runtime does not deliver such tensors to "
                "custom ops: the op would get unset pointers",
                hint=f"use one of {', '.join(sorted(delivers))}, "
                "and let the op's validateOpConfig refuse every other type",
            )


class _Tensors:
    """Makes a graph's tensors, with names that do not collide."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def make(self, arg: QnnTensor, role: str) -> QnnTensor:
        name = arg.name
        while name in self._names:
            name += "_"
        self._names.add(name)
        return replace(arg, name=name, role=role, data=block_of(arg).data if role == STATIC else None)


# --- from a context binary --------------------------------------------------------------------------------------------


def stored_graph(context: Context, call: OpCall) -> Graph:
    """The one graph of a restored context, which must have the inputs and outputs of the call."""
    if len(context.names) != 1:
        names = ", ".join(context.names) or "none"
        raise RunFailed(f"the context has {len(context.names)} graphs, not one: {names}", hint="`run op` is for one op")
    [info] = context.info.graphs
    given = [arg for arg in call.inputs if not arg.static and not arg.omitted]  # static ones are in the binary
    _check_stored("input", info.inputs, given)
    _check_stored("output", info.outputs, call.outputs)
    return context.graph(info.name)


def _check_stored(what: str, stored: Sequence[QnnTensor], args: Sequence[QnnTensor]) -> None:
    by_name = {arg.name: arg for arg in args}
    if sorted(by_name) != sorted(info.name for info in stored):
        has = ", ".join(info.name for info in stored) or "none"
        raise RunFailed(f"the {what}s of the context are {has}, not {', '.join(by_name) or 'none'}", hint="name these")
    for info in stored:
        arg = by_name[info.name]
        if (info.dtype, tuple(info.shape)) != (arg.dtype, arg.shape):
            raise RunFailed(
                f"{what} `{info.name}` of the context is {info.dtype} {list(info.shape)}, "
                f"the call has {arg.dtype} {list(arg.shape)}",
                hint="use the shapes and types that the context was made with",
            )


_MOST = 4096  # maximum bytes of a guard that are compared
_ALIGNMENT = 128
_NONE, _READ = 0, 1
_KINDS = {"input": 0, "output": 1, "parameter": 2}
_SAFE = (*range(0x41, 0x7F), *range(0x81, 0xBF))  # values of bytes in guards, except in those of outputs
_LOW, _HIGH, _SPAN = 0x21, 0xC1, 30  # for outputs: in the first execution, and in later ones


@cache
def _numbers(shift: int, span: int) -> bytes:
    """A number below `span` for each place of a guard, from `_MOST` bytes before the data to as many after it."""

    def mixed(value: int) -> int:
        value = value * 0x9E3779B1 & 0xFFFFFFFF
        value ^= value >> 15
        return (value * 0x85EBCA77 & 0xFFFFFFFF) >> 13

    return bytes(mixed(at + shift & 0xFFFFFFFF) % span for at in range(-_MOST, _MOST))


@cache
def _pattern(role: str, number: int, later: bool) -> bytes:
    """The bytes of the guards of one tensor, as udogen/emulator/hexagon/guards.c computes them."""
    if role == "output":
        first = _HIGH if later else _LOW
        table = bytes(first + (value + 17 * number) % _SPAN for value in range(_SPAN))
        return _numbers(int(later), _SPAN).translate(table.ljust(256))
    size, shift = len(_SAFE), 37 * number + 11 * _KINDS[role]
    table = bytes(_SAFE[(value + shift) % size] for value in range(size))
    return _numbers(0, size).translate(table.ljust(256))


@dataclass
class GuardedBuffer:
    """The data of one tensor with its guards."""

    name: str
    role: str  # input, output or parameter
    data: memoryview
    before: memoryview = field(default_factory=lambda: memoryview(b""))
    behind: memoryview = field(default_factory=lambda: memoryview(b""))
    owner: Any = None  # the object that frees the memory
    number: int = 0  # among the tensors of its role
    content: Any = None  # expected content, if known
    block: Block | None = None  # of shared memory, if it is in such a block
    changed: dict[str, set[int]] = field(default_factory=dict)  # place -> offsets that were written

    @property
    def address(self) -> int:
        """Its address."""
        return int(abi.ffi().cast("uintptr_t", abi.ffi().from_buffer(self.data)))

    def open(self, *, later: bool) -> None:
        """Fill the guards; `later` is False for the first execution."""
        for part, pattern in self._guards(later=later):
            part[:] = pattern
        self._later = later

    def compare(self) -> None:
        """Record the bytes that were written since `open`."""
        for where, (part, pattern) in zip((BEFORE, PAST), self._guards(later=self._later), strict=True):
            self._note(where, part, pattern)
        if self.content is not None:
            self._note(INTO, self.data, self.content)

    def strays(self) -> Iterator[Stray]:
        """The writes outside the data, or to read-only data."""
        size = self.data.nbytes
        for where, offsets in self.changed.items():
            first = min(offsets)
            offset = {BEFORE: self.before.nbytes - first, PAST: size + first, INTO: first}[where]
            yield Stray("wrote", where, self.role, self.name, size, offset, len(offsets))

    def _guards(self, *, later: bool) -> tuple[tuple[memoryview, bytes], ...]:
        pattern = _pattern(self.role, self.number, later)
        before = pattern[_MOST - self.before.nbytes : _MOST]
        return (self.before, before), (self.behind, pattern[_MOST : _MOST + self.behind.nbytes])

    def _note(self, where: str, part: memoryview, expected: bytes) -> None:
        if not same_bytes(part, expected):
            offsets = {at for at, (a, b) in enumerate(zip(part, expected, strict=True)) if a != b}
            self.changed.setdefault(where, set()).update(offsets)

    def region(self) -> Region:
        """The region, with which the parent explains addresses."""
        return Region(self.name, self.role, self.data.nbytes, self.address)


def same_bytes(one: Any, other: Any) -> bool:
    """Whether two buffers of the same size have equal bytes; comparing memoryviews is slow."""
    ffi = abi.ffi()
    addresses = (ctypes.c_void_p(int(ffi.cast("uintptr_t", ffi.from_buffer(memory)))) for memory in (one, other))
    return not ctypes.CDLL(None).memcmp(*addresses, ctypes.c_size_t(len(one)))


def refuse_strays(op: str, strays: Iterable[Stray]) -> None:
    """Raise if there are stray accesses; the first is the message, the others are details."""
    distinct = list(dict.fromkeys(strays))
    if distinct:
        sentences = [stray.sentence(f"op `{op}`") for stray in distinct]
        raise OutOfBounds(sentences[0], hint=distinct[0].hint, details=sentences[1:])


class GuardedBuffers:
    """The data of all tensors of a graph; `guard` is end, begin, or empty.

    Outputs are filled with the byte `poison`.
    """

    def __init__(self, *, guard: str = "", exact: bool = False, poison: int = 0) -> None:
        self._guard, self._exact, self._poison = guard, exact, poison
        self.all: list[GuardedBuffer] = []

    def outputs(self, sizes: Sequence[tuple[str, int]]) -> list[GuardedBuffer]:
        """Buffers for outputs: in shared memory, unless guarded or exact."""
        if self._guard or self._exact:
            poison = bytes([self._poison])
            return [self._add(name, "output", poison * size, read_only=False) for name, size in sizes]
        blocks = SharedMemory.of_sizes([size for _, size in sizes])
        for (name, _), block in zip(sizes, blocks, strict=True):
            buffer = shared(name, "output", block, sum(other.role == "output" for other in self.all))
            if self._poison:
                ctypes.memset(buffer.address, self._poison, buffer.data.nbytes)
            self.all.append(buffer)
        return self.all[-len(sizes) :] if sizes else []

    def bind(self, graph: Graph, call: OpCall) -> list[GuardedBuffer]:
        """Bind a graph to this memory; returns the buffers of its outputs."""
        results = self.outputs([(tensor.name, tensor.nbytes) for tensor in graph.outputs])
        inputs = [self.input(name, block_of(arg)) for name, arg in bound_inputs(graph, call).items()]
        graph.bind({buffer.name: buffer.data for buffer in (*results, *inputs)})
        return results

    def input(self, name: str, block: Block) -> GuardedBuffer:
        """A buffer for an input."""
        if not self._guard and not self._exact:  # used as received
            self.all.append(GuardedBuffer(name, "input", block.data))
            return self.all[-1]
        return self._add(name, "input", block.data, read_only=True)

    def repeat(self) -> None:
        """Check the buffers between the first execution and later ones."""
        for buffer in self._watched():
            buffer.compare()
            if buffer.role == "output":  # only guards of outputs get new bytes
                buffer.open(later=True)

    def check(self, op: str) -> None:
        """Raise for writes outside any of the buffers."""
        for buffer in self._watched():
            buffer.compare()
        refuse_strays(op, (stray for buffer in self._watched() for stray in buffer.strays()))

    def regions(self) -> list[Region]:
        """The regions of all buffers; empty unless accesses outside them cause faults."""
        return [buffer.region() for buffer in self.all] if self._guard or self._exact else []

    def _watched(self) -> list[GuardedBuffer]:
        return [buffer for buffer in self.all if buffer.before.nbytes or buffer.behind.nbytes]

    def _add(self, name: str, role: str, content: bytes | memoryview, *, read_only: bool) -> GuardedBuffer:
        number = sum(buffer.role == role for buffer in self.all)
        if self._guard:
            buffer = _guarded(name, role, content, number, at_end=self._guard == "end", read_only=read_only)
        else:
            buffer = _exact(name, role, content)
        self.all.append(buffer)
        return buffer


def shared(name: str, role: str, block: Block, number: int) -> GuardedBuffer:
    """A buffer in a block of shared memory, with filled guards."""
    buffer = GuardedBuffer(name, role, block.data, block.before, block.behind, number=number, block=block)
    buffer.open(later=False)
    return buffer


def plain(name: str, role: str, content: Any, number: int) -> GuardedBuffer:
    """A buffer in new memory, with guards around it."""
    size = len(content)
    whole = memoryview(bytearray(size + 2 * GUARD + _ALIGNMENT))
    start = int(abi.ffi().cast("uintptr_t", abi.ffi().from_buffer(whole)))
    begin = GUARD + -(start + GUARD) % _ALIGNMENT
    buffer = GuardedBuffer(name, role, whole[begin : begin + size], number=number)
    buffer.before, buffer.behind = whole[begin - GUARD : begin], whole[begin + size : begin + size + GUARD]
    buffer.data[:] = content
    return buffer


def _guarded(
    name: str, role: str, content: bytes | memoryview, number: int, *, at_end: bool, read_only: bool
) -> GuardedBuffer:
    page, size = mmap.PAGESIZE, len(content)
    inside = -(-max(size, 1) // page) * page
    mapping = mmap.mmap(-1, page + inside + page)
    whole = memoryview(mapping)
    begin = page + inside - size if at_end else page
    buffer = GuardedBuffer(name, role, whole[begin : begin + size], owner=mapping, number=number)
    buffer.before = whole[max(page, begin - _MOST) : begin]
    buffer.behind = whole[begin + size : min(page + inside, begin + size + _MOST)]
    buffer.data[:] = content
    buffer.open(later=False)
    start = int(abi.ffi().cast("uintptr_t", abi.ffi().from_buffer(whole)))
    _protect(start, page, _NONE)
    _protect(start + page + inside, page, _NONE)
    if read_only:
        _protect(start + page, inside, _READ)
    return buffer


def _protect(address: int, size: int, how: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), how):
        raise RunFailed(f"memory cannot be protected (errno {ctypes.get_errno()})", hint="run it without --guard")


class _Allocated:
    """Memory from malloc, because sanitizers do not check Python's allocator."""

    def __init__(self, size: int) -> None:
        self._libc = ctypes.CDLL(None)
        self._libc.malloc.restype = ctypes.c_void_p
        self.address = self._libc.malloc(ctypes.c_size_t(size))

    def __del__(self) -> None:
        self._libc.free(ctypes.c_void_p(self.address))


def _exact(name: str, role: str, content: bytes | memoryview) -> GuardedBuffer:
    owner = _Allocated(len(content))
    data = memoryview((ctypes.c_char * len(content)).from_address(owner.address)).cast("B")
    data[:] = content
    return GuardedBuffer(name, role, data, owner=owner)
