"""All clients, by name."""

from __future__ import annotations

from udogen.clients.client import Client
from udogen.clients.programs import ort, rows

ALL: dict[str, Client] = {client.name: client for client in (ort.CLIENT, *rows.CLIENTS)}
