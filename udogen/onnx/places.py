"""The places `cpu-ort` and `htp-ort`: ops in ONNX Runtime, in nodes that Qualcomm's provider executes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udogen import backends
from udogen.backends.backend import Place, Program

if TYPE_CHECKING:
    from udogen.opdef.model import Tensor


class OnnxRuntime(Program):
    """ONNX Runtime with Qualcomm's provider."""

    networks = True

    def check(self, backend: str) -> None:
        """Raise if a Python package is missing."""
        from udogen.onnx.models.reading import onnx_module
        from udogen.onnx.ort import preflight

        preflight.check_releases(backend)
        onnx_module()

    def open(self, built: Any, backend: str, timeout: float | None) -> Any:
        """A session in a worker."""
        from udogen.onnx.ort.op_session import OrtSession

        return OrtSession(built, backend=backend, timeout=timeout)

    def param_fault(self, param: Tensor) -> str:
        """Why an ONNX attribute cannot carry a parameter."""
        from udogen.onnx.client import attribute_fault

        return attribute_fault(param)

    def op_types(self, model: Any, until: str) -> frozenset[str]:
        """The types of the nodes of a network."""
        from udogen.onnx.network import compare

        return compare.op_types(model, until)

    def run_network(self, **options: Any) -> Any:
        """Run a network, and compare its layers with ONNX Runtime's CPU."""
        from udogen.onnx.network import compare
        from udogen.onnx.network.execute import NetworkOptions

        return compare.run_network(NetworkOptions(**options))


def _place(backend: str) -> Place:
    title = backend.upper()
    return Place(
        f"{backend}-ort",
        backend,
        f"ONNX Runtime with Qualcomm's {title} runtime",
        "client",
        backends.PLACES[backend].ranks,
        f"{title} (ONNX Runtime)",
        backend,
        program=OnnxRuntime(),
    )


CPU, HTP = _place("cpu"), _place("htp")
