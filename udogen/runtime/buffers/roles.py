"""What a driver-managed buffer may be used as, and the type and shape that follow from all of that together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udogen.errors import UsageError
from udogen.opdef.problems import nearest
from udogen.qnn.tensors import APP_READ, APP_WRITE
from udogen.runtime.arguments import kind_of

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo

INPUT, OUTPUT = "input", "output"
USAGES = {APP_WRITE: INPUT, APP_READ: OUTPUT}

Dims = tuple[int | None, ...]


@dataclass(frozen=True)
class BufferDesc:
    """What is asked of a buffer; what is left out is taken from its roles."""

    dimensions: tuple[int, ...] | None = None  # 0: not known; None: not even how many
    dtype: str = ""


@dataclass(frozen=True)
class Role:
    """One tensor that the buffer may be: `usage` is INPUT or OUTPUT of this graph."""

    graph: Any  # a Graph of an open context
    tensor: str
    usage: str

    def __str__(self) -> str:
        return f"{self.usage} `{self.tensor}` of graph `{self.graph.name}` in {self.graph.context.name}"

    def info(self) -> TensorInfo | None:
        """The tensor; None where the graph has none of that name on that side."""
        side = self.graph.inputs if self.usage == INPUT else self.graph.outputs
        return next((each for each in side if each.name == self.tensor), None)


@dataclass(frozen=True)
class Agreed:
    """The type and shape of a buffer, and how large each axis can become."""

    dtype: str
    dims: Dims  # None: not known before it is used
    largest: tuple[int, ...]


def agree(desc: BufferDesc, roles: Sequence[Role]) -> Agreed:
    """Put description and roles together; every contradiction is named."""
    faults, hints = _faults(roles)
    if faults:
        raise _refused(faults, next(iter(hints), "a role is a tensor of a graph, and its use there: INPUT or OUTPUT"))
    infos = [(str(role), info) for role in roles if (info := role.info()) is not None]
    first, model = infos[0]
    for name, info in infos[1:]:
        if info.dtype != model.dtype:
            faults.append(f"{first} is {model.dtype}, {name} is {info.dtype}")
        elif _quantization(info) != _quantization(model):
            faults.append(f"{first} and {name} are quantized in different ways: a copy would be needed")
        if len(info.shape) != len(model.shape):
            faults.append(f"{first} has {len(model.shape)} dimensions, {name} has {len(info.shape)}")
    if desc.dtype and desc.dtype != model.dtype:
        faults.append(f"the description says {desc.dtype}, {first} is {model.dtype}")
    if desc.dimensions is not None and len(desc.dimensions) != len(model.shape):
        faults.append(f"the description has {len(desc.dimensions)} dimensions, {first} has {len(model.shape)}")
    if faults:
        raise _refused(faults)
    axes = [_axis(axis, desc, infos, faults) for axis in range(len(model.shape))]
    if faults:
        raise _refused(faults)
    return Agreed(model.dtype, tuple(known for known, _ in axes), tuple(largest for _, largest in axes))


def shape_of(info: TensorInfo) -> Dims:
    """The dimensions of a tensor; None for those that an execution may change, which are at most as in `shape`."""
    dynamic = getattr(info, "dynamic", ()) or (False,) * len(info.shape)
    return tuple(None if changes else size for size, changes in zip(info.shape, dynamic, strict=True))


def text_of(dims: Dims) -> str:
    """Dimensions as people write them."""
    return "[" + ", ".join("?" if size is None else str(size) for size in dims) + "]"


def _axis(
    axis: int, desc: BufferDesc, infos: Sequence[tuple[str, TensorInfo]], faults: list[str]
) -> tuple[int | None, int]:
    """How long an axis is, None where nobody knows; and how long it can become."""
    sized = [(name, shape_of(info)[axis]) for name, info in infos]
    asked = desc.dimensions[axis] if desc.dimensions else 0
    known = [("the description", asked)] if asked else []
    known += [(name, size) for name, size in sized if size is not None]
    for name, size in known[1:]:
        if size != known[0][1]:
            faults.append(f"dimension {axis} is {known[0][1]} in {known[0][0]}, {size} in {name}")
    limits = [(name, info.shape[axis]) for name, info in infos if shape_of(info)[axis] is None]
    if not known:
        return None, max(size for _, size in limits)
    for name, most in limits:
        if known[0][1] > most:
            faults.append(f"dimension {axis} is {known[0][1]} in {known[0][0]}, at most {most} in {name}")
    return known[0][1], known[0][1]


def _faults(roles: Sequence[Role]) -> tuple[list[str], list[str]]:
    """What is wrong with the roles themselves, and what was meant."""
    if not roles:
        return ["it has no role: say as which inputs and outputs it will be used"], []
    faults, hints = [], []
    for index, role in enumerate(roles):
        if not hasattr(role.graph, "inputs") or isinstance(role.graph, type):
            faults.append(f"the graph of a role is {kind_of(role.graph)}")
            hints.append("give a Graph: context.graph(name)")
        elif role.usage not in (INPUT, OUTPUT):
            faults.append(f"`{role.usage}` is no use of a tensor: {INPUT} or {OUTPUT}")
            hints += _meant(role.usage, (INPUT, OUTPUT))
        elif role in roles[:index]:
            faults.append(f"{role} is named twice")
        elif role.info() is None:
            other = INPUT if role.usage == OUTPUT else OUTPUT
            names, others = _names(role.graph, role.usage), _names(role.graph, other)
            has = ", ".join(f"`{each}`" for each in names) or "none"
            faults.append(f"there is no {role}: its {role.usage}s are {has}")
            if role.tensor in others:
                hints.append(f"`{role.tensor}` is an {other}")
            hints += _meant(role.tensor, names)
    return faults, hints


def _names(graph: Any, usage: str) -> list[str]:
    return [each.name for each in (graph.inputs if usage == INPUT else graph.outputs)]


def _meant(name: object, names: Sequence[str]) -> list[str]:
    near = nearest(name, names) if isinstance(name, str) else None
    return [f"did you mean `{near}`?"] if near else []


def _quantization(info: TensorInfo) -> object:
    return getattr(info, "quant", None) or info.scale_offset


def _refused(faults: Sequence[str], hint: str = "") -> UsageError:
    only = len(faults) == 1
    return UsageError(
        f"the buffer cannot be allocated: {faults[0] if only else f'{len(faults)} things contradict each other'}",
        details=() if only else faults,
        hint=hint or "a buffer has one type, one quantization and one shape for all its roles; use two, and copy",
    )
