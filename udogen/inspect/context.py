"""Inspects a context binary: its contents, its manifest, and the JSON next to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.backends import by_number
from udogen.errors import UdogenError
from udogen.findings import ConfigError, Finding, line_of, wrapped
from udogen.inspect.inspection import NARROWEST
from udogen.qnn import heads, socs
from udogen.qnn.system import BinaryInfo, GraphInfo
from udogen.qnn.tensors import QnnTensor
from udogen.runtime.contexts import binaries, context_json, manifest
from udogen.runtime.contexts.binaries import StoredContext, json_of
from udogen.runtime.contexts.context_json import ContextJson, compare, describe_quantization, too_small
from udogen.runtime.contexts.manifest import ManifestCheck
from udogen.tables import columns, many

_LABEL = 12
_OTHERS = {7: "HTA", 1: "reference", 2: "Saver"}  # backends of QNN that udogen does not generate for


@dataclass(frozen=True)
class InspectedContext:
    """A context binary and the findings about it."""

    path: Path
    size: int
    emulator: bool
    info: BinaryInfo
    verdict: ManifestCheck
    json: Path | None
    differences: tuple[str, ...]
    warnings: tuple[Finding, ...]  # of the JSON
    faults: tuple[UdogenError, ...]  # errors that prevent a run

    @property
    def exit_code(self) -> int:
        """0, or the exit code of the first fault."""
        return self.faults[0].exit_code if self.faults else 0


def is_context_binary(path: Path) -> bool:
    """Whether a path is meant to be a context binary, even a broken one."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(heads.LENGTH)
    except OSError:
        return path.suffix == ".bin"
    return heads.is_known(start) or path.suffix == ".bin"


def inspect_context(
    path: Path, *, system_library: Path | None = None, on_step: Callable[[str], None] = lambda _line: None
) -> InspectedContext:
    """Inspect one context binary; raises only if nothing in it can be read."""
    faults: list[UdogenError] = []
    head = binaries.head_of(path)
    verdict = manifest.check(path)
    try:
        verdict.refuse()
    except UdogenError as fault:
        faults.append(fault)
    described, json = None, json_of(path)
    if json is not None:
        try:
            described = context_json.read(json)
        except UdogenError as fault:
            faults.append(fault)
    with StoredContext(
        path,
        system_library=system_library,
        use_json=False,
        check_manifest=False,
        guarded=not verdict.good,
        on_step=on_step,
    ) as stored:
        info, size = stored.info, len(stored.data)
    differences, warnings = _beside(described, info, path, faults)
    return InspectedContext(path, size, head.emulator, info, verdict, json, differences, warnings, tuple(faults))


def _beside(
    described: ContextJson | None, info: BinaryInfo, path: Path, faults: list[UdogenError]
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    if described is None:
        return (), ()
    try:
        too_small(described, info, path)
    except UdogenError as fault:
        faults.append(fault)
    return compare(described, info), described.warnings


# --- as text ----------------------------------------------------------------------------------------------------------


def lines(inspected: InspectedContext, *, width: int) -> Iterator[str]:
    """The report, line by line."""
    width = max(width, NARROWEST)
    info = inspected.info
    made_by = by_number(info.backend_id)
    backend = made_by.id.upper() if made_by else _OTHERS.get(info.backend_id, f"backend {info.backend_id}")
    graphs = many(len(info.graphs), "graph")
    yield f"{inspected.path}: context binary for {backend}{' of the emulator' if inspected.emulator else ''}, {graphs}"
    for fault in inspected.faults:
        yield from _fault(fault, width)
    for label, text in _facts(inspected):
        yield from wrapped(f"  {label:<{_LABEL}}", text, width)
    for finding in inspected.warnings:
        yield from wrapped("    ! ", line_of(finding), width)
    for difference in inspected.differences:
        yield from wrapped("    ! ", difference, width)
    for graph in info.graphs:
        yield from _graph(graph, width)
    if info.context_tensors:
        yield "  tensors of the context"
        yield from _tensors(info.context_tensors)


def _fault(fault: UdogenError, width: int) -> Iterator[str]:
    yield from wrapped("  x ", fault.message, width)
    for detail in fault.details:
        yield from wrapped("      ", detail, width)
    if fault.hint:
        yield from wrapped("    = ", fault.hint, width)


def _facts(inspected: InspectedContext) -> Iterator[tuple[str, str]]:
    info = inspected.info
    yield "file", f"{inspected.size} bytes; of the backend's own {info.blob_size}, its format {info.blob_version}"
    made = info.build_id or "an unknown SDK"
    yield "made by", f"{made}; core API {info.api_version}, backend API {info.backend_version}"
    if target := _target(info):
        yield "made for", target
    if info.sharing:
        yield "stored once", info.sharing
    yield "manifest", inspected.verdict.message
    if inspected.json is not None:
        count = len(inspected.differences)
        text = f"{many(count, 'difference')}: the binary counts" if count else "agrees"
        broken = any(isinstance(fault, ConfigError) for fault in inspected.faults)
        yield "JSON", f"{inspected.json.name}: " + ("cannot be used" if broken else text)


def _target(info: BinaryInfo) -> str:
    soc = next((row.name for row in socs.ALL.values() if row.model == info.soc_model), "")
    words = [
        f"Hexagon {info.arch}" if info.arch else "",
        f"SoC {soc or info.soc_model}" if info.soc_model else "",
        info.soc if info.soc not in ("", str(info.soc_model)) else "",
        many(len(info.devices), "device") if info.devices else "",
    ]
    return ", ".join(word for word in words if word)


def _graph(graph: GraphInfo, width: int) -> Iterator[str]:
    yield f"  graph {graph.name}"
    if graph.htp is not None:
        values = graph.htp._asdict()
        shown = [f"{name.replace('_', ' ')} {_amount(value)}" for name, value in values.items() if value]
        yield from wrapped("    HTP      ", ", ".join(shown) or "nothing known", width)
    for what, side in (("inputs", graph.inputs), ("outputs", graph.outputs), ("updateable", graph.updateable)):
        if side:
            total = sum(tensor.nbytes for tensor in side if not tensor.dtype.startswith("0x"))
            yield f"    {what}: {len(side)}, {_amount(total)} bytes"
            yield from _tensors(side)


def _tensors(tensors: Sequence[QnnTensor]) -> Iterator[str]:
    rows = [
        (
            str(tensor.id),
            tensor.name,
            tensor.dtype,
            _shape(tensor),
            "" if tensor.dtype.startswith("0x") else f"{_amount(tensor.nbytes)} B",
            describe_quantization(tensor.quant) if tensor.quant else "",
        )
        for tensor in tensors
    ]
    yield from (f"      {line}" for line in columns(rows))


def _shape(tensor: QnnTensor) -> str:
    flags = tensor.dynamic or (False,) * len(tensor.shape)
    sizes = [f"{size}?" if dynamic else str(size) for size, dynamic in zip(tensor.shape, flags, strict=False)]
    return f"[{', '.join(sizes)}]"


def _amount(value: int | bool) -> str:
    return "yes" if value is True else f"{value:,}"


# --- as JSON ----------------------------------------------------------------------------------------------------------


def as_json(inspected: InspectedContext) -> dict[str, Any]:
    """Everything, as plain data; the contents are in the form of qnn-context-binary-utility."""
    return {
        "path": str(inspected.path),
        "kind": "context",
        "size": inspected.size,
        "emulator": inspected.emulator,
        **context_json.info_fields(inspected.info),
        "manifest": {
            "state": inspected.verdict.state,
            "message": inspected.verdict.message,
            **({"recorded": inspected.verdict.manifest._asdict()} if inspected.verdict.manifest else {}),
        },
        "json": str(inspected.json) if inspected.json else None,
        "differences": list(inspected.differences),
        "warnings": [finding.as_json() for finding in inspected.warnings],
        "faults": [fault.as_json() for fault in inspected.faults],
    }
