"""The JSON of a context binary with one fault: reported with its line, exit code 2, and nothing left open."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from storing import describe, described, store, tensor_of

from udogen import ConfigError
from udogen.runtime.contexts import context_json
from udogen.runtime.contexts.context_json import ContextJson

Data = dict[str, Any]
Edit = Callable[[Data], object]
X = "tensor `x` of graph `kv_forward`"
GRAPH = "graphInputs of graph `kv_forward`"
BW = {"bitwidth": 4, "axis": 0}


def graph_of(data: Data, index: int = 0) -> Data:
    found: Data = data["info"]["graphs"][index]["info"]
    return found


def quant(data: Data) -> Data:
    found: Data = tensor_of(data)["quantizeParams"]
    return found


def put(**values: Any) -> Edit:
    return lambda data: tensor_of(data).update(values)


def without(*keys: str) -> Edit:
    def edit(data: Data) -> None:
        for key in keys:
            del tensor_of(data)[key]

    return edit


def encoding(name: str, **body: Any) -> Edit:
    def edit(data: Data) -> None:
        tensor_of(data)["quantizeParams"] = {
            "definition": "QNN_DEFINITION_DEFINED",
            "quantizationEncoding": name if name.startswith("X") else f"QNN_QUANTIZATION_ENCODING_{name}",
            **body,
        }

    return edit


FAULTS: dict[str, tuple[Edit, str]] = {
    "a zero": (put(dimensions=[1, 0, 1, 8]), f"{X}: axis 1 of `dimensions` is 0: zero"),
    "a negative": (put(dimensions=[1, 1, -1, 8]), f"{X}: axis 2 of `dimensions` is -1: negative"),
    "too large": (
        put(dimensions=[1, 1, 1, 1 << 32]),
        f"{X}: axis 3 of `dimensions` is 4294967296: more than 32 bits hold",
    ),
    "a fraction": (put(dimensions=[1, 1, 1, 8.5]), f"{X}: axis 3 of `dimensions` is 8.5, not an integer"),
    "a text": (put(dimensions=[1, 1, 1, "8"]), f"{X}: axis 3 of `dimensions` is '8', not an integer"),
    "no list": (put(dimensions=8), f"{X}: `dimensions` is 8, not a list of integers"),
    "no dimensions": (without("dimensions"), f"{X} has no `dimensions`"),
    "4 GiB": (
        put(dimensions=[65536, 65536, 1, 1]),
        f"{X}: 65536 x 65536 x 1 x 1 elements of UFIXED_POINT_8 are 4294967296 bytes; "
        "a client buffer holds at most 4294967295",
    ),
    "rank": (put(rank=3), f"{X}: its rank is 3, but `dimensions` has 4 axes"),
    "other rank now": (
        put(currentDimensions=[1, 8]),
        f"{X}: `dimensions` has 4 axes, `currentDimensions` has 2",
    ),
    "no type": (without("dataType"), f"{X} has no `dataType`"),
    "wrong name": (
        put(dataType="QNN_DATATYPE_UFIXED_POINT_80"),
        f"{X}: 'QNN_DATATYPE_UFIXED_POINT_80' is not a data type",
    ),
    "wrong code": (put(dataType=1033), f"{X}: 1033 is not a data type"),
    "hex read as decimal": (put(dataType=408), f"{X}: 408 is not a data type"),
    "a string tensor": (put(dataType="QNN_DATATYPE_STRING"), f"{X}: 'QNN_DATATYPE_STRING' is not a data type"),
    "bytes": (put(bytesPerElement=3), f"{X}: `bytesPerElement` is 3"),
    "bytes that no type has": (
        put(bytesPerElement=8),
        f"{X}: `bytesPerElement` is 8, but an element of UFIXED_POINT_8 takes 1",
    ),
    "no id": (without("id"), f"{X} has no `id`"),
    "text id": (put(id="4"), f"{X}: its id is '4', not a 32-bit integer"),
    "negative id": (put(id=-4), f"{X}: its id is -4, not a 32-bit integer"),
    "no name": (without("name"), "a tensor has no name (in graph `kv_forward`)"),
    "name of a number": (put(name=5), "`name` is 5, not a text"),
    "wrong side": (
        put(type="QNN_TENSOR_TYPE_APP_READ"),
        f"{X} is an input by its place and APP_READ by its type",
    ),
    "wrong role": (put(type="QNN_TENSOR_TYPE_APP_WRIT"), f"{X}: 'QNN_TENSOR_TYPE_APP_WRIT' is not a type of a tensor"),
    "dynamic": (
        put(isDynamicDimensions=[0, 1]),
        f"{X}: `isDynamicDimensions` is a list of 2, not one value for each axis",
    ),
    "a tensor that is none": (
        lambda data: graph_of(data)["graphInputs"].__setitem__(0, 7),
        "a tensor is an object, not 7",
    ),
    "a name twice": (
        lambda data: graph_of(data).update(graphInputs=graph_of(data)["graphInputs"] * 2, numGraphInputs=2),
        f"two of the {GRAPH} have the name `x`",
    ),
    "an id twice": (
        lambda data: graph_of(data).update(
            numGraphInputs=2,
            graphInputs=[{"info": {**tensor_of(data), "name": name}} for name in ("a", "b")],
        ),
        f"two of the {GRAPH} have the id `1`",
    ),
    "a graph twice": (
        lambda data: graph_of(data, 1).update(graphName="kv_forward"),
        "two of the graphs have the name `kv_forward`",
    ),
    "a graph without a name": (lambda data: graph_of(data).pop("graphName"), "a graph has no name (`graphName`)"),
    "a graph without inputs": (
        lambda data: graph_of(data).pop("graphInputs"),
        "graph `kv_forward` has no `graphInputs`",
    ),
    "inputs that are none": (lambda data: graph_of(data).update(graphInputs={}), "`graphInputs` is not a list"),
    "a count of inputs": (
        lambda data: graph_of(data).update(numGraphInputs=3),
        f"`numGraphInputs` is 3, but {GRAPH} are 1",
    ),
    "a count of graphs": (
        lambda data: data["info"].update(numGraphs=8),
        "`numGraphs` is 8, but graphs are 2",
    ),
    "no graphs": (lambda data: data["info"].update(graphs=[], numGraphs=0), "there is no graph in it"),
    "graphs that are none": (lambda data: data["info"].update(graphs="two"), "`graphs` is not a list"),
    "no description": (
        lambda data: data["info"].pop("graphs"),
        "this is not a description of a context binary: it has no `graphs`",
    ),
    "backend": (lambda data: data["info"].update(backendId="six"), "`backendId` is 'six', not an integer"),
    "build": (lambda data: data["info"].update(buildId=2.47), "`buildId` is 2.47, not a text"),
    "quantization that is none": (put(quantizeParams=3), f"{X}: its quantization is 3, not an object"),
    "encoding": (encoding("X_SCALE"), f"{X}: 'X_SCALE' is not a quantization encoding"),
    "no scale": (
        encoding("SCALE_OFFSET", scaleOffset={"offset": 0}),
        f"{X}: `scale` of its quantization is missing, not a number",
    ),
    "offset of a fraction": (
        encoding("SCALE_OFFSET", scaleOffset={"scale": 1, "offset": 0.5}),
        f"{X}: `offset` of its quantization is 0.5, not an integer",
    ),
    "no body": (encoding("SCALE_OFFSET"), f"{X}: its encoding is SCALE_OFFSET, but there is no `scaleOffset`"),
    "no pairs": (
        encoding("AXIS_SCALE_OFFSET", axisScaleOffset={"axis": 0}),
        f"{X}: its quantization has no list `scaleOffsets`",
    ),
    "a count of pairs": (
        encoding(
            "AXIS_SCALE_OFFSET",
            axisScaleOffset={"axis": 0, "numScaleOffsets": 2, "scaleOffsets": [{"scale": 1, "offset": 0}]},
        ),
        f"{X}: `numScaleOffsets` of its quantization is 2, but there are 1",
    ),
    "scales and offsets": (
        encoding("BW_AXIS_SCALE_OFFSET", bwAxisScaleOffset={**BW, "scales": [1], "offsets": [1, 2]}),
        f"{X}: its quantization has 1 scales and 2 offsets",
    ),
    "scales of texts": (
        encoding("BW_AXIS_SCALE_OFFSET", bwAxisScaleOffset={**BW, "scales": ["1"]}),
        f"{X}: `scales` of its quantization has a value that is not a number",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """The JSON of a binary of the emulator."""
    return described(store(tmp_path_factory.mktemp("whole")))


def refused(path: Path) -> list[str]:
    """Return the errors in a file, as `file:line: message`."""
    with pytest.raises(ConfigError) as caught:
        context_json.read(path)
    assert caught.value.exit_code == 2
    assert caught.value.message.endswith(f" in {path.name}")
    return [f"{finding.location}: {finding.message}" for finding in caught.value.findings]


@pytest.mark.parametrize(("edit", "sentence"), FAULTS.values(), ids=list(FAULTS))
def test_a_fault_is_named_with_its_line(edit: Edit, sentence: str, whole: Data, tmp_path: Path, tidy: None) -> None:
    data = json.loads(json.dumps(whole))
    edit(data)
    path = tmp_path / "forward_0_json.json"
    path.write_text(json.dumps(data, indent=1))
    messages = refused(path)
    found = [message for message in messages if message.endswith(f": {sentence}")]
    assert found, messages
    line = int(re.fullmatch(rf"{path}:(\d+): .*", found[0])[1])  # type: ignore[index]
    assert 0 < line <= len(path.read_text().splitlines())
    assert line > 1 or "description" in sentence


def test_the_line_is_that_of_the_value(whole: Data, tmp_path: Path) -> None:
    data = json.loads(json.dumps(whole))
    tensor_of(data, graph=1, side="graphOutputs")["dataType"] = 4711
    path = tmp_path / "one.json"
    path.write_text(json.dumps(data, indent=1))
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "4711" in text)
    assert refused(path) == [f"{path}:{line}: tensor `y` of graph `prefill_forward`: 4711 is not a data type"]


TEXTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", ":1: the file is empty"),
    "no JSON": (b"hello", ":1: invalid JSON: 'hello'"),
    "a list": (b"[]", ":1: this is not a description of a context binary: it is not an object"),
    "nothing": (b"null", ":1: this is not a description of a context binary: it is not an object"),
    "a binary": (b"\x00\x00\x00\x02\x00\x00\x00\x03" * 20, ":1: unexpected NUL byte"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), TEXTS.values(), ids=list(TEXTS))
def test_what_is_no_json(text: bytes, sentence: str, tmp_path: Path, tidy: None) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(text)
    [message] = refused(path)
    assert message.startswith(f"{path}{sentence}")


# --- accepted, with or without a warning ------------------------------------------------------------------------------


def read(data: Data, folder: Path) -> ContextJson:
    path = folder / "one.json"
    path.write_text(json.dumps(data, indent=1))
    return context_json.read(path)


@pytest.mark.parametrize(
    ("edit", "dtype", "nbytes", "warning"),
    [
        (put(dataType=1032), "UFIXED_POINT_8", 8, ""),
        (put(dataType="0x0416"), "UFIXED_POINT_16", 16, ""),
        (put(dataType="1046"), "UFIXED_POINT_16", 16, ""),
        (put(dataType=562), "FLOAT_32", 32, ""),
        (put(dataType="FLOAT_16"), "FLOAT_16", 16, ""),
        (put(dataType="QNN_DATATYPE_SFIXED_POINT_4"), "SFIXED_POINT_4", 4, ""),
        (put(bytesPerElement=1), "UFIXED_POINT_8", 8, ""),
        (
            put(bytesPerElement=2),
            "UFIXED_POINT_16",
            16,
            f"{X}: `bytesPerElement` is 2, but an element of UFIXED_POINT_8 takes 1; treated as UFIXED_POINT_16",
        ),
        (
            put(dataType="QNN_DATATYPE_UFIXED_POINT_4", bytesPerElement=1),
            "UFIXED_POINT_8",
            8,
            f"{X}: `bytesPerElement` is 1, but an element of UFIXED_POINT_4 takes 4 bits; treated as UFIXED_POINT_8",
        ),
        (
            put(dataType=4711, bytesPerElement=4),
            "UINT_32",
            32,
            f"{X}: data type 4711 is not known; treated as UINT_32",
        ),
        (put(nbytes=8), "UFIXED_POINT_8", 8, ""),
        (
            put(nbytes=9),
            "UFIXED_POINT_8",
            8,
            f"{X}: `nbytes` is 9, but 1 x 1 x 1 x 8 elements of UFIXED_POINT_8 are 8 bytes",
        ),
        (put(currentDimensions=[1, 1, 2, 8]), "UFIXED_POINT_8", 16, ""),
    ],
)
def test_types_and_sizes(edit: Edit, dtype: str, nbytes: int, warning: str, whole: Data, tmp_path: Path) -> None:
    data = json.loads(json.dumps(whole))
    edit(data)
    found = read(data, tmp_path)
    x = found.info.graph("kv_forward").inputs[0]
    assert (x.dtype, x.nbytes) == (dtype, nbytes)
    assert [each.message for each in found.warnings] == ([warning] if warning else [])
    assert all(each.location.line > 1 for each in found.warnings)


def flat(value: Any) -> Any:
    """Return the JSON as newer releases write it, without `info`."""
    if isinstance(value, dict):
        inner = value.get("info")
        joined = {**{k: v for k, v in value.items() if k != "info"}, **inner} if isinstance(inner, dict) else value
        return {key: flat(each) for key, each in joined.items()}
    return [flat(item) for item in value] if isinstance(value, list) else value


def short(data: Data) -> Data:
    """Return the JSON with the names that readers of such files use internally."""

    def tensor(row: Data) -> Data:
        scale = row["quantizeParams"].get("scaleOffset", {})
        return {
            "id": row["id"],
            "name": row["name"],
            "dims": row["dimensions"],
            "dataType": row["dataType"],
            "quantization": {"quantizationEncoding": row["quantizeParams"]["quantizationEncoding"], **scale},
        }

    return {
        "graphs": [
            {
                "name": graph["graphName"],
                "inputs": list(map(tensor, graph["graphInputs"])),
                "outputs": list(map(tensor, graph["graphOutputs"])),
            }
            for graph in flat(data)["graphs"]
        ]
    }


def spaced(value: Any) -> Any:
    """Return the JSON with keys of several words, as one release wrote them."""
    if isinstance(value, dict):
        return {re.sub("([A-Z])", lambda m: f" {m[1].lower()}", key): spaced(each) for key, each in value.items()}
    return [spaced(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("shape", [flat, short, spaced], ids=lambda f: f.__name__)
def test_other_shapes_say_the_same(shape: Callable[[Data], Data], whole: Data, tmp_path: Path) -> None:
    wanted = read(whole, tmp_path).info.graphs
    found = read(shape(whole), tmp_path)
    assert found.info.graphs == wanted
    assert found.warnings == ()


def test_one_graph_alone(whole: Data, tmp_path: Path) -> None:
    graph = flat(whole)["graphs"][0]
    assert read(graph, tmp_path).info.graphs == read(whole, tmp_path).info.graphs[:1]


def test_comments_and_commas_are_warned_of(whole: Data, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text("// by hand\n" + json.dumps(whole, indent=1)[:-1] + ",}")
    assert [warning.message for warning in context_json.read(path).warnings] == [
        "JSON does not allow comments",
        "trailing comma before `}`",
    ]


def test_a_key_twice_is_warned_of(tmp_path: Path) -> None:
    path = store(tmp_path)
    made = describe(path)
    made.write_text(made.read_text().replace('"socVersion"', '"buildId": "x", "socVersion"', 1))
    assert [warning.message for warning in context_json.read(made).warnings] == ["the key `buildId` occurs twice"]


# --- at random --------------------------------------------------------------------------------------------------------

STRANGE = (None, True, 0, -1, 3, 1e308, 1.5, 1 << 70, "", "x", "0x408", [], [1], [[]], {}, {"info": 3}, ["x"], "\ud800")


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(*path, key) for key in keys] + [each for key in keys for each in paths(value[key], (*path, key))]


def test_values_of_any_kind_anywhere(whole: Data, tmp_path: Path, tidy: None) -> None:
    """Any value anywhere: it is read, or refused with lines."""
    random = Random(1)
    path, text, places = tmp_path / "one.json", json.dumps(whole), paths(whole)
    refusals = 0
    for _ in range(400):
        data = json.loads(text)
        *above, last = random.choice(places)
        inside = data
        for key in above:
            inside = inside[key]
        inside[last] = random.choice(STRANGE)
        path.write_text(json.dumps(data, indent=1))
        try:
            context_json.read(path)
        except ConfigError as caught:
            refusals += 1
            assert all(finding.location.line for finding in caught.findings)
    assert 100 < refusals < 400


def test_flipped_bytes_anywhere(whole: Data, tmp_path: Path, tidy: None) -> None:
    random = Random(2)
    path, text = tmp_path / "one.json", json.dumps(whole, indent=1).encode()
    for _ in range(200):
        changed = bytearray(text)
        changed[random.randrange(len(text))] ^= 1 << random.randrange(8)
        path.write_bytes(changed)
        try:
            context_json.read(path)
        except ConfigError as caught:
            assert caught.findings
