"""The toolchains, one module each; `ALL` is the registry, in the order `auto` tries them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from udogen.backends import architectures
from udogen.backends.backend import Target
from udogen.build.toolchains import open as open_toolchain
from udogen.build.toolchains import sdk
from udogen.build.toolchains.choice import Choice, Unfit
from udogen.build.tools import Environment
from udogen.errors import ToolMissing, UsageError


@dataclass(frozen=True)
class Toolchain:
    """A toolchain by its one function: what would compile this target, or why it cannot."""

    name: str
    compilers: dict[str, str]  # what it can compile for (`Target.compiler`), and with what; for the README
    choose: Callable[[Target, Environment], Choice | Unfit]

    def compiler_of(self, target: Target) -> str:
        """What would compile a target, for tables; `-` where it cannot."""
        unknown = self.name == "open" and target.arch and not architectures.ALL[target.arch].open
        return "-" if unknown else self.compilers.get(target.compiler, "-")


ALL = {
    "sdk": Toolchain("sdk", sdk.COMPILERS, sdk.choose),
    "open": Toolchain("open", open_toolchain.COMPILERS, open_toolchain.choose),
}


def choose(target: Target, env: Environment, wanted: str = "auto") -> Choice:
    """The toolchain for a target: the one that was asked for, or the first that fits."""
    if wanted != "auto" and wanted not in ALL:
        raise UsageError(f"there is no toolchain `{wanted}`", hint="choose auto, " + " or ".join(ALL))
    reasons = []
    for toolchain in ALL.values() if wanted == "auto" else (ALL[wanted],):
        found = toolchain.choose(target, env)
        if isinstance(found, Choice):
            return found
        reasons.append(found)
    raise ToolMissing(
        f"no toolchain can build {target.id} ({target.machine})",
        details=[f"{reason.toolchain}: {reason.why}" for reason in reasons],
        hint=reasons[-1].how,
    )
