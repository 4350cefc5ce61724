"""The ops of test files as defined for each backend; checks names and types of a test file against the config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from udogen.backends import PLACES, of_op
from udogen.build.package import PackageLibrary, open_packages
from udogen.configs import resolve
from udogen.configs.load import load
from udogen.errors import UsageError
from udogen.findings import Findings, suggestion
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage
from udogen.verify.test_files.model import EVERY, CaseGroup, OpTests, Subject, TestFiles


@dataclass(frozen=True)
class PackageSource:
    """Where the packages of a subject come from: a config, or existing folders."""

    subject: Subject
    packages: tuple[OpPackage, ...]
    folders: tuple[PackageLibrary, ...] = ()

    def package(self, op: str) -> OpPackage | None:
        """The package that has this op."""
        return next((package for package in self.packages if any(known.name == op for known in package.ops)), None)


def sources(files: TestFiles) -> tuple[TestFiles, Mapping[Subject, PackageSource]]:
    """The files with complete subjects, and the source of each; raises with every wrong name and type."""
    settled: dict[Subject, Subject] = {}
    ops = []
    for tests in files.ops:
        if tests.subject not in settled:
            settled[tests.subject] = _settle(tests.subject, files.folder, tests.folder)
        ops.append(replace(tests, subject=settled[tests.subject]))
    by_subject = {subject: _source(subject, files.folder) for subject in dict.fromkeys(settled.values())}
    findings = Findings()
    for tests in ops:
        check(tests, by_subject[tests.subject], findings)
    findings.stop_if_any(what="the test file")
    return replace(files, ops=tuple(ops)), by_subject


def _settle(subject: Subject, folder: Path, beside: Path) -> Subject:
    """Complete what a test file leaves out: existing packages, or the only config next to it, with its kernels."""
    if subject.config is None and (_holds_packages(folder) or _holds_packages(beside)):
        return subject
    bases = dict.fromkeys((beside, folder))  # a test file may be in `tests`
    config = subject.config
    if config is None:
        configs = [path for base in bases for end in ("*.xml", "*.json") for path in sorted(base.glob(end))]
        if len(configs) != 1:
            raise UsageError(
                f"{folder} has {'no' if not configs else 'more than one'} config, and no packages",
                hint='name it in the test file: config = "MyOp.xml"; or generate packages there',
            )
        config = configs[0]
    usual = next((base / "kernels" for base in bases if (base / "kernels").is_dir()), None)
    return replace(subject, config=config, kernels=subject.kernels or usual)


def _holds_packages(folder: Path) -> bool:
    return any((below / ".udogen").is_dir() for below in (folder, *folder.glob("*/")))


def _source(subject: Subject, folder: Path) -> PackageSource:
    if subject.config is not None:
        packages, _ = load([subject.config])
        return PackageSource(subject, packages)
    folders = open_packages(folder)
    by_content: dict[tuple[bytes, ...], OpPackage] = {}
    for opened in folders:  # packages of several backends have the same config
        for package in load(opened.configs)[0]:
            by_content.setdefault((package.name.encode(), *(path.read_bytes() for path in opened.configs)), package)
    return PackageSource(subject, tuple(by_content.values()), tuple(folders))


def op_for(package: OpPackage, name: str, backend: str) -> Op | None:
    """An op as defined for a backend; None if that backend cannot have it."""
    findings = Findings()
    alone = package.with_ops(tuple(op for op in package.ops if op.name == name))
    op = next(iter(resolve.for_backend(alone, backend, findings, forced=True).ops), None)
    return None if findings.errors and backend not in backends_of(package, name) else op


def backends_of(package: OpPackage, name: str) -> tuple[str, ...]:
    """The backends that the config names for an op."""
    return next((of_op(op, package) for op in package.ops if op.name == name), ())


def check(tests: OpTests, source: PackageSource, findings: Findings) -> None:
    """Check every name and type in a test file against the config."""
    package = source.package(tests.op)
    if package is None:
        known = [op.name for known_package in source.packages for op in known_package.ops]
        where = source.subject.config or "the packages here"
        hint = suggestion(tests.op, known, "there are " + ", ".join(known))
        findings.error(tests.location, f"{where} has no op `{tests.op}`", hint)
        return
    op = next(op for op in package.ops if op.name == tests.op)
    for group in tests.groups:
        _names(group, op, findings)
        _types(group, op, package, findings)


def _names(group: CaseGroup, op: Op, findings: Findings) -> None:
    inputs, outputs = [tensor.name for tensor in op.inputs], [tensor.name for tensor in op.outputs]
    repeated = [tensor.name for tensor in op.inputs if tensor.repeated]

    def check(key: str, what: str, names: Iterable[str], known: Sequence[str]) -> None:
        for name in dict.fromkeys(names):
            if name != EVERY and name not in known and name.rpartition(".")[0] not in known:
                hint = suggestion(name, known, "it has " + (", ".join(known) or "none"))
                findings.error(group.where(key), f"`{key}`: op `{op.name}` has no {what} `{name}`", hint)

    check("shape", "input or output", chain(*group.shapes), [*inputs, *outputs])
    check("values", "input", chain(*group.values), inputs)
    check("dtype", "input or output", chain(*group.dtypes), [*inputs, *outputs])
    check("params", "parameter", group.params, [param.name for param in op.params])
    check("quant", "input or output", group.quants, [*inputs, *outputs])
    check("count", "repeated input", group.counts, repeated)


def _types(group: CaseGroup, op: Op, package: OpPackage, findings: Findings) -> None:
    """Report data types that no backend of the op accepts."""
    places = group.backends or tuple(PLACES)
    backends = dict.fromkeys(config for name in places if (config := PLACES[name].config))
    resolved = [known for backend in backends if (known := op_for(package, op.name, backend))]
    for choice in group.dtypes:
        if resolved and not any(types_of(known, choice) for known in resolved):
            text = ", ".join(f"{name}: {dtype}" if name else dtype for name, dtype in choice.items())
            have = dict.fromkeys(row.name for known in resolved for row in known.inputs[0].accepted)
            findings.error(
                group.where("dtype"), f"`dtype`: op `{op.name}` is never of {text}", f"it can be {', '.join(have)}"
            )


def types_of(op: Op, choice: Mapping[str, str]) -> Mapping[str, DataType] | None:
    """The type of each input and output; None if the op does not accept the choice."""
    common = choice.get(EVERY, "")
    types: dict[str, DataType] = {}
    hit = not common
    for tensor in (*op.inputs, *op.outputs):
        dtype = choice.get(tensor.name, common)
        match = next((row for row in tensor.accepted if row.name == dtype), None)
        if match is None and tensor.name in choice:
            return None
        hit = hit or match is not None
        types[tensor.name] = match or tensor.datatypes[0]
    return types if hit else None


def default_types(op: Op, package: OpPackage) -> list[Mapping[str, str]]:
    """One choice for each type that the first input can have."""
    if not op.inputs:
        return [{}]
    rows = [row for row in op.inputs[0].datatypes if row.numpy]
    if package.language == "json":  # in JSON, UFIXED_POINT_8 is written UINT_8 for DSP
        fixed = {row.bits for row in rows if row.kind == "ufixed"}
        rows = [row for row in rows if row.kind != "uint" or row.bits not in fixed]
    return [{EVERY: row.name} for row in rows]
