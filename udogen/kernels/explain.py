"""What a kernel in Python becomes: its functions for each machine, and their vector instructions by kind."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from udogen import backends
from udogen.backends import architectures
from udogen.configs.load import load
from udogen.errors import UsageError
from udogen.kernels.objects import PythonKernels, compile_texts

# Machines of a backend whose code differs: their names -> the names of their library folders.
_MACHINES: Mapping[str, Mapping[str, str]] = {
    "cpu": {machine: machine for machine in ("x86_64-linux-clang", "aarch64-linux-gnu")},
    "gpu": {"opencl": "x86_64-linux-clang"},  # the text is the same for all
    "htp": {machine: machine for machine in ("hexagon-v68", "emulated-v68")},
    "dsp": {"hexagon-v66": "hexagon-v66"},
}
_USUAL = {"htp": "v68", "dsp": "v66"}  # the versions of Hexagon in these names
_KINDS = {  # the beginning of names of vector instructions
    "load and store": "vmem|vmov[aud]|vgather|vscatter|ld[rp1]|st[rp1]|vld",
    "multiply": "vmpy|vmpa|vdmpy|vrmpy|vpmul|vmul|vfn?m|f?n?mul|f?ml[as]|vpmadd|[su]q?r?d?mul|[su]ml[as]l",
    "divide": "vdiv|f?div|vrcp|vrsqrt|vsqrt|fsqrt",
    "compare": "vmin|vmax|vpmin|vpmax|[fsu]?min|[fsu]?max|f?cm|vcmp|vpcmp",
    "add and subtract": "vadd|vsub|vavg|vpadd|vpsub|[fsu]?q?r?h?(add|sub)|vabs|vpabs|f?neg|f?abs|[su]abd",
    "shift": "vas[lr]|vls[lr]|vps[lr][al]|[su]q?r?sh[lr](?!l)|shl(?!l)|vcl",
    "look up": "vlut|tbl",
    "move between lanes": "vpack|vunpack|vshuff|vdeal|vdelta|vrdelta|vl?align|vror|vsplat|vcombine|vperm|vp?ins|vp?ext|"
    "vz[xb]t|vs[xb]t|vsat|vswap|vpunpck|vpshuf|vp?broadcast|vpmov|zip|uzp|trn|rev|dup|ins|ext|f?mov|mvn|[su]?shll|"
    "[su]xtl|[su]?q?xtu?n",
    "convert": "vcvt|vround|fcvt|[su]cvtf",
    "select and bits": "vmux|vand|vor|vxor|vnot|vblend|vpand|vpor|vpxor|and|orr|orn|eor|bic|bs[lp]|bi[tf]",
}
_LABEL = re.compile(r"^(\.L\w+):")
_JUMP = re.compile(r"(\.L\w+)")
_REPEAT = re.compile(r"loop([01])\((\.L\w+)")


@dataclass(frozen=True)
class FunctionCode:
    """One compiled function."""

    name: str
    backend: str
    machine: str
    why: str = ""  # it has no vector instructions, or does not run on a GPU
    instructions: Mapping[str, int] = field(default_factory=dict)  # vector instructions in loops, by kind


def explain(
    file: Path,
    configs: Sequence[Path],
    machines: Sequence[str],
    *,
    arch: str = "",
    on_step: Callable[[str], None] = lambda _line: None,
) -> list[FunctionCode]:
    """All functions of a kernel, for these machines or for those of each backend that the op supports.

    `arch`: the version of Hexagon, if it is not the usual one.
    """
    if not file.is_file():
        raise UsageError(f"{file} is not a regular file", hint="name a kernel in Python")
    packages, problems = load(configs)
    problems.stop_if_any()
    matches = [(package, op) for package in packages for op in package.ops if op.name == file.stem]
    if not matches:
        raise UsageError(
            f"{file}: no op of {', '.join(map(str, configs))} is named `{file.stem}`", hint="name the file as the op"
        )
    [(package, op), *_] = matches
    known = [each for row in _MACHINES.values() for each in row]
    codes = []
    for backend in backends.of_op(op, package):
        kernels = PythonKernels(package.name, file.parent, backend, "qnn", tuple(configs), (file,))
        for machine, folder in _of_arch(backend, arch).items():
            if not machines or machine in machines:
                on_step(f"{file.stem} for {machine}")
                codes += _of_machine(kernels, file, machine, folder)
    if not codes:
        raise UsageError(
            f"{file}: the op is for none of {', '.join([*machines, *([arch] if arch else [])])}",
            hint=f"machines are {', '.join(known)}; versions of Hexagon {', '.join(architectures.ALL)}",
        )
    return codes


def _of_arch(backend: str, arch: str) -> Mapping[str, str]:
    """The machines of a backend; for a version of Hexagon only those."""
    rows, usual = _MACHINES.get(backend, {}), _USUAL.get(backend, "")
    if not arch:
        return rows
    if not usual or arch not in architectures.of_backend(backend):
        return {}
    return {name.replace(usual, arch): folder.replace(usual, arch) for name, folder in rows.items()}


def _of_machine(kernels: PythonKernels, file: Path, machine: str, machine_folder: str) -> list[FunctionCode]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        report = compile_texts(kernels, file, machine_folder, folder)
        if report.not_on_gpu:
            return [FunctionCode(file.stem, kernels.backend, machine, report.not_on_gpu)]
        codes = []
        for path in sorted(folder.glob("*.s")):
            is_gpu = backends.KINDS[kernels.backend].opencl  # its assembly is that of the host
            instructions = {} if is_gpu else _instructions(path.read_text("utf-8"), machine)
            why = report.scalar.get(path.stem, "")
            codes.append(FunctionCode(path.stem, kernels.backend, machine, why, instructions))
        return codes


def _instructions(assembly: str, machine: str) -> dict[str, int]:
    """Vector instructions in loops by kind, the most frequent first; others check tensors, once per call."""
    name_of = next(each for key, each in _INSTRUCTIONS.items() if machine.startswith(key))
    counts: Counter[str] = Counter()
    for line in _in_loops(assembly.splitlines()):
        name = name_of(line.strip().lstrip("{").strip())
        if name:
            kind = next((kind for kind, names in _KINDS.items() if re.match(names, name)), "others")
            counts[kind] += 1
    return dict(counts.most_common())


def _in_loops(lines: list[str]) -> Iterator[str]:
    """The lines between a label and the last jump back to it, or the end of a hardware loop of Hexagon."""
    labels: dict[str, int] = {}
    is_in_loop = [False] * len(lines)
    repeated: dict[str, list[str]] = {"0": [], "1": []}  # labels that the instructions loop0 and loop1 name
    for number, line in enumerate(lines):
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = number
            continue
        for which, name in _REPEAT.findall(line):
            repeated[which].append(name)
        starts = [labels[name] for name in _JUMP.findall(line) if name in labels]
        starts += [
            labels[name]
            for which in re.findall(r":endloop([01])", line)
            for name in repeated[which][-1:]
            if name in labels
        ]
        for start in starts:
            is_in_loop[start : number + 1] = [True] * (number + 1 - start)
    return (line for line, is_in in zip(lines, is_in_loop, strict=True) if is_in)


def _of_hexagon(text: str) -> str:
    """The name of a line's instruction, if it is a vector instruction."""
    if not re.search(r"\b[vq]\d+(:\d+)?(\.\w+)?\s*[-+|&^]?=|^(if ?\(.*\) ?)?vmemu?\(", text):
        return ""
    called = re.search(r"=\s*(v\w+)\(|^(?:if ?\(.*\) ?)?(vmemu?)\(", text)
    if called:
        return called[1] or called[2]
    return "vmem" if "vmem" in text else "vcmp" if "vcmp" in text else ""


def _of_x86(text: str) -> str:
    """The same for x86, where the last letters of a name show the number of elements."""
    name = text.split(None, 1)[0] if re.search(r"%[xyz]mm\d", text) else ""
    return "" if name.endswith(("ss", "sd")) else name


def _of_arm(text: str) -> str:
    return text.split(None, 1)[0] if re.search(r"\bv\d+\.\d+[bhsd]\b|\bq\d+\b", text) and text[0] != "/" else ""


_INSTRUCTIONS: Mapping[str, Callable[[str], str]] = {
    "hexagon": _of_hexagon,
    "emulated": _of_hexagon,
    "x86_64": _of_x86,
    "aarch64": _of_arm,
}
