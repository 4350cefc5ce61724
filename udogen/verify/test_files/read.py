"""Reads test files (op_tests.toml, Python files with `op_test`); each error has its line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from udogen.backends import PLACES
from udogen.documents.document import Document, Node, parse
from udogen.documents.typed import INVALID, Hint, between, instance, keys_of, one_of, read_keys, require, value_of
from udogen.errors import UsageError, file_hint, read_plain, reading
from udogen.findings import Findings, Location
from udogen.opdef import datatypes
from udogen.python_files import load_module
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
        hint = file_hint(path, "give a folder with a test file, or a test file")
        raise UsageError(f"there is no folder {path}", hint=hint)
    folder = path if path.is_dir() else path.parent
    files = test_files(folder) if path.is_dir() else [path]
    if not files and (path / ".udogen").is_dir():  # a package: its tests are next to it
        files = test_files(path.resolve().parent)
    if not files:
        raise UsageError(
            f"{path} has no test file ({FILE_NAME}, or tests/test_*.py that uses udogen.verify.op_test)",
            hint="`udogen new NAME --from-config CONFIG` makes a project with one",
        )
    findings = Findings()
    ops: list[OpTests] = []
    networks: list[NetworkTests] = []
    for file in files:
        if file.suffix == ".py":
            ops += read_python(file, findings)
        else:
            read_tests = read_file(file, findings)
            ops, networks = [*ops, *read_tests.ops], [*networks, *read_tests.networks]
    findings.stop_if_any(what="the test files" if len(files) > 1 else "the test file")
    return TestFiles(folder=folder, ops=tuple(ops), files=tuple(files), networks=tuple(networks))


def _uses_op_test(path: Path) -> bool:
    try:
        return b"import op_test" in read_plain(path)
    except OSError:
        return False


# --- Python files -----------------------------------------------------------------------------------------------------


def read_python(path: Path, findings: Findings) -> list[OpTests]:
    """The ops of one file; errors are added to `findings`, with the line of the function."""
    tests: list[OpTests] = []
    for name, function in vars(load_module(path)).items():
        for keys in getattr(function, MARK, []):
            location = Location(str(path), function.__code__.co_firstlineno)
            raw = {"op": [{"reference": f"{path.name}:{name}", **keys}]}
            tests += read(Document(raw, {(): location.line}, str(path), findings).top).ops
    if not tests and not findings.errors:
        findings.error(Location(str(path)), "the file marks no function with @op_test", "see udogen.verify.op_test")
    return tests


# --- reading tables ---------------------------------------------------------------------------------------------------


LARGEST = 4 << 20


class FileTests(NamedTuple):
    """The declarations of one file."""

    ops: list[OpTests]
    networks: list[NetworkTests]


_NOTHING = FileTests([], [])


def read_file(path: Path, findings: Findings) -> FileTests:
    """The ops and networks of one file; errors are added to `findings`."""
    with reading(path, hint="give a test file"):
        data = read_plain(path)
    if len(data) > LARGEST:
        findings.error(
            Location(str(path)), f"the file has {len(data) >> 20} MB", "describe large tensors with `values`"
        )
        return _NOTHING
    document = parse(data, str(path), findings)
    return _NOTHING if document is None else read(document.top)


def read(top: Node) -> FileTests:
    """The ops and networks in the tables of a file."""
    subject = read_keys(top, SUBJECT, others=("op", "network"))
    tables = {name: _tables(top, name) for name in ("op", "network")}
    if None in tables.values():
        return _NOTHING
    if not any(tables.values()):
        top.error("the file names no op", 'as in:  [[op]]  name = "Softmax"  reference = "reference.py:softmax"')
    ops = [_op(table, subject) for table in tables["op"] or ()]
    networks = [_network(table) for table in tables["network"] or ()]
    return FileTests([tests for tests in ops if tests], [tests for tests in networks if tests])


def _tables(node: Node, name: str) -> list[Node] | None:
    """The tables of an array of tables; None, with a problem, if it is something else."""
    if name not in node.value:
        return []
    array = node.at(name)
    if not isinstance(array.value, list) or not all(isinstance(row, dict) for row in array.value):
        array.error(f"`{name}` must be a list of tables", "write its header with two brackets, as in [[op]]")
        return None
    return list(array.items())


def _op(node: Node, of_file: Mapping[str, Any]) -> OpTests | None:
    """One `[[op]]`; its case keys apply to all its cases."""
    keys = {**of_file, **read_keys(node, OP, others=("case",))}
    require(node, "name", 'as in name = "Softmax"')
    cases = [Node({}, (*node.path, "case"), node.document)] if "case" not in node.value else _tables(node, "case")
    if cases is None:
        return None
    common = {name: value for name, value in keys.items() if name in CASE}
    places = {name: node.at(name).place for name in common}
    groups = [_group(case, common, places) for case in cases]
    subject = Subject(**{name: value for name, value in keys.items() if name in SUBJECT})
    own = {name: value for name, value in keys.items() if name in _OF_OP}
    folder, location = node.document.folder, node.place
    return OpTests(keys.get("name", ""), tuple(groups), subject, folder, location=location, **own)


def _network(node: Node) -> NetworkTests | None:
    """One `[[network]]`."""
    keys = read_keys(node, NETWORK)
    require(node, "model", 'as in model = "net.onnx"')
    if "model" not in keys:
        return None
    return NetworkTests(name=keys.pop("name", keys["model"].stem), location=node.place, **keys)


def _group(node: Node, common: Mapping[str, Any], places: Mapping[str, Location]) -> CaseGroup:
    own = read_keys(node, {**NAME, **CASE})
    keys = {**common, **own}
    for key in ("params", "quant", "count", "tolerance"):  # merged, not replaced
        if key in common and key in own:
            keys[key] = {**common[key], **own[key]}
    places = {"": node.place, **places, **{name: node.at(name).place for name in own}}
    return CaseGroup(places=places, **{_PLURALS.get(name, name): value for name, value in keys.items()})


# --- keys -------------------------------------------------------------------------------------------------------------


_SHAPE = re.compile(r"\d{1,18}(x\d{1,18})*\Z")
_MOST_AXES = 8
_MOST_ELEMENTS = 1 << 28


def _each(node: Node) -> list[Node]:
    """One value, or each of a list of several."""
    return list(node.items()) if isinstance(node.value, list) else [node]


def _some(hint: Hint) -> Hint:
    """A hint: one value, or a list of several."""

    def read(node: Node) -> Any:
        values_read = tuple(value_of(element, hint) for element in _each(node))
        if not values_read:
            raise UsageError("the list is empty", hint="leave the key out, or give at least one")
        return INVALID if INVALID in values_read else values_read

    return read


def _by_tensor(hint: Hint) -> Hint:
    """A hint: a value for all tensors, or a table by tensor."""

    def read(node: Node) -> Any:
        if isinstance(node.value, dict):
            return value_of(node, Mapping[str, Annotated[Any, hint]])
        value = value_of(node, Annotated[Any, hint])
        return value if value is INVALID else {EVERY: value}

    return read


def _text(node: Node) -> str:
    if not isinstance(node.value, str) or not node.value.strip():
        raise UsageError("this must be a string that is not empty")
    return node.value


def _shape(node: Node) -> Shape:
    extents = node.value
    if isinstance(extents, str) and _SHAPE.match(extents):
        extents = [int(part) for part in extents.split("x")]
    elif extents == "scalar":
        extents = []
    if not isinstance(extents, list) or not all(type(extent) is int and extent >= 0 for extent in extents):
        raise UsageError(
            f"`{node.value}` is not a shape",
            hint='as in "1x8x8x16", or [1, 8, 8, 16]; several: ["3x5", "7"], [{ a = "2x3", b = "3" }, …]',
        )
    if len(extents) > _MOST_AXES or math.prod(extents) > _MOST_ELEMENTS:
        raise UsageError(
            f"`{node.value}` is too large for a test", hint=f"at most {_MOST_AXES} axes and {_MOST_ELEMENTS} elements"
        )
    return tuple(extents)


def _shapes(node: Node) -> Any:
    is_one = isinstance(node.value, list) and all(isinstance(extent, int) for extent in node.value)
    if is_one and node.value:
        shape = value_of(node, _shape)
        return shape if shape is INVALID else ({EVERY: shape},)
    return value_of(node, _some(_by_tensor(_shape)))


def _dtype(node: Node) -> str:
    row = datatypes.parse(node.value) if isinstance(node.value, str) else None
    if row is None or row.kind == "special":
        raise UsageError(f"`{node.value}` is not a data type", hint="as in FLOAT_32, FLOAT_16, UFIXED_POINT_8, INT_32")
    return row.name


def _fill(node: Node) -> values.Fill | GivenNumbers:
    if isinstance(node.value, list):
        return GivenNumbers(_param(node))
    if isinstance(node.value, str) and node.value.endswith(".npy"):
        return GivenNumbers(file=node.document.folder / node.value)
    fill = values.parse(node.value) if isinstance(node.value, str) else f"`{node.value}` is not a way to fill a tensor"
    if isinstance(fill, str):
        raise UsageError(fill, hint="as in normal, uniform(-3, 3), edge, x.npy, or a list of numbers")
    return fill


def _quant(node: Node) -> Any:
    quantization = instance(node, Quantization)
    if quantization is None or not isinstance(node.value, dict) or not all(item.is_number for item in node.items()):
        return INVALID  # reported
    given = node.value
    is_right = all(abs(bound) < 1e38 for bound in given.values())
    if given.keys() == {"low", "high"}:
        is_right = is_right and given["low"] < given["high"]
    else:
        is_right = is_right and {"scale"} <= given.keys() <= {"scale", "offset"} and given["scale"] > 0
    if not is_right:
        raise UsageError(
            "the quantization has neither low and high nor a positive scale",
            hint="as in { low = -6, high = 6 }: real numbers to cover; or { scale = 0.05, offset = -128 }",
        )
    return quantization


def _param(node: Node) -> Any:
    """A number or string, or a list of them; a date is none."""
    if isinstance(node.value, list):
        for item in node.items():
            _param(item)
    elif not isinstance(node.value, str | int | float):
        raise UsageError(f"{node.shown} is neither a number nor a string", hint="give a number, or a list of numbers")
    return node.value


def _bits(node: Node) -> str:
    if str(node.value) not in ("float", "8"):
        raise UsageError(f"a network has no `{node.value}` bits", hint='as in bits = "float", or ["float", 8]')
    return str(node.value)


def _tolerance(node: Node) -> Mapping[str, tolerances.Tolerance]:
    tolerance = tolerances.parse(node.value)
    if isinstance(tolerance, str):
        raise UsageError(tolerance, hint="by data type: { FLOAT_16 = 2e-3, fixed = 1 }")
    return tolerance


def _builtin(node: Node) -> Any:
    return Builtin(node.value) if isinstance(node.value, str) and node.value else instance(node, Builtin) or INVALID


# Keys of a case; in an [[op]], they apply to all its cases.
CASE: Mapping[str, Hint] = {
    "shape": _shapes,  # of the inputs: of all, or { a = "2x3", b = "3" }
    "dtype": _some(_by_tensor(_dtype)),
    "values": _some(_by_tensor(_fill)),
    "seed": _some(between(int, 0, hint="as in seed = 1, or seed = [1, 2, 3]")),
    "params": Mapping[str, Annotated[Any, _param]],  # a list is several cases, "default" leaves one out
    "quant": Mapping[str, Annotated[Quantization, _quant]],  # default: what covers the numbers
    "count": Mapping[str, Annotated[int, between(int, 1, 999)]],  # of each repeated input
    "tolerance": _tolerance,
    "backends": _some(one_of(PLACES)),
    "expect": Literal["numbers", "refusal"],
}
_PLURALS = {  # key -> field of `CaseGroup`, where the names differ
    "shape": "shapes",
    "dtype": "dtypes",
    "seed": "seeds",
    "quant": "quants",
    "count": "counts",
    "tolerance": "tolerances",
}
NAME: Mapping[str, Hint] = {"name": _text}
# Keys of the file, and of an [[op]].
SUBJECT: Mapping[str, Hint] = {
    **keys_of(Subject),
    "htp_api": Literal["qhpi", "core"],
}
_OF_OP: Mapping[str, Hint] = {
    "reference": _text,
    "loops": between(int, 1, 1_000_000, "executions that are timed, as in loops = 100"),
    "operations": between(float, 0, 1e15, "arithmetic operations for each element of the output"),
    "builtin": _builtin,
}
OP: Mapping[str, Hint] = {**NAME, **SUBJECT, **_OF_OP, **CASE}
_NETWORK_BACKENDS = [row.config for row in PLACES.values() if row.program is not None and row.program.networks]
NETWORK: Mapping[str, Hint] = {
    **NAME,
    "model": Path,
    "backends": _some(one_of(_NETWORK_BACKENDS)),
    "bits": _some(_bits),
    "inputs": Mapping[str, Path],
    "tolerance": between(float, 0, hint="a part of the range of an output, as in 0.004"),
    "until": _text,  # a tensor: only what it needs is run
}
