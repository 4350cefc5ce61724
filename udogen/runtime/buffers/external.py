"""External buffers of HTP contexts: weights and spill-fill.  The rules of Qualcomm's shared-buffer tutorial are checked
here, because the runtime reports most violations only as an error code, and some not at all.

Order: restore with `deferred`, `Context.needs`, `allocate_weights`, `give_weights`, `finalize`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from udogen import backends
from udogen.errors import RunFailed
from udogen.qnn.handles import Handle, register_external, run_all
from udogen.runtime.buffers.buffer import (
    SPILL_FILL,
    SPILL_SIZE,
    WEIGHTS,
    WEIGHTS_SIZE,
    Buffer,
    RegisteredRange,
    is_registered,
    record_registration,
)

if TYPE_CHECKING:
    from udogen.qnn.handles import ContextOptions
    from udogen.runtime.contexts.context import Context

_NAMES = {WEIGHTS: "external weights buffer", SPILL_FILL: "external spill-fill buffer"}
_COUNTED_AS = {WEIGHTS: WEIGHTS_SIZE, SPILL_FILL: SPILL_SIZE}  # kinds of `Session.charge`
_DMA = ("rpcmem", "hardware_buffer_blob")  # kinds of memory that are DMA buffers
_DMA_FILES = ("/dmabuf", "anon_inode:dmabuf")  # in /proc/self/fd, link targets of DMA buffers of other programs


class ExternalSizes(NamedTuple):
    """The sizes and the alignment of the external buffers of a deferred context, in bytes.

    `print(context.needs.weights, context.needs.alignment)`
    """

    weights: int
    spill: int
    alignment: int

    def of(self, kind: str) -> int:
        """The size for one kind of buffer."""
        return self.weights if kind == WEIGHTS else self.spill


class IncompatibleFeature(NamedTuple):
    """A feature that excludes external buffers."""

    name: str
    is_set: Callable[[ContextOptions], bool]  # in the options of the context
    hint: str


FEATURES = (
    IncompatibleFeature(
        "REGISTER_MULTI_CONTEXTS",
        lambda options: "REGISTER_MULTI_CONTEXTS" in options.htp,
        "restore the context without that option: contexts share a spill-fill buffer if it is registered with each",
    ),
    IncompatibleFeature(
        "REGISTER_CONCURRENT_RESOURCE_SHARING",
        lambda options: "REGISTER_CONCURRENT_RESOURCE_SHARING" in options.htp,
        "restore the context without that option",
    ),
    IncompatibleFeature(
        "graph switching",
        lambda options: bool(options.memory_limit_hint or options.persistent_binary),
        "restore the context without memory_limit_hint and persistent_binary",
    ),
    IncompatibleFeature(
        "udma64",
        lambda options: bool(options.htp.get("USE_EXTENDED_UDMA")),
        "turn udma64 off when the graphs are prepared, and restore the context without USE_EXTENDED_UDMA",
    ),
    IncompatibleFeature("securepd", lambda _options: False, "create the device outside the secure process domain"),
)


@dataclass(eq=False)
class ExternalBuffer:
    """A registered external buffer of one context: `registered = context.give_weights(weights)`."""

    kind: str
    context: Context
    buffer: Buffer
    handle: Handle
    _release: Callable[[], None]  # called after it was deregistered; a second call does nothing

    def close(self) -> None:
        """Deregister it before the context is finalized; later it is deregistered with the context."""
        if self.handle.raw is None:
            return
        if not self.context.deferred:
            raise RunFailed(
                f"the {_NAMES[self.kind]} `{self.buffer.name}` cannot be deregistered: context {self.context.name} is "
                "finalized and uses it",
                hint="close the context: QNN deregisters the buffer then",
            )
        self._deregister()

    def _deregister(self) -> None:
        """Deregister it, unless the context was finalized: then QNN does so when the context is freed."""
        if self.context.deferred:
            run_all((self.handle.close, self._release))

    def _after_the_end(self) -> None:
        """Called after the context was freed."""
        self.handle.raw = None
        self._release()


def external_sizes(context: Context, *, features: Iterable[str] = ()) -> ExternalSizes:
    """The sizes and the alignment of the external buffers that a deferred context needs.

    Raises if it cannot have any.  `features` names what cannot be read from the context: a binary prepared with
    `udma64`, a device in `securepd`, a client that uses `graph switching`.
    """
    _check_context(context, set(features))
    names = ("WEIGHTS_BUFFER_SIZE", "MAX_SPILLFILL_BUFFER_SIZE", "BUFFER_START_ALIGNMENT")
    return ExternalSizes(*(context.handle.property(name) for name in names))


def allocate_external(contexts: Sequence[Context], kind: str) -> Buffer | None:
    """A buffer for the weights of one context or the spills of several; None if no buffer is needed."""
    wanted = [external_sizes(context) for context in contexts]
    size = max((needs.of(kind) for needs in wanted), default=0)
    # Offsets in the descriptor may have any alignment; the address is page-aligned, as every allocator guarantees.
    name = f"{'weights' if kind == WEIGHTS else 'spill-fill'} of {', '.join(context.name for context in contexts)}"
    return Buffer("shared", size, alignment=64, name=name) if size else None


def register(kind: str, context: Context, buffer: Buffer, offset: int, features: Iterable[str]) -> ExternalBuffer:
    """Register a buffer for the weights of a context or for what its graphs spill."""
    with _registering:
        needs = external_sizes(context, features=features)
        _check_buffer(kind, context, buffer)
        place = buffer.fd_offset + offset
        _check_place(kind, context, buffer, offset, needs)
        _check_alone(kind, context)
        size = buffer.size - offset
        entry = RegisteredRange(kind, buffer, place, size, context.name, id(context))
        with ExitStack() as stack:
            stack.callback(record_registration(entry))
            stack.callback(buffer.hold(f"context {context.name}, as {_NAMES[kind]}"))
            stack.callback(buffer.reserve(f"{_NAMES[kind]} of context {context.name}"))
            if context.session is not None:
                stack.callback(context.session.charge(buffer, size, _COUNTED_AS[kind]))
            handle = register_external(context.handle, kind, buffer.descriptor(), offset=place, size=size)
            if kind == SPILL_FILL:
                context.turn = entry.turn
                stack.callback(setattr, context, "turn", None)
            registered = ExternalBuffer(kind, context, buffer, handle, stack.pop_all().close)
        context.on_close(registered._deregister)
        context.keep(registered._after_the_end)
        return registered


_registering = threading.Lock()


def _check_context(context: Context, features: set[str]) -> None:
    if not context.restored:
        raise RunFailed(
            "external buffers are for contexts that are restored from one binary (QnnContext_createFromBinary): "
            f"context {context.name} was made in another way",
            hint="save the context, and restore its binary with Runtime.restore(…, deferred=True)",
        )
    context.check_open()
    if not backends.RUNTIMES[context.runtime.backend].buffers:
        raise RunFailed(
            f"external buffers are HTP's: context {context.name} is one of {context.runtime.name}",
            hint="restore the binary with the backend htp",
        )
    if not context.runtime.emulator and not hasattr(sys, "getandroidapilevel"):
        raise RunFailed(
            "external buffers are supported on Android only, and this is not Android",
            hint='try them on udogen\'s emulator (runtime="emulator")',
        )
    if not context.options.deferred:
        raise RunFailed(
            f"context {context.name} was not restored with deferred graphs: it has allocated its own memory",
            hint="Runtime.restore(…, deferred=True)",
        )
    if not context.deferred:
        raise RunFailed(
            f"context {context.name} is finalized: external buffers are registered before that",
            hint="register them between Runtime.restore and Context.finalize",
        )
    unknown = sorted(features - {row.name for row in FEATURES})
    if unknown:
        raise RunFailed(
            f"`{unknown[0]}` is not a known feature",
            hint=f"one of: {', '.join(row.name for row in FEATURES)}",
        )
    for row in FEATURES:
        if row.name in features or row.is_set(context.options):
            raise RunFailed(
                f"context {context.name} cannot have external buffers: they exclude {row.name}",
                hint=row.hint,
            )


def _check_buffer(kind: str, context: Context, buffer: Buffer) -> None:
    name = _NAMES[kind]
    if buffer.fd is None or not (context.runtime.emulator or _is_dma(buffer)):
        raise RunFailed(
            f"buffer `{buffer.name}` cannot be an {name}: it is {buffer.kind} memory, no DMA buffer",
            hint=f"allocate it as {_DMA[0]}" + (" (on the emulator, memfd)" if context.runtime.emulator else ""),
        )
    buffer.descriptor()
    if buffer.fastrpc:
        raise RunFailed(
            f"buffer `{buffer.name}` cannot be an {name}: its descriptor is registered with fastrpc (fastrpc_mmap)",
            hint="unmap it first (fastrpc_munmap), or allocate another one",
        )


def _is_dma(buffer: Buffer) -> bool:
    return buffer.kind in _DMA or os.readlink(f"/proc/self/fd/{buffer.descriptor()}").startswith(_DMA_FILES)


def _check_place(kind: str, context: Context, buffer: Buffer, offset: int, needs: ExternalSizes) -> None:
    name, place = _NAMES[kind], buffer.fd_offset + offset
    if needs.of(kind) == 0:
        raise RunFailed(
            f"context {context.name} needs no {name}: it does not use one",
            hint="do not register one",
        )
    if needs.alignment and place % needs.alignment:
        raise RunFailed(
            f"the {name} of context {context.name} cannot begin at byte {place} of its descriptor: its start must be a "
            f"multiple of {needs.alignment} (BUFFER_START_ALIGNMENT)",
            hint=f"choose an offset that is a multiple of {needs.alignment}",
        )
    if offset < 0 or buffer.size - offset < needs.of(kind):
        raise RunFailed(
            f"the {name} of context {context.name} needs {needs.of(kind)} bytes, buffer `{buffer.name}` has "
            f"{max(buffer.size - offset, 0)} from byte {offset} on",
            hint="allocate it with the size of external_sizes"
            + (": the largest of all contexts that share it" if kind == SPILL_FILL else ""),
        )


def _check_alone(kind: str, context: Context) -> None:
    if is_registered(kind, id(context)):
        raise RunFailed(
            f"context {context.name} already has an {_NAMES[kind]}",
            hint="close that one first, before the context is finalized",
        )
