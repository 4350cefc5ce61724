"""Which layer of a model runs in which session, what each session maps, and the table that explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

MIB = 1 << 20
# "Limited to a memory mapping of around 3.5GB" (ggml-hexagon's developer page): the smaller reading of GB, for a model
# that maps too much fails on the device, and one session too many only costs a hand-over.
DEFAULT_LIMIT = 3_500_000_000


class Activation(NamedTuple):
    """A tensor that one layer hands to the next in shared memory: each session that has one of them maps it once."""

    name: str
    size: int


@dataclass(frozen=True)
class Layer:
    """What is placed as a whole: a context, or a layer of one; sizes in bytes."""

    name: str
    weights: int
    cache: int = 0
    compute: int = 0  # inputs, outputs and room of its own
    spill_fill: int = 0
    activations: tuple[Activation, ...] = ()


@dataclass(frozen=True)
class SessionSpec:
    """A session that may be opened: its name, the device it runs on, how much it may map."""

    name: str
    device: int
    limit: int = DEFAULT_LIMIT


class Sizes(NamedTuple):
    """What some layers map together."""

    weights: int = 0
    cache: int = 0
    compute: int = 0  # with spill-fill and activations

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.compute


@dataclass(frozen=True)
class Share:
    """What one session gets."""

    session: SessionSpec
    layers: tuple[str, ...]
    sizes: Sizes

    @property
    def free(self) -> int:
        """What it could map besides; negative where it is too much."""
        return self.session.limit - self.sizes.total


@dataclass(frozen=True)
class Handover:
    """An activation that goes from one session to another."""

    activation: str
    size: int
    source: str
    target: str


@dataclass(frozen=True)
class SessionPlan:
    """The layers of a model on sessions; layers keep their order, sessions without layers are left out."""

    layers: tuple[Layer, ...]
    shares: tuple[Share, ...]
    handovers: tuple[Handover, ...]
    shared_spill_fill: bool = False

    def session_of(self, layer: str) -> SessionSpec:
        """The session that a layer is placed in."""
        return next(share.session for share in self.shares if layer in share.layers)

    @property
    def sizes(self) -> Sizes:
        """What all sessions map together."""
        return Sizes(*(sum(share.sizes[each] for share in self.shares) for each in range(3)))

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
            "handovers": [
                {"activation": each.activation, "size": each.size, "source": each.source, "target": each.target}
                for each in self.handovers
            ],
            "shared_spill_fill": self.shared_spill_fill,
            "total": self.sizes.total,
        }


def sizes_of(layers: Sequence[Layer], *, shared_spill_fill: bool = False) -> Sizes:
    """What these layers map in one session: an activation once, spill-fill buffers together or one for all."""
    spills = [layer.spill_fill for layer in layers]
    handed = {each.name: each.size for layer in layers for each in layer.activations}
    spill = max(spills, default=0) if shared_spill_fill else sum(spills)
    return Sizes(
        weights=sum(layer.weights for layer in layers),
        cache=sum(layer.cache for layer in layers),
        compute=sum(layer.compute for layer in layers) + spill + sum(handed.values()),
    )


def handovers_of(layers: Sequence[Layer], sessions: Mapping[str, SessionSpec]) -> tuple[Handover, ...]:
    """The activations that layers in different sessions share, in the order of the layers."""
    found: dict[tuple[str, str, str], Handover] = {}
    last: dict[str, SessionSpec] = {}
    for layer in layers:
        here = sessions[layer.name]
        for each in layer.activations:
            source = last.get(each.name, here)
            if source != here:
                made = Handover(each.name, each.size, source.name, here.name)
                found.setdefault((each.name, source.name, here.name), made)
            last[each.name] = here
    return tuple(found.values())


def size_text(size: int) -> str:
    """A size as sentences have it."""
    return f"{size / MIB:.2f} MiB" if abs(size) >= MIB / 10 else f"{size} bytes"


# --- the table --------------------------------------------------------------------------------------------------

_HEAD = ("session [MiB]", "weights", "cache", "compute", "total", "limit", "free", "layers")


def lines(plan: SessionPlan) -> list[str]:
    """The plan as a table, one session in a line; below it what goes from one session to the next."""
    rows = [_row(share) for share in plan.shares]
    rows.append(
        ("all", *(_mib(each) for each in (*plan.sizes, plan.sizes.total)), "", "", f"{len(plan.layers)} layers")
    )
    table = _columns([_HEAD, *rows])
    for source, target in dict.fromkeys((each.source, each.target) for each in plan.handovers):
        handed = [each for each in plan.handovers if (each.source, each.target) == (source, target)]
        names = ", ".join(f"`{each.activation}`" for each in handed)
        table.append(f"{source} -> {target}: {names}: {size_text(sum(each.size for each in handed))} mapped by both")
    return table


def _row(share: Share) -> tuple[str, ...]:
    sizes = share.sizes
    numbers = (*sizes, sizes.total, share.session.limit, share.free)
    return (share.session.name, *(_mib(each) for each in numbers), _names(share.layers))


def _names(layers: Sequence[str]) -> str:
    return ", ".join(layers) if len(layers) < 3 else f"{layers[0]} … {layers[-1]} ({len(layers)})"


def _mib(size: int) -> str:
    return f"{size / MIB:.2f}"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[index]) for row in rows) for index in range(len(_HEAD))]
    made = []
    for row in rows:
        numbers = "  ".join(text.rjust(width) for text, width in zip(row[1:-1], widths[1:-1], strict=True))
        made.append(f"{row[0].ljust(widths[0])}  {numbers}  {row[-1]}".rstrip())
    return made
