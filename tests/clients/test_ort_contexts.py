"""Context binaries of udogen in the real ONNX Runtime (`udogen onnx context`), and faulty models of contexts.

The opposite direction, a binary of ONNX Runtime in udogen, is in test_ort.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime_qnn")

from tests import onnx_models
from tests.clients.laying import lay
from tests.command_line import udogen
from tests.contexts.storing import QUANT, store
from tests.making import LONG, ROOT, htp_package
from udogen import UdogenError, UsageError
from udogen.build import elf
from udogen.clients.package import Package, PackageOptions, find_packages
from udogen.onnx.ort import context_model, contexts, placement, session
from udogen.qnn.system import BinaryInfo, GraphInfo
from udogen.qnn.tensors import QnnTensor, described_tensor
from udogen.runtime import find_runtime
from udogen.runtime.contexts.manifest import mapped_file

EXAMPLE = ROOT / "examples" / "leaky_relu"
RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
Q = RNG.integers(0, 256, (2, 3, 4), np.uint8)
STEPS = ("--quant", "input=0.05,-128", "--quant", "output=0.1,-100")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the example for HTP, in a folder with a blank."""
    out = tmp_path_factory.mktemp("it is") / "here"
    return htp_package(EXAMPLE / "LeakyRelu.xml", out, EXAMPLE / "kernels").library


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Path:
    """Return binaries of the op in floats and in 8 bits, of two graphs of built-in ops, and their outputs in udogen."""
    here = tmp_path_factory.mktemp("my models")
    np.save(here / "x.npy", X)
    np.save(here / "q.npy", Q)
    for name, given, more in (("float", "x", ()), ("bytes", "q", STEPS)):
        done = udogen(
            "run", "op", package, "LeakyRelu", "--backend", "htp", "--input", f"input={here / given}.npy", *more,
            "--param", "alpha=0.25", "--output", f"output={here / name}.npy", "--save-context", here / f"{name}.bin",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    store(here, name="two", kind="real")
    return here


@pytest.fixture(scope="module")
def replies(folder: Path, package: Path) -> dict[str, Any]:
    """Return the outputs of ONNX Runtime in each case, or its error; all run in one process."""
    np.savez(folder / "x.npz", input=X)
    np.savez(folder / "q.npz", input=Q)
    kv, prefill = (RNG.integers(0, 256, shape, np.uint8) for shape in ((1, 1, 1, 8), (1, 4, 4, 8)))
    np.savez(folder / "both.npz", **{"kv_forward/x": kv, "prefill_forward/x": prefill})
    np.savez(folder / "kv.npz", x=kv)
    below = folder / "below"
    below.mkdir()
    (below / "copy.bin").write_bytes((folder / "float.bin").read_bytes())
    context_model.write_model(folder / "float.bin", folder / "float.onnx")
    context_model.write_model(folder / "float.bin", folder / "embedded.onnx", embed=True)
    context_model.write_model(below / "copy.bin", folder / "below.onnx")
    context_model.write_model(folder / "bytes.bin", folder / "bytes.onnx")
    context_model.write_model(folder / "two.bin", folder / "two.onnx")
    context_model.write_model(folder / "two.bin", folder / "kv.onnx", graphs=["kv_forward"], embed=True)
    cases = {
        "float": ("float", [package], "x"),
        "embedded": ("embedded", [package], "x"),
        "below": ("below", [package], "x"),
        "bytes": ("bytes", [package], "q"),
        "two": ("two", [], "both"),
        "kv": ("kv", [], "kv"),
        "not registered": ("float", [], "x"),
    }
    rows = {
        name: {
            "model": str(folder / f"{model}.onnx"),
            "packages": list(map(str, packages)),
            "inputs": str(folder / f"{given}.npz"),
            "outputs": str(folder / f"{name} out.npz"),
        }
        for name, (model, packages, given) in cases.items()
    }
    (folder / "cases.json").write_text(json.dumps(rows))
    found: dict[str, Any] = json.loads(run("tests/clients/ort_cases_child.py", folder / "cases.json").splitlines()[-1])
    return found


def run(script: str, *argv: object) -> str:
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, str(ROOT / script), *map(str, argv)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, env=env, cwd="/")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("case", ["float", "embedded", "below", "bytes"])
def test_onnx_runtime_computes_with_our_binary_what_udogen_computes(
    replies: dict[str, Any], folder: Path, case: str
) -> None:
    assert replies[case] == ["output"]
    expected = np.load(folder / ("bytes.npy" if case == "bytes" else "float.npy"))
    found = np.load(folder / f"{case} out.npz")["output"]
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)
    if case == "float":
        assert np.abs(found - np.where(X > 0, X, 0.25 * X)).max() < 1e-6


def test_all_graphs_of_a_binary_are_one_model(replies: dict[str, Any], folder: Path) -> None:
    """Both have tensors x and y; without io_name_overrides ONNX Runtime would match them by position."""
    assert replies["two"] == ["prefill_forward/y", "kv_forward/y"]
    given, found = np.load(folder / "both.npz"), np.load(folder / "two out.npz")
    for graph in ("prefill_forward", "kv_forward"):
        relu = np.maximum(given[f"{graph}/x"], -QUANT.offset)
        assert np.array_equal(found[f"{graph}/y"], relu)


def test_one_graph_of_several(replies: dict[str, Any], folder: Path) -> None:
    assert replies["kv"] == ["y"]
    relu = np.maximum(np.load(folder / "kv.npz")["x"], -QUANT.offset)
    assert np.array_equal(np.load(folder / "kv out.npz")["y"], relu)


def test_a_context_whose_package_is_not_given(replies: dict[str, Any], folder: Path) -> None:
    fault = replies["not registered"]
    assert (fault["type"], fault["message"], fault["hint"]) == (
        "SessionFailed",
        "a context of the model has kernels of package LeakyReluPackage, which is not given",
        "give that package too",
    )
    assert "the context binary cannot be restored" in fault["details"]


@pytest.mark.parametrize(
    ("load", "printed"),
    [
        (
            "ctypes.CDLL(str(runtime.find_runtime('cpu').path))",
            "this process has loaded libQnnCpu.so before onnxruntime, whose C++ exceptions would end it\n"
            "import onnxruntime first, or open the session in another process\n",
        ),
        (
            "(ctypes.CDLL(str(runtime.find_runtime('cpu').path)), runtime.Runtime('cpu'))",
            "this process has loaded libQnnCpu.so before onnxruntime, whose C++ exceptions would end it\n"
            "import onnxruntime first, or open the session in another process\n",
        ),
        ("runtime.Runtime('cpu')", "InvalidProtobuf\n"),
    ],
)
def test_a_qnn_library_before_onnxruntime(load: str, printed: str) -> None:
    """Its first C++ exception would end the process (measured: 134, or 139); udogen loads ONNX Runtime first."""
    code = (
        "import ctypes\n"
        "from udogen import runtime\n"
        "from udogen.onnx.ort import open_session\n"
        "from udogen.errors import UdogenError\n"
        f"opened = {load}\n"
        "try: open_session._modules()[0].InferenceSession(b'no model')\n"
        "except UdogenError as fault: print(fault.message, fault.hint, sep='\\n')\n"
        "except Exception as fault: print(type(fault).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == printed, (done.returncode, done.stderr)


# --- the command ----------------------------------------------------------------------------------------


def test_the_command(folder: Path, tmp_path: Path) -> None:
    import onnx

    (tmp_path / "b.bin").write_bytes((folder / "bytes.bin").read_bytes())
    done = udogen("onnx", "context", tmp_path / "b.bin", "-o", tmp_path / "m.onnx")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{tmp_path}/m.onnx: graph udogen",
        "  input input: uint8 2x3x4",
        "  output output: uint8 2x3x4",
    ]
    note, following = done.stderr.splitlines()
    assert note.strip() == "the model names b.bin, relative to its own folder: keep them together"
    assert following.startswith(f"next: `udogen inspect {tmp_path}/m.onnx` ")
    assert udogen("inspect", tmp_path / "m.onnx").returncode == 0
    made = onnx.load(tmp_path / "m.onnx")
    assert made.graph.input[0].doc_string == "UFIXED_POINT_8: real = (stored -128) * 0.0500000007"
    [node] = made.graph.node
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    assert attributes == {
        "embed_mode": 0, "ep_cache_context": b"b.bin", "ep_sdk_version": b"v2.47.0.260601114230", "main_context": 1,
        "max_size": 0, "partition_name": b"udogen", "source": b"QNN",
    }  # fmt: skip
    before = (tmp_path / "m.onnx").read_bytes()
    done = udogen("onnx", "context", tmp_path / "b.bin", "-o", tmp_path / "m.onnx", "--embed", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["message"]) == (2, f"{tmp_path}/m.onnx already exists")
    assert (tmp_path / "m.onnx").read_bytes() == before
    done = udogen("onnx", "context", tmp_path / "b.bin", "-o", tmp_path / "f.onnx", "--embed", "--json")
    reply = json.loads(done.stdout)
    assert (reply["ok"], reply["reference"]) == (True, None)
    [graph] = reply["graphs"]
    assert graph["inputs"] == [
        {
            "name": "input", "tensor": "input", "type": "uint8", "shape": [2, 3, 4], "stored": "UFIXED_POINT_8",
            "scale": pytest.approx(0.05), "offset": -128,
        }
    ]  # fmt: skip
    onnx.checker.check_model(onnx.load(tmp_path / "f.onnx"))


def away(folder: Path) -> tuple[Path, Path]:
    (folder / "sub").mkdir()
    return store(folder, kind="real"), folder / "sub" / "m.onnx"


def dots(folder: Path) -> tuple[Path, Path]:
    return store(folder, name="a.", kind="real"), folder / "m.onnx"


def text(folder: Path) -> tuple[Path, Path]:
    (folder / "x.bin").write_text("no context")
    return folder / "x.bin", folder / "m.onnx"


def no_folder(folder: Path) -> tuple[Path, Path]:
    return store(folder, kind="real"), folder / "none" / "m.onnx"


def flipped(folder: Path) -> tuple[Path, Path]:
    binary, data = store(folder, kind="real"), bytearray(store(folder, kind="real").read_bytes())
    assert udogen("inspect", binary, "--write-manifest").returncode == 0
    data[-1] ^= 1
    binary.write_bytes(data)
    return binary, folder / "m.onnx"


@pytest.mark.parametrize(
    ("make", "options", "message", "hint"),
    [
        (
            away, {}, "{binary} is not beside or below {out}",
            "write the model beside it: -o {folder}/m.onnx; or embed it: --embed",
        ),
        (dots, {}, "the path a..bin contains `..`", "write the model beside it: -o {folder}/m.onnx; or embed it"),
        (text, {}, "{binary} is not a context binary", ""),
        (
            lambda folder: (store(folder, kind="emulator"), folder / "m.onnx"), {},
            "{binary} was made by udogen's emulator, and no backend of ONNX Runtime restores it",
            "make it with Qualcomm's libraries: --runtime real",
        ),
        (
            lambda folder: (store(folder, backend="cpu", kind="real"), folder / "m.onnx"), {},
            "{binary} cannot be a model of ONNX Runtime: it is not made for HTP: the provider restores only "
            "contexts of HTP, DSP and GPU",
            "make it with --backend htp; a package for the CPU runs from the ONNX model itself",
        ),
        (
            lambda folder: (store(folder, kind="real"), folder / "m.onnx"), {"graphs": ["kv_forwart"]},
            "{binary} has no graph `kv_forwart`", "did you mean `kv_forward`?",
        ),
        (no_folder, {"embed": True}, "cannot write {out}: No such file or directory", "give another -o"),
        (flipped, {}, "{binary} is not the file that forward_0.bin.udogen.json describes: its", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_a_model(
    make: Callable[[Path], tuple[Path, Path]], options: dict[str, Any], message: str, hint: str, tmp_path: Path
) -> None:
    binary, out = make(tmp_path)
    with pytest.raises(UdogenError) as caught:
        context_model.write_model(binary, out, **options)
    names = {"binary": binary, "out": out, "folder": tmp_path}
    assert caught.value.message.startswith(message.format(**names))
    assert caught.value.hint.startswith(hint.format(**names))
    assert not out.exists()


def tensor(dtype: str = "FLOAT_32", **more: Any) -> QnnTensor:
    return described_tensor(more.pop("name", "t"), dtype, more.pop("shape", (2, 3)), **{"id": 1, **more})


def made_of(*graphs: GraphInfo, backend: int = 6) -> BinaryInfo:
    return BinaryInfo(backend, "v2.47", "2.36.0", "5.47.0", "", graphs)


GOOD = tensor(name="o")


@pytest.mark.parametrize(
    ("graph", "fault"),
    [
        (GraphInfo("g", (), (GOOD,)), "graph g has no inputs, which the provider refuses"),
        (GraphInfo("g", (GOOD,), ()), "graph g has no outputs, which the provider refuses"),
        (
            GraphInfo("g", (tensor("UFIXED_POINT_4"),), (GOOD,)),
            "input t of graph g is UFIXED_POINT_4, which no element type of ONNX Runtime stores",
        ),
        (
            GraphInfo("g", (GOOD,), (tensor("FLOAT_64"),)),
            "output t of graph g is FLOAT_64, which no element type of ONNX Runtime stores",
        ),
        (
            GraphInfo("g", (tensor(dynamic=(True, False)),), (GOOD,)),
            "input t of graph g has dynamic dimensions, which the provider refuses",
        ),
        (
            GraphInfo("g", (tensor(shape=()),), (GOOD,)),
            "input t of graph g has no dimensions, which the provider refuses",
        ),
    ],
)
def test_graphs_that_the_provider_would_refuse(graph: GraphInfo, fault: str) -> None:
    """According to its sources: the libraries here cannot make such a binary."""
    assert [text for text, _ in contexts.faults_of(made_of(graph), [graph])] == [fault]


@pytest.mark.parametrize(
    ("name", "several", "fault"),
    [
        ("a;b", True, "tensor g/a;b has a `;` or `=` in its name, the separators of the provider"),
        ("o", False, "graph g has two tensors called `o`"),
    ],
)  # fmt: skip
def test_what_names_cannot_be(
    name: str, several: bool, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tensor(name=name)
    graphs = [GraphInfo("g", (found,), (GOOD,)), GraphInfo("h", (GOOD,), (tensor(name="p"),))][: 2 if several else 1]
    monkeypatch.setattr(contexts, "describe", lambda _path: made_of(*graphs))
    (tmp_path / "x.bin").write_bytes(b"x")
    with pytest.raises(context_model.ContextRefused) as caught:
        context_model.write_model(tmp_path / "x.bin", tmp_path / "m.onnx")
    assert f"cannot be a model of ONNX Runtime: {fault}" in caught.value.message


def test_links_lead_to_the_binary_as_they_do_for_onnx_runtime(tmp_path: Path) -> None:
    real_one = tmp_path / "real"
    real_one.mkdir()
    binary = store(real_one, kind="real")
    (tmp_path / "link").symlink_to(real_one)
    (tmp_path / "linked.bin").symlink_to(binary)
    assert context_model.write_model(binary, tmp_path / "link" / "m.onnx").reference == "forward_0.bin"
    assert (
        context_model.write_model(tmp_path / "link" / "forward_0.bin", real_one / "n.onnx").reference == "forward_0.bin"
    )
    assert context_model.write_model(tmp_path / "linked.bin", tmp_path / "o.onnx").reference == "linked.bin"


def test_packages_are_found_among_weights(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, 1 << 22, np.uint8).tobytes()
    (tmp_path / "x").write_bytes(noise + b"\0Toy::Op_0\0" + noise + b"\0My_Package::Relu_hvx\0::x Long::n")
    with mapped_file(tmp_path / "x") as data:
        found = frozenset(contexts._package_names_in(data))
    assert {"Toy", "My_Package"} <= found
    assert [
        reason.message
        for reason in placement.of_contexts(contexts.ContextModel((), found), [], find_runtime("htp").path)
    ] == ["a context of the model has kernels of package My_Package, which is not given"]


def test_a_binary_too_large_to_embed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = store(tmp_path, kind="real")
    monkeypatch.setattr(context_model, "EMBEDDED_MOST", 1000)
    with pytest.raises(
        context_model.ContextRefused, match=r"(?m)it is too large for a model, which is limited to 2 GiB$"
    ) as caught:
        context_model.write_model(binary, tmp_path / "m.onnx", embed=True)
    assert caught.value.hint == "leave --embed out"


# --- faulty models ----------------------------------------------------------------------------------------


def model(folder: Path, **changes: Any) -> Path:
    """Return a handwritten model of the binary with two graphs, like that of udogen except for the changes."""
    kind, shape = changes.pop("dtype", 2), changes.pop("shape", (1, 1, 1, 8))  # 2: UINT8
    inputs, outputs = changes.pop("inputs", ["x"]), changes.pop("outputs", ["y"])
    attributes = {"ep_cache_context": "forward_0.bin", "embed_mode": 0, "main_context": 1, "source": "QNN", **changes}
    name = attributes.pop("name", "kv_forward")
    node = onnx_models.node(
        "EPContext", " ".join(inputs), " ".join(outputs), name, domain="com.microsoft", **attributes
    )
    types = dict.fromkeys([*inputs, *outputs], kind)
    ends = (dict.fromkeys(names, shape) for names in (inputs, outputs))
    return onnx_models.save(folder / "m.onnx", [node], *ends, types=types, opset=21)


def check(path: Path, packages: tuple[Package, ...] = ()) -> contexts.ContextModel:
    return contexts.check(path, contexts.nodes_of(path), packages)


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        (
            {"ep_cache_context": "none.bin"},
            "EPContext node `kv_forward` names the file `none.bin`, and {folder}/none.bin does not exist",
            "keep the file beside the model",
        ),
        (
            {"ep_cache_context": "/a/b.bin"},
            "EPContext node `kv_forward` names the file `/a/b.bin`: ONNX Runtime takes neither absolute paths nor any "
            "with `..`",
            "put the file beside the model, and name it by its file name",
        ),
        ({"ep_cache_context": ""}, "EPContext node `kv_forward` names no file", contexts._WRITE_AGAIN),
        (
            {"source": "OpenVINOExecutionProvider"},
            "EPContext node `kv_forward` is of `OpenVINOExecutionProvider`, not of QNN",
            "it is for another execution provider",
        ),
        ({"main_context": 0}, "no EPContext node has main_context=1, so none has a context", contexts._WRITE_AGAIN),
        (
            {"name": "kv"},
            "EPContext node `kv` has the name of no graph of its context (prefill_forward, kv_forward)",
            "give it the name of the graph",
        ),
        (
            {"dtype": 3},  # INT8, with the same number of bytes
            "input x of EPContext node `kv_forward` is INT8 [1, 1, 1, 8]; tensor x of graph kv_forward is "
            "UFIXED_POINT_8 [1, 1, 1, 8]",
            contexts._WRITE_AGAIN,
        ),
        (
            {"shape": ["n", 1, 1, 8]},
            "input x of EPContext node `kv_forward` is UINT8 ['n', 1, 1, 8]; tensor x of graph kv_forward is "
            "UFIXED_POINT_8 [1, 1, 1, 8]",
            contexts._WRITE_AGAIN,
        ),
        (
            {"inputs": ["x", "z"], "outputs": ["y", "w"]},
            "EPContext node `kv_forward` has 2 outputs, graph kv_forward 1",
            contexts._WRITE_AGAIN,
        ),
        (
            {"io_name_overrides": "x=q"},
            "input x of EPContext node `kv_forward` is not an input of graph kv_forward (x)",
            contexts._WRITE_AGAIN,
        ),
        (
            {"embed_mode": 1, "ep_cache_context": "no context"},
            "context of EPContext node `kv_forward` is not a context binary",
            "",
        ),
    ],
)
def test_a_model_whose_context_differs(changes: dict[str, Any], message: str, hint: str, tmp_path: Path) -> None:
    """ONNX Runtime alone would report less, or compute with it: it compares only the sizes of tensors."""
    store(tmp_path, kind="real")
    path = model(tmp_path, **changes)
    with pytest.raises(UsageError) as caught:
        check(path)
    assert message.format(folder=tmp_path) in caught.value.message
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.hint.startswith(hint)


def test_what_is_as_it_should_be_is_taken(tmp_path: Path) -> None:
    store(tmp_path, kind="real")
    assert check(model(tmp_path)).package_names == frozenset()
    assert check(model(tmp_path, inputs=["a"], outputs=["b"])).nodes[0].inputs == ("a",)  # by position
    assert (
        check(model(tmp_path, inputs=["a"], outputs=["b"], io_name_overrides="a=x;b=y")).nodes[0].overrides["a"] == "x"
    )


def test_a_package_that_no_context_needs(package: Path, tmp_path: Path) -> None:
    store(tmp_path, kind="real")
    with pytest.raises(UsageError) as caught:
        check(model(tmp_path), find_packages([package], PackageOptions("htp")))
    assert "no context of the model has a kernel of package LeakyReluPackage" in caught.value.message
    assert caught.value.hint == "leave the package out, or make the context with it"


def test_a_context_of_a_newer_sdk_is_a_reason() -> None:
    """The result of such a context alone was measured with one of SDK 2.51 in 2.47: 5000, invalid argument."""
    library = find_runtime("htp").path
    [release] = elf.sdk_releases(library)
    for build in ("v2.3.0.1", release):
        assert placement.of_contexts(contexts.ContextModel((), frozenset(), (build,)), [], library) == []
    [reason] = placement.of_contexts(contexts.ContextModel((), frozenset(), ("v99.0.0.1", "v99.0.0.1")), [], library)
    assert (reason.message, reason.hint) == (
        f"a context of the model was made by v99.0.0.1, which is newer than libQnnHtp.so ({release})",
        "make it with this release, or use a runtime that is at least as new",
    )


def test_contexts_are_for_htp(tmp_path: Path) -> None:
    store(tmp_path, kind="real")
    path = model(tmp_path)
    with pytest.raises(UsageError) as caught:
        session(path, [lay(EXAMPLE / "LeakyRelu.xml", tmp_path / "package", chosen=("cpu",))])
    assert caught.value.message == f"{path} has contexts, which ONNX Runtime restores only on HTP"
    assert caught.value.hint == 'backend="htp"'
