"""ExecuTorch: the printed code runs on ExecuTorch's own Python (from its wheel, without torch), its options and
udogen's rules.  Where torch and a full ExecuTorch are installed, its Qualcomm backend lowers models with a package of
udogen on the real libQnnHtp.so, its runtime runs them, and udogen executes the contexts in their .pte files.

Without torch, operators and graphs are stand-ins of a few lines.  The second half runs where UDOGEN_TEST_EXECUTORCH
names a Python with torch, executorch 1.5 and what udogen needs, and is skipped elsewhere: torch is 0.5 GB.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import wheels
from tests.clients.laying import AWKWARD, AWKWARD_FOLDER, PLAIN, lay
from tests.making import LONG, ONE_KERNEL, ONE_OP, ROOT, cpu_package, htp_package, udogen
from udogen.clients import programs
from udogen.clients.client import Refused, register
from udogen.clients.executorch import NotDelegated, check_delegated, op_package_options, proving
from udogen.clients.package import PackageOptions, find_packages
from udogen.errors import ToolMissing
from udogen.runtime.execution_counts import NoCounter, NotExecuted

QC_SCHEMA = "executorch.backends.qualcomm.serialization.qc_schema"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay(PLAIN, tmp_path_factory.mktemp("packages") / "plain")


@pytest.fixture
def executorch(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make ExecuTorch's own modules importable in this process."""
    path = wheels.executorch()
    monkeypatch.syspath_prepend(str(path))
    return path


def operator(schema: str) -> Any:
    """Return a stand-in for an operator of torch: `demo.leaky.default(Tensor input, *, float alpha) -> 1`."""
    name, _, rest = schema.partition("(")
    inside, _, returns = rest.partition(") -> ")
    arguments, keyword_only = [], False
    for each in inside.split(", "):
        keyword_only |= each == "*"
        if each != "*":
            type, _, argument = each.partition(" ")
            arguments.append(SimpleNamespace(name=argument, type=type, kwarg_only=keyword_only))

    class Operator:
        _schema = SimpleNamespace(arguments=arguments, returns=[None] * int(returns))

        def __str__(self) -> str:
            return name

    return Operator()


LEAKY = "demo.leaky.default(Tensor input, float alpha) -> 1"

# --- the printed code, on ExecuTorch's Python ---------------------------------------------------------

# The printed code only needs a name of torch.
_TORCH = """
import sys, types
class Name:
    def __init__(self, text=""): self.text = text
    def __getattr__(self, name): return Name(f"{self.text}.{name}".lstrip("."))
    def __str__(self): return self.text
torch = types.ModuleType("torch")
torch.ops = Name()
sys.modules["torch"] = torch
"""


@pytest.mark.parametrize("options", [PackageOptions(), PackageOptions("v75", android=True)], ids=["pc", "device"])
@pytest.mark.parametrize(("config", "folder"), [(PLAIN, "plain"), (AWKWARD, AWKWARD_FOLDER)], ids=["plain", "awkward"])
def test_the_code_we_print_makes_the_options(
    config: Path, folder: str, options: PackageOptions, tmp_path: Path
) -> None:
    """By hand, and through custom_op.interface, which reads the config through `udogen.compat.qti`."""
    out = lay(config, tmp_path / folder)
    packages = find_packages([out], options)
    setup = register(programs.ALL["executorch"], packages)
    by_hand, over_interface = (part.text for part in setup.snippets if part.kind in ("python", "builder"))
    program = tmp_path / "program.py"
    show = "print(op_package_options)\n"
    program.write_text(f"{_TORCH}\n{by_hand}\n{show}\n{over_interface}\n{show}", "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(wheels.executorch())])}
    done = subprocess.run(
        [sys.executable, "-m", "udogen.compat.qti", str(program)],
        cwd=tmp_path,
        env={**environment, "PYTHONIOENCODING": "utf-8:surrogateescape"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert sorted(_infos(first)) == sorted(_infos(second))  # its loops are nested the other way round
    assert len(_infos(first)) == (3 if options.android else 1) * len(packages[0].ops)
    assert done.stderr == "note: qti.aisw.op_package_generator is udogen's\n"


def _infos(text: str) -> list[str]:
    return [each.rstrip("), ]") for each in text.split("QnnExecuTorchOpPackageInfo(")[1:]]


def test_without_udogens_its_interface_needs_the_sdk(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(wheels.executorch())}
    code = "import executorch.backends.qualcomm.custom_op.interface"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "Failed to import QnnOpPackageGenerator" in done.stderr


# --- the options, from Python -------------------------------------------------------------------------


def test_options_of_a_pc(executorch: Path, plain: Path) -> None:
    options = op_package_options([plain], {"LeakyRelu": operator(LEAKY)})
    schema = sys.modules[QC_SCHEMA]
    assert Path(schema.__file__ or "").is_relative_to(executorch)
    folder = plain / "LeakyReluPackage" / "build" / "x86_64-linux-clang"
    assert isinstance(options, schema.QnnExecuTorchOpPackageOptions)
    assert options.op_package_infos == [
        schema.QnnExecuTorchOpPackageInfo(
            op_package_name="LeakyReluPackage",
            op_package_path=str(folder / "libQnnLeakyReluPackage.so"),
            interface_provider="LeakyReluPackageInterfaceProvider",
            target=schema.QnnExecuTorchOpPackageTarget.CPU,
            custom_op_name="demo.leaky.default",
            qnn_op_type_name="LeakyRelu",
            platform=schema.QnnExecuTorchOpPackagePlatform.X86_64,
        )
    ]


@pytest.mark.usefixtures("executorch")
def test_options_of_a_device(plain: Path) -> None:
    """The three libraries of an op: the one that prepares it on the PC, and on the device those for ARM and Hexagon."""
    made = op_package_options([plain], {"LeakyRelu": "aten.leaky_relu.default"}, target="v75", folder="/data/ops")
    assert [(each.platform.name, each.target.name, each.op_package_path) for each in made.op_package_infos] == [
        ("X86_64", "CPU", f"{plain}/LeakyReluPackage/build/x86_64-linux-clang/libQnnLeakyReluPackage.so"),
        ("AARCH64_ANDROID", "CPU", "/data/ops/libQnnLeakyReluPackage.so"),
        ("AARCH64_ANDROID", "HTP", "/data/ops/libQnnLeakyReluPackage_HTP.so"),
    ]
    assert {each.custom_op_name for each in made.op_package_infos} == {"aten.leaky_relu.default"}


BROKEN = [
    ("demo.leaky(Tensor input, float alpha) -> 1", ["overload"], "`demo.leaky` is not the name of one operator"),
    (
        "demo.leaky.default(Tensor input, float slope) -> 1",
        ["parameters"],
        "demo.leaky.default has the parameters slope, and op LeakyRelu alpha",
    ),
    (
        "demo.leaky.default(Tensor input, float alpha, int more) -> 1",
        ["parameters"],
        "demo.leaky.default has the parameters alpha, more, and op LeakyRelu alpha",
    ),
    (
        "demo.leaky.default(Tensor input, int alpha) -> 1",
        ["types"],
        "argument alpha of demo.leaky.default is of type int, and parameter alpha FLOAT_32",
    ),
    (
        "demo.leaky.default(Tensor input, List[float] alpha) -> 1",
        ["types"],
        "argument alpha of demo.leaky.default is a list",
    ),
    (
        "demo.leaky.default(Tensor input, *, float alpha) -> 1",
        ["keyword-only"],
        "argument alpha of demo.leaky.default is keyword-only",
    ),
    (
        "demo.leaky.default(Tensor input, Tensor other, float alpha) -> 2",
        ["inputs", "outputs"],
        "demo.leaky.default has 2 tensors, and op LeakyRelu 1",
    ),
]


@pytest.mark.usefixtures("executorch")
@pytest.mark.parametrize(("schema", "rules", "sentence"), BROKEN, ids=[each[1][0] for each in BROKEN])
def test_an_operator_that_differs_from_the_config(plain: Path, schema: str, rules: list[str], sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        op_package_options([plain], {"LeakyRelu": operator(schema)})
    assert caught.value.message == f"ExecuTorch: {sentence}"
    assert list(caught.value.rules) == rules


@pytest.mark.usefixtures("executorch")
@pytest.mark.parametrize("argument", ["float alpha", "Optional[float] alpha", "number alpha"])
def test_an_operator_that_is(plain: Path, argument: str) -> None:
    assert op_package_options([plain], {"LeakyRelu": operator(f"demo.leaky.default(Tensor input, {argument}) -> 1")})
    assert op_package_options([plain], {"LeakyRelu": operator("demo.leaky.default(Tensor input) -> 1")})


def test_without_executorch_the_error_names_it(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, QC_SCHEMA, None)
    with pytest.raises(ToolMissing, match="ExecuTorch's Qualcomm backend cannot be imported: ModuleNotFoundError"):
        op_package_options([plain], {"LeakyRelu": "demo.leaky.default"})


# --- what was lowered ---------------------------------------------------------------------------------


def _program(*names: str, made: bytes = b"") -> Any:
    """Return a stand-in for an ExportedProgram: the names of its nodes, and the binary that QNN made."""
    nodes = [SimpleNamespace(op="call_function", target=SimpleNamespace(__name__=name)) for name in names]
    lowered = SimpleNamespace(backend_id="QnnBackend", processed_bytes=made)
    other = SimpleNamespace(backend_id="Other", processed_bytes=b"LeakyReluPackage::LeakyRelu")
    return SimpleNamespace(
        graph=SimpleNamespace(nodes=[SimpleNamespace(op="placeholder", target="x"), *nodes]),
        graph_module=SimpleNamespace(modules=lambda: [SimpleNamespace(), lowered, other]),
    )


CONTEXT = b"\x02\0LeakyReluPackage::LeakyRelu_hvx_0_2\0"


@pytest.fixture
def options(executorch: Path, plain: Path) -> Any:
    return op_package_options([plain], {"LeakyRelu": "demo.leaky.default"}, target="v75")


def test_what_was_not_lowered_is_an_error(options: Any) -> None:
    check_delegated(_program("executorch_call_delegate", "getitem", made=CONTEXT), options)
    left = _program("demo.leaky.default", "executorch_call_delegate", "demo.leaky.default", made=CONTEXT)
    with pytest.raises(NotDelegated) as caught:
        check_delegated(left, options)
    assert caught.value.message == "not lowered to QNN: demo.leaky.default (2 nodes)"
    assert caught.value.exit_code == 5
    programs = {"forward": _program(made=CONTEXT), "other": left}
    manager = SimpleNamespace(methods={"forward", "other"}, exported_program=programs.get)
    with pytest.raises(NotDelegated, match=r"demo\.leaky\.default \(2 nodes\)"):
        check_delegated(manager, options)


@pytest.mark.parametrize(
    "made", [b"", b"LeakyRelu", b"LeakyReluPackage", b"LeakyReluPackage::LeakyRelu6_hvx_0_2 LeakyRelu"]
)
def test_what_was_replaced_before_it_was_lowered_is_an_error(options: Any, made: bytes) -> None:
    with pytest.raises(NotDelegated) as caught:
        check_delegated(_program("executorch_call_delegate", made=made), options)
    assert caught.value.message == "demo.leaky.default was not lowered as op LeakyRelu of package LeakyReluPackage"
    assert caught.value.hint.startswith(
        "the model does not have it, or it was replaced before: torch.export decomposes"
    )


def test_a_dlc_names_package_and_op_apart(options: Any) -> None:
    check_delegated(_program("executorch_call_delegate", made=b"PK\3\4 LeakyReluPackage\0\0LeakyRelu\0"), options)


def test_an_execution_without_our_op_is_no_proof(tmp_path: Path) -> None:
    """The counters of a real package, here a CPU one; the second half of this file checks that they rise."""
    built = cpu_package(ONE_OP, tmp_path, ONE_KERNEL)
    info = SimpleNamespace(
        op_package_name="LeakyReluPackage",
        op_package_path=str(built.library),
        interface_provider=built.provider,
        qnn_op_type_name="LeakyRelu",
        platform=SimpleNamespace(name="X86_64"),
    )
    options = SimpleNamespace(op_package_infos=[info])
    with pytest.raises(NoCounter, match="is not loaded in this process"), proving(options):
        pass
    loaded = ctypes.CDLL(str(built.library))
    with pytest.raises(NotExecuted) as caught, proving(options):
        assert loaded
    assert caught.value.message == "not executed by the program: LeakyRelu of package LeakyReluPackage"


# --- complete ExecuTorch ------------------------------------------------------------------------------

# ExecuTorch 1.5 passes the processor in a struct of SDK 2.37; of the libraries on PyPI, those of this wheel (SDK
# 2.49) read it there.
QNN = "onnxruntime-qnn==2.5.0"
_QNN_PARTS = (
    *(f"onnxruntime_qnn/{name}" for name in ("libQnnHtp.so", "libQnnSystem.so")),
    *(
        f"onnxruntime_qnn.libs/{name}"
        for name in ("libc++-71bc274c.so.1.0", "libc++abi-0539aa51.so.1.0", "libunwind-6b740a46.so.1.0")
    ),
)
SHIFT = Path(__file__).with_name("shift")
LEAKY_KERNELS = ROOT / "examples" / "leaky_relu" / "kernels"


def _python() -> str:
    """Return a Python with torch and ExecuTorch, or skip the test."""
    if not (given := os.environ.get("UDOGEN_TEST_EXECUTORCH")):
        pytest.skip("UDOGEN_TEST_EXECUTORCH names no Python with torch and executorch")
    return given


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the folder of the lowered models, and the result of each case."""
    python = _python()
    folder = tmp_path_factory.mktemp("executorch")
    htp_package(PLAIN, folder / "leaky", LEAKY_KERNELS)
    htp_package(SHIFT / "Shift.xml", folder / "shift", SHIFT / "kernels")
    paths = [str(_qnn() / "onnxruntime_qnn"), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {
        "PYTHONPATH": str(ROOT),
        "LD_LIBRARY_PATH": ":".join(filter(None, paths)),
        "QNN_SDK_ROOT": "",  # or it would download an SDK
    }
    done = subprocess.run(
        [python, str(Path(__file__).with_name("executorch_child.py")), folder, folder / "leaky", folder / "shift"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert "\nANSWERS " in done.stdout, done.stderr[-3000:]
    return folder, json.loads(done.stdout.rpartition("\nANSWERS ")[2])


def _qnn() -> Path:
    return wheels.parts_of(QNN, "manylinux_2_35_x86_64", {part: part for part in _QNN_PARTS})


def _reply(folder: Path, case: str, library: str) -> np.ndarray[Any, Any]:
    """Return the output of the context in a .pte, executed in the real libQnnHtp.so."""
    [package] = (folder / library).rglob("libQnn*.so")
    out = folder / case / "out"
    done = udogen(
        "run", "context", folder / case / "forward_0.bin", "--op-package", package, "--soc", "SM8650",
        "--qnn-lib", _qnn() / "onnxruntime_qnn" / "libQnnHtp.so",
        "--input", f"input_0_x@0={folder / case / 'x.npy'}", "--output-dir", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [reply] = out.rglob("*.npy")
    return np.load(reply)


@pytest.mark.parametrize(("case", "library", "off"), [
    ("alone", "leaky", 2e-3),  # the graph has 16-bit floats
    ("interface", "leaky", 2e-3),
    ("quantized", "leaky", 0.012),  # two steps of its output
    ("scalars", "shift", 2e-2),
])  # fmt: skip
def test_a_model_with_our_op_is_lowered_and_run_and_its_numbers_are_right(
    lowered: tuple[Path, dict[str, str]], case: str, library: str, off: float
) -> None:
    folder, replies = lowered
    assert replies[case] == "fine"
    want = np.load(folder / case / "want.npy")
    np.testing.assert_allclose(np.load(folder / case / "runtime.npy"), want, rtol=0, atol=off)
    np.testing.assert_allclose(_reply(folder, case, library), want, rtol=0, atol=off)


@pytest.mark.parametrize(("case", "value"), [("list", 700.0 - 1400.0), ("order", -2.0)])
def test_what_our_rules_refuse_gives_wrong_numbers(
    lowered: tuple[Path, dict[str, str]], case: str, value: float
) -> None:
    """[1, 2, 3] arrives as [1, 0, 2]; (3, true) in another order as (1, true)."""
    folder, replies = lowered
    assert replies[case] == "fine"
    wrong = _reply(folder, case, "shift") - np.load(folder / case / "want.npy")
    np.testing.assert_allclose(wrong, np.full_like(wrong, value), atol=0.6)


def test_what_is_not_lowered_is_an_error_on_the_real_thing(lowered: tuple[Path, dict[str, str]]) -> None:
    _, replies = lowered
    for case in ("left out", "no library"):
        assert replies[case] == "NotDelegated: not lowered to QNN: demo.leaky.default (1 node)"
    lost = "is not in what was lowered as op LeakyRelu of package LeakyReluPackage"
    assert replies["taken apart"] == f"NotDelegated: demo.apart.default {lost}"
    assert replies["built in"] == f"NotDelegated: aten.leaky_relu.default {lost}"
    assert replies["refused"] == "Refused: ExecuTorch: argument each of demo.lists.default is a list"
