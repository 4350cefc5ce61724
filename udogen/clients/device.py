"""Commands that copy libraries to a device, and the environment variables that its loaders need."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from udogen import backends
from udogen.clients.client import Snippet
from udogen.clients.package import ANDROID, LINUX, Package

# The default search path of the DSP's loader; ADSP_LIBRARY_PATH replaces it, so these folders are appended.
_DSP_FOLDERS = {
    ANDROID: ("/vendor/dsp/cdsp", "/vendor/lib/rfsa/adsp", "/system/lib/rfsa/adsp", "/dsp"),
    LINUX: ("/usr/lib/rfsa/adsp", "/usr/lib/dsp", "/vendor/lib/rfsa/adsp", "/vendor/dsp"),
}


def dsp_path(folders: Sequence[str], system: str) -> str:
    """The value of ADSP_LIBRARY_PATH; its separator is `;`."""
    return ";".join([*folders, *_DSP_FOLDERS[system]])


def device_snippets(packages: Sequence[Package]) -> Iterator[Snippet]:
    """Copy commands and environment; nothing for packages on this machine."""
    if not packages[0].platform.is_device:
        return
    files = [
        (library.file, f"{package.folder}/{library.name}") for package in packages for library in package.libraries
    ]
    yield copy_snippet(files, packages[0].platform.system)
    folders = list(dict.fromkeys(package.folder for package in packages))
    on_dsp = folders if any(backends.ALL[package.backend].two_halves for package in packages) else []
    yield environment_snippet(folders, on_dsp, packages[0].platform.system)


def copy_snippet(files: Sequence[tuple[Path, str]], system: str) -> Snippet:
    """Commands that copy each (file, path on the device)."""
    folders = dict.fromkeys(str(PurePosixPath(target).parent) for _, target in files)
    remote = shlex.quote  # quotes a path for the device's shell; the local shell needs a second level of quotes
    if system == ANDROID:
        lines = [f"adb shell mkdir -p {shlex.quote(remote(folder))}" for folder in folders]
        lines += [f"adb push {shlex.quote(str(file))} {shlex.quote(target)}" for file, target in files]
    else:
        lines = [f'ssh "$DEVICE" mkdir -p {shlex.quote(remote(folder))}' for folder in folders]
        lines += [f'scp {shlex.quote(str(file))} "$DEVICE":{shlex.quote(remote(target))}' for file, target in files]
    return Snippet("copy", "sh", "\n".join(lines))


def environment_snippet(folders: Sequence[str], dsp_folders: Sequence[str], system: str) -> Snippet:
    """LD_LIBRARY_PATH, separated by `:`, and ADSP_LIBRARY_PATH if there are folders for the DSP."""
    lines = [f"export LD_LIBRARY_PATH={shlex.quote(':'.join(folders))}:$LD_LIBRARY_PATH"]
    if dsp_folders:
        lines.append(f"export ADSP_LIBRARY_PATH={shlex.quote(dsp_path(dsp_folders, system))}")
    return Snippet("environment", "sh", "\n".join(lines))
