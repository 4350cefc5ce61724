"""Runs the model: a prompt through prefill_forward, then token by token through kv_forward; compared with numpy.

run.py DIR [--prompt 25,45,15] [--tokens 8] [--memory shared|raw] [--sessions 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from model import Model as NumpyModel
from model import mask, padded, rounded
from network import Sizes

from udogen import Model, UdogenError

DEVICE = "SM8650"  # the SoC of each device of the emulator


def generate(model: Model, numpy_model: NumpyModel, prompt: list[int], count: int) -> list[int]:
    """The most likely tokens after a prompt."""
    model.reset()
    tokens, position, row, made = padded(numpy_model.sizes, prompt), 0, len(prompt) - 1, list[int]()
    for _ in range(count):
        hidden, visible = numpy_model.embed(tokens, position), mask(numpy_model.sizes, len(tokens), position)
        logits = model.step(hidden=hidden, mask=visible, position=position)["logits"]
        made.append(int(logits[0, row].argmax()))
        tokens, position, row = made[-1:], position + row + 1, 0
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="what build.py has made")
    parser.add_argument("--prompt", default="25,45,15,35,41,27", help="numbers of tokens, with commas")
    parser.add_argument("--tokens", type=int, default=8, help="how many to generate")
    parser.add_argument("--memory", choices=("shared", "raw"), help="of inputs and outputs")
    parser.add_argument("--sessions", type=int, default=1, help="place the shards on so many sessions")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    numpy_model = rounded(Sizes(**json.loads((given.folder / "sizes.json").read_text("utf-8"))))
    prompt = [int(word) for word in given.prompt.split(",")]
    os.environ.setdefault("UDOGEN_HTP_DEVICES", ",".join([DEVICE] * given.sessions))
    with Model.open(given.folder, memory=given.memory, sessions=given.sessions) as model:
        made, expected = generate(model, numpy_model, prompt, given.tokens), numpy_model.generate(prompt, given.tokens)
        report = {
            "runtime": f"{model.runtime.name} ({model.runtime.build_id})",
            "plan": model.session_plan.as_json(),
            "memory": model.memory.as_json(),
            "tokens": made,
            "numpy": expected,
            "copied": model.copied,
        }
        lines = [report["runtime"], str(model.session_plan), "", str(model.memory), "", f"copied: {model.copied} bytes"]
    lines += [f"tokens: {made}", "those of the numpy model" if made == expected else f"numpy has {expected}"]
    print(json.dumps(report) if given.json else "\n".join(map(str, lines)))
    return 0 if made == expected else 6


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UdogenError as fault:
        print(f"error: {fault}", file=sys.stderr)
        sys.exit(fault.exit_code)
