"""The parts of the documents that are generated from the registries."""

from __future__ import annotations

from pathlib import Path

from udogen import backends
from udogen.backends import targets
from udogen.backends.backend import Backend
from udogen.build import toolchains
from udogen.onnx import places as onnx_places
from udogen.onnx.fuse import ops

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
VERIFIED = ROOT / "docs" / "verified.md"
FUSE = ROOT / "docs" / "fuse-ops.md"
_OPS = "<!-- ops: written by `make golden` from udogen/onnx/fuse/ops.py; a test holds it to them -->\n"
_OPS_END = "<!-- /ops -->"
_SUPPORT = "<!-- support: written by `make golden` from the registries; a test holds it to them -->\n"
_SUPPORT_END = "<!-- /support -->"
_BEGIN = "<!-- matrix: written by `make golden` from the registries; a test holds it to them -->\n"
_END = "<!-- /matrix -->"


def matrix() -> str:
    """Return the support matrix: backend x target x toolchain x how it is verified."""
    head = ("backend", "target", "machine", "toolchain `sdk`", "toolchain `open`", "how it is verified")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    rows = [*targets.ALL.values(), *(row for row in targets.UDO.values() if row.backend == "reg")]
    for row in rows:
        cells = [row.backend, f"`{row.id}`", row.machine]
        cells += [toolchains.ALL[name].compiler_of(row) for name in ("sdk", "open")]
        lines.append(f"| {' | '.join([*cells, row.verified])} |")
    return "\n".join(lines) + "\n"


def support() -> str:
    """Return the table of README.md: where the packages of each backend run on this machine, and what is built."""
    head = (
        "",
        "Qualcomm's library, here",
        "ONNX Runtime, here",
        "emulator of udogen",
        "Hexagon code in QEMU",
        "built for",
    )
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for backend in backends.ALL.values():
        library = backend.runtime.library if backend.runtime else ""
        runs = f"runs in `{library}`" if library and "x86_64" in backend.runtime.machines else "no public one for PCs"
        in_ort = backend.id in (onnx_places.CPU.config, onnx_places.HTP.config)
        cells = ["runs" if each else "" for each in (in_ort, backend.emulator, backend.harness)]
        lines.append(f"| {' | '.join([backend.title, runs, *cells, _devices(backend)])} |")
    return "\n".join(lines) + "\n"


def _devices(backend: Backend) -> str:
    """Return the machines for which zig builds the libraries of a backend."""
    rows = [row for row in backend.targets if toolchains.ALL["open"].compiler_of(row) != "-" and not row.native]
    others = [row.machine.rpartition("else ")[2] for row in rows if not row.arch]
    versions = [row.arch for row in rows if row.arch]
    return ", ".join([*others, *([f"Hexagon {versions[0]} to {versions[-1]}"] if versions else [])])


def with_support(text: str) -> str:
    """Return README.md with the table of the current registries."""
    head, rest = text.split(_SUPPORT)
    _, tail = rest.split(_SUPPORT_END)
    return head + _SUPPORT + support() + _SUPPORT_END + tail


def with_matrix(text: str) -> str:
    """Return docs/verified.md with the matrix of the current registries."""
    head, rest = text.split(_BEGIN)
    _, tail = rest.split(_END)
    return head + _BEGIN + matrix() + _END + tail


def with_ops(text: str) -> str:
    """Return docs/fuse-ops.md with the table of the ops that can be fused."""
    head, rest = text.split(_OPS)
    _, tail = rest.split(_OPS_END)
    return f"{head}{_OPS}{ops.table()}\n{_OPS_END}{tail}"


def write_golden() -> None:
    """Rewrite the generated parts of the documents."""
    README.write_text(with_support(README.read_text("utf-8")), "utf-8")
    FUSE.write_text(with_ops(FUSE.read_text("utf-8")), "utf-8")
    VERIFIED.write_text(with_matrix(VERIFIED.read_text("utf-8")), "utf-8")
