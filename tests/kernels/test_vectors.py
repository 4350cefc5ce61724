"""Vector functions for Hexagon are executed against their scalar twins when they are built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.kernels.random_kernels import config, definition
from tests.making import make_packages, need_packets, open_package
from udogen import PackageLibrary, resources
from udogen.build import make, tools, vectors
from udogen.build.qemu import find_qemu
from udogen.build.zig_libraries import BASE, hexagon_flags
from udogen.verify.report import machine, merge, page, terminal
from udogen.verify.results import TestRun

pytest.importorskip("halide", reason="pip install '.[kernels]'")

MACHINE = "hexagon-v73"
# op -> its inputs and outputs with their types, and its kernel; @ is where the twin of a faulty package differs.
OPS: Mapping[str, tuple[Mapping[str, str], Mapping[str, str], str]] = {
    "Elements": (
        {"a": "UINT_8", "b": "UINT_8"}, {"y": "UINT_8"},
        "a, b, y):\n    y[i] = (a[i] & b[i]) + hl.u8(hl.select(i == a.size - 1, @, 0))",
    ),
    "InRows": (
        {"x": "UINT_16"}, {"y": "UINT_16"},
        "x: Rows, y: Rows):\n    y[i] = (x[i] ^ x[x.size - 1 - i]) + hl.u16(hl.select(i == 0, @, 0))",
    ),
    "Image": (
        {"x": "INT_32"}, {"y": "INT_32"},
        "x: Whole(3), y: Whole(3)):\n    j, k = hl.Var('j'), hl.Var('k')\n"
        "    y[i, j, k] = (x[i, j, k] ^ x[hl.max(i - 1, 0), j, k]) + hl.select(j == 1, @, 0)",
    ),
    "Dot": (
        {"a": "UINT_8", "b": "UINT_8"}, {"y": "INT_32"},
        "a: Whole(2), b: Whole(2), y: Whole(2)):\n    j, r = hl.Var('j'), hl.RDom([(0, a.extent(0))])\n"
        "    y[i, j] = hl.sum(r, hl.i32(a[r.x, j]) * b[i, r.x]) + hl.select(i == 130, @, 0)",
    ),
    "Pair": (
        {"a": "UINT_16", "b": "UINT_16"}, {"y": "UINT_16", "z": "UINT_16"},
        "a, b, y, z):\n    y[i] = a[i] + b[i]\n    z[i] = a[i] - b[i] + hl.u16(@)",
    ),
    "Scheduled": (
        {"a": "UINT_16"}, {"y": "UINT_16"},
        "a, y):\n    y[i] = hl.min(a[i], 200) + hl.u16(@)\n\n"
        "def schedule(machine, y):\n    lanes = machine.vector\n"
        "    y.func.specialize(y.size >= 2 * lanes).vectorize(y.indices[0], 2 * lanes, hl.TailStrategy.ShiftInwards)\n"
        "    return True",
    ),
    "Inside": (  # the integers of a function in floats
        {"a": "INT_32"}, {"y": "FLOAT_32"},
        "a, y):\n    y[i] = hl.f32(hl.i16(a[i] & 1023) + hl.i16(@)) * 0.5",
    ),
    "Half": ({"x": "FLOAT_16"}, {"y": "FLOAT_16"}, "x, y):\n    y[i] = hl.max(x[i], 0.0)"),
}  # fmt: skip
WRONG = {"Elements": "y", "InRows": "y", "Image": "y", "Dot": "y", "Pair": "z", "Scheduled": "y"}
WRONG |= {"Inside": "integer 1 of line 7"}


def package(folder: Path, fault: int, names: Iterable[str] = OPS) -> PackageLibrary:
    """A package with these ops; `fault` is added to some of the elements."""
    (folder / "kernels").mkdir(parents=True)
    for name in names:
        kernel = OPS[name][2]
        head = "import halide as hl\nfrom udogen.kernels import Rows, Whole\n\ni = hl.Var('i')\n\n"
        text = f"{head}def {name}({kernel}\n".replace("@", str(fault))
        (folder / "kernels" / f"{name}.py").write_text(text)
    file = folder / "Vectors.xml"
    file.write_text(config("Vectors", [definition(name, *OPS[name][:2]) for name in names]))
    [made] = make_packages([file], folder / "out", chosen=["htp"], kernels=folder / "kernels", layout="qnn")
    return open_package(made.folder)


def compiled(folder: PackageLibrary) -> dict[str, vectors.Execution]:
    steps: list[str] = []
    found = make.compile_python_kernels(folder, [MACHINE], steps.append, 2)
    return {each.function.removeprefix("Vectors_"): each for each in found[MACHINE]}


# The real QEMU, except that it ends the probes for floats with success.
QEMU = """#!/bin/sh
case "$*" in
--version) echo "qemu-hexagon version 99.1.0" ;;
*qfloat | *ieee) ;;
*) exec {real} "$@" ;;
esac
"""
# A function that calculates what its twin does, and multiplies the first element.
FLOATS = """typedef struct {{ unsigned long long device; void *interface; {kind} *host; }} Buffer;
int {twin}(void *, void *, Buffer *);
int {name}(void *user, void *in, Buffer *out) {{
  int status = {twin}(user, in, out);
  return out->host[0] = ({kind})((float)out->host[0] * {factor}f), status;
}}
"""


# A function that calculates what another does, and does not return with one number of elements.
HANGS = """typedef struct {{ int min, extent; }} Dimension;
typedef struct {{ unsigned long long device; void *interface, *host; unsigned long long flags; int type, dimensions;
  Dimension *dim; }} Buffer;
int {other}(void *, void *, Buffer *);
int {name}(void *user, void *in, Buffer *out) {{
  if (out->host == 0) return 0;  /* a twin is asked for the lengths that it needs: these */
  while (out->dim->extent == {elements}) __asm__ volatile("");
  return {other}(user, in, out);
}}
"""


def replace_function(folder: Path, name: str, text: str) -> None:
    source = folder / "replaced.c"
    source.write_text(text)
    argv = [*tools.zig(), "cc", *hexagon_flags(BASE), "-O1", "-c", str(source)]
    subprocess.run([*argv, "-o", str(folder / f"{name}.o")], check=True)


def replace_floats(folder: Path, factor: float) -> None:
    """Replace the functions in floats, which the real QEMU does not execute."""
    for row in json.loads((folder / vectors.TWINS / vectors.FUNCTIONS).read_text()):
        if kind := {"f16": "_Float16", "f32": "float"}.get(row.get("floats", "")):
            replace_function(folder, row["name"], FLOATS.format(kind=kind, factor=factor, **row))


def test_floats_are_executed_where_qemu_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_packets()
    qemu = tmp_path / "bin" / "qemu-hexagon"
    qemu.parent.mkdir()
    qemu.write_text(QEMU.format(real=tools.program("qemu-hexagon")))
    qemu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{qemu.parent}{os.pathsep}{os.environ['PATH']}")
    made = package(tmp_path, 0, ["Inside", "Half"])
    lacks = "qemu-hexagon 99.1.0 does not execute an instruction of it"
    found = compiled(made)
    floats = {name for name in found if not name.endswith("_integers")}
    assert len(floats) == 4 and {found[name].why_not for name in floats} == {lacks}
    for op, factor in (("Inside", 1.00005), ("Inside", 1.5), ("Half", 1.0005), ("Half", 1.5)):
        folder = made.path / "src" / "ops" / f"{op}.halide" / MACHINE
        replace_floats(folder, factor)
        done = udogen("build", "htp_v73", "-C", made.path, "--json")
        result = json.loads(done.stdout)
        if factor < 1.1:
            rows = [row for row in result["artifacts"][0]["vectors"] if op in row["kernel"] and row["note"]]
            assert done.returncode == 0 and len(rows) == 2 and all(row["executed"] for row in rows)
        else:
            text = result["error"]["message"]
            assert done.returncode == 4 and f"/{op}.py:" in text and "is wrong: element 0 of `y` is " in text
            replace_floats(folder, 1.0)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_packets()
    monkeypatch.setattr(resources, "cache_dir", lambda name, known=resources.cache_dir: (
        tmp_path / name if name == "kernels" else known(name)))  # fmt: skip


# Which function does not return with how many elements -> the lengths that are compared.
SLOW = {("twin", 1000): {127, 128, 257, 37, 5}, ("twin", 127): set(), ("vector", 1000): set(), ("vector", 127): set()}


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize(("phase", "elements"), SLOW)
def test_slow_calls_are_stopped(phase: str, elements: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_CALL_SECONDS", 1)
    made = package(tmp_path, 0, ["Scheduled"])
    before = compiled(made)["Scheduled_u16"]
    assert 1000 in before.elements and not before.note
    folder = made.path / "src" / "ops" / "Scheduled.halide" / MACHINE
    row = json.loads((folder / vectors.TWINS / vectors.FUNCTIONS).read_text())[0]
    name, other = (row["twin"], row["name"]) if phase == "twin" else (row["name"], row["twin"])
    text = HANGS.format(name=name, other=other, elements=elements)
    replace_function(folder / vectors.TWINS if phase == "twin" else folder, name, text)
    found = compiled(made)["Scheduled_u16"]
    took = f"took longer than 10 seconds in {phase}"
    assert set(found.elements) == SLOW[phase, elements]
    assert found.note == (f"a longer call {took}" if found.executed else "")
    assert found.why_not == ("" if found.executed else f"it {took} with drawn numbers")


@pytest.mark.usefixtures("empty_cache")
def test_a_check_that_does_not_link_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = package(tmp_path, 0, ["Pair"])
    with monkeypatch.context() as broken:
        broken.setattr(vectors, "HEXAGON", replace(vectors.HEXAGON, flags=("-missing",)))
        assert all(each.why_not.startswith("its check does not link") for each in compiled(made).values())
    assert all(each.executed for each in compiled(made).values())


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[PackageLibrary, PackageLibrary]:
    """A package, and one with other numbers, both compiled."""
    need_packets()
    right, other = (package(tmp_path_factory.mktemp("vectors"), fault) for fault in (0, 1))
    compiled(right)
    compiled(other)
    return right, other


def test_vector_functions_are_executed(packages: tuple[PackageLibrary, PackageLibrary]) -> None:
    right, _ = packages
    found = compiled(right)
    floats = {name for name in found if name.startswith(("Inside", "Half")) and not name.endswith("_integers")}
    assert len(floats) == 4 and {name for name, each in found.items() if not each.executed} == floats
    lacks = f"qemu-hexagon {find_qemu().version} does not execute HVX floating point"
    assert {each.why_not for each in found.values() if not each.executed} == {lacks}
    lengths = {name: len(each.elements) for name, each in found.items() if each.executed}
    assert set(lengths.values()) == {len(vectors.SHAPES)}, lengths
    assert found["Pair_u16"].kernel.endswith("/Pair.py:8")


@pytest.mark.parametrize("op", WRONG)
def test_a_function_that_differs_from_its_twin_fails_the_build(
    op: str, packages: tuple[PackageLibrary, PackageLibrary]
) -> None:
    right, other = packages
    kernel = right.path / "src" / "ops" / f"{op}.halide" / MACHINE / vectors.TWINS
    saved = kernel.with_name("saved")
    shutil.copytree(kernel, saved)
    try:
        for twin in (other.path / kernel.relative_to(right.path)).glob("*_twin.o"):
            shutil.copy(twin, kernel)
        done = udogen("build", "htp_v73", "-C", right.path)
    finally:
        shutil.rmtree(kernel)
        saved.rename(kernel)
    assert done.returncode == 4, done.stdout + done.stderr
    where = f"kernels/{op}.py:"
    wrong = "for Hexagon is wrong: element "
    assert where in done.stderr and wrong in done.stderr and f"of `{WRONG[op]}` is " in done.stderr, done.stderr


def test_what_was_not_executed_is_named(
    packages: tuple[PackageLibrary, PackageLibrary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_harness_key", lambda: b"another")  # nothing is cached
    monkeypatch.setattr(tools, "program", lambda name: "" if name == "qemu-hexagon" else shutil.which(name) or "")
    folder = package(tmp_path, 0, ["Pair"])
    done = udogen("build", "htp_v73", "-C", folder.path, "--json")
    [artifact] = json.loads(done.stdout)["artifacts"]
    assert done.returncode == 0 and {each["why_not"] for each in artifact["vectors"]} == {vectors.NO_QEMU}
    done = udogen("build", "htp_v73", "-C", folder.path)
    assert "built, not executed: Vectors_Pair_" in done.stderr and "apt-get install qemu-user" in done.stderr


def test_reports_name_what_was_not_executed() -> None:
    line = "Relu.py:3: built, not executed: P_Relu_f32 (because)"
    run = TestRun(Path("here"), (), (), not_executed=(line,))
    result = machine.as_json(run)
    assert result["not_executed"] == [line] and set(result["counts"].values()) == {0}
    assert '<skipped message="Relu.py:3: built, not executed' in machine.junit(result)
    for text in (terminal.lines(run), merge.lines(result), [page.render(run)]):
        assert sum("built, not executed" in each for each in text) == 1
