"""The files that `udogen script` writes for every client: a plain package here, an awkward one on a device.

Libraries, models and udogen's client are stand-ins; run.py is left out, because it is the same for all and other tests
run it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np

from tests.clients.laying import AWKWARD, AWKWARD_FOLDER, PLAIN, lay
from tests.making import rewrite
from udogen import UdogenError
from udogen.cli import script
from udogen.clients.scripts.make_plan import ScriptOptions, make_plan
from udogen.clients.scripts.plan import script_files, write_script
from udogen.qnn.system import GraphInfo
from udogen.qnn.tensors import QnnTensor
from udogen.runtime.quantization import ScaleOffset

GOLDEN = Path(__file__).with_name("golden")
GRAPH = GraphInfo(
    "it's a graph",
    (QnnTensor("in[0]", "FLOAT_32", (1, 2, 2, 1), id=1),),
    (QnnTensor("out[0]", "UFIXED_POINT_8", (1, 2, 2, 1), ScaleOffset(0.5, -3), id=7),),
)
PLAIN_GRAPH = GraphInfo(
    "udogen", (QnnTensor("input", "FLOAT_32", (4,), id=1),), (QnnTensor("output", "FLOAT_32", (4,), id=2),)
)


def cases(base: Path) -> Iterator[tuple[str, ScriptOptions]]:
    (base / "model; rm.xyz").write_bytes(b"context")
    (base / "model.so").write_bytes(b"\x7fELF")
    np.save(base / "x.npy", np.arange(4, dtype=np.float32))
    for name, config, folder in (("plain", PLAIN, "plain"), ("awkward", AWKWARD, AWKWARD_FOLDER)):
        qnn = lay(config, base / folder)
        udo = lay(config, base / f"{folder} udo", layout="snpe", chosen=("cpu", "htp"))
        np.save(base / f"{name}.npy", np.arange(4, dtype=np.uint8 if name == "awkward" else np.float32))
        for client in script.CLIENTS:
            package = udo if client.startswith("snpe-") else qnn
            yield f"{client}.{name}", options(base, package, client, awkward=name == "awkward")


def options(base: Path, package: Path, client: str, *, awkward: bool) -> ScriptOptions:
    context = client == "cpp" or (client == "qnn-net-run" and awkward)
    return ScriptOptions(
        paths=(package,),
        client=client,
        on={"cpp": "adb", "qnn-net-run": "ssh:me@board:22", "snpe-net-run": "adb:1"}[client] if awkward else "",
        target="v75" if awkward else "htp",
        model=base / ("model; rm.xyz" if context else "model.so"),
        inputs=(("in[0]" if awkward else "input", str(base / "x.npy")),),
        references=(("out[0]", str(base / "awkward.npy")) if awkward else ("output", str(base / "plain.npy")),),
        tolerance=0.125 if awkward else None,
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
        found = "\n".join(
            [f"error: {fault.message}", *(f"  {detail}" for detail in fault.details), f"  = {fault.hint}"]
        )
        return found.replace(str(base.resolve()), "/BASE").replace(str(base), "/BASE").rstrip() + "\n"
    rendered = script_files(plan, kept)
    write_script(base / "written", rendered)
    rendered = {path: (base / "written" / path).read_bytes() for path in rendered}
    shutil.rmtree(base / "written")
    shown = [f"# {path} ({_size(path, content)})" for path, content in sorted(rendered.items()) if "/" in path]
    shown += ["", "# device.sh", rendered["device.sh"].decode().rstrip()]
    manifest = json.loads(rendered["plan.json"])
    del manifest["socs"]  # the same for all
    manifest["connection"] = json.dumps(manifest["connection"])
    for name in ("files", "vendors", "checks"):
        manifest[name] = [_row(row) for row in manifest[name]]
    shown += ["", "# plan.json", json.dumps(manifest, indent=1, ensure_ascii=False)]
    for name in ("input_list.txt", "graph.txt"):
        if name in rendered:
            shown += ["", f"# {name}", rendered[name].decode().rstrip()]
    found = "\n".join(shown).replace(str(base.resolve()), "/BASE").replace(str(base), "/BASE")
    return found + "\n"


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
    return {f"{name}.txt": text(options, base=base) for name, options in cases(base)}


def write_golden() -> None:
    """Rewrite tests/scripts/golden."""
    rewrite(GOLDEN, goldens)
