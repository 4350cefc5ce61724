"""Rules in Python for the shapes and data types of outputs: read, checked, run; `udogen.generate` makes C++ of them.

from udogen.opdef.outputs import Given, infer, load_rules

[rules] = load_rules(Path("rules.py"), packages, problems)
infer(rules, "Pool", {"x": Given((1, 32, 32, 3))}, {"stride": 2})["y"].shape
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from udogen.opdef.model import OpPackage
from udogen.opdef.outputs.asking import Given
from udogen.opdef.outputs.checked import OpRules, Rules
from udogen.opdef.outputs.running import Answer, RuleFailed, infer
from udogen.opdef.problems import Problems

__all__ = ["Answer", "Given", "OpRules", "RuleFailed", "Rules", "infer", "load_rules", "read_rules"]


def load_rules(path: Path, packages: Sequence[OpPackage], problems: Problems) -> tuple[Rules, ...]:
    """The rules of a file for each package; what is wrong goes to `problems`."""
    from udogen.opdef.outputs.reading import text_of

    return read_rules(text_of(path), str(path), packages, problems)


def read_rules(content: bytes, file: str, packages: Sequence[OpPackage], problems: Problems) -> tuple[Rules, ...]:
    """The same, of a file's content."""
    from udogen.opdef.outputs import checking, reading

    source = reading.read(content, file, problems)
    found = reading.assign(source, packages, problems)
    return tuple(replace(checking.check(source, found, package, problems), content=content) for package in packages)
