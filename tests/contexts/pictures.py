"""The pictures of docs/contexts.md, drawn by the planner from the sharded model; `make golden` writes them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.making import LONG, ROOT
from udogen.draw.plan import draw_plan
from udogen.runtime import StoredContext
from udogen.runtime.buffers.planning import BufferOptions, ExecutionStep, chain_links, plan_buffers

PICTURES = ROOT / "docs" / "pictures"
GRAPH = "kv_forward"


def pictures(model: Path) -> dict[str, str]:
    """Return the texts of the pictures by name."""
    steps = []
    for shard in range(3):
        with StoredContext(model / f"forward_{shard}.bin") as stored:
            steps.append(ExecutionStep(shard, stored.info.graph(GRAPH)))
    wishes = BufferOptions(alignment=128, packed=True, reuse=True, stepwise=True)
    shared = plan_buffers(steps, wishes, chain_links(steps, {"hidden_out": "hidden"}))
    return {"share.svg": draw_plan(shared, title="Three shards, bytes used again"), "plan.svg": _of_the_command(model)}


def _of_the_command(model: Path) -> str:
    [library] = model.glob("package/*/build/x86_64-linux-clang/lib*.so")
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        argv = [sys.executable, "-m", "udogen", "run", "context", model / "forward_0.bin", model / "forward_1.bin"]
        argv += ["--op-package", library, "--graph", GRAPH, "--align", "128", "--bind-plan-out", plan]
        subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, timeout=LONG)
        return plan.with_suffix(".svg").read_text("utf-8")


def write() -> None:
    """Build the model, and draw the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, ROOT / "examples/sharded_llm/build.py", "--out", folder]
        subprocess.run(argv, check=True, capture_output=True, timeout=LONG)
        for name, text in pictures(Path(folder)).items():
            (PICTURES / name).write_text(text, "utf-8")
