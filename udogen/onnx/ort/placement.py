"""Where the nodes of a session are, and why ONNX Runtime failed, or left a node to another execution provider.

Reasons come from its log, from the rules of its QNN provider, from registering the packages in a worker, and from the
contexts of a model.  They are collected only after a failure.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen import backends, error_tables
from udogen.build import elf
from udogen.clients.explain import explain_line
from udogen.clients.package import Package
from udogen.errors import RunFailed, UdogenError
from udogen.findings import Finding
from udogen.onnx.models.model import STANDARD, UNKNOWN, OnnxGraph, OnnxModel, OnnxNode, type_in, walk
from udogen.onnx.ort.contexts import OP, ContextModel
from udogen.onnx.ort.schema import MARK, SHAPE_HINT
from udogen.runtime.op.session import OpSession

EP = "QNN"

# --- the log --------------------------------------------------------------------------------------------

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_HEAD = re.compile(r"^\S+ \S+ \[\w:onnxruntime:.*?, [^\]]*\] ")
# An entry of low severity, with its lines that begin with blanks.
_VERBOSE = re.compile(r"^\S+ \S+ \[[VI]:onnxruntime:.*\n(?:[ \t]+.*\n|\n)*", re.MULTILINE)
_NOT_REGISTERED = "ort-registration"  # ids of lines in data/log_lines/ort.toml
_RANKS = {"ort-no-kernel": -1} | dict.fromkeys(("ort-lost", _NOT_REGISTERED, "ort-context-lost"), 1)  # vague: last
_LOOKAHEAD = 24


@dataclass(frozen=True)
class LogReasons:
    """The reasons for a failure that a log contains."""

    refusals: tuple[str, ...] = ()  # messages of the package or the runtime about the op
    known: tuple[Finding, ...] = ()  # lines in udogen's tables; the vaguest are last
    not_registered: bool = False  # whether it has the line about a package that was not registered

    @property
    def first(self) -> str:
        """The best sentence about the failure; empty if there is none."""
        return next(iter((*self.refusals, *(finding.message for finding in self.known))), "")

    @property
    def details(self) -> list[str]:
        """Everything that `first` may leave out."""
        return [*self.refusals[1:], *(finding.message for finding in self.known)]

    @property
    def remedy(self) -> str:
        """The first remedy; empty if there is none."""
        return next((finding.hint for finding in self.known if finding.hint), "")


def read_log(output: str, *, message: str = "", ops: Sequence[str] = ()) -> LogReasons:
    """The reasons in a log and an error message; `ops` limits messages of packages to these ops."""
    output = _VERBOSE.sub("", output)
    lines = error_tables.without_noise(output.splitlines())
    printed = [_HEAD.sub("", _COLOURS.sub("", line)).strip() for line in lines]
    refusals = [
        line for line in printed if re.match(r"op \w+: ", line) and (not ops or line.split()[1].rstrip(":") in ops)
    ]
    lines = [_COLOURS.sub("", line) for line in f"{output}\n{message}".splitlines()]
    findings: dict[str, Finding] = {}
    for index, line in enumerate(lines):
        for each in explain_line(line, lines[index + 1 : index + 1 + _LOOKAHEAD]):
            if not each.harmless:
                findings.setdefault(each.key, Finding(each.meaning, each.causes[0].remedy if each.causes else ""))
    ranked = sorted(findings, key=lambda key: 2 if key.startswith("ort ") else _RANKS.get(key, 0))
    return LogReasons(
        tuple(dict.fromkeys(refusals)),
        tuple(findings[key] for key in ranked),
        not_registered=_NOT_REGISTERED in findings,
    )


_REFUSED = re.compile(r"Validation FAILED for .*\n((?:\s*Operator type: .*\n)+)\s*REASON : (.*)")
_REFUSED_NODE = re.compile(r"Operator type: \S+ Node name: (.*) Node index: \d+")
_REPEATED = re.compile(r"\.?\w+ node `.*` will not be assigned to QNN EP\.?")


def refused_nodes(output: str) -> dict[str, str]:
    """The nodes that the provider did not take, and its reasons, from a log of all severities."""
    return {
        node: _REPEATED.sub("", reason).strip()
        for nodes, reason in _REFUSED.findall(_COLOURS.sub("", output))
        for node in _REFUSED_NODE.findall(nodes)
    }


class Failure(RunFailed):
    """A failure of ONNX Runtime, with the reasons from its log."""

    def __init__(
        self, message: str, *, hint: str = "", details: Sequence[str] = (), log: LogReasons | None = None
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.log = log or LogReasons()

    @property
    def refused(self) -> bool:
        """Whether the op itself refused the node."""
        return bool(self.log.refusals)


class SessionFailed(Failure):
    """ONNX Runtime could not create the session."""

    kind = "ort-session-failed"


class NotPlaced(Failure):
    """A custom node is not on QNN, or not in its package."""

    kind = "ort-not-placed"


# --- the placement of nodes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NodePlacement:
    """The placement of a session's nodes."""

    nodes: Mapping[str, Counter[str]]  # execution provider -> op type -> nodes
    replaced: tuple[str, ...]  # nodes of schema bodies that replaced a custom node
    in_packages: Counter[tuple[str, str]]  # (package, op type) of the nodes in QNN's graph
    names: frozenset[str]  # of the nodes in QNN's graph, and of the tensors that they compute
    output: str  # what was printed while the session was created

    def on_qnn(self, op: str) -> int:
        """The number of nodes of an op type that are on QNN."""
        return sum(count[op] for name, count in self.nodes.items() if EP in name)

    def elsewhere(self, op: str) -> list[str]:
        """The other execution providers that have nodes of an op type."""
        return [name for name, count in self.nodes.items() if count[op] and EP not in name]


_RENAMED = re.compile(r"_token_\d+$")  # ends the names that ONNX Runtime gives when it changes the layout of tensors


def placement_of(made: Any, dump: Path, output: str) -> NodePlacement:
    nodes: dict[str, Counter[str]] = {}
    names: set[str] = set()
    replaced = []
    for part in made.get_provider_graph_assignment_info():
        for node in part.get_nodes():
            nodes.setdefault(part.ep_name, Counter())[node.op_type] += 1
            if MARK in node.name:
                replaced.append(node.name)
    in_packages: Counter[tuple[str, str]] = Counter()
    for file in sorted(os.listdir(dump)):
        if file.endswith(".json") and not file.endswith("_tensor_log.json"):
            graph = json.loads((dump / file).read_text("utf-8", "replace")).get("graph", {})
            for name, node in graph.get("nodes", {}).items():
                in_packages[node["package"], node["type"]] += 1
                names |= {_RENAMED.sub("", each) for each in (name, *node["output_names"])}
    return NodePlacement(nodes, tuple(replaced), in_packages, frozenset(names), output)


def nodes_elsewhere(made: Any) -> tuple[str, ...]:
    """The names of a session's nodes that are not on QNN, except those that only quantize at its borders."""
    return tuple(
        node.name or node.op_type
        for part in made.get_provider_graph_assignment_info()
        if EP not in part.ep_name
        for node in part.get_nodes()
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear")
    )


def check_placement(placement: NodePlacement, model: OnnxModel, packages: Sequence[Package]) -> None:
    for package in packages:
        for op in package.ops:
            in_package, on_qnn = placement.in_packages[package.name, op], placement.on_qnn(op)
            replaced = any(name.endswith(f"{op}_{MARK}") for name in placement.replaced)
            if in_package and in_package >= on_qnn and not placement.elsewhere(op) and not replaced:
                continue
            if on_qnn > in_package and _is_quantized(model, op):
                raise NotPlaced(
                    f"a node of op {op} is not in package {package.name}: it went to QNN's own op of that name, for "
                    "ONNX Runtime keeps built-in ops between DequantizeLinear and QuantizeLinear from op packages",
                    hint=f"give the node its own domain, like udogen::{op}: the package gets quantized tensors",
                )
            raise _not_placed(package, op, placement, model)


def _is_quantized(model: OnnxModel, op: str) -> bool:
    """Whether a node of ONNX's own op of this name is between DequantizeLinear and QuantizeLinear."""
    nodes = [node for node, _ in walk(model.graph)]
    dequantized = {name for node in nodes if node.op.type == "DequantizeLinear" for name in node.outputs}
    quantized = {node.inputs[0] for node in nodes if node.op.type == "QuantizeLinear"}
    return any(
        node.op.type == op
        and node.op.domain in STANDARD
        and dequantized & {*node.inputs}
        and quantized & {*node.outputs}
        for node in nodes
    )


def _not_placed(package: Package, op: str, placement: NodePlacement, model: OnnxModel) -> NotPlaced:
    log = read_log(placement.output, ops=[op])
    used = sum(node.op.type == op for node, _ in walk(model.graph))
    nodes = f"the node of op {op} is not" if used == 1 else f"not all {used} nodes of op {op} are"
    lost = placement.on_qnn(op) - placement.in_packages[package.name, op]
    if lost > 0:
        where = f"{lost} went to QNN's own op of that name"
    elif elsewhere := placement.elsewhere(op):
        where = f"some went to {' and '.join(elsewhere)}"
    else:
        where = "QNN did not take it, and ONNX Runtime has no kernel for the op"
    return NotPlaced(
        f"{nodes} in package {package.name}: {where} ({log.first or 'the log has no reason'})",
        details=log.details,
        hint=log.remedy or "`udogen run op` with the node's shapes and parameters shows more",
        log=log,
    )


def check_contexts(placement: NodePlacement, model: ContextModel, path: Path) -> None:
    """Raise if a context is not on QNN; HTP restores none whose packages are not registered."""
    missing = len(model.nodes) - placement.on_qnn(OP)
    if missing > 0:
        raise NotPlaced(
            f"{missing} of {len(model.nodes)} EPContext nodes of {path} are not on QNN",
            hint="`udogen explain` on the log of ONNX Runtime may show why",
        )


# --- the rules of the provider --------------------------------------------------------------------------

_WIDE_TYPES = ("INT64", "UINT64", "DOUBLE")  # HTP has such tensors only before a Cast


def of_model(model: OnnxModel, packages: Sequence[Package], backend: str) -> list[Finding]:
    """Why the provider refuses nodes of these packages; measured with onnxruntime-qnn 2.3.0."""
    ops = {op for package in packages for op in package.ops}
    of_configs = {op.name for package in packages for op in package.models}
    reasons = (
        reason
        for node, scopes in walk(model.graph)
        if node.op.type in ops
        for reason in _of_node(node, scopes, backend, of_config=node.op.type in of_configs)
    )
    return list(dict.fromkeys(reasons))


def _of_node(node: OnnxNode, scopes: tuple[OnnxGraph, ...], backend: str, *, of_config: bool) -> Iterator[Finding]:
    where = f"node `{node.name or node.outputs[0]}` of op {node.op.type}"
    if len(scopes) > 1:
        yield Finding(
            f"{where} is in the body of another node (If, Loop, Scan), and QNN is given only the main graph",
            "move the op out of the body, or unroll it",
        )
    if backends.ALL[backend].interfaces:  # HTP
        yield from _per_channel(where, node, scopes)
    for what, names in (("input", node.inputs), ("output", node.outputs)):
        for name in filter(None, names):
            if what == "output" and of_config and type_in(name, scopes) == UNKNOWN:
                continue  # the node differs from its config; the schema gives the output the type of the first input
            yield from _of_tensor(f"{where}: {what} {name}", name, scopes, backend)


def _per_channel(where: str, node: OnnxNode, scopes: tuple[OnnxGraph, ...]) -> Iterator[Finding]:
    """Inputs from a DequantizeLinear with several scales; libQnnHtp refuses the node (addNode: 1000)."""
    for other in (node for graph in scopes for node in graph.nodes if node.op.type == "DequantizeLinear"):
        scales = type_in(other.inputs[1], scopes).shape or ()
        for name in {*other.outputs} & {*node.inputs} if any(size != 1 for size in scales) else ():
            yield Finding(
                f"{where}: input {name} has a scale for each channel; HTP passes no such tensors to custom ops",
                "quantize it with one scale, or pass it as float",
            )


def _of_tensor(where: str, name: str, scopes: tuple[OnnxGraph, ...], backend: str) -> Iterator[Finding]:
    dtype, shape = type_in(name, scopes).dtype, type_in(name, scopes).shape
    described = f"{where} is {dtype or '?'}"
    if shape is None:
        yield Finding(f"{described}, and its shape is unknown; QNN takes only fixed shapes", SHAPE_HINT)
    else:
        described += " [" + ", ".join("?" if size is None else str(size) for size in shape) + "]"
        if not all(isinstance(size, int) for size in shape):
            yield Finding(
                f"{described}; QNN takes only fixed shapes",
                "fix them: `python -m onnxruntime.tools.make_dynamic_shape_fixed`, or "
                "SessionOptions.add_free_dimension_override_by_name",
            )
    if dtype in _WIDE_TYPES and not backends.RUNTIMES[backend].wide_in_ort:
        yield Finding(
            f"{described}; {backend.upper()} passes no 64-bit types to custom ops",
            "add a Cast before it, and one after it",
        )
    most = max(backends.RUNTIMES[backend].ranks)
    if shape is not None and len(shape) > most:
        yield Finding(
            f"{described}; {backend.upper()} takes at most {most} dimensions",
            "add a Reshape before it, and one after it",
        )


# --- packages and contexts ------------------------------------------------------------------------------

_TIMEOUT = 30  # seconds
_SHORTEST_NAME = 4  # shorter package names occur by chance in a gigabyte of weights


def of_packages(packages: Sequence[Package], *, backend: str, runtime: Path) -> list[Finding]:
    """Why a package is not registered: the error when a worker registers it."""
    findings = []
    for package in packages:
        try:
            with OpSession(
                package.library.file, package.provider, backend=backend, qnn_lib=runtime, timeout=_TIMEOUT
            ) as session:
                _ = session.package
        except UdogenError as fault:
            findings += [Finding(fault.message, fault.hint), *(Finding(line) for line in fault.details)]
    return findings


def of_contexts(model: ContextModel, packages: Sequence[Package], runtime: Path) -> list[Finding]:
    """Why contexts may fail to be restored: packages that they seem to need but are not given, or a newer SDK."""
    missing = model.package_names - {package.name for package in packages}
    findings = [
        Finding(f"a context of the model has kernels of package {name}, which is not given", "give that package too")
        for name in sorted(missing)
        if len(name) >= _SHORTEST_NAME
    ]
    newest = max(map(elf.version_key, elf.sdk_releases(runtime)), default=())
    for build in dict.fromkeys(model.builds):
        if newest and elf.version_key(build) > newest:
            findings.append(
                Finding(
                    f"a context of the model was made by {build}, which is newer than {runtime.name} "
                    f"({elf.sdk_releases(runtime)[-1]})",
                    "make it with this release, or use a runtime that is at least as new",
                )
            )
    return findings
