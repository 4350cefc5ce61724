"""Configs that Qualcomm's generators accept: the rules of `udogen check --vendor`, and generators of a private SDK."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import vendor_generators
from tests.command_line import udogen
from tests.making import CORPUS
from tests.opdef.texts import collection
from udogen import UdogenError
from udogen.configs import vendor
from udogen.configs.load import load

ROOT = Path(__file__).parents[2]

REFUSED = (
    ("<Description></Description>", "", "<OpDef> has no <Description>"),
    ("<Description></Description>", "<Description>x</Description>", "contains only <Content> and <Code>"),
    ("<Mandatory>", '<Constraint id="0" Type="Size">x</Constraint><Mandatory>', "Type of a <Constraint> is `Size`"),
    ("<Rank>ND</Rank>", "<Rank>1D or 4D</Rank>", "<Rank> is `1D or 4D`"),
    ("<Rank>ND</Rank>", "<Rank>ND</Rank><Layout>NCHW</Layout>", "<Layout> is `NCHW`"),
    ("FLOAT_32", "FLOAT_64", "<Datatype> is `FLOAT_64`"),
    ("FLOAT_32", "BACKEND_SPECIFIC", "no supplement for CPU defines it"),
    ('Version="1.0"', 'Version="1.0" UseQHPI="true"', "the attribute `UseQHPI`"),
    ("CPU<", "LPAI<", "the backend LPAI"),
    ("CPU<", "CPU</SupportedBackend><SupportedBackend>HTP<", "accepts one backend"),
)


def plain() -> str:
    """Return a config of one op that both generators accept."""
    return collection().replace("</Name>", "</Name><Description></Description>", 1)


@pytest.mark.parametrize(("old", "new", "message"), REFUSED)
def test_what_is_refused_is_named(old: str, new: str, message: str) -> None:
    assert old in plain(), plain()
    refused = vendor.refusals(plain().replace(old, new).encode(), "a.xml")
    assert all(refused.values())
    assert message in " ".join(reason.message for reason in next(iter(refused.values())))


def test_the_command(tmp_path: Path) -> None:
    config = tmp_path / "a.xml"
    config.write_text(plain())
    both = "qnn-op-package-generator and snpe-udo-package-generator of"
    assert both in udogen("check", "--vendor", config).stdout
    config.write_text(collection())
    made = udogen("check", "--vendor", config)
    assert made.returncode == 2
    assert "<OpDef> has no <Description>" in made.stderr
    assert "a.xml:" in made.stderr


# --- the generators themselves ----------------------------------------------------------------------------


def configs() -> list[Path]:
    """Return the configs that udogen accepts: of the repository, the copy, and the folders in UDOGEN_VENDOR_CONFIGS."""
    others = [Path(each) for each in os.environ.get("UDOGEN_VENDOR_CONFIGS", "").split(":") if each]
    folders = [ROOT / "tests", ROOT / "examples", CORPUS, vendor_generators.sdk() / "examples", *others]
    found = [each for folder in folders for each in folder.rglob("*.[xj][ms][lo]*")]
    texts = {each.read_bytes(): each for each in found if each.is_file() and each.suffix in (".xml", ".json")}
    marks = (b"OpDefCollection", b"UDO_PACKAGE_NAME")
    return [each for text, each in texts.items() if any(mark in text for mark in marks) and _is_accepted(each)]


def _is_accepted(path: Path) -> bool:
    try:
        load([path])
    except UdogenError:
        return False
    return True


def agree(paths: list[Path]) -> dict[Path, set[str]]:
    """Return the generators that accept each config, after checking that the rules name the same ones."""
    root = vendor_generators.sdk()
    takes: dict[Path, set[str]] = {path: set() for path in paths}
    wrong: list[str] = []
    for each in vendor_generators.run(root, [(tool, path) for path in paths for tool in vendor_generators.tools(root)]):
        path = Path(each.config)
        ours = vendor.refusals(path.read_bytes(), each.config)
        if each.accepted:
            takes[path].add(each.tool)
        if each.accepted == bool(ours[each.tool]):
            wrong.append(f"{path.read_text()}\n{each.tool}: {each.message}\n{ours}")
    assert not wrong, "\n".join(wrong[:3])
    return takes


def test_the_rules_say_what_the_generators_do_with_every_config() -> None:
    taken = agree(configs())
    assert sum(map(bool, taken.values())) > 25


def test_what_the_commands_write_is_taken(tmp_path: Path) -> None:
    """Also conversions of the SDK's own JSON, there and back."""
    root = vendor_generators.sdk()
    paths = []
    samples = root.glob("examples/SNPE/NativeCpp/UdoExample/*/config/*.json")
    taken = [each for each in samples if each.name != "Conv2DQuant.json"]  # its layout ends the SDK's own generator
    for sample in (*taken, ROOT / "examples/softmax/Softmax_Htp.json"):
        xml = tmp_path / f"{len(paths)}.xml"
        assert not udogen("convert", sample, "--to", "xml", "-o", xml).returncode
        assert not udogen("convert", xml, "--to", "json", "-o", xml.with_suffix(".json")).returncode
        paths += [xml, xml.with_suffix(".json")]
    for backend in ("cpu", "gpu", "htp", "dsp"):
        flags = ("--input", "x:FLOAT_32:4D", "--output", "y:FLOAT_32:4D", "--param", "by:FLOAT_32=2")
        assert not udogen("new", tmp_path / backend, *flags, "--backend", backend).returncode
        paths += (tmp_path / backend).glob("*.xml")
    assert all(agree(paths).values())


def test_a_config_that_one_generator_refuses_is_written_with_a_warning(tmp_path: Path) -> None:
    softmax = ROOT / "examples/softmax/Softmax_Htp.json"
    for flags, refused in (((), True), (("--backend", "cpu"), False)):
        done = udogen("convert", softmax, "--to", "xml", *flags, "-o", tmp_path / f"{len(flags)}.xml")
        assert done.returncode == 0
        assert ("qnn-op-package-generator of Qualcomm's release 2.25 would refuse" in done.stderr) is refused, (
            done.stderr
        )
    assert "--backend NAME" in udogen("convert", softmax, "--to", "xml").stderr
