"""Checks before a session is created: releases that fit together; custom nodes of a model and configs of packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from udogen import backends, resources
from udogen.backends import architectures
from udogen.build import tools
from udogen.clients.package import Package
from udogen.errors import ToolMissing, UsageError
from udogen.findings import suggestion
from udogen.onnx.models.model import Attribute, OnnxModel, OnnxNode, OpName, walk
from udogen.onnx.models.reading import freeze, read_proto
from udogen.opdef.model import Op, Tensor

_INT32 = range(-(1 << 31), 1 << 31)
# Kinds of attributes that become parameters -> the types of those parameters.
_KINDS = {"FLOAT": "FLOAT_32", "FLOATS": "FLOAT_32", "INT": "INT_32", "INTS": "INT_32"}


def narrowed(path: Path, packages: Sequence[Package]) -> tuple[Package, ...]:
    """The packages, each with only the ops that the model has: ONNX Runtime accepts one op per package."""
    if all(len(package.ops) <= 1 for package in packages):
        return tuple(packages)
    used = {node.op.type for node, _ in walk(freeze(read_proto(path), path.name).graph)}
    return tuple(
        replace(package, ops=tuple(op for op in package.ops if op in used) or package.ops) for package in packages
    )


def check_model(model: OnnxModel, packages: Sequence[Package]) -> None:
    """Raise for nodes that QNN would silently refuse, or that would end the process; one error with every fault."""
    for package in packages:
        for name in package.ops:
            nodes = [node for node, _ in walk(model.graph) if node.op.type == name]
            _check_domains(model, name, nodes, package)
            op = next((each for each in package.models if each.name == name), None)
            faults = [fault for node in nodes for fault in _faults(node, op)]
            if faults:
                raise UsageError(faults[0][0], details=[text for text, _ in faults[1:]], hint=faults[0][1])


def _check_domains(model: OnnxModel, name: str, nodes: Sequence[OnnxNode], package: Package) -> None:
    if not nodes:
        used = sorted({node.op.type for node, _ in walk(model.graph)})
        raise UsageError(
            f"{model.file} has no node of op {name} of package {package.name}",
            hint=suggestion(name, used, f"it has: {', '.join(used[:12])}"),
        )
    domains = sorted({node.op.domain or "ai.onnx" for node in nodes})
    if len(domains) > 1:
        raise UsageError(
            f"{model.file} has op {name} in several domains ({', '.join(domains)}); ONNX Runtime compares only op "
            "types, and gives all of them to the package",
            hint="give the custom op a different name",
        )


def _faults(node: OnnxNode, op: Op | None) -> Iterator[tuple[str, str]]:
    """(problem of one node, remedy)."""
    where = f"node `{node.name or node.outputs[0]}` of op {node.op.type}"
    for attribute in node.attributes:
        if fault := _attribute_fault(attribute):
            yield (
                f"{where}: attribute {attribute.name} {fault}",
                "make it an INT (of an enumeration) or a FLOAT, or an input",
            )
        elif op is not None and (mismatch := _mismatch(attribute, op)):
            yield f"{where}: attribute {attribute.name} {mismatch[0]}", mismatch[1]
    if "" in node.inputs:
        yield (
            f"{where} has an empty input name, with which Qualcomm's provider ends the process",
            ("leave out optional inputs at the end of the list; an input before others must be given"),
        )
    if op is None:
        return
    given = {attribute.name for attribute in node.attributes}
    for param in op.params:
        if param.mandatory and param.name not in given:
            yield f"{where} lacks the attribute {param.name}, a mandatory parameter", "add it to the node"
    yield from _counts(where, "inputs", node.inputs, op.inputs)
    yield from _counts(where, "outputs", node.outputs, op.outputs)


def _attribute_fault(attribute: Attribute) -> str:
    if attribute.kind == "STRING":
        return "is a STRING, with which QNN ends the process"
    if attribute.kind not in _KINDS:
        return f"is of the kind {attribute.kind}, which QNN has no parameters of"
    if any(each not in _INT32 for each in _integers(attribute)):
        return "does not fit into 32 bits, with which QNN ends the process"
    return ""


def _integers(attribute: Attribute) -> list[int]:
    values = attribute.value if isinstance(attribute.value, tuple) else (attribute.value,)
    return [value for value in values if isinstance(value, int)] if attribute.kind in ("INT", "INTS") else []


def _mismatch(attribute: Attribute, op: Op) -> tuple[str, str] | None:
    """How an attribute differs from its parameter in the config, and the remedy; None if they agree."""
    param = next((param for param in op.params if param.name == attribute.name), None)
    if param is None:
        names = [param.name for param in op.params]
        have = f"it has: {', '.join(names)}" if names else "it has none"
        return "is not a parameter of the op", suggestion(attribute.name, names, have)
    if mismatch := _type_mismatch(attribute, param):
        return mismatch
    if attribute.kind.endswith("S") is param.is_scalar:
        is_list = "a list" if attribute.kind.endswith("S") else "one number"
        return f"is {is_list}, and the parameter is {'scalar' if param.is_scalar else 'a tensor'}", "make them alike"
    return None


def _type_mismatch(attribute: Attribute, param: Tensor) -> tuple[str, str] | None:
    arrives, types = _KINDS[attribute.kind], {datatype.name for datatype in param.datatypes}
    ranges = [bounds for datatype in param.datatypes if datatype.integral and (bounds := datatype.range())]
    if arrives == "INT_32" and ranges:  # packages convert integers
        for value in _integers(attribute):
            if not any(least <= value <= most for least, most in ranges):
                return f"is {value}, which does not fit into {' or '.join(sorted(types))}", "give a value that fits"
    elif arrives not in types and "BACKEND_SPECIFIC" not in types:
        return f"arrives as {arrives}, and the parameter is {' or '.join(sorted(types))}", (
            "leave it out, where it is optional; or make it FLOAT_32 or INT_32 in the config"
        )
    return None


def _counts(where: str, what: str, names: Sequence[str], tensors: Sequence[Tensor]) -> Iterator[tuple[str, str]]:
    least = max((number for number, tensor in enumerate(tensors, 1) if tensor.required), default=0)
    most = len(tensors)
    if any(tensor.repeated for tensor in tensors):
        return
    given = len([name for name in names if name])
    if not least <= given <= most:
        allowed = str(most) if least == most else f"{least} to {most}"
        yield f"{where} has {given} {what}; the config has {allowed}", "is it the op of this package?"


Version = tuple[int, ...]
ORT, QNN = "onnxruntime", "onnxruntime-qnn"

_INSTALL = "pip install 'onnxruntime>=1.24.2,<1.28' onnxruntime-qnn==2.3.0"
DOMAINS_SINCE = (2, 7)  # the first release that reads ORT_QNN_CUSTOM_OP_DOMAINS


def check_releases(backend: str) -> None:
    """Raise if the installed releases are incompatible, or lack the backend."""
    found = {name: _installed(name) for name in (ORT, QNN)}
    if missing := [name for name, text in found.items() if not text]:
        raise ToolMissing(f"{' and '.join(missing)} is not installed", hint=_INSTALL)
    check_pair(found[ORT], found[QNN], backend)


def check_pair(ort: str, qnn: str, backend: str) -> None:
    """Like `check_releases`, for these two releases; unknown releases are not refused."""
    rows = resources.facts("onnxruntime")["release"]
    row = next((each for each in rows if _numbers(each["first"]) <= _numbers(qnn) < _numbers(each["before"])), None)
    if row is not None and _numbers(ort) < _numbers(row["oldest"]):
        raise ToolMissing(
            f"onnxruntime {ort} is too old for onnxruntime-qnn {qnn}, which needs {row['oldest']}",
            hint=_INSTALL,
        )
    if row is not None and "refused" in row and _numbers(ort) >= _numbers(row["refused"]):
        raise ToolMissing(
            f"onnxruntime {ort} and onnxruntime-qnn {qnn} are incompatible: {row['why']}",
            hint=f"{_INSTALL}; or onnxruntime-qnn 2.4.0 or later, which has no libQnnCpu.so",
        )
    runtime = backends.RUNTIMES.get(backend)
    if runtime is not None and runtime.ort_below and _numbers(qnn) >= runtime.ort_below:
        raise ToolMissing(
            f"onnxruntime-qnn {qnn} has no {runtime.library}",
            hint=f'backend="htp", or {_INSTALL}, or give qnn_lib=PATH',
        )


def releases() -> str:
    """The installed releases, for messages."""
    return " + ".join(f"{name} {_installed(name)}" for name in (ORT, QNN))


def ops_of_provider() -> tuple[OpName, ...]:
    """The ops that the provider defines itself: those of ORT_QNN_CUSTOM_OP_DOMAINS, if it reads that variable."""
    if _numbers(_installed(QNN) or "0") < DOMAINS_SINCE:
        return ()
    found = []
    for entry in tools.custom_op_domains().split(";"):
        domain, _, names = entry.partition(":")
        found += [OpName(domain.strip(), name.strip()) for name in names.split(",") if name.strip()]
    return tuple(found)


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _numbers(text: str) -> Version:
    """(1, 27, 0) for 1.27.0 and for 1.27.0.dev2026."""
    plain = text.split("+", maxsplit=1)[0].split(".dev", maxsplit=1)[0].split("rc", maxsplit=1)[0]
    return architectures.version(plain)
