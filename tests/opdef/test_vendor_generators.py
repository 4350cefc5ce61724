"""Configs that Qualcomm's generators accept: the rules of `udogen check --vendor`, and generators of a private SDK."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from tests import vendor_generators
from tests.command_line import udogen
from tests.making import CORPUS
from tests.opdef.texts import collection
from udogen.configs import json_write, vendor, xml_write
from udogen.configs.load import load
from udogen.errors import UdogenError
from udogen.opdef.datatypes import BACKEND_SPECIFIC, BY_NAME, DataType
from udogen.opdef.model import Op, OpPackage, OpSupplement, Rank, Supplement, Tensor, TensorSupplement, Value
from udogen.opdef.problems import Problems

ROOT = Path(__file__).parents[2]
RANDOM = int(os.environ.get("UDOGEN_VENDOR_RANDOM", "25"))  # packages, each in XML and JSON
_Choice = TypeVar("_Choice")

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
    found = vendor.verdict(plain().replace(old, new).encode(), "a.xml")
    assert not found.takes
    assert message in " ".join(each.message for each in found.refusals)


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
        ours = vendor.verdict(path.read_bytes(), each.config)
        if each.accepted:
            takes[path].add(each.tool)
        if each.accepted != (each.tool in ours.takes):
            wrong.append(f"{path.read_text()}\n{each.tool}: {each.message}\n{ours}")
    assert not wrong, "\n".join(wrong[:3])
    return takes


def test_the_rules_say_what_the_generators_do_with_every_config() -> None:
    taken = agree(configs())
    assert sum(map(bool, taken.values())) > 25


def test_the_rules_say_what_the_generators_do_with_what_is_written(tmp_path: Path) -> None:
    paths = []
    for number in range(RANDOM):
        package = random_package(Random(number))
        for suffix, text in (
            ("xml", xml_write.write(package, Problems())),
            ("json", json_write.write([package], Problems())),
        ):
            path = tmp_path / f"{number}.{suffix}"
            path.write_text(text)
            paths.append(path)
    assert sum(map(bool, agree(paths).values())) > RANDOM // 2


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


def random_package(random: Random) -> OpPackage:
    """Return a typical package that rarely has a feature that the generators refuse."""
    choices = (("CPU",), ("CPU",), ("HTP",), ("HTP",), ("GPU",), ("DSP",), ("CPU", "DSP"), ("CPU", "HTP"))
    backends = random.choice(choices)
    archs = random.choice([(), ("v68",), ("v68", "v73"), ("v65", "v68")]) if "DSP" in backends else ()
    ops = tuple(
        Op(
            name,
            (_tensor(random, "input", "in[0]"),),
            (_tensor(random, "output", "out[0]"),),
            tuple(_tensor(random, "param", each) for each in ("alpha", "axis")[: random.randrange(3)]),
            backends=backends,
            dsp_archs=archs,
        )
        for name in ("Scale", "Shift")[: random.randint(1, 2)]
    )
    supplements = []
    for backend in backends if random.random() < 0.7 else ():
        entries = {op.name: tuple(_entry(random, each) for each in op.tensors if each.backend_specific) for op in ops}
        listed = tuple(OpSupplement(name, found) for name, found in entries.items() if found)
        supplements.append(Supplement(backend, listed, supported=("Scale",)))
    return OpPackage("Pack", ops, domain="aisw", version="1.0.0", supplements=tuple(supplements))


def _tensor(random: Random, role: str, name: str) -> Tensor:
    scalar = role == "param" and random.random() < 0.8
    types = ["FLOAT_32"] * 8 + ["UINT_32", "INT_32", "BOOL_8", "UFIXED_POINT_8", "STRING", "INT_64"]
    datatypes: tuple[DataType, ...] = (BY_NAME[random.choice(types)],)
    if not scalar and random.random() < 0.2:
        datatypes = (BACKEND_SPECIFIC,)
    default: Value | None = None
    if role == "param" and random.random() < 0.4:
        default = _rarely(random, 1 if scalar else (1, 2), 1.5)
    return Tensor(
        name,
        role,
        datatypes,
        Rank(scalar=True) if scalar else random.choice([Rank((4,)), Rank(), Rank((1,))]),
        layout="" if scalar else _rarely(random, "", random.choice(["NHWC", "NCHW", "NONTRIVIAL"])),
        mandatory=default is None and _rarely(random, True, False),
        default=default,
        repeated=role != "param" and _rarely(random, False, True),
        enum=("A", "B") if scalar and datatypes == (BY_NAME["UINT_32"],) else (),
    )


def _rarely(random: Random, usual: _Choice, other: _Choice) -> _Choice:
    return other if random.random() < 0.08 else usual


def _entry(random: Random, tensor: Tensor) -> TensorSupplement:
    datatype = BY_NAME[random.choice(["FLOAT_32", "UFIXED_POINT_8", "UINT_8"])]
    entry = TensorSupplement(tensor.name, tensor.role, (datatype,))
    return replace(entry, layouts=_rarely(random, (), ("NHWC",)))
