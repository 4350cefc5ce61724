"""The parts that a client needs, rendered from its template in templates/clients."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from udogen import backends
from udogen.clients import quoting
from udogen.clients.client import Snippet
from udogen.clients.package import Package
from udogen.mako_templates import render_template
from udogen.opdef.names import cpp_string

_PART = re.compile(r"^=== (\S+) (\S+)\n", re.MULTILINE)


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
        """A string of Java."""
        return quoting.java(self)

    @property
    def python(self) -> str:
        """A string of Python."""
        return quoting.python(self)


def parts(client: str, packages: Sequence[Package], **data: object) -> Iterator[Snippet]:
    """The parts of a client's template, which begin with lines `=== KIND LANGUAGE`; empty ones are left out."""
    runtime = backends.RUNTIMES[packages[0].backend].library
    rows = {"packages": [_row(*each) for each in enumerate(packages)], "runtime": runtime, **data}
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
