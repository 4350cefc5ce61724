"""What a client needs: the parts of its template in templates/clients, commands that copy libraries, environments."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

from udogen import backends
from udogen.build.package import PackageLibrary, open_packages
from udogen.clients.client import Snippet
from udogen.clients.package import ANDROID, LINUX, Package
from udogen.errors import UsageError
from udogen.mako_templates import render_template
from udogen.opdef.names import cpp_string

# --- literals: a path may contain any byte but zero ---------------------------------------------------------


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class Literal(str):
    """A text, and its literals in each language of the templates."""

    @property
    def sh(self) -> str:
        """One word of a shell."""
        return shlex.quote(self)

    @property
    def cpp(self) -> str:
        """A string of C and C++."""
        return cpp_string(self)

    @property
    def java(self) -> str:
        """A string of Java; bytes of a file name that are not text are replaced."""
        return json.dumps(self.encode("utf-8", "replace").decode())

    @property
    def python(self) -> str:
        """A string of Python, in double quotes."""
        return '"' + "".join(_ESCAPES.get(char) or _python_char(char) for char in self) + '"'


def _python_char(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def block(text: str) -> str:
    """Code without the indentation that all its lines share."""
    lines = text.rstrip().lstrip("\n").split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(re.sub(r"\s+$", "", line[margin:]) for line in lines)


# --- templates ----------------------------------------------------------------------------------------------


_PART = re.compile(r"^=== (\S+) (\S+)\n", re.MULTILINE)


def parts(client: str, packages: Sequence[Package], **data: object) -> Iterator[Snippet]:
    """The parts of a client's template, which begin with lines `=== KIND LANGUAGE`; empty ones are left out."""
    runtime = backends.RUNTIMES[packages[0].backend].library
    rows = {"packages": [_row(*package) for package in enumerate(packages)], "runtime": runtime, **data}
    _, *fields = _PART.split(render_template(f"clients/{client}.mako", rows))
    for kind, language, text in zip(*[iter(fields)] * 3, strict=True):
        if text.strip():
            yield Snippet(kind, language, text.rstrip())


def _row(number: int, package: Package) -> SimpleNamespace:
    """A package as templates read it."""
    registration = package.registration_path
    return SimpleNamespace(
        number=number,
        name=Literal(package.name),
        provider=Literal(package.provider),
        ops=[Literal(op) for op in package.ops],
        op_count=len(package.ops),
        registration=Literal(registration),
        registration_file=Literal("/" + registration.rpartition("/")[2]),
        not_registered=Literal(f"{package.name} was not registered"),
        libraries=[
            SimpleNamespace(
                path=Literal(library.path),
                in_folder=Literal(f"/{library.name}"),
                target=Literal(library.target),
                core=Literal(library.target or "CPU"),
            )
            for library in package.libraries
        ],
    )


# --- the files that SNPE opens: a registration library; the loader finds the libraries that it names --------


DSP_FOLDER = "dsp"
_SYSTEM_FOLDERS = {"pc": "x86-64_linux_clang", ANDROID: "arm64-v8a", LINUX: "aarch64-linux-gnu"}


def parts_of(package: Package) -> list[PackageLibrary]:
    """All parts of the generated package."""
    if package.built is None:
        return []
    try:
        return open_packages(package.built.path)
    except UsageError:
        return []


def snpe_files(package: Package) -> list[tuple[Path, str]]:
    """The registration library, if any, and its libraries for the platform, with their names in one folder.

    Hexagon libraries are in a folder below it: SNPE searches for them by the name of the ARM library.
    """
    names = {package.registration: package.registration.name} if package.registration else {}
    # The toolchain decides whether an ARM target is built for Android or Linux; the folder shows which.
    folder, arch = _SYSTEM_FOLDERS[package.platform.system], package.platform.arch
    for part in parts_of(package):
        for row in part.rows if part.kind.runs_ops else ():
            hexagon = package.platform.is_device and bool(row.arch) and row.arch == arch
            for file in part.artifacts(row):
                if file.is_file() and (hexagon or file.parent.name == folder):
                    names[file.resolve()] = f"{DSP_FOLDER}/{file.name}" if hexagon else file.name
    return list(names.items())


# --- devices ------------------------------------------------------------------------------------------------


# The default search path of the DSP's loader; ADSP_LIBRARY_PATH replaces it, so these folders are appended.
_DSP_FOLDERS = {
    ANDROID: ("/vendor/dsp/cdsp", "/vendor/lib/rfsa/adsp", "/system/lib/rfsa/adsp", "/dsp"),
    LINUX: ("/usr/lib/rfsa/adsp", "/usr/lib/dsp", "/vendor/lib/rfsa/adsp", "/vendor/dsp"),
}


def dsp_path(folders: Sequence[str], system: str) -> str:
    """The value of ADSP_LIBRARY_PATH; its separator is `;`."""
    return ";".join([*folders, *_DSP_FOLDERS[system]])


def device_snippets(packages: Sequence[Package], *, for_snpe: bool = False) -> Iterator[Snippet]:
    """Copy commands and environment; on this machine only the environment, if SNPE's loader needs one."""
    system = packages[0].platform.system
    if packages[0].platform.is_device:
        files = [
            (file, f"{package.folder}/{name}")
            for package in packages
            for file, name, _ in sent_files(package, for_snpe=for_snpe)
        ]
        yield _copying(files, system)
        folders = list(dict.fromkeys(package.folder for package in packages))
        below = [f"{folder}/{DSP_FOLDER}" for folder in folders] if for_snpe else []
        on_dsp = for_snpe or any(backends.ALL[package.backend].two_halves for package in packages)
        yield _environment(folders, [*below, *folders] if on_dsp else [], system)
    elif for_snpe:
        snippets = [file for package in packages for file, _ in snpe_files(package) if file != package.registration]
        if snippets:
            yield _environment(list(dict.fromkeys(str(file.parent) for file in snippets)), (), system)


def sent_files(package: Package, *, for_snpe: bool) -> Iterator[tuple[Path, str, bool]]:
    """(file, its name on the device, whether Hexagon loads it)."""
    if for_snpe:
        yield from ((file, name, name.startswith(f"{DSP_FOLDER}/")) for file, name in snpe_files(package))
    else:
        yield from ((library.file, library.name, library.hexagon) for library in package.libraries)


def _copying(files: Sequence[tuple[Path, str]], system: str) -> Snippet:
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


def _environment(folders: Sequence[str], dsp_folders: Sequence[str], system: str) -> Snippet:
    """LD_LIBRARY_PATH, separated by `:`, and ADSP_LIBRARY_PATH if there are folders for the DSP."""
    lines = [f"export LD_LIBRARY_PATH={shlex.quote(':'.join(folders))}:$LD_LIBRARY_PATH"]
    if dsp_folders:
        lines.append(f"export ADSP_LIBRARY_PATH={shlex.quote(dsp_path(dsp_folders, system))}")
    return Snippet("environment", "sh", "\n".join(lines))
