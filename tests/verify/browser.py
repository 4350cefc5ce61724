"""Headless Chromium, driven by its DevTools protocol over two pipes, with the standard library only."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE = 60.0
# Chromium reads commands from descriptor 3, and writes replies to 4; here the descriptors are arbitrary, even 3 and 4.
_AS_3_AND_4 = """
import os, sys
read, write = (os.dup(os.dup(os.dup(int(each)))) for each in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def chromium() -> str:
    """Return the browser; skip the test if there is none.  Ubuntu's is a script that requires a snap."""
    for name in _NAMES:
        found = shutil.which(name)
        if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    pytest.skip(f"no {_NAMES[0]} is installed")


class Page:
    """One tab."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._number, self._rest, self._session = 0, b"", ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its reply."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._read()
            if reply.get("id") == self._number:
                assert "error" not in reply, (method, reply["error"])
                return reply["result"]

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(until - time.monotonic(), 0))
            assert ready, "the browser does not respond"
            piece = os.read(self._from, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def open(self, file: Path, *, width: int, dark: bool = False) -> None:
        """Show a file in a window of this width, in light or dark mode."""
        self.look(width=width, dark=dark)
        self.call("Page.navigate", url=file.resolve().as_uri())
        until = time.monotonic() + _PATIENCE
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.href") == "about:blank":
            assert time.monotonic() < until, "the page does not open"
            time.sleep(0.02)

    def look(self, *, width: int, dark: bool) -> None:
        """Change the width and the colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        reply = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")


@contextmanager
def browser(flags: Sequence[str] = ()) -> Iterator[Page]:
    """Start a browser with a separate profile, and yield its only page."""
    own, its = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        argv = [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        argv += ["--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", f"--user-data-dir={profile}", *flags]
        given = [sys.executable, "-c", _AS_3_AND_4, str(own[0]), str(its[1]), *argv]
        started = subprocess.Popen(
            given, pass_fds=(own[0], its[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(own[0])
        os.close(its[1])
        try:
            yield Page(own[1], its[0])
        finally:
            os.close(own[1])  # the browser exits at the end of its commands
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
            os.close(its[0])
