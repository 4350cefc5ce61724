"""What a client is told about packages, as text and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from udogen.clients.client import Client, Part, check
from udogen.clients.package import Package
from udogen.errors import UsageError
from udogen.opdef.problems import nearest


@dataclass(frozen=True)
class Told:
    """What one client needs."""

    client: Client
    packages: tuple[Package, ...]
    parts: tuple[Part, ...]
    notes: tuple[str, ...]


def tell(client: Client, packages: Sequence[Package], *, only: str = "") -> Told:
    """Check the client's rules, then say what it needs."""
    check(client, packages)
    parts = tuple(client.tell(packages))
    if only:
        kinds = [part.kind for part in parts]
        parts = tuple(part for part in parts if part.kind == only)
        if not parts:
            near = nearest(only, kinds)
            hint = f"did you mean {near}? " if near else ""
            raise UsageError(f"{client.title} has no part `{only}`", hint=f"{hint}it has: {', '.join(kinds)}")
    return Told(client, tuple(packages), parts, tuple(client.notes(packages)))


def as_text(told: Told, *, only: bool = False) -> str:
    """The parts under their names; of a single one the text alone."""
    if only:
        return told.parts[0].text
    return "\n\n".join(f"# {part.kind}\n{part.text}" for part in told.parts)


def as_json(told: Told) -> dict[str, Any]:
    """Everything, as plain data."""
    return {
        "client": told.client.name,
        "taken_from": told.client.source,
        "packages": [_package(each) for each in told.packages],
        "parts": [part._asdict() for part in told.parts],
        "notes": list(told.notes),
    }


def _package(package: Package) -> dict[str, Any]:
    return {
        "name": package.name,
        "provider": package.provider,
        "backend": package.backend,
        "ops": list(package.ops),
        "system": package.place.system,
        "arch": package.place.arch or None,
        "registration": str(package.registration) if package.registration else None,
        "libraries": [
            {"file": str(each.file), "path": each.path, "target": each.target or None, "hexagon": each.hexagon}
            for each in package.libraries
        ],
    }
