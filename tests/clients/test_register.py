"""`udogen register`: the setup for every client (golden), read by shells and compilers, and every rule broken.

Libraries are stand-ins for the right machine, never loaded.  No client was run except ONNX Runtime (test_ort.py): the
syntax is from the sources that `Client.source` names.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients import laying
from tests.clients.broken_rules import BROKEN, at, toy
from tests.clients.laying import AWKWARD, AWKWARD_FOLDER, GOLDEN, PLAIN, lay
from tests.command_line import udogen
from udogen import RunFailed, UdogenError, UsageError
from udogen.cli import register as verb
from udogen.clients import programs
from udogen.clients.client import Refused, check_rules, register
from udogen.clients.package import Package, PackageOptions, find_packages
from udogen.clients.snippets import Literal
from udogen.opdef.names import cpp_string

HERE = PackageOptions()

# --- golden -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


def test_what_every_client_needs_is_golden(base: Path) -> None:
    found = laying.goldens(base)
    assert set(found) == {each.name for each in GOLDEN.iterdir()}
    for name, text in found.items():
        assert text == (GOLDEN / name).read_text("utf-8"), f"{name}: `make golden`, and look at the difference"
    assert {name.split(".")[0] for name in found} == set(programs.ALL)


def test_the_command_offers_every_client_and_each_names_its_source() -> None:
    assert list(programs.ALL) == verb.CLIENTS
    for client in programs.ALL.values():
        assert re.search(r"\d\.\d|SDK 2", client.source), client.name
        assert client.rules


# --- the programs that read it ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay(AWKWARD, tmp_path_factory.mktemp("awkward") / AWKWARD_FOLDER)


def setup(client: str, folder: Path, options: PackageOptions = HERE, *, only: str) -> str:
    return register(programs.ALL[client], find_packages([folder], options), only=only).as_text(only=True)


def test_a_shell_reads_flags_as_they_are_meant(awkward: Path) -> None:
    flag = setup("qnn-net-run", awkward, only="flag")
    done = subprocess.run(["sh", "-c", f'printf "%s\\n" {flag}'], capture_output=True, text=True, check=True)
    option, value = done.stdout.splitlines()
    [package] = find_packages([awkward], PackageOptions())
    assert (option, value) == ("--op_packages", f"{package.library.file}:{package.provider}")
    assert "$HOME" in value


def test_a_shell_on_the_device_reads_folders_as_they_are_meant(awkward: Path, tmp_path: Path) -> None:
    """`adb shell` passes its words to a shell on the device: a stand-in does the same."""
    options = PackageOptions("v75", "android", folder=f"{tmp_path}/it's a $HOME")
    copy = setup("cpp", awkward, options, only="copy")
    (tmp_path / "adb").write_text('#!/bin/sh\ncase $1 in shell) shift; sh -c "$*";; push) cp "$2" "$3";; esac\n')
    (tmp_path / "adb").chmod(0o755)
    subprocess.run(["sh", "-euc", copy], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    names = sorted(each.name for each in (tmp_path / "it's a $HOME").iterdir())
    assert names == ["libQnnx_0X1fPackage.so", "libQnnx_0X1fPackage_HTP.so"]
    setting = setup("cpp", awkward, options, only="environment")
    command = f'{setting}\nprintf "%s\\n%s" "$LD_LIBRARY_PATH" "$ADSP_LIBRARY_PATH"'
    done = subprocess.run(["sh", "-ec", command], env={}, capture_output=True, text=True, check=True)
    here, dsp = done.stdout.splitlines()
    assert here.split(":")[0] == dsp.split(";")[0] == f"{tmp_path}/it's a $HOME"


@pytest.mark.parametrize(("client", "kind"), [("ort", "python"), ("executorch", "python"), ("executorch", "builder")])
def test_python_reads_the_code(awkward: Path, client: str, kind: str) -> None:
    tree = ast.parse(setup(client, awkward, only=kind))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    [package] = find_packages([awkward], PackageOptions())
    assert any(str(package.library.file) in text for text in texts)


def test_litert_reads_the_flag(awkward: Path) -> None:
    """By the rules of its parser: fields end with `;`, the first `:` of each ends its name."""
    [word] = shlex.split(setup("litert", awkward, PackageOptions("v75", "android"), only="flag"))
    value = word.removeprefix("--qualcomm_custom_op_package=")
    fields = dict(field.split(":", 1) for field in value.split(";") if field)
    assert fields == {
        "name": "x_0X1fPackage",
        "interface_provider": "x_0X1fPackageInterfaceProvider",
        "compile_package_path": f"{awkward}/x_0X1fPackage/build/x86_64-linux-clang/libQnnx_0X1fPackage.so",
        "dispatch_package_path": "libQnnx_0X1fPackage_HTP.so",
        "target": "HTP",
    }


@pytest.mark.parametrize("text", ["plain", 'a"b', "a\\b", "ä\n\t", "??=x", "\x01f", "\udcff", "🎈", "$(x) `y`"])
def test_literals_hold_exactly_the_text(text: str) -> None:
    assert ast.literal_eval(Literal(text).python) == text
    octal = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), cpp_string(text)[1:-1])
    plain = octal.replace('\\"', '"').replace("\\?", "?").replace("\\\\", "\\")
    assert plain.encode("latin-1") == text.encode("utf-8", "surrogateescape")
    if "\udcff" not in text:  # bytes that are not UTF-8 cannot be written in Java
        assert json.loads(Literal(text).java) == text


# --- rules --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "rule", "packages", "sentence"), BROKEN)
def test_a_broken_rule(client: str, rule: str, packages: Callable[[], list[Package]], sentence: str) -> None:
    found = programs.ALL[client]
    with pytest.raises(Refused) as caught:
        check_rules(found, packages())
    assert caught.value.exit_code == 2
    row = next(each for each in found.rules if each.id == rule)
    lines = [caught.value.message, *caught.value.details]
    assert f"{found.title}: {sentence}" in lines or sentence in lines
    assert f"rule {rule}: {row.consequence}" in lines
    assert row.remedy in caught.value.hint


def test_every_rule_of_every_client_is_broken_here() -> None:
    broken = {(client, rule) for client, rule, *_ in BROKEN}
    broken.add(("snpe-dlc-quantize", "cpu"))  # test_the_quantizer_needs_a_cpu_implementation
    assert {(client.name, rule.id) for client in programs.ALL.values() for rule in client.rules} == broken


def test_one_error_has_all_broken_rules() -> None:
    with pytest.raises(Refused) as caught:
        check_rules(programs.ALL["ort"], [toy(ops=("A", "B"), libraries=at("/a:b.so"), provider="X")])
    assert [fault.kind for fault in caught.value.faults] == ["separators", "provider", "one-op"]


def test_the_quantizer_needs_a_cpu_implementation(tmp_path: Path) -> None:
    lay(PLAIN, tmp_path, layout="snpe", chosen=("htp",))
    with pytest.raises(Refused, match=r"(?m)^snpe-dlc-quantize: package LeakyReluPackage has no CPU implementation$"):
        setup("snpe-dlc-quantize", tmp_path, only="flag")


def test_what_is_not_built_for_a_device_is_named_with_its_target(tmp_path: Path) -> None:
    """The registration library alone is enough for the flag, and useless on a DSP without the library for Hexagon."""
    lay(PLAIN, tmp_path, layout="snpe", chosen=("htp",))
    options = PackageOptions("v75")
    assert "--use_dsp --platform_options unsignedPD:ON" in setup("snpe-net-run", tmp_path, options, only="command")
    [hexagon] = list(tmp_path.rglob("*v75*/*.so"))
    hexagon.unlink()
    with pytest.raises(Refused, match=r"Dsp.so does not exist \(udogen build dsp_v75 -C .*\)"):
        setup("snpe-net-run", tmp_path, options, only="command")


# --- which libraries ------------------------------------------------------------------------------------


def test_a_pair_of_libraries_given_one_by_one_is_one_package(awkward: Path) -> None:
    [pair] = find_packages([awkward], PackageOptions("v75", "android"))
    given = [library.file for library in pair.libraries]
    [merged] = find_packages(given, PackageOptions("v75", "android"))
    assert merged.libraries == pair.libraries
    with pytest.raises(UsageError, match=r"(?m)is the Hexagon half of package x_0X1fPackage; the ARM half is missing$"):
        find_packages(given[1:], PackageOptions("v75", "android"))
    with pytest.raises(UsageError, match=r"^package x_0X1fPackage is given twice: "):
        find_packages([awkward, awkward], PackageOptions())


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (PackageOptions(system="android"), "the Hexagon version is unknown", "name it: --target v75"),
        (
            PackageOptions("cpu_aarch64", "android"),
            "--target cpu_aarch64 is for linux, and the client runs on android",
            "name only the backend: --target cpu, gpu or htp; `udogen script` takes a device with --on adb",
        ),
        (PackageOptions("x9"), "--target x9: unknown target", ""),
        (
            PackageOptions("htp_aarch64"),
            "--target htp_aarch64 is one half of what HTP needs on a device",
            "name its Hexagon version (--target v75): the ARM library is included",
        ),
        (PackageOptions("htp", "android"), "the Hexagon version is unknown", "name it: --target v75"),
        (PackageOptions("cpu"), "{folder} has no package for cpu", "it has: htp"),
        (PackageOptions(ops=("Nope",)), "package x_0X1fPackage has no op Nope", "it has: R_u8_2"),
    ],
)
def test_impossible_options(awkward: Path, options: PackageOptions, message: str, hint: str) -> None:
    with pytest.raises(UdogenError) as caught:
        find_packages([awkward], options)
    assert caught.value.message == message.format(folder=awkward)
    assert caught.value.hint == hint or (not hint and caught.value.hint.startswith("one of cpu, gpu, htp, "))


def test_a_folder_of_several_backends_needs_a_choice(tmp_path: Path) -> None:
    lay(PLAIN, tmp_path, chosen=("cpu", "htp"))
    with pytest.raises(UsageError, match=r"(?m)has packages for cpu, htp$") as caught:
        find_packages([tmp_path], PackageOptions())
    assert caught.value.hint == "choose with --target cpu"
    [found] = find_packages([tmp_path], PackageOptions("htp"))
    assert found.library.file.parent.name == "x86_64-linux-clang"
    [found] = find_packages([tmp_path], PackageOptions("cpu_android"))
    assert found.library.path == "/data/local/tmp/udogen/LeakyReluPackage/libLeakyReluPackage.so"


def test_unbuilt_targets_are_listed_with_the_command_that_builds_them(tmp_path: Path) -> None:
    lay(PLAIN, tmp_path, chosen=("cpu",))
    for file in tmp_path.glob("**/arm64-v8a/*.so"):
        file.unlink()
    with pytest.raises(RunFailed) as caught:
        find_packages([tmp_path], PackageOptions("cpu_android"))
    assert caught.value.message == "package LeakyReluPackage is not built for the cpu backend of Android"
    assert caught.value.hint == f"udogen build cpu_android -C {tmp_path}/LeakyReluPackage"


def test_what_is_no_op_package(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_text("no library")
    with pytest.raises(UdogenError, match=r"(?m)is not a shared library \(ELF\): it is a text file$"):
        find_packages([tmp_path / "x.so"], PackageOptions())
    with pytest.raises(UsageError, match=r"(?m)none does not exist$"):
        find_packages([tmp_path / "none"], PackageOptions())


# --- the command --------------------------------------------------------------------------------------------


def test_the_command(awkward: Path) -> None:
    done = udogen("register", awkward, "--client", "qnn-net-run")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "# flag")
    done = udogen("register", awkward, "--client", "qnn-net-run", "--only", "flag")
    assert done.stdout.startswith("--op_packages ")
    done = udogen("register", awkward, "--client", "tflite", "--target", "v75", "--android", "--json")
    reply = json.loads(done.stdout)
    assert [each["target"] for each in reply["packages"][0]["libraries"]] == ["CPU", "HTP"]
    assert [each["kind"] for each in reply["parts"]] == ["cpp", "copy", "environment"]
    done = udogen("register", awkward, "--client", "snpe-net-run", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["kind"]) == (2, "client-rule")
    done = udogen("register", awkward, "--client", "cpp", "--only", "pp")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "  = did you mean `cpp`? it has: cpp")
