"""The command line: help, JSON, exit codes, streams, and no traceback for any user error."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.command_line import udogen
from tests.making import ONE_KERNEL, ONE_OP, ROOT, cpu_package, make_packages, need_runtime, on_terminal
from udogen import UsageError, __version__
from udogen.cli.main import SECTIONS, VERBS
from udogen.errors import writing

CONFIG = ONE_OP
ERROR_KEYS = {"kind", "message", "hint", "details"}
NESTED = ["run op", "run context", "run steps", "run model", "onnx schema", "onnx context", "onnx fuse"]
COMMANDS = [[verb] for verb in VERBS] + [each.split() for each in NESTED]
X = np.array([[-1.0, 2.0]], np.float32)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a built package with a finished kernel, and with x.npy next to it."""
    need_runtime("cpu")
    out = tmp_path_factory.mktemp("built")
    [made] = make_packages([CONFIG], out, kernels=ONE_KERNEL)
    done = udogen("build", "-C", made.folder)
    assert done.returncode == 0, done.stderr
    np.save(out / "x.npy", X)
    return made.folder


def failed(done: subprocess.CompletedProcess[str], code: int) -> str:
    """Return the stderr of a failing call, after checking that it has no traceback and that stdout is empty."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    assert done.stdout == ""
    return done.stderr


# --- help, version ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_help(command: list[str]) -> None:
    for option in ("--help", "-h"):
        done = udogen(*command, option)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"Usage: {' '.join(['udogen', *command])}")
    if not command:
        shown = " ".join(SECTIONS.values()).split()
        assert len(shown) <= 12 and all(f"  {verb} " in done.stdout for verb in shown)
        assert all(f"udogen {verb} (" in done.stdout for verb in VERBS if verb not in shown)


def test_version() -> None:
    for option in ("--version", "-V"):
        done = udogen(option)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"udogen {__version__}\n", "")


def test_without_a_verb_there_is_help() -> None:
    done = udogen()
    assert done.returncode in (0, 2)
    assert "Usage: udogen" in done.stdout + done.stderr


EXAMPLES = ["new", "check", "convert", "generate", "build", "inspect", "run op", "run", "test", "register", "script"]
EXAMPLES += ["run context", "run steps", "run model", "onnx context", "onnx schema", "onnx", "doctor", "explain"]


def test_the_example_of_every_verb_works(tmp_path: Path) -> None:
    """Run all examples in this order, in one folder."""
    assert {each.split()[0] for each in EXAMPLES} == {*VERBS, "onnx"}
    for command in EXAMPLES:
        text = udogen(*command.split(), "--help").stdout
        assert all(len(line) <= 80 for line in text.splitlines()), text
        [example] = re.findall(r"^Usage: .*\n\n  Example: udogen (.*)\n\n", text.replace("\\\n", ""))
        if command == "run model":
            write_network(tmp_path / "net.onnx")
        if command == "script":  # needs the output of `run op --save-context`
            np.save(tmp_path / "x.npy", np.ones((2, 3, 4), np.float32))
            saving = ("--input", "x=2x3x4", "--save-context", "scale.bin")
            assert udogen("run", "op", "out", "Scale", "--backend", "htp", *saving, cwd=tmp_path).returncode == 0
        done = udogen(*shlex.split(example), cwd=tmp_path)
        assert done.returncode == 0, f"{example}\n{done.stdout}{done.stderr}"


def write_network(path: Path) -> None:
    """Write a model with the op of `udogen new scale`."""
    onnx = pytest.importorskip("onnx")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy")
    node = onnx.helper.make_node("Scale", ["x"], ["y"], domain="custom", factor=2.0)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("custom", 1)]
    graph = onnx.helper.make_graph([node], "net", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def test_every_option_has_a_help() -> None:
    for command in COMMANDS:
        text = udogen(*command, "--help").stdout
        for line in re.findall(r"^  (-\S.*)$", text, re.MULTILINE):
            assert re.search(r"\S  +\S", line) or f"{line}\n     " in text, f"{command}: {line}"


# --- JSON ---------------------------------------------------------------------------------------------------


def returned(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    reply = json.loads(done.stdout)
    assert isinstance(reply, dict)
    assert reply["ok"] is (done.returncode == 0)
    return reply


def test_json_of_check() -> None:
    reply = returned(udogen("check", CONFIG, "--json"))
    assert reply == {
        "ok": True,
        "packages": [
            {
                "name": "LeakyReluPackage",
                "configs": [str(CONFIG)],
                "ops": [{"name": "LeakyRelu", "backends": ["cpu"]}],
            }
        ],
        "warnings": [],
    }


def test_check_names_the_next_verb_of_a_project_and_of_a_config_alone(tmp_path: Path) -> None:
    udogen("new", "scale", cwd=tmp_path)
    assert udogen("check", "scale/Scale.xml", cwd=tmp_path).stderr == "next: `udogen test scale`\n"
    (tmp_path / "scale" / "op_tests.toml").unlink()
    alone = udogen("check", "Scale.xml", cwd=tmp_path / "scale").stderr
    assert alone == "next: `udogen new scale --from-config Scale.xml`, or `udogen generate Scale.xml -o out`\n"


def test_json_of_convert(tmp_path: Path) -> None:
    reply = returned(udogen("convert", CONFIG, "--to", "json", "--json"))
    assert reply.keys() == {"ok", "file", "text", "warnings"}
    assert "UDO_PACKAGE_NAME" in str(reply["text"]) and reply["file"] is None
    assert {"file", "line", "severity", "message", "hint"} == reply["warnings"][0].keys()
    reply = returned(udogen("convert", CONFIG, "--to", "json", "--json", "-o", tmp_path / "x.json"))
    assert (tmp_path / "x.json").read_text() == reply["text"]
    done = udogen("convert", CONFIG, "--to", "json", "-o", "-", cwd=tmp_path)
    assert done.stdout == reply["text"] and not (tmp_path / "-").exists()


@pytest.mark.parametrize("option", ["", "--dry-run", "--diff"])
def test_json_of_generate(tmp_path: Path, option: str) -> None:
    done = udogen("generate", CONFIG, "-o", tmp_path, "--json", *([option] if option else []))
    reply = returned(done)
    assert reply.keys() == {"ok", "written", "packages", "warnings"}
    assert reply["written"] is not bool(option)
    [package] = reply["packages"]
    keys = {"folder", "package", "backend", "layout", "parts", "files"}
    assert package.keys() == keys | ({"diff"} if option == "--diff" else set())
    assert all({"path", "action"} <= file.keys() for file in package["files"])
    assert done.stderr == ""


def test_json_of_run_op(built: Path, tmp_path: Path) -> None:
    arguments = ["run", "op", built, "LeakyRelu", "--input", f"input={built.parent / 'x.npy'}", "--json"]
    reply = returned(udogen(*arguments, "--param", "alpha=0.5"))
    assert reply.keys() == {"ok", "op", "package", "backend", "runtime", "outputs", "seconds"}
    assert reply["outputs"] == {"output": {"dtype": "float32", "shape": [1, 2], "file": None, "data": [[-0.5, 2.0]]}}
    saved = tmp_path / "y.npy"
    reply = returned(udogen(*arguments, "--output", f"output={saved}"))
    assert reply["outputs"]["output"]["file"] == str(saved)
    np.testing.assert_allclose(np.load(saved), [[-0.01, 2.0]])


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        ("check nofile.xml", 2, "config"),
        ("check", 2, "usage"),
        ("check --nonsense", 2, "usage"),
        ("convert nofile.xml --to xml", 2, "config"),
        ("convert nofile.xml", 2, "usage"),
        ("generate nofile.xml", 2, "config"),
        ("generate --backend htp2 CONFIG", 2, "usage"),
        ("build -C /dev/null/none", 2, "usage"),
        ("build -j 0", 2, "usage"),
        ("run op /dev/null/none/x.so Op", 5, "run-failed"),
        ("inspect /dev/null/none", 2, "usage"),
        ("run op", 2, "usage"),
        ("run nonsense", 2, "usage"),
        ("nonsense", 2, "usage"),
    ],
)
def test_errors_in_json(arguments: str, code: int, kind: str) -> None:
    done = udogen(*arguments.replace("CONFIG", str(CONFIG)).split(), "--json")
    error = returned(done)["error"]
    assert isinstance(error, dict)
    assert error.keys() >= ERROR_KEYS
    assert (done.returncode, error["kind"], done.stderr) == (code, kind, "")
    assert error["message"]


# --- user errors --------------------------------------------------------------------------------------------

MISTAKES = {
    "--nonsense": 2,
    "generate": 2,
    "generate /": 2,
    "generate /dev/null": 2,
    "generate CONFIG --layout nonsense": 2,
    "generate CONFIG --backend cpu --backend nonsense": 2,
    "generate CONFIG --kernels /dev/null/none": 2,
    "generate CONFIG -o": 2,
    "check -p": 2,
    "check CONFIG --backend nonsense": 2,
    "convert CONFIG --to yaml": 2,
    "convert CONFIG --to json -o /": 2,
    "convert CONFIG --to json -o /dev/null/x": 2,
    "build nonsense -C PACKAGE": 2,
    "build -C CONFIG": 2,
    "build -C PACKAGE -j many": 2,
    "build -C PACKAGE --toolchain nonsense": 2,
    "inspect": 2,
    "inspect PACKAGE --against CONFIG": 2,
    "inspect PACKAGE --against /dev/null/none": 2,
    "run": 2,
    "run op PACKAGE": 2,
    "run op PACKAGE LeakyRelu": 2,
    "run op PACKAGE LeakyRely --input input=X": 2,
    "run op PACKAGE LeakyRelu --input inptu=X": 2,
    "run op PACKAGE LeakyRelu --input input": 2,
    "run op PACKAGE LeakyRelu --input input=": 2,
    "run op PACKAGE LeakyRelu --input input=X --input input=X": 2,
    "run op PACKAGE LeakyRelu --input input=/dev/null/none.npy": 2,
    "run op PACKAGE LeakyRelu --input input=CONFIG": 2,
    "run op PACKAGE LeakyRelu --input input=X --param alpha=": 2,
    "run op PACKAGE LeakyRelu --input input=X --param alpha=many": 2,
    "run op PACKAGE LeakyRelu --input input=X --param alpha=[1,2]": 2,
    "run op PACKAGE LeakyRelu --input input=X --param alpha=@X": 5,
    "run op PACKAGE LeakyRelu --input input=X --param beta=1": 2,
    "run op PACKAGE LeakyRelu --input input=X --shape output=0x2": 2,
    "run op PACKAGE LeakyRelu --input input=X --shape output=big": 2,
    "run op PACKAGE LeakyRelu --input input=X --shape output=3x3": 5,
    "run op PACKAGE LeakyRelu --input input=X --shape nope=1x2": 2,
    "run op PACKAGE LeakyRelu --input input=X --quant input=0,0": 2,
    "run op PACKAGE LeakyRelu --input input=X --quant input=0.5,1": 2,
    "run op PACKAGE LeakyRelu --input input=X --quant output=0.5": 2,
    "run op PACKAGE LeakyRelu --input input=X --quant input=nan,1": 2,
    "run op PACKAGE LeakyRelu --input input=X --quant input=1,x": 2,
    "run op PACKAGE LeakyRelu --input input=X --quant input=1,99999999999": 2,
    "run op PACKAGE LeakyRelu --input input=X --dtype input=FLOAT_99": 2,
    "run op PACKAGE LeakyRelu --input input=X --dtype output=UFIXED_POINT_8": 5,
    "run op PACKAGE LeakyRelu --input input=X --output output=/": 2,
    "run op PACKAGE LeakyRelu --input input=X --backend gpu": 2,
    "run op PACKAGE LeakyRelu --input input=X --provider Nobody": 5,
    "run op PACKAGE LeakyRelu --input input=X --qnn-lib /dev/null/none": 3,
    "run op PACKAGE LeakyRelu --input input=X --qnn-lib CONFIG": 5,
    "run op PACKAGE LeakyRelu --input input=X --loops 0": 2,
    "run op PACKAGE LeakyRelu --input input=X --timeout 0": 2,
    "run op CONFIG LeakyRelu --input input=X": 5,
}


def options() -> Iterator[tuple[tuple[str, ...], click.Parameter]]:
    """The options and arguments of all verbs, each with the words of its verb."""

    def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Parameter]]:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                below = command.get_command(click.Context(command), name)
                assert below is not None
                yield from walk(below, (*words, name))
        yield from ((words, param) for param in command.params)

    from udogen.cli.main import cli

    return walk(cli, ())


BAD_VALUES: dict[type[click.ParamType], tuple[str, ...]] = {
    click.Path: ("",),
    click.FloatRange: ("nan", "inf", "-inf", "1e999", "-1", ""),
    click.IntRange: ("-1", "1.5", "9" * 30, ""),
}


def test_no_verb_accepts_an_empty_name_or_an_impossible_number() -> None:
    seen = set()
    for words, param in options():
        assert type(param.type) is not click.types.FloatParamType, f"{words} {param.opts}: NaN is accepted"
        for value in next((bad for kind, bad in BAD_VALUES.items() if isinstance(param.type, kind)), ()):
            if value == "9" * 30 and "-j" not in param.opts:
                continue
            seen.add((words[-1], param.opts[0]))
            with pytest.raises(click.UsageError) as caught:
                param.type.convert(value, param, click.Context(click.Command("x")))
            assert caught.value.param is param
    assert seen >= {
        ("op", "--save-context"),
        ("new", "folder"),
        ("test", "-j"),
        ("build", "-j"),
        ("model", "--timeout"),
    }
    for arguments in ("build -j 100000", "run op a X --save-context ''", "test --timeout nan", "new ''"):
        failed(udogen(*shlex.split(arguments)), 2)


@pytest.mark.parametrize("arguments", MISTAKES)
def test_a_mistake_is_a_sentence_and_an_exit_code(arguments: str, built: Path) -> None:
    words = {"CONFIG": str(CONFIG), "PACKAGE": str(built), "X": str(built.parent / "x.npy")}
    given = [re.sub(r"(?<![A-Z])(CONFIG|PACKAGE|X)\b", lambda m: words[m[1]], word) for word in arguments.split()]
    message = failed(udogen(*given, cwd=built.parent, env={"QNN_SDK_ROOT": ""}), MISTAKES[arguments])
    assert len(message.strip()) > 15
    assert len(message) < 3000


WORDS = st.sampled_from(
    [*VERBS, "op", "-o", "-C", "-p", "-j", "--json", "--diff", "--to", "--backend", "--input", "--", "-"]
)
ODD = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=st.lists(st.one_of(WORDS, ODD), max_size=6))
def test_odd_arguments_never_show_a_traceback(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from udogen.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["udogen", *arguments])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code = main._run(main.cli, "udogen")
    message = capsys.readouterr()
    assert code in (0, 2, 3, 5), message.err
    assert "Traceback" not in message.err
    if code and "--json" in arguments:
        json.loads(message.out)


def test_arguments_that_are_no_text(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "udogen", "generate", b"\xff\xfe.xml", "-o", tmp_path / "out"],
        capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr and b"internal" not in done.stderr


def test_an_internal_error_leaves_a_crash_file(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom udogen.cli import main\nfrom udogen.configs import load\n"
        "def broken(*_, **__): raise ZeroDivisionError('deliberate')\n"
        "load.load = broken\nmain.main()\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    for more in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-c", script, "check", "x.xml", *more], env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["error"]["kind"] == "internal"
    crashes = list((tmp_path / "udogen" / "crashes").iterdir())
    assert crashes and "deliberate" in crashes[0].read_text() and "Traceback" in crashes[0].read_text()


# --- streams ------------------------------------------------------------------------------------------------


def test_results_on_stdout_and_all_else_on_stderr(tmp_path: Path, built: Path) -> None:
    done = udogen("generate", CONFIG, "-o", tmp_path)
    assert done.stdout.count("\n") == 1 and "cpu package LeakyReluPackage" in done.stdout
    assert done.stderr.startswith("next: write the kernel in ")
    done = udogen("convert", CONFIG, "--to", "json")
    json.loads(done.stdout)
    assert "warning" in done.stderr
    done = udogen("run", "op", built, "LeakyRelu", "--input", f"input={built.parent / 'x.npy'}")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1] == "  output: float32 1x2, -0.01 … 2"


@pytest.mark.parametrize(
    "command", ["generate --diff CONFIG -o OUT", "convert CONFIG --to xml", "--help", "check --help"]
)
def test_a_reader_that_leaves_early(command: str, tmp_path: Path) -> None:
    words = command.replace("CONFIG", str(CONFIG)).replace("OUT", str(tmp_path))
    script = f"{shlex.quote(sys.executable)} -m udogen {words} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode in (0, 141)
    assert done.stdout.count("\n") == 1
    assert "Broken pipe" not in done.stderr and "Traceback" not in done.stderr and "Exception" not in done.stderr


def in_shell(text: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `udogen` is that of this checkout."""
    script = f'udogen() {{ {shlex.quote(sys.executable)} -m udogen "$@"; }}; {text}'
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        errors="replace",
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [("check CONFIG", 0), ("--help", 0), ("explain 1002", 0), ("check nothing", 2)],
)
@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full", "2> >(true)"])
def test_a_closed_stream_does_not_change_the_exit_code(command: str, code: int, streams: str) -> None:
    assert in_shell(f"udogen {command.replace('CONFIG', str(CONFIG))} {streams}").returncode == code


@pytest.mark.parametrize("command", ["check CONFIG", "check CONFIG --json", "--help"])
def test_a_stdout_that_is_closed_or_full(command: str) -> None:
    text = f"udogen {command.replace('CONFIG', str(CONFIG))}"
    full = in_shell(f"{text} >/dev/full")
    assert full.returncode == 2
    if "--json" not in command:
        assert "the result cannot be written: No space left on device" in full.stderr
    for done in (full, in_shell(f"{text} >&-"), in_shell(f"{text} 2>&-")):
        assert "Traceback" not in done.stderr and "internal" not in done.stderr and "Exception" not in done.stderr


def test_a_disk_without_room_leaves_the_old_file(tmp_path: Path) -> None:
    """A limit on the file size replaces a full disk."""
    made = tmp_path / "op.json"
    made.write_text("old")
    command = f"udogen convert {CONFIG} --to json --force -o {made}"
    full = in_shell(f"trap '' XFSZ; ulimit -f 0; {command}", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (full.returncode, f"cannot write {made}: File too large" in full.stderr) == (2, True), full.stderr
    assert made.read_text() == "old" and [each.name for each in tmp_path.glob("*op*")] == ["op.json"]
    (tmp_path / "link.json").symlink_to("op.json")
    made.chmod(0o640)
    assert in_shell(command.replace("op.json", "link.json")).returncode == 0
    assert (tmp_path / "link.json").is_symlink() and made.stat().st_mode & 0o777 == 0o640
    assert in_shell(f"udogen convert {CONFIG} --to json -o /dev/stdout | grep -c UdoPackage_0").stdout == "1\n"
    assert not list(tmp_path.glob(".udogen-*"))


def test_new_on_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the file size replaces a full disk."""
    for source in ("", f"--from-config {CONFIG}", f"--from-package {ROOT / 'examples/vendor_style'}"):
        command = f"cd {tmp_path} && udogen new deep/scale {source}"
        env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        full = in_shell(f"trap '' XFSZ; ulimit -f 1; {command}", **env)
        assert (full.returncode, ": File too large" in full.stderr) == (2, True), full.stderr
        assert not (tmp_path / "deep/scale").exists()
        again = in_shell(command, **env)
        assert again.returncode == 0, again.stderr
        shutil.rmtree(tmp_path / "deep")
    out, env = tmp_path / "out", {**env, "XDG_CACHE_HOME": str(tmp_path / "other")}
    for limit, code in (("ulimit -f 2", 2), ("true", 0)):  # what was cached then is right, too
        done = in_shell(f"trap '' XFSZ; {limit}; udogen generate {CONFIG} -o {out}", **env)
        assert done.returncode == code, done.stderr


def test_hints_name_the_limit_that_was_reached(tmp_path: Path) -> None:
    few = in_shell(f"ulimit -n 10; udogen generate {CONFIG} -o {tmp_path / 'out'}")
    assert (few.returncode, "raise the limits of this shell: `ulimit -n`" in few.stderr) == (2, True), few.stderr
    for number, hint in ((errno.ENOSPC, "free disk space"), (errno.EMFILE, "`ulimit -n`"), (errno.EACCES, "as")):
        with pytest.raises(UsageError) as caught, writing("x", hint="as it was"):
            raise OSError(number, os.strerror(number))
        assert hint in caught.value.hint
    library = cpu_package(CONFIG, tmp_path / "built", ONE_KERNEL).library
    judged = in_shell(f"ulimit -n 12; udogen inspect {library}")
    text = " ".join(judged.stdout.split())
    assert judged.returncode == 3 and "cannot be judged" in text, judged.stdout
    assert "Too many open files" in text and "ulimit -n" in text
    deleted = in_shell(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && udogen new scale")
    assert (deleted.returncode, "the current folder was deleted" in deleted.stderr) == (2, True), deleted.stderr


@pytest.mark.parametrize(
    "command",
    ["inspect {}", "build -C {}", "test {}", "run op {} X", "run context {}", "explain {}", "test . --shard 1/{}"],
)
def test_names_and_numbers_that_are_too_long(command: str) -> None:
    done = udogen(*command.format("9" * 5000).split())
    assert (done.returncode, "is too long: " in done.stderr) == (2, True), done.stderr[-300:]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs a user without other processes")
def test_a_limit_on_processes_is_named() -> None:
    """The limit does not apply to root, so another user runs each command, with the right to change root's files."""
    rights = "+dac_override,+dac_read_search"
    user = f"setpriv --reuid 60321 --regid 60321 --clear-groups --inh-caps {rights} --ambient-caps {rights} bash -c"
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are for root alone
        folder = Path(name)
        folder.chmod(0o755)
        library = cpu_package(CONFIG, folder / "built", ONE_KERNEL).library
        [made] = make_packages([CONFIG], folder / "out", chosen=["cpu"], kernels=ONE_KERNEL)
        run, look = f"run op {library} LeakyRelu --input input=3", f"inspect {library}"
        test, build = f"test {ROOT}/examples/leaky_relu --backend cpu", f"build -C {made.folder}"
        for most, command in ((1, run), (5, run), (1, look), (4, look), (5, look), (6, test), (8, build)):
            line = f"ulimit -u {most}; {sys.executable} -m udogen {command}"
            done = in_shell(f"{user} {shlex.quote(line)}", XDG_CACHE_HOME=str(folder / "cache"))
            assert done.returncode == 3 and "-u`" in done.stdout + done.stderr, (command, done)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_the_locale_changes_no_result(encoding: str, tmp_path: Path) -> None:
    config = tmp_path / "größe.xml"
    config.write_text(CONFIG.read_text("utf-8").replace("where x is positive", "größer → ∞"), "utf-8")
    for command in (f"check {config} --json", f"convert {config} --to xml", f"check {config}", "check fehlt→.xml"):
        plain, odd = in_shell(f"udogen {command}"), in_shell(f"udogen {command}", PYTHONIOENCODING=encoding)
        assert (odd.returncode, odd.stdout) == (plain.returncode, plain.stdout), odd.stderr


def test_names_of_files_that_are_no_text(tmp_path: Path) -> None:
    config = os.fsencode(tmp_path) + b"/\xff.xml"
    shutil.copy(CONFIG, config)
    for arguments in (["check", config], ["check", config, "--json"], ["generate", config, "-o", tmp_path / "out"]):
        done = subprocess.run(
            [sys.executable, "-m", "udogen", *arguments],
            capture_output=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_a_bar_while_a_person_watches_and_lines_otherwise(built: Path) -> None:
    shutil.rmtree(built / "obj")
    code, message = on_terminal("build", "-C", built)
    assert code == 0, message
    assert "━" in message and "5/5" in message
    assert "  CXX src/ops/LeakyRelu.cpp\r\n" not in message
    shutil.rmtree(built / "obj")
    done = udogen("build", "-C", built)
    assert "  CXX src/ops/LeakyRelu.cpp\n" in done.stderr
    assert "\x1b" not in done.stderr + done.stdout and "━" not in done.stderr


def test_problems_fit_into_a_narrow_terminal(tmp_path: Path) -> None:
    text = CONFIG.read_text("utf-8").replace("<Datatype>FLOAT_32", f"<!-- {60 * 'x'} --><Datatype>FLOAT_33", 1)
    (tmp_path / "wide.xml").write_text(text, "utf-8")
    _, shown = on_terminal("check", tmp_path / "wide.xml", COLUMNS="40")
    lines = re.sub(r"\x1b\[\d*m", "", shown).splitlines()
    assert any("FLOAT_33" in line for line in lines) and any("^^^^" in line for line in lines)
    assert [line for line in lines if len(line) > 40 and "wide.xml" not in line] == []


def test_an_interrupt_while_the_command_is_imported(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    done = subprocess.run(
        [sys.executable, "-m", "udogen", "--version"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_colour_for_people_unless_they_say_no() -> None:
    _, coloured = on_terminal("check", "nofile.xml")
    _, plain = on_terminal("check", "nofile.xml", NO_COLOR="1")
    assert "\x1b[31m" in coloured
    assert "\x1b" not in plain
    assert "\x1b" not in udogen("check", "nofile.xml").stderr
