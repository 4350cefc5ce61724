"""The description of stored contexts: those of the real HTP and CPU libraries, of ONNX Runtime, of the emulator."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from storing import GRAPHS, QUANT, RUNTIMES, binary, describe, store, vouch

from tests.command_line import udogen
from tests.making import LONG, ROOT, htp_package
from tests.qnn.test_quantization import ENCODINGS
from udogen import GraphBuilder, RunFailed, ToolMissing
from udogen.qnn import heads, quantization, system
from udogen.qnn.quantization import OtherEncoding, Quantization
from udogen.qnn.tensors import APP_WRITE, described_tensor
from udogen.runtime import Runtime, StoredContext, find_runtime
from udogen.runtime.contexts import binaries, context_json, manifest
from udogen.runtime.contexts.binaries import BINARY, JSON
from udogen.runtime.contexts.context_json import same_quantization
from udogen.runtime.quantization import AxisScaleOffset, BwScaleOffset, ScaleOffset

ANY = pytest.mark.parametrize(("backend", "kind"), RUNTIMES, ids="-".join)
SMALL = ("htp", "emulator")


@ANY
def test_two_graphs_in_one_context(backend: str, kind: str, tmp_path: Path, tidy: None) -> None:
    path = store(tmp_path, backend=backend, kind=kind)
    with StoredContext(path) as stored:
        info = stored.info
        assert bytes(stored.data) == path.read_bytes()
    assert (stored.source, stored.verdict.state, stored.differences) == (BINARY, manifest.MATCHES, ())
    assert info.backend_id == {"cpu": 3, "htp": 6}[backend]
    assert {graph.name for graph in info.graphs} == set(GRAPHS)
    for name, shape in GRAPHS.items():
        graph = info.graph(name)
        (x,), (y,) = graph.inputs, graph.outputs
        assert (x.name, x.shape, x.role, x.dynamic) == ("x", shape, "APP_WRITE", ())
        assert (y.name, y.shape, y.role, y.data_format) == ("y", shape, "APP_READ", 0)
        assert x.quant == y.quant == (QUANT if backend == "htp" else None)
        assert x.scale_offset == ((0.125, -128) if backend == "htp" else None)
        assert x.nbytes == int(np.prod(shape)) * (1 if backend == "htp" else 4)
        assert x.id != y.id
    with pytest.raises(RunFailed, match="the context has no graph `other`"):
        info.graph("other")


def test_what_the_real_htp_library_adds(tmp_path: Path) -> None:
    info = system.file_info(find_runtime("htp").system, store(tmp_path, backend="htp", kind="real"))
    assert info.build_id.startswith("v2.47") and info.version == 3
    assert info.arch == "v68" and len(info.devices) == 1
    assert all(graph.htp is not None and graph.htp.vtcm >= 1 << 20 for graph in info.graphs)
    assert all(graph.htp is not None and graph.htp.io_tensors > 0 for graph in info.graphs)
    assert info.blob_size < (tmp_path / "forward_0.bin").stat().st_size


@ANY
def test_what_is_written_as_json_is_read_back(backend: str, kind: str, tmp_path: Path) -> None:
    path = store(tmp_path, backend=backend, kind=kind)
    library = find_runtime(backend, runtime=kind).system
    info = system.file_info(library, path)
    assert binaries.file_info(library, path) == info, "the worker reads the same"
    made = tmp_path / "made.json"
    made.write_text(context_json.info_json(info))
    found = context_json.read(made)
    assert (found.info, found.warnings) == (info, ())


def test_a_mapping_is_not_copied(tmp_path: Path) -> None:
    """A sparse file of 600 MB is described without its pages becoming memory of the process."""
    path = store(tmp_path, backend="htp", kind="real", vouched=False)
    small = tmp_path / "small.bin"
    shutil.copy(path, small)
    begin = struct.unpack_from("<Q", path.read_bytes(), 24)[0]
    with path.open("r+b") as file:
        file.truncate(600 << 20)
        file.seek(32)
        file.write(struct.pack("<Q", (600 << 20) - begin))  # the size in the header
    program = (
        "import sys; from pathlib import Path; from udogen.runtime.contexts.binaries import StoredContext\n"
        "from udogen.qnn import system\n"
        "peak = lambda: int(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1])\n"
        "StoredContext(Path(sys.argv[2]), guarded=False).close(); before = peak()\n"
        "with StoredContext(Path(sys.argv[1]), guarded=False) as stored: assert len(stored.info.graphs) == 2\n"
        "print(peak() - before)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", program, str(path), str(small)]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 20 << 10  # kB


def test_a_library_without_the_call_that_takes_const(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in old releases: the other function is called, with memory that it may write to."""
    path = store(tmp_path)
    real = system._table(find_runtime(*SMALL[:1], runtime=SMALL[1]).system)

    class Old:
        systemContextGetMetaData = None

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    library = find_runtime("htp", runtime="emulator").system
    wanted = system.file_info(library, path)
    monkeypatch.setattr(system, "_table", lambda _library: Old())
    assert system.file_info(library, path) == wanted
    assert system.binary_info(library, path.read_bytes()) == wanted


def test_the_right_system_library_is_found(tmp_path: Path) -> None:
    for backend, kind in RUNTIMES:
        head = heads.check(binary(backend, kind), "it")
        assert head.emulator is (kind == "emulator")
        library = binaries.system_library_of(head)
        assert library.name == "libQnnSystem.so"
        assert (library.parent == find_runtime(backend, runtime=kind).path.parent) or kind == "real"
    assert binaries.system_library_of(heads.Head(), given=library) == library
    assert binaries.system_library_of(heads.Head(), given=library.parent) == library
    with pytest.raises(ToolMissing, match=f"there is no QNN system library at {tmp_path}/libQnnSystem.so"):
        binaries.system_library_of(heads.Head(), given=tmp_path)


def test_a_context_without_a_system_library_is_described_by_its_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store(tmp_path)
    describe(path)
    monkeypatch.setattr(binaries, "system_library_of", _nowhere)
    with StoredContext(path) as stored:
        assert stored.source == JSON
        assert {graph.name for graph in stored.info.graphs} == set(GRAPHS)
    (tmp_path / "forward_0_json.json").unlink()
    with pytest.raises(ToolMissing, match="it is not there"):
        StoredContext(path)


def _nowhere(*_args: object, **_more: object) -> Path:
    raise ToolMissing("it is not there")


def test_a_context_of_a_custom_op_saved_by_run_op(tmp_path: Path) -> None:
    """The command saves a manifest with it, and refuses the file if it has changed since."""
    example = ROOT / "examples" / "leaky_relu"
    built = htp_package(example / "LeakyRelu.xml", tmp_path, example / "kernels")
    np.save(tmp_path / "x.npy", np.float32([[-1, 2, -3, 4]]))
    saved = tmp_path / "leaky.bin"
    run = ["run", "op", built.library, "LeakyRelu", "--backend", "htp", "--input", f"input={tmp_path / 'x.npy'}"]
    done = udogen(*run, "--save-context", saved)
    assert done.returncode == 0, done.stderr
    with StoredContext(saved) as stored:
        assert stored.verdict.good and stored.info.build_id.startswith("v2.")
        [graph] = stored.info.graphs
        assert [tensor.name for tensor in graph.inputs] == ["input"]
    done = udogen(*run, "--context", saved)
    assert done.returncode == 0 and done.stderr.startswith("next: "), done.stderr
    bare = shutil.copy(saved, tmp_path / "bare.bin")
    done = udogen(*run, "--context", bare)
    assert done.returncode == 0 and done.stderr.startswith(f"warning: {bare} cannot be verified")
    flipped = bytearray(saved.read_bytes())
    flipped[-7] ^= 1
    saved.write_bytes(flipped)
    done = udogen(*run, "--context", saved)
    assert done.returncode == 5
    assert "leaky.bin is not the file that leaky.bin.udogen.json describes: its xxh3_128 is" in done.stderr


# --- the manifest -----------------------------------------------------------------------------------------------------


def test_a_manifest_is_written_and_compared_with_the_file(tmp_path: Path, tidy: None) -> None:
    path = tmp_path / "one.bin"
    made = manifest.save(path, binary(*SMALL), build_id="v2.0")
    assert path.read_bytes() == binary(*SMALL)
    assert (made.file, made.size, made.algorithm, made.build_id) == ("one.bin", len(binary(*SMALL)), "xxh3_128", "v2.0")
    assert json.loads((tmp_path / "one.bin.udogen.json").read_text())["udogen_manifest"] == 1
    verdict = manifest.check(path)
    assert verdict.good and verdict.manifest == made
    assert sorted(os.listdir(tmp_path)) == ["one.bin", "one.bin.udogen.json"]
    moved = tmp_path / "elsewhere"
    shutil.copytree(tmp_path, moved, ignore=lambda *_: ["elsewhere"])
    assert manifest.check(moved / "one.bin").good
    with StoredContext(path) as stored:
        assert stored.verdict.good


def test_a_manifest_in_sha256_is_understood(tmp_path: Path) -> None:
    path = store(tmp_path)
    beside = vouch(path)
    manifest_json = json.loads(beside.read_text())
    manifest_json["algorithm"] = "sha256"
    manifest_json["digest"] = subprocess.run(["sha256sum", path], capture_output=True, text=True).stdout.split()[0]
    beside.write_text(json.dumps(manifest_json))
    assert manifest.check(path).good


def test_an_interrupted_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "one.bin"
    path.write_bytes(b"old")

    class Breaks:
        def __buffer__(self, _flags: int) -> memoryview:
            raise OSError(28, "No space left on device")

    with pytest.raises((RunFailed, TypeError)):
        manifest.write_atomically(path, Breaks())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["one.bin"]
    os.mkfifo(tmp_path / "pipe")  # a temporary pipe: without the check it would be replaced
    with pytest.raises(RunFailed, match="/pipe cannot be written: not a regular file"):
        manifest.write_atomically(tmp_path / "pipe", b"x")
    with pytest.raises(RunFailed, match="cannot be written: No such file or directory"):
        manifest.write_atomically(tmp_path / "none" / "x", b"x")


def test_the_umask_decides_who_may_use_a_written_file(tmp_path: Path) -> None:
    before = os.umask(0o020)
    try:
        manifest.write_atomically(tmp_path / "x", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o646


def test_a_save_that_breaks_off_accuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between binary and manifest: the manifest of the old binary must be gone, or it would contradict the new one."""
    path = tmp_path / "one.bin"
    manifest.save(path, binary("cpu", "emulator"))
    assert manifest.check(path).good

    def breaks(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(manifest, "write", breaks)
    with pytest.raises(KeyboardInterrupt):
        manifest.save(path, binary("htp", "emulator"))
    assert path.read_bytes() == binary("htp", "emulator")
    assert manifest.check(path).state == manifest.ABSENT


def test_a_file_without_a_manifest_is_warned_of_in_python(tmp_path: Path) -> None:
    path = store(tmp_path, backend="cpu", vouched=False)
    with pytest.warns(UserWarning, match="forward_0.bin cannot be verified.*--write-manifest"):
        StoredContext(path, guarded=False).close()
    with Runtime("cpu", runtime="emulator") as runtime:
        with pytest.warns(UserWarning, match="forward_0.bin cannot be verified"):
            runtime.restore(path).close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runtime.restore(path, check_manifest=False).close()
            vouch(path)
            runtime.restore(path).close()
            StoredContext(path, guarded=False).close()
            runtime.restore(path.read_bytes()).close()
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        with pytest.raises(RunFailed, match=r"is not the file that forward_0\.bin\.udogen\.json describes"):
            runtime.restore(path)


def test_a_file_that_is_vouched_for_is_not_read_in_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store(tmp_path, vouched=False)
    calls: list[Path] = []
    honest = binaries.file_info
    monkeypatch.setattr(binaries, "file_info", lambda *args: calls.append(args[1]) or honest(*args))
    StoredContext(path, warn=False).close()
    assert calls == [path]
    vouch(path)
    StoredContext(path).close()
    assert calls == [path]


# --- encodings --------------------------------------------------------------------------------------------------------

PAIRS = tuple(ScaleOffset(2.0**-n, n) for n in range(8))


@pytest.mark.parametrize("quant", [*ENCODINGS.values(), OtherEncoding("FLOAT_BLOCK")], ids=quantization.name_of)
def test_an_encoding_as_json_and_back(quant: Quantization, tmp_path: Path) -> None:
    x = described_tensor(
        "x", "UFIXED_POINT_8", (1, 1, 1, 8), quant, APP_WRITE, dynamic=(False, False, True, False), id=1, data_format=3
    )
    graph = system.GraphInfo("g", (x,), (), (), system.HtpGraph(*range(1, 3), 3, True, 5))
    info = system.BinaryInfo(6, "v2", "2.0.0", "5.0.0", "", (graph,), 3, "3.0.0", 99, (), "v73", 43)
    made = tmp_path / "made.json"
    made.write_text(context_json.info_json(info))
    found = context_json.read(made)
    [again] = found.info.graphs[0].inputs
    assert again == x and found.warnings == ()
    assert same_quantization(again.quant, quant)
    assert not same_quantization(again.quant, ScaleOffset(0.3))


@pytest.mark.parametrize(
    ("kind", "quant"),
    [
        ("emulator", AxisScaleOffset(3, PAIRS)),
        ("emulator", BwScaleOffset(4, 0.5, -8)),
        ("real", BwScaleOffset(4, 0.5, -8)),  # it refuses axes and blocks for graph inputs and outputs
    ],
)
def test_an_encoding_in_a_binary(kind: str, quant: Quantization) -> None:
    with GraphBuilder("htp", runtime=kind) as builder:
        with builder.graph("g", outputs=["y"]) as graph:
            x = graph.input("x", "SFIXED_POINT_8", (1, 1, 1, 8), quant)
            graph.op("Relu", [x], "y", like=x)
        made = builder.context.binary()
    assert system.binary_info(find_runtime("htp", runtime=kind).system, made).graph("g").inputs[0].quant == quant
