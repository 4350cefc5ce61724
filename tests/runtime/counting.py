"""Packages in one process: `counting.py CASE CPU OTHER HTP`; the arguments are libraries; prints counts as JSON.

CPU and HTP are libraries of LeakyReluPackage, OTHER is the same op in OtherPackage for the CPU.
"""

import ctypes
import json
import os
import sys
import threading
from pathlib import Path

import numpy as np

from udogen.qnn import abi
from udogen.qnn.handles import GraphHandle
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor
from udogen.runtime import Context, OpConfig, Runtime
from udogen.runtime.ops import executions
from udogen.runtime.worker.loaded_package import LoadedPackage

CASE, CPU, OTHER, HTP = sys.argv[1], *map(Path, sys.argv[2:5])
X = np.random.default_rng(3).normal(size=(2, 3, 4)).astype(np.float32)
THREADS, TIMES = 8, 500


def leaky(context: Context, package: str, nodes: int = 1) -> tuple[GraphHandle, list[QnnTensor], list[QnnTensor]]:
    """Return a finalized graph of so many LeakyRelu, side by side."""
    graph = context.new_graph("graph")
    x = graph.add_tensor(QnnTensor("x", dtype="FLOAT_32", shape=X.shape, role=APP_WRITE))
    made = []
    for number in range(nodes):
        made.append(graph.add_tensor(QnnTensor(f"y{number}", dtype="FLOAT_32", shape=X.shape, role=APP_READ)))
        name = f"{package}{number}"
        graph.add_node(OpConfig(name, package=package, op_type="LeakyRelu", inputs=[x], outputs=[made[-1]]))
    graph.finalize()
    x.bind(bytearray(X.tobytes()))
    for each in made:
        each.bind(bytearray(X.nbytes))
    return graph, [x], made


def two_packages() -> object:
    """Each package counts its own executions, even if both have the same op, and one of them two nodes."""
    with Runtime("cpu") as runtime:
        runtime.register(CPU)
        runtime.register(OTHER)
        reported = [runtime.executions()]
        with runtime.new_context() as one, runtime.new_context() as two:
            first, second = leaky(one, "LeakyReluPackage"), leaky(two, "OtherPackage", nodes=2)
            for _ in range(3):
                first[0].execute(*first[1:])
            second[0].execute(*second[1:])
            reported.append(runtime.executions())
    return reported


def two_backends() -> object:
    """Two libraries that export the same names."""
    with Runtime("htp") as htp, Runtime("cpu") as cpu:
        htp.register(HTP)
        cpu.register(CPU)
        with htp.new_context() as one, cpu.new_context() as two:
            first, second = leaky(one, "LeakyReluPackage"), leaky(two, "LeakyReluPackage")
            for _ in range(5):
                first[0].execute(*first[1:])
            second[0].execute(*second[1:])
        return [htp.executions(), cpu.executions()]


def threads() -> object:
    """Separate graphs, executed at once: every execution is counted."""
    with Runtime("cpu") as runtime:
        runtime.register(CPU)
        contexts = [runtime.new_context() for _ in range(THREADS)]
        graphs = [leaky(context, "LeakyReluPackage") for context in contexts]
        started = threading.Barrier(THREADS)

        def work(graph: GraphHandle, inputs: list[QnnTensor], outputs: list[QnnTensor]) -> None:
            execute = graph.executor(inputs, outputs)
            started.wait()
            for _ in range(TIMES):
                execute()

        workers = [threading.Thread(target=work, args=graph) for graph in graphs]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        found = runtime.executions()
        for context in contexts:
            context.close()
    return [found, THREADS * TIMES]


def initialized_twice() -> object:
    """The codes of init and terminate, and the counts that the function returns for ops."""
    package = LoadedPackage(str(CPU), "LeakyReluPackageInterfaceProvider")
    init, terminate = package.v1_4("init"), package.v1_4("terminate")
    null = abi.ffi().NULL
    codes = [terminate(), init(null), init(null), terminate(), terminate(), terminate(), init(null), terminate()]
    count = ctypes.CDLL(str(CPU)).LeakyReluPackageExecutions
    count.argtypes, count.restype = [ctypes.c_char_p], ctypes.c_uint64
    return [codes, [count(b"LeakyRelu"), count(None), count(b"Softmax")], dict(executions(CPU))]


def counted_at_the_end() -> object:
    """Two runtimes while the library stays loaded; the process changes its folder, and forks."""
    kept = ctypes.CDLL(str(CPU))
    for number in (1, 2):
        with Runtime("cpu") as runtime:
            runtime.register(CPU)
            os.chdir("/")
            with runtime.new_context() as context:
                graph, inputs, outputs = leaky(context, "LeakyReluPackage")
                for _ in range(number):
                    graph.execute(inputs, outputs)
            if number == 2 and os.fork() == 0:
                sys.exit(0)  # its execution is not reported, and it reports nothing
    os.wait()
    return str(kept)


def left_alone() -> object:
    """The runtime is never closed."""
    runtime = Runtime("cpu")
    runtime.register(CPU)
    graph, inputs, outputs = leaky(runtime.new_context(), "LeakyReluPackage")
    for _ in range(4):
        graph.execute(inputs, outputs)
    return 0


print(json.dumps(globals()[CASE]()))
