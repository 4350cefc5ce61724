"""Opens a session of ONNX Runtime whose custom nodes run on QNN, each in its package, or raises the reasons."""

from __future__ import annotations

import importlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from udogen import backends
from udogen.clients.client import check_rules
from udogen.clients.package import Package, PackageOptions, find_packages
from udogen.errors import RunFailed, ToolMissing, UsageError
from udogen.findings import Finding
from udogen.onnx import client as ort_client
from udogen.onnx.ort import contexts, placement, preflight, schema
from udogen.onnx.ort.placement import (
    EP,
    Failure,
    LogReasons,
    NodePlacement,
    SessionFailed,
    read_log,
)
from udogen.qnn import interface
from udogen.runtime import execution_counts, failures
from udogen.runtime.contexts.runtime import ALONE
from udogen.runtime.execution_counts import NotExecuted
from udogen.runtime.library import RuntimeLibrary, check_build, check_loadable, check_provider

_RESERVED = {"backend_path", "backend_type", "op_packages", "dump_json_qnn_graph", "json_qnn_graph_dir"}


def session(
    model: Path | str,
    packages: Sequence[Path | str] | Path | str,
    *,
    backend: str = "cpu",
    ops: Sequence[str] = (),
    qnn_lib: Path | None = None,
    options: Any = None,
    provider_options: Mapping[str, str] | None = None,
    prove: bool = False,
    rules: Path | None = None,
) -> Any:
    """An `InferenceSession` of a model with these op packages: folders of generated packages, or built libraries.

    `ops` selects ops of the packages; ONNX Runtime accepts one per package.  `qnn_lib` is a backend library other than
    the wheel's; `options` are your own `SessionOptions`, `provider_options` more options for QNN.  `rules` is a file of
    shape rules, as for `udogen generate --rules`, for outputs whose shapes the config does not define.

    Checked in advance: versions, ONNX Runtime's rules for packages, and that nodes match the configs; each custom op
    gets a schema.  Checked afterwards: every custom node is on QNN in its package, else `NotPlaced` has the reasons.

    With `prove` it is a `ProvingSession`, which counts how often the packages executed their ops (`proof`, `proving`).

    `session("net.onnx", [folder], backend="htp").run(None, {"x": x})`
    """
    if qnn_lib is None:
        preflight.check_releases(backend)
    more = dict(provider_options or {})
    if reserved := sorted(_RESERVED & set(more)):
        raise UsageError(f"the provider option {reserved[0]} is set by the other arguments", hint="leave it out")
    given = [packages] if isinstance(packages, str | Path) else packages
    if prove and not given:
        raise UsageError("prove=True is about op packages, and none was given", hint="name their folders")
    found = find_packages([Path(path) for path in given], PackageOptions(backend, ops=tuple(ops)))
    prepared = _prepare(Path(model), found, backend, rules, narrow=not ops)
    made, _ = _open(prepared, backend_library(backend, qnn_lib), options, more)
    return ProvingSession(made, prepared.packages, stored=prepared.contexts is not None) if prove else made


class PlacedSession(NamedTuple):
    """A session, the names of its nodes and tensors on QNN, and why QNN's provider did not take others, by node."""

    session: Any
    on_qnn: frozenset[str]
    reasons: Mapping[str, str]


def placed_session(model: Path, packages: Sequence[Path], backend: str) -> PlacedSession:
    """Like `session`, with the placement of all nodes; the provider logs its reasons with the least severity alone."""
    preflight.check_releases(backend)
    prepared = _prepare(model, find_packages(packages, PackageOptions(backend)), backend, None, narrow=True)
    library = backend_library(backend)
    options = _modules()[0].SessionOptions()
    options.log_severity_level = 0
    made, placed = _open(prepared, library, options, {})
    return PlacedSession(made, placed.names, placement.refused_nodes(placed.output))


@dataclass(frozen=True)
class _PreparedSession:
    """A checked model, either with contexts or with schemas to add, and its packages."""

    path: Path
    backend: str
    packages: tuple[Package, ...]
    contexts: contexts.ContextModel | None = None
    schemas: schema.Schemas | None = None

    @property
    def changed(self) -> bytes | None:
        """The model with its schemas; None if it needs no change."""
        return self.schemas.of(self.path) if self.schemas is not None and self.schemas.changes else None


def _prepare(
    path: Path, packages: tuple[Package, ...], backend: str, rules: Path | None, *, narrow: bool
) -> _PreparedSession:
    if nodes := contexts.nodes_of(path):
        if not backends.ALL[backend].restored_by_ort:
            raise UsageError(f"{path} has contexts, which ONNX Runtime restores only on HTP", hint='backend="htp"')
        stored = contexts.check(path, nodes, packages)
        prepared = _PreparedSession(path, backend, contexts.under_one_op(packages), contexts=stored)
        check_rules(ort_client.CLIENT, prepared.packages)
    else:
        packages = preflight.narrowed(path, packages) if narrow else packages
        check_rules(ort_client.CLIENT, packages)
        schemas = schema.for_packages(path, packages, rules, known=preflight.ops_of_provider())
        preflight.check_model(schemas.model, packages)
        prepared = _PreparedSession(path, backend, packages, schemas=schemas)
    for package in prepared.packages:
        check_loadable(package.library.file, "op package")  # a truncated library would end this process
        check_provider(package.library.file, package.provider)
    return prepared


def _open(
    prepared: _PreparedSession, library: Path, options: Any, provider_options: Mapping[str, str]
) -> tuple[Any, NodePlacement]:
    """The session, after a check of the placement of its nodes."""
    for package in prepared.packages if backends.ALL[prepared.backend].calls_runtime else ():
        check_build(library.resolve(), package.name, package.library.file, is_kept=True)
    with tempfile.TemporaryDirectory(prefix="udogen-ort-") as dump:
        all_options = {
            **provider_options,
            "backend_path": str(library),
            **({"op_packages": ort_client.entries(prepared.packages)} if prepared.packages else {}),
            "dump_json_qnn_graph": "1",
            "json_qnn_graph_dir": dump,
        }
        try:
            serial = RuntimeLibrary(prepared.backend, backends.RUNTIMES[prepared.backend], library, "").serial
            with ALONE if serial else nullcontext():
                made, output = _make(prepared, all_options, options, serial=serial)
            placed = placement.placement_of(made, Path(dump), output)
            if prepared.contexts is not None:
                placement.check_contexts(placed, prepared.contexts, prepared.path)
            elif prepared.schemas is not None:
                placement.check_placement(placed, prepared.schemas.model, prepared.packages)
        except Failure as fault:
            reasons = _reasons(fault.log, prepared, library)
            if not reasons:
                raise
            details = [*(reason.message for reason in reasons[1:]), fault.message, *fault.details, fault.hint]
            raise type(fault)(
                reasons[0].message, details=list(filter(None, details)), hint=reasons[0].hint, log=fault.log
            ) from fault
    return made, placed


def _reasons(log: LogReasons, prepared: _PreparedSession, library: Path) -> list[Finding]:
    reasons = []
    if log.not_registered:
        reasons += placement.of_packages(prepared.packages, backend=prepared.backend, runtime=library)
    if prepared.contexts is not None:
        reasons += placement.of_contexts(prepared.contexts, prepared.packages, library)
    if prepared.schemas is not None:
        reasons += placement.of_model(prepared.schemas.model, prepared.packages, prepared.backend)
    return reasons


# --- ONNX Runtime ---------------------------------------------------------------------------------------


def backend_library(backend: str, given: Path | None = None) -> Path:
    """The given backend library, or the one that is installed with the provider."""
    modules = _modules()
    library = given or Path(getattr(modules[1], f"get_qnn_{backend}_path")())
    if not library.is_file():
        raise ToolMissing(f"there is no QNN backend at {library}", hint='backend="htp", or give qnn_lib=PATH')
    return library


def _modules() -> tuple[Any, Any]:
    if "onnxruntime" not in sys.modules and (before := interface.loaded_before_onnxruntime()):
        raise SessionFailed(
            f"this process has loaded {before} before onnxruntime, whose C++ exceptions would end it",
            hint="import onnxruntime first, or open the session in another process",
        )
    try:
        return importlib.import_module("onnxruntime"), importlib.import_module("onnxruntime_qnn")
    except ImportError as fault:
        raise ToolMissing(
            f"ONNX Runtime cannot be imported: {fault}", hint="pip install --force-reinstall it"
        ) from fault


def _device(ort: Any, qnn: Any) -> Any:
    """The device of the provider, which is registered once per process."""
    for _ in range(2):
        for device in ort.get_ep_devices():
            if EP in device.ep_name:
                return device
        ort.register_execution_provider_library(EP, qnn.get_library_path())
    raise SessionFailed("onnxruntime-qnn offers no device on this machine", hint="use x86-64 Linux, or a Snapdragon")


def _make(
    prepared: _PreparedSession, provider_options: Mapping[str, str], given: Any, *, serial: bool
) -> tuple[Any, str]:
    """The session, and what was printed while it was created."""
    ort, qnn = _modules()
    path, changed = prepared.path, prepared.changed
    options = given if given is not None else ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.resolve().parent))
    try:
        with captured() as output:
            options.add_provider_for_devices([_device(ort, qnn)], dict(provider_options))
            # An unchanged model is given by path: ONNX Runtime looks for files of contexts next to it.
            kind = _taking_turns(ort) if serial else ort.InferenceSession
            made = kind(str(path) if changed is None else changed, options)
            made.disable_fallback()  # otherwise, after an error, `run` would silently run the model without QNN
    except RunFailed:
        raise
    except Exception as fault:  # pybind11 raises many kinds
        raise _failed(str(fault), output.text) from fault
    return made, output.text


_RUNS = ("run", "run_with_iobinding", "run_with_ort_values", "run_with_ortvaluevector")


def _taking_turns(ort: Any) -> Any:
    """The class of sessions whose executions never overlap, nor with those of `udogen.runtime`.

    libQnnHtp of a PC gives wrong numbers otherwise, or never returns.
    """

    def alone(function: Any) -> Any:
        @wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            with ALONE:
                return function(*arguments, **named)

        return run

    def run_async(*_arguments: Any, **_named: Any) -> None:
        raise UsageError("run_async does not wait for other sessions, as libQnnHtp needs it", hint="call `run`")

    runs = {name: alone(getattr(ort.InferenceSession, name)) for name in _RUNS if hasattr(ort.InferenceSession, name)}
    return type("InferenceSession", (ort.InferenceSession,), {**runs, "run_async": run_async})


def _failed(message: str, output: str) -> SessionFailed:
    log = read_log(output, message=message)
    one_line = " ".join(message.split())
    codes = dict.fromkeys(re.findall(r"[Ee]rror code: (\d+)", output))
    number = f" ({', '.join(map(failures.number_text, map(int, codes)))})" if codes else ""
    if len(one_line) > 600:  # it begins with a function's name and types; the reason follows
        one_line = f"{one_line[:200]} … {one_line[-300:]}"
    return SessionFailed(
        f"ONNX Runtime could not make the session: {log.first or one_line[:300]}{number}",
        details=[one_line, *log.details],
        hint=log.remedy or "the details are its log; see `udogen explain`",
        log=log,
    )


# --- execution counts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpProof:
    """How often one op was executed; `counted` is what the package counts (`udogen.runtime.executions`)."""

    package: str
    op: str
    counted: str
    count: int


class ProvingSession:
    """An `InferenceSession` with all its attributes, and the execution counts of its packages.

    A placed node need not be executed.  The counts are per process: they include executions in other sessions with the
    same package.
    """

    def __init__(self, session: Any, packages: Sequence[Package], *, stored: bool = False) -> None:
        self._session, self._stored = session, stored
        found = [
            (package, execution_counts.counted_package(package.library.file, package.provider)) for package in packages
        ]
        # It is unknown which ops of its package a stored context contains.
        self._counters = {
            (package.name, op): each.counters for package, each in found for op in (each.ops if stored else package.ops)
        }
        self._at_first = self._counts()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def proof(self) -> tuple[OpProof, ...]:
        """The executions of each custom op of the model since the session was created."""
        return self._since(self._at_first)

    def check(self) -> tuple[OpProof, ...]:
        """Like `proof`, but raises `NotExecuted` if an op was never executed.

        For a stored context it is an error only if no op of a package was executed.
        """
        return self._checked(self.proof())

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Wrap calls of `run`: raises `NotExecuted` at the end if an op was not executed in between."""
        before = self._counts()
        yield
        self._checked(self._since(before))

    def _counts(self) -> dict[tuple[str, str], int]:
        return {key: counters.of(key[1]) for key, counters in self._counters.items()}

    def _since(self, before: Mapping[tuple[str, str], int]) -> tuple[OpProof, ...]:
        return tuple(
            OpProof(*key, self._counters[key].counted, count - before[key]) for key, count in self._counts().items()
        )

    def _checked(self, rows: tuple[OpProof, ...]) -> tuple[OpProof, ...]:
        active = {row.package for row in rows if row.count and self._stored}
        idle = [row for row in rows if not row.count and row.package not in active]
        if not idle:
            return rows
        names = ", ".join(f"{row.op} of package {row.package}" for row in idle)
        raise NotExecuted(
            f"not executed by the session: {names}",
            hint="if `run` was called, look at the nodes of QNN's graph: it took another op",
        )


# --- output of libraries --------------------------------------------------------------------------------

_MOST_OUTPUT = 1 << 22  # bytes of output that are kept
_one_at_a_time = threading.Lock()  # descriptors belong to the whole process


class Captured:
    """The captured output; empty until the end of `captured`."""

    text = ""


@contextmanager
def captured() -> Iterator[Captured]:
    """Capture what this process, including its C++ libraries, writes to stdout and stderr."""
    found = Captured()
    with _one_at_a_time, tempfile.TemporaryFile() as kept:
        saved: list[tuple[int, int]] = []
        try:
            for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
                if stream is not None:
                    stream.flush()
                try:
                    saved.append((descriptor, os.dup(descriptor)))
                except OSError:  # already closed
                    continue
                os.dup2(kept.fileno(), descriptor)
            yield found
        finally:
            for descriptor, before in saved:
                os.dup2(before, descriptor)
                os.close(before)
            size = kept.seek(0, os.SEEK_END)
            kept.seek(max(size - _MOST_OUTPUT, 0))
            found.text = kept.read().decode("utf-8", "replace")
