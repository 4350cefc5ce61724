"""What is known on the device alone, in words of a command: the folder of the run, the number of the device …

A mark is made of characters that no name of ours has, so that nothing of a path is taken for one.
"""

from __future__ import annotations

import re

from udogen.clients.quoting import shell

RUN = "/\ue000run\ue001"  # an absolute path, as clients want it
OUT = "\ue000out\ue001"
NUMBER = "\ue000number\ue001"
_MARK = re.compile("/?\ue000([a-z]+)\ue001")


def as_shell(word: str) -> str:
    """A word as device.sh writes it: `"$run"/libs/x.so`."""
    parts = _MARK.split(word)
    texts = [shell(part) if part else "" for part in parts[::2]]
    marks = [f'"${name}"' for name in parts[1::2]]
    found = "".join(text + mark for text, mark in zip(texts, [*marks, ""], strict=True))
    return found or "''"


def readable(word: str) -> str:
    """The same for a person: <run>/libs/x.so."""
    return _MARK.sub(lambda match: f"<{match[1]}>", word)
