"""The counterpart of `OpSession` for a device behind ssh or adb: udogen's client runs a context binary for each call.

One command probes the device.  Graphs are prepared on this machine; then the libraries for the device, the client and
all calls are sent as a script whose run.py fetches the outputs.
"""

from __future__ import annotations

import io
import json
import math
import re
import secrets
import signal
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from udogen import backends, process
from udogen.backends.backend import Place, Target
from udogen.clients.package import ANDROID, LINUX, PC, Package, PackageOptions, find_packages
from udogen.clients.scripts import commands
from udogen.clients.scripts.commands import ClientRun, build_own_client
from udogen.clients.scripts.make_plan import probe_plan, script_plan
from udogen.clients.scripts.plan import RUN, Device, ScriptFile, ScriptPlan, probe_files, script_files, write_script
from udogen.clients.scripts.tensors import file_name
from udogen.error_tables import describe
from udogen.errors import RunFailed, ToolMissing, UdogenError, UsageError
from udogen.qnn import socs
from udogen.qnn.handles import Closing
from udogen.runtime import failures
from udogen.runtime.built import Built
from udogen.runtime.library import RuntimeInfo
from udogen.runtime.op.calls import Chain, OpCall, OpResult, Times, arrays_of, digest
from udogen.runtime.op.session import OpSession

_PROBE_SECONDS = 60.0
_SENDING_SECONDS = 1800.0  # for libraries over a slow connection
_SHOWN_LINES = 20
_CASE_LOOPS = 2  # outputs of the second execution reveal state that an op keeps from the first


@dataclass(frozen=True)
class DeviceFacts:
    """The properties of a device."""

    machine: str
    android: bool
    arch: str  # the Hexagon version; empty if it is unknown

    @property
    def system(self) -> str:
        """The system whose libraries run on the device."""
        return PC if self.machine == "x86_64" else ANDROID if self.android else LINUX

    def fits(self, target: Target, backend: str) -> bool:
        """Whether this make target is for the device."""
        if target.backend != backend or self.system == PC:
            return target.native and target.backend == backend
        if target.arch:
            return backends.ALL[backend].two_halves and target.arch == self.arch
        return not target.native and target.for_android is (self.system == ANDROID)


@cache
def probe(name: str) -> DeviceFacts:
    """The properties of a device; `ToolMissing` if it cannot be reached, or no library can be built for it."""
    device = Device.parse(name)
    with tempfile.TemporaryDirectory(prefix="udogen-") as folder:
        write_script(Path(folder), probe_files(probe_plan(device)))
        done = process.run(_command(Path(folder), "--probe"), timeout=_PROBE_SECONDS, starting=process.graceful)
    if done.timed_out:
        raise ToolMissing(
            f"{name} did not respond within {_PROBE_SECONDS:g} s", hint="check whether it is still connected"
        )
    if done.returncode:
        fault = _fault(device, done)
        raise ToolMissing(fault.message, hint=fault.hint, details=fault.details)
    facts = json.loads(done.stdout)
    if facts["machine"] not in ("x86_64", "aarch64"):
        raise ToolMissing(
            f"{name} is {facts['machine'] or 'an unknown machine'}", hint="udogen builds for x86_64 and aarch64"
        )
    return DeviceFacts(facts["machine"], facts["android"], facts["arch"])


def _command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, str(folder / "run.py"), *arguments]


def _fault(device: Device, done: process.Completed) -> UdogenError:
    """The error that run.py printed."""
    lines = done.stderr.splitlines()
    texts = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    hints = [line.removeprefix("  = ") for line in lines if line.startswith("  = ")]
    kind = ToolMissing if done.returncode == ToolMissing.exit_code else RunFailed
    if not texts:
        return kind(f"{device.name}: run.py ended with {done.returncode}", details=lines[-_SHOWN_LINES:])
    return kind(texts[-1], hint="; ".join(hints))


class DeviceSession(Closing):
    """Runs ops of one package on a device; a crash ends one call, a lost device ends all following calls."""

    def __init__(
        self,
        built: Built,
        place: Place,
        *,
        timeout: float | None = None,
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        if built.folder is None:
            raise UsageError("only packages that udogen generated run on a device", hint="give its folder")
        self._built, self._place, self._timeout, self._on_step = built, place, timeout, on_step
        self._device, self._facts = Device.parse(place.device), probe(place.device)
        self._known: dict[bytes, list[OpResult | UdogenError]] = {}  # digest -> results of equal calls
        self._lost: UdogenError | None = None
        self._runs = 0
        self._seconds = max(1, math.ceil(timeout or 0))
        library = backends.RUNTIMES[place.config].library
        self.runtime = RuntimeInfo(f"{library} on {place.device}", "", "", "", library)

    def __enter__(self) -> DeviceSession:
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="udogen-")))
            self._name = f"test-{file_name(self._built.package)}-{secrets.token_hex(4)}"
            self._libraries = self._packages()
            soc = socs.model_of(self._facts.arch) if backends.ALL[self._place.config].prepares_for_soc else 0
            self._host = OpSession(
                self._built.library,
                self._built.provider,
                backend=self._place.config,
                runtime=self._place.kind,
                timeout=self._timeout,
                soc=(soc or 0) if self._facts.system != PC else 0,
                on_step=self._on_step,
            )
            stack.enter_context(self._host)
            stack.callback(self._clean)
            self._stack = stack.pop_all()
        return self

    def close(self) -> None:
        """End the session on this machine, and remove the sent files."""
        self._stack.close()

    def prepare(self, chains: Sequence[Chain]) -> None:
        """Run these calls together; `run` then returns or raises their results."""
        self._execute([call for (call,) in chains])

    def run(self, call: OpCall) -> OpResult:
        """Run one op and return its outputs; every failure is a `RunFailed`."""
        key = digest([call])
        if not self._known.get(key):
            self._execute([call])
        found = self._known[key].pop(0)
        if isinstance(found, UdogenError):
            raise found
        return found

    def _packages(self) -> tuple[Package, ...]:
        """The package with the libraries for the device."""
        backend, facts = self._place.config, self._facts
        assert self._built.folder is not None
        hexagon = facts.system != PC and backends.ALL[backend].two_halves
        if hexagon and not facts.arch:
            raise ToolMissing(
                f"the version of Hexagon of {self._device.name} is unknown", hint="set UDOGEN_HTP_ARCH, as in v75"
            )
        chosen = PackageOptions(facts.arch if hexagon else backend, facts.system, folder=RUN)
        return find_packages([self._built.folder.path], chosen)

    def _plan(self, cases: Mapping[str, Mapping[str, bytes]]) -> ScriptPlan:
        """A plan in which udogen's client runs each case, a folder of files, in a separate process."""
        run = ClientRun(
            client="cpp",
            packages=self._libraries,
            model="model.bin",
            context=True,
            program=build_own_client(self._facts.system, on_step=self._on_step),
            loops=_CASE_LOOPS,
            seconds=self._seconds,
        )
        archive = ScriptFile("cases.tar", "cases.tar", _archive(cases))
        return replace(script_plan(self._device, run, [archive]), name=self._name, cases=True)

    def _execute(self, calls: Sequence[OpCall]) -> None:
        cases: dict[str, dict[str, bytes]] = {}
        sent: list[OpCall] = []
        for call in calls:
            try:
                if self._lost is not None:
                    raise self._lost
                prepared = self._host.prepare(call)
            except UdogenError as error:
                self._keep_result(call, error)
                continue
            given = {arg.name: arg.data for arg in call.inputs if arg.data is not None}
            cases[f"{len(cases):05d}"] = {
                "model.bin": prepared.context,
                "graph.txt": commands.graph_text(prepared.graph),
                **{f"inputs/{file_name(row.name)}.raw": given[row.name].tobytes() for row in prepared.graph.inputs},
            }
            sent.append(call)
        if not sent:
            return
        self._runs += 1
        out = self._folder / f"outputs-{self._runs}"
        plan = self._plan(cases)
        write_script(self._folder / "script", script_files(plan))
        try:
            self._send(len(sent), out)
        except RunFailed as error:
            self._lost = error  # a missing tool ends the whole session instead
        for case, call in zip(cases, sent, strict=True):
            self._keep_result(call, self._lost or self._result(call, out / "out" / case))

    def _keep_result(self, call: OpCall, result: OpResult | UdogenError) -> None:
        self._known.setdefault(digest([call]), []).append(result)

    def _send(self, count: int, out: Path) -> None:
        done = 0

        def on_line(line: str) -> None:
            nonlocal done
            done += line.startswith("case ")
            self._on_step(f"{self._device.name}: {done} of {count}")

        most = _SENDING_SECONDS + count * ((self._timeout or 0) + _PROBE_SECONDS)
        argv = _command(self._folder / "script", f"--out={out}")
        ended = process.run(argv, on_line=on_line, timeout=most, starting=process.graceful, keep=_SHOWN_LINES)
        if ended.timed_out:
            raise RunFailed(
                f"{self._device.name} did not finish within {most:g} s", hint="check whether it is still connected"
            )
        if ended.returncode:
            raise _fault(self._device, ended)

    def _clean(self) -> None:
        """Remove the sent files, even after an interrupt."""
        if self._runs:
            process.run(_command(self._folder / "script", "--clean"), timeout=_PROBE_SECONDS)

    # --- results ---------------------------------------------------------------------------------------------

    def _result(self, call: OpCall, folder: Path) -> OpResult | UdogenError:
        try:
            code, log = int((folder / "code").read_text()), (folder / "log").read_text("utf-8", "replace")
            if code:
                return self._failure(call, code, log)
            paths = [folder / f"{file_name(arg.name)}.raw" for arg in call.outputs]
            outputs = arrays_of(call, [path.read_bytes() for path in paths])
        except (OSError, ValueError) as error:
            return RunFailed(f"{self._device.name}: the outputs were not fetched: {error}")
        printed = dict(re.findall(r"^udogen-client: (runtime|build) (.*)$", log, re.M))
        name, build = printed.get("runtime", "-"), printed.get("build", "-").removeprefix("-")
        library = backends.RUNTIMES[self._place.config].library
        self.runtime = RuntimeInfo(name, build, "", "", library, emulator="UDOGEN" in name)
        seconds = tuple(1e-6 * float(each) for each in re.findall(r"executed, ([\d.]+) us each", log))
        return OpResult(outputs, Times(0.0, 0.0, sum(seconds), seconds), self.runtime)

    def _failure(self, call: OpCall, code: int, log: str) -> UdogenError:
        """The error for a client that failed."""
        where, op = self._device.name, f"op `{call.op_type}`"
        lines = [line for line in log.splitlines() if not re.match(r"udogen-client: (runtime|build) ", line)]
        details = lines[-_SHOWN_LINES:]
        if code == 128 + signal.SIGALRM:
            return failures.OpTimedOut(f"{op} did not return within {self._seconds} s on {where}", details=details)
        if code > 128:
            names = {each.value: each.name for each in signal.Signals}
            return failures.OpCrashed(
                f"{op} crashed with {names.get(code - 128, f'signal {code - 128}')} on {where}", details=details
            )
        last = next((line for line in reversed(lines) if "udogen-client: " in line), "")
        reported = last.removeprefix("udogen-client: ")
        number = re.search(r"(\w+)(?: of .*)? failed with (\d+)$", reported)
        if number is None:
            return RunFailed(f"{where}: {reported or f'the client ended with {code}'}", details=details)
        row = describe(int(number[2]))
        kind = {"graphExecute": failures.OpFailed, "backendRegisterOpPackage": failures.RegistrationFailed}
        text = f"{op} on {where}: {number[1]} returns {row.name} ({number[2]}): {row.meaning}"
        return kind.get(number[1], RunFailed)(text, details=details, hint=f"`udogen explain {number[2]}`")


def _archive(cases: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """All cases as one tar file, because sending many files is slow."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for case, files in cases.items():
            for name, data in files.items():
                entry = tarfile.TarInfo(f"cases/{case}/{name}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
