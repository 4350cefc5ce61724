"""The parts of the documents that are generated from the registries."""

from __future__ import annotations

from pathlib import Path

from udogen.backends import targets
from udogen.build import toolchains
from udogen.onnx.fuse import ops

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
VERIFIED = ROOT / "docs" / "verified.md"
FUSE = ROOT / "docs" / "fuse-ops.md"
_OPS = "<!-- ops: written by `make golden` from udogen/onnx/fuse/ops.py; a test holds it to them -->\n"
_OPS_END = "<!-- /ops -->"
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
    FUSE.write_text(with_ops(FUSE.read_text("utf-8")), "utf-8")
    VERIFIED.write_text(with_matrix(VERIFIED.read_text("utf-8")), "utf-8")
