"""op_tests.toml -> what it says; everything that is wrong with it is collected, with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from udogen.errors import UsageError, read_plain
from udogen.opdef.problems import Location, Problems, nearest
from udogen.resources import read_toml
from udogen.verify.suite import lines
from udogen.verify.suite.keys import CASE, FILE, NAME, OP, Fault, Key
from udogen.verify.suite.model import Group, OpTests, Subject

LARGEST = 4 << 20
_SYNTAX = re.compile(r"(?P<text>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)\Z")

Where = Callable[..., Location]  # a path in the file -> where that is


def read_file(path: Path, problems: Problems) -> list[OpTests]:
    """The ops of one file; what is wrong goes to `problems`."""
    try:
        data = read_plain(path)
    except OSError as fault:
        raise UsageError(f"{path} cannot be read: {fault.strerror}", hint="give a test file") from fault
    if len(data) > LARGEST:
        problems.error(
            Location(str(path)), f"the file has {len(data) >> 20} MB", "a test file says how to make numbers"
        )
        return []
    data = data.replace(b"\r\n", b"\n")
    try:
        raw = read_toml(data)
    except UnicodeDecodeError as fault:
        line = data[: fault.start].count(b"\n") + 1
        problems.error(Location(str(path), line), "this is no UTF-8", "save the file as UTF-8")
        return []
    except (ValueError, RecursionError) as fault:
        match = _SYNTAX.match(str(fault))
        line = int(match["line"] or 0) if match else 0
        told = match["text"] if match else str(fault)
        problems.error(
            Location(str(path), line), f"this is no TOML: {told[:1].lower()}{told[1:]}", "see https://toml.io"
        )
        return []
    known = lines.find(data.decode("utf-8"))
    return read(raw, path.parent, lambda *at: Location(str(path), lines.line_of(known, at)), problems)


def read(raw: Mapping[str, Any], folder: Path, where: Where, problems: Problems) -> list[OpTests]:
    """The ops of a file, however its tables came about."""
    reader = _Reader(folder, where, problems)
    subject = reader.table({name: value for name, value in raw.items() if name != "op"}, FILE, (), more=("op",))
    ops = raw.get("op", [])
    if not isinstance(ops, list) or not all(isinstance(each, dict) for each in ops):
        problems.error(where("op"), "`op` must be a list of tables", "write [[op]], with two brackets")
        return []
    if not ops:
        problems.error(
            where(), "the file names no op", 'as in:  [[op]]  name = "Softmax"  reference = "reference.py:softmax"'
        )
    return [made for number, each in enumerate(ops) if (made := reader.op(each, ("op", number), subject))]


class _Reader:
    """Reads tables by their keys."""

    def __init__(self, folder: Path, where: Where, problems: Problems) -> None:
        self._folder, self._where, self._problems = folder, where, problems

    def op(self, raw: Mapping[str, Any], at: lines.Path, of_file: Mapping[str, Any]) -> OpTests | None:
        """One `[[op]]`; what it says of cases holds for all of them."""
        found = {**of_file, **self.table(raw, OP, at, more=("case",))}
        cases = raw.get("case", [{}])
        if not isinstance(cases, list) or not all(isinstance(each, dict) for each in cases):
            self._problems.error(self._where(*at, "case"), "`case` must be a list of tables", "write [[op.case]]")
            return None
        if "name" not in raw:
            self._problems.error(self._where(*at), "an [[op]] needs a name", 'as in name = "Softmax"')
        common = {name: value for name, value in found.items() if name in CASE}
        places = {name: self._where(*at, name) for name in common}
        groups = [self._group(each, (*at, "case", number), common, places) for number, each in enumerate(cases)]
        return OpTests(
            op=found.get("name", ""),
            groups=tuple(groups),
            subject=Subject(
                found.get("config"),
                found.get("kernels"),
                found.get("htp_api", ""),
                found.get("rules"),
                found.get("converter"),
            ),
            folder=self._folder,
            reference=found.get("reference", ""),
            loops=found.get("loops", 0),
            operations=found.get("operations"),
            builtin=found.get("builtin"),
            location=self._where(*at),
        )

    def _group(
        self, raw: Mapping[str, Any], at: lines.Path, common: Mapping[str, Any], places: Mapping[str, Location]
    ) -> Group:
        own = self.table(raw, {**NAME, **CASE}, at)
        found = {**common, **own}
        for table in ("params", "quant", "count", "tolerance"):  # these are added to, not replaced
            if table in common and table in own:
                found[table] = {**common[table], **own[table]}
        return Group(
            name=found.get("name", ""),
            shapes=found.get("shape", ()),
            dtypes=found.get("dtype", ()),
            values=found.get("values", ({},)),
            seeds=found.get("seed", (0,)),
            params=found.get("params", {}),
            quants=found.get("quant", {}),
            counts=found.get("count", {}),
            tolerances=found.get("tolerance", {}),
            backends=found.get("backends", ()),
            expect=found.get("expect", "numbers"),
            places={"": self._where(*at), **places, **{name: self._where(*at, name) for name in own}},
        )

    def table(
        self, raw: Mapping[str, Any], keys: Mapping[str, Key], at: lines.Path, more: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Every key of a table that is right; of each other one what is wrong with it."""
        found = {}
        for name, value in raw.items():
            if name in more:
                continue
            if name not in keys:
                near = nearest(name, [*keys, *more])
                hint = f"did you mean `{near}`?" if near else "there are " + ", ".join([*keys, *more])
                self._problems.error(self._where(*at, name), f"there is no key `{name}` here", hint)
                continue
            made = keys[name].read(value, self._folder)
            if isinstance(made, Fault):
                hint = made.hint or keys[name].text
                self._problems.error(self._where(*at, name), f"`{name}`: {made.message}", hint)
            else:
                found[name] = made
        return found
