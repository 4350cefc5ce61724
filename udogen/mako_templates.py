"""Texts from Mako templates."""

from __future__ import annotations

import importlib.util
import os
import sys
import zlib
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from udogen import __version__, resources
from udogen.errors import UsageError, replace_file

# Mako imports Pygments for HTML error pages, and importlib.metadata for plug-ins.  udogen uses neither, and both take a
# third of the start-up time of `generate`.  None turns the first import into an ImportError, which Mako handles; the
# second module is loaded on first use.
_without_pygments = sys.modules.setdefault("mako.ext.pygmentplugin", None) is None  # type: ignore[arg-type]
if "importlib.metadata" not in sys.modules and (_spec := importlib.util.find_spec("importlib.metadata")):
    assert _spec.loader is not None
    _spec.loader = importlib.util.LazyLoader(_spec.loader)
    importlib.metadata = sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(importlib.metadata)

from mako import exceptions  # noqa: E402
from mako.lookup import TemplateLookup  # noqa: E402

if _without_pygments:
    del sys.modules["mako.ext.pygmentplugin"]


def render_template(template: str, data: Mapping[str, Any]) -> str:
    """The text of a template."""
    try:
        try:
            return str(_lookup().get_template(template).render_unicode(**data))
        except OSError:  # the cache is full
            return str(_templates().get_template(template).render_unicode(**data))
    except Exception as fault:
        # An internal error: report the line of the template.
        trace = exceptions.RichTraceback()
        raise RuntimeError(f"template {template}, line {trace.lineno}: {fault}") from fault


@cache
def _lookup() -> TemplateLookup:
    """Compiled templates, cached: compiling them takes most of a cold start."""
    try:
        kept = resources.cache_dir("templates") / __version__
        kept.mkdir(parents=True, exist_ok=True)
        if os.access(kept, os.W_OK):
            return _templates(modulename_callable=partial(_kept_as, str(kept)), module_writer=_keep)
    except (OSError, UsageError):
        pass
    return _templates()


def _templates(**more: Any) -> TemplateLookup:
    folder = str(resources.templates())
    return TemplateLookup(directories=[folder], strict_undefined=True, input_encoding="utf-8", **more)


def _keep(source: bytes, place: str) -> None:
    """Write a compiled template, whole or not at all; Mako's own writer keeps what fits on a full disk."""
    replace_file(Path(place), source)


def _kept_as(folder: str, filename: str, _uri: str) -> str:
    """The path of a compiled template, by name and content: modification times in a wheel are all the same."""
    with open(filename, "rb") as stream:
        key = zlib.crc32(stream.read())
    return os.path.join(folder, f"{os.path.basename(filename)}-{key:08x}.py")
