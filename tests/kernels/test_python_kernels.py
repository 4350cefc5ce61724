"""Kernels in Python: compiled by Halide, run in the runtimes; each error in a kernel has a message with its line."""

from __future__ import annotations

import json
import re
import shutil
import sys
from importlib import metadata
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.kernels.random_kernels import config, definition
from tests.making import ONE_OP, ROOT, make, make_packages, need_opencl, need_packets, need_runtime, open_package
from udogen import TestOptions, ToolMissing, UdogenError
from udogen.build.make import build_package
from udogen.kernels.objects import PythonKernels, compile_kernels
from udogen.python_files import load_module
from udogen.runtime.built import find_source
from udogen.runtime.op.request import CallOptions, make_call
from udogen.verify.options import SafetyOptions
from udogen.verify.safety.checks import SafetyChecks

pytest.importorskip("halide", reason="pip install '.[kernels]'")

EXAMPLE = ROOT / "examples" / "python_kernels"
RIGHT = """
import halide as hl
def LeakyRelu(input, output, alpha):
    i = hl.Var("i")
    output[i] = hl.select(input[i] > 0.0, input[i], alpha * input[i])
"""


def package(tmp_path: Path, source: str, backend: str = "cpu") -> Path:
    """Generate a package of one op with this kernel."""
    kernels = tmp_path / "kernels"
    kernels.mkdir(exist_ok=True)
    (kernels / "LeakyRelu.py").write_text(source)
    [made] = make_packages([ONE_OP], tmp_path / "out", chosen=[backend], kernels=kernels, layout="qnn")
    return made.folder


@pytest.mark.parametrize("backend", ["cpu", "gpu", "htp", "hexagon", "dsp"])
def test_examples_are_right(backend: str) -> None:
    if backend == "gpu":
        need_opencl()
    done = udogen("test", EXAMPLE, "--backend", backend)
    assert done.returncode == 0, done.stdout + done.stderr
    if backend == "hexagon":
        assert "built, not executed: PythonKernels_LeakyRelu_f32" in done.stdout


@pytest.mark.parametrize("backend", ["cpu", "hexagon", "htp-emulator"])  # the emulator calls kernels in several threads
def test_several_outputs_and_many_inputs(backend: str) -> None:
    done = udogen("test", Path(__file__).with_name("outputs"), "--backend", backend)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("backend", ["cpu", "htp", "hexagon"])
def test_sums_in_tiles(backend: str) -> None:
    done = udogen("test", Path(__file__).with_name("sums"), "--backend", backend)
    assert done.returncode == 0, done.stdout + done.stderr
    unexecuted = [line for line in done.stdout.splitlines() if "built, not executed" in line]
    names = [name for line in unexecuted for name in re.findall(r"Sums_\w+", line) if re.search("_u(8|16)", name)]
    # No drawn tensors fit a domain that begins at 1; its cases above execute it.
    assert {name.split("_")[1] for name in names} <= {"PartOfLines"}


def test_functions_without_tiles_are_named(tmp_path: Path) -> None:
    folder, steps = Path(__file__).with_name("sums"), list[str]()
    file = Path(shutil.copy(folder / "kernels" / "MatMul.py", tmp_path))
    kernels = PythonKernels("Sums", tmp_path, "htp", "qnn", (folder / "Sums.xml",), (file,))
    compile_kernels(kernels, ["hexagon-v73"], steps.append, 1)
    named = {name for step in steps for name in re.findall(r"^NO TILES (\w+) on hexagon-v73, .*: only", step)}
    assert named == {"Sums_MatMul_u16"}


OWN_ON_GPU = """
def schedule(machine, output):
    if machine.gpu:
        output.func.%s
    return machine.gpu
"""


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (RIGHT + OWN_ON_GPU % "gpu_tile(output.indices[0], hl.Var(), hl.Var(), 4, hl.TailStrategy.GuardWithIf)", ""),
        (RIGHT + OWN_ON_GPU % "compute_root()", "its schedule leaves a part of it to the processor"),
        (RIGHT.replace("alpha * input[i]", "hl.f32(input.stored(i))"), "takes elements of `input` as they are stored"),
    ],
)
def test_what_a_gpu_gets(kernel: str, reason: str, tmp_path: Path) -> None:
    need_opencl()
    steps: list[str] = []
    folder = package(tmp_path, kernel, "gpu")
    build_package(open_package(folder), on_step=steps.append)
    assert [reason in step for step in steps if step.startswith("NO GPU")] == [True] * bool(reason)
    np.save(tmp_path / "x.npy", np.arange(-7, 7, dtype=np.float32))
    arguments = ("--input", f"input={tmp_path / 'x.npy'}", "--output", f"output={tmp_path / 'y.npy'}")
    done = udogen("run", "op", folder, "LeakyRelu", *arguments, "--param", "alpha=0.5")
    if reason:
        assert done.returncode == 5 and reason in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert np.load(tmp_path / "y.npy").tolist() == [x / 2 if x < 0 else x for x in range(-7, 7)]


def test_a_kernel_has_at_most_15_lines() -> None:
    kernels = sorted((EXAMPLE / "kernels").glob("*.py"))
    functions = {kernel.stem: kernel.read_text().partition("@udogen.kernel\n")[2] for kernel in kernels}
    lengths = {name: sum(1 for line in text.splitlines() if line.strip()) for name, text in functions.items()}
    assert len(lengths) == 21 and max(lengths.values()) <= 15, lengths
    page = (ROOT / "docs" / "kernels-gallery.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", page, re.MULTILINE))
    assert rows == {name: str(length) for name, length in lengths.items()}


def test_plain_make_needs_no_halide_once_it_was_built(tmp_path: Path) -> None:
    folder = package(tmp_path, RIGHT)
    refused = make(folder)
    assert refused.returncode != 0 and "udogen build" in refused.stderr
    steps: list[str] = []
    build_package(open_package(folder), on_step=steps.append)
    steps.clear()
    build_package(open_package(folder), on_step=steps.append)
    assert steps == []  # nothing is recompiled
    make(folder, "clean")
    done = make(folder)  # warnings are errors
    assert done.returncode == 0, done.stderr
    # Generated again without --kernels, the package keeps it.
    [again] = make_packages([ONE_OP], tmp_path / "out", chosen=["cpu"], layout="qnn")
    assert {change.action for change in again.changes} == {"unchanged"}


def test_a_kernel_of_one_backend_in_cpp_is_preferred(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    (kernels / "cpu").mkdir(parents=True)
    (kernels / "LeakyRelu.py").write_text(RIGHT)
    (kernels / "cpu" / "LeakyRelu.cpp").write_text("// mine")
    [made] = make_packages([ONE_OP], tmp_path / "out", chosen=["cpu"], kernels=kernels, layout="qnn")
    assert made.rendered["src/ops/LeakyRelu.cpp"] == b"// mine"
    assert "src/ops/LeakyRelu.py" not in made.rendered


FUNCTION = """
    f = hl.Func("f")
    f[i] = input[i]
    output[i] += f[i]
"""
AUTO = (
    RIGHT
    + """
from udogen.kernels import Autoschedule
schedule = Autoschedule("Adams2019", input=(1024, 64), output=(1024, 64))
"""
)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (RIGHT.replace("alpha):", "alhpa):"), "LeakyRelu.py:3: LeakyRelu() takes `alhpa`, which the op does not have"),
        (RIGHT.replace("def LeakyRelu", "def leaky"), "LeakyRelu.py:1: it defines no function `LeakyRelu`"),
        (RIGHT.replace("input, output", "input"), "LeakyRelu.py:3: LeakyRelu() does not take the output `output`"),
        (RIGHT.replace("input,", "input: 3,"), "`input` of LeakyRelu() is annotated with 3, which is not a view"),
        (RIGHT.replace("input[i] >", "input[i, i] >"), "LeakyRelu.py:5: `input` is taken as Flat(): it has 1 ind"),
        (RIGHT.replace("output[i] =", "input[i] ="), "LeakyRelu.py:5: `input` is an input"),
        (RIGHT.replace("output[i] =", "x ="), "LeakyRelu.py:3: LeakyRelu() writes nothing to `output`"),
        (RIGHT.replace("> 0.0", "> hl.Var('j')"), "LeakyRelu.py:5: an element depends on a variable that"),
        (RIGHT.replace("input[i] >", "input[hl.i32(input[i])] >"), "LeakyRelu.py:5: Buffer input may be"),
        (RIGHT + FUNCTION + "    f.compute_at(output.func, hl.Var('k'))\n", 'LeakyRelu.py:7: Func "f'),
        (RIGHT + FUNCTION.replace("= f[i]", "= f[hl.i32(input[i])]"), "LeakyRelu.py:9: Buffer input may"),
        (RIGHT.replace("alpha):", "alpha=0.5):"), "`alpha` of LeakyRelu() is 0.5 by default, and 0.01 in the"),
        (RIGHT + "    (", "LeakyRelu.py:6: '(' was never closed"),
        (RIGHT + "    import os; os.abort()", "LeakyRelu.py:6: it ended the process that compiles it with SIGABRT"),
        (RIGHT + "    bytes(5 << 30)", "without vectors: the compiler took more than 4 GB of memory; keep"),
        (AUTO.replace("Adams", "Adam"), "'Adam2019' is not an autoscheduler: Halide has Adams2019, Li2018"),
        (AUTO.replace("output=", "outputs="), "LeakyRelu.py:8: Adams2019 is given a size of `outputs`, which the op"),
        (AUTO.replace("output=", "alpha="), "LeakyRelu.py:8: Adams2019 needs a typical shape of `output`: output=(…"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_kernel(tmp_path: Path, wrong: str, message: str) -> None:
    with pytest.raises(UdogenError) as found:
        build_package(open_package(package(tmp_path, wrong)))
    assert message in found.value.message


def test_vectors_that_take_too_much_memory(tmp_path: Path) -> None:
    kernel, steps = RIGHT + "    bytes(5 << 30 if input.lanes > 1 else 0)", list[str]()
    build_package(open_package(package(tmp_path, kernel)), on_step=steps.append)
    reasons = {step.partition(": ")[2] for step in steps if step.startswith("SCALAR")}
    assert [reason.partition(";")[0] for reason in reasons] == ["the compiler took more than 4 GB of memory"]


def test_a_schedule_of_halides_own(tmp_path: Path) -> None:
    need_runtime("cpu")
    folder = package(tmp_path, AUTO)
    steps: list[str] = []
    build_package(open_package(folder), on_step=steps.append)
    assert not [step for step in steps if step.startswith("SCALAR")]
    for size in (3, 100, 1000):  # 3 are less than a tile of the autoscheduler
        np.save(tmp_path / "x.npy", np.arange(-1, size - 1, dtype=np.float32))
        arguments = ("--input", f"input={tmp_path / 'x.npy'}", "--output", f"output={tmp_path / 'y.npy'}")
        done = udogen("run", "op", folder, "LeakyRelu", *arguments, "--param", "alpha=0.5")
        assert done.returncode == 0, done.stderr
        assert np.load(tmp_path / "y.npy").tolist() == [-0.5, *range(size - 1)]


def test_a_sanitizer_checks_functions_of_halide(tmp_path: Path) -> None:
    need_runtime("cpu")
    past = "there = hl.unsafe_promise_clamped(i + 5, 0, input.size - 1)\n    output[i] = input[there] +"
    folder = package(tmp_path, RIGHT.replace("output[i] =", past))
    built = find_source(folder, backend="cpu")
    inputs = {"input": np.zeros((5, 13), np.float32)}
    call = make_call(built.op("LeakyRelu", "cpu"), built, "LeakyRelu", CallOptions(inputs=inputs))
    safety = SafetyOptions.parse(heap=False, guard=False, sanitize=["address"])
    with SafetyChecks(built, TestOptions(safety=safety)) as checks:
        [found] = checks.check(call)
    assert found.message == (
        "op `LeakyRelu` uses memory that is not its own: heap-buffer-overflow, in `LeakyReluPackage_LeakyRelu_f32`"
    )
    assert "READ of size 32" in found.evidence and "260-byte region" in found.evidence


def test_division_on_hvx() -> None:
    """HVX has no division; its replacement is executed on this machine's processor, with equally strict floats."""
    import halide as hl

    from udogen.kernels.math import inverse

    given, i, found = hl.ImageParam(hl.Float(32), 1, "given"), hl.Var("i"), hl.Func("found")
    found[i] = inverse(given[i])
    target = hl.Target("host-strict_float-jit")

    def inverses(numbers: np.ndarray) -> np.ndarray:
        given.set(hl.Buffer(numbers))
        return np.array(found.realize([numbers.size], target))

    random = np.random.default_rng(0)
    mantissas, powers = random.uniform(1, 2, 1 << 16), random.integers(-126, 126, 1 << 16)
    numbers = (mantissas * 2.0**powers * random.choice([-1, 1], 1 << 16)).astype(np.float32)
    exact = 1 / numbers.astype(np.float64)
    assert np.all(np.abs(inverses(numbers) - exact) <= 2 * np.spacing(np.abs(exact).astype(np.float32)))
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(inverses(special), [np.inf, -np.inf, 0, 0, np.nan])


def test_without_halide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(ToolMissing, match="Halide is not installed"):
        build_package(open_package(package(tmp_path, RIGHT)))
    monkeypatch.setitem(sys.modules, "halide", None)
    with pytest.raises(ToolMissing, match="needs the Python package halide") as caught:
        load_module(EXAMPLE / "kernels/Softmax.py")
    assert "[kernels]" in caught.value.hint


def test_a_tensor_that_is_too_small(tmp_path: Path) -> None:
    need_runtime("cpu")
    config = ROOT / "examples" / "add_sat_u8" / "AddSatU8.xml"
    [made] = make_packages([config], tmp_path / "out", chosen=["cpu"], kernels=EXAMPLE / "kernels", layout="qnn")
    build_package(open_package(made.folder))
    for name, size in (("a", 16), ("b", 8)):
        np.save(tmp_path / f"{name}.npy", np.zeros(size, np.uint8))
    inputs = (part for name in "ab" for part in ("--input", f"{name}={tmp_path / name}.npy"))
    done = udogen("run", "op", made.folder, "AddSatU8", *inputs)
    assert done.returncode == 5 and "b is accessed at 0 to 15, and has 0 to 7 (AddSatU8.py:" in done.stderr, done.stderr


OPTIONAL = """<?xml version="1.0"?>
<OpDefCollection PackageName="Sums" Domain="example" Version="1.0"><OpDefList><OpDef><Name>Sum</Name>
%s
<Output><Name>y</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
<Shape><Rank>ND</Rank></Shape></Output>
<Parameter><Name>mode</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_STRING</Datatype>
<Shape><Rank>SCALAR</Rank></Shape><Default>a</Default></Parameter>
<SupportedBackend>CPU</SupportedBackend></OpDef></OpDefList></OpDefCollection>
"""
INPUT = """<Input><Name>%s</Name><Mandatory>%s</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
<Shape><Rank>ND</Rank></Shape>%s</Input>"""
SUM = """
import halide as hl
def Sum(x, more, y):
    i = hl.Var("i")
    y[i] = x[i] * 2.0 if more is None else x[i] + more[i]
def schedule(machine, y):
    y.func.vectorize(y.indices[0], 4, hl.TailStrategy.GuardWithIf)
    return True
"""


def sums(tmp_path: Path, source: str, repeated: str = "") -> Path:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "Sum.py").write_text(source)
    config = tmp_path / "Sums.xml"
    config.write_text(OPTIONAL % (INPUT % ("x", "true", "") + INPUT % ("more", "false", repeated)))
    [made] = make_packages([config], tmp_path / "out", chosen=["cpu"], kernels=tmp_path / "kernels", layout="qnn")
    return made.folder


def test_an_optional_input_and_a_schedule_of_its_own(tmp_path: Path) -> None:
    need_runtime("cpu")
    folder = sums(tmp_path, SUM)
    build_package(open_package(folder))
    for name in ("x", "more"):
        np.save(tmp_path / f"{name}.npy", np.arange(7, dtype=np.float32))
    for inputs, factor in ((["x"], 2), (["x", "more"], 2)):
        given = (part for name in inputs for part in ("--input", f"{name}={tmp_path / name}.npy"))
        done = udogen("run", "op", folder, "Sum", *given, "--output", f"y={tmp_path / 'y.npy'}")
        assert done.returncode == 0, done.stderr
        assert np.load(tmp_path / "y.npy").tolist() == [factor * each for each in range(7)]


@pytest.mark.parametrize(
    ("source", "repeated", "message"),
    [
        (SUM, "<Repeated>true</Repeated>", "Sum.py:3: Sum() takes `more`, which is repeated"),
        (SUM.replace("x, more", "x, mode, more"), "", "Sum.py:3: Sum() takes `mode`, which is a text"),
        (SUM.replace("return True", "y.func.vectorize(3)"), "", "Sum.py:8: "),
    ],
)
def test_what_a_kernel_cannot_take(tmp_path: Path, source: str, repeated: str, message: str) -> None:
    with pytest.raises(UdogenError) as found:
        build_package(open_package(sums(tmp_path, source, repeated)))
    assert message in found.value.message


@pytest.mark.parametrize("machine", ["aarch64-linux-gnu", "opencl"])
def test_explain_in_80_columns(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    kernel, config = EXAMPLE / "kernels" / "LeakyRelu.py", EXAMPLE / "PythonKernels.xml"
    done = udogen("inspect", kernel, "--config", config, "--machine", machine)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    if machine == "opencl":
        assert lines == [
            "opencl (gpu)",
            "  PythonKernels_LeakyRelu_f32",
        ]
    else:  # excludes checks of tensors before the loop, which have shifts in vectors
        assert lines[2:4] == [
            "    vector instructions in loops: 2 load and store, 1 compare, 1 multiply, 1",
            "                                  select and bits",
        ]


def test_explain() -> None:
    kernel, config = EXAMPLE / "kernels" / "AddSatU8.py", EXAMPLE / "PythonKernels.xml"
    done = udogen("inspect", kernel, "--config", config, "--machine", "emulated-v68", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    [one, aligned] = found["functions"]
    assert aligned["name"] == "PythonKernels_AddSatU8_u8_aligned" and aligned["why"] == ""
    assert one["instructions"]["add and subtract"] > 0
    refused = udogen("inspect", kernel, "--config", EXAMPLE / "IndexKernels.xml")
    assert refused.returncode == 2 and "is named `AddSatU8`" in refused.stderr


_REDUCED = {"of_elements": "x[k]", "of_products": "x[k] * x[k]", "of_negated": "-x[k]"}


def write_project(folder: Path, package: str, ops: list[str], references: list[str], cases: list[str]) -> None:
    (folder / f"{package}.xml").write_text(config(package, ops))
    (folder / "reference.py").write_text("\n".join(references))
    (folder / "op_tests.toml").write_text("\n".join([f'config = "{package}.xml"', 'kernels = "kernels"', *cases]))


def test_values_of_rows_in_fixed_point(tmp_path: Path) -> None:
    """Each alone is the output: in a sum with other numbers a wrong one could stay below the tolerance."""
    need_packets()
    types = {"of_elements": "SFIXED_POINT_8", "of_products": "UFIXED_POINT_8", "of_negated": "UFIXED_POINT_16"}
    ops, cases, references = [], list[str](), ["import numpy as np", "k = slice(None)"]
    (tmp_path / "kernels").mkdir()
    for (name, term), kind in product(_REDUCED.items(), ("min", "max", "mean")):
        op, dtype = f"{kind}_{name}", types[name]
        ops.append(definition(op, {"x": dtype}, {"y": dtype}))
        (tmp_path / "kernels" / f"{op}.py").write_text(
            "import halide as hl\nfrom udogen.kernels import Rows\n"
            f"def {op}(x: Rows, y: Rows):\n    k = hl.Var('k')\n    y[k] = x.{kind}(lambda k: {term})\n"
        )
        references.append(f"def {op}(x):\n    return np.broadcast_to(({term}).{kind}(axis=-1, keepdims=True), x.shape)")
        step, offset = (2 / 65535, -32768) if dtype == "UFIXED_POINT_16" else (2 / 255, 0 if dtype[0] == "S" else -128)
        grid = f"{{ scale = {step}, offset = {offset} }}"
        cases.append(
            f'[[op]]\nname = "{op}"\nreference = "reference.py:{op}"\n[[op.case]]\nshape = ["1", "2x130", "3x257"]\n'
            f'values = "uniform(0.3, 0.9)"\nquant = {{ x = {grid}, y = {grid} }}'
        )
    write_project(tmp_path, "Rows", ops, references, cases)
    done = udogen("test", tmp_path, "--backend", "htp,hexagon")
    assert "54 passed" in done.stdout, done.stdout + done.stderr


def test_narrowed_integers_of_floats(tmp_path: Path) -> None:
    """Out of the range of the narrow type, integers keep their low bits, also after a function that is inlined."""
    wide, narrow = ("i32", "u32"), ("u8", "i8", "u16", "i16")
    ops, cases, references = [], list[str](), ["import numpy as np"]
    (tmp_path / "kernels").mkdir()
    pairs = [*product(wide, narrow), ("i16", "u8"), ("u16", "i8")]
    for backend, (first, last) in product(("CPU", "HTP", "GPU"), pairs):
        op, most = f"{backend}_{first}_{last}", 30_000 if "16" in first else 131_072
        ops.append(definition(op, {"x": "FLOAT_32"}, {"y": "INT_32", "z": "INT_32"}, backend))
        (tmp_path / "kernels" / f"{op}.py").write_text(
            "import halide as hl\nfrom udogen.kernels import Flat\n"
            f"def {op}(x: Flat, y: Flat, z: Flat):\n    i, whole = hl.Var('i'), hl.Func('whole')\n"
            f"    y[i] = hl.i32(hl.{last}(hl.{first}(x[i])))\n"
            f"    whole[i] = hl.{first}(x[i])\n    z[i] = hl.i32(hl.{last}(whole[i]))\n"
        )
        kind = last.replace("u", "uint") if last[0] == "u" else last.replace("i", "int")
        references.append(f"def {op}(x):\n    return (x.astype('int64').astype('{kind}').astype('int32'),) * 2")
        low = 0 if first[0] == "u" else -most
        cases.append(
            f'[[op]]\nname = "{op}"\nreference = "reference.py:{op}"\n[[op.case]]\nshape = ["3", "1000"]\n'
            f'values = "uniform({low}, {most})"'
        )
    write_project(tmp_path, "Narrow", ops, references, cases)
    done = udogen("test", tmp_path, "--backend", "cpu,htp,gpu")
    assert "60 passed" in done.stdout, done.stdout + done.stderr
