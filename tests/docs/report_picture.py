"""The picture of docs/test.md: the HTML report of a Softmax whose kernel ignores its parameter `axis`.

`python -m tests.docs.report_picture` takes the picture, in Chromium.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
from pathlib import Path

from tests.making import ROOT, udogen
from tests.verify.browser import browser

PICTURE = ROOT / "docs" / "pictures" / "report.png"
_OPTIONS = ("test", "--backend", "cpu", "--case", "*axis=-2*", "--html", "report.html")
_AXIS = ("args.axis < 0 ? args.axis + rank : args.axis;", "rank - 1;")
_WIDTH = 900
_END = """[...document.querySelectorAll("*")].find((each) =>
  each.children.length == 0 && each.textContent.startsWith("Error distribution")).getBoundingClientRect().top"""


def take() -> tuple[str, bytes]:
    """Return the report's text, and its upper part as PNG: the cause, and the wrong outputs."""
    with tempfile.TemporaryDirectory() as folder:
        example = Path(shutil.copytree(ROOT / "examples" / "softmax", Path(folder) / "softmax"))
        kernel = example / "kernels" / "any_axis" / "Softmax.cpp"
        right = kernel.read_text("utf-8")
        assert _AXIS[0] in right
        kernel.write_text(right.replace(*_AXIS), "utf-8")
        done = udogen(*_OPTIONS, cwd=example)
        assert done.returncode == 6, done.stderr
        with browser() as page:
            page.open(example / "report.html", width=_WIDTH)
            part = {"x": 0, "y": 0, "width": _WIDTH, "height": int(page.evaluate(_END)) - 12, "scale": 1}
            shot = page.call("Page.captureScreenshot", captureBeyondViewport=True, format="png", clip=part)
            return page.evaluate("document.body.innerText"), base64.b64decode(shot["data"])


if __name__ == "__main__":
    PICTURE.write_bytes(take()[1])
