"""All clients, one row each."""

from __future__ import annotations

from udogen.clients.client import Client
from udogen.clients.programs import cpp, executorch, java, litert, net_run, snpe, tflite
from udogen.plugins import Registry

_OWN = {
    row.name: row
    for row in (
        executorch.CLIENT,
        litert.CLIENT,
        net_run.NET_RUN,
        net_run.GENERATOR,
        tflite.CLIENT,
        snpe.NET_RUN,
        snpe.QUANTIZE,
        net_run.GENIE,
        cpp.CLIENT,
        java.CLIENT,
    )
}
ALL: Registry[Client] = Registry("clients", _OWN)
