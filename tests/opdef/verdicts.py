"""Configs with random changes: `check`, `generate` and `convert` must agree about each.

    python -m tests.opdef.verdicts [COUNT [SEED]]

Takes the configs of the repository (and of a corpus beside it), changes a few places of each, and asks: does `check`
accept what `generate` accepts, and is what `convert` writes accepted again?
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from tests.making import CORPUS, ROOT
from udogen.cli.main import cli
from udogen.errors import UdogenError

_FOLDERS = ("tests/configs", "tests/golden/configs", "tests/opdef/habits", "examples")
_TYPES = (
    "FLOAT_16", "FLOAT_32", "FLOAT_64", "UINT_8", "UINT_16", "UINT_32", "UINT_64", "INT_64", "FIXED_4", "FIXED_8",
    "SFIXED_POINT_16", "BOOL_8", "STRING", "BACKEND_SPECIFIC", "ALL_VALID",
)  # fmt: skip
_JSON_CORES = ('["CPU"]', '["GPU"]', '["DSP"]', '["HTP"]', '["CPU", "DSP"]', "[]", '"DSP"', '["AIC"]')
_XML_BACKENDS = ("CPU", "GPU", "HTP", "DSP", "DSP_V66", "DSP_V68", "DSP_V99", "AIC", "LPAI", "HTP_FP16", "")
_LAYOUTS = ("NHWC", "NCHW", "NHCW", "NDHWC", "NONTRIVIAL", "BACKEND_SPECIFIC", "")
_RANKS = ("SCALAR", "0D", "1D", "4D", "5D", "ND", "1D or 4D", "9D", "none")
_VALUES = ("true", "false", "0", "1", "-1", "2.5", "[1, 2]", "[[1], [2, 3]]", "N-1", "1e40", "nan", "inf", '"', "")
_KEYS = ("tensor_layout", "static", "repeated", "default_value", "data_type", "quantization_mode", "unknown")


@dataclass(frozen=True)
class Verdict:
    """The exit codes of the verbs, for one config."""

    text: str
    name: str
    check: int
    generate: int
    converted: int | None  # of `convert` to the other language; None where `check` refuses the config
    again: int | None  # of `check` of what it wrote
    said: str

    @property
    def agree(self) -> bool:
        """Whether the verbs say the same, and none of them breaks."""
        return (self.check == 0) == (self.generate == 0) and self.again in (None, 0) and self.sane

    @property
    def sane(self) -> bool:
        """Only the codes of a config: 0 and 2."""
        return all(code in (None, 0, 2) for code in (self.check, self.generate, self.converted, self.again))


def configs() -> list[Path]:
    """The configs that are changed."""
    folders = [ROOT / each for each in _FOLDERS] + ([CORPUS] if CORPUS.is_dir() else [])
    found = [path for folder in folders for ending in ("*.xml", "*.json") for path in sorted(folder.rglob(ending))]
    return [path for path in found if b"OpDef" in path.read_bytes() or b"Operators" in path.read_bytes()]


def changed(text: str, dice: random.Random, *, xml: bool) -> str:
    """The text with one to three changes that a person could make."""
    for _ in range(dice.randint(1, 3)):
        text = _changed_xml(text, dice) if xml else _changed_json(text, dice)
    return text


def _changed_xml(text: str, dice: random.Random) -> str:
    tags = {
        "Datatype": _TYPES, "Rank": _RANKS, "Layout": _LAYOUTS, "Default": _VALUES, "Mandatory": ("true", "false", "x"),
        "SupportedBackend": _XML_BACKENDS, "Repeated": ("true", "false"), "IsStaticTensor": ("true", "false"),
    }  # fmt: skip
    kind = dice.randrange(4)
    tag = dice.choice(list(tags))
    value = dice.choice(tags[tag]).replace('"', "&quot;")
    if kind == 0:
        return _at_random(rf"<{tag}>[^<]*</{tag}>", f"<{tag}>{value}</{tag}>", text, dice)
    if kind == 1:
        return _at_random(rf"<{tag}>[^<]*</{tag}>", "", text, dice)
    if kind == 2:
        end = dice.choice(("</Input>", "</Output>", "</Parameter>", "</OpDef>"))
        return _at_random(end, f"<{tag}>{value}</{tag}>{end}", text, dice)
    listed = re.search(r"<OpDef>\s*<Name>([^<]*)</Name>", text)
    name, backend = (listed[1] if listed else "x"), dice.choice(_XML_BACKENDS)
    more = (
        f"<SupportedOps><OpName>{name}</OpName></SupportedOps>"
        if dice.random() < 0.5
        else f"<SupplementalOpDef><Name>{name}</Name></SupplementalOpDef>"
    )
    added = f'<SupplementalOpDefList Backend="{backend}">{more}</SupplementalOpDefList></OpDefCollection>'
    return text.replace("</OpDefCollection>", added)


def _changed_json(text: str, dice: random.Random) -> str:
    kind = dice.randrange(4)
    if kind == 0:
        return _at_random(r'"core_types":\s*\[[^\]]*\]', f'"core_types": {dice.choice(_JSON_CORES)}', text, dice)
    if kind == 1:
        return _at_random(r'"(U?INT|FLOAT|FIXED)_\d+"', f'"{dice.choice(_TYPES)}"', text, dice)
    if kind == 2:
        value = dice.choice([each for each in _VALUES if each not in ("N-1", "nan", "inf", '"', "")] + ['"NHWC"', '""'])
        return _at_random(r'"name":', f'"{dice.choice(_KEYS)}": {value}, "name":', text, dice)
    archs = dice.choice(('["v66"]', '["v68"]', '["v66", "v73"]', "[]", '["v99"]'))
    return _at_random(r'"core_types":', f'"dsp_arch_types": {archs}, "core_types":', text, dice)


def _at_random(pattern: str, new: str, text: str, dice: random.Random) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    at = dice.choice(found)
    return text[: at.start()] + new + text[at.end() :]


def verdict(text: str, name: str, folder: Path) -> Verdict:
    """What the verbs say of a config."""
    path = folder / name
    path.write_text(text)
    check, generate = _run("check", str(path)), _run("generate", str(path), "-o", str(folder / "out"), "--dry-run")
    converted = again = None
    said = check[1] + generate[1]
    if not check[0]:
        other = folder / f"converted.{'json' if path.suffix == '.xml' else 'xml'}"
        other.unlink(missing_ok=True)
        converted, more = _run("convert", str(path), "--to", other.suffix[1:], "-o", str(other))
        said += more
        if not converted:
            again, more = _run("check", str(other), "--layout", "snpe")
            said += more
    return Verdict(text, name, check[0], generate[0], converted, again, said)


def _run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(arguments))
    if isinstance(done.exception, UdogenError):
        told = [getattr(each, "message", str(each)) for each in getattr(done.exception, "problems", ())]
        return done.exception.exit_code, "\n".join([f"$ {arguments[0]}", str(done.exception), *told, ""])
    return done.exit_code, f"$ {arguments[0]}\n{done.output}{done.exception or ''!r}\n"


def verdicts(count: int, seed: int, folder: Path, sources: Sequence[Path] = ()) -> Iterator[Verdict]:
    """So many verdicts; the first ones of the configs as they are."""
    dice = random.Random(seed)
    every = list(sources) or configs()
    for number in range(count):
        path = every[number] if number < len(every) else dice.choice(every)
        text = path.read_text("utf-8")
        if number >= len(every):
            text = changed(text, dice, xml=path.suffix == ".xml")
        yield verdict(text, path.name, folder)


def main() -> None:
    """Print what was found, and the configs of which the verbs disagree."""
    numbers = [each for each in sys.argv[1:] if each.isdecimal()]
    count, seed = (int(each) for each in numbers + ["1000", "1"][len(numbers) :])
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for each in verdicts(count, seed, Path(folder)):
            kinds[f"check {each.check}, generate {each.generate}, convert {each.converted}, {each.again}"] += 1
            if each.converted == 2 and "-v" in sys.argv:
                print("--- not converted", each.name, each.said[each.said.index("$ convert") :])
            if not each.agree:
                print(f"--- {each.name}\n{each.text}\n{each.said}")
    print(*(f"{number:6} {kind}" for kind, number in kinds.most_common()), sep="\n")


if __name__ == "__main__":
    main()
