"""Parts that several clients need: how libraries get onto a device, and what its loaders must know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from udogen import backends
from udogen.clients.client import Part
from udogen.clients.package import ANDROID, LINUX, Package
from udogen.clients.quoting import shell

# Where the DSP's loader looks by itself; ADSP_LIBRARY_PATH replaces these, so they go behind.
_DSP_FOLDERS = {
    ANDROID: ("/vendor/dsp/cdsp", "/vendor/lib/rfsa/adsp", "/system/lib/rfsa/adsp", "/dsp"),
    LINUX: ("/usr/lib/rfsa/adsp", "/usr/lib/dsp", "/vendor/lib/rfsa/adsp", "/vendor/dsp"),
}


def dsp_path(folders: Sequence[str], system: str) -> str:
    """The value of ADSP_LIBRARY_PATH: it is separated by `;`."""
    return ";".join([*folders, *_DSP_FOLDERS[system]])


def device_parts(packages: Sequence[Package], more: Sequence[tuple[Path, str]] = ()) -> Iterator[Part]:
    """The copying and the environment, where this is a device."""
    if not packages[0].place.device:
        return
    files = [
        (library.file, f"{package.folder}/{library.name}") for package in packages for library in package.libraries
    ]
    yield copying([*files, *more], android=packages[0].place.system == ANDROID)
    yield environment(packages)


def copying(files: Sequence[tuple[Path, str]], *, android: bool) -> Part:
    """How files get onto the device, each under the name it has there."""
    folders = dict.fromkeys(str(PurePosixPath(target).parent) for _, target in files)
    if android:
        lines = [f"adb shell mkdir -p {shell(shell(folder))}" for folder in folders]
        lines += [f"adb push {shell(str(file))} {shell(target)}" for file, target in files]
    else:
        lines = [f'ssh "$DEVICE" mkdir -p {shell(shell(folder))}' for folder in folders]
        lines += [f'scp {shell(str(file))} "$DEVICE":{shell(shell(target))}' for file, target in files]
    return Part("copy", "sh", "\n".join(lines))


def environment(packages: Sequence[Package]) -> Part:
    """LD_LIBRARY_PATH is separated by `:`, ADSP_LIBRARY_PATH by `;`."""
    folders = list(dict.fromkeys(package.folder for package in packages))
    lines = [f"export LD_LIBRARY_PATH={shell(':'.join(folders))}:$LD_LIBRARY_PATH"]
    if any(backends.ALL[package.backend].two_halves for package in packages):
        lines.append(f"export ADSP_LIBRARY_PATH={shell(dsp_path(folders, packages[0].place.system))}")
    return Part("environment", "sh", "\n".join(lines))
