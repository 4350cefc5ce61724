"""Kernels in Python: packets on HVX compared with scalar C++, time in libQnnCpu compared with its own ops."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.bench.clock import processor_seconds
from tests.making import ROOT, make_packages, need_runtime, open_package, udogen
from udogen import GenerateOptions, UdogenError, resources
from udogen.build import tools
from udogen.build.make import build, build_package, plan
from udogen.configs.load import load
from udogen.generate.pipeline import generate
from udogen.kernels import AUTOSCHEDULERS
from udogen.qnn.handles import BackendHandle
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, STATIC, QnnTensor
from udogen.runtime import OpConfig, Scalar, find_runtime
from udogen.runtime.built import Built, find_built

pytestmark = pytest.mark.bench
pytest.importorskip("halide", reason="pip install '.[kernels]'")

CONFIG = ROOT / "examples" / "python_kernels" / "PythonKernels.xml"
KERNELS = CONFIG.parent / "kernels"
SUMS = ROOT / "tests" / "kernels" / "sums"
SCALAR = Path(__file__).parent / "scalar_kernels"
ROUNDS = 31


@dataclass(frozen=True)
class BuiltIn:
    """An op of the examples and its equivalent in libQnnCpu."""

    ours: str
    theirs: str
    shape: tuple[int, ...]
    out: tuple[int, ...]
    constants: dict[str, tuple[int, ...]]  # inputs of both ops
    params: dict[str, float]  # of the op of udogen
    their_params: dict[str, np.ndarray]
    their_constants: dict[str, tuple[int, ...]]  # for the op of libQnnCpu, where the shapes differ


def row(ours: str, theirs: str, shape: tuple[int, ...], **more: object) -> BuiltIn:
    known = {"out": shape, "constants": {}, "params": {}, "their_params": {}, "their_constants": None, **more}
    known["their_constants"] = known["their_constants"] or known["constants"]
    return BuiltIn(ours, theirs, shape, **known)  # type: ignore[arg-type]


def pairs_of(low: int, high: int) -> np.ndarray:
    return np.full((low, high), 0, np.uint32)


LAST = np.array([1], np.uint32)
OPS = [
    row("LeakyRelu", "Prelu", (1024, 1024), params={"alpha": 0.1}, their_constants={"coeff": (1,)}),
    row("LeakyRelu", "Prelu", (4096, 1024), params={"alpha": 0.1}, their_constants={"coeff": (1,)}),
    row("Softmax", "Softmax", (4096, 256)),
    row("Softmax", "Softmax", (1024, 4096)),
    row("LayerNorm", "LayerNorm", (4096, 256), constants={"gain": (256,), "bias": (256,)}, their_params={"axes": LAST}),
    row("RmsNorm", "RmsNorm", (4096, 256), constants={"gain": (256,)}, their_params={"axes": LAST}),
    row(
        "MaxPool", "PoolMax2d", (1, 256, 256, 16), out=(1, 128, 128, 16),
        their_params={"filter_size": np.array([2, 2], np.uint32), "stride": np.array([2, 2], np.uint32),
                      "pad_amount": pairs_of(2, 2)},
    ),
    row(
        "DepthwiseConv", "DepthWiseConv2d", (1, 130, 130, 64), out=(1, 128, 128, 64), constants={"weights": (3, 3, 64)},
        their_constants={"weights": (3, 3, 1, 64)},
        their_params={"stride": np.array([1, 1], np.uint32), "pad_amount": pairs_of(2, 2)},
    ),
]  # fmt: skip


def built(config: Path, folder: Path) -> Built:
    need_runtime("cpu")
    [made] = make_packages([config], folder, chosen=["cpu"], kernels=config.parent / "kernels", layout="qnn")
    build_package(open_package(made.folder))
    return find_built(made.folder)


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(CONFIG, tmp_path_factory.mktemp("cpu"))


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(SUMS / "Sums.xml", tmp_path_factory.mktemp("sums"))


def executor(backend: BackendHandle, op: BuiltIn, package: str, stack: ExitStack) -> Callable[[], np.ndarray]:
    """Return a function that runs one of both ops and returns its output."""
    is_ours = package != "qti.aisw"
    graph = stack.enter_context(backend.context()).graph("one")
    random = np.random.default_rng(0)
    x = graph.add_tensor(QnnTensor("x", dtype="FLOAT_32", shape=op.shape, role=APP_WRITE))
    y = graph.add_tensor(QnnTensor("y", dtype="FLOAT_32", shape=op.out, role=APP_READ))
    constants = op.constants if is_ours else op.their_constants
    data = {
        name: np.full(shape, 0.1) if name == "coeff" else random.normal(size=shape) for name, shape in constants.items()
    }
    others = [
        graph.add_tensor(
            QnnTensor(
                name,
                dtype="FLOAT_32",
                shape=value.shape,
                role=STATIC,
                data=bytearray(value.astype(np.float32).tobytes()),
            )
        )
        for name, value in data.items()
    ]
    params = [
        Scalar(name, "FLOAT_32", value)
        if isinstance(value, float)
        else graph.add_tensor(
            QnnTensor(name, dtype="UINT_32", shape=value.shape, role=STATIC, data=bytearray(value.tobytes()))
        )
        for name, value in (op.params if is_ours else op.their_params).items()
    ]
    graph.add_node(
        OpConfig("n", package=package, op_type=op.ours if is_ours else op.theirs, inputs=[x, *others], outputs=[y],
                 params=params)
    )  # fmt: skip
    graph.finalize()
    x.bind(bytearray(random.normal(size=op.shape).astype(np.float32).tobytes()))
    y.bind(room := bytearray(y.nbytes))
    run = graph.executor([x], [y])

    def call() -> np.ndarray:
        run()
        return np.frombuffer(room, np.float32)

    return call


@contextmanager
def one_core() -> Iterator[None]:
    """Pin to one core: libQnnCpu's own ops start as many threads as there are cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


@pytest.mark.parametrize("op", OPS, ids=lambda op: f"{op.ours}-{'x'.join(map(str, op.shape))}")
def test_time_against_the_op_of_libqnncpu(op: BuiltIn, cpu: Built) -> None:
    assert ratio(op, cpu) < 1


OF_SUMS = [
    row("MatMul", "MatMul", (512, 1024), out=(512, 1024), constants={"b": (1024, 1024)}),
    row("Conv", "Conv2d", (1, 58, 58, 64), out=(1, 56, 56, 64), constants={"weights": (3, 3, 64, 64)},
        their_params={"stride": np.array([1, 1], np.uint32), "pad_amount": pairs_of(2, 2)}),
]  # fmt: skip


@pytest.mark.parametrize("op", OF_SUMS, ids=lambda op: op.ours)
def test_time_of_sums_against_libqnncpu(op: BuiltIn, sums: Built) -> None:
    assert ratio(op, sums) < 1.5


def ratio(op: BuiltIn, cpu: Built) -> float:
    """The time of our op, divided by that of libQnnCpu's."""
    with ExitStack() as stack:
        stack.enter_context(one_core())
        backend = stack.enter_context(BackendHandle(Interface.load(find_runtime("cpu", runtime="real").path)))
        backend.register(cpu.library, cpu.provider)
        ours, theirs = (executor(backend, op, package, stack) for package in (cpu.package, "qti.aisw"))
        np.testing.assert_allclose(ours(), theirs(), rtol=1e-3, atol=2e-4)
        pairs = [(seconds(ours), seconds(theirs)) for _ in range(ROUNDS)]
    # On a machine with other load, the shortest times are the best measure.
    mine, real = (min(column) * 1e3 for column in zip(*pairs, strict=True))
    print(f"\n{op.ours} {op.shape}: {mine:.2f} ms, {op.theirs} of libQnnCpu {real:.2f} ms, ratio {mine / real:.2f}")
    return mine / real


def test_time_against_onnx_runtime(sums: Built, tmp_path: Path) -> None:
    """A product of matrices, and attention: processor time on one core."""
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    heads, others = (8, 128, 64), {"key": (8, 512, 64), "value": (8, 512, 64), "mask": (128, 512)}
    [folder] = one_op("MaskedAttention", ("cpu",), KERNELS, tmp_path)
    build_package(open_package(folder))
    attention = """y (float[8,512,64] k, float[8,512,64] v, float[128,512] m, float[8,128,64] x)
        => (float[8,128,64] y) {
        t = Transpose<perm=[0,2,1]>(k) s = MatMul(x, t)
        a = Add(s, m) p = Softmax<axis=-1>(a) y = MatMul(p, v) }"""
    product = """y (float[1024,1024] b, float[512,1024] x) => (float[512,1024] y) { y = MatMul(x, b) }"""
    rows = [
        (row("MatMul", "", (512, 1024), constants={"b": (1024, 1024)}), sums, product, 3),
        (row("MaskedAttention", "", heads, constants=others, params={"scale": 1.0}), find_built(folder), attention, 5),
    ]
    for op, package, text, limit in rows:
        model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        random = np.random.default_rng(0)
        feed = {each.name: random.normal(size=[axis.dim_value for axis in each.type.tensor_type.shape.dim])
                for each in model.graph.input}  # fmt: skip
        feed = {name: value.astype(np.float32) for name, value in feed.items()}
        with ExitStack() as stack:
            stack.enter_context(one_core())
            session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            backend = stack.enter_context(BackendHandle(Interface.load(find_runtime("cpu", runtime="real").path)))
            backend.register(package.library, package.provider)
            ours = executor(backend, op, package.package, stack)
            np.testing.assert_allclose(ours(), session.run(None, feed)[0].ravel(), rtol=1e-3, atol=2e-4)
            pairs = [(seconds(ours), seconds(lambda: session.run(None, feed))) for _ in range(ROUNDS)]  # noqa: B023
        mine, theirs = (min(column) * 1e3 for column in zip(*pairs, strict=True))
        print(f"\n{op.ours}: {mine:.2f} ms, ONNX Runtime {theirs:.2f} ms, ratio {mine / theirs:.2f}")
        assert mine <= limit * theirs


def one_op(op: str, chosen: tuple[str, ...], kernels: Path, folder: Path, more: str = "") -> list[Path]:
    """Generate packages of a single op of the examples; `more` is appended to its kernel."""
    packages, problems = load([CONFIG, CONFIG.with_name("GalleryKernels.xml")])
    [(package, found)] = ((package, each) for package in packages for each in package.ops if each.name == op)
    own = folder / "kernels"
    own.mkdir(parents=True)
    [kernel] = kernels.glob(f"{op}.*")
    (own / kernel.name).write_text(kernel.read_text() + more)
    options = GenerateOptions(folder / "out", backends=chosen, kernels=own, layout="qnn")
    return [made.folder for made in generate([package.with_ops((found,))], options, problems)]


@pytest.mark.parametrize("name", AUTOSCHEDULERS)
@pytest.mark.parametrize("op", [op for op in OPS if op.shape != (4096, 1024)], ids=lambda op: op.ours)
def test_autoschedulers_of_halide(op: BuiltIn, name: str, cpu: Built, tmp_path: Path) -> None:
    """Compare with the usual schedule; if an autoscheduler cannot be used, print why."""
    sizes = {"x": op.shape, "y": op.out, **op.constants, **({"size": 2, "stride": 2} if op.ours == "MaxPool" else {})}
    given = ", ".join(f"{key}={value}" for key, value in sizes.items())
    line = f"\nfrom udogen.kernels import Autoschedule\nschedule = Autoschedule({name!r}, {given})\n"
    [folder] = one_op(op.ours, ("cpu",), KERNELS, tmp_path, line)
    try:
        build_package(open_package(folder))
    except UdogenError as fault:
        pytest.skip(fault.message)
    other = find_built(folder)
    with ExitStack() as stack:
        stack.enter_context(one_core())
        interface = Interface.load(find_runtime("cpu", runtime="real").path)
        calls = []
        for built in (other, cpu):
            backend = stack.enter_context(BackendHandle(interface))
            backend.register(built.library, built.provider)
            calls.append(executor(backend, op, built.package, stack))
        np.testing.assert_allclose(calls[0](), calls[1](), rtol=1e-3, atol=1e-5)
        pairs = [[seconds(call) for call in calls] for _ in range(ROUNDS)]
    auto, usual = (min(column) * 1e3 for column in zip(*pairs, strict=True))
    print(f"\n{op.ours}: {name} {auto:.2f} ms, usual schedule {usual:.2f} ms, ratio {auto / usual:.2f}")


# All targets that can be built here: those without an NDK.
TARGETS = ["cpu_x86", "cpu_aarch64", "htp_x86", *(f"htp_{each}" for each in ("v68", "v69", "v73", "v75", "v79", "v81"))]


@pytest.mark.parametrize("op", ["Softmax", "LayerNorm"])
def test_time_of_a_build(op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare one op with its C++ version on all these targets, without ccache and with nothing compiled before."""
    monkeypatch.setenv("CCACHE_DISABLE", "1")
    monkeypatch.setattr(resources, "cache_dir", lambda name, known=resources.cache_dir: (
        tmp_path / name if name == "kernels" else known(name)))  # fmt: skip
    times = {}
    for name, kernels in (("python", KERNELS), ("scalar", SCALAR)):
        folders = one_op(op, ("cpu", "htp"), kernels, tmp_path / name)
        for again in ("first", "unchanged"):
            begun = processor_seconds()
            for package in map(open_package, folders):
                names = [target for target in TARGETS if target.startswith(package.backend)]
                build(package, plan(package, names, toolchain="open", env=tools.environment()))
            times[name, again] = processor_seconds() - begun
    for again, aim in (("first", "2"), ("unchanged", "1")):
        python, scalar = times["python", again], times["scalar", again]
        print(f"\n{op}, {again}: {python:.1f} s, in C++ {scalar:.1f} s, ratio {python / scalar:.2f} (aim {aim})")


SCALES = {8: (0.05, -128), 16: (0.0002, -32000)}


@pytest.fixture(scope="module")
def htp(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the package with kernels in Python, and the one with scalar kernels in C++."""
    made = {}
    for name, kernels in (("python", KERNELS), ("scalar", SCALAR)):
        [package] = make_packages(
            [CONFIG], tmp_path_factory.mktemp(name), chosen=["htp"], kernels=kernels, layout="qnn"
        )
        made[name] = package.folder
    return made


def packets(package: Path, op: str, arguments: Sequence[str], kernel: str = "") -> int:
    """Return the packets of one execution, with all around the kernel; or those of its functions of this name."""
    done = udogen("run", "op", package, op, "--backend", "hexagon", "--arch", "v68", "--count", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["packets"]
    if not kernel:
        return int(found["total"])
    return sum(each["packets"] for each in found["functions"] if kernel in each["name"])


def argument(folder: Path, name: str, bits: int, shape: tuple[int, ...]) -> list[str]:
    """Return the argument for an input of random numbers."""
    stored = np.random.default_rng(0).integers(0, 1 << bits, shape).astype(f"u{bits // 8}")
    np.save(folder / f"{name}.npy", stored)
    return ["--input", f"{name}={folder / name}.npy"]


def quantized(name: str, bits: int) -> list[str]:
    scale, offset = SCALES[bits]
    return ["--quant", f"{name}={scale},{offset}"]


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("op", ["Softmax", "RmsNorm", "LayerNorm", "MaxPool"])
def test_packets_against_scalar_cpp(op: str, bits: int, htp: dict[str, Path], tmp_path: Path) -> None:
    shape = (1, 32, 32, 256) if op == "MaxPool" else (256, 1024)
    given = [*argument(tmp_path, "x", bits, shape), *quantized("x", bits), *quantized("y", bits)]
    for name in {"RmsNorm": ["gain"], "LayerNorm": ["gain", "bias"]}.get(op, []):
        given += [*argument(tmp_path, name, 8, (1024,)), *quantized(name, 8), "--dtype", f"{name}=UFIXED_POINT_8"]
    given += ["--shape", "y=1x16x16x256"] if op == "MaxPool" else []
    counts = {name: packets(package, op, given) for name, package in htp.items()}
    factor = counts["scalar"] / counts["python"]
    print(f"\n{op} of {bits} bits: {counts['python']:,} packets, in C++ {counts['scalar']:,}: {factor:.0f} times fewer")
    assert factor >= 10


def test_packets_of_ops_of_8_bits(htp: dict[str, Path], tmp_path: Path) -> None:
    shape = (1024, 1024)
    two = [*argument(tmp_path, "a", 8, shape), *argument(tmp_path, "b", 8, shape)]
    added = packets(htp["python"], "AddSatU8", two, "PythonKernels_AddSatU8")
    one = [*argument(tmp_path, "x", 8, shape), *quantized("x", 8), *quantized("y", 8)]
    unary = {op: packets(htp["python"], op, one) / (1 << 13) for op in ("LeakyRelu", "Gelu")}
    print(f"\nAddSatU8: {added:,} packets; for 128 bytes: {unary}")
    assert added <= 1.05 * (1 << 14) and max(unary.values()) <= 9.5


def test_packets_of_three_ways_to_write_an_op(htp: dict[str, Path], tmp_path: Path) -> None:
    """Print the table of README.md: AddSatU8 of 1 MiB; lines are those of the kernel's file that are not blank."""
    given = [each for name in "ab" for each in argument(tmp_path, name, 8, (1024, 1024))]
    examples = ROOT / "examples"
    by_hand = examples / "add_sat_u8"
    [made] = make_packages([by_hand / "AddSatU8.xml"], tmp_path, chosen=["htp"], kernels=by_hand / "kernels")
    rows = {
        "Python": (examples / "python_kernels/kernels/AddSatU8.py", packets(htp["python"], "AddSatU8", given)),
        "HVX": (by_hand / "kernels/htp/AddSatU8.cpp", packets(made.folder, "AddSatU8", [*given, "--kernel", "hvx"])),
        "C++": (by_hand / "kernels/AddSatU8.cpp", packets(made.folder, "AddSatU8", [*given, "--kernel", "main"])),
    }
    for name, (file, count) in rows.items():
        print(f"\n| {name} | {len([each for each in file.read_text().splitlines() if each.strip()])} | {count:,} |")
    assert rows["Python"][1] <= 1.1 * rows["HVX"][1] and rows["C++"][1] > 50 * rows["Python"][1]


# Op -> its inputs and its output, the type, and the packets for 128 bytes of the output at most, or products in a
# packet at least.
BYTES, WORDS = "UFIXED_POINT_8", "UFIXED_POINT_16"
LIMITS = [
    ("Add", {"a": (512, 1024), "b": (512, 1024)}, (512, 1024), BYTES, 12),
    ("Add", {"a": (512, 1024), "b": (512, 1024)}, (512, 1024), WORDS, 8),
    ("Multiply", {"a": (512, 1024), "b": (512, 1024)}, (512, 1024), BYTES, 14),
    ("Softmax", {"x": (256, 1024)}, (256, 1024), BYTES, 100),
    ("LayerNorm", {"x": (256, 1024), "gain": (1024,), "bias": (1024,)}, (256, 1024), BYTES, 97),
    ("DepthwiseConv", {"x": (1, 34, 34, 128), "weights": (3, 3, 128)}, (1, 32, 32, 128), BYTES, 40),
    ("Box", {"x": (130, 1026)}, (128, 1024), "UINT_8", 13.0),
    ("IntMatMul", {"a": (128, 512), "b": (512, 256)}, (128, 256), "UINT_8", 150),
    ("MatMul", {"a": (128, 512), "b": (512, 256)}, (128, 256), BYTES, 120),
    ("Linear", {"a": (128, 512), "b": (256, 512)}, (128, 256), BYTES, 120),
    ("Linear", {"a": (64, 2048), "b": (256, 2048)}, (64, 256), BYTES, 125),
    ("Conv", {"x": (1, 18, 18, 64), "weights": (3, 3, 64, 128)}, (1, 16, 16, 128), BYTES, 100),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shapes", "out", "kind", "limit"), LIMITS)
def test_packets_of_quantized_ops(
    op: str, shapes: dict[str, tuple[int, ...]], out: tuple[int, ...], kind: str, limit: int, tmp_path: Path
) -> None:
    """Count the packets of the functions of an op with quantized tensors, in relation to what it calculates."""
    config = SUMS / "Sums.xml" if (SUMS / "kernels" / f"{op}.py").is_file() else CONFIG
    [made] = make_packages([config], tmp_path / "out", chosen=["htp"], kernels=config.parent / "kernels", layout="qnn")
    bits, given = 16 if kind == WORDS else 8, ["--shape", f"y={'x'.join(map(str, out))}"]
    for name, shape in shapes.items():
        given += argument(tmp_path, name, bits, shape)
    if kind != "UINT_8":
        given += [bit for name in (*shapes, "y") for bit in quantized(name, bits)]
    found = packets(made.folder, op, given, f"_{op}_")
    is_product = op in ("IntMatMul", "MatMul", "Linear", "Conv")
    terms = int(np.prod([*shapes["weights"][:-1]] if op == "Conv" else shapes["a"][-1:])) if is_product else 1
    measured = terms * np.prod(out) / found if is_product else found * 128 / (np.prod(out) * bits / 8)
    unit = "products in a packet" if is_product else "packets for 128 bytes"
    print(f"\n{op} {kind} {out}: {found:,} packets, {measured:.1f} {unit}")
    assert measured >= limit if is_product else measured <= limit
