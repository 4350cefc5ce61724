"""The command of each client that has one.  How packages are named in it is what `udogen register` tells."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from udogen import backends, resources
from udogen.clients import programs
from udogen.clients.package import PC, Package
from udogen.clients.programs import snpe
from udogen.clients.scripts import vendors
from udogen.clients.scripts.client import NAME as CLIENT
from udogen.clients.scripts.marks import CHOSEN, NUMBER, OUT, RUN
from udogen.clients.scripts.plan import Command, File
from udogen.clients.scripts.tensors import Tensor, plain
from udogen.errors import UsageError
from udogen.qnn.system import GraphInfo
from udogen.qnn.tensors import type_code

INPUT_LIST = "input_list.txt"


@dataclass(frozen=True)
class Request:
    """What a command is made from; the paths of its packages are those in the folder of the run."""

    client: str
    packages: tuple[Package, ...]
    system: str
    archs: tuple[str, ...]
    model: str  # the name of its file there
    kind: str  # context or model
    inputs: tuple[Tensor, ...]
    references: tuple[Tensor, ...]
    samples: int
    signed: bool
    graph: GraphInfo | None = None  # of a context binary
    program: bytes = b""  # our own client

    @property
    def backend(self) -> str:
        """The backend of its packages."""
        return self.packages[0].backend

    @property
    def hexagon(self) -> bool:
        """Whether Hexagon itself runs it: HTP on a device."""
        return backends.ALL[self.backend].two_halves and self.system != PC

    def told(self, kind: str) -> list[str]:
        """The words of what `udogen register --only KIND` prints."""
        parts = programs.ALL[self.client].tell(self.packages)
        return shlex.split(next(part.text for part in parts if part.kind == kind))


class Runs(NamedTuple):
    """A client that scripts can run: a new one is a function and a row of `ALL`."""

    command: Callable[[Request], Command]
    models: tuple[str, ...]  # what it can be given: context, model
    output: Callable[[Request, Tensor], str] | None  # where it writes an output; None where it writes none
    root: str = vendors.QNN
    no_devices: str = ""  # why it cannot be told which HTP to take
    signs: bool = False  # whether it can be told to use a signed process domain
    executes: bool = True


# --- qnn-net-run, qnn-context-binary-generator --------------------------------------------------------------
def _net_run(ask: Request) -> Command:
    model = "--retrieve_context" if ask.kind == "context" else "--model"
    words = ["qnn-net-run", "--backend", backends.RUNTIMES[ask.backend].library, model, ask.model]
    words += ["--input_list", INPUT_LIST, "--output_dir", OUT, *_native(ask), *ask.told("flag")]
    return _of_qnn(ask, words, "qnn-net-run")


def _native(ask: Request) -> Iterator[str]:
    """Files are of the tensors' own types as soon as one of them is no float: the others would be converted."""
    if any(each.dtype not in ("float32", "") for each in ask.inputs):
        yield "--use_native_input_files"
    if any(each.dtype not in ("float32", "") for each in ask.references):
        yield "--use_native_output_files"


def _generator(ask: Request) -> Command:
    words = ["qnn-context-binary-generator", "--backend", backends.RUNTIMES[ask.backend].library, "--model", ask.model]
    words += ["--binary_file", "model", "--output_dir", OUT, *ask.told("flag")]
    return _of_qnn(ask, words, "qnn-context-binary-generator")


def _of_qnn(ask: Request, words: Sequence[str], program: str) -> Command:
    prepares = ask.kind == "model"
    needed = [vendors.program(program, ask.system)]
    needed += vendors.qnn(ask.backend, ask.system, ask.archs, prepares=prepares)
    extended: tuple[str, ...] = ()
    if ask.hexagon:
        needed.append(vendors.library("libQnnHtpNetRunExtensions.so", ask.system))
        extended = ("--config_file", f"config_{NUMBER}.json")
    needed.append(vendors.library("libQnnSystem.so", ask.system, needed=not prepares))
    files = (_listed(ask),) if INPUT_LIST in words else ()
    return Command((*words, *extended), files, tuple(needed), extensions=bool(extended))


def _result(ask: Request, tensor: Tensor) -> str:
    return f"Result_{tensor.sample}/{tensor.name}.raw"


# --- SNPE ----------------------------------------------------------------------------------------------------


def _snpe_net_run(ask: Request) -> Command:
    words = ["snpe-net-run", "--container", ask.model, "--input_list", INPUT_LIST, "--output_dir", OUT]
    core = backends.ALL[ask.backend].udo
    words += [*(core.net_run if core else ()), *ask.told("flag")]
    if ask.hexagon:
        words += ["--platform_options", f"unsignedPD:{'OFF' if ask.signed else 'ON'}"]
    needed = [vendors.program("snpe-net-run", ask.system)]
    staged = [name for package in ask.packages for _, name in snpe.device_files(package)]
    prepares = any(name.endswith("_AltPrep.so") for name in staged)
    needed += vendors.snpe(ask.backend, ask.system, ask.archs, prepares=prepares)
    return Command(tuple(words), (_listed(ask),), tuple(needed), dsp_folders=(snpe.DSP_FOLDER,) if ask.hexagon else ())


# --- our own client, and ONNX Runtime in Python -------------------------------------------------------------


def _cpp(ask: Request) -> Command:
    words = [
        f"{RUN}/{CLIENT}",
        "--backend",
        backends.RUNTIMES[ask.backend].library,
        "--context",
        ask.model,
        "--graph",
        "graph.txt",
    ]
    words += ["--samples", str(ask.samples), "--output", OUT]
    if ask.hexagon:
        words += ["--device", CHOSEN]
    for package in ask.packages:
        for library in package.libraries:
            words += ["--op-package", library.path, package.provider, library.target or "-"]
    assert ask.graph is not None
    machine = "x86_64" if ask.system == PC else "aarch64"
    files = (
        File(f"bin/{machine}/{CLIENT}", CLIENT, ask.program, program=True),
        File("graph.txt", "graph.txt", _graph_text(ask.graph).encode("utf-8", "surrogateescape")),
    )
    return Command(tuple(words), files, tuple(vendors.qnn(ask.backend, ask.system, ask.archs)))


def _graph_text(graph: GraphInfo) -> str:
    """A graph's tensors as client.c reads them."""
    lines = [f"graph {graph.name}"]
    for side, row in (("in", graph.inputs), ("out", graph.outputs)):
        for each in row:
            scale, offset = each.scale_offset or (0.0, 0)
            head = f"{side} {each.id} {type_code(each.dtype)} {each.nbytes} {scale!r} {offset} {plain(each.name)}.raw"
            lines.append(f"{head} {len(each.shape)} {' '.join(map(str, each.shape))}".rstrip())
    return "\n".join(lines) + "\n"


def _plain_result(_ask: Request, tensor: Tensor) -> str:
    return f"Result_{tensor.sample}/{tensor.file}"


def _ort(ask: Request) -> Command:
    option = ask.told("option")[0].removeprefix("op_packages=")
    words = ["python3", "ort_client.py", "--model", ask.model, "--backend", ask.backend, "--op-packages", option]
    words += ["--inputs", "inputs.json", "--samples", str(ask.samples), "--output", OUT]
    if ask.hexagon:
        words += ["--device", CHOSEN]
    inputs = {each.name: each.file for each in ask.inputs}
    files = (
        File(
            "bin/ort_client.py", "ort_client.py", (resources.templates() / "scripts" / "ort_client.py.in").read_bytes()
        ),
        File("inputs.json", "inputs.json", (json.dumps(inputs, indent=2) + "\n").encode()),
    )
    return Command(tuple(words), files)


# --- ExecuTorch, LiteRT -------------------------------------------------------------------------------------


def _executorch(ask: Request) -> Command:
    """The packages are named in the model itself, when it is lowered: only where they lie is the script's business."""
    words = ["qnn_executor_runner", "--model_path", ask.model, "--input_list_path", INPUT_LIST]
    words += ["--output_folder_path", OUT]
    needed = [
        vendors.program("qnn_executor_runner", ask.system),
        vendors.library("libqnn_executorch_backend.so", ask.system),
        *vendors.qnn(ask.backend, ask.system, ask.archs),
        vendors.library("libQnnSystem.so", ask.system, needed=False),
    ]
    return Command(tuple(words), (_listed(ask, named=False),), tuple(needed))


def _executorch_output(ask: Request, tensor: Tensor) -> str:
    names = list(dict.fromkeys(each.name for each in ask.references))
    return f"output_{tensor.sample}_{names.index(tensor.name)}.raw"


def _litert(ask: Request) -> Command:
    if ask.samples > 1:
        raise UsageError("run_model of LiteRT runs one sample", hint="write a script for each")
    words = ["run_model", f"--graph={ask.model}", "--accelerator=npu", f"--dispatch_library_dir={RUN}"]
    words += ["--print_tensors", *(["--input_dir=inputs/0"] if ask.inputs else [])]
    words += ask.told("flag-on-device" if ask.hexagon else "flag")
    needed = [
        vendors.program("run_model", ask.system),
        vendors.library("libLiteRtDispatch_Qualcomm.so", ask.system),
        vendors.library("libLiteRt.so", ask.system, needed=False),
        *vendors.qnn(ask.backend, ask.system, ask.archs),
        vendors.library("libQnnSystem.so", ask.system, needed=False),
    ]
    return Command(tuple(words), (), tuple(needed))


# --- input lists --------------------------------------------------------------------------------------------


def _listed(ask: Request, *, named: bool = True) -> File:
    """A line for each sample: `name:=file` for each input, or the files alone."""
    lines = []
    for sample in range(ask.samples):
        row = [each for each in ask.inputs if each.sample == sample]
        if named and (
            odd := [each.name for each in row if any(char.isspace() for char in each.name) or ":=" in each.name]
        ):
            raise UsageError(
                f"input {odd[0]!r} cannot be in an input list: blanks separate its entries",
                hint="rename it in the model, or use --client cpp",
            )
        paths = [f"inputs/{sample}/{each.file}" for each in row]
        entries = [f"{each.name}:={path}" for each, path in zip(row, paths, strict=True)] if named else paths
        lines.append(" ".join(entries))
    return File(INPUT_LIST, INPUT_LIST, ("\n".join(lines) + "\n").encode())


_ONE = "it has no option for the number of the device"
ALL = {
    "qnn-net-run": Runs(_net_run, ("context", "model"), _result, signs=True),
    "qnn-context-binary-generator": Runs(
        _generator, ("model",), None, signs=True, no_devices="it prepares, it does not execute", executes=False
    ),
    "snpe-net-run": Runs(_snpe_net_run, ("model",), _result, root=vendors.SNPE, no_devices=_ONE, signs=True),
    "cpp": Runs(_cpp, ("context",), _plain_result),
    "ort": Runs(_ort, ("model",), _plain_result),
    "executorch": Runs(_executorch, ("model",), _executorch_output, no_devices=_ONE),
    "litert": Runs(_litert, ("model",), None, no_devices=_ONE),
}

# Clients of `udogen register` that are no programs of a device: why, and what to use.
NO_COMMAND = {
    "tflite": ("the delegate is a library, and its command-line tools have no option for op packages", "cpp"),
    "java": ("it is an app of yours", "cpp"),
    "snpe-dlc-quantize": ("it prepares models on a PC, it executes none", "snpe-net-run"),
}
