"""A handwritten QHPI package: its arguments, the same in libQnnHtp (in a child) and in the emulator; refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.emulator import htp_drive
from tests.making import ROOT, compiler, need_runtime
from udogen import GraphBuilder, UsageError, resources
from udogen.qnn import abi, socs
from udogen.qnn.handles import BackendHandle, ContextHandle, DeviceHandle, GraphHandle, LogHandle, ProfileHandle
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor
from udogen.runtime import ModelDescription, OpConfig, QnnError, Runtime, find_runtime

FFI = abi.ffi()
SOURCE = ROOT / "tests/emulator/htp_probe.cpp"


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("probe") / "libQnnProbe.so"
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", f"-I{resources.qnn_headers()}"]
    command = [*compiler("g++").split(), *flags, str(SOURCE), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return library


@pytest.fixture(scope="module")
def interface() -> Interface:
    return Interface.load(find_runtime("htp", runtime="emulator").path)


@pytest.fixture
def backend(interface: Interface, log_lines: list[str], probe: Path) -> Iterator[BackendHandle]:
    with (
        LogHandle(interface, lambda _level, text: log_lines.append(text)) as log,
        BackendHandle(interface, log) as opened,
    ):
        opened.register(probe, "ProbeInterfaceProvider")
        yield opened


# --- the same as in libQnnHtp -------------------------------------------------------------------------------------

EIGHT = [0.1, -10]
PAIRS = [1, 4, 4, 8]
ROWS: list[dict[str, Any]] = [
    *({"op": "Flat4", "shape": shape} for shape in ([24], [6, 4], [2, 3, 4], [1, 2, 3, 4], [1, 1, 2, 3, 4])),
    *({"op": "Flat5", "shape": shape} for shape in ([1, 2, 3, 2, 2], [2, 3, 4])),
    *({"op": op} for op in ("Ddr", "Tcm", "Either", "Nope")),
    *({"op": "Flat4", "dtype": dtype} for dtype in htp_drive.NUMPY),
    *({"op": "Flat4", "dtype": f"{sign}FIXED_POINT_{bits}", "quant": EIGHT} for sign in "SU" for bits in (8, 16, 32)),
    *({"op": "Flat4", "params": [[dtype, 1]]} for dtype in ("FLOAT_32", "INT_32", "UINT_32", "UINT_8", "INT_8")),
    *({"op": "Flat4", "params": [[dtype, 1]]} for dtype in ("INT_16", "UINT_16", "BOOL_8")),
    {"op": "Flat4", "params": [["FLOAT_32", [1, 2, 3]]]},
    {"op": "Flat4", "params": [["INT_32", [[1], [2]]]]},
    {"op": "Flat4", "params": [["FLOAT_32", 1.0], ["FLOAT_32", 2.0]]},
    {"op": "Flat4", "params": [["FLOAT_32", 1.0]] * 3},
    {"op": "Flat4", "static": True},
    {"op": "Flat4", "null": True},
    *({"op": "Copied", "dtype": kind, "out": [[1, 2, 3, 4], kind]} for kind in ("FLOAT_32", "FLOAT_16", "INT_32")),
    {"op": "Copied", "dtype": "SFIXED_POINT_8", "quant": [0.1, 3], "out": [[1, 2, 3, 4], "SFIXED_POINT_8"]},
    {"op": "Copied", "after": "Relu", "dtype": "FLOAT_16", "out": [[1, 2, 3, 4], "FLOAT_16"]},
    *({"op": "Copied", "after": "Relu", "dtype": kind, "quant": [0.1, offset], "shape": PAIRS, "out": [PAIRS, kind]}
      for kind, offset in (("SFIXED_POINT_8", 3), ("UFIXED_POINT_8", -90))),
]  # fmt: skip


def test_a_kernel_sees_the_same_as_in_libqnnhtp(probe: Path, tmp_path: Path) -> None:
    need_runtime("htp")
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps(ROWS))
    found = {}
    for kind in ("real", "emulator"):
        out = tmp_path / f"{kind}.json"
        command = [sys.executable, "-m", "tests.emulator.htp_drive", kind, str(probe), str(rows), str(out)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        found[kind] = json.loads(out.read_text())
    assert [each for each in zip(ROWS, found["real"], found["emulator"], strict=True) if each[1] != each[2]] == []
    assert sum(isinstance(each[0], str) for each in found["real"]) < len(ROWS) // 2  # refused


# --- registration -------------------------------------------------------------------------------------------------


def test_other_libraries_are_no_packages(backend: BackendHandle, log_lines: list[str], tmp_path: Path) -> None:
    libc = Path("/lib/x86_64-linux-gnu/libm.so.6")
    for path, provider, target, code in (
        (tmp_path / "none.so", "ProbeInterfaceProvider", None, 4005),
        (libc, "ProbeInterfaceProvider", None, 4005),
        (libc, "ProbeInterfaceProvider", "HTP", 4003),
    ):
        with pytest.raises(QnnError) as refused:
            backend.register(path, provider, target)
        assert refused.value.code == code
    assert any("has no function qhpi_init" in line for line in log_lines)


def test_two_backends_have_the_package(
    backend: BackendHandle, interface: Interface, probe: Path, log_lines: list[str]
) -> None:
    with BackendHandle(interface) as second:
        second.register(probe, "ProbeInterfaceProvider")
        with second.context() as context:
            assert execute(*one_op(context, "Copied"))[5] == 5


# --- graphs -------------------------------------------------------------------------------------------------------


def one_op(
    context: ContextHandle, op: str, *, name: str = "g", out: tuple[int, ...] = (1, 1, 1, 256), finalize: bool = True
) -> tuple[GraphHandle, QnnTensor, QnnTensor]:
    graph = context.graph(name)
    shape = out if op == "Copied" else (1, 2, 3, 4)
    x = graph.add_tensor(QnnTensor("x", dtype="FLOAT_32", shape=shape, role=APP_WRITE))
    y = graph.add_tensor(QnnTensor("y", dtype="FLOAT_32", shape=out, role=APP_READ))
    graph.add_node(OpConfig("n", package="Probe", op_type=op, inputs=[x], outputs=[y]))
    if finalize:
        graph.finalize()
    return graph, x, y


def execute(graph: GraphHandle, x: QnnTensor, y: QnnTensor, profile: ProfileHandle | None = None) -> np.ndarray:
    room = bytearray(y.nbytes)
    x.bind(np.arange(x.nbytes // 4, dtype=np.float32).tobytes())
    y.bind(room)
    graph.execute([x], [y], profile)
    return np.frombuffer(room, np.float32)


def custom(header: str, **fields: Any) -> tuple[Any, ...]:
    """Return a list with one custom config of a graph, and the objects that it points to."""
    held, row = FFI.new(f"{header} *"), FFI.new("QnnGraph_Config_t *")
    for key, value in fields.items():
        setattr(held, key, FFI.integer_const(value) if isinstance(value, str) else value)
    row.option, row.customConfig = FFI.integer_const("QNN_GRAPH_CONFIG_OPTION_CUSTOM"), held
    return FFI.new("QnnGraph_Config_t const *[]", [row, FFI.NULL]), row, held


@pytest.mark.parametrize("threads", [None, 2, 7])
def test_slices_run_at_once_on_threads_of_their_own(
    backend: BackendHandle, interface: Interface, threads: int | None
) -> None:
    with backend.context() as context:
        graph, x, y = one_op(context, "Meet", finalize=False)
        if threads:
            option = "QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS"
            held = custom("QnnHtpGraph_CustomConfig_t", option=option, numHvxThreads=threads)
            interface.call("graphSetConfig", graph.raw, held[0])
        else:
            held = custom("QnnHtpGraph_CustomConfig_t", option=6, numHvxThreads=0)
            with pytest.raises(QnnError, match="6000"):
                interface.call("graphSetConfig", graph.raw, held[0])
        graph.finalize()
        wanted = threads or 4
        found = execute(graph, x, y)
        assert found[:wanted].tolist() == [wanted] * wanted


@pytest.mark.parametrize(
    ("op", "sentence"),
    [
        *((op, "makes other nodes, which only libQnnHtp runs") for op in ("Endless", "Nothing", "Reshaped", "Other")),
        ("Sliced", "only libQnnHtp rewrites graphs"),
        ("Stranger", "no package has registered an op `Probe::Nobody`"),
        ("Nope", "has registered no op of this name"),
        ("Crouton8", "none of its 3 kernels takes these tensors"),
    ],
)
def test_nodes_that_only_libqnnhtp_runs(backend: BackendHandle, log_lines: list[str], op: str, sentence: str) -> None:
    with backend.context() as context:
        with pytest.raises(QnnError) as refused:
            one_op(context, op)
        assert refused.value.code == 1002
        assert any(sentence in line for line in log_lines), log_lines


# --- contexts, time, devices ----------------------------------------------------------------------------------------


def test_a_profile_has_the_kernels(backend: BackendHandle) -> None:
    with backend.context() as context, ProfileHandle(backend, detailed=True) as profile:
        made = one_op(context, "Slow")
        execute(*made, profile)
        [event] = profile.events()
        assert event.name == "execute"
        [below] = event.below
        assert below.name == "node `n`, kernel Slow_0" and below.value > 300_000


DEVICES = """
import sys, json
from udogen.qnn import abi
from udogen.qnn.interface import Interface
from udogen.runtime import ModelDescription, Runtime, find_runtime
ffi = abi.ffi()
table = Interface.load(find_runtime("htp", runtime="emulator").path)
info = ffi.new("QnnDevice_PlatformInfo_t const **")
table.call("deviceGetPlatformInfo", ffi.NULL, info)
rows = []
for index in range(info[0].v1.numHwDevices):
    device = info[0].v1.hwDevices[index].v1
    chip = ffi.cast("QnnHtpDevice_DeviceInfoExtension_t *", device.deviceInfoExtension).onChipDevice
    rows.append([device.deviceId, device.numCores, chip.socModel, chip.arch, chip.vtcmSize])
codes = []
def make(device, core):
    one = ffi.new("QnnDevice_PlatformInfo_t *"); hardware = ffi.new("QnnDevice_HardwareDeviceInfo_t *")
    cores = ffi.new("QnnDevice_CoreInfo_t[1]"); config = ffi.new("QnnDevice_Config_t *")
    one.version = hardware.version = cores[0].version = 1
    cores[0].v1.coreId = core
    hardware.v1.deviceId, hardware.v1.numCores, hardware.v1.cores = device, 1, cores
    one.v1.numHwDevices, one.v1.hwDevices = 1, hardware
    config.option, config.hardwareInfo = 1, one
    made = ffi.new("void **")
    return table._table.deviceCreate(ffi.NULL, ffi.new("QnnDevice_Config_t const *[]", [config, ffi.NULL]), made)
codes = [make(0, 0), make(1, 3), make(1, 4), make(2, 0)]
table.call("deviceFreePlatformInfo", ffi.NULL, info[0])
print(json.dumps([rows, codes]))
"""


@pytest.mark.parametrize(
    ("named", "rows", "codes"),
    [
        (None, [[0, 1, 57, 75, 8]], [0, 14001, 14001, 14001]),
        ("SM8650,SA8295x4", [[0, 1, 57, 75, 8], [1, 4, 39, 68, 8]], [0, 0, 14001, 14001]),
    ],
)
def test_devices_are_those_that_are_named(named: str | None, rows: list[list[int]], codes: list[int]) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **({"UDOGEN_HTP_DEVICES": named} if named else {})}
    done = subprocess.run([sys.executable, "-c", DEVICES], env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [rows, codes]


def test_a_device_is_of_a_known_processor(backend: BackendHandle, interface: Interface) -> None:
    for row in socs.ALL.values():
        with DeviceHandle(interface, soc=row.model) as device, backend.context(device) as context:
            one_op(context, "Copied")
    with pytest.raises(QnnError) as refused:
        DeviceHandle(interface, soc=9999)
    assert refused.value.code == 14001


@pytest.mark.parametrize("soc", ["SM8650", "sm8650", "v75", "57", 57, np.int64(57)])
def test_a_processor_is_named_or_numbered_everywhere(soc: int | str) -> None:
    assert socs.number_of(soc) == 57
    with Runtime("htp", runtime="emulator", soc=soc) as runtime, GraphBuilder("htp", runtime="emulator", soc=soc):
        runtime.new_context().close()


@pytest.mark.parametrize("soc", ["SM8651", "v12", -1, 2**32, 5.7, True])
@pytest.mark.parametrize("make", [Runtime, GraphBuilder, partial(ModelDescription, ())], ids=str)
def test_a_wrong_processor_is_refused_with_those_that_there_are(make: Callable[..., object], soc: object) -> None:
    with pytest.raises(UsageError, match="soc") as refused:
        make(backend="htp", runtime="emulator", soc=soc)
    assert not isinstance(soc, str) or "SM8650" in refused.value.hint
