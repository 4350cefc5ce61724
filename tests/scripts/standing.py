"""Stand-ins for devices: `adb` and `ssh` on PATH that execute commands for a device here, in a clean environment.

They behave like the real programs, by their documentation: `adb shell` joins its words with blanks and passes them to a
shell of the device, `push` and `pull` do not; `ssh` joins its words, too.  They never had a real device.  The
properties of the device come from programs on its own PATH (`getprop`, `uname`).
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.making import LONG

_ADB = r"""#!/bin/sh
printf '%s\n' "$*" >>'{log}'
if [ "$1" = -s ]; then [ "$2" = '{serial}' ] || { echo "error: device '$2' not found" >&2; exit 1; }; shift 2; fi
case $1 in
  shell) [ -f '{state}' ] && { cat '{state}' >&2; exit 1; }; shift; {run} "$*"
    code=$?; [ -f '{old}' ] && exit 0; exit $code ;;
  push) [ -f '{full}' ] && { echo "adb: error: failed to copy: No space left on device" >&2; exit 1; }
    cp "$2" "$3" && echo "$2: 1 file pushed" ;;
  pull) cp -R "$2" "$3" ;;
  *) echo "adb: unknown command $1" >&2; exit 1 ;;
esac
"""
_SSH = r"""#!/bin/sh
printf '%s\n' "$*" >>'{log}'
while [ $# -gt 0 ]; do
  case $1 in -o | -p | -i) shift 2 ;; *) break ;; esac
done
[ "$1" = user@board ] || { echo "ssh: Could not resolve hostname $1: Name or service not known" >&2; exit 255; }
shift
{run} "$*"
"""
# A pushed program of aarch64 is replaced by a script that runs it in qemu.
_MV = r"""#!/bin/sh
/usr/bin/mv "$@" && readelf -lW "$3" 2>/dev/null | grep -q ld-linux-aarch64 || exit 0
/usr/bin/mv "$3" "$3.elf" && printf '#!/bin/sh\nexec {qemu} "$(readlink -f "$0").elf" "$@"\n' >"$3" && chmod 755 "$3"
"""


@dataclass
class Device:
    """A folder that represents a device, and the programs that connect to it."""

    base: Path
    machine: str = "aarch64"
    qemu: str = ""  # the command that runs its programs
    props: Mapping[str, str] = field(default_factory=lambda: {"ro.soc.model": "SM8550"})

    def __post_init__(self) -> None:
        own, ours = self.base / "own bin", self.base / "bin"
        for folder in (own, ours, self.root.parent):
            folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"  {name}) echo {shlex.quote(value)} ;;\n" for name, value in self.props.items())
        _program(own / "getprop", f"#!/bin/sh\ncase $1 in\n{lines}  *) echo ;;\nesac\n")
        _program(own / "uname", f'#!/bin/sh\n[ "$1" = -m ] && echo {self.machine} || /usr/bin/uname "$@"\n')
        if self.qemu:
            _program(own / "mv", _MV.replace("{qemu}", self.qemu))
        # Commands for the device run without this machine's environment.
        run = f"env -i HOME=/ PATH={shlex.quote(str(own))}:/usr/bin:/bin sh -c"
        marks = {"run": run, "serial": "ABC 1"}
        marks |= {each: str(self.base / each).replace("'", "'\\''") for each in ("log", "state", "old", "full")}
        for name, template in (("adb", _ADB), ("ssh", _SSH)):
            _program(ours / name, re.sub(r"\{([a-z]+)\}", lambda match: marks[match[1]], template))

    @property
    def root(self) -> Path:
        """The target folder, with a name that two shells could misread."""
        return self.base / "data" / "it's $HOME & a"

    @property
    def calls(self) -> list[str]:
        """The recorded calls of adb and ssh."""
        return (self.base / "log").read_text().splitlines()

    def say(self, what: str, text: str = "") -> None:
        """Set adb's behaviour: `state` (why it is not reached), `old` (no exit codes), `full` (disk full)."""
        (self.base / what).write_text(text)

    def own(self, name: str, text: str) -> None:
        """Add a program to the device."""
        _program(self.base / "own bin" / name, text)

    def run(self, script: Path, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
        """Run run.py with this device."""
        return run(script, *arguments, path=self.base / "bin", **{"UDOGEN_REMOTE": str(self.root), **env})


def run(script: Path, *arguments: object, path: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """Run run.py with this Python, which is the first on PATH."""
    return subprocess.run(
        called(script, *arguments),
        env=environment(path, **env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
    )


def called(script: Path, *arguments: object) -> list[str]:
    """Return the command line of a script, with its interpreter."""
    return [sys.executable, str(script), *map(str, arguments)]


def interrupt(script: Path, *arguments: object, client: Path, path: Path | None = None, **env: str) -> None:
    """Send Ctrl-C once the client has written its process id to the file `client`: all of it ends, with a message."""
    running = subprocess.Popen(
        called(script, *arguments), env=environment(path, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        began = time.monotonic()
        while not (client.exists() and client.read_text().strip()):
            assert time.monotonic() - began < 60
            time.sleep(0.05)
        os.kill(running.pid, signal.SIGINT)
        _, message = running.communicate(timeout=30)
    finally:
        running.kill()
    assert running.returncode == 130, message
    assert "interrupted: the client is stopped" in message
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # until it is reaped
            os.kill(int(client.read_text()), 0)
            time.sleep(0.05)


def environment(path: Path | None, **env: str) -> dict[str, str]:
    """Return the environment of a script."""
    folders = [*([str(path)] if path else []), str(Path(sys.executable).parent), "/usr/bin", "/bin"]
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME") if name in os.environ}
    return {**kept, "PATH": ":".join(folders), **env}


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def command_lines() -> list[str]:
    """Return the command lines of all processes."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:  # it has just ended
            continue
    return lines
