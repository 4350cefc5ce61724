"""Reads and checks configs, and merges files of one package; all problems are reported together."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from udogen.configs import rules
from udogen.errors import file_hint, read_plain
from udogen.findings import Findings, Location
from udogen.opdef.model import Op, OpPackage

LARGEST = 4 << 20  # bytes; the largest real config known has 0.2 MB


def load(paths: Sequence[Path | str], *, strict: bool = False) -> tuple[tuple[OpPackage, ...], Findings]:
    """The packages of all configs, and warnings; raises ConfigError with all errors.

    `packages, findings = load_configs(["Ops.xml"])`
    """
    findings = Findings()
    packages = [package for path in dict.fromkeys(map(str, paths)) for package in read(path, findings)]
    merged = _merge(packages, findings)
    for package in merged:
        rules.check(package, findings)
    findings.stop_if_any(strict=strict)
    return merged, findings


def read(path: Path | str, findings: Findings) -> list[OpPackage]:
    """The packages of one config file, not checked by the rules."""
    file = str(path)
    data = _bytes(Path(path), file, findings)
    if data is None:
        return []
    findings.contents[file] = data
    return parse(data, file, findings)


def parse(data: bytes, file: str, findings: Findings) -> list[OpPackage]:
    """The packages of the content of a config file."""
    if _looks_like_xml(data):
        from udogen.configs import xml_read

        return xml_read.read(data, file, findings)
    from udogen.configs import json_read

    return json_read.read(data, file, findings)


def _bytes(path: Path, file: str, findings: Findings) -> bytes | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            findings.error(Location(file), "this is not a file", "give the path of an XML OpDef or JSON UDO config")
            return None
        if status.st_size > LARGEST:
            findings.error(
                Location(file),
                f"the file has {status.st_size >> 20} MB; a config has at most {LARGEST >> 20} MB",
                "a config describes ops and contains no data; is this the right file?",
            )
            return None
        data = read_plain(path)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        findings.error(
            Location(file), f"the file cannot be read: {reason}", file_hint(path, "give the path of a config")
        )
        return None
    if not data.strip():
        findings.error(Location(file), "the file is empty", "a config is an XML OpDef or a JSON UDO config")
        return None
    return data


def _looks_like_xml(data: bytes) -> bool:
    head = data[:64].lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n").replace(b"\0", b"")
    return head.startswith(b"<")


def _merge(packages: Sequence[OpPackage], findings: Findings) -> tuple[OpPackage, ...]:
    """Merge packages of one name, as the vendor's repeated `-p` does."""
    by_name: dict[str, OpPackage] = {}
    for package in packages:
        first = by_name.setdefault(package.name, package)
        if first is package:
            continue
        if (first.domain, first.version) != (package.domain, package.version):
            findings.warn(
                package.location,
                f"package `{package.name}` has another Domain or Version than in {first.location}",
                f"those of {first.location} are used",
            )
        by_name[package.name] = replace(
            first,
            ops=_merge_ops(first.ops, package.ops),
            supplements=tuple(dict.fromkeys(first.supplements + package.supplements)),
            sources=tuple(dict.fromkeys(first.sources + package.sources)),
            use_qhpi=package.use_qhpi if first.use_qhpi is None else first.use_qhpi,
        )
    return tuple(by_name.values())


def _merge_ops(ops: tuple[Op, ...], more: tuple[Op, ...]) -> tuple[Op, ...]:
    """The ops of both; definitions that differ only in their backends become one op for all of these.

    The rules report those that differ otherwise.
    """
    merged = list(ops)
    for op in more:
        at = next((index for index, other in enumerate(merged) if _same_definition(other, op)), None)
        if at is None:
            merged.append(op)
            continue
        twin = merged[at]
        merged[at] = replace(
            twin,
            backends=tuple(dict.fromkeys(twin.backends + op.backends)),
            dsp_archs=tuple(dict.fromkeys(twin.dsp_archs + op.dsp_archs)),
        )
    return tuple(merged)


def _same_definition(one: Op, other: Op) -> bool:
    """The same definition in two files; twice in one file is an error."""
    bare = replace(other, backends=one.backends, dsp_archs=one.dsp_archs)
    return one.location.file != other.location.file and one == bare
