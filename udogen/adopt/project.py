"""Makes a project from a folder of sources: config, unchanged kernels, first tests, packages; and a report."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from udogen import resources
from udogen.adopt.sources import AdoptedFolder, AdoptedKernel, read_folder
from udogen.backends import vendor
from udogen.build.package import Say, no_say
from udogen.configs import xml_write
from udogen.configs.load import load
from udogen.errors import UsageError, writing
from udogen.findings import Findings
from udogen.generate import op_tests
from udogen.generate.pipeline import Generated, GenerateOptions, generate
from udogen.init.project import command_files
from udogen.opdef import names
from udogen.opdef.datatypes import BY_NAME, DataType
from udogen.opdef.model import Op, OpPackage, Rank, Tensor

KERNELS = "kernels"
EXTRA = "extra"  # sources and headers that kernels need
_CORE = "htp_core"  # where kernels in HTP's C++ interface are


@dataclass
class AdoptReport:
    """The result: what was recognized, what the user must decide, members that SDK releases lack."""

    config: Path
    recognized: list[str]
    decide: list[str]
    members: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    packages: list[Generated] = field(default_factory=list)

    def save(self, path: Path, content: bytes) -> None:
        """Write a file of the project."""
        with writing(path, hint="choose another name"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.written.append(path)


def adopt(folder: Path, out: Path, *, log: Say = no_say) -> AdoptReport:
    """Write the project; the adopted folder is only read."""
    adopted = _read(folder, out)
    configs, undecided = _configs(adopted)
    report = AdoptReport(out / configs[0].name, _recognized(adopted), [*_undecided(adopted), *undecided])
    generating = _generate_options(out, adopted)
    with TemporaryDirectory() as scratch:  # report errors in the config before any file is written
        for config in configs:
            Path(scratch, config.name).write_bytes(config.content)
        checked, findings = load([Path(scratch, config.name) for config in configs])
        generate(checked, generating._replace(dry_run=True), findings)
    with _whole(out):
        for config in configs:
            report.save(out / config.name, config.content)
        for path, content in _kernel_files(adopted, report.decide).items():
            report.save(out / KERNELS / path, content)
        for other in adopted.others:
            report.save(out / EXTRA / other.relative_to(adopted.folder), other.read_bytes())
        loaded, findings = load([out / config.name for config in configs])
        report.decide += [*_unmatched(adopted, loaded), *_lost_types(adopted)]
        report.members += lacking_members(kernel for kernel in adopted.kernels if kernel.is_core)
        report.packages += generate(loaded, generating._replace(kernels=out / KERNELS), findings, log=log)
        report.decide += [finding.message for finding in findings.warnings]
        known = {
            op.name: op_tests.KnownTests(config=Path(op.location.file).name) for package in loaded for op in package.ops
        }
        report.written += op_tests.write(loaded, out, known, log=log)
        _write_commands(out, generating, loaded, report)
        if adopted.flags or adopted.others:
            _write_flags(adopted, report)
    return report


@contextmanager
def _whole(out: Path) -> Iterator[None]:
    """Remove the project, whose folder was missing or empty, if it cannot be completed."""
    was_there = out.exists()
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for entry in out.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            if not was_there:
                out.rmdir()
        raise


def _write_commands(out: Path, generating: GenerateOptions, packages: Sequence[OpPackage], report: AdoptReport) -> None:
    """Write Makefile and README as in other projects; the packages are directly in the project's folder."""
    flags = [f"--backend {backend}" for backend in generating.backends]
    flags += [f"--htp-api {generating.htp_api}"] if generating.htp_api else []
    flags += [f"--layout {generating.layout}"] if generating.layout else []
    files = sorted(path.relative_to(out).as_posix() for path in report.written)
    texts = command_files(out, packages, files, report.packages, out="", options=flags)
    for name, content in texts.items():
        report.save(out / name, content)


def _read(folder: Path, out: Path) -> AdoptedFolder:
    """Read the folder; raises if it cannot be adopted."""
    if (folder / ".udogen" / "manifest.json").is_file():
        raise UsageError(f"{folder} is a package of udogen already", hint="`udogen generate` updates it")
    adopted = read_folder(folder)
    if not adopted.kernels and adopted.interfaces:
        raise UsageError(
            f"{adopted.interfaces[0].relative_to(folder)} implements the interface of QNN by hand, "
            "and udogen recognizes no kernel beside it",
            hint="build it with its own Makefile, then `udogen inspect LIBRARY`; "
            "or `udogen new NAME --from-config FILE` and move its computation into the kernel",
        )
    if not adopted.kernels and adopted.snpe_1:
        raise UsageError(
            f"{folder} is for the UDO interface of SNPE 1.x (SnpeUdo_…), which SNPE 2 and QNN do not have: "
            + ", ".join(str(path.relative_to(folder)) for path in adopted.snpe_1),
            hint="`udogen new NAME --from-config` with its config, and move the computation into the kernels",
        )
    if not adopted.kernels:
        more = f"; {len(adopted.qhpi)} sources use QHPI directly" if adopted.qhpi else ""
        raise UsageError(
            f"{folder} contains no kernel that udogen recognizes{more}",
            hint="give a folder with sources that use REGISTER_OP (CPU), <Op>Operation (GPU), UdoDspShared (DSP V65, "
            "V66), BEGIN_PKG_OP_DEFINITION (HTP)",
        )
    if out.resolve().is_relative_to(adopted.folder.resolve()):
        raise UsageError(f"{out} is inside the adopted folder, which is only read", hint="choose another name")
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise UsageError(f"{out} exists already", hint="choose another name")
    return adopted


def _generate_options(out: Path, adopted: AdoptedFolder) -> GenerateOptions:
    backends = tuple(dict.fromkeys(kernel.backend for kernel in adopted.kernels))
    core = any(kernel.is_core for kernel in adopted.kernels)
    return GenerateOptions(
        out,
        backends=backends,
        htp_api="core" if core else "qhpi" if "htp" in backends else "",
        layout="snpe" if adopted.is_udo else "",
    )


class _Config(NamedTuple):
    name: str
    content: bytes


def _configs(adopted: AdoptedFolder) -> tuple[list[_Config], list[str]]:
    """The adopted config, and one derived from the sources for ops that it lacks; and what the user must decide."""
    empty = [path for path in adopted.configs if path.suffix == ".xml" and b"<OpDef>" not in path.read_bytes()]
    adopted = replace(adopted, configs=[path for path in adopted.configs if path not in empty])
    if not adopted.configs:
        package, comments, doubts = derived(adopted)
        doubts += [f"{path.name} has no op, and is not used" for path in empty]
        return [_Config(f"{package.name}.xml", xml_write.write(package, Findings(), comments).encode())], doubts
    best = _best(adopted)
    others = ", ".join(str(config.relative_to(adopted.folder)) for config in adopted.configs if config != best)
    doubts = [f"{best.name} is used, as it names most ops of the kernels; not used: {others}"] if others else []
    configs = [_Config(best.name, best.read_bytes())]
    packages, _ = load([best])
    ops = {op.name for package in packages for op in package.ops}
    if lacking := [kernel for kernel in adopted.kernels if kernel.op not in ops]:
        package, comments, derivations = derived(replace(adopted, kernels=lacking), packages[0])
        name = f"{best.stem}_more_ops.xml"
        configs.append(_Config(name, xml_write.write(package, Findings(), comments).encode()))
        doubts += [f"{best.name} lacks {', '.join(op.name for op in package.ops)}: see {name}", *derivations]
    return configs, doubts


def _unmatched(adopted: AdoptedFolder, packages: Sequence[OpPackage]) -> list[str]:
    """Kernels without an op, and ops without a kernel."""
    ops = {op.name for package in packages for op in package.ops}
    lines = [
        f"the config has no op {kernel.op}, so {kernel.path.relative_to(adopted.folder)} is not built"
        for kernel in adopted.kernels
        if kernel.op not in ops
    ]
    known = {kernel.op for kernel in adopted.kernels}
    return lines + [f"no kernel of {op} was found: a skeleton was generated" for op in sorted(ops - known)]


def _lost_types(adopted: AdoptedFolder) -> list[str]:
    """Messages about types that only replaced headers declare, and classes that udogen also declares."""
    code = {kernel.op: _code(kernel) for kernel in adopted.kernels}
    headers = sorted((resources.templates() / "qnn").rglob("*.hpp*"))
    own = "".join([*code.values(), *(path.read_text("utf-8") for path in headers)])
    lines = []
    for path in (each for each in adopted.support if each.suffix in (".h", ".hpp")):
        types = re.findall(r"\}\s*(\w+)\s*;", path.read_text("utf-8", "replace"))
        used = [kind for kind in types if any(re.search(rf"\b{kind}\b", text) for text in code.values())]
        if missing := [each for each in used if not re.search(rf"\}}\s*{each}\s*;", own)]:
            name = path.relative_to(adopted.folder)
            lines.append(f"{name} is replaced and declared {', '.join(missing)}: copy that into the kernel")
    for path in (other for other in adopted.others if other.suffix in (".h", ".hpp")):
        text = path.read_text("utf-8", "replace")
        classes = [f"{op}Operation" for op in code if re.search(rf"\bclass\s+{op}Operation\b[^;]*\{{", text)]
        if classes:
            name = path.relative_to(adopted.folder)
            lines.append(f"{name} declares {classes[0]}, as udogen's Operation.hpp does: remove its #include")
    return lines


def _recognized(adopted: AdoptedFolder) -> list[str]:
    """A sentence on each kind of file."""
    styles = {
        "cpu": "CustomOp kernels for CPU",
        "gpu": "Operation kernels for GPU",
        "dsp": "SnpeUdo functions for DSP V65 and V66",
        "core": "HTP kernels in the C++ interface of the SDK",
        "htp": "HTP kernels that register themselves with QHPI",
    }
    lines = []
    for style, title in styles.items():
        kernels = [kernel for kernel in adopted.kernels if ("core" if kernel.is_core else kernel.backend) == style]
        if kernels:
            empty = {kernel for kernel in kernels if vendor.has_no_code(style, kernel.text)}
            named = ", ".join(
                f"{kernel.op} ({kernel.path.relative_to(adopted.folder)}"
                f"{': no code in execute' if kernel in empty else ''})"
                for kernel in kernels
            )
            lines.append(f"{title}: {named}")
    for rows, text in (
        (adopted.support, "{} support files of Qualcomm's generators: replaced by udogen's own"),
        (adopted.others, f"{{}} further sources and headers: copied to {EXTRA}/"),
        (adopted.libraries, "{} built libraries: not copied"),
    ):
        lines += [text.format(len(rows))] if rows else []
    return [*lines, *([f"flags of its Makefiles: {' '.join(adopted.flags)}"] if adopted.flags else [])]


def _undecided(adopted: AdoptedFolder) -> list[str]:
    """Files that were not adopted and need a decision."""
    return [
        *(f"{path.relative_to(adopted.folder)} was not read: {why}" for path, why in adopted.unreadable.items()),
        *(
            f"{path.relative_to(adopted.folder)} uses QHPI directly: write its computation as execute(const Args&)"
            for path in adopted.qhpi
        ),
        *(
            f"{path.relative_to(adopted.folder)} uses the UDO interface of SNPE 1.x, which later ones lack: not copied"
            for path in adopted.snpe_1
        ),
    ]


def _best(adopted: AdoptedFolder) -> Path:
    """The config that names the most ops of the kernels; the first one of several."""
    ops = {kernel.op for kernel in adopted.kernels}

    def known(path: Path) -> int:
        text = path.read_text("utf-8", "replace")
        return sum(1 for op in ops if re.search(rf"\b{re.escape(op)}\b", text))

    return max(adopted.configs, key=known)


def _kernel_files(adopted: AdoptedFolder, decide: list[str]) -> dict[str, bytes]:
    """The files below kernels/, by backend and op; a source with several ops is named after the first one."""
    files: dict[str, bytes] = {}
    homes: dict[tuple[str, Path], str] = {}
    for kernel in adopted.kernels:
        path = f"{_CORE if kernel.is_core else kernel.backend}/{kernel.op}.cpp"
        if path in files:
            decide.append(f"{kernel.path.relative_to(adopted.folder)} is another kernel of {kernel.op}: not copied")
            continue
        home = homes.setdefault((kernel.backend, kernel.path), kernel.op)
        beside = f"// The kernel of {kernel.op} is in {home}.cpp.\n"
        if kernel.backend == "cpu":  # marks it as a vendor-style source
            beside += '#include "CustomOpPackage.hpp"\n'
            beside += f"extern qnn::custom::OpRegistrationReceiver {kernel.op}_receiver;\n"
        if kernel.backend == "htp" and not kernel.is_core:
            beside += f'#include "HTP/core/qhpi.h"\nextern QHPI_OpInfo_v1 {kernel.op}_record;\n'
        files[path] = kernel.text if home == kernel.op else beside.encode()
    return files


def _write_flags(found: AdoptedFolder, report: AdoptReport) -> None:
    """Write user.mk next to each Makefile: flags of the old Makefiles, and paths of sources that kernels need."""
    programs = _of_programs(found)
    if programs:
        named = ", ".join(str(program.relative_to(found.folder)) for program in programs)
        report.decide.append(f"sources of programs are not compiled (EXTRA_SOURCES in user.mk adds them): {named}")
    sources = [other for other in found.others if other.suffix in (".cpp", ".cc", ".cxx") and other not in programs]
    folders = sorted({(Path(EXTRA) / other.parent.relative_to(found.folder)).as_posix() for other in found.others})
    for package in report.packages:
        for part in package.plan.parts:
            if part.backend == "reg":
                continue
            makefile = package.folder / part.makefile
            flags = [*found.flags, *(f"-I{folder}" for folder in folders)]
            lines = [
                "# User-owned: flags of the adopted Makefiles.",
                f"EXTRA_CXXFLAGS := {' '.join(flags)}",
            ]
            names_of_sources = (source.relative_to(found.folder) for source in sources)
            extra = [
                (Path(EXTRA) / name).as_posix() for name in names_of_sources if _core_of(name) in ("", part.backend)
            ]
            lines += [f"EXTRA_SOURCES += {' '.join(extra)}"] if extra else []
            report.save(makefile.with_name("user.mk"), ("\n".join(lines) + "\n").encode())
        for source in found.others:
            target = package.folder / EXTRA / source.relative_to(found.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _of_programs(found: AdoptedFolder) -> list[Path]:
    """Sources that have a main function, or lie beside one in a folder without kernels."""
    sources = [other for other in found.others if other.suffix in (".cpp", ".cc", ".cxx")]
    main = {source for source in sources if re.search(r"\bint\s+main\s*\(", source.read_text("utf-8", "replace"))}
    folders = {path.parent for path in main} - {kernel.path.parent for kernel in found.kernels}
    return [source for source in sources if source in main or source.parent in folders]


def _core_of(path: Path) -> str:
    """The backend in whose folder of a UDO package a source is, or `reg`; empty if it is in none."""
    core = re.match(r"(?:jni/)?src/(CPU|GPU|DSP|reg)(?:_V(\d+))?/", path.as_posix())
    if not core:
        return ""
    return "htp" if core[2] and int(core[2]) >= 68 else core[1].lower()


# --- a config from sources --------------------------------------------------------------------------------------


def derived(
    found: AdoptedFolder, known: OpPackage | None = None
) -> tuple[OpPackage, Mapping[tuple[str, ...], Sequence[str]], list[str]]:
    """The package that the sources describe, comments for its config, and what the user must decide.

    `known`: the package whose config lacks the ops of these sources.
    """
    by_op: dict[str, list[AdoptedKernel]] = {}
    for kernel in found.kernels:
        by_op.setdefault(kernel.op, []).append(kernel)
    package = next(iter(found.packages), "")
    name = names.suggestion(package or found.folder.name)
    comments: dict[tuple[str, ...], Sequence[str]] = {}
    decide = [] if package or known else [f"the package is called {name}: the sources do not name it"]
    ops = []
    for op, kernels in by_op.items():
        inputs, outputs = _counts(kernels)
        params = _params(kernels)
        datatype = _datatype(kernels)
        ops.append(
            Op(
                op,
                tuple(_tensor(f"input{n}" if inputs > 1 else "input", "input", datatype) for n in range(inputs)),
                tuple(_tensor(f"output{n}" if outputs > 1 else "output", "output", datatype) for n in range(outputs)),
                tuple(params),
                backends=tuple(dict.fromkeys(kernel.backend.upper() for kernel in kernels)),
            )
        )
        sentence = (
            f"{op} was derived from {', '.join(str(each.path.relative_to(found.folder)) for each in kernels)}: "
            f"{inputs} inputs, {outputs} outputs, {len(params)} parameters; their names, types and ranks are assumed"
        )
        comments[(op,)] = [f"TODO: check this op: {sentence}."]
        decide.append(sentence)
    bare = replace(known, supplements=()) if known else OpPackage(name, (), domain="adopted", version="1.0")
    return replace(bare, ops=tuple(ops)), comments, decide


def _tensor(name: str, role: str, datatype: DataType) -> Tensor:
    return Tensor(name, role, (datatype,))


def _datatype(kernels: Sequence[AdoptedKernel]) -> DataType:
    """The type of tensors: quantized if the kernels (for the DSP) use stored numbers with a range."""
    quantized = all("UDO_QUANTIZATION_TF" in _code(kernel) for kernel in kernels)
    return BY_NAME["UFIXED_POINT_8" if quantized else "FLOAT_32"]


def _counts(kernels: Sequence[AdoptedKernel]) -> tuple[int, int]:
    """The numbers of inputs and outputs that sources check, read or declare as arguments; at least 1."""
    counts = []
    declared = [_declared_counts(kernel) for kernel in kernels if kernel.backend == "htp"]
    for index, word in enumerate(("Input", "Output")):
        patterns = (
            rf"numOf{word}s\s*(?:,|!=|==)\s*(\d+)",
            rf"num{word}\(\)\s*,\s*(\d+)",
            rf"\bg_\w*{word}sNum\s*=\s*(\d+)",
            rf"\.min_{word.lower()}s\s*=\s*(\d+)",
        )
        numbers = [int(n) for kernel in kernels for pattern in patterns for n in re.findall(pattern, _code(kernel))]
        read = [int(n) + 1 for kernel in kernels for n in re.findall(rf"->get{word}\(\s*(\d+)\s*\)", _code(kernel))]
        counts.append(max([1, *(numbers or read or [row[index] for row in declared])]))
    return counts[0], counts[1]


def _declared_counts(kernel: AdoptedKernel) -> tuple[int, int]:
    """The number of inputs and outputs of the function that DEF_PACKAGE_OP registers (arguments minus parameters)."""
    text = _code(kernel)
    function = re.search(rf'\bDEF_PACKAGE_OP\w*\s*\([\s(]*(\w+)[^"]*"{kernel.op}"', text)
    head = re.search(rf"\b{function[1]}\s*\(([^;{{)]*)\)\s*[;{{]", text) if function else None
    arguments = re.sub(r"<[^<>]*>", "", head[1]).split(",") if head else []
    tensors = [argument for argument in arguments if "&" in argument]
    outputs = sum("const" not in tensor for tensor in tensors)
    order = re.search(rf'\bDEF_PACKAGE_PARAM_ORDER\s*\(\s*"{kernel.op}"([^;]*?)\)\s*(?:;|\n)', text, re.DOTALL)
    return len(tensors) - outputs - (order[1].count('"') // 2 if order else 0), outputs


def _code(kernel: AdoptedKernel) -> str:
    return vendor.without_comments(kernel.text).decode("utf-8", "replace")


def _params(kernels: Sequence[AdoptedKernel]) -> list[Tensor]:
    """Parameters from getParam (CPU) and DEF_PACKAGE_PARAM_ORDER (HTP)."""
    params: dict[str, Tensor] = {}
    for kernel in kernels:
        text = _code(kernel)
        for order in re.findall(r"\bDEF_PACKAGE_PARAM_ORDER\s*\(([^;]*?)\)\s*(?:;|\n)", text, re.DOTALL):
            for name in re.findall(r'"([^"]*)"', order)[1:]:
                params.setdefault(
                    name, Tensor(name, "param", (BY_NAME["FLOAT_32"],), Rank(scalar=True), mandatory=False)
                )
        for name in re.findall(r'\bgetParam\s*\([^")]*"([^"]+)"\s*\)', text):
            tensor = re.search(rf'getParam\s*\([^")]*"{re.escape(name)}"\s*\)\s*->\s*tensorParam', text) or re.search(
                rf'getTensorParam\s*\([^;]*"{re.escape(name)}"', text
            )
            rank = Rank((1,)) if tensor else Rank(scalar=True)
            params.setdefault(name, Tensor(name, "param", (BY_NAME["FLOAT_32"],), rank))
    return list(params.values())


# --- members of HTP's C++ interface --------------------------------------------------------------------------------


class Member(NamedTuple):
    """A member of a class of the SDK that a release has renamed or removed."""

    name: str
    absent: str  # the releases without it
    remedy: str


@cache
def members() -> tuple[Member, ...]:
    """The rows of core_members.toml."""
    return tuple(
        Member(row["member"], row["absent"], row["remedy"]) for row in resources.facts("core_members")["rename"]
    )


def lacking_members(kernels: Iterable[AdoptedKernel]) -> list[str]:
    """The members in these sources that other SDK releases lack."""
    return [
        f"{kernel.op}: `{member.name}` is not in SDK {member.absent}: {member.remedy}"
        for kernel in kernels
        for member in members()
        if re.search(rf"\b{member.name}\b", _code(kernel))
    ]
