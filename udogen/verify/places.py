"""The places where ops can run, and how to open a session there."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from udogen.backends import PLACES, RUNTIMES, architectures
from udogen.backends.backend import Place
from udogen.build import qemu, qemu_hexagon
from udogen.clients.scripts import device_session
from udogen.clients.scripts.device_session import DeviceSession
from udogen.clients.scripts.plan import Device
from udogen.errors import UsageError
from udogen.findings import suggestion
from udogen.qnn.handles import Closing
from udogen.runtime.built import Built, find_built, find_source
from udogen.runtime.hexagon.session import HexagonSession
from udogen.runtime.library import RuntimeInfo, find_runtime
from udogen.runtime.op.calls import POISON, Chain, OpCall, OpResult
from udogen.runtime.op.session import OpSession
from udogen.verify.options import TestOptions


class ProgramSession(Closing):
    """A session with the program of a plug-in."""

    runtime: RuntimeInfo

    def close(self) -> None:
        """End the program."""

    def prepare(self, chains: Sequence[Chain]) -> None:
        """Run these in advance, as many as possible together, if that is quicker; `run_chain` returns their results."""

    def run(self, call: OpCall) -> OpResult:
        """Run one op."""
        return self.run_chain([call])

    def run_chain(self, calls: Chain) -> OpResult:
        """Run a chain, where the first output of each op is the first input of the next; return the last outputs."""
        raise NotImplementedError


Session: TypeAlias = OpSession | HexagonSession | DeviceSession | ProgramSession
HERE = "here"  # the name of this machine in `--on`


# Runs no op: compares shape rules, converter op packages and references.
SHAPES = Place("shapes", "", "shape rules, the converter op package, references", "shapes", tuple(range(9)), "Shapes")


def place_of(name: str) -> Place:
    """The place with this name; `cpu@ssh:USER@HOST` is the place `cpu` on that device."""
    base, _, device = name.partition("@")
    if device:
        return on_device(place_of(base), device)
    if name == SHAPES.id:
        return SHAPES
    if name not in PLACES:
        known = [*PLACES, SHAPES.id]
        raise UsageError(
            f"ops cannot be tested on `{name}`", hint=suggestion(name, known, "there are " + ", ".join(known))
        )
    return PLACES[name]


def on_device(place: Place, device: str) -> Place:
    """The same place on a device; its graphs must be compiled to a context binary on this machine."""
    Device.parse(device)
    if not runs_on_devices(place):
        able = ", ".join(row.id for row in PLACES.values() if runs_on_devices(row))
        raise UsageError(f"`{place.id}` does not run on devices", hint=f"--backend {able}, or leave --on out")
    return replace(
        place,
        id=f"{place.id}@{device}",
        title=f"{place.title} on {device}",
        heading=f"{place.heading} on {device}",
        device=device,
    )


def runs_on_devices(place: Place) -> bool:
    """Whether this machine can make context binaries of its graphs for devices."""
    if not place.watched or place is SHAPES:
        return False
    return place.kind == "emulator" or platform.machine() in RUNTIMES[place.config].machines


def runs_networks(place: Place) -> bool:
    """Whether whole models run there, as in `[[network]]` of test files."""
    return place.program is not None and place.program.networks


def built_for(place: Place, folder: Path) -> Built:
    """The package in a folder for a place: a library, or sources if the place compiles them for Hexagon."""
    return find_source(folder, backend=place.config) if place.instructions else find_built(folder, backend=place.config)


def check_available(place: Place, on_step: Callable[[str], None]) -> None:
    """Raise if the runtime or tool of the place is missing, before anything is compiled for it."""
    if place.device:
        device_session.probe(place.device)
    elif place.instructions:
        qemu.find_qemu()
        qemu_hexagon.compiler(qemu_hexagon.harness_of(place.config).arch)
    elif place.program is not None:
        place.program.check(place.config)
    else:
        find_runtime(place.config, runtime=place.kind, on_step=on_step)


def open_session(
    place: Place,
    built: Built,
    options: TestOptions,
    *,
    count: bool = False,
    on_step: Callable[[str], None] = lambda _line: None,
) -> Session:
    """Open a session; `count` counts packets if the place runs instructions."""
    timeout = options.timeout
    if place.device:
        return DeviceSession(built, place, timeout=timeout, on_step=on_step)
    if place.program is not None:
        session: ProgramSession = place.program.open(built, place.config, timeout)
        return session
    if not place.instructions:
        return OpSession(
            built.library,
            built.provider,
            backend=place.config,
            runtime=place.kind if options.qnn_lib is None else "auto",
            qnn_lib=options.qnn_lib,
            timeout=timeout,
            force=options.force,
            poison=POISON,
            on_step=on_step,
        )
    if built.folder is None:
        raise UsageError("only a package that udogen generated can be compiled for Hexagon", hint="give its folder")
    arch = options.arch if options.arch in architectures.of_backend(place.config) else ""
    return HexagonSession(built.folder, arch=arch, timeout=timeout, count=count, on_step=on_step)
