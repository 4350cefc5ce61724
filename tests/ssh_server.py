"""An ssh server of Debian's openssh-server on a port of the loopback, with its own keys: a machine to connect to."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_SERVER = Path("/usr/sbin/sshd")


@dataclass(frozen=True)
class SshServer:
    """A running server, and the `ssh` to put first on PATH, which has its keys."""

    folder: Path
    port: int

    @property
    def host(self) -> str:
        """The user and the host name."""
        return f"{getpass.getuser()}@127.0.0.1"

    @property
    def device(self) -> str:
        """The device in the form of `--on`."""
        return f"ssh:{self.host}:{self.port}"

    @property
    def path(self) -> str:
        """PATH with its ssh first."""
        return f"{self.folder / 'bin'}:{os.environ['PATH']}"

    @property
    def config(self) -> Path:
        """The configuration file of its ssh."""
        return self.folder / "ssh_config"


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Run the server until the end of the block; skip the test if it is not available."""
    if not _SERVER.is_file() or shutil.which("ssh") is None:
        pytest.skip("openssh-server is not installed: apt-get install openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # without it a server of root does not start
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = SshServer(folder, probe.getsockname()[1])
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    config = folder / "sshd_config"
    # A shell of level 1 that ssh starts would read ~/.bashrc, which may take longer than the test.
    config.write_text(
        f"Port {server.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nStrictModes no\n"
        f"UsePAM no\nPasswordAuthentication no\nAuthorizedKeysFile {folder}/client.pub\nAcceptEnv XDG_* PYTHON*\n"
        "SetEnv SHLVL=2\n"
    )
    server.config.write_text(
        f"Host *\nIdentityFile {folder}/client\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
        "StrictHostKeyChecking no\nLogLevel ERROR\n"
    )
    program = folder / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {shlex.quote(str(server.config))} "$@"\n')
    program.chmod(0o755)
    running = subprocess.Popen([_SERVER, "-D", "-f", config, "-E", folder / "log"], stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while True:
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", server.port)) == 0:
                    break
            assert running.poll() is None and time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.05)
        yield server
    finally:
        running.terminate()
        running.wait()
