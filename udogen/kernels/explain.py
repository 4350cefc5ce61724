"""What a kernel in Python becomes: its functions for each machine, their loops, their vector instructions by kind."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from udogen import backends
from udogen.configs.load import load
from udogen.errors import UsageError
from udogen.kernels.objects import PythonKernels, compile_texts

# Machines of a backend whose code differs: the names of libraries' folders.
_MACHINES: Mapping[str, tuple[str, ...]] = {
    "cpu": ("x86_64-linux-clang", "aarch64-linux-gnu"),
    "htp": ("hexagon-v68", "emulated-v68"),
    "dsp": ("hexagon-v66",),
}
_KINDS = {  # how the names of vector instructions begin
    "load and store": "vmem|vmov[aud]|vgather|vscatter|ld[rp1]|st[rp1]|vbroadcast|vld",
    "multiply": "vmpy|vmpa|vdmpy|vrmpy|vpmul|vmul|vfn?m|f?mul|f?ml[as]|vpmadd",
    "divide": "vdiv|f?div|vrcp|vrsqrt|vsqrt|fsqrt",
    "smaller, larger, compare": "vmin|vmax|vpmin|vpmax|f?min|f?max|f?cm|vcmp|vpcmp",
    "add and subtract": "vadd|vsub|vavg|vpadd|vpsub|f?add|f?sub|vabs|vpabs",
    "shift": "vas[lr]|vls[lr]|vps[lr][al]|sshl|sshr|shl|ushr",
    "look up": "vlut|tbl",
    "move between lanes": "vpack|vunpack|vshuff|vdeal|vdelta|vrdelta|valign|vror|vsplat|vcombine|vperm|vins|vext|"
    "vpunpck|vpshuf|zip|uzp|dup|ext|xtn|sxtl|uxtl|vz[xb]t|vs[xb]t|vpmov|vswap",
    "convert": "vcvt|vround|fcvt|[su]cvtf",
    "select and bits": "vmux|vand|vor|vxor|vnot|vblend|vpand|vpor|vpxor|and|orr|eor|bs[lp]|bi[tf]",
}
_LOOP = re.compile(r"^\s*(produce|consume|for|let .* = 0\b|allocate)\b.*\{?$")


@dataclass(frozen=True)
class FunctionCode:
    """One compiled function."""

    name: str
    backend: str
    machine: str
    types: Mapping[str, str]  # of each tensor, one that is stored so, as configs name it; empty where it is left out
    scalar: str  # why it has no vectors; empty where it has
    instructions: Mapping[str, int]  # vector instructions by kind
    loops: tuple[str, ...]


def explain(file: Path, configs: Sequence[Path], machines: Sequence[str]) -> list[FunctionCode]:
    """All functions of a kernel, for these machines or for those of each backend that the op is for."""
    if not file.is_file():
        raise UsageError(f"{file} is not a regular file", hint="name a kernel in Python")
    packages, problems = load(configs)
    problems.stop_if_any()
    found = [(package, op) for package in packages for op in package.ops if op.name == file.stem]
    if not found:
        raise UsageError(
            f"{file}: no op of {', '.join(map(str, configs))} is named `{file.stem}`", hint="name the file as the op"
        )
    [(package, op), *_] = found
    codes = []
    for backend in backends.of_op(op, package):
        kernels = PythonKernels(package.name, file.parent, backend, "qnn", tuple(configs), (file,))
        for machine in _MACHINES.get(backend, ()):
            if not machines or machine in machines:
                codes += _of_machine(kernels, file, machine)
    if not codes:
        known = ", ".join(each for row in _MACHINES.values() for each in row)
        raise UsageError(f"{file}: the op is for none of {', '.join(machines)}", hint=f"machines are {known}")
    return codes


def _of_machine(kernels: PythonKernels, file: Path, machine: str) -> list[FunctionCode]:
    with tempfile.TemporaryDirectory() as folder:
        report, types = compile_texts(kernels, file, machine, Path(folder))
        return [
            FunctionCode(
                name=path.stem,
                backend=kernels.backend,
                machine=machine,
                types=types[path.stem],
                scalar=report.scalar.get(path.stem, ""),
                instructions=_instructions(path.read_text("utf-8")),
                loops=_loops(path.with_suffix(".stmt").read_text("utf-8")),
            )
            for path in sorted(Path(folder).glob("*.s"))
        ]


def _instructions(assembly: str) -> dict[str, int]:
    """Vector instructions by kind, the most frequent first."""
    counts: Counter[str] = Counter()
    for line in assembly.splitlines():
        text = line.strip().lstrip("{").strip()
        name = _vector_instruction(text)
        if name:
            kind = next((kind for kind, names in _KINDS.items() if re.match(names, name)), "others")
            counts[kind] += 1
    return dict(counts.most_common())


def _vector_instruction(text: str) -> str:
    """The name of the instruction of a line, if it is of vectors."""
    if re.search(r"\bv\d+(:\d+)?(\.\w+)?\s*[-+|&]?=|^(if ?\(.*\) ?)?vmemu?\(", text):  # Hexagon
        called = re.search(r"=\s*(v\w+)\(|^(?:if ?\(.*\) ?)?(vmemu?)\(", text)
        return (called[1] or called[2]) if called else "vmem" if "vmem" in text else ""
    if re.search(r"%[xyz]mm\d", text):  # x86: the last letters say how many numbers
        name = text.split(None, 1)[0]
        return "" if name.endswith(("ss", "sd")) else name
    if re.search(r"\bv\d+\.\d+[bhsd]\b|\bq\d+\b", text):  # ARM
        return text.split(None, 1)[0]
    return ""


def _loops(statement: str) -> tuple[str, ...]:
    """The loops and what is calculated in them, of Halide's text."""
    return tuple(line.rstrip().rstrip("{").rstrip() for line in statement.splitlines() if _LOOP.match(line))
