"""Which releases of onnxruntime and onnxruntime-qnn are compatible; checked before either is imported."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import NamedTuple

from udogen import backends, resources
from udogen.backends import architectures
from udogen.build import tools
from udogen.errors import ToolMissing
from udogen.onnx.models.model import OpName

Version = tuple[int, ...]
ORT, QNN = "onnxruntime", "onnxruntime-qnn"


class CompatibleReleases(NamedTuple):
    """Releases of onnxruntime-qnn, and the releases of onnxruntime that accept them."""

    first: Version  # of onnxruntime-qnn
    before: Version
    oldest: Version  # of onnxruntime
    refused: Version  # refused from this release on; empty if none is
    why: str  # the reason of `refused`


@cache
def compatible_releases() -> tuple[CompatibleReleases, ...]:
    """The rows of data/onnxruntime.toml."""
    rows = resources.facts("onnxruntime")["release"]
    return tuple(
        CompatibleReleases(
            _numbers(row["first"]),
            _numbers(row["before"]),
            _numbers(row["oldest"]),
            _numbers(row["refused"]) if "refused" in row else (),
            row.get("why", ""),
        )
        for row in rows
    )


_INSTALL = "pip install 'onnxruntime>=1.24.2,<1.28' onnxruntime-qnn==2.3.0"
DOMAINS_SINCE = (2, 7)  # the first release that reads ORT_QNN_CUSTOM_OP_DOMAINS


def check(backend: str) -> None:
    """Raise if the installed releases are incompatible, or lack the backend."""
    found = {name: _installed(name) for name in (ORT, QNN)}
    if missing := [name for name, text in found.items() if not text]:
        raise ToolMissing(f"{' and '.join(missing)} is not installed", hint=_INSTALL)
    check_pair(found[ORT], found[QNN], backend)


def check_pair(ort: str, qnn: str, backend: str) -> None:
    """Like `check`, for these two releases; unknown releases are not refused."""
    row = next((each for each in compatible_releases() if each.first <= _numbers(qnn) < each.before), None)
    if row is not None and _numbers(ort) < row.oldest:
        raise ToolMissing(
            f"onnxruntime {ort} is too old for onnxruntime-qnn {qnn}, which needs {'.'.join(map(str, row.oldest))}",
            hint=_INSTALL,
        )
    if row is not None and row.refused and _numbers(ort) >= row.refused:
        raise ToolMissing(
            f"onnxruntime {ort} and onnxruntime-qnn {qnn} are incompatible: {row.why}",
            hint=f"{_INSTALL}; or onnxruntime-qnn 2.4.0 or later, which has no libQnnCpu.so",
        )
    runtime = backends.RUNTIMES.get(backend)
    if runtime is not None and runtime.ort_below and _numbers(qnn) >= runtime.ort_below:
        raise ToolMissing(
            f"onnxruntime-qnn {qnn} has no {runtime.library}",
            hint=f'backend="htp", or {_INSTALL}, or give runtime=PATH',
        )


def text() -> str:
    """The installed releases, for messages."""
    return " + ".join(f"{name} {_installed(name)}" for name in (ORT, QNN))


def custom_ops() -> tuple[OpName, ...]:
    """The ops that the provider defines itself: those of ORT_QNN_CUSTOM_OP_DOMAINS, if it reads that variable."""
    if _numbers(_installed(QNN) or "0") < DOMAINS_SINCE:
        return ()
    found = []
    for entry in tools.custom_op_domains().split(";"):
        domain, _, names = entry.partition(":")
        found += [OpName(domain.strip(), name.strip()) for name in names.split(",") if name.strip()]
    return tuple(found)


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _numbers(text: str) -> Version:
    """(1, 27, 0) for 1.27.0 and for 1.27.0.dev2026."""
    plain = text.split("+", maxsplit=1)[0].split(".dev", maxsplit=1)[0].split("rc", maxsplit=1)[0]
    return architectures.version(plain)
