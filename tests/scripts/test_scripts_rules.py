"""`udogen script`: its output (golden), which shells and old Pythons accept, and everything that it refuses."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.clients.laying import PLAIN, lay
from tests.command_line import udogen
from tests.scripts import goldens
from tests.scripts.goldens import GOLDEN, GRAPH, PLAIN_GRAPH
from udogen import ToolMissing, UdogenError, UsageError, resources
from udogen.backends import architectures
from udogen.build.tools import Environment
from udogen.cli import script as verb
from udogen.clients import programs
from udogen.clients.client import Refused
from udogen.clients.scripts import commands, tensors
from udogen.clients.scripts import plan as plans
from udogen.clients.scripts.make_plan import ScriptOptions, hexagon_versions, make_plan
from udogen.qnn import socs

# --- golden files, and programs that read them --------------------------------------------------------------


def test_every_client_and_device_has_its_golden_file(tmp_path: Path) -> None:
    found = goldens.goldens(tmp_path)
    assert set(found) == {each.name for each in GOLDEN.iterdir()}
    for name, text in found.items():
        assert text == (GOLDEN / name).read_text("utf-8"), f"{name}: `make golden`, and look at the difference"


def test_the_command_names_the_clients_of_the_tables() -> None:
    assert set(verb.CLIENTS) == set(commands.ALL) <= set(programs.ALL)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the example with the files of every target, and files to run."""
    found = tmp_path_factory.mktemp("base")
    lay(PLAIN, found / "htp")
    lay(PLAIN, found / "both", chosen=("cpu", "htp"))
    (found / "model.bin").write_bytes(b"context")
    (found / "model.so").write_bytes(b"\x7fELF")
    np.save(found / "x.npy", np.arange(4, dtype=np.float32))
    np.save(found / "long.npy", np.arange(5, dtype=np.float32))
    np.save(found / "complex.npy", np.zeros(4, dtype=np.complex64))
    (found / "bad.npy").write_bytes(b"no array")
    return found


def options(base: Path, **more: Any) -> ScriptOptions:
    """Return a script of qnn-net-run for Android, with changes."""
    given = ScriptOptions((base / "htp",), "qnn-net-run", base / "model.so", on="adb", target="v75")
    return replace(given, **more)


def plan(given: ScriptOptions, graph: Any = PLAIN_GRAPH) -> Any:
    with (
        patch("udogen.clients.scripts.make_plan._graph_of", lambda *_: graph),
        patch(
            "udogen.clients.scripts.make_plan.build_own_client", lambda *_, **__: given.paths[0].parent / "model.bin"
        ),
    ):
        return make_plan(given)


@pytest.mark.parametrize("on", ["adb", "ssh:me@board", ""])
def test_shellcheck_finds_nothing(base: Path, tmp_path: Path, on: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed: apt-get install shellcheck")
    x = str(base / "x.npy")
    made, kept = plan(options(base, on=on, target="v75" if on else "", inputs=(("i", x),), references=(("o", x),)))
    plans.write_script(tmp_path, plans.script_files(made, kept))
    argv = ["shellcheck", "-s", "sh", str(tmp_path / "device.sh")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_run_py_is_python_3_8() -> None:
    text = (resources.templates() / "scripts" / "run.py.in").read_text("utf-8")
    tree = ast.parse(text, feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not imported & {"click", "mako", "numpy", "udogen"}


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("plain", "plain"),
        ("", "''"),
        ("it's $x; a", "'it'\"'\"'s $x; a'"),
        (f"{plans.RUN}/a b.so:P:CPU", "\"$run\"'/a b.so:P:CPU'"),
        (plans.OUT, '"$out"'),
    ],
)
def test_words_as_the_device_reads_them(word: str, text: str) -> None:
    assert plans.as_shell(word) == text
    done = subprocess.run(
        ["sh", "-c", f"printf %s {text}"],
        env={"run": "/r n", "out": "/o'"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = word.replace(plans.RUN, "/r n").replace(plans.OUT, "/o'")
    assert done.stdout == expected


# --- processors ---------------------------------------------------------------------------------------------


def test_devices_have_known_hexagon_versions_and_agree_with_the_table_of_processors() -> None:
    versions = hexagon_versions()
    assert set(versions.values()) <= set(architectures.of_backend("htp"))
    rows = resources.facts("devices")["device"]
    for row in rows:
        assert row.keys() <= {"name", "arch", "code_names", "ids"}
        names = [row["name"], *row.get("code_names", []), *map(str, row.get("ids", []))]
        assert {versions[name.upper()] for name in names} == {row["arch"]}
    assert len({row["name"] for row in rows}) == len(rows)
    assert all(versions[row.name] == row.arch for row in socs.ALL.values())


# --- refusals -----------------------------------------------------------------------------------------------

X = "{base}/x.npy"
# (options, the beginnings of message and hint); {base} is the folder of the fixture.
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"paths": ("{base}/both",), "target": ""},
        "{base}/both has packages for cpu, htp",
        "choose with --target cpu",
    ),
    ({"target": "htp"}, "the Hexagon version is unknown", "name it: --target v75"),
    ({"on": ""}, "--target v75 is for linux, and the client runs on pc", "name only the backend"),
    ({"on": "ssh:-oProxyCommand=x"}, "--on ssh:-oProxyCommand=x: this is not a device", "--on ssh:USER@HOST"),
    ({"model": "{base}/none"}, "{base}/none cannot be read: No such file or directory", "give the model"),
    ({"graph": "g"}, "--graph chooses among the graphs of a context binary", "leave it out"),
    ({"inputs": (("i", X),) * 2}, "--input is given twice for one tensor", "a script runs one set of inputs"),
    (
        {"inputs": (("a/b", X), ("a b", X))},
        "the tensors a/b and a b would have the same file",
        "rename one of them",
    ),
    (
        {"inputs": (("a b", X),)},
        "input 'a b' cannot be in an input list: blanks separate its entries",
        "rename it in the model, or use --client cpp",
    ),
    (
        {"inputs": (("i", "{base}/bad.npy"),)},
        "{base}/bad.npy is not an array that numpy can load",
        "save it with numpy.save",
    ),
    (
        {"inputs": (("i", "{base}/complex.npy"),)},
        "{base}/complex.npy holds complex64, which no tensor has",
        "one of float16, float32,",
    ),
    (
        {"inputs": (("i", "{base}/none"),)},
        "{base}/none cannot be read: No such file or directory",
        "give the path of a .npy file",
    ),
]


def below(base: Path, value: Any) -> Any:
    """Return an option with the folder of the fixture."""
    if isinstance(value, tuple):
        return tuple(below(base, item) for item in value)
    return value.format(base=base) if isinstance(value, str) else value


@pytest.mark.parametrize(("more", "sentence", "hint"), REFUSED, ids=[row[1][:40] for row in REFUSED])
def test_refused(base: Path, more: dict[str, Any], sentence: str, hint: str) -> None:
    given = {name: below(base, value) for name, value in more.items()}
    if "model" in given:
        given["model"] = Path(given["model"])
    if "paths" in given:
        given["paths"] = tuple(map(Path, given["paths"]))
    with pytest.raises(UsageError) as caught:
        plan(options(base, **given))
    assert caught.value.message.startswith(sentence.format(base=base))
    assert caught.value.hint.startswith(hint)
    assert caught.value.exit_code == 2


def test_the_rules_of_the_client_hold_for_scripts_too(base: Path) -> None:
    with pytest.raises(Refused, match=r"^snpe-net-run: package LeakyReluPackage has no registration library"):
        plan(options(base, client="snpe-net-run"))


def test_inputs_and_references_are_compared_with_the_graph_all_at_once(base: Path) -> None:
    x, long = str(base / "x.npy"), str(base / "long.npy")
    requested = options(base, client="cpp", model=base / "model.bin")
    with pytest.raises(UsageError) as caught:
        plan(replace(requested, inputs=(("j", x),), references=(("out[0]", long),)), GRAPH)
    assert [caught.value.message, *caught.value.details] == [
        f"{base}/model.bin: the graph's input in[0] is not given",
        "the graph has no input j; it has in[0]",
        f"{long} has 20 bytes of float32; output out[0] is UFIXED_POINT_8 1x2x2x1, 4 bytes",
    ]


def test_qnn_net_run_takes_floats_for_quantized_tensors(base: Path) -> None:
    """It converts them; udogen's client does not."""
    rows = {"inputs": (("in[0]", str(base / "x.npy")),), "references": (("out[0]", str(base / "x.npy")),)}
    made, _ = plan(options(base, model=base / "model.bin", **rows), GRAPH)
    assert [check.dtype for check in made.checks] == ["float32"]
    assert "--use_native_output_files" not in made.command.words
    with pytest.raises(UsageError, match=r"x\.npy has 16 bytes of float32; output out\[0\] is UFIXED_POINT_8"):
        plan(options(base, client="cpp", model=base / "model.bin", **rows), GRAPH)


def test_the_tolerance_is_that_of_the_type_in_the_graph(base: Path) -> None:
    np.save(base / "four.npy", np.frombuffer(b"abcd", np.uint8))
    rows = {"inputs": (("in[0]", str(base / "x.npy")),), "references": (("out[0]", str(base / "four.npy")),)}
    made, _ = plan(options(base, client="cpp", model=base / "model.bin", **rows), GRAPH)
    [check] = made.checks
    assert (check.dtype, check.absolute, check.relative) == ("uint8", 1.0, 0.0)  # one step, as in `udogen test`


def test_nothing_built_for_the_device(base: Path, tmp_path: Path) -> None:
    lay(PLAIN, tmp_path / "p")
    for each in (tmp_path / "p").rglob("hexagon-*/*.so"):
        each.unlink()
    with pytest.raises(UdogenError, match="is not built for Hexagon v75"):
        plan(options(base, paths=(tmp_path / "p",)))


def test_the_client_for_android_needs_the_ndk(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing) as caught:
        commands.build_own_client("android", Environment())
    assert caught.value.message == "udogen's client for Android needs the NDK: ANDROID_NDK_ROOT is unset"
    with pytest.raises(ToolMissing, match="which has no toolchains/llvm"):
        commands.build_own_client("android", Environment(android_ndk_root=str(tmp_path)))


def test_names_of_files_are_plain() -> None:
    assert [tensors.file_name(name) for name in ("a/b:0", "..", "it's", "")] == ["a_b_0", "_", "it_s", "_"]


# --- the folder ---------------------------------------------------------------------------------------------


def test_a_folder_is_written_again_and_outputs_stay(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("i", "j"):
        made, kept = plan(options(base, inputs=((name, str(base / "x.npy")),)))
        plans.write_script(out, plans.script_files(made, kept))
        (out / "notes.txt").write_text("mine")
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "input_list.txt").read_text() == "j:=inputs/j.raw\n"


def test_two_libraries_of_one_name(base: Path, tmp_path: Path) -> None:
    """One would replace the other."""
    (tmp_path / "Other.xml").write_text(PLAIN.read_text().replace("LeakyReluPackage", "OtherPackage"))
    lay(tmp_path / "Other.xml", tmp_path / "other")
    library = next((tmp_path / "other").rglob("x86_64-linux-clang/libQnnOtherPackage.so"))
    renamed = library.rename(tmp_path / "libQnnLeakyReluPackage.so")
    with pytest.raises(UsageError, match=r"^two files would be libQnnLeakyReluPackage\.so in one folder: "):
        plan(options(base, on="", target="htp", paths=(base / "htp", renamed)))


def test_a_folder_of_others_is_left_alone(base: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    made, kept = plan(options(base))
    with pytest.raises(UsageError) as caught:
        plans.write_script(tmp_path, plans.script_files(made, kept))
    assert caught.value.message == f"{tmp_path} has files that `udogen script` did not write"
    with pytest.raises(UsageError, match="is a file, not a folder"):
        plans.write_script(tmp_path / "mine.txt", plans.script_files(made, kept))
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


def test_the_result_as_json(base: Path, tmp_path: Path) -> None:
    chosen = "--client qnn-net-run --on adb --target v75 --json".split()
    done = udogen("script", base / "htp", *chosen, "--model", base / "model.so", "-o", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["ok"] is True
    assert shown["plan"] == json.loads((tmp_path / "o/plan.json").read_text())
    assert set(shown["written"]) >= {"run.py", "device.sh", "plan.json"}
