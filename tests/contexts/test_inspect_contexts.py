"""`udogen inspect` of a context binary: of the real libraries if available, of the emulators, and broken ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from storing import describe, store, tensor_of

from tests.command_line import udogen
from udogen.runtime.contexts import context_json


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return store(tmp_path, vouched=False)


def answer(*arguments: object, code: int = 0) -> dict[str, Any]:
    done = udogen("inspect", *arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is (code == 0)
    return dict(found)


def printed(*arguments: object, code: int = 0, width: int = 120) -> str:
    done = udogen("inspect", *arguments, env={"COLUMNS": str(width)})
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(("backend", "kind"), [("htp", "real"), ("cpu", "real"), ("htp", "emulator")])
def test_what_is_in_it(backend: str, kind: str, tmp_path: Path) -> None:
    path = store(tmp_path, backend=backend, kind=kind, vouched=False)
    found = answer(path)["context"]
    assert (found["path"], found["kind"], found["emulator"]) == (str(path), "context", kind == "emulator")
    graphs = {graph["info"]["graphName"]: graph["info"] for graph in found["info"]["graphs"]}
    assert set(graphs) == {"prefill_forward", "kv_forward"}
    [x] = [tensor["info"] for tensor in graphs["prefill_forward"]["graphInputs"]]
    assert (x["name"], x["dimensions"], x["type"]) == ("x", [1, 4, 4, 8], "QNN_TENSOR_TYPE_APP_WRITE")
    if backend == "htp":
        assert x["quantizeParams"]["scaleOffset"] == {"scale": 0.125, "offset": -128}
    if (backend, kind) == ("htp", "real"):
        assert found["info"]["contextMetadata"]["info"]["dspArch"] == 68
        assert found["info"]["buildId"].startswith("v2.")
    assert (found["manifest"]["state"], found["json"], found["differences"], found["faults"]) == (
        "absent",
        None,
        [],
        [],
    )


def test_what_a_person_reads(path: Path) -> None:
    text = printed(path)
    assert f"{path}: context binary for HTP of the emulator, 2 graphs\n" in text
    assert "manifest    there is no forward_0.bin.udogen.json beside forward_0.bin" in text
    assert "  graph prefill_forward\n" in text
    assert "    inputs: 1, 128 bytes\n" in text
    assert "1  x  UFIXED_POINT_8  [1, 4, 4, 8]  128 B  SCALE_OFFSET (0.125, -128)\n" in text
    narrow = printed(path, width=60).splitlines()
    assert max(len(line) for line in narrow if line.startswith("  manifest")) <= 60


def test_a_manifest_is_written_and_reported(path: Path) -> None:
    assert "matches forward_0.bin.udogen.json (xxh3_128 " in printed(path, "--write-manifest").replace(
        "\n" + " " * 14, " "
    )
    assert answer(path)["context"]["manifest"]["recorded"]["build_id"] == "udogen's emulator"
    os.truncate(path, 1000)
    error = answer(path, code=5)["error"]
    assert error["message"].startswith(f"{path} is cut off") and error["kind"] == "no-context-binary"


def test_a_binary_that_is_not_the_one_that_was_written(tmp_path: Path) -> None:
    """Its contents are shown anyway: its current state may explain what happened."""
    path = store(tmp_path)
    store(tmp_path, backend="cpu", vouched=False)
    text = printed(path, code=5)
    assert "context binary for CPU of the emulator, 2 graphs" in text
    assert "\n  x " in text
    assert "is not the file that forward_0.bin.udogen.json describes" in " ".join(text.split())
    assert answer(path, code=5)["context"]["faults"][0]["kind"] == "run-failed"
    assert answer(path, "--write-manifest", code=0)["context"]["faults"] == []


def test_the_json_beside_it(path: Path) -> None:
    made = describe(path)
    assert f"JSON        {made.name}: agrees\n" in printed(path)
    describe(path, lambda data: tensor_of(data).update(id=50))
    assert "JSON        forward_0_json.json: 1 difference: the binary counts\n" in printed(path)
    found = answer(path)["context"]
    assert found["differences"][0] == ("tensor `x` of graph `kv_forward`: id is 50 in the JSON, 1 in the binary")
    describe(path, lambda data: tensor_of(data).update(dimensions=[1, 0, 1, 8]))
    text = " ".join(printed(path, code=2).split())  # lines break at the terminal width
    assert "1 error in forward_0_json.json" in text and "axis 1 of `dimensions` is 0: zero" in text
    assert "forward_0_json.json: cannot be used" in text and "graph prefill_forward" in text
    describe(path, lambda data: tensor_of(data).update(dimensions=[1, 1, 1, 7]))
    assert "buffers made by it would be too small" in printed(path, code=5)


def test_the_json_is_written(path: Path, tmp_path: Path) -> None:
    made = tmp_path / "out.json"
    answer(path, "--json-out", made)
    assert [graph.name for graph in context_json.read(made).info.graphs] == ["kv_forward", "prefill_forward"]
    text = printed(path, "--json-out", tmp_path / "none" / "x.json", code=5)
    assert "x.json cannot be written: No such file or directory" in text


def test_broken_ones(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"\x7fELF" + bytes(60))
    assert f"{path} is a library or program (ELF), not a context binary" in printed(path, code=5)
    assert "does not exist" in printed(tmp_path / "none.bin", code=2)


def test_options_of_context_binaries_alone(tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_bytes(b"\x7fELF")
    assert "--write-manifest is for context binaries" in printed(tmp_path / "lib.so", "--write-manifest", code=2)
    assert "--json-out is for context binaries" in printed(tmp_path / "lib.so", "--json-out", tmp_path / "x", code=2)


def test_the_system_library_is_that_of_the_runtime_given(path: Path, tmp_path: Path) -> None:
    assert "there is no QNN system library at" in printed(path, "--against", tmp_path, code=3)
