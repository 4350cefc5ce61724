"""The files that `udogen script` writes, for two packages, every client and every device: tests/scripts/golden.

One golden file for each client.  The first case is complete, each other one is a diff to the most similar
case before it.

Libraries, models and udogen's client are stand-ins; run.py is left out, because it is the same for all and other tests
run it.  Checksums are left out: those of libraries depend on the installed compiler.
"""

from __future__ import annotations

import difflib
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from tests.clients.laying import AWKWARD, AWKWARD_FOLDER, PLAIN, lay
from tests.making import rewrite
from udogen.cli import script
from udogen.clients.scripts.make_plan import ScriptOptions, make_plan
from udogen.clients.scripts.plan import script_files, write_script
from udogen.errors import UdogenError
from udogen.qnn.quantization import ScaleOffset
from udogen.qnn.system import GraphInfo, TensorInfo

GOLDEN = Path(__file__).with_name("golden")
GRAPH = GraphInfo(
    "it's a graph",
    (TensorInfo(1, "in[0]", "FLOAT_32", (1, 2, 2, 1)),),
    (TensorInfo(7, "out[0]", "UFIXED_POINT_8", (1, 2, 2, 1), ScaleOffset(0.5, -3)),),
)
PLAIN_GRAPH = GraphInfo(
    "udogen", (TensorInfo(1, "input", "FLOAT_32", (4,)),), (TensorInfo(2, "output", "FLOAT_32", (4,)),)
)


class Case(NamedTuple):
    client: str
    package: str  # plain or awkward
    device: str
    options: ScriptOptions

    @property
    def name(self) -> str:
        return f"{self.client} {self.package} {self.device.partition(':')[0] or 'here'}"


def cases(base: Path) -> Iterator[Case]:
    for name, config, folder in (("plain", PLAIN, "plain"), ("awkward", AWKWARD, AWKWARD_FOLDER)):
        qnn = lay(config, base / folder)
        udo = lay(config, base / f"{folder} udo", layout="snpe", chosen=("cpu", "htp"))
        (base / "model; rm.xyz").write_bytes(b"context")
        (base / "model.so").write_bytes(b"\x7fELF")
        np.save(base / "x.npy", np.arange(4, dtype=np.float32))
        np.save(base / "y.npy", np.arange(4, dtype=np.uint8 if name == "awkward" else np.float32))
        for client in script.CLIENTS:
            for device in ("adb", "ssh:me@board:22", ""):
                package = udo if client.startswith("snpe-") else qnn
                yield Case(client, name, device, options(base, package, client, device, awkward=name == "awkward"))


def options(base: Path, package: Path, client: str, device: str, *, awkward: bool) -> ScriptOptions:
    context = client == "cpp" or (client == "qnn-net-run" and awkward)
    return ScriptOptions(
        paths=(package,),
        client=client,
        on=device,
        target="htp" if client.startswith("snpe-") else "",
        model=base / ("model; rm.xyz" if context else "model.so"),
        inputs=(("in[0]" if awkward else "input", str(base / "x.npy")),),
        references=(("out[0]" if awkward else "output", str(base / "y.npy")),),
        tolerance=(0.125, 0.001) if awkward else None,
        prove=not device,
    )


def text(options: ScriptOptions, *, base: Path) -> str:
    """Return the written files, or the reason why there are none."""
    graph = GRAPH if ("in[0]", str(base / "x.npy")) in options.inputs else PLAIN_GRAPH
    here = "udogen.clients.scripts.make_plan"
    try:
        with (
            patch(f"{here}._graph_of", lambda *_: graph),
            patch(f"{here}.build_own_client", lambda *_, **__: _program(base)),
        ):
            plan, kept = make_plan(options)
    except UdogenError as fault:
        found = "\n".join([f"error: {fault.message}", *(f"  {each}" for each in fault.details), f"  = {fault.hint}"])
        return found.replace(str(base.resolve()), "/BASE").replace(str(base), "/BASE").rstrip() + "\n"
    rendered = script_files(plan, kept)
    write_script(base / "written", rendered)
    rendered = {path: (base / "written" / path).read_bytes() for path in rendered}
    shutil.rmtree(base / "written")
    shown = grouped(f"# {path} ({_size(path, content)})" for path, content in sorted(rendered.items()) if "/" in path)
    shown += ["", "# device.sh", rendered["device.sh"].decode().rstrip()]
    manifest = json.loads(rendered["plan.json"])
    del manifest["socs"]  # the same for all
    for key in ("archs", "prove", "command"):
        manifest[key] = json.dumps(manifest[key], ensure_ascii=False)
    for name in ("files", "vendors", "checks"):
        rows = ({key: value for key, value in row.items() if key not in ("key", "size")} for row in manifest[name])
        manifest[name] = grouped(map(_row, rows))
    shown += ["", "# plan.json", json.dumps(manifest, indent=1, ensure_ascii=False)]
    for name in ("input_list.txt", "graph.txt"):
        if name in rendered:
            shown += ["", f"# {name}", rendered[name].decode().rstrip()]
    found = "\n".join(shown).replace(str(base.resolve()), "/BASE").replace(str(base), "/BASE")
    return found + "\n"


def grouped(lines: Iterable[str]) -> list[str]:
    """Merge lines that differ only in a Hexagon version into one line: `libs/vNN/x.so: 68 69`."""
    versions: dict[str, list[str]] = {}
    for line in lines:
        found = sorted(set(re.findall(r"[vV](\d\d)(?!\d)", line)))
        versions.setdefault(re.sub(r"([vV])\d\d(?!\d)", r"\1NN", line), []).extend(found)
    return [f"{line}: {' '.join(found)}" if found else line for line, found in versions.items()]


def _size(path: str, content: bytes) -> str:
    """Return the size of a file, except for libraries, which depend on the installed compiler."""
    return "a library" if path.endswith(".so") else f"{len(content)} bytes"


def _row(facts: dict[str, object]) -> str:
    """Return one line instead of many."""
    return ", ".join(f"{key} {value}" for key, value in facts.items() if value not in ("", False))


def _program(base: Path) -> Path:
    (base / "client").write_bytes(b"client")
    return base / "client"


def goldens(base: Path) -> dict[str, str]:
    """Return name of a golden file -> its content."""
    texts: dict[str, str] = {}
    files: dict[str, list[str]] = {}
    for case in cases(base):
        head, shown = f"### {case.name}", text(case.options, base=base)
        changes = {name: differences(other, shown) for name, other in texts.items()}
        texts[case.name] = shown
        nearest = min(changes, key=lambda name: len(changes[name]), default="")
        if nearest and len(changes[nearest]) < len(shown):
            head, shown = f"{head}: what differs from {nearest}", changes[nearest]
        files.setdefault(f"{case.client}.txt", []).append(f"{head}\n{shown}")
    return {name: "\n".join(parts) for name, parts in files.items()}


def differences(old: str, new: str) -> str:
    """Return the changed lines, without line numbers."""
    _, _, *lines = [*difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")] or ["", ""]
    return "\n".join("@@" if line.startswith("@@") else line for line in lines) + "\n"


def write_golden() -> None:
    """Rewrite tests/scripts/golden."""
    rewrite(GOLDEN, goldens)
