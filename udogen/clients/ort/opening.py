"""A session of ONNX Runtime whose custom nodes are on QNN, each in our package; or an error that says why not."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from udogen.clients import explain
from udogen.clients.client import check_rules
from udogen.clients.ort import contexts, placement_reasons, preflight, schema, versions
from udogen.clients.ort.open_session import ProvingSession, captured
from udogen.clients.package import Package, PackageOptions, find_packages
from udogen.clients.programs import ort as options_of
from udogen.errors import RunFailed, ToolMissing, UsageError
from udogen.opdef.onnx.model import Model, walk
from udogen.runtime import log_messages
from udogen.runtime.library import check_loadable, check_provider

EP = "QNN"
_OURS = {"backend_path", "backend_type", "op_packages", "dump_json_qnn_graph", "json_qnn_graph_dir"}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_VAGUE = ("ort-lost", "ort-registration", "ort-context-lost")  # lines whose reason another line says
_HEAD = re.compile(r"^\S+ \S+ \[\w:onnxruntime:.*?, [^\]]*\] ")


class SessionFailed(RunFailed):
    """ONNX Runtime could not make the session."""

    kind = "ort-session-failed"
    logged: frozenset[str] = frozenset()  # the keys of the lines of the log that are known
    refused = False  # by the op itself, whose package said why


class NotPlaced(RunFailed):
    """A custom node is not where it should be: on QNN, in our package."""

    kind = "ort-not-placed"
    logged: frozenset[str] = frozenset()  # as with `SessionFailed`
    refused = False  # by the op itself, whose package said why


@dataclass(frozen=True)
class _Seen:
    """Where nodes went."""

    on: Mapping[str, Counter[str]]  # execution provider -> op type -> nodes
    failed: tuple[str, ...]  # names of bodies of schemas that were put in place of a node
    packages: Counter[tuple[str, str]]  # (package, op type) of what QNN was given


def session(
    model: Path | str,
    packages: Sequence[Path | str] | Path | str,
    *,
    backend: str = "cpu",
    ops: Sequence[str] = (),
    runtime: Path | None = None,
    options: Any = None,
    provider_options: Mapping[str, str] | None = None,
    prove: bool = False,
    rules: Path | None = None,
) -> Any:
    """An `InferenceSession` of a model with these op packages: folders of generated packages, or built libraries.

    `ops` chooses among the ops of a package: ONNX Runtime takes one of each.  `runtime` is a backend library other than
    the wheel's; `options` are `SessionOptions` of your own, `provider_options` more of those for QNN.  `rules` is a
    file that says the shapes of outputs, as for `udogen generate --rules`, where the config does not.

    Before the session there is: versions that go together, ONNX Runtime's rules for packages, a schema for each custom
    op.  After it: every custom node is on QNN and names our package, or `NotPlaced` says where it went, and why.

    With `prove` it is a `ProvingSession`, which tells how often the packages executed their ops (`proof`, `proving`).
    """
    path = Path(model)
    if runtime is None:
        versions.check(backend)
    if ours := sorted(_OURS & set(provider_options or {})):
        raise UsageError(f"the provider option {ours[0]} is made of the other arguments", hint="leave it out")
    given = [packages] if isinstance(packages, str | Path) else packages
    chosen = find_packages([Path(each) for each in given], PackageOptions(backend, ops=tuple(ops)))
    stored = None
    if nodes := contexts.nodes_of(path):
        if backend == "cpu":
            raise UsageError(f"{path} holds contexts, which ONNX Runtime restores on HTP alone", hint='backend="htp"')
        stored, chosen = contexts.check(path, nodes, chosen), contexts.registered(chosen)
    elif not ops:
        chosen = preflight.narrowed(path, chosen)
    check_rules(options_of.CLIENT, chosen)
    if stored is None:
        found = schema.for_packages(path, chosen, rules, known=versions.custom_ops())
        preflight.check_model(found.model, chosen)
    for package in chosen:
        check_loadable(package.library.file, "op package")  # what is cut off would end this process
        check_provider(package.library.file, package.provider)
    ort, qnn = _modules()
    library = str(backend_library(backend, runtime))
    with tempfile.TemporaryDirectory(prefix="udogen-ort-") as dump:
        wanted = {
            **(provider_options or {}),
            "backend_path": library,
            **({"op_packages": options_of.entries(chosen)} if chosen else {}),
            "dump_json_qnn_graph": "1",
            "json_qnn_graph_dir": dump,
        }
        try:
            made, said = _make(ort, qnn, path, None if stored or not found.changes else found.of(path), wanted, options)
            seen = _look(made, Path(dump))
            if stored is not None:
                _check_contexts(seen, stored, path)
            else:
                _check_placement(seen, found.model, chosen, said)
        except (SessionFailed, NotPlaced) as fault:
            why = placement_reasons.of_packages(chosen, fault.logged, backend=backend, runtime=Path(library))
            why += (
                contexts.why_not(stored, chosen, Path(library))
                if stored
                else placement_reasons.of_model(found.model, chosen, backend)
            )
            if not why:
                raise
            details = [*(each.text for each in why[1:]), fault.message, *fault.details, fault.hint]
            raised = type(fault)(why[0].text, details=filter(None, details), hint=why[0].remedy)
            raised.refused = fault.refused
            raise raised from fault
    return ProvingSession(made, chosen, stored=stored is not None) if prove else made


# --- ONNX Runtime -------------------------------------------------------------------------------------


def backend_library(backend: str, given: Path | None = None) -> Path:
    """The library of a backend: the one that is given, or the one that is installed with the provider."""
    found = given or Path(getattr(_modules()[1], f"get_qnn_{backend}_path")())
    if not found.is_file():
        raise ToolMissing(f"there is no QNN backend at {found}", hint='backend="htp", or give runtime=PATH')
    return found


def _modules() -> tuple[Any, Any]:
    if "onnxruntime" not in sys.modules and (before := _loaded_of_qnn()):
        raise SessionFailed(
            f"this process has loaded {before} before onnxruntime, whose C++ exceptions would end it",
            hint="import onnxruntime first, or open the session in a process of its own",
        )
    try:
        return importlib.import_module("onnxruntime"), importlib.import_module("onnxruntime_qnn")
    except ImportError as fault:
        raise ToolMissing(
            f"ONNX Runtime cannot be imported: {fault}", hint="pip install --force-reinstall it"
        ) from fault


def _loaded_of_qnn() -> str:
    """A library of QNN that is in this process: it brings along an unwinder that onnxruntime must not meet first."""
    try:
        maps = Path("/proc/self/maps").read_text("utf-8", "replace")
    except OSError:
        return ""
    found = re.search(r"/(libQnn(?:Cpu|Gpu|Htp|System)\.so)$", maps, re.MULTILINE)
    return found[1] if found else ""


def _device(ort: Any, qnn: Any) -> Any:
    """The device of the provider, which is registered once in a process."""
    for _ in range(2):
        for each in ort.get_ep_devices():
            if EP in each.ep_name:
                return each
        ort.register_execution_provider_library(EP, qnn.get_library_path())
    raise SessionFailed(
        "onnxruntime-qnn offers no device on this machine", hint="it needs x86-64 Linux, or a Snapdragon"
    )


def _make(
    ort: Any, qnn: Any, path: Path, changed: bytes | None, wanted: Mapping[str, str], given: Any
) -> tuple[Any, str]:
    options = given if given is not None else ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.resolve().parent))
    try:
        with captured() as output:
            options.add_provider_for_devices([_device(ort, qnn)], dict(wanted))
            # By its path where nothing is changed: the files of contexts are looked for beside it.
            made = ort.InferenceSession(str(path) if changed is None else changed, options)
            made.disable_fallback()  # an error in `run` would have the model run without QNN, and its answer returned
    except RunFailed:
        raise
    except Exception as fault:  # of pybind11, by kind
        raise _failed(str(fault), output.text) from fault
    return made, output.text


def _failed(message: str, output: str) -> SessionFailed:
    """The error with what the log says of it."""
    reasons = _reasons(output, ())
    meant = _meant(f"{output}\n{message}")
    first = reasons[0] if reasons else meant[0].text if meant else " ".join(message.split())[:300]
    found = SessionFailed(
        f"ONNX Runtime could not make the session: {first}",
        details=[" ".join(message.split())[:400], *reasons[1:], *(each.text for each in meant)],
        hint=next((each.remedy for each in meant if each.remedy), "")
        or "the details are its log; `udogen explain` knows more of it",
    )
    found.logged = frozenset(each.key for each in meant)
    found.refused = bool(reasons)
    return found


class _Meant(NamedTuple):
    text: str
    remedy: str
    key: str  # of the line


def _meant(output: str) -> list[_Meant]:
    """Everything known in a log; what says least comes last."""
    lines = [_COLOURS.sub("", line) for line in output.splitlines()]
    found: dict[str, _Meant] = {}
    for index, line in enumerate(lines):
        for each in explain.explain_line(line, lines[index + 1 : index + 25]):
            if not each.harmless:
                remedy = each.causes[0].remedy if each.causes else ""
                found.setdefault(each.key, _Meant(each.meaning, remedy, each.key))
    ranked = sorted(found, key=lambda key: 2 if key.startswith("ort ") else 1 if key in _VAGUE else 0)
    return [found[key] for key in ranked]


def _reasons(output: str, ops: Sequence[str]) -> list[str]:
    """What a package, or the runtime, itself said of a refusal."""
    lines = [_HEAD.sub("", _COLOURS.sub("", line)).strip() for line in log_messages.without_noise(output.splitlines())]
    own = [line for line in lines if re.match(r"op \w+: ", line) and (not ops or line.split()[1].rstrip(":") in ops)]
    return list(dict.fromkeys(own))


# --- where nodes went -----------------------------------------------------------------------------------


def _look(made: Any, dump: Path) -> _Seen:
    on: dict[str, Counter[str]] = {}
    failed = []
    for part in made.get_provider_graph_assignment_info():
        for node in part.get_nodes():
            on.setdefault(part.ep_name, Counter())[node.op_type] += 1
            if schema.MARK in node.name:
                failed.append(node.name)
    packages: Counter[tuple[str, str]] = Counter()
    for name in sorted(os.listdir(dump)):
        if name.endswith(".json") and not name.endswith("_tensor_log.json"):
            graph = json.loads((dump / name).read_text("utf-8", "replace")).get("graph", {})
            packages.update((node["package"], node["type"]) for node in graph.get("nodes", {}).values())
    return _Seen(on, tuple(failed), packages)


def _check_placement(seen: _Seen, model: Model, packages: Sequence[Package], said: str) -> None:
    for package in packages:
        for op in package.ops:
            used = sum(node.op.type == op for node, _ in walk(model.graph))
            on_qnn = sum(count[op] for name, count in seen.on.items() if EP in name)
            ours = seen.packages[package.name, op]
            elsewhere = [name for name, count in seen.on.items() if count[op] and EP not in name]
            replaced = any(name.endswith(f"{op}_{schema.MARK}") for name in seen.failed)
            if ours and ours >= on_qnn and not elsewhere and not replaced:
                continue
            if on_qnn > ours and preflight.is_quantized(model, op):
                raise _quantized(package, op)
            raise _not_placed(package, op, used, where=_where(on_qnn, ours, elsewhere), said=said)


def _check_contexts(seen: _Seen, stored: contexts.ContextModel, path: Path) -> None:
    """All are on QNN; in our packages then, for HTP restores no context whose packages are not registered."""
    on_qnn = sum(count[contexts.OP] for name, count in seen.on.items() if EP in name)
    if on_qnn < len(stored.nodes):
        raise NotPlaced(
            f"{len(stored.nodes) - on_qnn} of {len(stored.nodes)} EPContext nodes of {path} are not on QNN",
            hint="`udogen explain` on the log of ONNX Runtime may tell why",
        )


def _where(on_qnn: int, ours: int, elsewhere: Sequence[str]) -> str:
    if on_qnn > ours:
        return f"{on_qnn - ours} went to QNN's own op of that name"
    if elsewhere:
        return f"some went to {' and '.join(elsewhere)}"
    return "QNN did not take it, and ONNX Runtime has no kernel for the op"


def _quantized(package: Package, op: str) -> NotPlaced:
    return NotPlaced(
        f"a node of op {op} is not in package {package.name}: it went to QNN's own op of that name, for ONNX Runtime "
        "keeps built-in ops between DequantizeLinear and QuantizeLinear from op packages",
        hint=f"give the node a domain of its own, like udogen::{op}: then the package gets the quantized tensors",
    )


def _not_placed(package: Package, op: str, used: int, *, where: str, said: str) -> NotPlaced:
    reasons, meant = _reasons(said, [op]), _meant(said)
    why = reasons[0] if reasons else meant[0].text if meant else "the log does not say why"
    nodes = f"the node of op {op}" if used == 1 else f"not all {used} nodes of op {op}"
    verb = "is not" if used == 1 else "are"
    found = NotPlaced(
        f"{nodes} {verb} in package {package.name}: {where} ({why})",
        details=[*reasons[1:], *(each.text for each in meant)],
        hint=next((each.remedy for each in meant if each.remedy), "")
        or "`udogen run op` with the node's shapes and parameters tells more",
    )
    found.logged = frozenset(each.key for each in meant)
    found.refused = bool(reasons)
    return found
