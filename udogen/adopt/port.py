"""From HTP's C++ interface to `execute(const Args&)`: what is mechanical, and a table of the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from udogen import resources
from udogen.adopt.sources import Kernel
from udogen.backends import vendor
from udogen.opdef.model import OpPackage
from udogen.opdef.names import identifier

MARK = "// PORT: "


class Member(NamedTuple):
    """A member of the SDK's classes that a release has renamed or removed."""

    name: str
    absent: str  # the releases without it
    remedy: str


class Rule(NamedTuple):
    """What stands for a piece of C++ in a kernel with Args; without a replacement a person must write it."""

    pattern: re.Pattern[str]
    replacement: str
    remedy: str


@cache
def members() -> tuple[Member, ...]:
    """Of every release that was read."""
    return tuple(Member(row["member"], row["absent"], row["remedy"]) for row in _table()["rename"])


@cache
def rules() -> tuple[Rule, ...]:
    """In the order in which they are applied."""
    rows = _table()["port"]
    return tuple(Rule(re.compile(row["pattern"]), row.get("replacement", ""), row["remedy"]) for row in rows)


@cache
def _table() -> dict[str, list[dict[str, str]]]:
    return resources.read_toml((resources.tables() / "core_members.toml").read_bytes())


def what_changes(kernels: Iterable[Kernel]) -> list[str]:
    """What a port to QHPI changes in these sources, and members that other releases of the SDK do not have."""
    lines = []
    for kernel in kernels:
        text = vendor.without_comments(kernel.text).decode("utf-8", "replace")
        for member in members():
            if re.search(rf"\b{member.name}\b", text):
                lines.append(f"{kernel.op}: `{member.name}` is not in SDK {member.absent}: {member.remedy}")
        used = [rule for rule in rules() if any(rule.pattern.search(line) for line in text.splitlines())]
        mechanical = sum(1 for rule in used if rule.replacement)
        lines.append(
            f"{kernel.op}: --to qhpi replaces {mechanical} kinds of expressions and marks {len(used) - mechanical}"
        )
    return lines


# What registers ops and optimizations: Args and hooks do that.
_REGISTRATION = re.compile(
    r"^\s*(BEGIN_PKG_OP_DEFINITION|END_PKG_OP_DEFINITION|DEF_PACKAGE_OP\w*|DEF_PACKAGE_PARAM_ORDER|DEF_PACKAGE_OPTIMIZATION\w*"
    r"|DEF_TENSOR_PROPERTIES|DEF_AUTOSPLIT)\b"
)


def to_args(kernel: Kernel, package: OpPackage) -> tuple[bytes, list[str]]:
    """The source with everything mechanical done, in the namespace of the op; and lines on what is left."""
    op = next((each for each in package.ops if each.name == kernel.op), None)
    source = kernel.text.decode("utf-8", "replace").replace("\r\n", "\n")
    includes: list[str] = []
    made: list[str] = []
    marked = dropped = 0
    open_parens = 0  # of a registration over several lines
    in_comment = False
    for line in source.splitlines():
        plain = line.split("//", maxsplit=1)[0]
        if in_comment or line.lstrip().startswith("/*"):
            in_comment = "*/" not in line
            made.append(line)
        elif open_parens > 0 or _REGISTRATION.match(line):
            open_parens += plain.count("(") - plain.count(")")
            dropped += 1
        elif re.match(r"\s*#\s*include\b", line):
            includes += [] if re.search(r'[<"](HTP/core/|QnnOpPackage\.h)', line) else [line.strip()]
        else:
            ported, remedies = _ported(line)
            marked += bool(remedies)
            made.append(ported + "".join(f"  {MARK}{each}" for each in remedies))
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(made)).strip("\n")
    space = f"ops::{package.name}::{kernel.op}"
    given = [f"//   args.{identifier(tensor.name)}" for tensor in (op.tensors if op else ())]
    head = [
        f"// {kernel.op}, ported by `udogen new --from-package --to qhpi` from {kernel.path.name}.",
        f"// Finish the lines with {MARK.strip('/ ')} behind them, and execute() at the end, which is given:",
        *given,
        f'#include "ops/{kernel.op}.hpp"',
        "",
        *includes,
        "",
        f"namespace {space} {{",
        "",
    ]
    old = re.search(r"\b(\w+Impl)\s*\(", body)
    called = f"{old[1]}" if old else "what was the op's function"
    tail = [
        "",
        "udo::Status execute([[maybe_unused]] const Args& args) {",
        f"  {MARK}call {called} with the tensors and parameters of args",
        f'  return udo::notImplemented("{kernel.op}", "kernels/htp/{kernel.op}.cpp");',
        "}",
        "",
        f"}}  // namespace {space}",
        "",
    ]
    report = f"{kernel.op}: {dropped} lines of registration are gone, {marked} lines are marked with {MARK.strip()}"
    return "\n".join([*head, body, *tail]).encode(), [report]


def _ported(line: str) -> tuple[str, list[str]]:
    remedies = []
    for rule in rules():
        if not rule.pattern.search(line.split("//", maxsplit=1)[0]):
            continue
        if rule.replacement:
            line = rule.pattern.sub(rule.replacement, line)
        else:
            remedies.append(rule.remedy)
    return line, remedies
