"""Vector functions of kernels in Python are executed under QEMU against their scalar twins, once for each content."""

from __future__ import annotations

import json
import random
import signal
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from udogen import process, resources
from udogen.backends.common import KERNEL_FOLDER
from udogen.build import tools
from udogen.build.emulator import compile_or_fail, kept_build
from udogen.build.qemu import find_qemu, floats_of
from udogen.build.zig_libraries import BASE, HEXAGON, hexagon_flags
from udogen.errors import BuildFailed
from udogen.kernels.request import FUNCTIONS, IEEE, IEEE_MACHINES, MACHINES, QFLOAT, TWINS

# The lengths of axes, innermost first; tensors with fewer axes take the first ones.  The slowest one is the last.
SHAPES = ((127, 3, 2), (128, 2, 3), (257, 1, 2), (37, 5, 3), (5, 130, 2), (1000, 3, 1))
# Also for functions with tiles of sums, which refuse small outputs, and lines that are no multiples of four bytes.
TILES = ((264, 9, 2), (256, 5, 3), (128, 128, 1))
# Bits of 32-bit numbers.  Halide leaves their overflow undefined, so that vectors may differ from scalars there.
_BITS = (32, 16)
_WIDE = ("i32", "u32", "i64")  # integers of which two overflow 32 bits
_CALL_SECONDS = 10  # of processor time
_SECONDS = 120.0  # of a program
_TOO_SLOW = f"took longer than {_CALL_SECONDS} seconds in"
_NOT_LINKED = "its check does not link: "
_CODES = {"i": 0, "u": 1, "f": 2}
_HALF = 3  # in a buffer of u16
_FORMATS = dict(zip("u8 i8 u16 i16 u32 i32 i64 f16 f32".split(), "BbHhIiqef", strict=True))  # of struct
NO_QEMU = "qemu-hexagon is missing"
_ENDS = ("agrees", "differs", "refused")
_STEPS = ("lengths", "twin", "vector", *_ENDS)


@dataclass(frozen=True)
class Execution:
    """A vector function for Hexagon, and whether it was executed against its scalar twin."""

    function: str
    kernel: str  # file:line
    elements: tuple[int, ...] = ()  # of the calls in which both agree
    why_not: str = ""  # why it was built, and not executed
    note: str = ""

    @property
    def executed(self) -> bool:
        """Whether it was executed and agrees with its twin."""
        return bool(self.elements)

    def as_json(self) -> dict[str, object]:
        """The row in `--json` and in the cache."""
        return {**asdict(self), "executed": self.executed}


def not_executed(executions: Iterable[Execution]) -> list[str]:
    """A sentence for the functions of each kernel that were built, but not executed, for each reason."""
    names: dict[tuple[str, str], dict[str, None]] = {}
    for execution in executions:
        if not execution.executed:
            names.setdefault((execution.kernel, execution.why_not), {})[execution.function] = None
    return [f"{kernel}: built, not executed: {', '.join(found)} ({why})" for (kernel, why), found in names.items()]


def of_folder(folder: Path, sources: Iterable[str]) -> list[Execution]:
    """The functions that were built in the folder of a package, by all builds."""
    executions: list[Execution] = []
    for kernel in sorted({(folder / source).with_suffix(".py") for source in sources}):
        for machine in sorted(kernel.with_suffix(KERNEL_FOLDER).glob(f"*/{TWINS}/{FUNCTIONS}")):
            executions += _cached(_key(machine.parents[1]), kernel, machine.parents[1], None)
    return executions


def check(
    kernels: Sequence[Path], machines: Sequence[str], on_step: Callable[[str], None]
) -> Mapping[str, tuple[Execution, ...]]:
    """Execute what these machines' folders of kernels contain; raises if a function differs from its twin."""
    known: dict[str, tuple[Execution, ...]] = {}  # many machines have the same functions
    of_machine: dict[str, tuple[Execution, ...]] = {}
    for kernel, machine in product(kernels, dict.fromkeys(machines)):
        folder = kernel.with_suffix(KERNEL_FOLDER) / machine
        if not (folder / TWINS / FUNCTIONS).is_file():
            continue
        key = _key(folder)
        if key not in known:
            known[key] = _cached(key, kernel, folder, on_step)
        of_machine[machine] = (*of_machine.get(machine, ()), *known[key])
    return of_machine


def _key(folder: Path) -> str:
    return resources.content_key(_harness_key(), *(path.read_bytes() for path in _objects(folder)))


def _objects(folder: Path) -> list[Path]:
    """What is executed, and the list of all functions: those in floats differ among versions of Hexagon."""
    folder = folder.resolve()
    floats = {f"{row['name']}.o" for row in _functions(folder) if row.get("why")}
    return sorted([*(file for file in folder.glob("*.o") if file.name not in floats), *(folder / TWINS).iterdir()])


def compares_floats(machines: Iterable[str]) -> bool:
    """Whether functions in floats for one of these machines can be executed."""
    have_floats = any(MACHINES[machine].halves for machine in machines if machine in MACHINES)
    return have_floats and not _missing_tool() and bool(floats_of(find_qemu()))


def _functions(folder: Path) -> list[dict[str, Any]]:
    """The functions in the folder of a machine; those that cannot be executed have the reason in `why`."""
    rows: list[dict[str, Any]] = json.loads((folder / TWINS / FUNCTIONS).read_text("utf-8"))
    for row in () if _missing_tool() else rows:
        if kind := row.get("floats"):
            kind = IEEE if kind == "f16" and folder.name in IEEE_MACHINES else QFLOAT
            has_twin = (folder / TWINS / f"{row['twin']}.o").is_file()
            row.setdefault("why", _lacks(kind) or ("" if has_twin else "it was built for a QEMU without them"))
    return rows


def _lacks(kind: str) -> str:
    """What the installed QEMU lacks to execute a kind of floats; empty if it executes them."""
    executed = floats_of(qemu := find_qemu())
    lacks = f"qemu-hexagon {qemu.version} does not execute HVX floating point"
    return "" if kind in executed else lacks + f" ({kind})" * bool(executed)


def _cached(key: str, kernel: Path, folder: Path, on_step: Callable[[str], None] | None) -> tuple[Execution, ...]:
    """The executions of a folder, from the cache, or now: another process may have compiled it just before.

    Missing tools, checks that do not link and differences are not cached.
    """
    file = resources.cache_dir("kernels") / f"{key}.executed.json"
    functions = _functions(folder)
    if file.is_file():
        rows = json.loads(file.read_text("utf-8"))
    else:
        missing = _missing_tool()
        if on_step and not missing:
            on_step(f"QEMU {kernel.name} {folder.name}: vectors against scalar twins")
        rows = [{"why_not": missing} for _ in functions] if missing else _run(functions, kernel, folder)
        if not missing and not any(row.get("why_not", "").startswith(_NOT_LINKED) for row in rows):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(rows), "utf-8")
    return tuple(
        Execution(
            function=row["name"],
            kernel=f"{kernel}:{max(row['lines'].values(), default=0) or 1}",
            elements=tuple(found.get("elements", ())),
            why_not=row.get("why") or found.get("why_not", ""),
            note=found.get("note", ""),
        )
        for row, found in zip(functions, rows, strict=True)
    )


def _missing_tool() -> str:
    """The tool that is missing, in words; empty if all are there."""
    if not tools.program("qemu-hexagon"):
        return NO_QEMU
    return "" if tools.zig() else "zig is missing"


# --- one program with all functions of a kernel for a machine ------------------------------------------------------


def _harness_key() -> bytes:
    version = find_qemu().version if tools.program("qemu-hexagon") else ""
    files = (Path(__file__), resources.emulator("hexagon") / "twins.c")
    return b"".join([version.encode(), *(path.read_bytes() for path in files)])


def _harness() -> Path:
    """The object of the harness, compiled once."""
    source = resources.emulator("hexagon") / "twins.c"
    argv = [*tools.zig(), "cc", *hexagon_flags(BASE), "-O2", "-std=gnu11", "-Wall", "-Wextra", "-c", source]
    title = "the harness for vector functions"
    return kept_build("hexagon", "twins", title, [[*argv, "-o", "twins.o"]], seconds=2).ready() / "twins.o"


def _link(folder: Path, program: Path, names: Iterable[str]) -> Mapping[str, int]:
    """Link the functions and their twins with the harness; returns the addresses of functions."""
    from elftools.elf.elffile import ELFFile

    HEXAGON.ready()
    objects = [_harness(), *(file for file in _objects(folder) if file.suffix == ".o")]
    needed = [f"-Wl,-u,{name}" for name in names]
    argv = [*tools.zig(), "c++", *HEXAGON.flags, *needed, *map(str, objects), "-o", str(program)]
    compile_or_fail(argv, program.parent, f"the check of the functions in {folder}")
    with program.open("rb") as stream:
        table: Any = ELFFile(stream).get_section_by_name(".symtab")
        return {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()}


@dataclass(frozen=True)
class _Call:
    """One call of a function and its twin: which function, with which lengths and numbers."""

    function: int
    shape: tuple[int, ...]
    bits: int
    seed: int


def _run(functions: Sequence[Mapping[str, Any]], kernel: Path, folder: Path) -> list[dict[str, Any]]:
    """Execute all functions; raises if one differs from its twin."""
    listed = [number for number, row in enumerate(functions) if not row.get("why")]
    if not listed:
        return [{} for _ in functions]
    calls = [
        _Call(number, shape, bits, seed)
        for number in listed
        for seed, shape in enumerate((*(TILES if functions[number].get("tiles") else ()), *SHAPES))
        for bits in _BITS
        if bits == _BITS[0] or _stores(functions[number], _WIDE)
    ]
    with tempfile.TemporaryDirectory(prefix="udogen-vectors-") as scratch:
        program = Path(scratch) / "program"
        names = {functions[n][key] for n in listed for key in ("name", "twin")}
        try:
            addresses = _link(folder, program, names)
        except BuildFailed as fault:
            return [{"why_not": f"{_NOT_LINKED}{next(iter(fault.details), fault.message)}"} for _ in functions]
        rows = [_words(functions[call.function], call, n, addresses) for n, call in enumerate(calls)]
        answers = _execute(program, calls, rows)
    return [_judge(row, number, calls, answers, kernel) for number, row in enumerate(functions)]


def _execute(program: Path, calls: Sequence[_Call], rows: Sequence[bytes]) -> dict[int, list[str]]:
    """The result of each call, as words; a function at which QEMU dies is not called again."""
    argv = [tools.program("qemu-hexagon"), "-cpu", tools.QEMU_CPU, str(program), "request", str(_CALL_SECONDS)]
    answers: dict[int, list[str]] = {}
    dead: set[int] = set()
    while left := [n for n, call in enumerate(calls) if n not in answers and call.function not in dead]:
        (program.parent / "request").write_bytes(b"".join(rows[n] for n in left))
        done = process.run(argv, cwd=program.parent, timeout=_SECONDS, starting=process.Tied)
        lines = [words for line in done.stdout.splitlines() if (words := line.split())[:1] and words[0] in _STEPS]
        answers |= {int(words[1]): words for words in lines if words[0] in _ENDS}
        if done.returncode == 0:
            break
        phase, at = lines[-1][:2] if lines else ("start", str(left[0]))
        dead.add(calls[int(at)].function)
        unsupported = done.returncode == -signal.SIGILL or tools.UNKNOWN_INSTRUCTION in done.stderr
        ended = f"{_TOO_SLOW if done.returncode == -signal.SIGPROF else 'crashed in'} {phase}"
        what = "is too slow" if done.timed_out else "unsupported" if unsupported else ended
        answers[int(at)] = ["died", at, *what.split()]
    return answers


def _stores(function: Mapping[str, Any], types: Sequence[str]) -> bool:
    """Whether it has a tensor of one of these types."""
    return any(row[0] in ("input", "output") and row[2] in types for row in function["arguments"])


def _in_floats(function: Mapping[str, Any]) -> bool:
    """Whether it calculates in floats, or may compare them, which only a QEMU with HVX floats executes."""
    return bool(function.get("floats")) or (_stores(function, ("f16", "f32")) and bool(floats_of(find_qemu())))


def _words(function: Mapping[str, Any], call: _Call, number: int, addresses: Mapping[str, int]) -> bytes:
    """A call as the harness reads it."""
    drawn = random.Random(f"{call.seed}")
    arguments = []
    for kind, *row in function["arguments"]:
        if kind in ("input", "output"):
            _, stored, rank = row
            shape = (*call.shape, *[1] * rank)[:rank]
            code = _HALF if stored == "f16" else _CODES[stored[0]]
            arguments.append([kind == "output", code, int(stored[1:]), rank, *shape])
        elif kind == "scalar":
            arguments.append([2, _scalar(row[0], row[1], drawn)])
        else:
            arguments += [[2, _float(drawn.choice((0.0078125, 0.05, 0.1, 1.0)))], [2, _offset(row[0], drawn)]]
    called = [number, addresses[function["name"]], addresses[function["twin"]]]
    head = [*called, _shift(function), _in_floats(function), call.bits, call.seed, len(arguments)]
    words = [*head, *(word for argument in arguments for word in argument)]
    return struct.pack(f"<{len(words)}I", *(int(word) & 0xFFFFFFFF for word in words))


def _shift(function: Mapping[str, Any]) -> int:
    """The bytes after an aligned address at which tensors begin; 0 means one element."""
    return 128 if function["aligned"] else 4 if function.get("tiles") else 0


def _float(number: float) -> int:
    return int.from_bytes(struct.pack("<f", number), "little")


def _scalar(kind: str, default: float | None, drawn: random.Random) -> int:
    if kind == "f32":
        return _float(drawn.choice((0.25, 0.5, 1.5)) if default is None else default)
    return drawn.choice((1, 2, 3)) if default is None else int(default)


def _offset(stored: str, drawn: random.Random) -> int:
    half = 1 << int(stored[1:]) - 1
    return -drawn.randrange(2 * half) if stored[0] == "u" else drawn.randrange(1 - half, half)


def _judge(
    function: Mapping[str, Any], number: int, calls: Sequence[_Call], answers: Mapping[int, list[str]], kernel: Path
) -> dict[str, Any]:
    """What was executed of a function; raises if it differs where no 32-bit integer overflows."""
    if function.get("why"):
        return {}
    judged = [(call, answers[n]) for n, call in enumerate(calls) if call.function == number and n in answers]
    if (fault := _first_fault(judged)) is not None:
        raise _wrong(function, kernel, *fault)
    agreed = sorted({int(words[2]) for _, words in judged if words[0] == "agrees"})
    died = next((" ".join(words[2:]) for _, words in judged if words[0] == "died"), "")
    if died and not (agreed and died == f"{_TOO_SLOW} twin"):
        lacks = f"qemu-hexagon {find_qemu().version} does not execute an instruction of it"
        return {"why_not": lacks if died == "unsupported" else f"it {died} with drawn numbers"}
    if not agreed:
        reason = next(words[2].replace("_", " ") for _, words in judged)
        return {"why_not": f"it refuses the tensors that were drawn ({reason})"}
    overflows = any(words[0] == "differs" for _, words in judged)
    return {"elements": agreed, "note": _note(function, died, overflows=overflows)}


def _note(function: Mapping[str, Any], died: str, *, overflows: bool) -> str:
    """How a function was compared that agrees with its twin."""
    notes = {
        "with 32-bit numbers of 16 bits: larger ones overflow, which Halide leaves undefined": overflows,
        # The tolerance is that of twins.c.
        "within 2^-14 of scalar code, half floats within 2^-10": not overflows and _in_floats(function),
        f"a longer call {died}": bool(died),
    }
    return "; ".join(note for note, holds in notes.items() if holds)


def _first_fault(found: Sequence[tuple[_Call, list[str]]]) -> tuple[_Call, list[str]] | None:
    """The first call that differs, or crashes only in vectors, among those with the smallest numbers."""
    least = min(call.bits for call, _ in found)
    of_vectors = ["crashed", "in", "vector"]
    return next(
        (row for row in found if row[0].bits == least and (row[1][0] == "differs" or row[1][2:] == of_vectors)), None
    )


def _wrong(function: Mapping[str, Any], kernel: Path, call: _Call, words: Sequence[str]) -> BuildFailed:
    """The error about a function that differs from its twin."""
    lines = function["lines"]
    hint = "Halide compiled vectors of this wrongly: write the expression in another way, or the kernel in C++"
    if words[0] == "died":
        line = max(lines.values(), default=0) or 1
        return BuildFailed(
            f"{kernel}:{line}: {function['name']} for Hexagon crashes in vectors, and its scalar code does not",
            hint=hint,
            ops=(kernel.stem,),
        )
    # Tensors come in the order of the arguments, of which quantization has two.
    flat = [row for row in function["arguments"] for _ in range(2 if row[0] == "quantization" else 1)]
    _, name, stored, _ = flat[int(words[2])]
    first, wrong, size = map(int, words[3:6])
    numbers = [_number(int(word), stored) for word in words[6:8]]
    where = f"element {first} of `{name}` is" if 0 <= first < size else f"outside of `{name}`, at {first}, there is"
    return BuildFailed(
        f"{kernel}:{lines.get(name) or 1}: {function['name']} for Hexagon is wrong: {where} {numbers[0]} in vectors, "
        f"and {numbers[1]} in scalar code ({wrong} of {size} elements differ)",
        hint=hint,
        ops=(kernel.stem,),
    )


def _number(bits: int, stored: str) -> float | int:
    code = _FORMATS[stored]
    number: float | int = struct.unpack(f"<{code}", bits.to_bytes(8, "little")[: struct.calcsize(code)])[0]
    return number
