"""Reads test files (op_tests.toml, Python files with `op_test`); each error has its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from udogen.backends import PLACES
from udogen.errors import UsageError, read_plain, reading
from udogen.opdef import datatypes
from udogen.opdef.problems import Location, Problems, suggestion
from udogen.python_files import load_module
from udogen.resources import read_toml
from udogen.verify import MARK, tolerances
from udogen.verify.test_files import values
from udogen.verify.test_files.model import (
    EVERY,
    Builtin,
    CaseGroup,
    GivenNumbers,
    NetworkTests,
    OpTests,
    Quantization,
    Shape,
    Subject,
    TestFiles,
)

FILE_NAME = "op_tests.toml"
_PATTERNS = (FILE_NAME, f"*.{FILE_NAME}", f"tests/{FILE_NAME}", f"tests/*.{FILE_NAME}")
_PYTHON = ("tests/test_*.py", "test_*.py")


def test_files(folder: Path) -> list[Path]:
    """The test files of a folder and of its `tests`: op_tests.toml, and Python files that use `op_test`."""
    declared = [path for pattern in _PATTERNS for path in sorted(folder.glob(pattern))]
    python = [path for pattern in _PYTHON for path in sorted(folder.glob(pattern)) if _uses_op_test(path)]
    return list(dict.fromkeys([*declared, *python]))


test_files.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it as a test because of its name


def is_test_file(path: Path) -> bool:
    """Whether a file is a test file of udogen, by its name and, for Python files, by use of `op_test`."""
    if path.name == FILE_NAME or path.name.endswith(f".{FILE_NAME}"):
        return True
    return path.suffix == ".py" and path.name.startswith("test_") and _uses_op_test(path)


def load_test_files(path: Path) -> TestFiles:
    """Read the test files of a folder, or one file; raises with all problems in them."""
    if not path.exists():
        raise UsageError(f"there is no folder {path}", hint="give a folder with a test file, or a test file")
    folder = path if path.is_dir() else path.parent
    files = test_files(folder) if path.is_dir() else [path]
    if not files and (path / ".udogen").is_dir():  # a package: its tests are next to it
        files = test_files(path.resolve().parent)
    if not files:
        raise UsageError(
            f"{path} has no test file ({FILE_NAME}, or tests/test_*.py that uses udogen.verify.op_test)",
            hint="`udogen new NAME --from-config CONFIG` makes a project with one",
        )
    problems = Problems()
    ops: list[OpTests] = []
    networks: list[NetworkTests] = []
    for file in files:
        if file.suffix == ".py":
            ops += read_python(file, problems)
        else:
            found = read_file(file, problems)
            ops, networks = [*ops, *found.ops], [*networks, *found.networks]
    problems.stop_if_any(what="the test files" if len(files) > 1 else "the test file")
    return TestFiles(folder=folder, ops=tuple(ops), files=tuple(files), networks=tuple(networks))


def _uses_op_test(path: Path) -> bool:
    try:
        return b"import op_test" in read_plain(path)
    except OSError:
        return False


# --- Python files -----------------------------------------------------------------------------------------------------


def read_python(path: Path, problems: Problems) -> list[OpTests]:
    """The ops of one file; errors are added to `problems`, with the line of the function."""
    found: list[OpTests] = []
    for name, function in vars(load_module(path)).items():
        for table in getattr(function, MARK, []):
            location = Location(str(path), function.__code__.co_firstlineno)
            raw = {"op": [{"reference": f"{path.name}:{name}", **table}]}
            found += read(raw, path.parent, lambda *_at, at=location: at, problems).ops
    if not found and not problems.errors:
        problems.error(Location(str(path)), "the file marks no function with @op_test", "see udogen.verify.op_test")
    return found


# --- reading tables ---------------------------------------------------------------------------------------------------


LARGEST = 4 << 20
_SYNTAX = re.compile(r"(?P<text>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)\Z")

Where = Callable[..., Location]  # a key path in the file -> its location


class FileTests(NamedTuple):
    """The declarations of one file."""

    ops: list[OpTests]
    networks: list[NetworkTests]


_NOTHING = FileTests([], [])


def read_file(path: Path, problems: Problems) -> FileTests:
    """The ops and networks of one file; errors are added to `problems`."""
    with reading(path, hint="give a test file"):
        data = read_plain(path)
    if len(data) > LARGEST:
        problems.error(
            Location(str(path)), f"the file has {len(data) >> 20} MB", "describe large tensors with `values`"
        )
        return _NOTHING
    data = data.replace(b"\r\n", b"\n")
    try:
        raw = read_toml(data)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        problems.error(Location(str(path), line), "this is not UTF-8", "save the file as UTF-8")
        return _NOTHING
    except (ValueError, RecursionError) as error:
        match = _SYNTAX.match(str(error))
        line = int(match["line"] or 0) if match else 0
        message = match["text"] if match else str(error)
        problems.error(
            Location(str(path), line), f"this is not TOML: {message[:1].lower()}{message[1:]}", "see https://toml.io"
        )
        return _NOTHING
    known = find_lines(data.decode("utf-8"))
    return read(raw, path.parent, lambda *at: Location(str(path), line_of(known, at)), problems)


def read(raw: Mapping[str, Any], folder: Path, where: Where, problems: Problems) -> FileTests:
    """The ops and networks in the tables of a file."""
    reader = _TableReader(folder, where, problems)
    subject = reader.table(raw, SUBJECT, (), more=("op", "network"))
    tables: dict[str, list[Any]] = {"op": raw.get("op", []), "network": raw.get("network", [])}
    for name, found in tables.items():
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            problems.error(where(name), f"`{name}` must be a list of tables", f"write [[{name}]], with two brackets")
            return _NOTHING
    if not any(tables.values()):
        problems.error(
            where(), "the file names no op", 'as in:  [[op]]  name = "Softmax"  reference = "reference.py:softmax"'
        )
    made = [reader.op(each, ("op", number), subject) for number, each in enumerate(tables["op"])]
    networks = [reader.network(each, ("network", number)) for number, each in enumerate(tables["network"])]
    return FileTests([each for each in made if each], [each for each in networks if each])


class _TableReader:
    """Reads tables by their keys."""

    def __init__(self, folder: Path, where: Where, problems: Problems) -> None:
        self._folder, self._where, self._problems = folder, where, problems

    def op(self, raw: Mapping[str, Any], at: KeyPath, of_file: Mapping[str, Any]) -> OpTests | None:
        """One `[[op]]`; its case keys apply to all its cases."""
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
        subject = Subject(**{name: value for name, value in found.items() if name in SUBJECT})
        own = {name: value for name, value in found.items() if name in _OF_OP}
        name, location = found.get("name", ""), self._where(*at)
        return OpTests(name, tuple(groups), subject, self._folder, location=location, **own)

    def network(self, raw: Mapping[str, Any], at: KeyPath) -> NetworkTests | None:
        """One `[[network]]`."""
        found = self.table(raw, NETWORK, at)
        if "model" not in raw:
            self._problems.error(self._where(*at), "a [[network]] needs a model", 'as in model = "net.onnx"')
        if "model" not in found:
            return None
        return NetworkTests(name=found.pop("name", found["model"].stem), location=self._where(*at), **found)

    def _group(
        self, raw: Mapping[str, Any], at: KeyPath, common: Mapping[str, Any], places: Mapping[str, Location]
    ) -> CaseGroup:
        own = self.table(raw, {**NAME, **CASE}, at)
        found = {**common, **own}
        for table in ("params", "quant", "count", "tolerance"):  # merged, not replaced
            if table in common and table in own:
                found[table] = {**common[table], **own[table]}
        places = {"": self._where(*at), **places, **{name: self._where(*at, name) for name in own}}
        return CaseGroup(places=places, **{_PLURALS.get(name, name): value for name, value in found.items()})

    def table(
        self, raw: Mapping[str, Any], keys: Mapping[str, Key], at: KeyPath, more: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The values of a table by key; wrong keys and values are added to `problems`."""
        found = {}
        for name, value in raw.items():
            if name in more:
                continue
            if name not in keys:
                hint = suggestion(name, [*keys, *more], "there are " + ", ".join([*keys, *more]))
                self._problems.error(self._where(*at, name), f"there is no key `{name}` here", hint)
                continue
            made = keys[name].read(value, self._folder)
            if isinstance(made, Invalid):
                hint = made.hint or keys[name].text
                self._problems.error(self._where(*at, name), f"`{name}`: {made.message}", hint)
            else:
                found[name] = made
        return found


# --- keys -------------------------------------------------------------------------------------------------------------


_SHAPE = re.compile(r"\d+(x\d+)*\Z")
_MOST_AXES = 8
_MOST_ELEMENTS = 1 << 28


class Invalid(NamedTuple):
    """Why a value is invalid for its key."""

    message: str
    hint: str = ""


class Key(NamedTuple):
    """One key: the function that reads its value, and its description."""

    read: Callable[[Any, Path], Any]
    text: str


def one_of(raw: Any) -> list[Any]:
    """One value or a list of several, as a list."""
    return list(raw) if isinstance(raw, list) else [raw]


def _text(raw: Any, _folder: Path) -> str | Invalid:
    return raw if isinstance(raw, str) and raw.strip() else Invalid("this must be a string")


def _path(raw: Any, folder: Path) -> Path | Invalid:
    return folder / raw if isinstance(raw, str) and raw else Invalid("this must be a path, relative to the test file")


def _shape(raw: Any) -> Shape | Invalid:
    invalid = Invalid(
        f"`{raw}` is not a shape",
        'as in "1x8x8x16", or [1, 8, 8, 16]; several: ["3x5", "7"], [{ a = "2x3", b = "3" }, …]',
    )
    if isinstance(raw, str):
        if not _SHAPE.match(raw):
            return Shape() if raw == "scalar" else invalid
        raw = [int(part) for part in raw.split("x")]
    if not isinstance(raw, list) or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in raw):
        return invalid
    size = 1
    for extent in raw:
        size *= extent
    if len(raw) > _MOST_AXES or size > _MOST_ELEMENTS:
        return Invalid(f"`{raw}` is too large for a test", f"at most {_MOST_AXES} axes and {_MOST_ELEMENTS} elements")
    return tuple(raw)


def _shapes(raw: Any, _folder: Path) -> tuple[Mapping[str, Shape], ...] | Invalid:
    whole = isinstance(raw, list) and all(isinstance(each, int) for each in raw)
    return _choices([raw] if whole else one_of(raw), _shape)


def _choices(raw: list[Any], read: Callable[[Any], Any]) -> tuple[Mapping[str, Any], ...] | Invalid:
    """Read a list of values for all tensors, or of tables by tensor."""
    found = []
    for each in raw:
        table = each if isinstance(each, dict) else {EVERY: each}
        made = {name: read(value) for name, value in table.items()}
        invalid = next((value for value in made.values() if isinstance(value, Invalid)), None)
        if invalid:
            return invalid
        found.append(made)
    return tuple(found) or Invalid("the list is empty", "leave the key out, or give at least one")


def _dtypes(raw: Any, _folder: Path) -> tuple[Mapping[str, str], ...] | Invalid:
    def read(each: Any) -> str | Invalid:
        row = datatypes.parse(each) if isinstance(each, str) else None
        if row is None or row.kind == "special":
            return Invalid(f"`{each}` is not a data type", "as in FLOAT_32, FLOAT_16, UFIXED_POINT_8, INT_32")
        return row.name

    return _choices(one_of(raw), read)


def _values(raw: Any, folder: Path) -> tuple[Mapping[str, values.Fill | GivenNumbers], ...] | Invalid:
    def read(each: Any) -> values.Fill | GivenNumbers | Invalid:
        if isinstance(each, str):
            if each.endswith(".npy"):
                return GivenNumbers(file=folder / each)
            found = values.parse(each)
            return Invalid(found, "as in normal, uniform(-3, 3), edge") if isinstance(found, str) else found
        if isinstance(each, list):
            return GivenNumbers(each)
        return Invalid(f"`{each}` is not a way to fill a tensor", "as in normal, uniform(-3, 3), x.npy")

    return _choices(one_of(raw), read)


def _seeds(raw: Any, _folder: Path) -> tuple[int, ...] | Invalid:
    found = one_of(raw)
    if not found or not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in found):
        return Invalid("a seed is an integer, not less than 0", "as in seed = 1, or seed = [1, 2, 3]")
    return tuple(found)


def _table(raw: Any, _folder: Path) -> Mapping[str, object] | Invalid:
    return raw if isinstance(raw, dict) else Invalid("this must be a table", "as in { axis = [0, -1] }")


def _quants(raw: Any, _folder: Path) -> Mapping[str, Quantization] | Invalid:
    if not isinstance(raw, dict):
        return Invalid("this must be a table, tensor by tensor", "as in { input = { low = -6, high = 6 } }")
    made = {name: _quant(name, each) for name, each in raw.items()}
    invalid = next((each for each in made.values() if isinstance(each, Invalid)), None)
    return invalid or {name: each for name, each in made.items() if isinstance(each, Quantization)}


def _quant(name: str, raw: Any) -> Quantization | Invalid:
    hint = f"{name} = {{ low = -6, high = 6 }}: real numbers to cover; or {name} = {{ scale = 0.05, offset = -128 }}"
    if not isinstance(raw, dict) or not all(isinstance(n, int | float) and abs(n) < 1e38 for n in raw.values()):
        return Invalid(f"the quantization of `{name}` is not a table of numbers", hint)
    if raw.keys() == {"low", "high"} and raw["low"] < raw["high"]:
        return Quantization(low=float(raw["low"]), high=float(raw["high"]))
    if raw.keys() in ({"scale"}, {"scale", "offset"}) and raw["scale"] > 0:
        return Quantization(scale=float(raw["scale"]), offset=int(raw.get("offset", 0)))
    return Invalid(f"the quantization of `{name}` has neither low and high nor a positive scale", hint)


def _counts(raw: Any, _folder: Path) -> Mapping[str, int] | Invalid:
    if not isinstance(raw, dict) or not all(isinstance(each, int) and 0 < each < 1000 for each in raw.values()):
        return Invalid("this must be a table with the number of each repeated input", "as in { inputs = 3 }")
    return raw


def _tolerance(raw: Any, _folder: Path) -> Mapping[str, tolerances.Tolerance] | Invalid:
    found = tolerances.parse(raw)
    return Invalid(found, "by data type: { FLOAT_16 = 2e-3, fixed = 1 }") if isinstance(found, str) else found


def _some_of(names: Sequence[str], invalid: str, hint: str = "") -> Callable[[Any, Path], tuple[str, ...] | Invalid]:
    """A reader of one or several of these names; `invalid` is the message for any other name."""

    def read(raw: Any, _folder: Path) -> tuple[str, ...] | Invalid:
        found = tuple(str(each) for each in one_of(raw))
        odd = [each for each in found if each not in names]
        return Invalid(invalid.format(odd[0]), hint or "there are " + ", ".join(names)) if odd else found

    return read


def _name_of(names: Sequence[str], invalid: str) -> Callable[[Any, Path], str | Invalid]:
    """A reader of one of these names."""
    return lambda raw, _folder: raw if raw in names else Invalid(invalid.format(raw), ", or ".join(names))


def _number(
    kind: type[int | float], least: float, most: float, invalid: str, hint: str = ""
) -> Callable[[Any, Path], float | Invalid]:
    """A reader of numbers between two limits."""

    def read(raw: Any, _folder: Path) -> float | Invalid:
        right = isinstance(raw, int | kind) and not isinstance(raw, bool) and least <= raw <= most
        return kind(raw) if right else Invalid(invalid, hint)

    return read


def _files(raw: Any, folder: Path) -> Mapping[str, Path] | Invalid:
    if not isinstance(raw, dict) or not all(isinstance(each, str) and each for each in raw.values()):
        return Invalid("this must be a table of files", 'as in { x = "x.npy" }')
    return {name: folder / each for name, each in raw.items()}


def _builtin(raw: Any, _folder: Path) -> Builtin | Invalid:
    hint = 'as in builtin = "Softmax", or { op = "Softmax", params = { axis = 3 } }'
    if isinstance(raw, str) and raw:
        return Builtin(raw)
    if not isinstance(raw, dict) or not raw.keys() <= {"op", "package", "params"} or not isinstance(raw.get("op"), str):
        return Invalid("this names no built-in op", hint)
    if not isinstance(raw.get("params", {}), dict):
        return Invalid("`params` must be a table", hint)
    return Builtin(raw["op"], str(raw.get("package", "qti.aisw")), raw.get("params", {}))


# Keys of a case; in an [[op]], they apply to all its cases.
CASE: Mapping[str, Key] = {
    "shape": Key(_shapes, "shapes of the inputs: of all, or { a = \"2x3\", b = \"3\" }"),
    "dtype": Key(_dtypes, "data types: of all tensors that can have it, or { input = \"FLOAT_32\", … }"),
    "values": Key(_values, "what inputs are filled with: " + ", ".join(values.KINDS) + ", x.npy, or numbers"),
    "seed": Key(_seeds, "of the random numbers"),
    "params": Key(_table, "parameters; a list is several cases, \"default\" leaves one out"),
    "quant": Key(_quants, "quantization of fixed-point tensors; default: what covers the numbers"),
    "count": Key(_counts, "the number of each repeated input"),
    "tolerance": Key(_tolerance, "how far a number may be off"),
    "backends": Key(_some_of([*PLACES], "`{}` is not a backend"), "where it runs"),
    "expect": Key(_name_of(["numbers", "refusal"], "`{}` cannot be expected"), "refusal: the op must refuse this"),
}  # fmt: skip
_PLURALS = {  # key -> field of `CaseGroup`, where the names differ
    "shape": "shapes",
    "dtype": "dtypes",
    "seed": "seeds",
    "quant": "quants",
    "count": "counts",
    "tolerance": "tolerances",
}
NAME = {"name": Key(_text, "its name")}
# Keys of the file, and of an [[op]].
SUBJECT: Mapping[str, Key] = {
    "config": Key(_path, "the XML OpDef or JSON UDO config"),
    "kernels": Key(_path, "the folder with finished kernels"),
    "htp_api": Key(
        _name_of(["qhpi", "core"], "`{}` is not an interface of HTP"), "which interface of HTP the kernels are for"
    ),
    "rules": Key(_path, "shape rules in Python, compared with the references"),
    "converter": Key(_path, "the converter op package (folder or library) that is compared with the rules"),
}
_OF_OP: Mapping[str, Key] = {
    "reference": Key(_text, "what the op is compared with: FILE.py:FUNCTION, onnx:OP, torch:FUNCTION"),
    "loops": Key(
        _number(int, 1, 1_000_000, "this must be a number of executions", "as in loops = 100"),
        "executions that are timed",
    ),
    "operations": Key(
        _number(float, 0, 1e15, "this must be a number: operations for each element of the output"),
        "arithmetic operations for each element of the output",
    ),
    "builtin": Key(_builtin, "the vendor's own op, to compare times with"),
}
OP: Mapping[str, Key] = {**NAME, **SUBJECT, **_OF_OP, **CASE}
_NETWORK_BACKENDS = [row.config for row in PLACES.values() if row.program is not None and row.program.networks]
NETWORK: Mapping[str, Key] = {
    **NAME,
    "model": Key(_path, "the ONNX model"),
    "backends": Key(_some_of(_NETWORK_BACKENDS, "networks do not run on `{}`"), "where QNN runs it: cpu, htp"),
    "bits": Key(
        _some_of(["float", "8"], "a network has no `{}` bits", 'as in bits = "float", or ["float", 8]'),
        "float, 8, or both",
    ),
    "inputs": Key(_files, "samples, as .npy; inputs that are not given are random numbers"),
    "tolerance": Key(
        _number(float, 0, float("inf"), "this must be a number: a part of the range of an output", "as in 0.004"),
        "how far a layer may be off, as a part of the range of its output",
    ),
    "until": Key(_text, "a tensor: only what it needs is run"),
}


# --- lines of a TOML file ---------------------------------------------------------------------------------------------


KeyPath = tuple[str | int, ...]

_KEY_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_KEY_NAME}(?:\s*\.\s*{_KEY_NAME})*"
_HEADER = re.compile(rf"\s*(?P<open>\[\[?)\s*(?P<path>{_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*(?P<path>{_DOTTED})\s*=")
# Text where brackets have no meaning: all four kinds of strings, and comments.
_OPAQUE = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL)
_INSIDE = "\0"  # marks a line that begins inside a long string; TOML does not allow this character


def find_lines(text: str) -> Mapping[KeyPath, int]:
    """A map from key paths to lines, from 1: (`op`, 0, `case`, 2, `shape`); arrays of tables are counted from 0."""
    found: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    here: KeyPath = ()
    for number, line in _statements(text):
        header = _HEADER.match(line)
        if header:
            here = _resolve(_parts(header["path"]), counts, new=header["open"] == "[[")
            found.setdefault(here, number)
        elif key := _ASSIGNMENT.match(line):
            path = here
            for part in _parts(key["path"]):
                path = (*path, part)
                found.setdefault(path, number)
    return found


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """The line of the longest known prefix of a path; 0 if there is none."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)


def _resolve(parts: list[str], counts: dict[KeyPath, int], *, new: bool) -> KeyPath:
    """The path of a header, with the index of the table in each array on the way."""
    path: KeyPath = ()
    for part in parts[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path] - 1)
    path = (*path, parts[-1])
    if new:
        counts[path] = counts.get(path, 0) + 1
    return (*path, counts[path] - 1) if path in counts else path


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_KEY_NAME, dotted)]


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each line that begins a statement: lines inside brackets or a long string are skipped."""
    # Strings keep their lengths and their lines.
    plain = _OPAQUE.sub(lambda match: _hollow(match[0]), text)
    depth = 0
    for number, (line, bare) in enumerate(zip(text.split("\n"), plain.split("\n"), strict=True), 1):
        if depth <= 0 and bare.strip() and not bare.startswith(_INSIDE):
            yield number, line
        header = depth <= 0 and bare.lstrip().startswith("[")
        depth += 0 if header else bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}")


def _hollow(opaque: str) -> str:
    return "".join(f"\n{_INSIDE}" if each == "\n" else "_" for each in opaque) if opaque[0] != "#" else ""
