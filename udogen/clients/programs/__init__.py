"""The clients: one module and one row each."""

from __future__ import annotations

from udogen.clients.client import Client
from udogen.clients.programs import cpp, executorch, genie, java, litert, net_run, ort, snpe, tflite

ALL: dict[str, Client] = {
    row.name: row
    for row in (
        ort.CLIENT,
        executorch.CLIENT,
        litert.CLIENT,
        net_run.NET_RUN,
        net_run.GENERATOR,
        tflite.CLIENT,
        snpe.NET_RUN,
        snpe.QUANTIZE,
        genie.CLIENT,
        cpp.CLIENT,
        java.CLIENT,
    )
}
