"""Why ONNX Runtime failed, or left a node to another execution provider.

Reasons come from its log, from the rules of its QNN provider, from registering the packages in a worker, and from the
contexts of a model.  They are collected only after a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from udogen import backends
from udogen.build import elf
from udogen.clients.explain import explain_line
from udogen.clients.package import Package
from udogen.errors import UdogenError
from udogen.onnx.models.model import UNKNOWN, Node, OnnxGraph, OnnxModel, type_in, walk
from udogen.onnx.ort.contexts import ContextModel
from udogen.onnx.ort.schema import SHAPE_HINT
from udogen.runtime import log_messages
from udogen.runtime.op.session import OpSession


class Reason(NamedTuple):
    """A possible reason, and its remedy."""

    text: str
    remedy: str


# --- the log --------------------------------------------------------------------------------------------

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_HEAD = re.compile(r"^\S+ \S+ \[\w:onnxruntime:.*?, [^\]]*\] ")
# An entry of low severity, with its lines that begin with blanks.
_VERBOSE = re.compile(r"^\S+ \S+ \[[VI]:onnxruntime:.*\n(?:[ \t]+.*\n|\n)*", re.MULTILINE)
_NOT_REGISTERED = "ort-registration"  # ids of lines in data/log_lines/ort.toml
_VAGUE = ("ort-lost", _NOT_REGISTERED, "ort-context-lost")  # another line has the reason
_LOOKAHEAD = 24


@dataclass(frozen=True)
class LogReasons:
    """The reasons for a failure that a log contains."""

    refusals: tuple[str, ...] = ()  # messages of the package or the runtime about the op
    known: tuple[Reason, ...] = ()  # lines in udogen's tables; the vaguest are last
    not_registered: bool = False  # whether it has the line about a package that was not registered

    @property
    def first(self) -> str:
        """The best sentence about the failure; empty if there is none."""
        return next(iter((*self.refusals, *(each.text for each in self.known))), "")

    @property
    def details(self) -> list[str]:
        """Everything that `first` may leave out."""
        return [*self.refusals[1:], *(each.text for each in self.known)]

    @property
    def remedy(self) -> str:
        """The first remedy; empty if there is none."""
        return next((each.remedy for each in self.known if each.remedy), "")


def read_log(output: str, *, message: str = "", ops: Sequence[str] = ()) -> LogReasons:
    """The reasons in a log and an error message; `ops` limits messages of packages to these ops."""
    output = _VERBOSE.sub("", output)
    lines = log_messages.without_noise(output.splitlines())
    printed = [_HEAD.sub("", _COLOURS.sub("", line)).strip() for line in lines]
    refusals = [
        line for line in printed if re.match(r"op \w+: ", line) and (not ops or line.split()[1].rstrip(":") in ops)
    ]
    lines = [_COLOURS.sub("", line) for line in f"{output}\n{message}".splitlines()]
    found: dict[str, Reason] = {}
    for index, line in enumerate(lines):
        for each in explain_line(line, lines[index + 1 : index + 1 + _LOOKAHEAD]):
            if not each.harmless:
                found.setdefault(each.key, Reason(each.meaning, each.causes[0].remedy if each.causes else ""))
    ranked = sorted(found, key=lambda key: 2 if key.startswith("ort ") else 1 if key in _VAGUE else 0)
    return LogReasons(
        tuple(dict.fromkeys(refusals)), tuple(found[key] for key in ranked), not_registered=_NOT_REGISTERED in found
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


# --- the rules of the provider --------------------------------------------------------------------------

_WIDE_TYPES = ("INT64", "UINT64", "DOUBLE")  # HTP has such tensors only before a Cast


def of_model(model: OnnxModel, packages: Sequence[Package], backend: str) -> list[Reason]:
    """Why the provider refuses nodes of these packages; measured with onnxruntime-qnn 2.3.0."""
    ops = {op for package in packages for op in package.ops}
    of_configs = {op.name for package in packages for op in package.models}
    found = (
        reason
        for node, scopes in walk(model.graph)
        if node.op.type in ops
        for reason in _of_node(node, scopes, backend, of_config=node.op.type in of_configs)
    )
    return list(dict.fromkeys(found))


def _of_node(node: Node, scopes: tuple[OnnxGraph, ...], backend: str, *, of_config: bool) -> Iterator[Reason]:
    where = f"node `{node.name or node.outputs[0]}` of op {node.op.type}"
    if len(scopes) > 1:
        yield Reason(
            f"{where} is in the body of another node (If, Loop, Scan), and QNN is given only the main graph",
            "move the op out of the body, or unroll it",
        )
    for what, names in (("input", node.inputs), ("output", node.outputs)):
        for name in filter(None, names):
            if what == "output" and of_config and type_in(name, scopes) == UNKNOWN:
                continue  # the node differs from its config; the schema gives the output the type of the first input
            yield from _of_tensor(f"{where}: {what} {name}", name, scopes, backend)


def _of_tensor(where: str, name: str, scopes: tuple[OnnxGraph, ...], backend: str) -> Iterator[Reason]:
    dtype, shape = type_in(name, scopes).dtype, type_in(name, scopes).shape
    described = f"{where} is {dtype or '?'}"
    if shape is None:
        yield Reason(f"{described}, and its shape is unknown; QNN takes only fixed shapes", SHAPE_HINT)
    else:
        described += " [" + ", ".join("?" if each is None else str(each) for each in shape) + "]"
        if not all(isinstance(each, int) for each in shape):
            yield Reason(
                f"{described}; QNN takes only fixed shapes",
                "fix them: `python -m onnxruntime.tools.make_dynamic_shape_fixed`, or "
                "SessionOptions.add_free_dimension_override_by_name",
            )
    if dtype in _WIDE_TYPES and not backends.RUNTIMES[backend].wide_in_ort:
        yield Reason(
            f"{described}; {backend.upper()} passes no 64-bit types to custom ops",
            "add a Cast before it, and one after it",
        )
    most = max(backends.RUNTIMES[backend].ranks)
    if shape is not None and len(shape) > most:
        yield Reason(
            f"{described}; {backend.upper()} takes at most {most} dimensions",
            "add a Reshape before it, and one after it",
        )


# --- packages and contexts ------------------------------------------------------------------------------

_TIMEOUT = 30  # seconds
_SHORTEST_NAME = 4  # shorter package names occur by chance in a gigabyte of weights


def of_packages(packages: Sequence[Package], *, backend: str, runtime: Path) -> list[Reason]:
    """Why a package is not registered: the error when a worker registers it."""
    found = []
    for package in packages:
        try:
            with OpSession(
                package.library.file, package.provider, backend=backend, runtime=runtime, timeout=_TIMEOUT
            ) as session:
                _ = session.package
        except UdogenError as fault:
            found += [Reason(fault.message, fault.hint), *(Reason(line, "") for line in fault.details)]
    return found


def of_contexts(model: ContextModel, packages: Sequence[Package], runtime: Path) -> list[Reason]:
    """Why contexts may fail to be restored: packages that they seem to need but are not given, or a newer SDK."""
    missing = model.package_names - {package.name for package in packages}
    found = [
        Reason(f"a context of the model has kernels of package {name}, which is not given", "give that package too")
        for name in sorted(missing)
        if len(name) >= _SHORTEST_NAME
    ]
    newest = max(map(elf.version_key, elf.sdk_releases(runtime)), default=())
    for build in dict.fromkeys(model.builds):
        if newest and elf.version_key(build) > newest:
            found.append(
                Reason(
                    f"a context of the model was made by {build}, which is newer than {runtime.name} "
                    f"({elf.sdk_releases(runtime)[-1]})",
                    "make it with this release, or use a runtime that is at least as new",
                )
            )
    return found
