"""A client: a program that registers op packages, its rules for them, and snippets to use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from udogen.clients.package import Package
from udogen.errors import UsageError
from udogen.findings import Finding, suggestion


class Snippet(NamedTuple):
    """One thing that a client needs: an option, a file, a piece of code, an environment."""

    kind: str  # its name, for --only
    language: str  # sh, cpp, java, python, json, text
    text: str


class ClientRule(NamedTuple):
    """A requirement of a client, and the consequence of breaking it."""

    id: str
    faults: Callable[[Sequence[Package]], Iterator[str]]  # one sentence per fault
    consequence: str
    remedy: str


class Client(NamedTuple):
    """A program that registers op packages; a new client is a row in `programs`, or a plug-in."""

    name: str
    title: str
    source: str  # the document or source code, and its version, that defines its syntax
    rules: tuple[ClientRule, ...]
    snippets: Callable[[Sequence[Package]], Iterable[Snippet]]
    notes: Callable[[Sequence[Package]], Iterable[str]] = lambda _packages: ()


class Refused(UsageError):
    """A client refuses these packages, or silently skips them."""

    kind = "client-rule"

    def __init__(self, client: Client, faults: Sequence[Finding]) -> None:
        _, *details = [line for fault in faults for line in (fault.message, f"rule {fault.kind}: {fault.evidence}")]
        hint = "; ".join(dict.fromkeys(fault.hint for fault in faults))
        super().__init__(f"{client.title}: {faults[0].message}", details=details, hint=hint)
        self.faults = tuple(faults)


def check_rules(client: Client, packages: Sequence[Package]) -> None:
    """Raise `Refused` with every broken rule."""
    faults = [
        Finding(sentence, rule.remedy, kind=rule.id, evidence=rule.consequence)
        for rule in client.rules
        for sentence in dict.fromkeys(rule.faults(packages))
    ]
    if faults:
        raise Refused(client, faults)


@dataclass(frozen=True)
class ClientSetup:
    """What one client needs to register these packages."""

    client: Client
    packages: tuple[Package, ...]
    snippets: tuple[Snippet, ...]
    notes: tuple[str, ...]

    def as_text(self, *, only: bool = False) -> str:
        """Each snippet under its name; with `only`, the text of the first one."""
        if only:
            return self.snippets[0].text
        return "\n\n".join(f"# {snippet.kind}\n{snippet.text}" for snippet in self.snippets)

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "client": self.client.name,
            "taken_from": self.client.source,
            "packages": [_package_json(package) for package in self.packages],
            "parts": [snippet._asdict() for snippet in self.snippets],
            "notes": list(self.notes),
        }


def register(client: Client, packages: Sequence[Package], *, only: str = "") -> ClientSetup:
    """Check the client's rules, then collect what it needs; `only` selects one kind of snippet."""
    check_rules(client, packages)
    snippets = tuple(client.snippets(packages))
    if only:
        kinds = [snippet.kind for snippet in snippets]
        snippets = tuple(snippet for snippet in snippets if snippet.kind == only)
        if not snippets:
            have = f"it has: {', '.join(kinds)}"
            raise UsageError(f"{client.title} has no part `{only}`", hint=f"{suggestion(only, kinds)} {have}".strip())
    return ClientSetup(client, tuple(packages), snippets, tuple(client.notes(packages)))


def _package_json(package: Package) -> dict[str, Any]:
    return {
        "name": package.name,
        "provider": package.provider,
        "backend": package.backend,
        "ops": list(package.ops),
        "system": package.platform.system,
        "arch": package.platform.arch or None,
        "registration": str(package.registration) if package.registration else None,
        "libraries": [
            {
                "file": str(library.file),
                "path": library.path,
                "target": library.target or None,
                "hexagon": library.hexagon,
            }
            for library in package.libraries
        ],
    }
