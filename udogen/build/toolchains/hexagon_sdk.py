"""The Hexagon SDK: which one, which of its tools, and whether they know the version that is asked for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from udogen.backends import architectures
from udogen.backends.architectures import Architecture
from udogen.backends.backend import Target
from udogen.build import tools
from udogen.build.toolchains.choice import Choice, Unfit, headers
from udogen.build.tools import Environment

_TOOLS = Path("tools", "HEXAGON_Tools")
_COMPILER = Path("Tools", "bin", "hexagon-clang++")


def choose(target: Target, env: Environment, qnn: Path | None) -> Choice | Unfit:
    """hexagon-clang++ of a Hexagon SDK that knows this version, looked for as the vendor's HTP Makefiles do."""
    arch = architectures.ALL[target.arch]
    known = " or ".join(f"{release.sdk} with tools {release.tools}" for release in arch.releases)
    variable = f"HEXAGON_SDK_ROOT_{arch.variable}"
    get = f"install Hexagon SDK {known}, and set {variable} (or HEXAGON_SDK_ROOT, beside hexagon-sdk-<x.y.z>)"
    roots = list(_roots(arch, env))
    if not roots:
        return Unfit("sdk", "HEXAGON_SDK_ROOT is not set", get)
    seen = []
    for name, root in roots:
        if not (root / _TOOLS).is_dir() and not env.hexagon_tools_root:
            seen.append(f"{name} is {root}, but there is no {_TOOLS} in it")
            continue
        found = _tools(arch, env, root)
        if isinstance(found, Path):
            return _choice(arch, root, found, qnn)
        seen.append(found)
    return Unfit("sdk", "; ".join(dict.fromkeys(seen)), get)


def _choice(arch: Architecture, root: Path, folder: Path, qnn: Path | None) -> Choice:
    compiler = shlex.quote(str(folder / _COMPILER))
    variables = (
        (f"HEXAGON_SDK_ROOT_{arch.variable}", str(root)),
        ("HEXAGON_CXX", compiler),
        ("QNN_SDK_ROOT", str(qnn) if qnn else ""),
    )
    return Choice("sdk", f"hexagon-clang++ {folder.name} of {root}, {headers(qnn)}", variables)


def _roots(arch: Architecture, env: Environment) -> Iterator[tuple[str, Path]]:
    """Where the SDK of this version may be, and by what: its own variable alone, or what lies around the others."""
    if own := env.hexagon_sdk_roots.get(arch.name, ""):
        yield f"HEXAGON_SDK_ROOT_{arch.variable}", Path(own)
        return
    # HEXAGON_SDK4_ROOT is the one for V68 and later where HEXAGON_SDK_ROOT is an SDK 3 for V65 and V66.
    named = [("HEXAGON_SDK4_ROOT", env.hexagon_sdk4_root), ("HEXAGON_SDK_ROOT", env.hexagon_sdk_root)]
    named = named[1:] if arch.tools_before else named
    given = [(name, Path(value)) for name, value in named if value]
    for name, root in given:
        for release in arch.releases:
            sibling = root.parent / f"hexagon-sdk-{release.sdk}"
            if sibling != root and sibling.is_dir():
                yield f"hexagon-sdk-{release.sdk} beside {name}", sibling
    yield from given


def _tools(arch: Architecture, env: Environment, root: Path) -> Path | str:
    """The folder of the tools to take; a sentence where none of those installed knows this version."""
    wanted = env.hexagon_tools_versions.get(arch.name, "")
    if wanted:
        folder = root / _TOOLS / wanted
        return (
            folder
            if _compiles(folder)
            else f"HEXAGON_TOOLS_VERSION_{arch.variable} is {wanted}: no {folder / _COMPILER}"
        )
    there = [folder for folder in sorted((root / _TOOLS).glob("*"), key=_age) if _compiles(folder)]
    if env.hexagon_tools_root:
        named = Path(env.hexagon_tools_root)
        named = named.parent if named.name == "Tools" else named
        there = [named, *there] if _compiles(named) else there
    known = {release.tools for release in arch.releases}
    fitting = [folder for folder in there if folder.name in known]
    fitting += [folder for folder in there if _age(folder)[:2] >= arch.oldest_tools and not _is_too_new(folder, arch)]
    return fitting[0] if fitting else _why_none(arch, root, there)


def _why_none(arch: Architecture, root: Path, there: Sequence[Path]) -> str:
    """Why none of the installed tools is for a version of Hexagon."""
    if not there:
        return f"there is no {_COMPILER.name} in {root / _TOOLS}"
    have = ", ".join(folder.name for folder in there)
    least = ".".join(str(number) for number in arch.oldest_tools)
    if any(_is_too_new(folder, arch) for folder in there):
        return (
            f"Hexagon tools {have} in {root} are of Hexagon SDK 4 or later: {arch.name} needs {least} of SDK 3.5, "
            "and HEXAGON_SDK4_ROOT for the later one"
        )
    if not arch.tools_before and all(_age(folder) < (8, 4) for folder in there):
        return (
            f"Hexagon tools {have} in {root} are of Hexagon SDK 3, for V65 and V66: {arch.name} needs {least} or later"
        )
    return f"Hexagon tools {have} in {root} do not know {arch.name}: it needs {least} or later"


def _is_too_new(folder: Path, arch: Architecture) -> bool:
    return bool(arch.tools_before) and _age(folder)[:2] >= architectures.version(arch.tools_before)


def _compiles(folder: Path) -> bool:
    return bool(tools.program(str(folder / _COMPILER)))


def _age(folder: Path) -> tuple[int, ...]:
    return architectures.version(folder.name)
