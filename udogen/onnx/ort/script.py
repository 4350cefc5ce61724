"""ONNX Runtime in scripts: its command, and models with schemas for their custom ops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from udogen import resources
from udogen.clients.package import Package
from udogen.clients.scripts.commands import ClientRun, ScriptClient, plain_result
from udogen.clients.scripts.plan import CHOSEN, OUT, Command, ScriptFile
from udogen.errors import UsageError
from udogen.onnx.ort import contexts, preflight, schema
from udogen.onnx.ort.client import SCHEMA_NEEDED


def _command(run: ClientRun) -> Command:
    option = run.registration("option")[0].removeprefix("op_packages=")
    words = ["python3", "ort_client.py", "--model", run.model, "--backend", run.backend, "--op-packages", option]
    words += ["--inputs", "inputs.json", "--samples", str(run.samples), "--output", OUT]
    if run.hexagon:
        words += ["--device", CHOSEN]
    program = (resources.templates() / "scripts" / "ort_client.py.in").read_bytes()
    inputs = {each.name: each.file for each in run.inputs}
    files = (
        ScriptFile("bin/ort_client.py", "ort_client.py", program),
        ScriptFile("inputs.json", "inputs.json", (json.dumps(inputs, indent=2) + "\n").encode()),
    )
    return Command(tuple(words), files)


def _prepared(path: Path, packages: Sequence[Package], rules: Path | None) -> tuple[Path | bytes, Sequence[str]]:
    """The model with schemas for its custom ops, and the files that it names: external data, context binaries."""
    if nodes := contexts.nodes_of(path):
        contexts.check(path, nodes, packages)
        return path, [each.file for each in nodes if each.file]
    found = schema.for_packages(path, packages, rules)
    preflight.check_model(found.model, packages)
    if missing := schema.without_shape(found):
        raise UsageError(
            f"{path}: {missing[0]}; QNN takes only fixed shapes", details=missing[1:], hint=schema.SHAPE_HINT
        )
    return (found.of(path) if found.changes else path), found.external


SCRIPT = ScriptClient(
    _command,
    ("model",),
    plain_result,
    prepare=_prepared,
    no_android="ONNX Runtime is run in Python, which Android does not have: use --device ssh, or adb with --linux",
    without_note=SCHEMA_NEEDED,
)
