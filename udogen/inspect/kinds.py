"""The kind of a library, by its symbols."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from udogen.backends import architectures
from udogen.backends.backend import PROVIDER
from udogen.build import elf
from udogen.build.elf import Elf
from udogen.build.sdks import usable_with
from udogen.runtime.library import BUILD_ID


class LibraryKind(NamedTuple):
    """One kind of library, and the symbols that identify it."""

    id: str
    words: str
    backend: str = ""  # that accepts it; only op packages have one
    exported: str = r"(?!)"  # a symbol that only this kind exports
    used: str = r"(?!)"  # or leaves undefined
    init: str = ""  # libQnnHtp looks for one of two functions, and refuses a package with neither (observed in 2.47)
    remedy: str = ""


KINDS = (
    LibraryKind(
        "skel",
        "the Hexagon half of a QNN runtime (skel)",
        exported=r"\w+_skel_handle_invoke",
        remedy="give it to --against, and the op package as LIBRARY",
    ),
    LibraryKind(
        "runtime",
        "a QNN runtime library",
        exported=r"Qnn(System)?Interface_getProviders|qhpi_register_ops_v\d+",
        remedy="give it to --against, and the op package as LIBRARY",
    ),
    LibraryKind("qhpi", "HTP op package (QHPI)", "htp", r"qhpi_init", r"qhpi_register_ops_v\d+", "qhpi_init"),
    LibraryKind("core", "HTP op package (C++ kind of the SDK)", "htp", r"op_pkg_init", r"_ZNK?4hnnx\w+", "op_pkg_init"),
    LibraryKind(
        "udo",
        "a registration library of SNPE (UDO)",
        exported=r"SnpeUdo_getRegInfo",
        remedy="SNPE registers it (Snpe_Util_AddOpPackage, --udo_package_path); QNN registers its libraries",
    ),
    LibraryKind(
        "snpe",
        "a UDO library of SNPE",
        exported=r"SnpeUdo_\w+",
        remedy="SNPE registers it (Snpe_Util_AddOpPackage with the registration library); QNN does not",
    ),
    LibraryKind(
        "converter",
        "a converter op package",
        exported=r"\w+(Shape|DataType)Inference",
        remedy="converters load it (--converter_op_package_lib); no runtime registers it",
    ),
    LibraryKind("gpu", "op package for GPU", "gpu", r"QnnGpuOpPackage_getKernelBinary"),
    LibraryKind("plain", "op package for CPU or GPU (plain C)", "cpu", rf"\w+{PROVIDER}"),
)
# The same symbols as `plain`, but another machine.
DSP = LibraryKind("dsp", "op package for DSP V65/V66 (plain C)", "dsp")
OTHER = LibraryKind(
    "other", "not an op package", remedy=f"an op package exports <Package>{PROVIDER}; is its visibility hidden?"
)


class SdkRelease(NamedTuple):
    """The SDK release that a library was built for, and the evidence for it."""

    release: str  # v2.43.0.260129...; empty if irrelevant or unknown
    source: str  # as text


@dataclass(frozen=True)
class LibraryFacts:
    """Kind, providers and SDK of an ELF library."""

    elf: Elf
    kind: LibraryKind
    providers: tuple[str, ...]
    sdk: SdkRelease

    @property
    def is_package(self) -> bool:
        """True if a runtime can register it at all."""
        return bool(self.kind.backend)

    @property
    def is_registration(self) -> bool:
        """True for a registration library of SNPE."""
        return self.kind.id == "udo"


def identify(library: Elf) -> LibraryFacts:
    """The kind of a library, its providers and its SDK."""
    kind = _kind(library)
    providers = tuple(sorted(name for name in library.exports if name.endswith(PROVIDER)))
    return LibraryFacts(library, kind, providers, _sdk(library, kind))


def _kind(library: Elf) -> LibraryKind:
    exported, used = "\n".join(library.exports), "\n".join(symbol.name for symbol in library.imports)
    for kind in KINDS:
        if re.search(rf"^(?:{kind.exported})$", exported, re.MULTILINE):
            return DSP if kind.id == "plain" and library.arch in architectures.of_backend(DSP.backend) else kind
        if re.search(rf"^(?:{kind.used})$", used, re.MULTILINE):
            return kind
    return OTHER


def _sdk(library: Elf, kind: LibraryKind) -> SdkRelease:
    build_id = elf.text_of(library, BUILD_ID)
    if build_id:
        return SdkRelease(build_id, f"its symbol {BUILD_ID}")
    releases = elf.sdk_releases(library.path)
    if len(releases) == 1:  # several may be a table of releases
        return SdkRelease(releases[0], "a text in it")
    return SdkRelease("", usable_with("qhpi") if kind.id == "qhpi" else "not named in it")
