"""Where ops can run, one row each, and how a session is opened there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from udogen.build import qemu_hexagon
from udogen.clients.ort import versions
from udogen.clients.ort.op_session import OrtSession
from udogen.errors import UsageError
from udogen.opdef.onnx.reading import onnx_module
from udogen.runtime.built import Built, find_built, find_source
from udogen.runtime.hexagon.session import HexagonSession
from udogen.runtime.library import BACKENDS, find_runtime
from udogen.runtime.op.calls import POISON
from udogen.runtime.op.session import OpSession

Session = OpSession | HexagonSession | OrtSession


class Place(NamedTuple):
    """One place in which ops run, as test files and `--backend` name it."""

    id: str
    config: str  # whose packages run there: a backend of configs
    title: str
    kind: str  # a kind of `find_runtime`; `instructions`: no runtime, the instruction set alone; `ort`: ONNX Runtime
    ranks: tuple[int, ...]
    twin: str = ""  # the place whose cases it runs too
    usual: bool = True  # also if it is not asked for

    @property
    def instructions(self) -> bool:
        """It runs Hexagon code in QEMU: each call is a process, packets are counted, times mean nothing."""
        return self.kind == "instructions"

    @property
    def client(self) -> bool:
        """A program that loads packages runs the op, as users do; times and memory of the op are not visible."""
        return self.kind == "ort"

    @property
    def watched(self) -> bool:
        """A runtime in a process of udogen's, in which times are measured and memory is watched."""
        return not self.instructions and not self.client


_HEXAGON_RANKS = (0, 1, 2, 3, 4)  # Hexagon NN keeps tensors with four axes

PLACES = {
    row.id: row
    for row in (
        Place("cpu", "cpu", "Qualcomm's CPU runtime", "auto", BACKENDS["cpu"].ranks),
        Place("htp", "htp", "Qualcomm's HTP runtime", "auto", BACKENDS["htp"].ranks),
        Place(
            "hexagon", "htp", "HTP kernels as Hexagon code under qemu-hexagon", "instructions", BACKENDS["htp"].ranks
        ),
        Place("gpu", "gpu", "GPU: udogen's emulator on OpenCL where there is no Adreno", "auto", BACKENDS["gpu"].ranks),
        Place("dsp", "dsp", "DSP V65/V66 kernels under qemu-hexagon", "instructions", _HEXAGON_RANKS),
        Place("cpu-ort", "cpu", "ONNX Runtime with Qualcomm's CPU runtime", "ort", BACKENDS["cpu"].ranks, twin="cpu"),
        Place("htp-ort", "htp", "ONNX Runtime with Qualcomm's HTP runtime", "ort", BACKENDS["htp"].ranks, twin="htp"),
        Place("cpu-emulator", "cpu", "udogen's CPU emulator", "emulator", BACKENDS["cpu"].ranks, "cpu", usual=False),
        Place("htp-emulator", "htp", "udogen's HTP emulator", "emulator", BACKENDS["htp"].ranks, "htp", usual=False),
    )
}


# No op runs there: shape rules, converter op packages and references are compared.
SHAPES = Place("shapes", "", "shape rules, the converter op package, references", "shapes", tuple(range(9)))


def place_of(name: str) -> Place:
    """The row of this name."""
    if name == SHAPES.id:
        return SHAPES
    if name not in PLACES:
        raise UsageError(f"ops cannot be tested on `{name}`", hint="there are " + ", ".join((*PLACES, SHAPES.id)))
    return PLACES[name]


def built_for(place: Place, folder: Path) -> Built:
    """The package of a place in a folder: a library, or sources if they are compiled for the instruction set."""
    return find_source(folder, backend=place.config) if place.instructions else find_built(folder, backend=place.config)


def check_available(place: Place, on_step: Callable[[str], None]) -> None:
    """Raise if the runtime or tool of the place is missing, before anything is compiled for it."""
    if place.instructions:
        qemu_hexagon.find_qemu()
        qemu_hexagon.compiler(qemu_hexagon.HOSTS[place.config].default)
    elif place.client:
        versions.check(place.config)
        onnx_module()
    else:
        find_runtime(place.config, kind=place.kind, on_step=on_step)


def open_session(
    place: Place,
    built: Built,
    *,
    timeout: float | None,
    runtime: Path | None = None,
    force: bool = False,
    count: bool = False,
    on_step: Callable[[str], None] = lambda _line: None,
) -> Session:
    """A session with the package; `count`: packets, if instructions are run."""
    if place.client:
        return OrtSession(built, backend=place.config, timeout=timeout)
    if not place.instructions:
        return OpSession(
            built.library,
            built.provider,
            backend=place.config,
            runtime=runtime,
            runtime_kind=place.kind if runtime is None else "auto",
            timeout=timeout,
            force=force,
            poison=POISON,
            on_step=on_step,
        )
    if built.folder is None:
        raise UsageError("only a package that udogen generated can be compiled for Hexagon", hint="give its folder")
    return HexagonSession(built.folder, timeout=timeout, count=count, on_step=on_step)
