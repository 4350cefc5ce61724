"""ONNX Runtime in a separate process: `ort_context_child.py CASES.json`; prints the result of each case as JSON.

A case is {"model", "packages", "inputs": FILE.npz}; its outputs are written to {"outputs"}.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from udogen.errors import UdogenError
from udogen.onnx.ort import session

replies: dict[str, Any] = {}
for name, case in json.loads(Path(sys.argv[1]).read_text()).items():
    try:
        made = session(case["model"], case["packages"], backend="htp", prove=bool(case["packages"]))
        found = made.run(None, dict(np.load(case["inputs"])))
        if case["packages"]:
            made.check()
        np.savez(case["outputs"], **{each.name: array for each, array in zip(made.get_outputs(), found, strict=True)})
        replies[name] = [each.name for each in made.get_outputs()]
        del made
    except UdogenError as fault:
        replies[name] = {**fault.as_json(), "type": type(fault).__name__}
print(json.dumps(replies))
