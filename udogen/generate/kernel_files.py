"""Kernels of a package: those of --kernels, their styles, and the copies in package folders."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from udogen import backends
from udogen.backends import htp, vendor
from udogen.backends.plan import Plan, RegisterFunction, Source
from udogen.build.package import MEMORY, PackageLibrary, read_manifest
from udogen.errors import UdogenError, UsageError, file_hint, read_plain
from udogen.opdef.model import OpPackage
from udogen.resources import content_key

# The interfaces of HTP, the usual one first, with the folder of --kernels for each.
HTP_APIS = htp.BACKEND.interfaces
KERNELS = f"{MEMORY}/kernels"  # contains the folder of the last --kernels, relative to the package


def given_kernels(
    package: OpPackage,
    by_backend: Mapping[str, OpPackage],
    folder: Path | None,
    api: str,
    searched: dict[str, bool],
) -> dict[str, dict[str, bytes]]:
    """The user's kernels by backend; adds the file names that were searched to `searched`."""
    kernels = {}
    for backend, resolved in by_backend.items():
        below = backends.ALL[backend].kernels_folder(api)
        kernels[backend] = _kernels_of(backend, folder, api, package, alone=len(by_backend) == 1) if folder else {}
        searched |= {f"{below}/{op.name}.cpp": bool(kernels[backend]) for op in resolved.ops}
    return kernels


def with_kernels_in_python(source: Source, plans: Iterable[tuple[Path, Plan]]) -> dict[str, dict[str, bytes]]:
    """The user's kernels, and the kernels in Python that the folders already have, unless others are given."""
    all_kernels = {backend: dict(kernels) for backend, kernels in source.kernels.items()}
    for folder, plan in plans:
        for part in plan.parts:
            given = all_kernels.setdefault(part.backend, {})
            for path in (Path(source_file).with_suffix(".py") for source_file in part.sources):
                if not given.keys() & {path.stem, path.name} and os.path.isfile(folder / path):
                    given[path.name] = _kernel(folder / path)
    return all_kernels


def kernels_in_folders(folders: Iterable[tuple[Path, Plan]]) -> dict[str, dict[str, bytes]]:
    """Backend -> op -> the kernel that the folder already has."""
    kernels: dict[str, dict[str, bytes]] = {}
    for folder, plan in folders:
        for part in plan.parts:
            for path in (Path(source_file) for source_file in part.sources):
                if path.parent.name == "ops" and os.path.isfile(folder / path):
                    kernels.setdefault(part.backend, {})[path.stem] = _kernel(folder / path)
    return kernels


def styled(
    source: Source,
    old: Mapping[str, Mapping[str, bytes]],
    by_backend: Mapping[str, OpPackage],
    htp_api: str,
) -> Source:
    """The source with the styles of the given kernels, else of the kernels that the folder already has (`old`)."""
    chosen: dict[str, tuple[str, ...]] = {}
    kernels = dict(source.kernels)
    restyled: dict[str, tuple[str, ...]] = {}
    headers: dict[str, tuple[str, ...]] = {}
    registrations: list[RegisterFunction] = []
    api = source.htp_api
    for backend, package in by_backend.items():
        given, existing = source.kernels.get(backend, {}), old.get(backend, {})
        vendor.refuse_snpe_1(backend, {**existing, **given})
        known = {op.name: _style(backend, op.name, given, existing, htp_api) for op in package.ops}
        meant = _meant(backend, known.values(), htp_api)
        api = meant if meant == "core" else api
        chosen[backend] = tuple(op for op, style in known.items() if style == meant)
        if meant == "qhpi":
            registrations += vendor.registrations(given.get(op, existing.get(op, b"")) for op in chosen[backend])
        pasted = vendor.pasted(backend, {op: existing[op] for op in chosen[backend] if op in existing.keys() - given})
        kernels |= {backend: {**given, **pasted}} if pasted else {}
        restyled[backend] = (*_restyled(backend, package, given, existing), *pasted)
        kept = [text for op, text in existing.items() if op not in restyled[backend]]
        headers[backend] = vendor.hexagon_headers([*given.values(), *kept])
    return replace(
        source,
        kernels=kernels,
        vendor={backend: ops for backend, ops in chosen.items() if ops},
        registrations=tuple(registrations),
        restyled={backend: ops for backend, ops in restyled.items() if ops},
        headers={backend: files for backend, files in headers.items() if files},
        htp_api=api,
        hooks=any(_has_hooks(backend, source, old) for backend in by_backend),
    )


def _meant(backend: str, styles: Collection[str], htp_api: str) -> str:
    """The style, other than udogen's own, that a package for the backend can have."""
    if not backends.ALL[backend].interfaces:
        return "vendor"
    return "core" if "core" in styles and not htp_api else "qhpi"


def _has_hooks(backend: str, source: Source, old: Mapping[str, Mapping[str, bytes]]) -> bool:
    kernels = (source.kernels.get(backend, {}), old.get(backend, {}))
    return bool(backends.ALL[backend].interfaces) and any(map(vendor.have_hooks, kernels))


def _restyled(
    backend: str, package: OpPackage, given: Mapping[str, bytes], existing: Mapping[str, bytes]
) -> tuple[str, ...]:
    """The ops whose given kernel has another style than the one in the folder."""
    both = [op.name for op in package.ops if op.name in given and op.name in existing]
    return tuple(op for op in both if vendor.style(backend, existing[op]) != vendor.style(backend, given[op]))


def _style(backend: str, op: str, given: Mapping[str, bytes], existing: Mapping[str, bytes], htp_api: str) -> str:
    """The style of one kernel (`vendor.style`), by its text."""
    text = given.get(op, existing.get(op))
    if text is None or f"{op}.py" in given or (backends.ALL[backend].interfaces and htp_api == "core"):
        return ""
    return vendor.style(backend, text)


def kernel_places(folder: Path, backend: str, api: str, name: str) -> list[Path]:
    """The folders that are searched for a kernel file: those for the backend first, then the common one."""
    row = backends.ALL[backend]
    below = row.kernels_folder(api)
    own = [folder / below, folder / below.upper()]  # the second is usual in Qualcomm's samples
    return [*own, folder] if name.endswith(row.common_kernels) and below == row.id else own


def _kernels_of(backend: str, folder: Path, api: str, package: OpPackage, *, alone: bool) -> dict[str, bytes]:
    """The kernels for a backend: <folder>/<backend>/<Op>.cpp (gpu: and .cl), or <folder>/<Op>.cpp."""
    if not folder.is_dir():
        hint = file_hint(folder, "put an <Op>.cpp for each kernel into it")
        raise UsageError(f"--kernels {folder} is not a folder", hint=hint)
    has_folders = any((folder / place).is_dir() for place in (*backends.ALL, *HTP_APIS.values()))
    usual = [folder] if alone and not has_folders else []
    chosen: dict[str, Path] = {}
    for name in (pattern.format(op.name) for op in package.ops for pattern in backends.ALL[backend].kernels):
        places = [*kernel_places(folder, backend, api, name), *usual]
        path = next((p for place in places if os.path.lexists(p := place / name)), None)
        if path is not None:
            chosen[name.removesuffix(".cpp")] = path  # other files keep their suffix
    for op in package.ops:
        _choose_language(op.name, chosen, folder)
    return {key: _kernel(path) for key, path in chosen.items()}


def _choose_language(name: str, chosen: dict[str, Path], common: Path) -> None:
    """Choose between C++ or OpenCL and Python: the kernel for the backend has precedence, then C++ or OpenCL."""
    in_python = chosen.get(f"{name}.py")
    others = {other for other in (name, f"{name}.cl") if other in chosen}
    if in_python is None or not others:
        return
    is_special = in_python.parent != common and all(chosen[other].parent == common for other in others)
    for other in others if is_special else {f"{name}.py"}:
        del chosen[other]


def _kernel(path: Path) -> bytes:
    """The user's source; raises if it cannot be read, instead of generating a skeleton."""
    try:
        return read_plain(path)
    except OSError as fault:
        hint = "give a file with C++ (or, for a GPU, OpenCL C)"
        raise UsageError(f"the kernel {path} cannot be read: {fault.strerror}", hint=hint) from fault


# --- kernels that were copied into packages ---------------------------------------------------------------------------


def kernel_sources(package: PackageLibrary) -> dict[Path, Path]:
    """The copies of kernels in a package, with the files of --kernels that they were copied from."""
    if package.backend not in backends.ALL:  # a registration or converter library has no kernels
        return {}
    root = os.path.realpath(package.path)
    try:
        folder = Path(os.path.normpath(os.path.join(root, os.fsdecode(read_plain(package.path / KERNELS)))))
    except (OSError, ValueError):
        return {}
    if folder.is_relative_to(Path.cwd()):
        folder = folder.relative_to(Path.cwd())
    originals = {}
    own = {os.path.dirname(file) for file in package.sources}  # a folder may have the libraries of several backends
    for path in (package.path / file for file in package.user_owned if os.path.dirname(file) in own):
        places = (*kernel_places(folder, package.backend, package.api or next(iter(HTP_APIS)), path.name), folder)
        if source := next((place / path.name for place in places if (place / path.name).is_file()), None):
            originals[path] = source
    return originals


def in_kernel_sources(fault: UdogenError, package: PackageLibrary) -> UdogenError:
    """The same error with the names of kernels instead of those of their copies, where both are equal."""
    renamed = copy.copy(fault)
    for path, source in kernel_sources(package).items():
        if path.is_file() and path.read_bytes() == source.read_bytes():
            for name in (os.path.abspath(path), str(path)):
                renamed.message = renamed.message.replace(name, str(source))
                renamed.details = tuple(line.replace(name, str(source)) for line in renamed.details)
    return renamed


def kernels_not_used(package: PackageLibrary) -> list[str]:
    """A sentence with a remedy for each kernel of --kernels that differs from the package's copy."""
    manifest = read_manifest(package.path) or {}
    files = manifest.get("files")
    sentences = []
    for path, source in kernel_sources(package).items():
        own = path.read_bytes() if path.is_file() else None
        if own is None or own == source.read_bytes():
            continue
        generated = files.get(path.relative_to(package.path).as_posix()) if isinstance(files, dict) else None
        if generated == content_key(own):
            sentences.append(f"{path}, which is built, is an old copy of {source}: run `udogen generate` again")
        else:
            sentences.append(
                f"{path} was edited; it is built, and {source} is not.  Copy your edit to {source}, or remove {path}; "
                "then run `udogen generate` again"
            )
    return sentences
