"""Failures in a session as errors that name the cause and the remedy; accesses of a kernel to memory not its own."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from udogen import error_tables
from udogen.error_tables import ErrorCode, describe
from udogen.errors import RunFailed, UdogenError, limit_in, of_json
from udogen.findings import suggestion
from udogen.qnn.interface import WARN
from udogen.qnn.tensors import QnnTensor
from udogen.runtime.channel import Failed, LogLine, Region
from udogen.runtime.op.calls import OpCall, OpPackageInfo
from udogen.tables import many

# Phases in which no code of the user has run yet.
START, LOAD_RUNTIME = "start the worker", "load the runtime"
IDLE = "wait for the next call"

BUILT_IN = "qti.aisw"  # the package of a backend's own ops


class RegistrationFailed(RunFailed):
    """The runtime refused the op package: `except RegistrationFailed as error: print(error)`."""

    kind = "registration-failed"


class OpRefused(RunFailed):
    """The op's validation refused the node: `except OpRefused as error: print(error)`."""

    kind = "op-refused"


class OpFailed(RunFailed):
    """The op returned an error, or did what an op must not do: `except OpFailed as error: print(error)`."""

    kind = "op-failed"


class OutOfBounds(OpFailed):
    """The op accessed memory that is not its own."""

    kind = "out-of-bounds"


class OpCrashed(RunFailed):
    """The op ended the process, or made it unusable: `except OpCrashed as error: print(error)`."""

    kind = "op-crashed"
    fault: AccessFault | None = None  # if the process reported one
    beside: bool = False  # whether the message names a tensor next to the accessed address


class NotExpressible(RunFailed):
    """A client cannot send such a call; the op is not at fault."""

    kind = "not-expressible"


class OpTimedOut(RunFailed):
    """The op did not return in time: `except OpTimedOut as error: print(error)`."""

    kind = "op-timed-out"


_PACKAGE = "the op package"
LOST = "udogen-lost "  # begins the last line of a worker that lost its channel

_SIGNALS = {
    "SIGSEGV": "segmentation fault",
    "SIGABRT": "abort",
    "SIGFPE": "arithmetic error",
    "SIGILL": "an instruction this processor does not have",
    "SIGKILL": "killed from outside, perhaps because memory ran out",
}

# How libstdc++ and libc++abi report an uncaught exception.
_THROWN = re.compile(r"terminate called|terminating with uncaught|^\s*what\(\):")

_SHOWN_LINES = 60


@dataclass(frozen=True)
class Situation:
    """The subject of a command to a worker, and the worker's reports until it failed."""

    library: str
    call: OpCall | None = None
    what: str = _PACKAGE  # the kind of library
    target: str = ""  # of the registration; empty if none was given
    forced: str = ""  # the SDK of the package, if --force skips the check
    phase: str = START  # the last reported phase
    logs: Sequence[LogLine] = ()
    output: Sequence[str] = ()  # the end of the worker's stdout and stderr
    regions: Sequence[Region] = ()  # addresses of tensors, if they were watched

    @property
    def subject(self) -> str:
        """The subject of the message."""
        if self.call:
            return f"op `{self.call.op_type}`"
        if self.phase in (START, LOAD_RUNTIME):
            return "the worker in which ops run" if self.phase == START else "the QNN runtime"
        return f"{self.what} {self.library}"

    def complaints(self) -> list[str]:
        """Error and warning lines: errors first, the package's before the runtime's."""
        lines = [line for line in self.logs if line.level <= WARN]
        return error_tables.without_noise(
            self._without_op(line.text)
            for line in sorted(lines, key=lambda line: (line.level, line.source != "package"))
        )

    def _without_op(self, line: str) -> str:
        """The line without the prefix of generated packages, as the message names the op already."""
        return line.removeprefix(f"op {self.call.op_type}: ") if self.call else line

    def details(self, *, without: str = "") -> list[str]:
        """All lines to show below the message, except the line `without` that is part of it."""
        tied = f"--force: the op package is built with the C++ headers of SDK {_release(self.forced)}"
        complaints = self.complaints()
        output = error_tables.without_noise(without_faults(self.output))[-_SHOWN_LINES:]
        # HTP packages write an error to the log and to stderr.
        lines = (*complaints, *(line for line in output if self._without_op(line) not in complaints))
        return [*([tied] if self.forced else []), *(line for line in lines if line != without)]


def number_text(code: int) -> str:
    """An error number of QNN, with its name if it has one."""
    row = describe(code)
    return f"{code} ({row.name})" if row.code == code and not row.name.startswith("UNKNOWN") else str(code)


def api_error(situation: Situation, function: str, code: int) -> RunFailed:
    """The error for a call of the QNN API that failed."""
    row, number = describe(code), number_text(code)
    reasons = situation.complaints()
    reason = f": {reasons[0]}" if reasons else f": {row.meaning}"
    details = situation.details(without=reasons[0] if reasons else "")
    if meant := error_tables.explain_log(situation.subject, "\n".join([*reasons, *situation.output])):
        kind = OpFailed if situation.call else RegistrationFailed if situation.what == _PACKAGE else RunFailed
        return kind(meant.sentence, hint=meant.hint, details=[f"{function}: {number}", *situation.details()])
    if function == "deviceCreate":
        text = f"{situation.subject} takes no such device: {number}{reason}"
        return RunFailed(text, hint="choose another --soc, or leave it out", details=details)
    if situation.what != _PACKAGE:
        text = f"{situation.subject}: {function} failed with {number} in phase `{situation.phase}`{reason}"
        return RunFailed(text, hint=row.remedy, details=details)
    if situation.call is None:
        if code == 4003 and situation.target:
            text = f"{situation.subject} cannot be registered for the target `{situation.target}` ({number})"
            return RegistrationFailed(text, hint="leave the target out, or give CPU", details=details)
        if code in (3000, 4007, 4009):
            text = f"{situation.subject} cannot be registered ({number}): one of its name seems to be already"
        else:
            text = f"{situation.subject} cannot be registered: {function} failed with {number}{reason}"
        return RegistrationFailed(text, hint=row.remedy, details=details)
    return _op_error(situation, situation.call, function, number, reasons, row)


def _op_error(
    situation: Situation, call: OpCall, function: str, number: str, reasons: Sequence[str], row: ErrorCode
) -> RunFailed:
    """The error for a failed call that makes, finalizes or executes a graph of the op."""
    reason = f": {reasons[0]}" if reasons else f": {row.meaning}"
    details = situation.details(without=reasons[0] if reasons else "")
    if function in ("graphAddNode", "backendValidateOpConfig"):
        if reasons:
            text, hint = f"{situation.subject} was refused{reason}", "pass what the op's config allows"
        else:
            text = f"{situation.subject} was refused with {number}, and its package gave no reason: "
            text += _shape_of(call)
            hint = row.remedy
        return OpRefused(text, hint=hint, details=details)
    if function == "graphExecute":
        text = f"{situation.subject} returned {number} when it was executed{reason if reasons else ''}"
        return OpFailed(text, hint="see the kernel: this is its return value", details=details)
    if function == "graphFinalize":
        text = f"{situation.subject} could not be made (createOpImpl, in graphFinalize): {number}{reason}"
        return OpFailed(text, hint=row.remedy, details=details)
    return OpFailed(f"{situation.subject}: {function} failed with {number}{reason}", hint=row.remedy, details=details)


def stray_error(situation: Situation, strays: Sequence[Stray]) -> OutOfBounds:
    """The error for an op that accessed memory that is not its own; writes come first."""
    first, *others = sorted(strays, key=lambda stray: stray.how != "wrote")
    also = [stray.sentence(situation.subject) for stray in others]
    return OutOfBounds(first.sentence(situation.subject), hint=first.hint, details=[*also, *situation.details()])


def reported_error(situation: Situation, failed: Failed) -> UdogenError:
    """The error that the worker reported, of the QNN API or of udogen."""
    if failed.function:
        return api_error(situation, failed.function, failed.code)
    error = error_of(failed)
    if type(error) is RunFailed:
        kind = OpFailed if situation.call else RegistrationFailed
        error = kind(error.message, hint=error.hint, details=error.details)
    error.details = tuple(dict.fromkeys((*error.details, *situation.details())))
    return error


def error_of(failed: Failed) -> UdogenError:
    """The error that a worker reported, as an instance of its class."""
    return of_json(failed.__dict__)


def garbled_error(situation: Situation, reason: str) -> RunFailed:
    """The error for a channel that received bytes which the worker did not send."""
    return OpCrashed(
        f"{situation.subject} wrote to a file descriptor that is not its own in phase `{situation.phase}`: it is "
        "the socket through which the worker sends results",
        hint="let the op write only to descriptors that it opened itself, and to none after it has closed them",
        details=[f"the channel of the worker: {reason}", *situation.details()],
    )


def crash_error(situation: Situation, returncode: int) -> RunFailed:
    """The error for a worker that ended unexpectedly."""
    if any(line.startswith(LOST) for line in situation.output):
        return OpCrashed(
            f"{situation.subject} closed a file descriptor that is not its own in phase `{situation.phase}`: it was "
            "the socket to the program that runs it",
            hint="let the op close only descriptors that it opened itself",
            details=situation.details(),
        )
    if situation.phase == START:
        if limit := limit_in(situation.output):
            return limit
        last = next((line for line in reversed(situation.output) if line.strip()), "")
        how = _signal(-returncode) if returncode < 0 else f"exit code {returncode}"
        return RunFailed(
            f"{situation.subject} ended with {how} before it was ready" + (f": {last.strip()}" if last else ""),
            hint="raise the limits of this shell: `ulimit -v` (memory), `ulimit -n` (open files)",
            details=situation.details(),
        )
    thrown = [line.strip() for line in situation.output if _THROWN.search(line)]
    sanitized = [line.strip() for line in situation.output if line.startswith("SUMMARY: ")]
    if sanitized:
        how = f"was stopped by a sanitizer ({sanitized[-1].removeprefix('SUMMARY: ')})"
        hint = "the sanitizer's report is below"
    elif thrown:
        how = f"threw an uncaught C++ exception ({thrown[-1]})"
        hint = "catch exceptions in the kernel and return an error number"
    elif returncode < 0:
        how, hint = f"crashed with {_signal(-returncode)}", _crash_hint(situation, -returncode)
    else:
        how, hint = f"ended the process with exit code {returncode}", "an op must return, never exit"
    sentence = f"{situation.subject} {how} in phase `{situation.phase}`"
    fault = fault_of(situation.output)
    beside = fault.sentence(situation.subject, situation.regions) if fault is not None else ""
    if beside:
        sentence, hint = beside, "let the kernel's loops end at the tensor's own dimensions"
    crash = OpCrashed(sentence, hint=hint, details=situation.details())
    crash.fault, crash.beside = fault, bool(beside)
    return crash


def _crash_hint(situation: Situation, number: int) -> str:
    """A hint on how to find the place of a crash."""
    if number == signal.SIGKILL:
        return "`dmesg` shows whether memory ran out"
    fault = fault_of(situation.output)
    libraries = [os.path.realpath(frame.library) for frame in fault.frames] if fault is not None else []
    if libraries and os.path.realpath(situation.library) not in libraries:
        return f"it crashed in {libraries[0]}, and no function of the op package was active"
    if situation.what != _PACKAGE:
        return "a debugger shows in which library; for an op package, `udogen test --guard` does"
    return "`udogen test --guard` or `--sanitize address` shows where, as a debugger does"


def timeout_error(situation: Situation, seconds: float) -> RunFailed:
    """The error for a worker that did not reply in time, and was killed."""
    return OpTimedOut(
        f"{situation.subject} did not return within {seconds:g} s in phase `{situation.phase}`; it was stopped",
        hint="look for a loop that never ends, or give more time",
        details=situation.details(),
    )


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
    return f"{name} ({_SIGNALS[name]})" if name in _SIGNALS else name


def check_names(call: OpCall, package: OpPackageInfo, library: str) -> None:
    """Raise if the library is another package, or lacks the op."""
    if call.package == BUILT_IN:
        return
    if package.name and call.package != package.name:
        raise OpRefused(
            f"{library} is the op package `{package.name}`, not `{call.package}`",
            hint="set packageName of the node to the name that getInfo returns",
        )
    if package.operations and call.op_type not in package.operations:
        message, hint = no_op(call.op_type, package)
        raise OpRefused(message, hint=hint)


def no_op(op: str, package: OpPackageInfo) -> tuple[str, str]:
    """The message and the hint for an op that a package lacks."""
    have = f"it has: {', '.join(package.operations)}"
    return f"op package `{package.name}` has no op `{op}`", f"{suggestion(op, package.operations)} {have}".strip()


def check_release(library: str, headers: str, runtime: str) -> None:
    """Raise if a package was built with C++ headers of another release than the runtime's."""
    # `_` begins a number of the build farm.
    expected, newest = (version.partition("_")[0] for version in (headers, runtime))
    if headers and expected != newest:
        raise RegistrationFailed(
            f"the op package {library} is built with the C++ headers of SDK {_release(headers)} ({headers}), and the "
            f"runtime is of SDK {_release(runtime)} ({runtime}): that interface changes with every release",
            hint=f"build it with the headers of {_release(runtime)} (QNN_SDK_ROOT), take a runtime of "
            f"{_release(headers)}, generate it with --htp-api qhpi, or skip this check with --force",
        )


def _release(build_id: str) -> str:
    return ".".join(build_id.lstrip("v").split(".")[:3])


def check_ranks(call: OpCall, ranks: Sequence[int]) -> None:
    """Raise for a rank that the backend does not support."""
    for tensor in (*call.inputs, *call.outputs):
        if len(tensor.shape) not in ranks and not tensor.omitted:
            raise OpRefused(
                f"tensor `{tensor.name}` of op `{call.op_type}` has rank {len(tensor.shape)}, "
                "which this backend does not take",
                hint=f"it takes ranks {ranks[0]} to {ranks[-1]}; add or remove axes of length 1",
            )


def _shape_of(call: OpCall) -> str:
    def tensors(rows: Sequence[QnnTensor]) -> str:
        return ", ".join(f"{row.dtype} {list(row.shape)}" for row in rows) or "none"

    params = ", ".join(param.name for param in call.params) or "none"
    return f"inputs {tensors(call.inputs)}; outputs {tensors(call.outputs)}; params {params}"


_FAULT, _FRAME, _REGION = "udogen-fault ", "udogen-frame ", "udogen-region "
_NEAR = 1 << 20  # bytes; an access farther away from a tensor is unrelated to it


PAST, BEFORE, INTO = PLACES = ("past the end of", "before the beginning of", "into")
LOOPS_END = "let the kernel's loops and vector stores end at the tensor's own size"
OUTPUTS_ALONE = "write to outputs alone; another op may read the same input"


class Frame(NamedTuple):
    """A place in a library, as an offset in the file's addresses."""

    library: str
    offset: int
    symbol: str = ""  # a dynamic symbol; empty if there is none


@dataclass(frozen=True)
class Stray:
    """An access of an op to memory that is not its own: outside a tensor, or a write to a read-only one."""

    how: str  # wrote, read, reached
    where: str  # one of PLACES
    role: str  # input, output, parameter; `memory` of the op that is not a tensor
    name: str
    size: int  # bytes
    offset: int  # of the first such byte, after the beginning of the data or before it
    count: int = 0  # bytes, if they can be counted

    def sentence(self, subject: str) -> str:
        """The access as a sentence."""
        name = f"its {self.name}" if self.role == "memory" else f"its {self.role} `{self.name}`"
        if self.where == INTO:
            text = f"{name}, which it must not: at byte {self.offset} of {self.size}"
        elif self.where == BEFORE:
            text = f"{name} ({self.size} bytes): {many(self.offset, 'byte')} before it"
        else:
            text = f"{name} ({self.size} bytes): at byte {self.offset}"
        return f"{subject} {self.how} {self.where} {text}" + (f", {self.count} in all" if self.count else "")

    @property
    def hint(self) -> str:
        """A hint for fixing the op."""
        return OUTPUTS_ALONE if self.where == INTO else LOOPS_END


class Copy(NamedTuple):
    """A runtime's copy of a tensor, between guard pages."""

    address: int
    size: int
    number: int  # of the tensor, if it is recognized by its content; otherwise -1


@dataclass(frozen=True)
class AccessFault:
    """One access that raised a signal."""

    how: str  # read, write, unknown
    address: int
    frames: tuple[Frame, ...]  # innermost first
    copies: tuple[Copy, ...] = ()

    def sentence(self, subject: str, regions: Sequence[Region]) -> str:
        """A sentence that names the nearest tensor; empty if none is near."""
        regions = [*(region for region in regions if region.address), *self._copied(regions)]
        verb = {"read": "read", "write": "wrote"}.get(self.how, "reached")
        near = min(regions, key=self._distance, default=None)
        if near is None or self._distance(near) >= _NEAR:
            return ""
        begin, size = near.address, near.size
        where = BEFORE if self.address < begin else INTO if self.address < begin + size else PAST
        return Stray(verb, where, near.role, near.name, size, abs(self.address - begin)).sentence(subject)

    def _copied(self, regions: Sequence[Region]) -> Iterator[Region]:
        """The copies as regions, named after the tensors of the same content or size."""
        fenced = [region for region in regions if region.number >= 0]
        for copy in self.copies:
            same = [region for region in fenced if region.size == copy.size]
            meant = [region for region in same if region.number == copy.number] or same
            name = "` or `".join(region.name for region in meant)
            yield Region(name, "input", copy.size, copy.address)

    def _distance(self, region: Region) -> int:
        begin, size = region.address, region.size
        if self.address < begin:
            return begin - self.address
        return max(0, self.address - (begin + size - 1))


def fault_of(lines: Sequence[str]) -> AccessFault | None:
    """The fault that a worker reported on its stderr, or None."""
    reports = [line for line in lines if line.startswith(_FAULT)]
    if not reports:
        return None
    try:
        _, _, how, address = reports[-1].split()
        frames = [line.removeprefix(_FRAME).partition(" ") for line in lines if line.startswith(_FRAME)]
        regions = [line.split()[1:] for line in lines if line.startswith(_REGION)]
        return AccessFault(
            how,
            int(address, 16),
            tuple(Frame(library, int(offset, 16)) for offset, _, library in frames),
            tuple(Copy(int(begin, 16), int(size), int(number)) for begin, size, number in regions),
        )
    except ValueError:  # cut off, or written by the op itself
        return None


def without_faults(lines: Sequence[str]) -> list[str]:
    """The lines without reports of faults."""
    return [line for line in lines if not line.startswith((_FAULT, _FRAME, _REGION))]
