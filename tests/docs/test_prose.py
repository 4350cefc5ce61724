"""What people read is plain English: proselint with the rules of docs/site/prose.toml finds nothing."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tomllib
from proselint.checks import __register__ as checks_of_proselint
from proselint.registry.checks import Check, CheckFlags, CheckResult, Padding
from proselint.registry.checks.engine import Fancy
from proselint.registry.checks.types import PreferredForms

from tests.making import ROOT

RULES = tomllib.loads((ROOT / "docs/site/prose.toml").read_text("utf-8"))
READ_BY_PEOPLE = {"text", "remedy", "meaning", "why", "hint", "title", "effect"}  # keys of the tables in udogen/data
CODE = "§"  # in place of code and of values that are filled in


class Text(NamedTuple):
    """A paragraph, a cell of a table, or a string of the code."""

    line: int
    words: str


def markdown(path: Path) -> Iterator[Text]:
    text = path.read_text("utf-8")
    for pattern, blank in ((r"^```.*?^```|<!--.*?-->", ""), (r"`[^`]*`", CODE), (r"\]\([^)]*\)", "]")):
        text = re.sub(pattern, lambda hit, to=blank: to + "\n" * hit[0].count("\n"), text, flags=re.M | re.S)
    start, block = 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        begins = re.match(r"\s*([*#-]+|\d+\.|[¹²³]|%)\s", line)
        if block and (begins or not line.strip() or line.startswith("|")):
            yield Text(start, " ".join(block))
            block = []
        if line.startswith("|"):
            yield from (Text(number, cell.strip()) for cell in line.strip("|").split("|"))
        elif line.strip():
            start = start if block else number
            block.append((line[begins.end() :] if begins else line).strip())


def strings(path: Path) -> Iterator[Text]:
    """The strings of a module; of the docstrings those that are the help of a verb."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    commands = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.decorator_list]
    helps = {id(command.body[0]) for command in commands if "cli" in path.parts}
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr) and id(node) not in helps}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            words = "".join(part.value if isinstance(part, ast.Constant) else CODE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | docstrings:
            words = node.value
        else:
            continue
        if len(re.findall(r"[a-z]{2,}[,;:]? ", words)) >= 2:
            for paragraph in re.split(r"\n\s*\n|\n\s*\* ", words):
                yield Text(node.lineno, re.sub(r"`[^`]*`", CODE, " ".join(paragraph.split())))


def table(path: Path) -> Iterator[Text]:
    text = path.read_text("utf-8")

    def walk(value: Any, key: str = "") -> Iterator[str]:
        if isinstance(value, str):
            yield from [value] if key in READ_BY_PEOPLE else []
        elif isinstance(value, dict):
            for name, each in value.items():
                yield from walk(each, name)
        elif isinstance(value, list):
            for item in value:
                yield from walk(item, key)

    for words in walk(tomllib.loads(text)):
        yield Text(text[: max(text.find(words), 0)].count("\n") + 1, re.sub(r"`[^`]*`", CODE, words))


def comments(path: Path) -> Iterator[Text]:
    """The docstrings and comments of a source."""
    text = path.read_text("utf-8")
    c = re.search(r"\.(c|h|cpp|hpp|cl)(\.mako)?$", path.name)
    hits = re.finditer(C_COMMENT if c else r"(?:^|\s)#+ (.*)", text, re.S if c else re.M)
    found = [(text.count("\n", 0, hit.start()) + 1, "".join(hit.groups(""))) for hit in hits]
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (words := ast.get_docstring(node)):
                found.append((node.body[0].lineno, words))
    for number, words in found:
        yield Text(number, re.sub(r"`[^`]*`", CODE, " ".join(re.sub(r"^\s*\*", "", words, flags=re.M).split())))


READERS: dict[str, Callable[[Path], Iterator[Text]]] = {
    ".md": markdown,
    ".mako": markdown,
    ".py": strings,
    ".toml": table,
}
SOURCES = {
    "documents": ["*.md", ".github/*.md", "docs/*.md", "examples/*/README.md", "templates/**/*.md.mako"],
    "command line": ["udogen/cli/*.py"],
    "code": ["udogen/*.py", "udogen/[!c]*/**/*.py", "udogen/c[!l]*/**/*.py", "udogen/clients/**/*.py"],
    "tables": ["udogen/data/**/*.toml"],
}


def long_sentences(text: str, check: Check) -> Iterator[CheckResult]:
    start = 0
    for sentence in re.split(r"(?<=[.!?:;|)])\s+|\n", text):
        at = text.index(sentence, start)
        start = at + len(sentence)
        count = len(re.findall(r"[\w-]*[a-z§][\w'-]*", sentence))
        # Without a verb it is a list of names.
        if count > RULES["longest_sentence"] and re.search(r"\b(is|are|the)\b", sentence):
            yield CheckResult(check.path, check.message.format(count), (at, at + 60), None)


# Sources whose docstrings and comments are read.
COMMENTED = {
    "udogen": ["udogen/**/*.py", "udogen/**/*.[ch]", "udogen/**/*.[ch]pp", "udogen/data/**/*.toml"],
    "templates": [
        "templates/**/*.[ch]",
        "templates/**/*.[ch]pp*",
        "templates/**/*.mk",
        "templates/**/Makefile*",
        "templates/**/*.py*",
    ],
    "examples": ["examples/**/*.[ch]", "examples/**/*.[ch]pp", "examples/**/*.toml", "examples/**/*.py"],
    "tests": ["tests/**/*.py", "tests/[!g]*/**/*.[ch]", "tests/[!g]*/**/*.[ch]pp"],
}
C_COMMENT = r'"(?:\\.|[^"\\\n])*"|//[/!<]*([^\n]*)|/\*(.*?)\*/'

CHECKS = (
    *(each for each in checks_of_proselint if any(each.matches_partial(name) for name in RULES["proselint"])),
    Check(
        PreferredForms(RULES["prefer"], Padding.STRICT_WORDS_IN_TEXT),
        Fancy(),
        "prefer",
        "write: {}",
        CheckFlags(allow_quotes=True),
    ),
    Check(long_sentences, path="long sentence", message="{} words"),
)


def findings(texts: list[Text], checks: Sequence[Check] = CHECKS) -> Iterator[tuple[int, str]]:
    """(line, finding) of the texts of a file, which proselint reads as one."""
    starts = [0, *accumulate(len(text.words) + 2 for text in texts)]
    joined = "\n\n".join(text.words for text in texts) + "\n"
    for check in checks:
        for found in check.check_with_flags(joined):
            begin, end = found.span
            around = " ".join(joined[max(begin - 30, 0) : end + 30].split())
            yield (
                texts[max(bisect_right(starts, begin), 1) - 1].line,
                f"{found.message}: … {around} …",
            )


def all_findings(
    patterns: Sequence[str],
    reader: Callable[[Path], Iterator[Text]] | None = None,
    checks: Sequence[Check] = CHECKS,
) -> Iterator[str]:
    paths = sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()})
    assert paths
    for path in paths:
        if texts := list((reader or READERS[path.suffix])(path)):
            yield from (f"{path.relative_to(ROOT)}:{line}: {found}" for line, found in sorted(findings(texts, checks)))


@pytest.mark.parametrize("kind", SOURCES)
def test_it_is_plain_english(kind: str) -> None:
    assert "\n".join(all_findings(SOURCES[kind])) == ""


@pytest.mark.parametrize("kind", COMMENTED)
def test_comments_are_plain_english(kind: str) -> None:
    assert "\n".join(all_findings(COMMENTED[kind], comments, CHECKS[:-1])) == ""  # sentences may be long
