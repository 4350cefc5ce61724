"""All clients, by name."""

from __future__ import annotations

from udogen.clients.client import Client
from udogen.clients.programs import rows
from udogen.plugins import Registry

ALL: Registry[Client] = Registry("clients", {client.name: client for client in rows.CLIENTS})
