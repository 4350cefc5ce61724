"""A draft -> texts -> files; nothing of a person's is ever overwritten, and either all files are written or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from udogen.configs import json_write, xml_write
from udogen.errors import UsageError, writing
from udogen.init import cases_file
from udogen.init.draft import Draft, Remark
from udogen.opdef.model import OpPackage
from udogen.opdef.problems import Problem, Problems


@dataclass(frozen=True)
class Written:
    """What became of each file, and what the config's readers warn of."""

    files: Mapping[Path, str]
    warnings: tuple[Problem, ...]


LANGUAGES = {".xml": "xml", ".json": "json"}


def write(draft: Draft, out: Path, *, source: str) -> Written:
    """The config, its test cases beside it, and what their references need; `source` is what they came from."""
    language = language_of(out)
    text, lost = config_text(draft, language)
    package, warnings = check(text, language, str(out))
    files = {out: text.encode()}
    if draft.cases:
        about = (
            f"Cases of {source}: `udogen test` runs them. An axis that the model leaves open has a size of our choice "
            "(--dim NAME=SIZE chooses another)."
        )
        cases = cases_file.text(package, draft.cases, config=out.name, references=draft.references, about=about)
        files[out.parent / cases_file.NAME] = cases.encode()
    files |= {out.parent / name: data for name, data in draft.files.items()}
    return Written(save(files), (*lost, *warnings))


def language_of(path: Path) -> str:
    """The config language that a file's name asks for."""
    found = LANGUAGES.get(path.suffix.lower())
    if found is None:
        raise UsageError(f"{path} says not which language it is in", hint="a config ends in .xml or .json")
    return found


def config_text(draft: Draft, language: str) -> tuple[str, tuple[Problem, ...]]:
    """The config, and what its language cannot say; JSON has no comments, so remarks are not in it."""
    problems = Problems()
    if language == "json":
        text = json_write.write([draft.package], problems)
    else:
        text = xml_write.write(draft.package, problems, comments(draft.remarks))
    return text, problems.warnings


def comments(remarks: Sequence[Remark]) -> Mapping[tuple[str, ...], Sequence[str]]:
    """Remarks by what they are about, decisions last, where the eye rests."""
    found: dict[tuple[str, ...], list[str]] = {}
    for each in sorted(remarks, key=lambda row: row.decide):
        found.setdefault(each.about, []).append(str(each))
    return found


def check(text: str, language: str, file: str) -> tuple[OpPackage, tuple[Problem, ...]]:
    """Read a config as `udogen check` does; raises what is wrong with it, which would be a fault of ours."""
    from udogen.configs import json_read, resolve, rules, xml_read

    problems = Problems()
    reader = json_read.read if language == "json" else xml_read.read
    packages = reader(text.encode(), file, problems)
    for package in packages:
        rules.check(package, problems)
        unresolved = Problems()
        resolve.unresolved(package, unresolved)
        problems.extend(unresolved.all())
    problems.stop_if_any(what="the config that init has made; its names or types come from the model")
    return packages[0], problems.warnings


def save(files: Mapping[Path, bytes]) -> Mapping[Path, str]:
    """Write what is not there yet: path -> `created` or `unchanged`; a file with other content is an error."""
    there = {path: path.read_bytes() for path in files if path.is_file()}
    other = [path for path in files if path.exists() and there.get(path) != files[path]]
    if other:
        raise UsageError(
            f"{other[0]} exists and is different; nothing was written",
            hint="init never overwrites: choose another file with -o, or remove it",
            details=[f"{path} too" for path in other[1:]],
        )
    for path, data in files.items():
        if path not in there:
            _create(path, data)
    return {path: "unchanged" if path in there else "created" for path in files}


def _create(path: Path, data: bytes) -> None:
    with writing(path, hint="choose another file with -o"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
