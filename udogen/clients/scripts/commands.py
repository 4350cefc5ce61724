"""The command line of each client that has one, and the files it needs.

Op packages are passed in the form that `udogen register` prints.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from udogen import backends, resources
from udogen.backends.targets import ALL as TARGETS
from udogen.build import tools
from udogen.build.emulator import kept_build
from udogen.build.toolchains import choose
from udogen.build.tools import Environment
from udogen.clients import programs
from udogen.clients.package import ANDROID, LINUX, PC, Package
from udogen.clients.scripts.plan import OUT, RUN, Command, ScriptFile, VendorFile, machine_of
from udogen.clients.scripts.tensors import TensorData, file_name
from udogen.clients.snippets import DSP_FOLDER, snpe_files
from udogen.errors import ToolMissing, UsageError
from udogen.qnn.system import GraphInfo
from udogen.qnn.tensors import type_code
from udogen.runtime.library import SDK_FOLDERS

INPUT_LIST = "input_list.txt"
OWN_CLIENT = "udogen-client"


@dataclass(frozen=True)
class ClientRun:
    """The data for a command; the paths of its packages are those in the folder of the run."""

    client: str
    packages: tuple[Package, ...]
    model: str  # file name in the folder of the run
    context: bool  # whether it is a context binary
    inputs: tuple[TensorData, ...] = ()
    references: tuple[TensorData, ...] = ()
    graph: GraphInfo | None = None  # of a context binary
    program: Path | None = None  # udogen's own client
    loops: int = 1  # executions; this and the limit are only for udogen's own client
    seconds: int = 0  # limit of these executions; 0: unlimited

    @property
    def backend(self) -> str:
        """The backend of its packages."""
        return self.packages[0].backend

    @property
    def system(self) -> str:
        """The system on which it runs."""
        return self.packages[0].platform.system

    @property
    def arch(self) -> str:
        """The Hexagon version; empty if it does not run on Hexagon."""
        return self.packages[0].platform.arch

    @property
    def hexagon(self) -> bool:
        """Whether it runs on Hexagon: HTP on a device."""
        return backends.ALL[self.backend].two_halves and self.system != PC

    def registration(self, kind: str) -> list[str]:
        """The words that `udogen register --only KIND` prints."""
        snippets = programs.ALL[self.client].snippets(self.packages)
        return shlex.split(next(snippet.text for snippet in snippets if snippet.kind == kind))


class ScriptClient(NamedTuple):
    """A client that scripts can run; a new one needs a function and a row in `ALL`."""

    command: Callable[[ClientRun], Command]
    output: Callable[[TensorData], str]  # the file of an output
    separators: str = ""  # of its option, besides `:`, which no path may contain
    sdk: str = "QNN_SDK_ROOT"
    model: str = ""  # context or model, if it accepts only one of them
    own: bool = False  # udogen's own program, which is compiled


# --- files of the SDKs ----------------------------------------------------------------------------------

_SDK_PLATFORMS = {PC: SDK_FOLDERS["x86_64"], ANDROID: ("aarch64-android",), LINUX: SDK_FOLDERS["aarch64"]}


def _program(name: str, system: str) -> VendorFile:
    return VendorFile(name, _below("bin", system))


def _library(name: str, system: str, *, needed: bool = True) -> VendorFile:
    """A library for the processor of the client."""
    return VendorFile(name, _below("lib", system), needed=needed)


def _below(kind: str, system: str) -> tuple[str, ...]:
    return tuple(f"{kind}/{platform}" for platform in _SDK_PLATFORMS[system])


def _qnn_libraries(run: ClientRun, *, prepares: bool = False) -> Iterator[VendorFile]:
    yield _library(backends.RUNTIMES[run.backend].library, run.system)
    yield from _hexagon_libraries(run, "libQnnHtp", prepares=prepares)


def _hexagon_libraries(run: ClientRun, prefix: str, *, prepares: bool) -> Iterator[VendorFile]:
    """The libraries that HTP needs on a device: the one that prepares graphs, stub and skel."""
    if not run.hexagon:
        return
    yield _library(f"{prefix}Prepare.so", run.system, needed=prepares)
    folders = (f"lib/hexagon-{run.arch}/unsigned", f"lib/hexagon-{run.arch}/signed")
    yield _library(f"{prefix}{run.arch.upper()}Stub.so", run.system)
    yield VendorFile(f"{prefix}{run.arch.upper()}Skel.so", folders)


# --- qnn-net-run ----------------------------------------------------------


def _net_run(run: ClientRun) -> Command:
    model = "--retrieve_context" if run.context else "--model"
    words = ["qnn-net-run", "--backend", backends.RUNTIMES[run.backend].library, model, run.model]
    words += ["--input_list", INPUT_LIST, "--output_dir", OUT, *_native(run), *run.registration("flag")]
    prepares = not run.context
    needed = [_program("qnn-net-run", run.system), *_qnn_libraries(run, prepares=prepares)]
    extended: tuple[str, ...] = ()
    if run.hexagon:
        needed.append(_library("libQnnHtpNetRunExtensions.so", run.system))
        extended = ("--config_file", "config.json")
    needed.append(_library("libQnnSystem.so", run.system, needed=not prepares))
    return Command((*words, *extended), (_input_list(run),), tuple(needed), extensions=run.hexagon)


def _native(run: ClientRun) -> Iterator[str]:
    """The flags for files in the tensors' own types, if one of them is not float; otherwise files are converted."""
    if any(tensor.dtype != "float32" for tensor in run.inputs):
        yield "--use_native_input_files"
    if any(tensor.dtype != "float32" for tensor in run.references):
        yield "--use_native_output_files"


def _result(tensor: TensorData) -> str:
    return f"Result_0/{tensor.name}.raw"


# --- SNPE -----------------------------------------------------------------------------------------------


def _snpe_net_run(run: ClientRun) -> Command:
    words = ["snpe-net-run", "--container", run.model, "--input_list", INPUT_LIST, "--output_dir", OUT]
    core = backends.ALL[run.backend].udo
    words += [*(core.net_run if core else ()), *run.registration("flag")]
    if run.hexagon:
        words += ["--platform_options", "unsignedPD:ON"]
    names = [name for package in run.packages for _, name in snpe_files(package)]
    needed = [
        _program("snpe-net-run", run.system),
        _library("libSNPE.so", run.system),
        # A package's `_AltPrep.so` is linked with libSnpeHtpPrepare.so.
        *_hexagon_libraries(run, "libSnpeHtp", prepares=any(name.endswith("_AltPrep.so") for name in names)),
    ]
    folders = (DSP_FOLDER,) if run.hexagon else ()
    return Command(tuple(words), (_input_list(run),), tuple(needed), dsp_folders=folders)


# --- udogen's own client ----------------------------------------------------


def _own_client(run: ClientRun) -> Command:
    words = [f"{RUN}/{OWN_CLIENT}", "--backend", backends.RUNTIMES[run.backend].library, "--context", run.model]
    words += ["--graph", "graph.txt", "--output", OUT]
    if run.seconds:
        words += ["--loops", str(run.loops), "--seconds", str(run.seconds)]
    for package in run.packages:
        for library in package.libraries:
            words += ["--op-package", library.path, package.provider, library.target or "-"]
    assert run.program is not None
    files = [ScriptFile(f"bin/{machine_of(run.system)}/{OWN_CLIENT}", OWN_CLIENT, run.program)]
    if run.graph is not None:
        files.append(ScriptFile("graph.txt", "graph.txt", graph_text(run.graph)))
    return Command(tuple(words), tuple(files), tuple(_qnn_libraries(run)))


def graph_text(graph: GraphInfo) -> bytes:
    """A graph's tensors in the format of client.c."""
    lines = [f"graph {graph.name}"]
    for side, row in (("in", graph.inputs), ("out", graph.outputs)):
        for tensor in row:
            scale, offset = tensor.scale_offset or (0.0, 0)
            head = f"{side} {tensor.id} {type_code(tensor.dtype)} {tensor.nbytes} {scale!r} {offset} "
            dimensions = f" {len(tensor.shape)} {' '.join(map(str, tensor.shape))}".rstrip()
            lines.append(f"{head}{file_name(tensor.name)}.raw{dimensions}")
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


_SOURCE = Path(__file__).with_name("client.c")
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra")
_COMPILERS = {PC: ("cpu_x86", "X86_CXX"), LINUX: ("cpu_aarch64", "AARCH64_CXX")}
_NDK_CLANG = "toolchains/llvm/prebuilt/linux-x86_64/bin/clang"


def build_own_client(
    system: str, env: Environment | None = None, *, on_step: Callable[[str], None] = lambda _line: None
) -> Path:
    """The program of client.c for x86-64 Linux (PC), Android or aarch64 Linux; it is cached."""
    command, headers = _c_compiler(system, env or tools.environment()), resources.qnn_headers()
    argv = [*command, *_FLAGS, f"-I{headers}", _SOURCE, "-o", OWN_CLIENT, "-ldl"]
    kept = kept_build("client", system, "udogen's client", [argv], headers=sorted(headers.rglob("*.h")), seconds=1)
    if not kept.is_warm:
        on_step("udogen's client is compiled")
    return kept.ready() / OWN_CLIENT


def _c_compiler(system: str, env: Environment) -> list[str]:
    if system == ANDROID:
        clang = Path(env.android_ndk_root or "/", _NDK_CLANG)
        if not env.android_ndk_root or not clang.is_file():
            why = f"is {env.android_ndk_root}, which has no {_NDK_CLANG}" if env.android_ndk_root else "is unset"
            raise ToolMissing(
                f"udogen's client for Android needs the NDK: ANDROID_NDK_ROOT {why}",
                hint="set ANDROID_NDK_ROOT; --client qnn-net-run needs no compiler",
            )
        return [str(clang), "--target=aarch64-none-linux-android21"]
    target, variable = _COMPILERS[system]
    choice = choose(TARGETS[target], env, "open")
    return [*shlex.split(dict(choice.variables)[variable]), "-x", "c"]  # a C++ compiler, used as a C compiler


# --- input lists ----------------------------------------------------------------------------------------


def _input_list(run: ClientRun) -> ScriptFile:
    """The input list: one line, with `name:=file` for each input."""
    if odd := [
        tensor.name for tensor in run.inputs if any(char.isspace() for char in tensor.name) or ":=" in tensor.name
    ]:
        raise UsageError(
            f"input {odd[0]!r} cannot be in an input list: blanks separate its entries",
            hint="rename it in the model, or use --client cpp",
        )
    line = " ".join(f"{tensor.name}:=inputs/{tensor.file}" for tensor in run.inputs)
    return ScriptFile(INPUT_LIST, INPUT_LIST, f"{line}\n".encode())


ALL = {
    "qnn-net-run": ScriptClient(_net_run, _result, ","),
    "snpe-net-run": ScriptClient(_snpe_net_run, _result, ",", sdk="SNPE_ROOT", model="model"),
    "cpp": ScriptClient(_own_client, lambda tensor: tensor.file, model="context", own=True),
}
