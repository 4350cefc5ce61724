"""Fuzzes configs: `check`, `generate` and `convert` must agree about each, fail properly, and escape their output.

    python -m tests.hostile.fuzz_configs [--count 10000] [--seed 1] [--every 100] [--compile 20]

The configs of the repository are changed like a user would, and like an attacker would.  Each is checked,
converted to both languages and generated into memory in this process; each N-th is also generated in a process.  Errors
are: any exception that is not a UdogenError, an exit code other than 0 and 2, `check` and `generate` that disagree, a
converted config that `check` refuses, text of a config that is not escaped in generated files, more than some seconds
of work for one config, generated C++ that does not compile (a sample is tried).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.command_line import udogen
from tests.making import CORPUS, ROOT
from tests.making import udogen as udogen_in_process
from udogen import GenerateOptions, UdogenError
from udogen.configs.load import load
from udogen.generate.pipeline import Generated
from udogen.generate.pipeline import generate as generate_packages

MOST_SECONDS = 10.0  # CPU time, for all work on one config
_STUCK = 120  # wall-clock seconds after which a config counts as one that never ends

_FOLDERS = ("tests/configs", "tests/golden/configs", "tests/opdef", "examples")
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
_TAGS: Mapping[str, Sequence[str]] = {
    "Datatype": _TYPES, "Rank": _RANKS, "Layout": _LAYOUTS, "Default": _VALUES, "Mandatory": ("true", "false", "x"),
    "SupportedBackend": _XML_BACKENDS, "Repeated": ("true", "false"), "IsStaticTensor": ("true", "false"),
}  # fmt: skip

# The text between the two halves must be escaped, or refused.
_HEAD, _TAIL = "Fz", "zF"
_SPECIAL = (
    '"', "'", "\n", "\r", "\\", "\\\n", "$(", "${", "$", "`", "*/", "//", "#", "%>", "${'", "<%", "??/", "??=", ";",
    ":", "=", "\t", " ", "\u2028", "\x85", "\x1b[2J", "\0", ')delim"', '");', "$(shell touch pwned)", "`touch pwned`",
    "\\u0041", "\\x", "%s%n",
)  # fmt: skip
_FREE_TEXT = r"(?<=<Content>)[^<]*|(?<=<Code>)[^<]*|(?<=<Enum>)[^<]*|(?<=<Url>)[^<]*"
_NUMBERS = (
    "1e400", "-1e400", "1e39", "-0", "0x10", "1_000", "9" * 19, "9" * 40, "9" * 5000, "1e-400", "4294967296",
    "-2147483649", "2147483648", "18446744073709551616", "1.0000000000000000000000000001", "+1", "01", ".5", "5.", "1e",
    "NaN", "-inf", "\u0663", "\uff11",
)  # fmt: skip
_UNICODE = (
    "\xfcn\xef", "\u540d\u524d", "\u202eabc", "a\u200bb", "\U0001f600", "e\u0301", "\ufeff", "\ufb01", "\u017f",
    "\ud800", "\uffff", "\u0410", "x" * 300,
)  # fmt: skip
_ENTITIES = (
    "&#0;", "&#xD800;", "&#x1F600;", "&lt;", "&foo;", "&#10;", "&#34;", "&amp;amp;", "&x", "<![CDATA[x]]>",
    "<!-- -- -->", "<?pi x?>",
)  # fmt: skip
_LAUGHS = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefg", "bcdefgh", strict=True))
_DOCTYPES = (
    '<!DOCTYPE x [<!ENTITY foo "bar">]>',
    '<!DOCTYPE x [<!ENTITY foo SYSTEM "file:///etc/hostname">]>',
    '<!DOCTYPE x SYSTEM "http://localhost:9/x.dtd">',
    f'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{_LAUGHS}]>',
)
_ATTRIBUTES = (
    ' Backend="HTP"', ' Backend="AIC"', ' UseQHPI="true"', ' UseQHPI="x"', ' x="1"', ' Version="1" Version="2"',
    ' xmlns="urn:x"', ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"', " x=", ' :="1"',
    f' PackageName="{_HEAD}&quot;{_TAIL}"', f' Domain="{_HEAD}&#10;{_TAIL}"', f' Version="{_HEAD}$(x){_TAIL}"',
)  # fmt: skip
_ANY_JSON = (
    "null", "true", "[]", "{}", "[[]]", '[{"name": 1}]', '{"": {}}', "-1", "1.5", '""', '"FLOAT_32"', "[null]",
    "[1, [2]]", "[1, 2.5, true]", '"\\ud800"', '"\\u0000"', "[true, false]", "[[1, 2], [3]]",
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The exit codes of the verbs for one config."""

    data: bytes
    name: str
    check: int
    generate: int
    converted: int | None  # of `convert` to the other language; None if `check` refuses the config
    again: int | None  # of `check` of its output
    printed: str
    layout: str = ""
    wrong: tuple[str, ...] = ()  # other errors
    made: tuple[Generated, ...] = field(default=(), repr=False)

    @property
    def agree(self) -> bool:
        """Return whether the verbs agree, and none of them breaks."""
        return (self.check == 0) == (self.generate == 0) and self.again in (None, 0) and self.sane and not self.wrong

    @property
    def sane(self) -> bool:
        """Return whether all codes are those of a config: 0 and 2."""
        return all(code in (None, 0, 2) for code in (self.check, self.generate, self.converted, self.again))

    def __str__(self) -> str:
        codes = f"check {self.check}, generate {self.generate}, convert {self.converted}, {self.again}"
        return "\n".join(
            [f"{self.name}: {codes}", *self.wrong, self.data.decode("utf-8", "backslashreplace"), self.printed]
        )


def configs() -> list[Path]:
    """Return the configs that are changed."""
    folders = [ROOT / folder for folder in _FOLDERS] + ([CORPUS] if CORPUS.is_dir() else [])
    found = [path for folder in folders for ending in ("*.xml", "*.json") for path in sorted(folder.rglob(ending))]
    found = [path for path in found if path.is_file()]
    return [path for path in found if b"OpDef" in path.read_bytes() or b"Operators" in path.read_bytes()]


def changed(data: bytes, dice: random.Random, *, xml: bool) -> bytes:
    """Return the config with one to three changes: most of them like a user's, the others like an attacker's."""
    for _ in range(dice.choice((1, 1, 1, 1, 2, 3))):
        kind = dice.random()
        if kind < 0.05:
            data = _changed_bytes(data, dice)
            continue
        text = data.decode("utf-8", "surrogateescape")
        if kind < 0.5:
            text = _changed_xml(text, dice) if xml else _changed_json(text, dice)
        else:
            text = _attacked_xml(text, dice) if xml else _attacked_json(text, dice)
        try:
            data = text.encode("utf-8", "surrogateescape")  # the encoding that it was read with
        except UnicodeEncodeError:
            data = text.encode("utf-8", "surrogatepass")
    return data


def _changed_xml(text: str, dice: random.Random) -> str:
    kind = dice.randrange(4)
    tag = dice.choice(list(_TAGS))
    value = dice.choice(_TAGS[tag]).replace('"', "&quot;")
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


def _changed_bytes(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    kind = dice.randrange(6)
    if kind == 0:
        return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + dice.randbytes(dice.randint(1, 8)) + data[at:]
    if kind == 2:
        return data[:at] + data[at + dice.randint(1, 60) :]
    if kind == 3:
        return data[:at] + data[max(0, at - dice.randint(1, 200)) : at] * dice.choice((1, 2, 50)) + data[at:]
    if kind == 4:
        return data[:at]
    return data.decode("utf-8", "replace").encode(
        dice.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1")), "replace"
    )


def _attacked_xml(text: str, dice: random.Random) -> str:
    kind = dice.randrange(10)
    leaf = r"(?<=>)[^<>\s][^<>]*(?=</)"
    if kind < 3:
        special = "".join(_as_xml(c, dice) for c in _marked(dice))
        found = list(re.finditer(_FREE_TEXT if kind else leaf, text))
        if kind and (not found or dice.random() < 0.3):
            more = f"<Description><Content>{special}</Content></Description>"
            return _at_random(r"</Name>(?!\s*<Description>)", f"</Name>{more}", text, dice)
        if not found:
            return text
        at = dice.choice(found)
        kept = at[0] if dice.random() < 0.5 else ""
        return text[: at.start()] + kept + special + text[at.end() :]
    if kind == 3:
        return _at_random(leaf, dice.choice(_NUMBERS), text, dice)
    if kind == 4:
        return _at_random(leaf, dice.choice(_UNICODE), text, dice)
    if kind == 5:
        return _at_random(leaf, dice.choice(_ENTITIES), text, dice)
    if kind == 6:  # elements duplicated, removed, moved
        blocks = list(re.finditer(r"<(\w+)>(?:(?!<\1>).)*?</\1>", text, re.DOTALL))
        if not blocks:
            return text
        at, there = dice.choice(blocks), dice.choice(blocks)
        how = dice.randrange(4)
        if how == 0:
            return text[: at.start()] + text[at.end() :]
        if how == 1:
            return text[: at.end()] + at[0] * dice.choice((1, 2, 40)) + text[at.end() :]
        if how == 2:
            return text[: there.end()] + at[0] + text[there.end() :]
        return text[: at.start()] + f"<{at[1]}>" + at[0] + f"</{at[1]}>" + text[at.end() :]
    if kind == 7:
        attribute = dice.choice(_ATTRIBUTES)
        return _at_random(r"(?<=<)\w+", lambda found: found[0] + attribute, text, dice)
    if kind == 8:
        depth = dice.choice((2, 50, 300, 5000))
        return _at_random(leaf, lambda found: "<Name>" * depth + found[0] + "</Name>" * depth, text, dice)
    end = text.find("?>") + 2 if text.startswith("<?xml") else 0
    return text[:end] + dice.choice(_DOCTYPES) + _at_random(leaf, dice.choice(("&foo;", "&h;")), text[end:], dice)


def _as_xml(character: str, dice: random.Random) -> str:
    if character in "&<":
        return f"&#{ord(character)};"
    return f"&#{ord(character)};" if not character.isalnum() and dice.random() < 0.5 else character


def _attacked_json(text: str, dice: random.Random) -> str:
    kind = dice.randrange(7)
    if kind == 6:
        more = f'"SNPE_UDO_ROOT": {json.dumps(_marked(dice))}, '
        return _at_random(r'"UDO_PACKAGE_NAME"', f'{more}"UDO_PACKAGE_NAME"', text, dice)
    if kind == 0:
        return _at_random(r'"(\w+)"(?=\s*:)', lambda found: f'{found[0]}: {_any_json(dice)}, "{found[1]}"', text, dice)
    if kind == 1:
        return _at_random(r'"[^"\\]*"', json.dumps(_marked(dice)), text, dice)
    try:
        content = json.loads(text)
    except ValueError:
        return _at_random(r'(?<=:)\s*("[^"\\]*"|-?[\d.]+|true|false)', _any_json(dice), text, dice)
    holders: list[Any] = []
    _collect(content, holders)
    if not holders:
        return text
    holder = dice.choice(holders)
    key = dice.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    if kind == 2:
        del holder[key]
    elif kind == 3 and isinstance(holder[key], str):
        holder[key] = dice.choice(("", holder[key])) + dice.choice((_marked(dice), dice.choice(_UNICODE)))
    elif kind == 4 and isinstance(holder, list):
        holder += [holder[key]] * dice.choice((1, 2, 40))
    elif kind == 4:
        holder[dice.choice((_marked(dice), "name", "type", "inputs", "Operators", "UDO_PACKAGE_PATH", key.upper()))] = (
            holder[key]
        )
    elif dice.random() < 0.2:
        depth = dice.choice((2, 100, 20_000))
        mark = "the place of a deep list"
        holder[key] = mark
        return json.dumps(content, indent=2).replace(f'"{mark}"', "[" * depth + "]" * depth)
    else:
        mark = "the place of some value"
        holder[key] = mark
        return json.dumps(content, indent=2).replace(f'"{mark}"', _any_json(dice))
    return json.dumps(content, indent=2, ensure_ascii=dice.random() < 0.5)


def _any_json(dice: random.Random) -> str:
    number = dice.choice(_NUMBERS)
    every: Sequence[str] = (*_ANY_JSON, number, number, f'"{number}"', json.dumps(_marked(dice)))
    return dice.choice(every)


def _collect(node: Any, found: list[Any]) -> None:
    if isinstance(node, dict | list) and node:
        found.append(node)
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _collect(each, found)


def _marked(dice: random.Random) -> str:
    return f"{_HEAD}{dice.choice(_SPECIAL)}{_TAIL}"


def _at_random(pattern: str, new: str | Callable[[re.Match[str]], str], text: str, dice: random.Random) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    at = dice.choice(found)
    return text[: at.start()] + (new(at) if callable(new) else new) + text[at.end() :]


def verdict(config: str | bytes, name: str, folder: Path, layout: str = "") -> Verdict:
    """Return the exit codes of the verbs for a config, with this layout or the default one."""
    data = config.encode() if isinstance(config, str) else config
    path, started = folder / name, time.process_time()
    path.write_bytes(data)
    printed, wrong, made, in_core = list[str](), list[str](), list[Generated](), list[Generated]()

    def code_of(verb: str, *arguments: object) -> int:
        done = udogen(verb, *arguments)
        printed.append(f"$ {verb}\n{done.stdout}{done.stderr}")
        return done.returncode

    check = code_of("check", path, *(["--layout", layout] if layout else []))
    try:
        made = _generated(path, layout=layout, converter=True, cmake=True)
        generate = 0
        if any(part.backend == "htp" for each in made for part in each.plan.parts):
            in_core = _generated(path, layout=layout, backends=("htp",), htp_api="core")
    except UdogenError as fault:
        generate = 0 if made else fault.exit_code  # what HTP's other interface refuses is not a fault of the config
        printed.append(str(fault))
    except Exception as fault:
        generate = 1
        wrong.append(f"generate: {type(fault).__name__}: {fault}")
    for each in made + in_core:
        wrong += [f"generate: {each.plan.package}: {place}" for place in unescaped(each.rendered)]
    codes: dict[str, tuple[int, int | None]] = {}
    for language in ("xml", "json") if not check else ():
        other = folder / f"converted.{language}"
        other.unlink(missing_ok=True)
        code = code_of("convert", path, "--to", language, "-o", other)
        again = None if code else code_of("check", other, "--layout", "snpe")
        codes[language] = code, again
        if code not in (0, 2) or again not in (None, 0):
            wrong.append(f"convert to {language}: {code}, check of the result: {again}")
    converted, again = codes.get("json" if path.suffix == ".xml" else "xml", (None, None))
    if (seconds := time.process_time() - started) > MOST_SECONDS:
        wrong.append(f"{seconds:.1f} s for one config")
    if "\x1b[2J" in "".join(printed):
        wrong.append("a control sequence reaches the terminal")
    return Verdict(data, name, check, generate, converted, again, "\n".join(printed), layout, tuple(wrong), tuple(made))


def _generated(path: Path, **how: Any) -> list[Generated]:
    packages, findings = load([path])
    return generate_packages(packages, GenerateOptions(path.parent / "out", dry_run=True, **how), findings)


_CXX = (".cpp", ".hpp", ".h", ".cl")
_TOKENS = re.compile(
    r'//(?:\\\r?\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|R"(\w*)\((.*?)\)\1"', re.DOTALL
)
_RAW = re.compile(rf"{_HEAD}[^\w]|(?<!\w){_TAIL}", re.ASCII)
_RAW_IN_MAKE = re.compile(rf"{_HEAD}[^\w /:]|(?<![\w /:]){_TAIL}", re.ASCII)  # a quoted path contains these


def unescaped(rendered: Mapping[str, bytes]) -> Iterator[str]:
    """Yield places in generated files where text of a config is not only text."""
    for path, content in rendered.items():
        if "config" in Path(path).parts[:-1]:  # the unchanged config
            continue
        text = content.decode("utf-8", "surrogateescape")
        if re.search(rf"[^\w./+-]|{_HEAD}[^\w.]", path):
            yield f"the path {path!r}"
        if path.endswith(".json"):
            json.loads(text)
        elif _HEAD in text or _TAIL in text:
            pattern = _RAW_IN_MAKE
            if path.endswith(_CXX):
                # Comments and literals may contain anything, as long as they end at the right place.
                text, pattern = _TOKENS.sub('""', text), _RAW
            if found := pattern.search(text):
                yield f"{path}: {found[0]!r} in {text[max(0, found.start() - 40) : found.end() + 40]!r}"


def verdicts(count: int, seed: int, folder: Path, sources: Sequence[Path] = ()) -> Iterator[Verdict]:
    """Yield so many verdicts; the first ones for the unchanged configs."""
    dice = random.Random(seed)
    every = list(sources) or configs()
    broken = [path for path in every if "broken" in path.parts]
    sound = [path for path in every if path not in broken]
    for number in range(count):
        path = every[number] if number < len(every) else dice.choice(broken if dice.random() < 0.05 else sound)
        data, name = path.read_bytes(), path.name
        if number >= len(every):
            data = changed(data, dice, xml=path.suffix == ".xml")
            if dice.random() < 0.05:
                special = _marked(dice).replace("/", "").replace("\0", "")
                name = special + path.suffix
        layout = "" if number < len(every) else dice.choice(("", "", "", "snpe", "qnn"))
        yield verdict(data, name, folder, layout)
        (folder / name).unlink()


def by_command_line(found: Verdict, folder: Path) -> list[str]:
    """Return the differences between `udogen generate` in a process and the verdict for a config."""
    path = folder / found.name
    path.write_bytes(found.data)
    layout = ["--layout", found.layout] if found.layout else []
    done = udogen_in_process("generate", *layout, path, "-o", folder / "out", "--dry-run")
    path.unlink()
    same = done.returncode == found.generate and "Traceback" not in done.stderr
    return [] if same else [f"generate: {done.returncode} and not {found.generate}: {done.stderr[-2000:]}"]


def does_not_compile(made: Sequence[Generated], folder: Path, compiler: str = "g++") -> Iterator[str]:
    """Yield the compiler's errors for the sources of generated packages."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    script = folder / "cxx"
    script.write_text(_SYNTAX_ONLY.replace("COMPILER", compiler))
    script.chmod(0o755)
    for each in made:
        there = folder / each.plan.folder if each.plan.folder else folder / each.folder.name
        for path, content in each.rendered.items():
            (there / path).parent.mkdir(parents=True, exist_ok=True)
            (there / path).write_bytes(content)
        log = there / "compiled.log"
        targets = [f"{backend}_x86" for backend in ("cpu", "gpu", "htp", "dsp", "reg")]
        argv = ["make", "-k", f"X86_CXX={script}", "EXTRA_CXXFLAGS=-Werror", *targets]
        subprocess.run(argv, cwd=there, capture_output=True, timeout=900, env={**os.environ, "COMPILED": str(log)})
        for entry in log.read_text("utf-8", "replace").split("\f") if log.exists() else ():
            source, code, text = entry.split("\n", 2)
            yield "" if code == "0" else f"{there.name}/{source}: {text[:2000]}"


# A stand-in compiler that only checks the syntax.
_SYNTAX_ONLY = """\
#!/bin/sh
out= previous= last=
for each; do [ "$previous" = -o ] && out=$each; previous=$each; last=$each; done
: > "$out"
case " $* " in *" -c "*) ;; *) exit 0 ;; esac
text=$(COMPILER -fsyntax-only "$@" 2>&1)
code=$?
[ -s "$COMPILED" ] && before='\\f' || before=
printf "$before%s\\n%s\\n%s" "$last" "$code" "$text" >> "$COMPILED"
exit $code
"""


def main() -> int:
    """Print the figures, and the faulty configs; return 1 if there is any."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--every", type=int, default=100, help="each N-th config by the command line, too")
    options.add_argument("--compile", type=int, default=20, help="so many accepted configs are compiled")
    given = options.parse_args()
    kinds: Counter[str] = Counter()
    sample: list[tuple[Verdict, tuple[Generated, ...]]] = []
    dice = random.Random(given.seed)
    accepted = wrong = called = 0
    slowest = 0.0

    def report(found: Verdict, *more: str) -> None:
        nonlocal wrong
        wrong += 1
        print(f"--- wrong, number {wrong}", *more, found, sep="\n", flush=True)

    def stuck(_number: int, _frame: object) -> None:
        raise TimeoutError(f"no end within {_STUCK} s")

    signal.signal(signal.SIGALRM, stuck)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "call").mkdir()
        begun = started = time.process_time()
        signal.alarm(_STUCK)
        for number, each in enumerate(verdicts(given.count, given.seed, folder)):
            slowest = max(slowest, time.process_time() - started)
            signal.alarm(0)
            kinds[f"check {each.check}, generate {each.generate}, convert {each.converted}, {each.again}"] += 1
            if not each.agree:
                report(each)
            elif given.every and number % given.every == given.every - 1:
                called += 1
                if more := by_command_line(each, folder / "call"):
                    report(each, *more)
            if each.made and number >= len(configs()):
                accepted += 1
                if len(sample) < given.compile:
                    sample.append((each, each.made))
                elif (place := dice.randrange(accepted)) < given.compile:
                    sample[place] = each, each.made
            if number % 500 == 499:
                print(f"{number + 1} configs, {accepted} accepted, {wrong} wrong", file=sys.stderr, flush=True)
            started = time.process_time()
            signal.alarm(_STUCK)
        signal.alarm(0)
        spent = time.process_time() - begun
        sources = 0
        for each, made in sample:
            faults = list(does_not_compile(made, folder / "compiled"))
            sources += len(faults)
            if any(faults):
                report(each, *filter(None, faults))
    print(*(f"{number:6} {kind}" for kind, number in kinds.most_common()), sep="\n")
    print(
        f"{given.count} configs (seed {given.seed}), {called} of them by the command line too, "
        f"{spent:.0f} s of processor time, the slowest {slowest:.1f} s; "
        f"{sources} sources of {len(sample)} accepted ones compiled: {wrong} wrong"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
