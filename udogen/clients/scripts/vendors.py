"""Where the SDKs keep what their clients need: it is found when a script runs, and never copied into one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen import backends
from udogen.clients.package import ANDROID, LINUX, PC
from udogen.clients.scripts.plan import Vendor
from udogen.runtime.library import SDK_FOLDERS

QNN, SNPE = "QNN_SDK_ROOT", "SNPE_ROOT"
PLATFORMS = {PC: SDK_FOLDERS["x86_64"], ANDROID: ("aarch64-android",), LINUX: SDK_FOLDERS["aarch64"]}


def program(name: str, system: str) -> Vendor:
    """A program of the SDK."""
    return Vendor(name, _below("bin", system), program=True)


def library(name: str, system: str, *, needed: bool = True, arch: str = "") -> Vendor:
    """A library for the processor that the client itself runs on."""
    return Vendor(name, _below("lib", system), arch=arch, needed=needed)


def qnn(backend: str, system: str, archs: Sequence[str], *, prepares: bool = False) -> Iterator[Vendor]:
    """A backend of QNN, and what HTP needs on a device: the stub, the skel, and what prepares graphs there."""
    yield library(backends.RUNTIMES[backend].library, system)
    if not backends.ALL[backend].two_halves or system == PC:
        return
    yield library("libQnnHtpPrepare.so", system, needed=prepares)
    for arch in archs:
        yield library(f"libQnnHtp{arch.upper()}Stub.so", system, arch=arch)
        yield _skel(f"libQnnHtp{arch.upper()}Skel.so", arch)


def snpe(backend: str, system: str, archs: Sequence[str], *, prepares: bool) -> Iterator[Vendor]:
    """SNPE, its own halves for HTP, and what prepares graphs there: a package's `_AltPrep.so` is linked with it."""
    yield library("libSNPE.so", system)
    if not backends.ALL[backend].two_halves or system == PC:
        return
    yield library("libSnpeHtpPrepare.so", system, needed=prepares)
    for arch in archs:
        yield library(f"libSnpeHtp{arch.upper()}Stub.so", system, arch=arch)
        yield _skel(f"libSnpeHtp{arch.upper()}Skel.so", arch)


def _skel(name: str, arch: str) -> Vendor:
    return Vendor(name, (f"lib/hexagon-{arch}/unsigned", f"lib/hexagon-{arch}/signed"), arch=arch)


def _below(kind: str, system: str) -> tuple[str, ...]:
    return tuple(f"{kind}/{platform}" for platform in PLATFORMS[system])
