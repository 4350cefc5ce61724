"""The broken configs: those in broken/, and those too large to be stored, which are generated on demand."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from tests.making import ROOT, rewrite

HERE = Path(__file__).parent
BROKEN = HERE / "broken"
GOLDEN = HERE / "golden"

CPU_SECONDS = 4  # 1.2 to 1.9 for the largest file; a busy machine counts more for the same work
MEMORY = 300 << 20

# Cases that are broken only with these options; every other file is always broken.
ARGUMENTS = {"cpu": ["--backend", "cpu"], "htp": ["--backend", "htp"], "strict": ["--strict"]}


class Ran(NamedTuple):
    """The result of the command; `memory` is the peak, in bytes."""

    code: int
    out: str
    err: str
    cpu_seconds: float
    memory: int


def names() -> list[str]:
    """Return every case: a file of broken/, or a generated one."""
    return sorted([path.name for path in BROKEN.iterdir()] + ["missing.xml"] + list(MADE))


def arguments(name: str) -> list[str]:
    """Return the options with which `check` detects the fault."""
    return ARGUMENTS.get(name.partition("_")[0], [])


def place(name: str, scratch: Path) -> Path:
    """Return the folder of the file; generated ones are written into `scratch`."""
    if name not in MADE:
        return BROKEN
    (scratch / name).write_bytes(MADE[name]())
    return scratch


# A process that has imported the modules of `check` and `generate`, and forks for each call.  It is kept small, because
# its memory counts for each child.
_SERVE = """
import json, os, resource, sys
from udogen.cli import check, generate
from udogen.cli.main import main
from udogen.configs import load
from udogen.generate import pipeline
answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    argv, folder, out, err = json.loads(line)
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))  # the child ends rather than the machine,
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # should a limit be missed by far
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["udogen", *argv]
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        else:
            code = 0
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status, used = os.wait4(child, 0)
    figures = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss << 10
    print(json.dumps(figures), file=answers, flush=True)
"""


@cache
def _server() -> tuple[IO[str], IO[str]]:
    """Return the streams for calls and replies.  The server ends with this process."""
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("COV_", "PYTEST"))}
    path = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVE],
        env={**environment, "PYTHONPATH": path, "NO_COLOR": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin and server.stdout
    atexit.register(server.communicate)
    return server.stdin, server.stdout


def run(*args: str, cwd: Path) -> Ran:
    """Run `udogen ARGS` in a separate process, and measure it."""
    calls, answers = _server()
    with tempfile.TemporaryDirectory() as scratch:
        out, err = Path(scratch) / "out", Path(scratch) / "err"
        print(json.dumps([args, str(cwd), str(out), str(err)]), file=calls, flush=True)
        code, seconds, memory = json.loads(answers.readline())
        return Ran(code, out.read_text("utf-8"), err.read_text("utf-8"), seconds, memory)


def write_golden() -> None:
    """Rewrite golden/: the output of `udogen check` for every broken config."""

    def texts(scratch: Path) -> dict[str, str]:
        return {f"{name}.txt": run("check", name, *arguments(name), cwd=place(name, scratch)).err for name in names()}

    rewrite(GOLDEN, texts)


# --- too large to be stored -------------------------------------------------------------------------------

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


def _ops_with(content: bytes) -> bytes:
    return _HEAD + content + b"</OpDefList></OpDefCollection>"


def _default(text: bytes) -> bytes:
    return _HEAD + _OP + _PARAM + b"<Default>" + text + b"</Default></Parameter>" + _FOOT


MADE: dict[str, Callable[[], bytes]] = {
    "big_nesting_50mb.xml": lambda: b"<a>" * (50 << 18) + b"\n",
    "big_nesting_50mb.json": lambda: b"[" * (50 << 20),
    "big_nesting.xml": lambda: _filled(b"<OpDef>", _NEARLY // 2) + _filled(b"</OpDef>", _NEARLY // 2),
    "big_nesting_shallow.xml": lambda: _ops_with(b"<OpDef>" * 5000 + b"</OpDef>" * 5000),
    "big_nesting.json": lambda: b"[" * (_NEARLY // 2) + b"]" * (_NEARLY // 2),
    "big_nesting_of_objects.json": lambda: b'{"a":' * (_NEARLY // 6) + b"1" + b"}" * (_NEARLY // 6),
    "big_short_elements.xml": lambda: _ops_with(_filled(b"<a/>")),
    "big_wrong_elements.xml": lambda: _ops_with(b"<Oops/>\n" * 39_000),
    "big_wrong_attributes.xml": lambda: _ops_with(b'<OpDef a="" b="" c="" d="" e=""/>\n' * 3_900),
    "big_many_attributes.xml": lambda: b"<OpDefCollection " + b" ".join(b'a%d=""' % n for n in range(19_900)) + b"/>",
    "big_wrong_values.xml": lambda: _ops_with(
        b"<OpDef><UseDefaultTranslation>x</UseDefaultTranslation></OpDef>\n" * 9_900
    ),
    "big_empty_ops.xml": lambda: _ops_with(b"<OpDef/>" * 39_000),
    "big_ops_without_backend.xml": lambda: (
        _ops_with(b"".join(_OP.replace(b"Scale", b"Op%d" % n) + b"</OpDef>\n" for n in range(1_500))) + b"\n"
    ).replace(b"<Name>x</Name>", b""),
    "big_default.xml": lambda: _default(b"[" + b"1, " * 1_000_000 + b"1]"),
    "big_default_of_words.xml": lambda: _default(_filled(b"[ ")),
    "big_lines.xml": lambda: _HEAD + _filled(b"\n") + b"<OpDef/>",
    "big_long_tags.xml": lambda: _HEAD + _filled(b"<a\n"),
    "big_comments.xml": lambda: _ops_with(_filled(b"<!---->")),
    "big_one_line.xml": lambda: _ops_with((_OP + b"<Oops/></OpDef>") * 4_000).replace(b"\n", b" "),
    "big_name.xml": lambda: _HEAD + _OP.replace(b"Scale", _filled(b"S")) + _FOOT,
    "big_keys.json": lambda: b"{" + b",".join(b'"%d":1' % number for number in range(380_000)) + b"}",
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
