"""Reads a folder of sources: configs, kernels by backend and op, support files, flags, built libraries."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from udogen.backends import vendor
from udogen.backends.backend import PROVIDER
from udogen.build import elf
from udogen.errors import UdogenError, UsageError, read_plain

_SKIPPED = {".git", ".udogen", ".sdk", "obj", "bin", "build", "libs", "node_modules"}
_MOST_FILES = 20_000
_MOST_BYTES = 4 << 20  # of one source
_CODE = {".cpp", ".cc", ".cxx", ".c"}
_HEADERS = {".h", ".hpp", ".hh", ".inc"}

# Files of the generators that udogen replaces.
_SUPPORT = re.compile(
    r"(Cpu|Gpu)CustomOpPackage\.[ch]pp|\w*Interface\.cpp|CpuBackendUtils\.[ch]pp|BackendUtils\.hpp|CustomOpUtils\.hpp"
    r"|CustomOpPackage\.hpp|CustomOpRegister\.hpp|CustomBEMacros\.hpp|Operation\.hpp|DspOps\.hpp|\w*RegLib\.cpp"
    r"|UdoUtil\.[ch]pp|IUdoOpDefinition\.hpp|UdoMacros\.hpp"
)
_MAKEFILE = re.compile(r"Makefile.*|.*\.mk|CMakeLists\.txt")

# Backend -> how a source declares its op.
_OPS = {
    "cpu": re.compile(r"\bREGISTER_OP\s*\(\s*(\w+)\s*,"),
    "gpu": re.compile(r"\b\w+Operation::s_operationType\s*=\s*\"(\w+)\""),
    "dsp": re.compile(r"\bchar\s+\w+\s*\[\s*\]\s*=\s*\"(\w+)\""),
    "htp": re.compile(r"\bBEGIN_PKG_OP_DEFINITION\s*\(\s*PKG_(\w+)\s*\)"),
}
_QHPI = re.compile(r"\bqhpi_(?:init|register_ops\w*)\b|\bQHPI_\w+")

_PROVIDER = f"[{PROVIDER[0]}{PROVIDER[0].lower()}]{PROVIDER[1:]}"  # its first letter is sometimes lowercase

# Flags that packages of udogen already have, or that belong to Qualcomm's own build.
_OWN_FLAGS = re.compile(
    r"-D(QNN_API|THIS_PKG_NAME|USE_OS_\w+|PREPARE_DISABLED|__HVXDBL__|__QAIC\w*|NDEBUG|ANDROID)\b|-f(omit-frame-pointer|exceptions|PIC|visibility|no-exceptions|lto)"
)
_FLAG = re.compile(r"(?<![\w$(\"'-])-(?:D\w+(?:=[\w.+-]+)?|f[\w-]+(?:=[\w-]+)?)(?=\s|$)")


@dataclass(frozen=True)
class AdoptedKernel:
    """The source of one op for one backend."""

    backend: str
    op: str
    path: Path
    text: bytes

    @property
    def is_core(self) -> bool:
        """Whether it uses HTP's C++ interface."""
        return self.backend == "htp" and vendor.style("htp", self.text) == "core"


@dataclass
class AdoptedFolder:
    """The contents of a folder, by kind."""

    folder: Path
    configs: list[Path] = field(default_factory=list)
    kernels: list[AdoptedKernel] = field(default_factory=list)
    qhpi: list[Path] = field(default_factory=list)  # use QHPI, but not in the generators' style
    snpe_1: list[Path] = field(default_factory=list)  # use the UDO interface of SNPE 1.x
    support: list[Path] = field(default_factory=list)  # replaced by udogen's own
    interfaces: list[Path] = field(default_factory=list)  # sources that implement QNN's interface
    others: list[Path] = field(default_factory=list)  # sources and headers that kernels may need
    flags: dict[str, None] = field(default_factory=dict)
    packages: dict[str, None] = field(default_factory=dict)  # names, from interfaces and libraries
    libraries: list[Path] = field(default_factory=list)
    unreadable: dict[Path, str] = field(default_factory=dict)

    @property
    def is_udo(self) -> bool:
        """Whether it is a whole UDO package."""
        return (self.folder / "jni").is_dir()

    def add(self, path: Path, text: bytes) -> None:
        """Classify one file and add it."""
        if path.suffix in (".xml", ".json"):
            if b"<OpDefCollection" in text or b"UDO_PACKAGE_NAME" in text:
                self.configs.append(path)
        elif _MAKEFILE.fullmatch(path.name):
            self.flags |= dict.fromkeys(_flags(text))
        elif providers := _providers(path, text):
            self.support.append(path)
            self.interfaces.append(path)
            self.packages |= dict.fromkeys(providers)
        elif _SUPPORT.fullmatch(path.name):
            self.support.append(path)
        elif vendor.is_for_snpe_1(text):
            self.snpe_1.append(path)
        elif kernels := _kernels(path, text):
            self.kernels += kernels
        elif path.suffix in _CODE and _QHPI.search(text.decode("utf-8", "replace")):
            self.qhpi.append(path)
        else:
            self.others.append(path)


def read_folder(folder: Path) -> AdoptedFolder:
    """Read a folder of sources; symbolic links are not followed."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name the folder of the package to adopt")
    adopted = AdoptedFolder(folder)
    for path in _files(folder, adopted.libraries):
        try:
            adopted.add(path, read_plain(path) if path.stat().st_size <= _MOST_BYTES else b"")
        except OSError as fault:
            adopted.unreadable[path] = fault.strerror or "it cannot be read"
    adopted.packages |= dict.fromkeys(name for library in adopted.libraries for name in _provided(library))
    return adopted


def _files(folder: Path, libraries: list[Path]) -> Iterator[Path]:
    """Sources, configs and Makefiles, sorted; libraries are added to `libraries`."""
    count = 0
    for root, folders, files in os.walk(folder):
        built = Path(root).name in ("libs", "build") or any(part in ("libs", "build") for part in Path(root).parts)
        folders[:] = sorted(each for each in folders if each not in _SKIPPED - {"libs", "build"})
        for name in sorted(files):
            path, count = Path(root, name), count + 1
            if count > _MOST_FILES:
                raise UsageError(f"{folder} has more than {_MOST_FILES} files", hint="name the folder of one package")
            if path.is_symlink():
                continue
            if path.suffix == ".so":
                libraries.append(path)
            elif not built and (path.suffix in _CODE | _HEADERS | {".xml", ".json"} or _MAKEFILE.fullmatch(name)):
                yield path


def _providers(path: Path, text: bytes) -> list[str]:
    """The packages whose interface a source implements."""
    if path.suffix not in _CODE or b"QnnOpPackage_Interface_t" not in text:
        return []
    plain = vendor.without_comments(text).decode("utf-8", "replace")
    return re.findall(rf"\b(\w*?)_?{_PROVIDER}\s*\([^;{{)]*\)\s*\{{", plain)


def _kernels(path: Path, text: bytes) -> list[AdoptedKernel]:
    if path.suffix not in _CODE:
        return []
    plain = vendor.without_comments(text).decode("utf-8", "replace")
    for backend in vendor.BACKENDS:
        if vendor.style(backend, text):
            return [AdoptedKernel(backend, op, path, text) for op in dict.fromkeys(_OPS[backend].findall(plain))]
    ops = dict.fromkeys(_OPS["htp"].findall(plain))
    if vendor.style("htp", text) == "qhpi":
        ops |= dict.fromkeys(vendor.qhpi_ops(text))
    return [AdoptedKernel("htp", op, path, text) for op in ops]


def _flags(makefile: bytes) -> Iterator[str]:
    """Macros and -f flags that the user added to a Makefile."""
    for line in makefile.decode("utf-8", "replace").splitlines():
        if re.match(r"\s*[\w.]*FLAGS[\w.]*\s*[:+?]?=", line):
            yield from (flag for flag in _FLAG.findall(line) if not _OWN_FLAGS.match(flag))


def _provided(library: Path) -> list[str]:
    """The packages that a built library provides."""
    try:
        exports = elf.read(library).exports
    except (UdogenError, OSError):
        return []
    return [name.removesuffix(PROVIDER) for name in exports if name.endswith(PROVIDER)]
