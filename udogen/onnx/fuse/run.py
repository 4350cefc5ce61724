"""`udogen onnx fuse` from beginning to end: read, write, build, and compare on the real backends."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.build.package import open_packages
from udogen.configs.load import load
from udogen.configs.xml_write import write as xml_text
from udogen.errors import ToolMissing, UdogenError, UsageError
from udogen.findings import Findings
from udogen.generate.pipeline import GenerateOptions, generate
from udogen.init.draft import check_config, save
from udogen.onnx.fuse import write
from udogen.onnx.fuse.subgraph import SourceModel, read_source
from udogen.onnx.fuse.write import FusedOp
from udogen.onnx.network.compare import NetworkResult, run_network
from udogen.onnx.network.execute import NetworkOptions
from udogen.opdef.names import fault_of_symbol
from udogen.verdict import Status, Verdict
from udogen.verify.packages import build
from udogen.verify.test_files import references

if TYPE_CHECKING:
    from udogen.onnx.models.model import Array


@dataclass(frozen=True)
class FuseOptions:
    """What is fused, and how the result is used."""

    model: Path
    nodes: str
    name: str
    out: Path
    feeds: Mapping[str, Path] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    backends: tuple[str, ...] = ("cpu", "htp")  # none: nothing is run


@dataclass(frozen=True)
class Compared:
    """The new model on a backend, compared by layers; or why it was not run."""

    backend: str
    result: NetworkResult | None = None
    failure: UdogenError | None = None

    @property
    def status(self) -> tuple[Status, str]:
        """Its row in the verdict; a network of which nothing could be compared is an error."""
        if self.result is None:
            return "error", self.failure.kind if self.failure else ""
        verdict = self.result.verdict
        return ("passed" if verdict.ok else "failed" if verdict.failed else "error"), ""

    def as_json(self) -> dict[str, Any]:
        """The comparison as `--json` prints it."""
        error = {"error": self.failure.as_json()} if self.failure else {}
        found = {"network": self.result.as_json()} if self.result else {}
        return {"backend": self.backend, "right": self.status[0] == "passed", **found, **error}


@dataclass(frozen=True)
class Fused:
    """What was written, and how it compares."""

    op: FusedOp
    files: Mapping[Path, str]
    model: Path
    compared: tuple[Compared, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the backends."""
        rows = [row.status for row in self.compared if not isinstance(row.failure, ToolMissing)]
        absent = len(self.compared) - len(rows)
        return Verdict.of(rows, planned=len(self.compared), absent=absent, needs_all=True, unit="backend")

    @property
    def exit_code(self) -> int:
        """That of the verdict, if something was to be compared."""
        return self.verdict.exit_code if self.compared else 0


def fuse(options: FuseOptions, log: Callable[[str], None]) -> Fused:
    """Write the op and the model, and compare them on the backends."""
    if fault := fault_of_symbol(options.name):
        raise UsageError(f"--name {options.name} {fault}", hint="as in --name BiasGelu")
    source = read_source(options.model, options.dims)
    nodes = source.select(options.nodes)
    feeds = source.feeds(options.feeds)
    op = write.fused_op(options.name, source.file, source.subgraph(nodes, feeds))
    files = _files(op, source, feeds)
    written = save({options.out / name: data for name, data in files.items()})
    model = options.out / _model_name(op)
    compared = []
    for backend in options.backends:
        log(f"{op.name} on {backend}: build, and run {model.name} in ONNX Runtime")
        try:
            compared.append(Compared(backend, _compare(op, options, backend, model)))
        except UdogenError as error:
            compared.append(Compared(backend, failure=error))
    return Fused(op, written, model, tuple(compared))


def _model_name(op: FusedOp) -> str:
    return f"{Path(op.source).stem}.{op.name}.onnx"


def _files(op: FusedOp, source: SourceModel, feeds: Mapping[str, Array]) -> dict[str, bytes]:
    findings = Findings()
    config = xml_text(write.package_of(op), findings, {})
    check_config(config, f"{op.name}.xml")
    files = {
        f"{op.name}.xml": config.encode(),
        f"kernels/{op.name}.py": write.kernel_text(op).encode(),
        f"{op.name}.reference.onnx": write.reference_model(op, source),
        "op_tests.toml": write.tests_text(op, f"{op.name}.xml").encode(),
        _model_name(op): write.rewritten(op, source, feeds),
    }
    for name, array in write.arrays_of(op).items():
        buffer = io.BytesIO()
        np.save(buffer, array)
        files[f"{write.VALUES}/{name}.npy"] = buffer.getvalue()
    return files


def _compare(op: FusedOp, options: FuseOptions, backend: str, model: Path) -> NetworkResult:
    reference = references.find(f"onnx:{op.name}.reference.onnx", options.out)
    package = _built(op, backend, options.out)
    return run_network(
        NetworkOptions(model, (package,), backend, inputs=options.feeds, references={op.name: reference})
    )


def _built(op: FusedOp, backend: str, folder: Path) -> Path:
    packages, _ = load([folder / f"{op.name}.xml"])
    out = folder / "packages" / backend
    generate(packages, GenerateOptions(out, backends=(backend,), kernels=folder / "kernels", layout="qnn"), Findings())
    [package] = [
        candidate
        for candidate in open_packages(out)
        if candidate.backend == backend and candidate.name == f"{op.name}Package"
    ]
    build(package, backend)
    return package.path


def lines(fused: Fused) -> Sequence[str]:
    """What was written and found, as lines of text."""
    op = fused.op
    files = [f"{path}: {action}" for path, action in fused.files.items() if path.parent.name != write.VALUES]
    inputs = ", ".join(f"{port.name} {'x'.join(map(str, port.shape))}" for port in op.inputs)
    outputs = ", ".join(f"{port.name} {'x'.join(map(str, port.shape))}" for port in op.outputs)
    summary = f"{op.name}: {len(op.part.nodes)} nodes; takes {inputs}; returns {outputs}"
    return [*files, summary, *(line for compared in fused.compared for line in _lines_of(compared))]


def _lines_of(compared: Compared) -> list[str]:
    """The results on one backend, as lines of text."""
    if failure := compared.failure:
        details = [*failure.details, failure.hint and f"= {failure.hint}"]
        first = f"{compared.backend}: NOT COMPARED: {failure.message}"
        return [first, *(f"  {line}" for line in details if line)]
    assert compared.result is not None
    result = compared.result
    first = f"{compared.backend}: {result.sentence()} ({result.runtime})"
    return [first, *(f"  not on QNN: {nodes}: {reason}" for nodes, reason in result.reasons())]


def as_json(fused: Fused) -> dict[str, Any]:
    """The same, as `--json` prints it."""
    op = fused.op
    return {
        "ok": fused.exit_code == 0,
        "op": op.name,
        "nodes": [node.name or node.output[0] for node in op.part.nodes],
        "inputs": [{"name": port.name, "value": port.value, "shape": list(port.shape)} for port in op.inputs],
        "outputs": [{"name": port.name, "value": port.value, "shape": list(port.shape)} for port in op.outputs],
        "model": str(fused.model),
        "files": [{"path": str(path), "action": action} for path, action in fused.files.items()],
        "compared": [comparison.as_json() for comparison in fused.compared],
    }
