"""Runs kernels of an HTP or DSP package, compiled for Hexagon, under qemu-hexagon.

A harness of udogen replaces the runtime, which is HTP, or Hexagon NN on V65 and V66.
"""

from __future__ import annotations

import signal
import statistics
import struct
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from udogen import backends, process
from udogen.build import qemu_hexagon, tools
from udogen.build.dwarf import demangled
from udogen.build.package import PackageLibrary, open_packages
from udogen.build.qemu import find_qemu
from udogen.errors import RunFailed
from udogen.qnn.handles import Closing
from udogen.qnn.interface import INFO
from udogen.runtime import failures
from udogen.runtime.channel import LogLine
from udogen.runtime.hexagon import wire
from udogen.runtime.library import RuntimeInfo
from udogen.runtime.op.calls import OpCall, OpPackageInfo, OpResult, Packets, Times
from udogen.runtime.op.watch import NOTHING, Watch
from udogen.tables import many

_KEPT_LINES = 200
_STATUS = {1: "QHPI_Unsupported", 2: "QHPI_ErrorFatal", 3: "QHPI_RegistrationWarning", 4: "QHPI_RegistrationError"}
_CHOOSE = "choose a kernel"
_VALIDATE = "validate the op"


@dataclass
class _Report:
    """What the program has reported by its end."""

    phase: str = failures.START
    failed: str = ""
    thrown: str | None = None
    status: int = 0
    kernel: str = ""
    done: bool = False
    details: list[str] = field(default_factory=list)
    logs: list[LogLine] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    strays: list[bytes] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)


class _Protocol(NamedTuple):
    """The request and the replies of a harness."""

    encode: Callable[[OpCall, wire.KernelChoice, int], bytes]
    outputs: Callable[[OpCall, _Report], Mapping[str, Any]]
    status: Mapping[int, str]
    interface: str  # the one that defines these codes
    kernel: Callable[[int, str], str]  # describes the kernel that ran


def _units(resources: int, function: str) -> str:
    units = [name for name, bit in wire.RESOURCES.items() if resources & bit]
    return f"{function} on {'+'.join(units) or 'no unit'}"


def _workers(threads: int, function: str) -> str:
    return f"{function} with {many(threads, 'worker thread')}" if threads else function


_PROTOCOLS = {
    "qhpi": _Protocol(
        encode=wire.encode,
        outputs=lambda call, report: wire.outputs_of(call, report.outputs),
        status=_STATUS,
        interface="QHPI",
        kernel=_units,
    ),
    "udo": _Protocol(
        encode=lambda call, _kernel, guard: wire.encode_udo(call, guard),
        outputs=lambda call, report: wire.udo_outputs(call, report.outputs, report.shapes),
        status=wire.UDO_STATUS,
        interface="UDO",
        kernel=_workers,
    ),
}


class HexagonSession(Closing):
    """Runs ops of one package, each call in its own process; like `OpSession`, but compiles the package.

    `result = HexagonSession(package, arch="v73").run(call)`
    """

    def __init__(
        self,
        folder: PackageLibrary,
        *,
        arch: str = "",
        kernel: wire.KernelChoice = wire.KernelChoice(),  # noqa: B008  (immutable)
        count: bool = False,
        timeout: float | None = None,
        jobs: int = 0,
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._folder, self._kernel, self._timeout = folder, kernel, timeout
        self._jobs, self._on_step = jobs, on_step
        self._harness = qemu_hexagon.harness_of(folder.backend)
        self._protocol = _PROTOCOLS[self._harness.protocol]
        self._arch, self._by_op = arch or qemu_hexagon.arch_of(folder), backends.ALL[folder.backend].library_per_op
        self._qemu = find_qemu()
        self._programs: dict[str, Path] = {}
        self._plugin = qemu_hexagon.plugin_build(self._qemu).ready() / "count.so" if count else None
        if not self._by_op or len(folder.ops) == 1:
            self._program(*folder.ops[:1])

    def close(self) -> None:
        """Do nothing: each call has its own process."""

    def _program(self, op: str = "") -> Path:
        """The program with this op, built once."""
        key = op if self._by_op else ""
        if key not in self._programs:
            self._programs[key] = qemu_hexagon.build_program(
                self._library(key), self._arch, op=key, jobs=self._jobs, on_step=self._on_step
            )
        return self._programs[key]

    def _library(self, op: str) -> PackageLibrary:
        """The part of the package for this op, if each op has a folder."""
        parts = open_packages(self._folder.path) if op else []
        fitting = (part for part in parts if (part.op, part.backend) == (op, self._folder.backend))
        return next(fitting, self._folder)

    @property
    def counts(self) -> bool:
        """Whether packets are counted, for one execution."""
        return self._plugin is not None

    @property
    def package(self) -> OpPackageInfo:
        """Its name and ops."""
        return OpPackageInfo(self._folder.name, self._folder.ops)

    @property
    def runtime(self) -> RuntimeInfo:
        """The emulator of the instruction set; it has no build id, as it contains no Qualcomm code."""
        name = f"Hexagon {self._arch} under qemu-hexagon {self._qemu.version}"
        return RuntimeInfo(name, "", "", self._qemu.version, self._qemu.path)

    def run(self, call: OpCall, watch: Watch = NOTHING) -> OpResult:
        """Run one op and return its outputs; every failure is a `RunFailed`.

        Only the guard of a `Watch` is supported.
        """
        failures.check_names(call, self.package, str(self._folder.path))
        failures.check_ranks(call, self._harness.ranks)
        if call.context is not None or call.save_context:
            raise RunFailed("there are no context binaries on qemu-hexagon", hint="--backend htp has them")
        if self._plugin is not None and call.loops > 1:
            raise RunFailed("packets are counted of one execution", hint="leave out --loops")
        request = self._protocol.encode(call, self._kernel, wire.GUARDS[watch.guard])
        with tempfile.TemporaryDirectory(prefix="udogen-hexagon-") as scratch:
            return self._run(call, request, Path(scratch))

    def _run(self, call: OpCall, request: bytes, scratch: Path) -> OpResult:
        (scratch / "request").write_bytes(request)
        program = self._program(call.op_type)
        symbols = _Symbols(program) if self._plugin is not None else None
        argv = [self._qemu.path, "-cpu", tools.QEMU_CPU, *self._counting(symbols), str(program), "request", "answer"]
        done = process.run(argv, cwd=scratch, timeout=self._timeout, keep=_KEPT_LINES, starting=process.supervised)
        report = _read(scratch / "answer", self._protocol)
        printed = [*report.details, *(done.stdout + done.stderr).splitlines()]
        situation = failures.Situation(
            str(self._folder.path), call, phase=report.phase, logs=report.logs, output=printed
        )
        if done.timed_out:
            raise failures.timeout_error(situation, self._timeout or 0.0)
        strays = [wire.stray_of(call, stray) for stray in report.strays]
        if strays:
            raise failures.stray_error(situation, strays)
        if not report.done or done.returncode != 0:
            raise self._explain(situation, report, done.returncode)
        return OpResult(
            outputs=dict(self._protocol.outputs(call, report)),
            times=Times(0.0, 0.0, statistics.median(report.seconds), tuple(report.seconds)),
            runtime=self.runtime,
            logs=tuple(report.logs),
            kernel=report.kernel,
            packets=_read_packets(scratch / "packets", symbols) if symbols else None,
        )

    def _counting(self, symbols: _Symbols | None) -> list[str]:
        if symbols is None:
            return []
        begin, end = symbols.marks()
        plugin = str(self._plugin).replace(",", ",,")  # QEMU's escape for a comma
        return ["-plugin", f"{plugin},begin={begin:x},end={end:x},out=packets"]

    def _explain(self, situation: failures.Situation, report: _Report, returncode: int) -> RunFailed:
        """The error that explains why there is no result."""
        op = situation.subject
        if report.failed and report.phase == _CHOOSE:
            return failures.OpRefused(
                f"{op} {report.failed}",
                hint="HTP takes the first record whose types, flat layout and numbers of tensors and parameters fit",
                details=situation.details(),
            )
        if report.failed:
            return failures.OpFailed(f"{op}: {report.failed}", details=situation.details())
        if report.status:
            reasons = situation.complaints()
            name = self._protocol.status.get(report.status, f"no code of {self._protocol.interface}")
            number = f"{report.status} ({name})"
            because = f": {reasons[0]}" if reasons else ""
            kind = failures.OpRefused if report.phase == _VALIDATE else failures.OpFailed
            return kind(
                f"{op} returned {number} in phase `{report.phase}`{because}",
                hint="see the kernel: this is its return value",
                details=situation.details(without=reasons[0] if reasons else ""),
            )
        if report.thrown is not None:
            thrown = demangled("_ZTS" + report.thrown).removeprefix("typeinfo name for ")
            return failures.OpCrashed(
                f"{op} threw a C++ exception ({thrown}) in phase `{report.phase}`",
                hint="return udo::error(…) instead: QEMU cannot unwind a Hexagon stack",
                details=situation.details(),
            )
        if returncode == -signal.SIGILL or any(tools.UNKNOWN_INSTRUCTION in line for line in situation.output):
            return failures.OpFailed(
                f"{op} came to an instruction that qemu-hexagon {self._qemu.version} cannot execute, "
                "most likely HVX floating point (qfloat or IEEE)",
                hint="try another kernel (--kernel main), or --backend htp: integer HVX and scalar floats do run",
                details=situation.details(),
            )
        if report.phase == failures.START:
            return RunFailed(
                f"{self._qemu.path} could not start the program",
                details=situation.details(),
                hint="reinstall qemu-user",
            )
        died = failures.crash_error(situation, returncode)
        return failures.OpCrashed(died.message, hint=self._harness.elsewhere, details=died.details)


def _read(file: Path, protocol: _Protocol) -> _Report:
    report = _Report()
    for kind, content in wire.records(file.read_bytes() if file.is_file() else b""):
        match kind:
            case wire.PHASE:
                report.phase = _words(content)
            case wire.LOG:
                text = _words(content[4:])
                report.logs.append(LogLine(min(_number(content), INFO), text, "package"))
            case wire.FAILED:
                report.failed = _words(content)
            case wire.DETAIL:
                report.details.append(_words(content))
            case wire.KERNEL:
                report.kernel = protocol.kernel(_number(content), _words(content[4:]))
            case wire.STATUS:
                report.status = _number(content)
            case wire.TIME:
                report.seconds.append(struct.unpack("<Q", content)[0] / 1e9)
            case wire.STRAY:
                report.strays.append(content)
            case wire.OUTPUT:
                report.outputs.append(content)
            case wire.SHAPE:
                report.shapes.append(struct.unpack(f"<{len(content) // 4}I", content))
            case wire.DONE:
                report.done = True
            case wire.THROWN:
                report.thrown = _words(content)
    return report


def _number(content: bytes) -> int:
    return int.from_bytes(content[:4], "little")


def _words(content: bytes) -> str:
    return content.decode("utf-8", "replace")


# --- packets counted by QEMU's plug-in ------------------------------------------------------------------------------

_BEGIN, _END = "udogen_count_begin", "udogen_count_end"
_HARNESS = {_BEGIN, _END, "udogen_call_kernel"}  # functions around the kernel, which are not counted


class _Symbols:
    """The functions of a program."""

    def __init__(self, program: Path) -> None:
        from elftools.elf.elffile import ELFFile

        with program.open("rb") as stream:
            table: Any = ELFFile(stream).get_section_by_name(".symtab")
            functions = [(s["st_value"], s.name) for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"]
        functions.sort()
        self._starts = [start for start, _ in functions]
        self._names = [name for _, name in functions]

    def marks(self) -> tuple[int, int]:
        """The addresses where counting begins and ends."""
        return self._starts[self._names.index(_BEGIN)], self._starts[self._names.index(_END)]

    def name(self, address: int) -> str:
        """The function that an address is in."""
        index = bisect_right(self._starts, address) - 1
        return self._names[index] if index >= 0 else "?"


def _read_packets(file: Path, symbols: _Symbols) -> Packets:
    """Read the file of QEMU's plug-in: a line for each block of code, and `end`."""
    lines = file.read_text().splitlines() if file.is_file() else []
    if not lines or lines.pop() != "end":
        raise RunFailed("QEMU's plug-in counted nothing", hint="reinstall qemu-user")
    counted: Counter[str] = Counter()
    for line in lines:
        address, packets = line.split()
        counted[symbols.name(int(address, 16))] += int(packets)
    functions = [(demangled(name), packets) for name, packets in counted.items() if name not in _HARNESS]
    functions.sort(key=lambda pair: (-pair[1], pair[0]))
    return Packets(sum(packets for _, packets in functions), tuple(functions))
