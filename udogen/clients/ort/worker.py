"""The child in which ONNX Runtime runs models of cases: what an op does to its process ends here."""

from __future__ import annotations

import gc
import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from udogen.build import elf
from udogen.clients.ort import open_session, versions
from udogen.errors import RunFailed, UdogenError
from udogen.runtime import failures, proof
from udogen.runtime.wire import Message, Wire
from udogen.runtime.worker.main import serve


class Worker:
    """ONNX Runtime with one package, and the session of the last model."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._folder = tempfile.TemporaryDirectory(prefix="udogen-ort-cases-")
        self._session: Any = None
        self._key = b""

    def obey(self, order: Message, buffers: list[bytearray]) -> None:
        """Do what one message says; what fails is reported, not raised."""
        try:
            if order["do"] == "start ort":
                self._start(order)
            elif order["do"] == "run model":
                self._run(order, buffers)
            elif order["do"] == "quit":
                self._phase("end the sessions")
                self._drop()
                self._folder.cleanup()
                self._say("bye")
            else:
                raise RunFailed(f"the worker knows no order `{order['do']}`", hint="please report this")
        except UdogenError as error:
            refused = isinstance(error, open_session.NotPlaced | open_session.SessionFailed) and error.refused
            self._say("failed", refused=refused, exit_code=error.exit_code, **dict[str, Any](error.as_json()))

    def _start(self, order: Message) -> None:
        self._phase("import ONNX Runtime")
        versions.check(order["backend"])
        library = open_session.backend_library(order["backend"])
        builds = elf.sdk_releases(library)
        self._say(
            "ready",
            name=f"{versions.text()} with {library.name}",
            build_id=builds[-1] if builds else "",
            version=versions.text(),
            path=str(library),
        )

    def _run(self, order: Message, buffers: list[bytearray]) -> None:
        """Execute a model so many times; the counts are those of the package, before and after."""
        import numpy as np

        model, *data = buffers
        key = hashlib.sha256(model).digest()
        library, provider = order["library"], order["provider"]
        if key != self._key:
            self._drop()
            self._before = _counts(library, provider, order["op"])
            self._phase("make the session")
            path = Path(self._folder.name, "case.onnx")
            path.write_bytes(model)
            self._session = open_session.session(path, [library], backend=order["backend"], ops=[order["op"]])
            self._key = key
        else:
            self._before = _counts(library, provider, order["op"])
        feeds = {
            row["name"]: np.frombuffer(each, row["dtype"]).reshape(row["shape"])
            for row, each in zip(order["inputs"], data, strict=True)
        }
        ready = _counts(library, provider, order["op"])
        self._phase("execute")
        try:
            for _ in range(order["loops"]):
                found = self._session.run(order["outputs"], feeds)
        except Exception as fault:  # of pybind11, by kind
            self._drop()
            raise failures.OpFailed(
                f"op `{order['op']}` failed when ONNX Runtime executed it: {' '.join(str(fault).split())[:300]}",
                hint="see the kernel: its return value is passed on as it is",
            ) from fault
        arrays = [np.ascontiguousarray(each) for each in found]
        self._say(
            "done",
            arrays,
            outputs=[{"dtype": str(each.dtype), "shape": list(each.shape)} for each in arrays],
            counted=(counters.counted if (counters := _counters(library, provider)) else ""),
            counts=[self._before, ready, _counts(library, provider, order["op"])],
        )

    def _drop(self) -> None:
        self._session, self._key = None, b""
        gc.collect()  # what it registered is freed before it is registered again

    def _phase(self, name: str) -> None:
        self._say("phase", phase=name)

    def _say(self, event: str, buffers: Sequence[Any] = (), **fields: Any) -> None:
        self._wire.send({"event": event, **fields}, buffers)


def _counters(library: str, provider: str) -> proof.Counters | None:
    try:
        return proof.counters_of(library, provider)
    except OSError:  # no session has loaded it, or the last one that did is gone
        return None


def _counts(library: str, provider: str, op: str) -> tuple[int, int]:
    """How often the package executed this op, and all its ops."""
    found = _counters(library, provider)
    return (found.of(op), found.total()) if found else (0, 0)


def main() -> None:
    """Run models of cases."""
    serve(Worker)
