"""The CPU emulator: contexts of several graphs, stored and restored; profiles, logs, the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from composing import SHAPE, X, mixed, mixed_in_numpy, register, run

from tests.command_line import succeeds, udogen
from udogen.qnn import abi
from udogen.qnn.handles import BackendHandle, LogHandle, ProfileHandle
from udogen.qnn.interface import ERROR, INFO, Interface
from udogen.qnn.system import binary_info
from udogen.qnn.tensors import (
    APP_READ,
    APP_WRITE,
    QnnTensor,
)
from udogen.runtime import QnnError, find_runtime
from udogen.runtime.built import Built

FFI = abi.ffi()
NULL = FFI.NULL


def two_graphs(cpu: BackendHandle, package: str) -> bytes:
    with cpu.context() as context:
        for name in ("one", "two"):
            mixed(context, package, name)[0].graph.finalize()
        return context.binary()


def edges() -> tuple[QnnTensor, QnnTensor]:
    x, y = (
        QnnTensor("x", dtype="FLOAT_32", shape=SHAPE, role=APP_WRITE),
        QnnTensor("y", dtype="FLOAT_32", shape=(4, 2, 3), role=APP_READ),
    )
    return x, y


def test_a_context_of_two_graphs_is_restored(cpu: BackendHandle, cpu_leaky: Built) -> None:
    register(cpu, cpu_leaky)
    binary = two_graphs(cpu, cpu_leaky.package)
    info = binary_info(find_runtime("cpu", runtime="emulator").system, binary)
    assert [graph.name for graph in info.graphs] == ["one", "two"] and info.backend_id == 3
    with cpu.restore(binary) as context:
        for graph in info.graphs:
            x, y = edges()
            x.struct.v1.id, y.struct.v1.id = graph.inputs[0].id, graph.outputs[0].id
            assert np.abs(run(context.retrieve(graph.name), {x: X}, y) - mixed_in_numpy(X)).max() <= 1e-6


def test_every_flipped_byte_is_reported(cpu: BackendHandle, log_lines: list[str], cpu_leaky: Built) -> None:
    register(cpu, cpu_leaky)
    binary = two_graphs(cpu, cpu_leaky.package)
    for at in range(0, len(binary), 7):
        spoilt = binary[:at] + bytes([binary[at] ^ 0x20]) + binary[at + 1 :]
        with pytest.raises(QnnError) as refused:
            cpu.restore(spoilt)
        assert refused.value.code in (5004, 5005, 5008)
    assert any("its checksum differs" in line for line in log_lines)
    with pytest.raises(QnnError, match="5005"):
        cpu.restore(binary + b"\0")


def test_a_binary_needs_its_packages(
    cpu: BackendHandle, cpu_interface: Interface, log_lines: list[str], cpu_leaky: Built
) -> None:
    register(cpu, cpu_leaky)
    binary = two_graphs(cpu, cpu_leaky.package)
    with (
        LogHandle(cpu_interface, lambda _level, text: log_lines.append(text)) as log,
        BackendHandle(cpu_interface, log) as other,
        pytest.raises(QnnError, match="5005"),
    ):
        other.restore(binary)
    assert any(f"no op package `{cpu_leaky.package}` is registered" in line for line in log_lines)


def test_a_profile_has_the_nodes(cpu: BackendHandle, cpu_leaky: Built) -> None:
    register(cpu, cpu_leaky)
    with cpu.context() as context, ProfileHandle(cpu, detailed=True) as profile:
        make, x, y = mixed(context, cpu_leaky.package)
        make.graph.finalize(profile)
        assert [event.name for event in profile.events()] == ["finalize"]
        x.bind(bytearray(X.tobytes()))
        y.bind(bytearray(y.nbytes))
        make.graph.execute([x], [y], profile)
        [event] = profile.events()
        assert event.name == "execute" and len(event.below) == 4
        ids, count = FFI.new("QnnProfile_EventId_t const **"), FFI.new("uint32_t *")
        cpu.interface.call("profileGetEvents", profile.raw, ids, count)
        more = FFI.new("QnnProfile_ExtendedEventData_t *", {"version": 1})
        cpu.interface.call("profileGetExtendedEventData", ids[0][0], more)
        assert more.v1.value.uint64Value == event.value and FFI.string(more.v1.identifier) == b"execute"


def test_the_level_of_a_log_can_change(cpu_interface: Interface) -> None:
    log_lines: list[str] = []
    with (
        LogHandle(cpu_interface, lambda _level, text: log_lines.append(text), INFO) as log,
        BackendHandle(cpu_interface, log) as cpu,
        cpu.context() as context,
    ):
        graph = context.graph("empty")
        for level, lines in ((ERROR, 1), (0, 1), (INFO, 2)):  # 0 is not a level: the level is unchanged
            code = cpu_interface._table.logSetLogLevel(log.raw, level)
            assert code == (0 if level else 11003)
            if not level:
                continue
            with pytest.raises(QnnError, match="6022"):
                graph.finalize()
            assert len(log_lines) == lines


def test_the_command_line_names_it(cpu_leaky: Built, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    assert cpu_leaky.folder is not None
    given = ("run", "op", cpu_leaky.folder.path, "LeakyRelu", "--input", f"input={tmp_path / 'x.npy'}")
    done = succeeds(*given, "--runtime", "emulator", "--output", f"output={tmp_path / 'y.npy'}")
    assert "ran on CPU_UDOGEN_EMULATOR (udogen's emulator on this machine's processor)" in done.stdout
    assert np.allclose(np.load(tmp_path / "y.npy"), np.where(X > 0, X, 0.01 * X))
    done = udogen(*given, "--runtime", "emulator", "--json", "--save-context", tmp_path / "c.bin")
    assert '"emulator": true' in done.stdout
    again = udogen(*given, "--runtime", "emulator", "--json", "--context", tmp_path / "c.bin")
    assert json.loads(again.stdout)["outputs"] == json.loads(done.stdout)["outputs"], again.stdout
    done = udogen(*given)  # not requested: the real runtime is used, or none
    assert "EMULATOR" not in done.stdout
