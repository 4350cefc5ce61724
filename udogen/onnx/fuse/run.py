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
from udogen.errors import RunFailed, ToolMissing, UdogenError, UsageError
from udogen.findings import Findings
from udogen.generate.pipeline import GenerateOptions, generate
from udogen.init.draft import check_config, save
from udogen.onnx.fuse import write
from udogen.onnx.fuse.subgraph import SourceModel, read_source
from udogen.onnx.fuse.write import FusedOp
from udogen.onnx.network import compare, execute
from udogen.onnx.ort.worker import NetworkRan
from udogen.opdef.names import fault_of_symbol
from udogen.verdict import Status, Verdict
from udogen.verify.packages import build
from udogen.verify.test_files import references

if TYPE_CHECKING:
    from udogen.onnx.models.model import Array

# Tolerances, as fractions of a tensor's range: for the op's results from its own inputs, and for the model's results.
# HTP calculates the rest of a model with 16 bits.
TOLERANCES = {"cpu": (1e-5, 1e-4), "htp": (1e-3, 2e-2)}
_MOST_NAMES = 5


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
    """How far results on a backend are from those of the original model on ONNX Runtime's CPU."""

    backend: str
    failure: UdogenError | None = None  # why the model was not run
    runtime: str = ""
    own: float | None = None  # the op's outputs, from the inputs that it had; None: nothing could be run
    model: float | None = None  # the model's outputs; None: at most the op alone could be run
    elsewhere: tuple[str, ...] = ()  # nodes that QNN did not take

    @property
    def right(self) -> bool:
        """Whether what was compared is within its tolerance."""
        own, model = TOLERANCES[self.backend]
        return self.own is not None and self.own <= own and (self.model or 0.0) <= model

    @property
    def status(self) -> tuple[Status, str]:
        """Its row in the verdict."""
        if self.own is not None and not self.right:
            return "failed", ""
        return ("error", self.failure.kind) if self.failure else ("passed", "")

    def as_json(self) -> dict[str, Any]:
        """The comparison as `--json` prints it."""
        names = ("runtime", "own", "model", "elsewhere") if self.own is not None else ()
        error = {"error": self.failure.as_json()} if self.failure else {}
        return {"backend": self.backend, "right": self.right, **{name: getattr(self, name) for name in names}, **error}


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
            compared.append(_compare(op, source, feeds, backend, options.out, model))
        except UdogenError as error:
            compared.append(Compared(backend, error))
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


def _compare(
    op: FusedOp, source: SourceModel, feeds: Mapping[str, Array], backend: str, folder: Path, model: Path
) -> Compared:
    package = _built(op, backend, folder)
    wanted = [tensor.name for tensor in source.graph.output]
    expected = source.run(feeds, wanted)
    try:
        ran, runtime = _on_qnn(source, op, feeds, backend, package, model)
    except RunFailed as failure:
        return _compare_alone(op, backend, package, model, failure)
    arrays = {row.name: row.array for row in ran.samples[0]} | dict(feeds)
    reference = references.find(f"onnx:{op.name}.reference.onnx", folder)
    given = [arrays[name].reshape(port.shape) if name in arrays else op.array(port) for port, name in _taken(op)]
    alone = reference(given, {}, [port.name for port in op.outputs])
    own = max(_apart(arrays[port.value].reshape(port.shape), alone[port.name], op.array(port)) for port in op.outputs)
    whole = max((_apart(arrays[name], expected[name], expected[name]) for name in wanted), default=0.0)
    return Compared(backend, None, runtime, own, whole, ran.elsewhere)


def _compare_alone(op: FusedOp, backend: str, package: Path, model: Path, failure: RunFailed) -> Compared:
    """Compare the op in a separate model; raises `failure`, of the whole model, if that does not run, either."""
    options = execute.NetworkOptions(model, (package,), backend)
    sample = {port.name: op.array(port) for port in op.inputs if not port.static}
    try:
        ran, runtime = execute.run_on_qnn(options, write.model_of(op), [port.name for port in op.outputs], [sample])
    except UdogenError as error:
        raise failure from error
    arrays = {row.name: row.array for row in ran.samples[0]}
    own = max(_apart(arrays[port.name], op.array(port), op.array(port)) for port in op.outputs)
    return Compared(backend, failure, runtime, own, None, ran.elsewhere)


def _taken(op: FusedOp) -> list[tuple[write.OpPort, str]]:
    """The inputs of the op, and their values in the model."""
    return [(port, "" if port.static else port.value) for port in op.inputs]


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


def _on_qnn(
    source: SourceModel, op: FusedOp, feeds: Mapping[str, Array], backend: str, package: Path, model: Path
) -> tuple[NetworkRan, str]:
    """Run the model on QNN, with the op's inputs and outputs as additional outputs."""
    onnx = source.onnx
    made = onnx.load(str(model))
    outputs = [tensor.name for tensor in made.graph.output]
    known = {
        *outputs,
        *(tensor.name for tensor in made.graph.input),
        *(tensor.name for tensor in made.graph.initializer),
    }
    values = dict.fromkeys(port.value for port in (*op.inputs, *op.outputs) if not port.static)
    for name in values:
        if name not in known:
            array = op.part.values[name]
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            made.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, list(array.shape)))
            outputs.append(name)
    used = {tensor.name for tensor in made.graph.input}
    sample = {name: array for name, array in feeds.items() if name in used}
    options = execute.NetworkOptions(model, (package,), backend)
    return execute.run_on_qnn(options, made, outputs, [sample])


def _apart(found: Array, expected: Array, usual: Array) -> float:
    """The largest difference, as a fraction of the tensor's range."""
    return compare.apart(found, expected) / compare.span_of(usual)


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
    failure = compared.failure
    if compared.own is None and failure:
        details = [*failure.details, failure.hint and f"= {failure.hint}"]
        first = f"{compared.backend}: NOT COMPARED: {failure.message}"
        return [first, *(f"  {line}" for line in details if line)]
    off = f"the op is off by {compared.own:.2g} of its range, the model by {compared.model or 0.0:.2g}"
    if failure:
        off = f"the op alone is off by {compared.own:.2g} of its range"
    lines = [f"{compared.backend}: {'right' if compared.right else 'WRONG'}; {off} ({compared.runtime})"]
    if failure:
        lines.append(f"  MODEL NOT COMPARED: {failure.message}")
        lines += [f"    {line}" for line in failure.details]
        lines.append("    = to compare the op among its neighbours, cut a part out: onnx.utils.extract_model")
    if compared.elsewhere:
        more = " …" if len(compared.elsewhere) > _MOST_NAMES else ""
        names = ", ".join(compared.elsewhere[:_MOST_NAMES]) + more
        lines.append(f"  {len(compared.elsewhere)} nodes not on QNN, but on ONNX Runtime's CPU: {names}")
    return lines


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
