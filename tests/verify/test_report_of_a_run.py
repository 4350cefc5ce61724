"""`udogen test --html` on Qualcomm's CPU runtime: a kernel with a fault, from its test file to the page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from lxml import html

from tests.command_line import udogen
from tests.making import ROOT, need_runtime

_RIGHT = "const std::size_t size = args.input.size();"
_WRONG = "const std::size_t size = args.input.size() / 32 * 32;"  # whole vectors only


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return LeakyRelu with a kernel that skips an incomplete vector."""
    need_runtime("cpu")
    folder = tmp_path_factory.mktemp("faulty") / "leaky_relu"
    shutil.copytree(ROOT / "examples" / "leaky_relu", folder)
    kernel = folder / "kernels" / "LeakyRelu.cpp"
    text = kernel.read_text("utf-8")
    assert text.count(_RIGHT) == 1
    kernel.write_text(text.replace(_RIGHT, _WRONG), "utf-8")
    return folder


def test_a_fault_is_on_the_page(faulty: Path, tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    file, costs = tmp_path / "report.html", tmp_path / "costs.json"
    done = udogen("test", faulty, "--backend", "cpu", "--html", file, "--save-baseline", costs, "--json", env=cache)
    assert done.returncode == 6, done.stderr
    reply = json.loads(done.stdout)
    report = html.parse(file).getroot()
    message = " ".join(" ".join(report.itertext()).split())
    assert "CPU_QTI_AISW" in message and "Qualcomm's own" in message
    causes = {" ".join(each.itertext()) for each in report.xpath("//article/h3")}
    assert causes & {"LeakyRelu on CPU: uninitialised", "LeakyRelu on CPU: unwritten tail"}, causes
    assert report.xpath("//article//h5[text()='Errors by size']")
    rows = report.xpath("//table[contains(@class, 'list')]/tbody/tr")
    cards = report.xpath("//details[@class='case']/div[@class='full']")
    assert len(rows) + len(cards) == len(reply["cases"]), "every case is in it, once"

    again = udogen("test", faulty, "--backend", "cpu", "--html", file, "--compare", costs, env=cache)
    assert again.returncode == 6
    section = html.parse(file).getroot().xpath("//section[@aria-labelledby='compared']")
    assert section and str(costs) in " ".join(section[0].itertext())


@pytest.mark.parametrize("option", ["--html", "--junit", "--save-baseline"])
def test_a_missing_folder_is_an_error_before_anything_runs(option: str, tmp_path: Path) -> None:
    file = tmp_path / "missing" / "report.html"
    done = udogen("test", ROOT / "examples" / "leaky_relu", "--backend", "cpu", option, file)
    message = f"error: cannot write {file}: there is no folder {file.parent}\n  = make it, or choose another\n"
    assert done.returncode == 2 and message in done.stderr
    assert "cases" not in done.stderr and not done.stdout
