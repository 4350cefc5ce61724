"""Unsafe kernels, each found by its check, in the real libQnnCpu; and sound ones, which are not reported."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from unsafe import KERNELS

from tests.command_line import udogen
from tests.making import ROOT, compiler, cpu_package, htp_package, need_runtime, same_folder
from udogen import TestOptions, ToolMissing, UsageError
from udogen.backends import PLACES
from udogen.build import variants
from udogen.build.emulator import build_watch
from udogen.build.make import build_package
from udogen.build.tools import Environment, environment
from udogen.runtime import OpCrashed, OpFailed
from udogen.runtime.built import Built
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.op.watch import Watch
from udogen.runtime.ops import OpCall, OpSession
from udogen.verify.options import SafetyOptions
from udogen.verify.results import Finding
from udogen.verify.runner import run_cases
from udogen.verify.safety.checks import SafetyChecks, unchecked
from udogen.verify.safety.findings import findings_of_run, preloaded
from udogen.verify.test_files.expand import load_examples

CONFIG = ROOT / "tests" / "configs" / "LeakyRelu.xml"
KERNEL = "src/ops/LeakyRelu.cpp"

Unsafe = Callable[[str], Built]


@pytest.fixture(scope="module")
def unsafe() -> Iterator[Unsafe]:
    """Yield one package whose kernel is replaced; only the kernel is recompiled."""
    need_runtime("cpu")
    with same_folder("unsafe") as out:
        built = cpu_package(CONFIG, out)
        assert built.folder is not None
        kernel = built.folder.path / KERNEL

        def put(name: str) -> Built:
            kernel.write_text(KERNELS[name].source)
            return built

        yield put


def call_of(built: Built, loops: int = 1, op: str = "LeakyRelu") -> OpCall:
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    return make_call(built.op(op, "cpu"), built, op, CallOptions(inputs={"input": x}, loops=loops))


def checked(built: Built, **wanted: object) -> tuple[Finding, ...]:
    requested = {"heap": False, "guard": False, "sanitize": (), **wanted}
    options = TestOptions(safety=SafetyOptions.parse(**requested))  # type: ignore[arg-type]
    with SafetyChecks(built, options) as checks:
        return checks.check(call_of(built))


def here(name: str, function: str = "execute", mark: str = "// here") -> str:
    return f"`{function}` ({KERNEL}:{KERNELS[name].line(mark)})"


# --- heap -----------------------------------------------------------------------------------------------------


def test_a_vector_that_grows_three_calls_deep_is_found_with_function_and_line(unsafe: Unsafe) -> None:
    [found] = checked(unsafe("grows"), heap=True)
    assert found.kind == "heap-in-execute"
    assert found.message == (
        "op `LeakyRelu` allocates on the heap in each execution: 120 times in 20 executions (5,040 bytes), "
        f"in {here('grows', 'keep')}"
    )
    lines = found.evidence.splitlines()
    assert lines[0].startswith("malloc, by std::vector<float")
    assert [re.sub(r":\d+\)", ")", line) for line in lines[1:]] == [
        f"called by `{function}` ({KERNEL})" for function in ("keep", "look", "largest", "execute")
    ]
    assert found.hint.startswith("a kernel must not use the heap while it executes: an allocation")


def test_what_is_allocated_in_the_first_execution_alone_is_found_too(unsafe: Unsafe) -> None:
    [found] = checked(unsafe("first only"), heap=True)
    assert found.message == (
        "op `LeakyRelu` allocates on the heap in its first execution: once in 20 executions (100 bytes), "
        f"in {here('first only')}"
    )


def test_without_lines_the_function_is_shown_and_how_to_get_lines(unsafe: Unsafe) -> None:
    from tests.making import make

    built = unsafe("first only")
    assert built.folder is not None
    assert make(built.folder.path).returncode == 0
    with OpSession(built.library, built.provider, timeout=60, preload=preloaded(heap=True)) as session:
        result = session.run(call_of(built, 20), Watch(heap=True))
    [found] = findings_of_run(built, result, "LeakyRelu")
    assert found.message.endswith("(100 bytes), in `execute`")
    assert (
        found.evidence.splitlines()[-1] == "built without -g: `udogen build --lines` makes a library with line numbers"
    )


def test_a_sound_kernel_does_not_use_the_heap_and_is_not_slowed_down_twofold(unsafe: Unsafe) -> None:
    """10,000 executions of the cheapest op; the ratio is measured in one process, as the best of several."""
    built = unsafe("sound")
    assert built.folder is not None
    build_package(built.folder)
    with OpSession(built.library, built.provider, timeout=120, preload=[build_watch()]) as session:
        session.run(call_of(built, 10_000))
        plain, watched = [], []
        for _ in range(5):
            plain.append(session.run(call_of(built, 2_000)).times.execute)
            result = session.run(call_of(built, 2_000), Watch(heap=True))
            assert result.heap is not None
            assert (result.heap.executions, result.heap.sites, result.heap.lost) == (2_000, (), 0)
            assert result.heap.seen > 2_000  # allocations of the runtime itself
            watched.append(result.times.execute)
    assert min(watched) / min(plain) < 2


@pytest.mark.parametrize("folder", ["leaky_relu", "softmax", "add_sat_u8"])
def test_the_examples_use_no_heap_over_ten_thousand_executions(folder: str, tmp_path: Path) -> None:
    need_runtime("cpu")
    for number, example in enumerate(load_examples(ROOT / "examples" / folder)):
        cases = [case for case in example.cases if case.backend == "cpu" and not case.refusal]
        if not cases:
            continue
        built = cpu_package(example.config, tmp_path / str(number), example.kernels, layout="")
        each = -(-10_000 // len(cases))
        with OpSession(built.library, built.provider, timeout=300, preload=[build_watch()]) as session:
            for case in cases:
                options = CallOptions(
                    inputs=case.inputs,
                    params=case.params,
                    quants=case.quants,
                    dtypes=case.dtypes,
                    shapes=case.output_shapes,
                    loops=each,
                )
                heap = session.run(make_call(built.op(case.op, "cpu"), built, case.op, options), Watch(heap=True)).heap
                assert heap is not None
                assert (heap.executions, heap.sites) == (each, ()), case.name


def test_an_htp_kernel_is_watched_in_its_own_runtime(tmp_path: Path) -> None:
    example = ROOT / "examples" / "leaky_relu"
    sound = htp_package(example / "LeakyRelu.xml", tmp_path / "sound", example / "kernels")
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(1, 2, 3, 4)

    def found(built: Built) -> tuple[Finding, ...]:
        call = make_call(built.op("LeakyRelu", "htp"), built, "LeakyRelu", CallOptions(inputs={"input": x}))
        with SafetyChecks(built, TestOptions(safety=SafetyOptions(heap=True)), backend="htp") as safety:
            return safety.check(call)

    assert found(sound) == ()
    assert sound.folder is not None
    kernel = sound.folder.path / KERNEL
    text = kernel.read_text()
    body = re.search(r"udo::Status execute\([^{]*\{\n", text)
    assert body is not None
    line = text[: body.end()].count("\n") + 1
    kernel.write_text(
        text[: body.end()] + "  static float* volatile kept; delete[] kept; kept = new float[7];\n" + text[body.end() :]
    )
    [one] = found(sound)
    assert one.message.endswith(f"(560 bytes), in `execute` ({KERNEL}:{line})")


# --- reads and writes outside tensors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("writes past", "wrote past the end of its output `output` (96 bytes): at byte 96"),
        ("writes before", "wrote before the beginning of its output `output` (96 bytes): 4 bytes before it"),
        # The runtime copies inputs: the copy is between guard pages.
        ("reads past", "read past the end of its input `input` (96 bytes): at byte 96"),
        ("reads before", "read before the beginning of its input `input` (96 bytes): 4 bytes before it"),
    ],
)
def test_a_step_beside_a_tensor_ends_at_a_guard_page(name: str, words: str, unsafe: Unsafe) -> None:
    [found] = checked(unsafe(name), guard=True)
    assert found.kind == "out-of-bounds"
    assert found.message == f"op `LeakyRelu` {words}, in {here(name)}"
    assert found.hint == "let the kernel's loops end at the tensor's own dimensions"


def test_an_input_that_is_written_is_found(unsafe: Unsafe) -> None:
    [found] = checked(unsafe("writes input"), guard=True)
    assert found.message == "op `LeakyRelu` wrote into its input `input`, which it must not: at byte 4 of 96"


def test_a_guard_page_is_reported_by_the_session_too(unsafe: Unsafe) -> None:
    built = unsafe("writes past")
    with SafetyChecks(built, TestOptions(safety=SafetyOptions(guard=True))) as safety:
        safety.check(call_of(built))  # builds it with line numbers
    library = built.library.parent / "lines" / built.library.name
    with OpSession(library, built.provider, timeout=60, preload=[build_watch()]) as session:
        with pytest.raises(OpCrashed) as caught:
            session.run(call_of(built), Watch(guard="end"))
        assert caught.value.message == (
            "op `LeakyRelu` wrote past the end of its output `output` (96 bytes): at byte 96"
        )
        assert not any("udogen-f" in line for line in caught.value.details)
        with pytest.raises(OpFailed) as failed:  # in a new process, without a guard page
            session.run(call_of(built))
    assert failed.value.message == (
        "op `LeakyRelu` wrote past the end of its output `output` (96 bytes): at byte 96, 4 in all"
    )


# --- sanitizers -----------------------------------------------------------------------------------------------


def with_runtime(cxx: str) -> str:
    """Return the command of a compiler that has its sanitizers installed."""
    command = compiler(cxx)
    runtime = subprocess.run(
        [*shlex.split(command), "-print-file-name=libclang_rt.asan-x86_64.so"], capture_output=True, text=True
    ).stdout.strip()
    if cxx == "clang++":
        assert Path(runtime).is_file(), "clang++ is installed without its sanitizers; .ci/setup test installs them"
    return command


@pytest.mark.parametrize(
    ("name", "access", "side"),
    [
        ("reads past", "READ of size 4", r"0 bytes (to the right of|after) 96-byte region"),
        ("reads before", "READ of size 4", r"4 bytes (to the left of|before) 96-byte region"),
        ("writes past", "WRITE of size 4", r"0 bytes (to the right of|after) 96-byte region"),
        ("writes before", "WRITE of size 4", r"4 bytes (to the left of|before) 96-byte region"),
    ],
)
@pytest.mark.parametrize("cxx", ["g++", "clang++"])
def test_address(cxx: str, name: str, access: str, side: str, unsafe: Unsafe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X86_CXX", with_runtime(cxx))
    [found] = checked(unsafe(name), sanitize=["address,undefined"])
    what = "uses memory that is not its own: heap-buffer-overflow"
    assert found.message == f"op `LeakyRelu` {what}, in {here(name)}"
    assert access in found.evidence and re.search(side, found.evidence)


@pytest.mark.parametrize("cxx", ["g++", "clang++"])
def test_undefined(cxx: str, unsafe: Unsafe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X86_CXX", with_runtime(cxx))
    [found] = checked(unsafe("overflows"), sanitize=["undefined"])
    assert found.kind == "undefined-behaviour"
    assert found.message == (
        "op `LeakyRelu` does what C++ does not define: signed integer overflow: 98304 * 65536 cannot be represented "
        f"in type 'int', in {here('overflows', 'scaled')}"
    )


def test_threads(unsafe: Unsafe) -> None:
    [found] = checked(unsafe("shares"), sanitize=["thread"])
    assert found.kind == "data-race"
    assert "collides with itself in another graph at the same time: data race" in found.message
    assert f"`execute` ({KERNEL}:{KERNELS['shares'].line()})" in found.message


def test_a_sound_kernel_is_left_alone(unsafe: Unsafe) -> None:
    every = checked(unsafe("sound"), heap=True, guard=True, sanitize=["address,undefined", "thread"])
    assert every == ()


def test_the_normal_build_stays(unsafe: Unsafe) -> None:
    built = unsafe("sound")
    before = built.library.read_bytes()
    checked(built, sanitize=["address,undefined"])
    assert built.library.read_bytes() == before
    assert (built.library.parent / "address-undefined" / built.library.name).is_file()


def test_sanitizers_that_do_not_go_together_or_are_none() -> None:
    with pytest.raises(UsageError) as caught:
        variants.parse("address,thread")
    assert caught.value.message == "`address` and `thread` exclude each other in one library"
    assert caught.value.hint == "run them separately: --sanitize address --sanitize thread"
    with pytest.raises(UsageError) as caught:
        variants.parse("adress")
    assert caught.value.message == "no sanitizer `adress`"


def test_a_compiler_without_sanitizers_is_reported_with_what_to_install() -> None:
    with pytest.raises(ToolMissing) as caught:
        variants.need_compiler(variants.parse("address"), Environment(x86_cxx=compiler("zig")))
    assert caught.value.message == "no installed compiler can build a library with the sanitizers address"
    assert caught.value.details == ("zig c++: zig has no sanitizer runtimes for libraries of other programs",)
    assert caught.value.hint == "apt-get install g++ libasan8, and unset X86_CXX or set it to g++"
    assert environment().x86_cxx == os.environ.get("X86_CXX", "")


# --- what is not checked ------------------------------------------------------------------------------------


def test_unchecked_places_are_reported() -> None:
    places = [PLACES[name] for name in ("cpu", "htp", "hexagon", "dsp")]
    assert unchecked(SafetyOptions(), places) == ()
    assert unchecked(SafetyOptions(heap=True), places) == (
        "--heap: not checked on hexagon, dsp, where code for another processor runs",
    )
    assert unchecked(SafetyOptions(guard=True), places[:2]) == (
        "--guard: on htp the runtime has tensors side by side in its own memory, where stray accesses are not seen "
        "(--backend hexagon sees them)",
    )
    assert unchecked(SafetyOptions(guard=True), places[2:]) == ()
    threads = SafetyOptions.parse(heap=False, guard=False, sanitize=["thread"])
    assert unchecked(threads, places[:2]) == (
        "--sanitize thread: not checked on htp, whose runtime often hangs when two graphs are executed "
        "at the same time, with any op (--backend htp-emulator runs them)",
    )


# --- with the cases of a test, and on the command line --------------------------------------------------------


def test_a_case_with_right_numbers_fails_where_it_is_not_safe(unsafe: Unsafe) -> None:
    from udogen import Case

    built = unsafe("grows")
    assert built.folder is not None
    from tests.making import make

    assert make(built.folder.path).returncode == 0
    x = np.array([[1, 2, 3]], np.float32)
    case = Case("positive", "LeakyRelu", {"input": x}, {"output": x})
    [plain] = run_cases(built, [case])
    assert plain.passed
    [outcome] = run_cases(built, [case], options=TestOptions(safety=SafetyOptions(heap=True)))
    assert outcome.status == "failed"
    assert [finding.kind for finding in outcome.findings] == ["heap-in-execute"]


def test_run_op_heap(unsafe: Unsafe, tmp_path: Path) -> None:
    built = unsafe("grows")
    assert built.folder is not None
    folder = built.folder.path
    done = udogen("build", "-C", folder, "--lines")
    assert done.returncode == 0, done.stderr
    library = built.library.parent / "lines" / built.library.name
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    requested = ("run", "op", library, "LeakyRelu", "--input", f"input={tmp_path}/x.npy", "--heap")
    done = udogen(*requested)
    assert done.returncode == 6
    assert "heap-in-execute: op `LeakyRelu` allocates on the heap in each execution" in done.stdout
    assert here("grows", "keep") in done.stdout
    shown = json.loads(udogen(*requested, "--json").stdout)
    assert (shown["ok"], [row["kind"] for row in shown["heap"]]) == (False, ["heap-in-execute"])


def test_build_sanitize(unsafe: Unsafe) -> None:
    built = unsafe("sound")
    assert built.folder is not None
    done = udogen("build", "-C", built.folder.path, "--sanitize", "thread", "--sanitize", "address,undefined", "--json")
    assert done.returncode == 0, done.stderr
    libraries = [Path(row["library"]) for row in json.loads(done.stdout)["artifacts"]]
    assert [library.parent.name for library in libraries] == ["thread", "address-undefined"]
    done = udogen("build", "cpu_aarch64", "-C", built.folder.path, "--sanitize", "address")
    assert done.returncode == 2
    assert "cpu_aarch64 does not run on this machine" in done.stderr


def test_nothing_stays_open(unsafe: Unsafe) -> None:
    built = unsafe("sound")

    def counted() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(Path("/proc/self/maps").read_text().splitlines())

    checked(built, heap=True, guard=True)
    before = counted()
    checked(built, heap=True, guard=True)
    after = counted()
    assert after[0] == before[0]
    assert after[1] <= before[1] + 2  # mappings of Python itself
