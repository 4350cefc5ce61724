"""What a user asks of a test run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from udogen.build import tools, variants
from udogen.build.emulator import build_watch
from udogen.build.variants import Variant


@dataclass(frozen=True)
class SafetyOptions:
    """Checks of a kernel besides its numbers."""

    heap: bool = False
    guard: bool = False
    leaks: bool = False
    sanitize: tuple[Variant, ...] = ()

    @classmethod
    def parse(cls, *, heap: bool, guard: bool, leaks: bool, sanitize: Sequence[str]) -> SafetyOptions:
        """From a command line; `sanitize` has names such as `address,undefined`."""
        return cls(heap, guard, leaks, tuple(variants.parse(text) for text in sanitize))

    @property
    def any(self) -> bool:
        """At least one check is asked for."""
        return self.heap or self.guard or self.leaks or bool(self.sanitize)

    def check_tools(self) -> None:
        """Raise if a tool that these checks need is missing, before anything is run."""
        for variant in self.sanitize:
            variants.need_compiler(variant, tools.environment())
        if self.heap or self.guard or self.leaks:
            build_watch()


@dataclass(frozen=True)
class TestOptions:
    """How cases are selected, prepared and run: `TestOptions(timeout=10.0, measure=True)`."""

    __test__ = False  # not a test class, although pytest would take it for one

    backends: tuple[str, ...] = ()  # places; none: all but emulators of what Qualcomm's own runtimes run too
    on: tuple[str, ...] = ()  # devices: ssh:USER@HOST, adb:SERIAL; `here` is this machine, which is meant by none
    keep: bool = False  # what was sent to devices
    shard: tuple[int, int] = (1, 1)  # part 1 of 4
    pattern: str = ""  # of `Op/name`
    timeout: float | None = 60.0  # seconds of a case
    jobs: int = 0  # compilers, and programs under QEMU, at once; 0: as many as there are cores
    build: bool = True  # False: packages are tested as they are
    work: Path | None = None  # where generated packages go; None: the cache
    loops: int = 0  # timed executions; 0: those of the test file, or a few
    measure: bool = False  # times and packets are measured with care, numpy and the vendor's own op beside them
    explain: bool = False  # failures are diagnosed and made smaller
    runtime: Path | None = None  # this library instead of the place's own
    force: bool = False
    safety: SafetyOptions = field(default_factory=SafetyOptions)
