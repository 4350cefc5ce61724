"""Models of Ints through ONNX Runtime: `ort_integers_child.py session|plain BACKEND LIBRARY MODEL…`; prints JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.clients.test_ort_integers import X
from tests.hostile.random_graphs import plain_session
from udogen.errors import UdogenError
from udogen.onnx.ort import session

way, backend, library, *models = sys.argv[1:]
replies: list[Any] = []
for model in models:
    try:
        made = (session if way == "session" else plain_session)(Path(model), [Path(library)], backend=backend)
        replies.append([array.tolist() for array in made.run(None, {"x": X})])
    except UdogenError as fault:
        replies.append(fault.as_json())
    except Exception as fault:  # ONNX Runtime's exceptions have no common class
        replies.append({"message": str(fault)})
print("\nreplies " + json.dumps(replies), flush=True)
