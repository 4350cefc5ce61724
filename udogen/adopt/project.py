"""A folder of sources -> a project of udogen: config, kernels as they are, first tests, packages; and a report."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from udogen.adopt import port
from udogen.adopt.sources import Found, Kernel, find
from udogen.backends import vendor
from udogen.build.package import Say, no_say
from udogen.configs import xml_write
from udogen.configs.load import load
from udogen.errors import UsageError, writing
from udogen.generate import op_tests
from udogen.generate.pipeline import Generated, GenerateOptions, generate
from udogen.opdef import names
from udogen.opdef.datatypes import BY_NAME
from udogen.opdef.model import Op, OpPackage, Rank, Tensor
from udogen.opdef.problems import Problems

Save = Callable[[Path, bytes], None]

KERNELS = "kernels"
EXTRA = "extra"  # sources and headers that kernels need
_CORE = "htp_core"  # where kernels in HTP's C++ interface are


@dataclass(frozen=True)
class AdoptOptions:
    """What a user asks of `udogen new --from-package`."""

    folder: Path
    out: Path
    to_qhpi: bool = False


@dataclass(frozen=True)
class Report:
    """What came of it: what was recognized, open points, what a port to QHPI changes."""

    found: Found
    config: Path
    recognized: tuple[str, ...]
    decide: tuple[str, ...]
    port: tuple[str, ...]
    written: tuple[Path, ...]
    packages: tuple[Generated, ...]


def adopt(options: AdoptOptions, *, log: Say = no_say) -> Report:
    """Write the project; the folder that is adopted is only read."""
    if (options.folder / ".udogen" / "manifest.json").is_file():
        raise UsageError(f"{options.folder} is a package of udogen already", hint="`udogen generate` updates it")
    found = find(options.folder)
    if not found.kernels:
        more = f"; {len(found.qhpi)} sources speak QHPI themselves: docs/port.md" if found.qhpi else ""
        raise UsageError(
            f"{options.folder} holds no kernel that udogen recognizes{more}",
            hint="it knows sources with REGISTER_OP (CPU), <Op>Operation (GPU), UdoDspShared (DSP V65, V66), "
            "BEGIN_PKG_OP_DEFINITION (HTP)",
        )
    _check_out(options, found)
    recognized, decide = _recognized(found)
    written: list[Path] = []

    def save(path: Path, content: bytes) -> None:
        with writing(path, hint="choose another name"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        written.append(path)

    chosen, doubts = _config(found)
    decide += doubts
    config = options.out / chosen.name
    backends = tuple(dict.fromkeys(kernel.backend for kernel in found.kernels))
    in_core = [kernel for kernel in found.kernels if kernel.is_core]
    wanted = GenerateOptions(
        options.out,
        backends=backends,
        htp_api="core" if in_core and not options.to_qhpi else "qhpi" if "htp" in backends else "",
        layout="snpe" if found.is_udo else "",
    )
    with TemporaryDirectory() as folder:  # what is wrong with the config is said before anything is written
        first = Path(folder, chosen.name)
        first.write_bytes(chosen.content)
        checked, problems = load([first])
        generate(checked, wanted._replace(dry_run=True), problems)
    save(config, chosen.content)
    for path, content in _kernel_files(found, decide).items():
        save(options.out / KERNELS / path, content)
    for each in found.others:
        save(options.out / EXTRA / each.relative_to(found.folder), each.read_bytes())
    loaded, problems = load([config])
    decide += _unmatched(found, loaded)
    ported: list[str] = []
    if options.to_qhpi:
        for kernel in in_core:
            text, lines = port.to_args(kernel, next(iter(loaded)))
            save(options.out / KERNELS / "htp" / f"{kernel.op}.cpp", text)
            ported += lines
    else:
        ported = port.what_changes(in_core)
    done = generate(loaded, wanted._replace(kernels=options.out / KERNELS), problems, log=log)
    decide += [problem.message for problem in problems.warnings]
    known = {op.name: op_tests.KnownTests(config=config.name) for package in loaded for op in package.ops}
    written += op_tests.write(loaded, options.out, known, log=log)
    if found.flags or found.others:
        _write_flags(found, done, save)
    return Report(found, config, tuple(recognized), tuple(decide), tuple(ported), tuple(written), tuple(done))


class _Config(NamedTuple):
    name: str
    content: bytes


def _config(found: Found) -> tuple[_Config, list[str]]:
    """The config that is adopted, or what the sources show of one; and open points."""
    if not found.configs:
        package, comments, doubts = derived(found)
        return _Config(f"{package.name}.xml", xml_write.write(package, Problems(), comments).encode()), doubts
    best = _best(found)
    others = ", ".join(str(each.relative_to(found.folder)) for each in found.configs if each != best)
    doubts = [f"{best.name} is the config, as it names the ops of the kernels; not taken: {others}"] if others else []
    return _Config(best.name, best.read_bytes()), doubts


def _unmatched(found: Found, packages: Sequence[OpPackage]) -> list[str]:
    """Kernels without an op, and ops without a kernel."""
    ops = {op.name for package in packages for op in package.ops}
    lines = [
        f"the config has no op {kernel.op}, so {kernel.path.relative_to(found.folder)} is not built"
        for kernel in found.kernels
        if kernel.op not in ops
    ]
    known = {kernel.op for kernel in found.kernels}
    return lines + [f"no source has the kernel of {op}: it is a skeleton" for op in sorted(ops - known)]


def _check_out(options: AdoptOptions, found: Found) -> None:
    out, folder = options.out.resolve(), found.folder.resolve()
    if out == folder or out.is_relative_to(folder):
        raise UsageError(
            f"{options.out} is in the folder that is adopted, which nothing may change",
            hint="choose another name",
        )
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise UsageError(f"{options.out} exists already", hint="choose another name")


def _recognized(found: Found) -> tuple[list[str], list[str]]:
    """Sentences on what was found, and on open points."""
    styles = {
        "cpu": "CustomOp kernels for CPU",
        "gpu": "Operation kernels for GPU",
        "dsp": "SnpeUdo functions for DSP V65 and V66",
        "core": "HTP kernels in the C++ interface of the SDK",
        "htp": "HTP kernels that register themselves with QHPI",
    }
    lines = []
    for style, title in styles.items():
        kernels = [each for each in found.kernels if ("core" if each.is_core else each.backend) == style]
        if kernels:
            named = ", ".join(f"{each.op} ({each.path.relative_to(found.folder)})" for each in kernels)
            lines.append(f"{title}: {named}")
    if found.support:
        lines.append(f"{len(found.support)} support files of Qualcomm's generators: replaced by udogen's own")
    if found.others:
        lines.append(f"{len(found.others)} further sources and headers: in {EXTRA}/")
    if found.flags:
        lines.append(f"flags of its Makefiles: {' '.join(found.flags)}")
    if found.libraries:
        lines.append(f"{len(found.libraries)} built libraries: not taken")
    decide = [f"{path.relative_to(found.folder)} was not read: {why}" for path, why in found.unreadable.items()]
    decide += [
        f"{path.relative_to(found.folder)} speaks QHPI itself: write its computation as execute(const Args&)"
        for path in found.qhpi
    ]
    return lines, decide


def _best(found: Found) -> Path:
    """The config that names most of the ops of the kernels; of several the first."""
    ops = {kernel.op for kernel in found.kernels}

    def known(path: Path) -> int:
        text = path.read_text("utf-8", "replace")
        return sum(1 for op in ops if re.search(rf"\b{re.escape(op)}\b", text))

    return max(found.configs, key=known)


def _kernel_files(found: Found, decide: list[str]) -> dict[str, bytes]:
    """The kernels below kernels/, by backend and op; a source of several ops is that of its first."""
    files: dict[str, bytes] = {}
    homes: dict[tuple[str, Path], str] = {}
    for kernel in found.kernels:
        path = f"{_CORE if kernel.is_core else kernel.backend}/{kernel.op}.cpp"
        if path in files:
            decide.append(f"{kernel.path.relative_to(found.folder)} is another kernel of {kernel.op}: not taken")
            continue
        home = homes.setdefault((kernel.backend, kernel.path), kernel.op)
        beside = f"// The kernel of {kernel.op} is in {home}.cpp.\n"
        if kernel.backend == "cpu":  # how such a source is known
            beside += '#include "CustomOpPackage.hpp"\n'
            beside += f"extern qnn::custom::OpRegistrationReceiver {kernel.op}_receiver;\n"
        files[path] = kernel.text if home == kernel.op else beside.encode()
    return files


def _write_flags(found: Found, done: Iterable[Generated], save: Save) -> None:
    """user.mk beside each Makefile: flags of the old Makefiles, and where sources that kernels need are."""
    sources = [each for each in found.others if each.suffix in (".cpp", ".cc", ".cxx")]
    folders = sorted({(Path(EXTRA) / each.parent.relative_to(found.folder)).as_posix() for each in found.others})
    for each in done:
        for part in each.plan.parts:
            if part.backend == "reg":
                continue
            makefile = each.folder / part.makefile
            flags = [*found.flags, *(f"-I{folder}" for folder in folders)]
            lines = ["# Yours: what the Makefiles of the adopted package had.", f"EXTRA_CXXFLAGS := {' '.join(flags)}"]
            extra = [(Path(EXTRA) / source.relative_to(found.folder)).as_posix() for source in sources]
            lines += [f"EXTRA_SOURCES += {' '.join(extra)}"] if extra else []
            save(makefile.with_name("user.mk"), ("\n".join(lines) + "\n").encode())
        for source in found.others:
            target = each.folder / EXTRA / source.relative_to(found.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


# --- a config out of sources ------------------------------------------------------------------------------------


def derived(found: Found) -> tuple[OpPackage, Mapping[tuple[str, ...], Sequence[str]], list[str]]:
    """The package that the sources describe, comments for its config, and open points."""
    by_op: dict[str, list[Kernel]] = {}
    for kernel in found.kernels:
        by_op.setdefault(kernel.op, []).append(kernel)
    name = names.suggestion(found.package or found.folder.name)
    comments: dict[tuple[str, ...], Sequence[str]] = {}
    decide = [] if found.package else [f"the package is called {name}, as nothing in the sources names it"]
    ops = []
    for op, kernels in by_op.items():
        inputs, outputs = _counts(kernels)
        params = _params(kernels)
        ops.append(
            Op(
                op,
                tuple(_tensor(f"input{n}" if inputs > 1 else "input", "input") for n in range(inputs)),
                tuple(_tensor(f"output{n}" if outputs > 1 else "output", "output") for n in range(outputs)),
                tuple(params),
                backends=tuple(dict.fromkeys(kernel.backend.upper() for kernel in kernels)),
            )
        )
        sentence = (
            f"{op} was read out of {', '.join(str(each.path.relative_to(found.folder)) for each in kernels)}: "
            f"{inputs} inputs, {outputs} outputs, {len(params)} parameters; their names, types and ranks are guessed"
        )
        comments[(op,)] = [f"TODO: {sentence}."]
        decide.append(sentence)
    return OpPackage(name, tuple(ops), domain="adopted", version="1.0"), comments, decide


def _tensor(name: str, role: str) -> Tensor:
    return Tensor(name, role, (BY_NAME["FLOAT_32"],))


def _counts(kernels: Sequence[Kernel]) -> tuple[int, int]:
    """The numbers of inputs and outputs that sources check or read; 1 where they do neither."""
    found = []
    for word in ("Input", "Output"):
        patterns = (
            rf"numOf{word}s\s*(?:,|!=|==)\s*(\d+)",
            rf"num{word}\(\)\s*,\s*(\d+)",
            rf"\bg_\w*{word}sNum\s*=\s*(\d+)",
        )
        numbers = [int(n) for each in kernels for pattern in patterns for n in re.findall(pattern, _code(each))]
        read = [int(n) + 1 for each in kernels for n in re.findall(rf"->get{word}\(\s*(\d+)\s*\)", _code(each))]
        found.append(max(numbers or read or [1]))
    return found[0], found[1]


def _code(kernel: Kernel) -> str:
    return vendor.without_comments(kernel.text).decode("utf-8", "replace")


def _params(kernels: Sequence[Kernel]) -> list[Tensor]:
    """Parameters by name: of the CPU's getParam, and of HTP's DEF_PACKAGE_PARAM_ORDER."""
    found: dict[str, Tensor] = {}
    for kernel in kernels:
        text = _code(kernel)
        for order in re.findall(r"\bDEF_PACKAGE_PARAM_ORDER\s*\(([^;]*?)\)\s*(?:;|\n)", text, re.DOTALL):
            for name in re.findall(r'"([^"]*)"', order)[1:]:
                found.setdefault(
                    name, Tensor(name, "param", (BY_NAME["FLOAT_32"],), Rank(scalar=True), mandatory=False)
                )
        for name in re.findall(r'\bgetParam\s*\([^")]*"([^"]+)"\s*\)', text):
            tensor = re.search(rf'getParam\s*\([^")]*"{re.escape(name)}"\s*\)\s*->\s*tensorParam', text) or re.search(
                rf'getTensorParam\s*\([^;]*"{re.escape(name)}"', text
            )
            rank = Rank((1,)) if tensor else Rank(scalar=True)
            found.setdefault(name, Tensor(name, "param", (BY_NAME["FLOAT_32"],), rank))
    return list(found.values())
