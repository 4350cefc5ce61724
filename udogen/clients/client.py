"""What a client is: its rules, and what it must be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from udogen.clients.package import Package
from udogen.errors import UsageError


class Part(NamedTuple):
    """One thing that a client needs: an option, a file, a piece of code, an environment."""

    kind: str  # its name, for --only
    language: str  # sh, cpp, java, python, json, text
    text: str


class Rule(NamedTuple):
    """What a client wants of packages, and what it does where that is not so."""

    id: str
    broken: Callable[[Sequence[Package]], Iterator[str]]  # a sentence per fault
    consequence: str
    remedy: str
    of_script: str = ""  # the remedy with the options of `udogen script`, where it is another


class Client(NamedTuple):
    """A program that registers op packages: a new one is a module and a row in `programs.ALL`."""

    name: str
    title: str
    source: str  # the document or source, and the version, that its syntax is from
    rules: tuple[Rule, ...]
    tell: Callable[[Sequence[Package]], Sequence[Part]]
    notes: Callable[[Sequence[Package]], Sequence[str]] = lambda _packages: ()


class Refused(UsageError):
    """A client would not take these packages, or take them and leave them out in silence."""

    kind = "client-rule"

    def __init__(self, client: Client, faults: Sequence[tuple[Rule, str]], *, script: bool = False) -> None:
        first, sentence = faults[0]
        super().__init__(
            f"{client.title}: {sentence}",
            details=[f"rule {first.id}: {first.consequence}"]
            + [line for rule, text in faults[1:] for line in (text, f"rule {rule.id}: {rule.consequence}")],
            hint="; ".join(dict.fromkeys((script and rule.of_script) or rule.remedy for rule, _ in faults)),
        )
        self.rules = tuple(rule.id for rule, _ in faults)


def check(client: Client, packages: Sequence[Package], *, script: bool = False) -> None:
    """Raise once, with every rule that is broken; for a `script` with its options in the remedies."""
    faults = [(rule, sentence) for rule in client.rules for sentence in rule.broken(packages)]
    if faults:
        raise Refused(client, faults, script=script)
