"""ONNX Runtime in a separate process: `ort_cases_child.py CASES.json`; prints the result of each case as JSON.

A case is {"model", "packages", "inputs": FILE.npz, "outputs": FILE.npz to write}, optionally with "backend" (htp),
"provider_options", "entries" of SessionOptions, "again": the same SessionOptions for a second session, and "plain":
ONNX Runtime alone, with the model that `udogen onnx schema` writes.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from tests.hostile.random_graphs import plain_session
from udogen import UdogenError
from udogen.onnx.ort import session


def run(case: dict[str, Any]) -> list[str]:
    """Return the names of the outputs of a case."""
    if case.get("plain"):
        made = plain_session(Path(case["model"]), case["packages"], backend=case["backend"])
        return outputs(case, made)
    options = onnxruntime.SessionOptions()
    for key, value in case.get("entries", {}).items():
        options.add_session_config_entry(key, value)
    for _ in range(2 if case.get("again") else 1):
        made = session(
            case["model"],
            case["packages"],
            backend=case.get("backend", "htp"),
            options=options,
            provider_options=case.get("provider_options"),
        )
        names = outputs(case, made)
    return names


def outputs(case: dict[str, Any], made: Any) -> list[str]:
    """Run a session; write its outputs to a file and return their names."""
    found = made.run(None, dict(np.load(case["inputs"])))
    names = [each.name for each in made.get_outputs()]
    if case.get("outputs"):
        np.savez(case["outputs"], **dict(zip(names, found, strict=True)))
    return names


replies: dict[str, Any] = {}
for name, case in json.loads(Path(sys.argv[1]).read_text()).items():
    try:
        replies[name] = run(case)
    except UdogenError as fault:
        replies[name] = {**fault.as_json(), "type": type(fault).__name__}
    except Exception as fault:  # of ONNX Runtime itself
        replies[name] = {"type": type(fault).__name__, "message": str(fault)}
print("\n" + json.dumps(replies))
