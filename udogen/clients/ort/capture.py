"""What this process says on stdout and stderr meanwhile: C++ libraries write to the descriptors themselves."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MOST = 1 << 22  # bytes that are kept of it
_one_at_a_time = threading.Lock()  # descriptors belong to the whole process


class Captured:
    """What was said; empty until the end."""

    text = ""


@contextmanager
def captured() -> Iterator[Captured]:
    """Keep what is written to descriptors 1 and 2, instead of showing it."""
    found = Captured()
    with _one_at_a_time, tempfile.TemporaryFile() as kept:
        saved: list[tuple[int, int]] = []
        try:
            for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
                if stream is not None:
                    stream.flush()
                try:
                    saved.append((descriptor, os.dup(descriptor)))
                except OSError:  # it was closed before we began
                    continue
                os.dup2(kept.fileno(), descriptor)
            yield found
        finally:
            for descriptor, before in saved:
                os.dup2(before, descriptor)
                os.close(before)
            size = kept.seek(0, os.SEEK_END)
            kept.seek(max(size - _MOST, 0))
            found.text = kept.read().decode("utf-8", "replace")
