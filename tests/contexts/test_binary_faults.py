"""Faulty context binaries: an error message, exit code 5, no crash, nothing left open.

Binaries are from the real HTP and CPU libraries where marked `real`, otherwise from the emulator.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storing import RUNTIMES, binary, describe, store, tensor_of, vouch

from udogen import RunFailed, UdogenError, process
from udogen.runtime import StoredContext, find_runtime
from udogen.runtime.contexts import binaries

Break = Callable[[Path], object]


def write(data: bytes) -> Break:
    return lambda path: path.write_bytes(data)


def cut(size: int) -> Break:
    return lambda path: os.truncate(path, size)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def claims(offset: int, value: int) -> Break:
    def edit(path: Path) -> None:
        data = bytearray(path.read_bytes())
        struct.pack_into("<Q", data, offset, value)
        path.write_bytes(data)

    return edit


FAULTS: dict[str, tuple[Break, str]] = {
    "missing": (Path.unlink, "the context binary {path} cannot be read: No such file or directory"),
    "folder": (as_folder, "the context binary {path} is a folder"),
    "pipe": (as_pipe, "the context binary {path} cannot be read: not a regular file"),
    "empty": (cut(0), "{path} is empty"),
    "head only": (cut(20), "{path} is cut off: it has only 20 bytes"),
    "cut in the description": (cut(200), "{path} is cut off: it claims 81920 bytes and has 200"),
    "last byte": (cut(81919), "{path} is cut off: it claims 81920 bytes and has 81919"),
    "zeros": (write(bytes(5000)), "{path} begins with zeros: it is not a context binary"),
    "text": (write(b"hello " * 100), "{path} is not a context binary that libQnnSystem.so can read"),
    "JSON": (write(b'{"info": {}}'), "{path} is text that looks like JSON, not a context binary"),
    "library": (write(b"\x7fELF" + bytes(100)), "{path} is a library or program (ELF), not a context binary"),
    "LFS": (
        write(b"version https://git-lfs.github.com/spec/v1\n"),
        "{path} is a pointer of Git LFS, whose file was not fetched, not a context binary",
    ),
    "huge description": (claims(16, 1 << 62), "{path} is cut off: it claims 4611686018427387944 bytes and has 81920"),
    "small description": (claims(16, 4), "{path} is not a context binary that libQnnSystem.so can read"),
    "longer": (
        lambda path: path.write_bytes(path.read_bytes() + bytes(1000)),
        "{path} is not a context binary that libQnnSystem.so can read",
    ),
}


def refused(path: Path, **more: Any) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        StoredContext(path, warn=False, **more).close()
    assert caught.value.exit_code == 5
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(("damage", "sentence"), FAULTS.values(), ids=list(FAULTS))
def test_a_real_binary_that_is_broken(damage: Break, sentence: str, tmp_path: Path, tidy: None) -> None:
    path = store(tmp_path, backend="htp", kind="real", vouched=False)
    assert path.stat().st_size == 81920
    damage(path)
    assert refused(path).message.startswith(sentence.format(path=path))


EMULATED: dict[str, tuple[Break, str]] = {
    "flipped": (claims(300, 12345), "{path} is not a context binary that libQnnSystem.so can read"),
    "another backend": (
        lambda path: path.write_bytes(path.read_bytes()[:12] + b"\x09" + path.read_bytes()[13:]),
        "the emulator has no backend of number 9",
    ),
}


@pytest.mark.parametrize(("damage", "sentence"), EMULATED.values(), ids=list(EMULATED))
def test_a_binary_of_the_emulator_that_is_broken(damage: Break, sentence: str, tmp_path: Path, tidy: None) -> None:
    path = store(tmp_path, vouched=False)
    damage(path)
    assert refused(path).message.startswith(sentence.format(path=path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path, tidy: None) -> None:
    path = store(tmp_path)
    path.chmod(0)
    assert refused(path).message == f"the context binary {path} cannot be read: Permission denied"


def flips(data: bytes) -> list[int]:
    """Return some positions in the description of a binary of the real library, spread over it."""
    length = struct.unpack_from("<Q", data, 16)[0]
    return [*range(40, 40 + length, 97)]


@pytest.mark.parametrize("backend", ["htp", "cpu"])
def test_flipped_bits_of_a_real_binary_end_nobody(backend: str, tmp_path: Path, tidy: None) -> None:
    """The library crashes or hangs for some of them, in the child.  Manifests detect what it does not notice."""
    data = binary(backend, "real")
    outcomes = set()
    for number, place in enumerate(flips(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << number % 8
        path = tmp_path / "flipped.bin"
        path.write_bytes(changed)
        try:
            with StoredContext(path, warn=False) as stored:
                outcomes.add("not noticed" if len(stored.info.graphs) == 2 else "other graphs")
        except UdogenError as fault:
            assert fault.exit_code == 5 and fault.hint
            outcomes.add("an error")
        vouched = tmp_path / "vouched.bin"
        vouched.write_bytes(data)
        if number % 5 == 0:
            vouch(vouched)
            vouched.write_bytes(changed)
            assert "is not the file that vouched.bin.udogen.json describes" in refused(vouched).message
    assert {"an error", "not noticed"} <= outcomes


CRASHES = {"htp": (60, 4), "cpu": (72, 0)}


@pytest.mark.parametrize("backend", list(CRASHES))
def test_a_flip_that_crashes_the_real_library(backend: str, tmp_path: Path, tidy: None) -> None:
    """Found by flipping every bit: libQnnSystem 2.47 reads out of bounds."""
    data = bytearray(binary(backend, "real"))
    path = tmp_path / "crash.bin"
    library = find_runtime(backend, runtime="real").system
    messages = set()
    place = CRASHES[backend][0]
    for offset in (place, place + 4, place + 5, place + 41, place + 118):
        for bit in (0, 4, 7):
            changed = bytearray(data)
            changed[offset] ^= 1 << bit
            path.write_bytes(changed)
            try:
                binaries.file_info(library, path)
            except RunFailed as fault:
                messages.add(fault.message.removeprefix(str(path)))
    assert (
        " is damaged: the library libQnnSystem.so crashed with SIGSEGV (segmentation fault) in phase "
        "`read its description`"
    ) in messages


_SLEEPS = "import time\ntime.sleep(60)"


def test_a_library_that_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tidy: None) -> None:
    path = store(tmp_path)
    sleeps = process.python_program("udogen.errors", supervised=True).replace(
        "from udogen.errors import main\nmain()", _SLEEPS
    )
    assert _SLEEPS in sleeps
    monkeypatch.setattr(process, "python_program", lambda *_, **__: sleeps)
    with pytest.raises(RunFailed) as caught:
        binaries.file_info(Path("/x/libQnnSystem.so"), path, timeout=0.3)
    assert caught.value.message == (f"{path} is damaged: libQnnSystem.so did not finish reading it within 0.3 seconds")


def test_a_child_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tidy: None) -> None:
    path = store(tmp_path)
    monkeypatch.setattr(process, "python_program", lambda *_, **__: "raise SystemExit('no')")
    with pytest.raises(RunFailed) as caught:
        binaries.file_info(Path("/x/libQnnSystem.so"), path)
    assert caught.value.message == "the worker in which ops run ended with exit code 1 before it was ready: no"


def test_no_system_library(tmp_path: Path, tidy: None) -> None:
    path = store(tmp_path)
    (tmp_path / "libQnnSystem.so").write_bytes(b"\x7fELF nonsense")
    error = refused(path, system_library=tmp_path)
    assert error.message.startswith(f"the runtime library {tmp_path}/libQnnSystem.so cannot be loaded:")


# --- manifests --------------------------------------------------------------------------------------------------------


def edited(**values: Any) -> Break:
    def edit(beside: Path) -> None:
        beside.write_text(json.dumps({**json.loads(beside.read_text()), **values}))

    return edit


MANIFESTS: dict[str, tuple[Break, str]] = {
    "empty": (write(b""), "the manifest {beside} cannot be used: it is not JSON"),
    "cut off": (cut(30), "the manifest {beside} cannot be used: it is not JSON"),
    "bytes": (write(b"\xff\xfe\x00"), "the manifest {beside} cannot be used: it is not JSON"),
    "a list": (write(b"[]"), "the manifest {beside} cannot be used: it is not a manifest of version 1"),
    "newer": (edited(udogen_manifest=2), "the manifest {beside} cannot be used: it is not a manifest of version 1"),
    "algorithm": (
        edited(algorithm="md5"),
        "the manifest {beside} cannot be used: its checksum is of the kind `md5`; known are xxh3_128, sha256",
    ),
    "types": (edited(size="81920"), "the manifest {beside} cannot be used: its values are not of their types"),
    "no digest": (edited(digest=None), "the manifest {beside} cannot be used: its values are not of their types"),
    "folder": (as_folder, "the manifest {beside} cannot be used: Is a directory"),
    "another digest": (
        edited(digest="0" * 32),
        "{path} is not the file that {beside.name} describes: its xxh3_128 is ",
    ),
    "another size": (
        edited(size=5),
        "{path} is not the file that {beside.name} describes: it has {size} bytes, not 5",
    ),
}


@pytest.mark.parametrize(("damage", "sentence"), MANIFESTS.values(), ids=list(MANIFESTS))
def test_a_manifest_that_is_wrong(damage: Break, sentence: str, tmp_path: Path, tidy: None) -> None:
    path = store(tmp_path)
    size, beside = path.stat().st_size, vouch(path)
    damage(beside)
    error = refused(path)
    assert error.message.startswith(sentence.format(path=path, beside=beside, size=size))
    assert "--write-manifest" in error.hint
    with StoredContext(path, check_manifest=False) as stored:
        assert stored.verdict.message == "its manifest was not checked"


# --- a JSON that does not fit -----------------------------------------------------------------------------------------


def test_a_json_by_which_buffers_are_too_small(tmp_path: Path, tidy: None) -> None:
    path = store(tmp_path)

    def edit(data: dict[str, Any]) -> None:
        tensor_of(data).update(dimensions=[1, 1, 1, 4])
        tensor_of(data, graph=1, side="graphOutputs").update(dimensions=[1, 4, 4, 7])

    describe(path, edit)
    error = refused(path)
    assert error.message == "forward_0_json.json does not describe forward_0.bin: buffers made by it would be too small"
    assert error.details == (
        "tensor `x` of graph `kv_forward` takes 8 bytes (UFIXED_POINT_8 [1, 1, 1, 8]), "
        "by the JSON 4 (UFIXED_POINT_8 [1, 1, 1, 4])",
        "tensor `y` of graph `prefill_forward` takes 128 bytes (UFIXED_POINT_8 [1, 4, 4, 8]), "
        "by the JSON 112 (UFIXED_POINT_8 [1, 4, 4, 7])",
    )
    with StoredContext(path, use_json=False) as stored:
        assert stored.differences == ()


def test_the_json_of_another_binary(tmp_path: Path, tidy: None) -> None:
    path = store(tmp_path)

    def edit(data: dict[str, Any]) -> None:
        for number, graph in enumerate(data["info"]["graphs"]):
            graph["info"]["graphName"] = f"other_{number}"

    describe(path, edit)
    error = refused(path)
    assert error.message == "forward_0_json.json does not describe forward_0.bin: it has none of its graphs"
    assert error.hint.startswith("is it the JSON of another shard?")


DISAGREEMENTS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "id": (lambda t: t.update(id=9), "tensor `x` of graph `kv_forward`: id is 9 in the JSON, 1 in the binary"),
    "dataType": (
        lambda t: t.update(dataType="QNN_DATATYPE_INT_8"),
        "tensor `x` of graph `kv_forward`: dataType is INT_8 in the JSON, UFIXED_POINT_8 in the binary",
    ),
    "dimensions": (
        lambda t: t.update(dimensions=[1, 1, 8, 1]),
        "tensor `x` of graph `kv_forward`: dimensions is [1, 1, 8, 1] in the JSON, [1, 1, 1, 8] in the binary",
    ),
    "larger": (
        lambda t: t.update(dimensions=[2, 1, 1, 8]),
        "tensor `x` of graph `kv_forward`: dimensions is [2, 1, 1, 8] in the JSON, [1, 1, 1, 8] in the binary",
    ),
    "type": (
        lambda t: t.update(type="QNN_TENSOR_TYPE_APP_READWRITE"),
        "tensor `x` of graph `kv_forward`: type is APP_READWRITE in the JSON, APP_WRITE in the binary",
    ),
    "dataFormat": (
        lambda t: t.update(dataFormat="QNN_TENSOR_DATA_FORMAT_SPARSE"),
        "tensor `x` of graph `kv_forward`: dataFormat is 1 in the JSON, 0 in the binary",
    ),
    "dynamic": (
        lambda t: t.update(isDynamicDimensions=[1, 0, 0, 0]),
        "tensor `x` of graph `kv_forward`: the list of axes that may change is [0] in the JSON, [] in the binary",
    ),
    "no quantization": (
        lambda t: t.pop("quantizeParams"),
        "tensor `x` of graph `kv_forward`: quantization is UNDEFINED in the JSON, "
        "SCALE_OFFSET (0.125, -128) in the binary",
    ),
    "offset": (
        lambda t: t["quantizeParams"]["scaleOffset"].update(offset=0),
        "tensor `x` of graph `kv_forward`: quantization is SCALE_OFFSET (0.125, 0) in the JSON, "
        "SCALE_OFFSET (0.125, -128) in the binary",
    ),
    "a scale that lost digits in the text": (lambda t: t["quantizeParams"]["scaleOffset"].update(scale=0.1250001), ""),
    "name": (
        lambda t: t.update(name="z"),
        "graph `kv_forward`: the list of inputs is z in the JSON, x in the binary",
    ),
}


@pytest.mark.parametrize(("edit", "sentence"), DISAGREEMENTS.values(), ids=list(DISAGREEMENTS))
def test_a_json_that_differs(
    edit: Callable[[dict[str, Any]], object], sentence: str, tmp_path: Path, tidy: None
) -> None:
    path = store(tmp_path)
    describe(path, lambda data: edit(tensor_of(data)))
    with StoredContext(path) as stored:
        assert stored.differences == ((sentence,) if sentence else ())
        [x] = stored.info.graph("kv_forward").inputs
        assert (x.name, x.id, x.shape, x.dtype) == ("x", 1, (1, 1, 1, 8), "UFIXED_POINT_8")


def test_another_build_and_a_graph_more_in_the_json(tmp_path: Path) -> None:
    path = store(tmp_path)

    def edit(data: dict[str, Any]) -> None:
        graph = json.loads(json.dumps(data["info"]["graphs"][0]))
        graph["info"]["graphName"] = "third"
        data["info"]["graphs"].append(graph)
        data["info"].update(numGraphs=3, buildId="another")

    describe(path, edit)
    with StoredContext(path) as stored:
        assert stored.differences == (
            "the context: buildId is another in the JSON, udogen's emulator in the binary",
            "the context: the list of graphs is kv_forward, prefill_forward, third in the JSON, "
            "kv_forward, prefill_forward in the binary",
        )


def test_every_runtime_is_tried(tmp_path: Path) -> None:
    for backend, kind in RUNTIMES:
        StoredContext(store(tmp_path, backend=backend, kind=kind)).close()
