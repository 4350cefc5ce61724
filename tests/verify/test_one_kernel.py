"""One kernel source on CPU, HTP and DSP, also as Hexagon code; features that a backend lacks are compile errors."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.making import ROOT, compiler, make, make_packages, need_runtime

FOLDER = ROOT / "tests" / "verify" / "one_kernel"
STATE = "struct State { float a; };\n"
PLAIN = "udo::Status execute(const Args&) { return udo::ok; }\n"
WITH_STATE = "udo::Status execute(const Args&, const State&) { return udo::ok; }\n"
MISTAKES = [
    ("cpu", "", "must define `udo::Status execute"),
    ("cpu", "namespace { udo::Status execute(const Args&) { return udo::ok; } }", "outside of an unnamed one"),
    ("dsp", "udo::Status execute(const Args&, const udo::Slice&) { return udo::ok; }", "which HTP alone has"),
    ("htp", "udo::Status execute(const Args&, udo::Dsp&) { return udo::ok; }", "which DSP V65 and V66 alone have"),
    ("cpu", PLAIN + "void hooks(Hooks&) {}", "hooks.. is for HTP alone"),
    (
        "cpu",
        PLAIN + "const void* look(const Args& a) { return a.bias.block(0); }",
        "only HTP has tensors in blocks",
    ),
    ("dsp", STATE + WITH_STATE, "`struct State` needs"),
    ("cpu", "udo::Status prepare(const Args&, State&) { return udo::ok; }\n" + WITH_STATE, "define `struct State`"),
    (
        "htp",
        STATE
        + "udo::Status prepare(const Args&, State&) { return udo::ok; }\n"
        + WITH_STATE.replace("const State", "State"),
        "execute.. takes `const State&`",
    ),
]


def packages(out: Path, backend: str, kernels: Path | None = None) -> Path:
    [made] = make_packages([FOLDER / "OneKernel.xml"], out, chosen=[backend], kernels=kernels, layout="qnn")
    return made.folder


def test_one_source_is_right_everywhere() -> None:
    for backend in ("cpu", "htp"):
        need_runtime(backend)
    places = ("cpu", "htp", "hexagon", "dsp")
    done = udogen("test", FOLDER, *(word for place in places for word in ("--backend", place)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"FLOAT_32 +8 passed +6 passed +6 passed +- *\n", done.stdout)
    assert re.search(r"UFIXED_POINT_8 +8 passed +6 passed +6 passed +8 passed", done.stdout)
    assert "84 passed" in done.stdout


@pytest.mark.parametrize("name", ["g++", "clang++"])
@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_it_compiles_without_a_warning(backend: str, name: str, tmp_path: Path) -> None:
    folder = packages(tmp_path, backend, FOLDER / "kernels")
    done = make(folder, f"{backend}_x86", X86_CXX=compiler(name), flags="-Werror -Wpedantic -Wshadow -Wconversion")
    assert done.returncode == 0, done.stderr


def test_a_kernel_for_one_backend_comes_first(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    (kernels / "htp").mkdir(parents=True)
    (kernels / "Blend.cpp").write_text("// for all\n")
    (kernels / "htp" / "Blend.cpp").write_text("// for htp\n")
    written = {b: (packages(tmp_path / b, b, kernels) / "src/ops/Blend.cpp").read_text() for b in ("cpu", "htp", "dsp")}
    assert written == {"cpu": "// for all\n", "htp": "// for htp\n", "dsp": "// for all\n"}


@pytest.mark.parametrize(("backend", "text", "sentence"), MISTAKES)
@pytest.mark.parametrize("name", ["g++", "clang++"])
def test_what_a_backend_cannot_do_is_a_sentence(
    backend: str, text: str, sentence: str, name: str, tmp_path: Path
) -> None:
    folder = packages(tmp_path, backend)
    (folder / "src/ops/Blend.cpp").write_text(
        f'#include "ops/Blend.hpp"\nnamespace ops::OneKernel::Blend {{\n{text}\n}}\n'
    )
    argv = [name, "-std=c++17", "-fsyntax-only", "-Iinclude", "-Iinclude/QNN", "src/ops/Blend.cpp"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    assert done.returncode != 0
    assert re.search(sentence, done.stderr), done.stderr
