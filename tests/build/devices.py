"""HTP packages for devices: generating, building and reading them, for the tests of device builds."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.command_line import udogen
from tests.making import ROOT, make_packages
from udogen import resources
from udogen.backends import architectures
from udogen.build import tools

EXAMPLE = ROOT / "examples" / "leaky_relu"
KERNEL = "src/ops/LeakyRelu.cpp"
LIBRARY = "libQnnLeakyReluPackage.so"
EMPTY = dict.fromkeys(tools.VARIABLES, "")  # hides the variables of the caller's environment
CACHED = {"UDOGEN_LAUNCHER": os.environ.get("UDOGEN_LAUNCHER", "")}  # for builds whose command lines are not checked
ALL = {name: row for name, row in architectures.of_backend("htp").items() if row.open}  # versions in target groups
HEXAGON = [f"htp_{name}" for name in ALL]


# It does not prepare anything: a stand-in for HTP calls it through the first record only.
PLAIN = """#include "ops/LeakyRelu.hpp"

namespace ops::LeakyReluPackage::LeakyRelu {

udo::Status execute(const Args& args) {
  if (args.output.shape() != args.input.shape()) return udo::error("the output must have the shape of the input");
  for (std::size_t i = 0; i < args.input.size(); ++i) {
    const float x = args.input.real(i);
    args.output.setReal(i, x > 0.0f ? x : args.alpha * x);
  }
  return udo::ok;
}

}  // namespace ops::LeakyReluPackage::LeakyRelu
"""


def generated(out: Path) -> Path:
    """Return an HTP package with a finished kernel, in a folder with a blank and a quote in its name."""
    [made] = make_packages([EXAMPLE / "LeakyRelu.xml"], out / "it's here", chosen=["htp"])
    (made.folder / KERNEL).write_text(PLAIN)
    return made.folder


def build(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `udogen build` with these variables only."""
    return udogen("build", "-C", folder, *arguments, env={**EMPTY, **env})


def compiled(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the compiled sources, of any target."""
    return re.findall(r"^\s*(?:\w+: )?CXX (.*)$", done.stderr, re.MULTILINE)


def qhpi() -> set[str]:
    """Return the functions of QHPI."""
    text = (resources.qnn_headers() / "HTP/core/qhpi.h").read_text("utf-8")
    return set(re.findall(r"\b(qhpi_\w+)\(", text))


class Elf:
    """The parts of a library that a loader reads."""

    def __init__(self, path: Path) -> None:
        from elftools.elf.elffile import ELFFile

        self.path = path
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            self.machine, self.kind, self.flags = elf["e_machine"], elf["e_type"], elf["e_flags"]
            self.segments = [(segment["p_type"], segment["p_flags"]) for segment in elf.iter_segments()]
            dynamic: Any = next(elf.iter_segments(type="PT_DYNAMIC"))
            self.needed = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
            self.tags = {tag.entry.d_tag: tag.entry.d_val for tag in dynamic.iter_tags()}
            self.soname = [tag.soname for tag in dynamic.iter_tags("DT_SONAME")]
            symbols = [symbol for symbol in dynamic.iter_symbols() if symbol.name]
            self.undefined = {symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF"}
            self.exported = {symbol.name for symbol in symbols} - self.undefined

    def relocations(self) -> set[int]:
        """Return the types of its relocations."""
        from elftools.elf.elffile import ELFFile

        with self.path.open("rb") as stream:
            dynamic: Any = next(ELFFile(stream).iter_segments(type="PT_DYNAMIC"))
            return {
                relocation["r_info_type"]
                for table in dynamic.get_relocation_tables().values()
                for relocation in table.iter_relocations()
            }
