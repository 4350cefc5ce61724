"""What `udogen script` writes, for two packages, every client and every device: tests/scripts/golden.

Libraries, models and our client are stand-ins; run.py is not shown, for it is the same for all and run
in tests.  Checksums are left out: those of libraries depend on the compiler that is there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np

from tests.clients.laying import AWKWARD, AWKWARD_FOLDER, PLAIN, lay
from tests.making import rewrite
from udogen.cli import script
from udogen.clients.scripts import write
from udogen.clients.scripts.making import make_plan
from udogen.clients.scripts.wanted import Wanted
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


def cases(base: Path) -> Iterator[tuple[str, Wanted]]:
    """(name of the golden file, what is asked for)."""
    for name, config, folder in (("plain", PLAIN, "plain"), ("awkward", AWKWARD, AWKWARD_FOLDER)):
        qnn = lay(config, base / folder)
        udo = lay(config, base / f"{folder} udo", layout="snpe", chosen=("cpu", "htp"))
        awkward = name == "awkward"
        (base / "model; rm.xyz").write_bytes(b"model")
        np.save(base / "x.npy", np.arange(4, dtype=np.float32))
        np.save(base / "y.npy", np.arange(4, dtype=np.uint8 if awkward else np.float32))
        for client in (*script.CLIENTS, *script.OTHERS):
            context = client == "cpp" or (client == "qnn-net-run" and awkward)
            runs = client not in ("qnn-context-binary-generator", "litert")
            for device in ("adb", "ssh", "local") if client in script.CLIENTS else ("local",):
                hexagon = device != "local"
                executes = client != "qnn-context-binary-generator"
                several = hexagon and awkward and client in ("cpp", "qnn-net-run")
                yield (
                    f"{client}.{device}.{name}.txt",
                    Wanted(
                        paths=(udo if client.startswith("snpe-") else qnn,),
                        client=client,
                        device=device,
                        target="htp" if client.startswith("snpe-") else "",
                        linux=client == "ort" and device == "adb",
                        model=None if context else base / "model; rm.xyz",
                        context=base / "model; rm.xyz" if context else None,
                        inputs=(("in[0]" if awkward else "input", str(base / "x.npy")),) if executes else (),
                        references=(("out[0]" if awkward else "output", str(base / "y.npy")),) if runs else (),
                        tolerance=(0.125, 0.001) if awkward else None,
                        devices=2 if several else 1,
                        signed=awkward and hexagon and client in ("qnn-net-run", "snpe-net-run"),
                        logcat=awkward and hexagon,
                        prove=device == "adb" and executes and client != "ort",
                        remote="/data/local/tmp/it's here" if awkward and hexagon else "",
                    ),
                )


def text(wanted: Wanted, *, base: Path) -> str:
    """What is written, or why nothing is."""
    graph = GRAPH if ("in[0]", str(base / "x.npy")) in wanted.inputs else PLAIN_GRAPH
    here = "udogen.clients.scripts.making"
    try:
        with (
            patch(f"{here}._graph", lambda *_: graph),
            patch(f"{here}.prepared", lambda path, *_: (path, ())),
            patch(f"{here}.build_client", lambda *_, **__: _program(base)),
        ):
            plan, kept = make_plan(wanted)
    except UdogenError as fault:
        found = "\n".join([f"error: {fault.message}", *(f"  {each}" for each in fault.details), f"  = {fault.hint}"])
        return found.replace(str(base.resolve()), "/BASE").replace(str(base), "/BASE").rstrip() + "\n"
    rendered = write.render(plan, kept)
    write.write(base / "written", rendered)
    rendered = {path: (base / "written" / path).read_bytes() for path in rendered}
    shutil.rmtree(base / "written")
    shown = [f"# {path} ({len(content)} bytes)" for path, content in sorted(rendered.items()) if "/" in path]
    shown += ["", "# device.sh", rendered["device.sh"].decode().rstrip()]
    told = json.loads(rendered["plan.json"])
    del told["socs"]  # the same for all
    for rows in (told["files"], told["vendors"], told["checks"]):
        rows[:] = [_row({key: value for key, value in row.items() if key not in ("key", "size")}) for row in rows]
    shown += ["", "# plan.json", json.dumps(told, indent=1, ensure_ascii=False)]
    for name in ("input_list.txt", "graph.txt", "inputs.json"):
        if name in rendered:
            shown += ["", f"# {name}", rendered[name].decode().rstrip()]
    found = "\n".join(shown).replace(str(base.resolve()), "/BASE").replace(str(base), "/BASE")
    found = re.sub(r"\b[0-9a-f]{32}\b", "CHECKSUM", found)
    return re.sub(r"(\.so'?(?: '[^']*')? [^ ]* CHECKSUM) \d+|(libs/\S+) \(\d+ bytes\)", _no_size, found) + "\n"


def _row(facts: dict[str, object]) -> str:
    """One line instead of many."""
    return ", ".join(f"{key} {value}" for key, value in facts.items() if value not in ("", False))


def _no_size(match: re.Match[str]) -> str:
    return f"{match[1]} BYTES" if match[1] else f"{match[2]} (BYTES bytes)"


def _program(base: Path) -> Path:
    (base / "client").write_bytes(b"client")
    return base / "client"


def goldens(base: Path) -> dict[str, str]:
    """Name of a golden file -> what it holds."""
    return {name: text(wanted, base=base) for name, wanted in cases(base)}


def write_golden() -> None:
    """Write tests/scripts/golden anew."""
    rewrite(GOLDEN, goldens)
