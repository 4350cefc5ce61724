"""The placement of the layers of a model on sessions: in order, one session after the other."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from udogen.errors import UsageError

if TYPE_CHECKING:
    from udogen.qnn.system import BinaryInfo, TensorInfo

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|[KMG]i?B)?", re.IGNORECASE)
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
MIB = 1 << 20
# "Limited to a memory mapping of around 3.5GB" (ggml-hexagon's developer page): read as 10**9, because
# a model that maps too much fails on the device, and one session too many costs little.
DEFAULT_LIMIT = 3_500_000_000


class Sizes(NamedTuple):
    """The memory that layers map together, in bytes."""

    weights: int = 0
    cache: int = 0
    compute: int = 0  # including spill-fill

    @property
    def total(self) -> int:
        """The sum of all kinds."""
        return sum(self)


@dataclass(frozen=True)
class Layer:
    """The unit of placement, a context; sizes in bytes."""

    name: str
    weights: int
    cache: int = 0
    compute: int = 0  # inputs and outputs
    spill_fill: int = 0

    @property
    def total(self) -> int:
        """The memory that it maps."""
        return sizes_of([self]).total


@dataclass(frozen=True)
class SessionSpec:
    """A session that can be opened: name, device, limit of mapped memory."""

    name: str
    device: int
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True)
class SessionShare:
    """The layers of one session."""

    session: SessionSpec
    layers: tuple[str, ...]
    sizes: Sizes

    @property
    def free(self) -> int:
        """The bytes that it may still map."""
        return self.session.limit - self.sizes.total


_HEAD = ("session [MiB]", "weights", "cache", "compute", "total", "limit", "free", "layers")


@dataclass(frozen=True)
class SessionPlan:
    """The layers of each session; sessions without layers are omitted."""

    layers: tuple[Layer, ...]
    shares: tuple[SessionShare, ...]

    def session_of(self, layer: str) -> SessionSpec:
        """The session that a layer is placed in."""
        return next(share.session for share in self.shares if layer in share.layers)

    @property
    def sizes(self) -> Sizes:
        """The memory that all sessions map together."""
        return Sizes(*(sum(share.sizes[kind] for share in self.shares) for kind in range(3)))

    def __str__(self) -> str:
        count = f"{len(self.layers)} layer{'s' * (len(self.layers) != 1)}"
        rows = [_row(share) for share in self.shares]
        rows.append(("all", *(_mib(size) for size in (*self.sizes, self.sizes.total)), "", "", count))
        return "\n".join(columns([_HEAD, *rows]))

    def as_json(self) -> dict[str, object]:
        """The plan as `--json` prints it; sizes in bytes."""
        return {
            "sessions": [
                {
                    "name": share.session.name,
                    "device": share.session.device,
                    "layers": list(share.layers),
                    **share.sizes._asdict(),
                    "total": share.sizes.total,
                    "limit": share.session.limit,
                    "free": share.free,
                }
                for share in self.shares
            ],
            "total": self.sizes.total,
        }


def sizes_of(layers: Sequence[Layer]) -> Sizes:
    """The memory that these layers map in one session."""
    return Sizes(
        weights=sum(layer.weights for layer in layers),
        cache=sum(layer.cache for layer in layers),
        compute=sum(layer.compute + layer.spill_fill for layer in layers),
    )


def size_text(size: int) -> str:
    """A size as text."""
    return f"{size / MIB:.2f} MiB" if abs(size) >= MIB / 10 else f"{size} bytes"


def parse_size(text: str) -> int | None:
    """The bytes of a size that a user wrote, such as 3.5GB or 2000MiB; None if it is not a size."""
    found = _SIZE.fullmatch(text)
    return int(float(found["number"]) * _UNITS[(found["unit"] or "B").lower()]) or None if found else None


def _row(share: SessionShare) -> tuple[str, ...]:
    numbers = (*share.sizes, share.sizes.total, share.session.limit, share.free)
    names = share.layers
    listed = ", ".join(names) if len(names) < 3 else f"{names[0]} … {names[-1]} ({len(names)})"
    return (share.session.name, *(_mib(number) for number in numbers), listed)


def _mib(size: int) -> str:
    return f"{size / MIB:.2f}"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines: the first and the last cell are left-aligned, the numbers between them right-aligned."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = []
    for row in rows:
        numbers = "  ".join(text.rjust(width) for text, width in zip(row[1:-1], widths[1:-1], strict=True))
        lines.append(f"{row[0].ljust(widths[0])}  {numbers}  {row[-1]}".rstrip())
    return lines


# --- placement ----------------------------------------------------------------------------------------------------


def place_layers(layers: Sequence[Layer], sessions: Sequence[SessionSpec], *, exactly: int = 0) -> SessionPlan:
    """Place layers in order, on one session after the other: the next one is used when a layer does not fit.

    With `exactly`, they are spread over that many sessions: the least memory is allowed for which they fit.
    """
    if exactly > len(layers):
        raise UsageError(
            f"{exactly} sessions are requested for {len(layers)} layers: some would be empty",
            hint="request fewer sessions",
        )
    sessions = sessions[: exactly or len(sessions)]
    largest = max(session.limit for session in sessions)
    runs = _first_fit(layers, sessions, largest, spread=bool(exactly))
    if sum(map(len, runs)) < len(layers):
        raise _too_much(layers, sessions, runs)
    if exactly:
        allowed = range(largest + 1)
        least = bisect_left(allowed, True, key=lambda most: _fits(layers, sessions, most))
        runs = _first_fit(layers, sessions, least, spread=True)
    return _plan(layers, sessions, runs)


def _first_fit(
    layers: Sequence[Layer], sessions: Sequence[SessionSpec], most: int, *, spread: bool
) -> list[list[Layer]]:
    """The layers of each session, until one does not fit the last; with `spread`, each later session keeps one."""
    rest, runs = list(layers), []
    for later, session in zip(range(len(sessions) - 1, -1, -1), sessions, strict=True):
        free, run = min(session.limit, most), list[Layer]()
        while rest and rest[0].total <= free and not (spread and len(rest) <= later):
            run.append(rest.pop(0))
            free -= run[-1].total
        runs.append(run)
    return runs


def _fits(layers: Sequence[Layer], sessions: Sequence[SessionSpec], most: int) -> bool:
    return sum(map(len, _first_fit(layers, sessions, most, spread=True))) == len(layers)


def _plan(layers: Sequence[Layer], sessions: Sequence[SessionSpec], runs: Sequence[Sequence[Layer]]) -> SessionPlan:
    shares = (
        SessionShare(session, tuple(layer.name for layer in run), sizes_of(run))
        for session, run in zip(sessions, runs, strict=True)
        if run
    )
    return SessionPlan(tuple(layers), tuple(shares))


def _too_much(layers: Sequence[Layer], sessions: Sequence[SessionSpec], runs: Sequence[Sequence[Layer]]) -> UsageError:
    limit = max(session.limit for session in sessions)
    large = [layer for layer in layers if layer.total > limit]
    if large:
        parts = max(-(-layer.total // limit) for layer in large)
        return UsageError(
            "; ".join(f"layer `{layer.name}` maps {size_text(layer.total)}" for layer in large)
            + f": a session may map {size_text(limit)}",
            hint=f"split the model into smaller shards: this one into {parts} or more",
        )
    enough = [SessionSpec("", 0, limit)] * len(layers)
    needed = sum(bool(run) for run in _first_fit(layers, enough, limit, spread=False))
    count = "one session" if len(sessions) == 1 else f"{len(sessions)} sessions"
    rest = ", ".join(f"`{layer.name}`" for layer in layers[sum(map(len, runs)) :])
    return UsageError(
        f"{len(layers)} layers that map {size_text(sizes_of(layers).total)} do not fit into {count} of at most "
        f"{size_text(limit)}",
        hint=f"{needed} sessions are enough; or split the model into smaller shards",
        details=[*str(_plan(layers, sessions, runs)).splitlines(), f"not placed: {rest}"],
    )


# --- layers of a model --------------------------------------------------------------------------------------------

_STATES = ("past_*", "*_cache", "*_cache_in", "*_cache_out", "kv_*")


def is_state_name(tensor: str) -> bool:
    """Whether the name of a tensor is one that caches usually have."""
    return any(fnmatchcase(tensor, pattern) for pattern in _STATES)


def layer_of(name: str, info: BinaryInfo, size: int, *, is_state: Callable[[str], bool] = is_state_name) -> Layer:
    """The layer of a context binary of `size` bytes, which are somewhat more than its weights.

    cache: inputs and outputs that are states.  compute: the other inputs and outputs of the largest graph, as graphs of
    a context run one after another.
    """
    cache: dict[tuple[bool, str], int] = {}
    compute = [0]
    for graph in info.graphs:
        tensors: list[tuple[bool, TensorInfo]] = [
            *((True, tensor) for tensor in graph.inputs),
            *((False, tensor) for tensor in graph.outputs),
        ]
        for side, tensor in tensors:
            if is_state(tensor.name):
                cache[side, tensor.name] = max(cache.get((side, tensor.name), 0), tensor.nbytes)
        compute.append(sum(tensor.nbytes for _, tensor in tensors if not is_state(tensor.name)))
    spill_fill = max((graph.htp.spill_fill for graph in info.graphs if graph.htp), default=0)
    return Layer(name, size, sum(cache.values()), max(compute), spill_fill)
