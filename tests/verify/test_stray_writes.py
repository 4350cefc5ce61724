"""Writes to foreign memory are found on every place where they can occur, with tensor, offset and count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from stray import HOW, SIZE, STRAYS, TAIL, call_of, package

from tests.hexagon.running import need_tools
from tests.making import need_runtime
from udogen import Case, Outcome, TestOptions
from udogen.runtime import OpFailed, Scalar
from udogen.runtime.built import Built, find_source
from udogen.runtime.op.watch import Watch
from udogen.runtime.ops import HexagonSession, OpSession
from udogen.runtime.worker.op_graph import _MOST, _pattern
from udogen.verify.options import SafetyOptions
from udogen.verify.runner import run_cases

LOOPS = (1, 2)
NO_CHECKS = SafetyOptions()


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Built:
    need_runtime("cpu")
    return package("cpu", tmp_path_factory.mktemp("cpu"))


@pytest.fixture(scope="module")
def htp(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return package("htp", tmp_path_factory.mktemp("htp"))


@pytest.fixture(scope="module")
def on_cpu(cpu: Built) -> Iterator[OpSession]:
    with OpSession(cpu.library, cpu.provider, timeout=60) as session:
        yield session


@pytest.fixture(scope="module")
def on_hexagon(htp: Built) -> HexagonSession:
    need_tools()
    assert htp.folder is not None
    folder = find_source(htp.folder.path, backend="htp").folder
    assert folder is not None
    return HexagonSession(folder, timeout=60)


@pytest.fixture(scope="module")
def dsp(tmp_path_factory: pytest.TempPathFactory) -> Built:
    need_tools()
    return package("dsp", tmp_path_factory.mktemp("dsp"))


@pytest.fixture(scope="module")
def on_dsp(dsp: Built) -> HexagonSession:
    assert dsp.folder is not None
    return HexagonSession(dsp.folder, timeout=60)


# --- Qualcomm's libQnnCpu ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", STRAYS)
def test_on_cpu(how: str, cpu: Built, on_cpu: OpSession) -> None:
    with pytest.raises(OpFailed) as raised:
        on_cpu.run(call_of(cpu, "cpu", how))
    assert raised.value.message == STRAYS[how]


def test_on_cpu_over_two_executions_and_with_poison(cpu: Built, on_cpu: OpSession) -> None:
    for how, sentence in STRAYS.items():
        with pytest.raises(OpFailed) as raised:
            on_cpu.run(replace(call_of(cpu, "cpu", how, loops=2), poison=0x5A))
        assert raised.value.message == sentence


def test_a_restored_context_on_cpu(cpu: Built, on_cpu: OpSession) -> None:
    saved = on_cpu.run(replace(call_of(cpu, "cpu", "NOTHING"), save_context=True)).context
    assert saved is not None
    on_cpu.run(replace(call_of(cpu, "cpu", "NOTHING"), context=saved))
    call = call_of(cpu, "cpu", "VALUE", value=_pattern("output", 0, False)[_MOST])  # not visible in one execution
    saved = on_cpu.run(replace(call, save_context=True)).context
    with pytest.raises(OpFailed, match="past the end of its output `y`"):
        on_cpu.run(replace(call, context=saved, loops=2, poison=0x5A))


@pytest.mark.parametrize("how", ["READS", "NOTHING"])
def test_a_kernel_that_reads_a_vector_too_much_is_not_accused_on_cpu(how: str, cpu: Built, on_cpu: OpSession) -> None:
    for loops in LOOPS:
        call = call_of(cpu, "cpu", how, loops=loops)
        outputs = on_cpu.run(call).outputs
        assert outputs["y"].tolist() == [max(pair) for pair in zip(*(arg.data for arg in call.inputs), strict=True)]


def test_on_the_cpu_emulator(cpu: Built) -> None:
    with OpSession(cpu.library, cpu.provider, runtime="emulator", timeout=60) as session:
        for how, sentence in STRAYS.items():
            with pytest.raises(OpFailed) as raised:
                session.run(call_of(cpu, "cpu", how))
            assert raised.value.message == sentence
        session.run(call_of(cpu, "cpu", "READS"))


# --- Hexagon ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", STRAYS)
def test_on_hexagon(how: str, htp: Built, on_hexagon: HexagonSession) -> None:
    for loops in LOOPS:
        with pytest.raises(OpFailed) as raised:
            on_hexagon.run(call_of(htp, "htp", how, loops=loops))
        assert raised.value.message == STRAYS[how]


@pytest.mark.parametrize("side", ["", "end", "begin"])
@pytest.mark.parametrize("how", ["READS", "NOTHING"])
def test_what_is_read_on_hexagon(how: str, side: str, htp: Built, on_hexagon: HexagonSession) -> None:
    call = call_of(htp, "htp", how)
    if (how, side) == ("READS", "end"):
        # Tensors begin at a multiple of 128: there is no guard page before the next multiple.
        with pytest.raises(OpFailed) as raised:
            on_hexagon.run(call, Watch(guard=side))
        assert raised.value.message == f"op `Stray` read past the end of its input `x` ({SIZE} bytes): at byte 256"
        return
    outputs = on_hexagon.run(call, Watch(guard=side)).outputs
    assert outputs["y"].tolist() == [max(pair) for pair in zip(*(arg.data for arg in call.inputs), strict=True)]


@pytest.mark.parametrize("side", ["end", "begin"])
def test_pages_on_hexagon(side: str, htp: Built, on_hexagon: HexagonSession) -> None:
    for how, sentence in STRAYS.items():
        with pytest.raises(OpFailed) as raised:
            on_hexagon.run(call_of(htp, "htp", how), Watch(guard=side))
        assert raised.value.message.startswith(sentence.rpartition(", ")[0]), how


def test_a_byte_that_lay_there_by_chance_is_found_in_the_next_execution(
    cpu: Built, on_cpu: OpSession, htp: Built, on_hexagon: HexagonSession
) -> None:
    """This also compares the patterns of C and of Python with each other."""
    value = _pattern("output", 0, False)[_MOST]
    on_cpu.run(call_of(cpu, "cpu", "VALUE", value=value))
    on_hexagon.run(call_of(htp, "htp", "VALUE", value=value))
    for session, built, backend in ((on_cpu, cpu, "cpu"), (on_hexagon, htp, "htp")):
        with pytest.raises(OpFailed, match=r"past the end of its output `y` \(129 bytes\): at byte 129, 1 in all"):
            session.run(replace(call_of(built, backend, "VALUE", value=value, loops=2), poison=0x5A))


def test_udogen_test_on_hexagon(htp: Built) -> None:
    """Cases run twice, so each is found; --guard adds reads."""
    assert htp.folder is not None
    built = find_source(htp.folder.path, backend="htp")

    def outcome(how: str, safety: SafetyOptions) -> Outcome:
        call = call_of(built, "htp", how, value=_pattern("output", 0, False)[_MOST])
        case = Case(
            name=how,
            op="Stray",
            inputs={tensor.name: tensor.data for tensor in call.inputs if tensor.data is not None},
            expected={},
            params={param.name: param.value if isinstance(param, Scalar) else param.data for param in call.params},
            quants=dict.fromkeys(("x", "z", "y", "w"), (1.0, 0)),
            shapes={"y": (SIZE,), "w": (SIZE,)},
            backend="htp",
        )
        return run_cases(built, [case], backend="hexagon", options=TestOptions(safety=safety))[0]

    for how in ("VALUE", "MAX"):
        found = outcome(how, NO_CHECKS)
        assert found.error is not None and found.error.message.startswith(TAIL), found
    assert outcome("READS", NO_CHECKS).status == "ran"
    [finding] = outcome("READS", SafetyOptions(guard=True)).findings
    assert finding.kind == "out-of-bounds"
    assert finding.message == f"op `Stray` read past the end of its input `x` ({SIZE} bytes): at byte 256"


# --- DSP V65/V66 ------------------------------------------------------------------------------------------------------

# The generated package copies parameters, as the documentation requires: a kernel does not see those of the DSP.
COPIED = ("PARAM", "BEHIND_PARAM")


@pytest.mark.parametrize("how", [how for how in STRAYS if how not in COPIED])
def test_on_dsp(how: str, dsp: Built, on_dsp: HexagonSession) -> None:
    for side in ("", "end"):
        with pytest.raises(OpFailed) as raised:
            on_dsp.run(call_of(dsp, "dsp", how), Watch(guard=side))
        assert raised.value.message.startswith(STRAYS[how].rpartition(", ")[0])


def test_a_kernel_that_reads_a_vector_too_much_is_not_accused_on_dsp(dsp: Built, on_dsp: HexagonSession) -> None:
    for how in ("READS", "NOTHING"):
        on_dsp.run(call_of(dsp, "dsp", how, loops=2))


def test_every_way_is_tried() -> None:
    assert set(HOW) == {*STRAYS, "VALUE", "READS", "NOTHING"}
