"""The broken configs: those in broken/, and those too big to be kept, which are made when they are needed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BROKEN = HERE / "broken"
GOLDEN = HERE / "golden"
ROOT = HERE.parents[1]

CPU_SECONDS = 2
MEMORY = 300 << 20

# What is wrong only for one backend; every other file is wrong by itself.
ARGUMENTS = {"cpu": ["--backend", "cpu"], "htp": ["--backend", "htp"], "strict": ["--strict"]}


@dataclass(frozen=True)
class Ran:
    """What the command did."""

    code: int
    out: str
    err: str
    cpu_seconds: float
    memory: int  # peak, in bytes


def names() -> list[str]:
    """Every case: a file of broken/, or one that `make` writes."""
    return sorted([path.name for path in BROKEN.iterdir()] + ["missing.xml"] + list(MADE))


def arguments(name: str) -> list[str]:
    """What `check` needs to see the fault."""
    return ARGUMENTS.get(name.partition("_")[0], [])


def place(name: str, scratch: Path) -> Path:
    """The folder where the file lies; made ones are written into `scratch`."""
    if name not in MADE:
        return BROKEN
    (scratch / name).write_bytes(MADE[name]())
    return scratch


# A process that is started by a large one counts the memory of that too: a small one is between them, and measures.
_MEASURE = """
import os, sys
child = os.posix_spawn(sys.executable, [sys.executable, "-m", "udogen", *sys.argv[2:]], os.environ)
_, status, used = os.wait4(child, 0)
figures = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss
os.write(int(sys.argv[1]), " ".join(map(str, figures)).encode())
"""


def run(*args: str, cwd: Path) -> Ran:
    """`udogen ARGS` in a process of its own, measured."""
    end, given = os.pipe()
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("COV_", "PYTEST"))}
    path = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    with subprocess.Popen(
        [sys.executable, "-S", "-c", _MEASURE, str(given), *args],
        cwd=cwd,
        pass_fds=(given,),
        env={**environment, "PYTHONPATH": path, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        _limit(child.pid)
        assert child.stdout and child.stderr
        out, err = child.stdout.read(), child.stderr.read()  # neither is long enough to fill the other's pipe
    os.close(given)
    with open(end, encoding="ascii") as figures:
        code, seconds, kibibytes = figures.read().split()
    return Ran(int(code), out.decode("utf-8"), err.decode("utf-8"), float(seconds), int(kibibytes) << 10)


def golden_text(name: str, scratch: Path) -> str:
    """What `udogen check` says of a broken config, and the file it is kept in."""
    return run("check", name, *arguments(name), cwd=place(name, scratch)).err


def _limit(child: int) -> None:
    """The child ends rather than the machine, should a limit be missed by far."""
    resource.prlimit(child, resource.RLIMIT_CPU, (20, 20))
    resource.prlimit(child, resource.RLIMIT_AS, (4 << 30, 4 << 30))


# --- too big to be kept -----------------------------------------------------------------------------------

_NEARLY = (4 << 20) - 4096
_HEAD = b'<OpDefCollection PackageName="Demo" Domain="aisw" Version="1.0">\n<OpDefList>\n'
_TENSOR = (
    b"<%s><Name>%s</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype><Shape><Rank>ND</Rank></Shape></%s>\n"
)
_OP = b"<OpDef><Name>Scale</Name>\n" + _TENSOR % (b"Input", b"x", b"Input") + _TENSOR % (b"Output", b"y", b"Output")
_FOOT = b"<SupportedBackend>CPU</SupportedBackend></OpDef>\n</OpDefList>\n</OpDefCollection>\n"
_PARAM = (
    b"<Parameter><Name>a</Name><Mandatory>false</Mandatory><Datatype>INT_32</Datatype><Shape><Rank>1D</Rank></Shape>\n"
)


def _filled(piece: bytes, room: int = _NEARLY) -> bytes:
    return piece * (room // len(piece))


def _json(before: bytes, filling: bytes, after: bytes) -> bytes:
    return b'{"UdoPackage_0": {"UDO_PACKAGE_NAME": "Demo", "Operators": [' + before + filling + after


def _many_keys() -> bytes:
    return b"{" + b",".join(b'"%d":1' % number for number in range(380_000)) + b"}"


def _ops(count: int) -> bytes:
    ops = b"".join(_OP.replace(b"Scale", b"Op%d" % n) + b"</OpDef>\n" for n in range(count))
    return _HEAD + ops + b"</OpDefList></OpDefCollection>\n"


MADE: dict[str, Callable[[], bytes]] = {
    "big_nesting_50mb.xml": lambda: b"<a>" * (50 << 18) + b"\n",
    "big_nesting_50mb.json": lambda: b"[" * (50 << 20),
    "big_nesting.xml": lambda: _filled(b"<OpDef>", _NEARLY // 2) + _filled(b"</OpDef>", _NEARLY // 2),
    "big_nesting_shallow.xml": lambda: (
        _HEAD + b"<OpDef>" * 5000 + b"</OpDef>" * 5000 + b"</OpDefList></OpDefCollection>"
    ),
    "big_nesting.json": lambda: b"[" * (_NEARLY // 2) + b"]" * (_NEARLY // 2),
    "big_nesting_of_objects.json": lambda: b'{"a":' * (_NEARLY // 6) + b"1" + b"}" * (_NEARLY // 6),
    "big_short_elements.xml": lambda: _HEAD + _filled(b"<a/>") + b"</OpDefList></OpDefCollection>",
    "big_wrong_elements.xml": lambda: _HEAD + b"<Oops/>\n" * 39_000 + b"</OpDefList></OpDefCollection>",
    "big_wrong_attributes.xml": lambda: (
        _HEAD + b'<OpDef a="" b="" c="" d="" e=""/>\n' * 3_900 + b"</OpDefList></OpDefCollection>"
    ),
    "big_many_attributes.xml": lambda: b"<OpDefCollection " + b" ".join(b'a%d=""' % n for n in range(19_900)) + b"/>",
    "big_wrong_values.xml": lambda: (
        _HEAD
        + b"<OpDef><UseDefaultTranslation>x</UseDefaultTranslation></OpDef>\n" * 9_900
        + b"</OpDefList></OpDefCollection>"
    ),
    "big_empty_ops.xml": lambda: _HEAD + b"<OpDef/>" * 39_000 + b"</OpDefList></OpDefCollection>",
    "big_ops_without_backend.xml": lambda: _ops(1_500).replace(b"<Name>x</Name>", b""),
    "big_default.xml": lambda: (
        _HEAD + _OP + _PARAM + b"<Default>[" + b"1, " * 1_000_000 + b"1]</Default></Parameter>" + _FOOT
    ),
    "big_default_of_words.xml": lambda: (
        _HEAD + _OP + _PARAM + b"<Default>" + _filled(b"[ ") + b"</Default></Parameter>" + _FOOT
    ),
    "big_lines.xml": lambda: _HEAD + _filled(b"\n") + b"<OpDef/>",
    "big_long_tags.xml": lambda: _HEAD + _filled(b"<a\n"),
    "big_comments.xml": lambda: _HEAD + _filled(b"<!---->") + b"</OpDefList></OpDefCollection>",
    "big_one_line.xml": lambda: (
        (_HEAD + (_OP + b"<Oops/></OpDef>") * 4_000).replace(b"\n", b" ") + b"</OpDefList></OpDefCollection>"
    ),
    "big_name.xml": lambda: _HEAD + _OP.replace(b"Scale", _filled(b"S")) + _FOOT,
    "big_keys.json": _many_keys,
    "big_list.json": lambda: b"[" + _filled(b"1,") + b"1]",
    "big_default.json": lambda: _json(
        b'{"type": "Scale", "inputs": [{"data_type": "FLOAT_32"}], "outputs": [{"data_type": "FLOAT_32"}], '
        b'"tensor_params": [{"name": "a", "data_type": "INT_32", "default_value": [',
        b"1,\n" * 1_000_000,
        b"1]}]}]}}",
    ),
    "big_operators.json": lambda: _json(b"{}", _filled(b",{}", 290_000), b"]}}"),
    "big_wrong_tensors.json": lambda: _json(
        b'{"type": "Scale", "outputs": [{"data_type": "FLOAT_32"}], "inputs": [{}', b",1" * 90_000, b"]}]}}"
    ),
    "big_string.json": lambda: b'{"UdoPackage_0": "' + _filled(b"x") + b'"}',
    "big_open_string.json": lambda: b'{"UdoPackage_0": "' + _filled(b"\\\\"),
    "big_open_comment.json": lambda: _filled(b"/*"),
    "big_number.json": lambda: b'{"UdoPackage_0": ' + _filled(b"9") + b"}",
    "big_comments.json": lambda: _filled(b"//\n") + b"{}",
    "big_blanks.json": lambda: _filled(b" ") + b"x",
}
