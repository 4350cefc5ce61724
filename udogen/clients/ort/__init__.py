"""ONNX Runtime with our op packages: a session whose custom nodes are on QNN, in our package, or an error.

from udogen.clients.ort import session

with_ops = session("model.onnx", ["out/LeakyReluPackage"], backend="htp")
with_ops.run(None, {"x": x})
"""

from __future__ import annotations

from udogen.clients.ort.opening import NotPlaced, SessionFailed, session

__all__ = ["NotPlaced", "SessionFailed", "session"]
