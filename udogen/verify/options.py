"""Options of a test run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from udogen.build import tools, variants
from udogen.build.emulator import build_watch
from udogen.build.variants import Variant


@dataclass(frozen=True)
class SafetyOptions:
    """Checks of a kernel other than its numbers."""

    heap: bool = False
    guard: bool = False
    sanitize: tuple[Variant, ...] = ()

    @classmethod
    def parse(cls, *, heap: bool, guard: bool, sanitize: Sequence[str]) -> SafetyOptions:
        """Options from a command line; `sanitize` has names such as `address,undefined`."""
        return cls(heap, guard, tuple(variants.parse(text) for text in sanitize))

    @property
    def any(self) -> bool:
        """Whether at least one check is requested."""
        return self.heap or self.guard or bool(self.sanitize)

    def check_tools(self) -> None:
        """Raise before anything runs if a tool that these checks need is missing."""
        for variant in self.sanitize:
            variants.need_compiler(variant, tools.environment())
        if self.heap or self.guard:
            build_watch()


@dataclass(frozen=True)
class TestOptions:
    """How cases are selected, prepared and run: `TestOptions(timeout=10.0, measure=True)`."""

    __test__ = False  # pytest would collect it as a test class because of its name

    backends: tuple[str, ...] = ()  # places; empty: all except emulators of what Qualcomm's own runtimes also run
    on: tuple[str, ...] = ()  # devices: ssh:USER@HOST, adb:SERIAL; `here` is this machine, the default
    shard: tuple[int, int] = (1, 1)  # part 1 of 4
    patterns: tuple[str, ...] = ()  # of `Op/name`; one must match; empty: all cases
    timeout: float | None = 60.0  # seconds of a case
    jobs: int = 0  # parallel compilers and programs under QEMU; 0: the number of cores
    build: bool = True  # False: packages are tested without a build
    work: Path | None = None  # folder for generated packages; None: the cache
    arch: str = ""  # the version of Hexagon to run kernels as; empty: the one that the package is for
    loops: int = 0  # timed executions; 0: those of the test file, or a few
    measure: bool = False  # measure times and packets precisely, also of numpy and the vendor's own op
    explain: bool = False  # diagnose failures and search for smaller failing cases
    qnn_lib: Path | None = None  # use this library instead of the place's default
    force: bool = False
    safety: SafetyOptions = field(default_factory=SafetyOptions)
