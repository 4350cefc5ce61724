"""The picture of the README: the output of `udogen test` for a kernel that forgets the last elements."""

from __future__ import annotations

import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from tests.making import ROOT, at_terminal

PICTURE = ROOT / "docs" / "pictures" / "wrong.svg"
COMMAND = "udogen test --backend cpu --case edge"
_WIDTH = 80
_LOOP = ("i < size; ++i) out[i] = T(", "i < size / 4 * 4; ++i) out[i] = T(")  # whole vectors of four, and no remainder


def transcript() -> str:
    """Return the text that a terminal receives, with colours."""
    with tempfile.TemporaryDirectory() as folder:
        example = Path(shutil.copytree(ROOT / "examples" / "leaky_relu", Path(folder) / "leaky_relu"))
        kernel = example / "kernels" / "LeakyRelu.cpp"
        right = kernel.read_text("utf-8")
        assert _LOOP[0] in right
        kernel.write_text(right.replace(*_LOOP), "utf-8")
        program = ["env", "-C", str(example), sys.executable, "-m", *COMMAND.split()]
        _, text = at_terminal(program, COLUMNS=str(_WIDTH))
    shown = re.search(r"\x1b\[31mWRONG.*", text, re.DOTALL)  # the progress is above it
    assert shown, text
    return re.sub(r" in [\d.]+ s\b", "", shown[0])


def draw(text: str) -> str:
    """Return it as an SVG document, with the fonts of the reader's machine."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ ") + Text(COMMAND, style="bold"))
    console.print(Text.from_ansi(text.replace("\r\n", "\n").strip("\n")))
    console.print()  # otherwise the last line would be clipped
    form = re.sub(r"@font-face \{\{.*?\n    \}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")
    return console.export_svg(title="a kernel that forgets the last elements", code_format=form, unique_id="terminal")


def words(picture: str) -> list[str]:
    """Return the words in a picture, with numbers masked."""
    return re.sub(r"\d[-\d.e+]*", "N", " ".join(re.findall(r"<text[^>]*>([^<]*)<", picture))).split()


def write() -> None:
    """Redraw the picture."""
    PICTURE.write_text(draw(transcript()), "utf-8")
