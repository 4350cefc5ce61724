"""Compiles kernels in Python to object files next to them, each in a separate process, as LLVM ends it on failure."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path

from udogen import backends, errors, process, resources
from udogen.backends.common import KERNEL_FOLDER, KERNEL_INCLUDE
from udogen.backends.gpu_files import opencl_name
from udogen.configs import resolve
from udogen.configs.load import load
from udogen.errors import BuildFailed, ToolMissing
from udogen.findings import Findings
from udogen.kernels import glue
from udogen.kernels.request import (
    COMPILING,
    HALVES,
    IEEE,
    IEEE_MACHINES,
    LLVM_OPTIONS,
    MOST_MEMORY,
    MOST_SECONDS,
    PLACE,
    RAN,
    RUNNING,
    Report,
    Request,
    TargetMachine,
    TensorPort,
    machines_of,
)
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, Tensor
from udogen.opdef.names import identifier
from udogen.python_files import end_of, read_place
from udogen.resources import pip_install

_KEY = "key"
# The modules that determine what is compiled; modules for one kind of machine count only for such machines.
_DECIDING = (
    "__init__",
    "algorithm",
    "fixed",
    "halves",
    "hvx",
    "kernel_file",
    "lines",
    "math",
    "request",
    "scratch",
    "signature",
    "sums",
    "twins",
    "worker",
)
_LIBRARY = re.compile(rb"^from udogen\.(\w+) import (\w+)", re.MULTILINE)  # functions for kernels, in a folder
_LONGEST = 7200.0  # wall-clock seconds for a worker, which itself limits its processor time
# How Python, C++ and LLVM end if there is no memory.
_NO_MEMORY = re.compile(r"MemoryError|bad_alloc|out of memory")
# What Halide's HVX code refers to but never calls here: no library needs to have it.
_UNUSED = {
    *("malloc", "free", "qurt_hvx_lock", "qurt_hvx_unlock", "HAP_request_VTCM", "HAP_release_VTCM"),
    *("halide_error", "halide_string_to_string", "halide_msan_annotate_memory_is_initialized"),
}
_NOT_TAKEN = ("BFLOAT_16", "FLOAT_64", "UINT_64")
_TYPES = {"float": "f", "int": "i", "sfixed": "i", "uint": "u", "ufixed": "u", "bool": "u"}


@dataclass(frozen=True)
class PythonKernels:
    """The kernels in Python of one library of a package."""

    package: str
    folder: Path
    backend: str
    layout: str
    configs: tuple[Path, ...]
    files: tuple[Path, ...]
    float_twins: bool = False  # functions in floats are executed when they are built


def compile_kernels(kernels: PythonKernels, machines: Sequence[str], on_step: Callable[[str], None], jobs: int) -> None:
    """Compile what is missing or old for these machines, which are named like their library folders."""
    rows = _machines_of(kernels)
    known = [machine for machine in dict.fromkeys(machines) if machine in rows]
    about = (kernels.package, kernels.backend, kernels.layout)
    sources = (*kernels.configs, Path(glue.__file__), resources.templates() / glue.TEMPLATE)
    calls = [path.read_bytes() for path in sources]
    version = _release("halide")
    missing: dict[str, list[Path]] = {}  # key -> folders; many machines use the same code
    kernel_of = {}
    for path in kernels.files:
        for machine in known:
            row = repr((about, path.stem)).encode()
            key = resources.content_key(*_deciding(path, rows[machine]), row, *calls)
            found = path.with_suffix(KERNEL_FOLDER) / machine
            kernel_of[key] = path
            if not _is_there(found, key, version):
                missing.setdefault(key, []).append(found)
    if not missing:
        return
    if version is None:
        raise _no_halide(kernel_of[next(iter(missing))])
    ops = _ops(kernels)

    def compile_one(key: str, folders: Sequence[Path]) -> None:
        path = kernel_of[key]
        told: set[Path] = set()
        for folder in folders:
            request = replace(request_of(kernels, ops[path.stem], path, folder.name), machine=rows[folder.name])
            asked = replace(request, file=path.name).as_json().encode()
            releases = repr((version, request.machine.aligned and _release("ziglang"))).encode()
            key_of_code = resources.content_key(*_deciding(path, request.machine), asked, releases)
            cached = resources.cache_dir("kernels") / key_of_code
            if not (cached / _KEY).is_file():
                on_step(f"HALIDE {path.relative_to(kernels.folder)} {folder.name}")
                _compile_into(cached, request)
            report = Report.of_json((cached / "report.json").read_text("utf-8"))
            if cached not in told:
                _tell(report, path.stem, folder.name, on_step)
                told.add(cached)
            with _locked(folder.parent):
                if not _is_there(folder, key, version):
                    _install(cached, folder, glue.include(request, report))
                    (folder / _KEY).write_text(f"{key} {version}")

    process.at_once([partial(compile_one, key, folders) for key, folders in missing.items()], jobs)


def _machines_of(kernels: PythonKernels) -> Mapping[str, TargetMachine]:
    twins, rows = kernels.float_twins, machines_of(kernels.backend)
    return {name: replace(row, float_twins=twins and row.halves) for name, row in rows.items()}


def _tell(report: Report, op: str, machine: str, on_step: Callable[[str], None]) -> None:
    """Print which functions are slower than they might be, and why."""
    rows = {
        f"SCALAR {{}} on {machine}": report.scalar,
        f"NO TILES {{}} on {machine}, which adds products one by one": report.untiled,
        f"INTEGERS {{}} on {machine}, which has half floats": report.converted,
        "NO GPU {}": {op: report.not_on_gpu} if report.not_on_gpu else {},
    }
    for words, found in rows.items():
        for name, why in found.items():
            on_step(f"{words.format(name)}: {why}")


def _install(cached: Path, folder: Path, include: str) -> None:
    """Copy the object files of a kernel for a machine, and write what its C++ file includes."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(cached, folder, ignore=shutil.ignore_patterns("re*.json", "*.cl", "*.cpp", "*.bc", "*.stmt", _KEY))
    _choose_floats(folder, folder.name)
    file = folder.parent / KERNEL_INCLUDE
    if not file.is_file() or file.read_text("utf-8") != include:
        file.write_text(include, "utf-8")


def _choose_floats(folder: Path, machine: str) -> None:
    """Keep the functions with the floats of a version of Hexagon."""
    for file in (folder / IEEE).glob("*") if machine in IEEE_MACHINES else ():
        file.replace(folder / file.name)
    shutil.rmtree(folder / IEEE, ignore_errors=True)


def _deciding(kernel: Path, machine: TargetMachine) -> list[bytes]:
    """What the code of a kernel for a machine is made of, in addition to the request."""
    text, own = kernel.read_bytes(), Path(__file__).parent
    names = (*_DECIDING, *(["opencl"] if machine.gpu else []))
    folders = (own.parent.joinpath(*map(bytes.decode, parts)) for parts in _LIBRARY.findall(text))
    files = [own / f"{name}.py" for name in names] + [
        file for folder in folders for file in sorted(folder.glob("*.py"))
    ]
    if machine.aligned:  # with vectors of Hexagon
        files += [resources.templates() / name for name in HALVES]
    return [text, repr(machine).encode(), *(file.read_bytes() for file in files)]


def _release(package: str) -> str | None:
    """The installed release of a package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _no_halide(kernel: Path) -> ToolMissing:
    return ToolMissing(
        f"{kernel} is a kernel in Python, which Halide compiles, and Halide is not installed",
        hint=f"{pip_install('kernels')}; a package that was built once needs only make",
    )


def compile_texts(kernels: PythonKernels, path: Path, machine: str, into: Path) -> Report:
    """Compile one kernel for one machine into a folder, with the assembly of each function next to it."""
    if _release("halide") is None:
        raise _no_halide(path)
    op = _ops(kernels)[path.stem]
    request = request_of(kernels, op, path, machine)
    _compile(replace(request, texts=True), into)
    _choose_floats(into, machine)
    return Report.of_json((into / "report.json").read_text("utf-8"))


def _ops(kernels: PythonKernels) -> Mapping[str, Op]:
    package = next(config for config in load(kernels.configs)[0] if config.name == kernels.package)
    resolved = resolve.for_backend(package, kernels.backend, Findings(), forced=True, layout=kernels.layout)
    return {op.name: op for op in resolved.ops}


def _compile_into(cached: Path, request: Request) -> None:
    """Fill a folder of the cache."""
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent) as made:
        _compile(request, Path(made))
        (Path(made) / _KEY).touch()
        try:
            os.rename(shutil.copytree(made, f"{made}.whole"), cached)
        except OSError:  # another process was faster
            shutil.rmtree(f"{made}.whole")


def _is_there(folder: Path, key: str, version: str | None) -> bool:
    """Whether a folder was made for this key by this release of Halide; without Halide, any release is accepted."""
    made = (folder / _KEY).read_text("utf-8").split() if (folder / _KEY).is_file() else []
    return made[:1] == [key] and (version is None or made[1:] == [version])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other writers: programs for several ops of a package may be built at once."""
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def request_of(kernels: PythonKernels, op: Op, file: Path, machine: str) -> Request:
    """What to compile of an op's kernel for a machine."""
    tensors = [*op.inputs, *(param for param in op.params if not param.is_scalar), *op.outputs]
    scalars = [param for param in op.params if param.is_scalar and not _is_text(param)]
    refused = {identifier(tensor.name): what for tensor in (*tensors, *op.params)
               if (what := _refused(tensor, kernels.backend))}  # fmt: skip
    return Request(
        file=str(file.resolve()),
        op=op.name,
        prefix=f"{kernels.package}_{op.name}",
        tensors=tuple(_port(tensor, kernels.backend) for tensor in tensors if identifier(tensor.name) not in refused),
        scalars={identifier(scalar.name): _type_of_scalar(scalar) for scalar in scalars},
        refused=refused,
        machine=machines_of(kernels.backend)[machine],
        defaults={
            identifier(scalar.name): float(scalar.default)
            for scalar in scalars
            if isinstance(scalar.default, bool | int | float)
        },
        values=tuple(identifier(value.name) for value in (*op.inputs, *op.params)),
    )


def _is_text(param: Tensor) -> bool:
    return param.role == "param" and any(datatype.kind == "string" for datatype in param.datatypes)


def _refused(tensor: Tensor, backend: str) -> str:
    """What a tensor or parameter is that kernels in Python do not take; empty if they do."""
    if _is_text(tensor):
        return "a text"
    if tensor.is_scalar:
        return ""
    if not _types(tensor, backend):
        return f"of {' or '.join(datatype.name for datatype in tensor.datatypes)}"
    return "repeated" if tensor.repeated else ""


def _type_of_scalar(param: Tensor) -> str:
    return "f32" if any(datatype.kind == "float" for datatype in param.datatypes) else "i32"


def _types(tensor: Tensor, backend: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stored for datatype in tensor.datatypes if (stored := stored_as(datatype, backend))))


def _port(tensor: Tensor, backend: str) -> TensorPort:
    types = _types(tensor, backend)
    real = any(datatype.quantized for datatype in tensor.datatypes)
    optional = tensor.role != "output" and not tensor.mandatory and tensor.default is None
    name = identifier(tensor.name)
    rank = min(tensor.rank.ranks, default=0)
    return TensorPort(name, tensor.role == "output", types, real, optional, opencl_name(name), rank)


def stored_as(datatype: DataType, backend: str) -> str:
    """The stored type in C++; empty if kernels in Python do not support it."""
    kind = _TYPES.get(datatype.kind, "")
    if backends.KINDS[backend].opencl and (datatype.quantized or kind == "f"):
        return "f32"  # the OpenCL text converts them
    if not kind or datatype.name in _NOT_TAKEN or (datatype.quantized and datatype.bits not in (8, 16)):
        return ""
    if kind == "i" and datatype.bits in (8, 16) and backends.ALL[backend].stores_unsigned:
        if not datatype.quantized:
            return ""  # numbers arrive with an offset
        kind = "u"
    return f"{kind}{datatype.bits}"


def _compile(request: Request, into: Path) -> None:
    """Compile the functions of a kernel and what calls them; where the compiler dies, vectors get shorter."""
    while True:
        done = _start(request, into)
        if done.returncode == 0 and (into / "report.json").is_file():
            break
        name, how = _died_in(request, into, done)
        request = replace(request, deaths={**request.deaths, name: [*request.deaths.get(name, ()), how]})
    for file in (*into.glob("*.o"), *into.glob(f"{IEEE}/*.o")):
        _adjust(file)


def _died_in(request: Request, into: Path, done: process.Completed) -> tuple[str, str]:
    """The function in which the compiler died, and how; raises if the worker ended for another reason, or too often."""
    if done.timed_out:  # a loaded machine must not get different functions than an idle one
        raise BuildFailed(
            f"{request.file}: Halide did not compile it in {_LONGEST / 3600:.0f} hours",
            hint="look whether the kernel waits for something, or build on a machine that does less",
        )
    begun = [line.removeprefix(COMPILING) for line in done.stdout.splitlines() if line.startswith(COMPILING)]
    lines = done.stderr.strip().splitlines()
    if lines and lines[-1].startswith("{"):
        raise errors.of_json(json.loads(lines[-1]))
    marks = [line for line in done.stdout.splitlines() if line in (RUNNING, RAN)]
    how = "crashed"
    if done.returncode == -signal.SIGXCPU:
        how = f"took more than {MOST_SECONDS} s of processor time"
    elif _NO_MEMORY.search(done.stderr):
        how = f"took more than {MOST_MEMORY >> 30} GB of memory"
    if done.returncode == 0 or (marks[-1:] == [RUNNING] and how == "crashed"):
        raise BuildFailed(
            f"{read_place(into / PLACE)}: it ended the process that compiles it with {end_of(done.returncode)}",
            hint="raise an exception instead",
        )
    if not begun or len(request.deaths.get(begun[-1], ())) > 2:
        raise BuildFailed(
            f"{request.file}: Halide {how} while it compiled {begun[-1] if begun else 'it'} for "
            f"{request.machine.target}",
            details=lines[-5:],
            hint="take out lines of the kernel until it compiles, to see which one it is",
        )
    return begun[-1], how


def _start(request: Request, into: Path) -> process.Completed:
    (into / "request.json").write_text(request.as_json(), "utf-8")
    argv = [sys.executable, "-m", "udogen.kernels.worker", str(into)]
    options = LLVM_OPTIONS if request.machine.aligned else {}
    return process.run(argv, env=options, timeout=_LONGEST, starting=process.supervised)


def _adjust(file: Path) -> None:
    """Hide the functions of an object file from other libraries, and allow what is never called to be missing."""
    data = bytearray(file.read_bytes())
    wide = data[4] == 2
    sections_at = struct.unpack_from("<Q" if wide else "<I", data, 40 if wide else 32)[0]
    size, count = struct.unpack_from("<HH", data, 58 if wide else 46)
    heads = [
        struct.unpack_from("<IIQQQQII" if wide else "<IIIIIIII", data, sections_at + n * size) for n in range(count)
    ]
    for _, kind, _, _, offset, length, link, _ in heads:
        if kind != 2:
            continue
        texts = heads[link][4]
        entry, info, other, section = (24, 4, 5, 6) if wide else (16, 12, 13, 14)
        for at in range(offset, offset + length, entry):
            start = texts + struct.unpack_from("<I", data, at)[0]
            name = data[start : data.index(0, start)].decode()
            if data[at + info] >> 4 == 0:
                continue
            is_defined = struct.unpack_from("<H", data, at + section)[0] != 0
            if name in _UNUSED and not is_defined:
                data[at + info] = 2 << 4 | data[at + info] & 15
            if is_defined:
                data[at + other] = 2
    file.write_bytes(data)
