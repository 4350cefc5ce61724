"""ONNX Runtime with op packages: opens a session whose custom nodes run on QNN, in these packages, or fails.

from udogen.onnx.ort import session

with_ops = session("model.onnx", ["out/LeakyReluPackage"], backend="htp")
with_ops.run(None, {"x": x})

With `prove=True` the session also checks that the kernels ran: `with with_ops.proving(): with_ops.run(...)`.
"""

from __future__ import annotations

from udogen.onnx.ort.open_session import OpProof, ProvingSession, session
from udogen.onnx.ort.placement import NotPlaced, SessionFailed
from udogen.runtime.execution_counts import NotExecuted

__all__ = ["NotExecuted", "NotPlaced", "OpProof", "ProvingSession", "SessionFailed", "session"]
