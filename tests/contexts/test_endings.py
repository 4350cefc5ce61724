"""Programs that close nothing, or end half-way: they end with their own exit code, and with nothing on stderr."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contexts.stepping import BACKENDS, binary
from tests.making import LONG, ONE_KERNEL, ONE_OP, ROOT, cpu_package, htp_package, need_runtime
from udogen import RunFailed
from udogen.runtime.contexts import manifest
from udogen.runtime.contexts.context import ContextCleanup

PRELUDE = """
import atexit, gc, os, sys, threading, time
import numpy as np
from udogen.errors import RunFailed
from udogen.runtime import MemoryDomain, Role, Runtime, Buffer
from udogen.runtime.sessions import Layer, SessionSpec
from udogen.runtime.sessions import Session

BACKEND, KIND, PACKAGE, BINARY = sys.argv[1:]

def opened():
    runtime = Runtime(BACKEND, runtime=KIND)
    if PACKAGE:
        runtime.register(PACKAGE)
    return runtime

def step_of(runtime):
    return runtime.restore(BINARY).graph("step")

def run(graph):
    return graph(state=np.full((1, 4, 8), 2, "f4"), x=np.full((1, 4, 8), 3, "f4"))["next"].max()
"""
Place = tuple[str, str, str, str]  # backend, kind, package, context binary

PROGRAMS = {
    "an execution": "runtime = opened(); graph = step_of(runtime); assert run(graph) == 5",
    "two runtimes": "first, second = opened(), Runtime(BACKEND, runtime=KIND); graph = step_of(second); run(graph)",
    "closed by hand, twice, in odd orders": """
runtime = opened()
context = runtime.restore(BINARY)
graph = context.graph("step")
context.close(); context.close(); runtime.close(); runtime.close(); context.close()
assert (runtime.closed, context.closed, runtime.contexts) == (True, True, ())
""",
    "what is in use keeps the rest": """
runtime = opened()
graph = step_of(runtime)
del runtime
gc.collect()
assert run(graph) == 5
""",
    "a context that nobody uses is freed": """
runtime = opened()
for _ in range(5):
    context = runtime.restore(BINARY)
    run(context.graph("step"))
    del context
    gc.collect()
    assert runtime.contexts == ()
kept = step_of(runtime)
assert len(runtime.contexts) == 1 and run(kept) == 5
""",
    "a circle of references": """
class Model:
    def __init__(self):
        self.me, self.runtime = self, opened()
        self.context = self.runtime.restore(BINARY)
        self.graph = self.context.graph("step")
        self.run = lambda: run(self.graph)

for _ in range(2):
    model = Model()
    assert model.run() == 5
    del model
    gc.collect()
left = Model()
""",
    "in a thread": """
def work():
    threading.local().runtime = runtime = opened()
    assert run(step_of(runtime)) == 5
    kept.append(step_of(runtime))
kept = []
thread = threading.Thread(target=work)
thread.start()
thread.join()
""",
    "a daemon thread that executes": """
graph = step_of(opened())
def work():
    try:
        while True:
            run(graph)
            ran.set()
    except RunFailed:
        pass
ran = threading.Event()
threading.Thread(target=work, daemon=True).start()
assert ran.wait(20)
""",
    "a generator in the middle": """
def steps():
    with opened() as runtime, runtime.restore(BINARY) as context:
        while True:
            yield run(context.graph("step"))
found = steps()
assert next(found) == 5
""",
    "a function of the program's own at exit": """
graph = step_of(opened())
@atexit.register
def last():
    assert run(graph) == 5
""",
    "a graph in the making": """
making = opened().new_context()
making.new_graph("unfinished")
gc.collect()
""",
    "sessions, domains, buffers": """
runtime = opened()
session = Session(runtime, SessionSpec("one", 0))
first, second = (session.open(Layer(name, 1), BINARY).graph("step") for name in "ab")
domain = MemoryDomain(session)
state = domain.pair([Role(second, "state", "input"), Role(second, "next", "output")])
state.bind(second, reads="state", writes="next")
state.copy_from(np.ones((1, 4, 8), "f4"))
second(x=np.ones((1, 4, 8), "f4"))
buffer = Buffer("client", 4096)
session.open(Layer("c", 1), BINARY).graph("step").bind({"x": buffer})
""",
}
ENDS = {
    "an exception": ("runtime = opened(); graph = step_of(runtime); raise ValueError('mine')", 1, "ValueError: mine"),
    "an exception inside `with`": (
        "with opened() as runtime, runtime.restore(BINARY) as context: raise ValueError('mine')",
        1,
        "ValueError: mine",
    ),
    "sys.exit": ("runtime = opened(); graph = step_of(runtime); run(graph); sys.exit(7)", 7, ""),
    "os._exit": ("runtime = opened(); graph = step_of(runtime); run(graph); os._exit(7)", 7, ""),
}
# In the child all objects of the parent are refused, nothing is freed, and it ends with its own exit code.
FORKS = {
    "sys.exit": "sys.exit(7)",
    "its own end": "CODE = 0",
    "os._exit": "os._exit(7)",
    "an exception": "sys.stderr = open(os.devnull, 'w'); raise ValueError",
    "everything closed": "context.close(); runtime.close(); sys.exit(7)",
    "everything collected": "del runtime, context, graph; gc.collect(); sys.exit(7)",
    "everything refused": """
heard = []
for call in (lambda: run(graph), lambda: context.graph("look"), lambda: runtime.restore(BINARY), graph.execute,
             lambda: runtime.register(PACKAGE or "x.so"), lambda: context.__enter__(), lambda: graph.bind({})):
    try:
        call()
    except RunFailed as refusal:
        heard.append(f"in process {os.getpid()}: the runtime was opened in process {os.getppid()}" in refusal.message)
sys.exit(heard.count(True))
""",
}


REAL = [row for row in BACKENDS if row[1] == "real"]
# Fewer things can go wrong at the end of these.
ON_OTHERS = ("a circle of references", "sessions, domains, buffers", "an exception", "everything refused")


def everywhere(names: Iterable[str]) -> pytest.MarkDecorator:
    """All of them on the real HTP, some on the others."""
    rows = [(name, row) for name in names for row in BACKENDS if row == ("htp", "real") or name in ON_OTHERS]
    return pytest.mark.parametrize(("name", "backend"), rows, ids=[f"{name}-{'-'.join(row)}" for name, row in rows])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Place]:
    """`place("htp", "real")`: with an op package and a context binary."""

    @cache
    def package(backend: str) -> str:
        out = tmp_path_factory.mktemp(f"package-{backend}")
        if backend == "cpu":
            return str(cpu_package(ONE_OP, out, ONE_KERNEL).library)
        leaky = ROOT / "examples" / "leaky_relu"
        return str(htp_package(leaky / "LeakyRelu.xml", out, leaky / "kernels").library)

    @cache
    def made(backend: str, kind: str) -> Place:
        if kind == "real":
            need_runtime(backend)
        stored = tmp_path_factory.mktemp("stored") / "forward_0.bin"
        manifest.save(stored, binary(backend, kind))
        return backend, kind, package(backend), str(stored)

    return made


def ends(place: Place, program: str, *, code: int = 0, error: str = "", out: str = "") -> None:
    """Run a program; check its exit code, and that stderr is empty except for the traceback of its own error."""
    # Python 3.12 and later warn about forks of processes with threads.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", PRELUDE + program, *place]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert (done.stderr.splitlines() or [""])[-1] == error and done.stderr.count("Traceback") == bool(error), (
        done.stderr
    )
    assert sorted(done.stdout.splitlines()) == sorted(out.splitlines())  # C flushes its buffer at an arbitrary time


@everywhere(PROGRAMS)
def test_a_program_that_closes_nothing(place: Callable[[str, str], Place], name: str, backend: tuple[str, str]) -> None:
    ends(place(*backend), PROGRAMS[name])


@everywhere(ENDS)
def test_a_program_that_ends_in_the_middle(
    place: Callable[[str, str], Place], name: str, backend: tuple[str, str]
) -> None:
    program, code, error = ENDS[name]
    ends(place(*backend), program, code=code, error=error)


@everywhere(FORKS)
def test_a_forked_child(place: Callable[[str, str], Place], name: str, backend: tuple[str, str]) -> None:
    """The parent continues as before."""
    wanted = {"its own end": 0, "an exception": 1}.get(name, 7)
    program = f"""
runtime = opened()
context = runtime.restore(BINARY)
graph = context.graph("step")
graph.bind({{"state": np.ones((1, 4, 8), "f4")}})
child = os.fork()
if child == 0:
{"".join(f"    {line}{chr(10)}" for line in FORKS[name].splitlines())}
else:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == {wanted}, code
    assert run(graph) == 5
"""
    ends(place(*backend), program)


@pytest.mark.parametrize("backend", REAL, ids="-".join)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(
    place: Callable[[str, str], Place], method: str, backend: tuple[str, str], tmp_path: Path
) -> None:
    """A separate child opens its own runtime; libQnnHtp does not work in a fork of a process that uses it."""
    lost = backend == ("htp", "real") and method == "fork"
    script = tmp_path / "program.py"
    work = """
def work(queue):
    try:
        queue.put(float(run(step_of(opened()))))
    except RunFailed as refusal:
        queue.put(refusal.message)

if __name__ == "__main__":
    import multiprocessing
    graph = step_of(opened())
    processes = multiprocessing.get_context(METHOD)
    queue = processes.Queue()
    child = processes.Process(target=work, args=(queue,))
    child.start()
    heard = queue.get(timeout=60)
    child.join()
    assert child.exitcode == 0 and run(graph) == 5
    print(heard)
"""
    script.write_text(PRELUDE + work.replace("METHOD", repr(method)))
    done = subprocess.run(
        [sys.executable, script, *place(*backend)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if lost:
        assert "libQnnHtp.so cannot be used in process" in done.stdout and "threads do not exist here" in done.stdout
    else:
        assert done.stdout == "5.0\n"


@pytest.mark.parametrize("backend", REAL, ids="-".join)
def test_with_onnxruntime_in_the_process(place: Callable[[str, str], Place], backend: tuple[str, str]) -> None:
    """Imported first: its C++ code does not tolerate a QNN library that was loaded before it."""
    if find_spec("onnxruntime") is None:  # not imported here, where QNN is loaded
        pytest.skip("onnxruntime is not installed")
    ends(place(*backend), "import onnxruntime\ngraph = step_of(opened()); assert run(graph) == 5\n")


def test_an_execution_without_end_does_not_hold_up_the_end(place: Callable[[str, str], Place]) -> None:
    """A thread that never returns: the program waits for a while, and still ends with its exit code."""
    program = """
from udogen.runtime.contexts import context as endings
endings._LAST_WAIT = 0.2
graph = step_of(opened())
graph._lock.acquire()  # as an execution holds it
sys.exit(7)
"""
    ends(place("htp", "real"), program, code=7)


def test_what_htp_prints_is_in_the_log(place: Callable[[str, str], Place]) -> None:
    """libQnnHtp of a PC prints stages of preparation through C's stdout, which is also the program's."""
    program = """
import ctypes, logging
from udogen.qnn.tensors import APP_READ, APP_WRITE, OpConfig, QnnTensor
from udogen.runtime import Runtime, Buffer

def prepare(runtime):
    with runtime.new_context() as making:
        graph = making.new_graph("g")
        x, y = (graph.add_tensor(QnnTensor(name, dtype="FLOAT_32", shape=(1, 4, 8), role=role))
                for name, role in (("x", APP_WRITE), ("y", APP_READ)))
        graph.add_node(OpConfig("relu", package="qti.aisw", op_type="Relu", inputs=[x], outputs=[y]))
        graph.finalize()
        try:
            runtime.restore(making.binary()).graph("g").bind({"x": Buffer("memfd", 4096)})
        except RunFailed:
            pass

prepare(opened())  # without a log
lines = []
prepare(Runtime(BACKEND, runtime=KIND, log=lambda level, line: lines.append((level, line)), log_level=3))
assert any(level == 3 and "Starting stage" in line for level, line in lines)
assert any(level == 1 and "QnnMem" in line for level, line in lines)
logging.basicConfig(stream=open("/dev/null", "w"))
kept = []
class Keep(logging.Handler):
    def emit(self, record):
        kept.append((record.levelname, record.getMessage()))
logging.getLogger("udogen.runtime").addHandler(Keep())
prepare(opened())
assert ("ERROR", " <E> QnnMem API is not supported") in kept
assert not any("Starting stage" in line for _, line in kept)
ctypes.CDLL(None).puts(b"C of the program's own")  # goes where it always went
print("Python", flush=True)
"""
    ends(place("htp", "real"), program, out="Python\nC of the program's own\n")


@pytest.mark.parametrize("fails", ["", "before 1", "handle", "after 0", "profile"])
def test_a_context_ends_in_order_even_if_a_step_fails(fails: str) -> None:
    """What depends on the context goes first, last made first; then it is freed; then what it depended on."""
    done: list[str] = []

    def step(name: str) -> Any:
        def run() -> None:
            done.append(name)
            if name == fails:
                raise RunFailed(name)

        return run

    cleanup = ContextCleanup(SimpleNamespace(close=step("handle")), SimpleNamespace(close=step("profile")))  # type: ignore[arg-type]
    for number in range(3):
        cleanup.before.append(step(f"before {number}"))
        cleanup.after.append(step(f"after {number}"))
    with pytest.raises(RunFailed, match=fails) if fails else nullcontext():
        cleanup.run()
    assert done == ["before 2", "before 1", "before 0", "handle", "after 2", "after 1", "after 0", "profile"]
    assert not cleanup.before and not cleanup.after, "each step runs once"
