"""A package folder on disk: what its manifest says, for those who write it, build it and run it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from udogen.errors import UsageError

MEMORY = ".udogen"
PROVIDER = "InterfaceProvider"  # how the symbol that a client registers ends; the package's name stands before it
MANIFEST = f"{MEMORY}/manifest.json"


@dataclass(frozen=True)
class PackageFolder:
    """What the manifest of a generated package says."""

    path: Path
    name: str
    backend: str
    layout: str
    libraries: str
    library: str
    provider: str
    ops: tuple[str, ...]
    configs: tuple[Path, ...]
    targets: tuple[str, ...]
    yours: tuple[str, ...]
    api: str = ""  # where the backend has several interfaces: which one

    def artifacts(self, folder: str) -> tuple[Path, ...]:
        """The libraries of one target's folder: one, or one for each op, whose name is then in theirs."""
        names = dict.fromkeys(self.library.replace("{op}", op) for op in self.ops or ("",))
        return tuple(self.path / self.libraries / folder / name for name in names)

    def artifact(self, folder: str) -> Path:
        """The library of one target's folder; the first where each op has one."""
        return self.artifacts(folder)[0]


def open_package(path: Path) -> PackageFolder:
    """The package in this folder, or the only one right below it; an error where there is none."""
    found = open_packages(path)
    if len(found) > 1:
        raise UsageError(
            f"{path} holds several packages", hint="choose one of " + ", ".join(str(each.path) for each in found[:5])
        )
    return found[0]


def open_packages(path: Path) -> list[PackageFolder]:
    """The package in this folder, or all that lie right below it; an error where there is none."""
    if (path / MANIFEST).is_file():
        return [_read(path)]
    found = [_read(each.parent.parent) for each in sorted(path.glob(f"*/{MANIFEST}"))]
    if not found:
        raise UsageError(f"{path} holds no package that udogen generated", hint="run `udogen generate` first")
    return found


def _read(path: Path) -> PackageFolder:
    manifest = read_manifest(path) or {}

    def texts(key: str) -> tuple[str, ...]:
        found = manifest.get(key)
        return tuple(str(each) for each in found) if isinstance(found, list) else ()

    return PackageFolder(
        path=path,
        name=str(manifest.get("package", "")),
        backend=str(manifest.get("backend", "")),
        layout=str(manifest.get("layout", "")),
        libraries=str(manifest.get("libraries", "libs")),
        library=str(manifest.get("library", "")),
        provider=str(manifest.get("provider", "")),
        ops=texts("ops"),
        configs=tuple(path / each for each in texts("configs")),
        targets=texts("targets"),
        yours=texts("yours"),
        api=str(manifest.get("api", "")),
    )


def package_of(library: Path) -> PackageFolder | None:
    """The package that a library was built in; None where it lies somewhere else."""
    for folder in library.resolve().parents:
        if (folder / MANIFEST).is_file():
            return _read(folder)
    return None


def read_manifest(folder: Path) -> dict[str, object] | None:
    """What `.udogen/manifest.json` of a package says; None where the folder is no package of ours."""
    try:
        found = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as fault:
        raise UsageError(
            f"{folder / MANIFEST} cannot be read: {fault}",
            hint="restore it, or move the folder away, generate again and put your kernels into src/ops",
        ) from fault
    return found if isinstance(found, dict) else None
