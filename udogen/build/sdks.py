"""SDKs: recognizes their folders, and reads their versions from files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from udogen.errors import open_plain

_NUMBERS = r"\d+(?:\.\d+)+"
# Some SDKs have their version only in the name of their folder: Hexagon_SDK/5.4.0.3, hexagon-sdk-5.4.0,
# snpe-2.12.0.230626.
_FOLDER = re.compile(rf"(?:^|[-_v])({_NUMBERS})$")
TOOLS = Path("tools", "HEXAGON_Tools")
COMPILER = Path("Tools", "bin", "hexagon-clang++")


class Sdk(NamedTuple):
    """A kind of SDK: `marks`, of which one must be in its folder, and a function that reads its version."""

    title: str
    marks: tuple[str, ...]
    version: Callable[[Path], str]

    def fault(self, root: Path) -> str:
        """Why this folder is not such an SDK; empty if it is."""
        if not root.is_dir():
            return "no such folder"
        if not any((root / mark).exists() for mark in self.marks):
            return f"it has no {' or '.join(self.marks)}"
        return ""


def udo_headers(root: Path) -> Path | None:
    """The folder of the SnpeUdo headers in SNPE_UDO_ROOT, which depends on the release."""
    below = ("", "SnpeUdo", "include/SnpeUdo", "include/SNPE/SnpeUdo", "../../../include/SNPE/SnpeUdo")
    places = (root / folder for folder in below)  # the last is for share/SNPE/SnpeUdo, named in SNPE's tutorials
    return next((place for place in places if any((place / name).is_file() for name in _UDO_BASE)), None)


def hexagon_tools(root: Path) -> list[str]:
    """The releases of the Hexagon tools in a Hexagon SDK."""
    return sorted(folder.parents[2].name for folder in root.glob(str(TOOLS / "*" / COMPILER)))


def text_of(path: Path) -> str:
    """The beginning of a file, 64 KB; empty if it cannot be read."""
    try:
        with open_plain(path) as stream:
            return stream.read(1 << 16).decode("utf-8", "replace")
    except OSError:
        return ""


def _search(pattern: str, path: Path) -> str:
    match = re.search(pattern, text_of(path), re.MULTILINE)
    return match[1] if match else ""


def _from_folder(root: Path) -> str:
    match = _FOLDER.search(root.resolve().name)
    return match[1] if match else ""


def _qairt(root: Path) -> str:
    """The version in sdk.yaml, which exists since QNN and SNPE are one SDK."""
    number, build = (_search(rf"^{key}: *([\w.]+)", root / "sdk.yaml") for key in ("version", "build_id"))
    return f"{number}.{build}".rstrip(".").partition("_")[0]


def _qnn(root: Path) -> str:
    version = _search(rf'QNN_SDK_BUILD_ID +"v?({_NUMBERS})', root / "include" / "QNN" / "QnnSdkBuildId.h")
    return version or _qairt(root) or _from_folder(root)


def _snpe(root: Path) -> str:
    return _qairt(root) or _from_folder(root) or _search(rf"^SNPE ({_NUMBERS})", root / "ReleaseNotes.txt")


def _hexagon(root: Path) -> str:
    try:
        version = json.loads(text_of(root / "hexagon_sdk.json"))["root"].get("version", "")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        version = ""
    return version if isinstance(version, str) and re.fullmatch(_NUMBERS, version) else _from_folder(root)


def _ndk(root: Path) -> str:
    return _search(rf"^Pkg\.Revision *= *({_NUMBERS})", root / "source.properties")


_UDO_BASE = ("UdoBase.h", "SnpeUdoBase.h")
_SNPE_MARKS = ("include/SNPE", "include/zdl", "share/SnpeUdo", "include/SnpeUdo")

QNN = Sdk("Qualcomm AI Engine Direct SDK (QNN)", ("include/QNN/QnnInterface.h",), _qnn)
SNPE = Sdk("Qualcomm Neural Processing SDK (SNPE)", _SNPE_MARKS, _snpe)
HEXAGON = Sdk("Hexagon SDK", (str(TOOLS), "hexagon_sdk.json", "incs", "libs/common"), _hexagon)
NDK = Sdk("Android NDK", ("ndk-build",), _ndk)


QHPI_SINCE = (2, 47)  # the first release of QNN whose libQnnHtp accepts packages of udogen over QHPI
_TRIED = "2.47 to 2.51"


def has_no_qhpi(root: str) -> str:
    """The release of a QNN SDK that is older than QHPI; empty if the release is not older, or unknown."""
    version = QNN.version(Path(root)) if root else ""
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    return version if numbers and (int(numbers[1]), int(numbers[2])) < QHPI_SINCE else ""


def usable_with(api: str, built: str = "") -> str:
    """The releases of QNN that accept a package with this interface of HTP; `built`: the release of its headers."""
    if api == "core":
        return f"only {built}, whose headers it is built with" if built else "only that of its headers"
    return f"{'.'.join(map(str, QHPI_SINCE))} and later (tried: {_TRIED})"
