"""Packages for the tests of clients: generated, with empty libraries for the right machine in place of real ones."""

from __future__ import annotations

import shlex
import struct
import subprocess
from functools import cache
from pathlib import Path

from tests.making import ROOT, compiler, make_packages, rewrite
from udogen import UdogenError
from udogen.backends import architectures
from udogen.build.package import open_packages
from udogen.clients import programs
from udogen.clients.client import register
from udogen.clients.package import PackageOptions, find_packages

PLAIN = ROOT / "examples" / "leaky_relu" / "LeakyRelu.xml"
# Legal but misleading names, in a folder that a shell and three languages would misread.
AWKWARD = Path(__file__).with_name("Awkward.xml")
AWKWARD_FOLDER = "it's $HOME \\n here"
GOLDEN = Path(__file__).with_name("golden")
_MACHINES = {"x86": 62, "aarch64": 183, "arm64": 183, "android": 183, "ndk": 183, "hexagon": 164}


@cache
def _empty(folder: str, provider: str) -> bytes:
    """Return a library with no content except the symbol that clients register."""
    source, made = Path(folder, "toy.c"), Path(folder, "toy.so")
    source.write_text(f'extern "C" const char* {provider}() {{ return "UDOGEN_PROVE"; }}\n')  # as built with --prove
    command = [*shlex.split(compiler("g++")), "-x", "c++", "-shared", "-o", str(made), str(source)]
    subprocess.run(command, check=True, timeout=60)
    found = made.read_bytes()
    source.unlink()
    made.unlink()
    return found


def lay(config: Path, out: Path, *, layout: str = "qnn", chosen: tuple[str, ...] = ("htp",)) -> Path:
    """Generate a package, with a stand-in for the library of each of its targets."""
    make_packages([config], out, chosen=chosen, layout=layout)
    for part in open_packages(out):
        image = bytearray(_empty(str(out), part.provider or "SnpeUdo_getRegInfo"))
        for row in part.rows:
            version = architectures.ALL[row.arch].flags if row.arch else 0
            struct.pack_into("<H", image, 18, _MACHINES[row.compiler])
            struct.pack_into("<I", image, 48, version)
            for file in part.artifacts(row):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(image)
    return out


def text(client: str, folder: Path, options: PackageOptions, *, base: Path) -> str:
    """Return the setup for a client, or why it refuses; folders are replaced."""
    try:
        setup = register(programs.ALL[client], find_packages([folder], options))
        found = "\n".join([setup.as_text(), "", *(f"note: {note}" for note in setup.notes)])
    except UdogenError as fault:
        found = "\n".join(
            [f"error: {fault.message}", *(f"  {detail}" for detail in fault.details), f"  = {fault.hint}"]
        )
    return found.replace(str(base.resolve()), "/BASE").replace(str(base), "/BASE").rstrip() + "\n"


def goldens(base: Path) -> dict[str, str]:
    """Return name of a golden file -> content, for two packages and every client."""
    found = {}
    for name, config, folder in (("plain", PLAIN, "plain"), ("awkward", AWKWARD, AWKWARD_FOLDER)):
        qnn = lay(config, base / folder)
        udo = lay(config, base / f"{folder} udo", layout="snpe", chosen=("cpu", "htp"))
        for client in programs.ALL:
            of_snpe = client.startswith("snpe-")
            device = (name == "awkward" or client == "java") and client != "snpe-dlc-quantize"
            options = PackageOptions("v75", "android") if device else PackageOptions()
            found[f"{client}.{name}.txt"] = text(client, udo if of_snpe else qnn, options, base=base)
            if client in ("cpp", "java"):
                options = PackageOptions("v75", "android") if client == "java" else PackageOptions("cpu")
                found[f"{client}.{name}.udo.txt"] = text(client, udo, options, base=base)
    return found


def write_golden() -> None:
    """Rewrite tests/clients/golden."""
    rewrite(GOLDEN, goldens)
