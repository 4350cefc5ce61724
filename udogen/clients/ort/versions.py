"""Which versions of onnxruntime and onnxruntime-qnn go together, one row each; looked at before either is imported."""

from __future__ import annotations

from importlib import metadata
from typing import NamedTuple

from udogen import backends
from udogen.backends import architectures
from udogen.build import tools
from udogen.errors import ToolMissing
from udogen.opdef.onnx.model import OpName

Version = tuple[int, ...]
ORT, QNN = "onnxruntime", "onnxruntime-qnn"


class Pair(NamedTuple):
    """Releases of onnxruntime-qnn, and those of onnxruntime that take them."""

    first: Version  # of onnxruntime-qnn
    before: Version
    oldest: Version  # onnxruntime
    newest: Version  # that was tried; empty where nothing newer is refused
    refused: Version  # from this one on; empty where none is
    why: str  # it is refused
    source: str


PAIRS = (
    Pair(
        (2, 0),
        (2, 4),
        (1, 24, 2),
        (1, 27, 0),
        (1, 28),
        "newer ones refuse it (`OrtEp has invalid ort_version_supported=0`), and run everything on their own CPU",
        "measured: 2.3.0 with 1.24.2, 1.27.0, 1.28.0, 1.31.1; onnxruntime/onnxruntime-qnn #564",
    ),
    Pair(
        (2, 4),
        (3,),
        (1, 24, 2),
        (1, 31, 1),
        (),
        "",
        "measured: 2.4.0, 2.5.0, 2.6.0 and 2.7.0, each with 1.24.2, 1.27.0, 1.28.0 and 1.31.1",
    ),
)
_GOOD = "pip install 'onnxruntime>=1.24.2,<1.28' onnxruntime-qnn==2.3.0"
DOMAINS_SINCE = (2, 7)  # the first that reads ORT_QNN_CUSTOM_OP_DOMAINS


def check(backend: str) -> None:
    """Raise where what is installed does not go together, or lacks the backend."""
    found = {name: _installed(name) for name in (ORT, QNN)}
    if missing := [name for name, text in found.items() if not text]:
        raise ToolMissing(f"{' and '.join(missing)} is not installed", hint=_GOOD)
    check_pair(found[ORT], found[QNN], backend)


def check_pair(ort: str, qnn: str, backend: str) -> None:
    """The same for two versions as texts; what no row knows is not refused."""
    row = next((each for each in PAIRS if each.first <= _numbers(qnn) < each.before), None)
    if row is not None and _numbers(ort) < row.oldest:
        raise ToolMissing(
            f"onnxruntime {ort} is too old for onnxruntime-qnn {qnn}, which begins with {_text(row.oldest)}", hint=_GOOD
        )
    if row is not None and row.refused and _numbers(ort) >= row.refused:
        raise ToolMissing(
            f"onnxruntime {ort} and onnxruntime-qnn {qnn} do not go together: {row.why}",
            hint=f"{_GOOD}; or onnxruntime-qnn 2.4.0 or later, which has no libQnnCpu.so",
        )
    runtime = backends.RUNTIMES.get(backend)
    if runtime is not None and runtime.ort_below and _numbers(qnn) >= runtime.ort_below:
        raise ToolMissing(
            f"onnxruntime-qnn {qnn} carries no {runtime.library}",
            hint=f'backend="htp", or {_GOOD}, or give runtime=PATH',
        )


def text() -> str:
    """What is installed, for people."""
    return " + ".join(f"{name} {_installed(name)}" for name in (ORT, QNN))


def custom_ops() -> tuple[OpName, ...]:
    """The ops that the provider makes known by itself: those of ORT_QNN_CUSTOM_OP_DOMAINS, where it reads that."""
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
    """1.27.0 of 1.27.0, and of 1.27.0.dev2026."""
    plain = text.split("+", maxsplit=1)[0].split(".dev", maxsplit=1)[0].split("rc", maxsplit=1)[0]
    return architectures.version(plain)


def _text(version: Version) -> str:
    return ".".join(map(str, version))
