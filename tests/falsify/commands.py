"""Rows of the table for verbs, clients and files: a change of a right project, and the command that must end red."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.falsify.planted import (
    PACKAGES,
    RUN,
    Planted,
    after,
    built,
    changed,
    changed_array,
    emptied,
    flipped,
    in_cpp,
    model,
    network,
    rebuild,
    rebuilt,
    row,
)
from tests.making import udogen

CPU = PACKAGES["cpu"]
XML, TESTS, KERNEL = "Planted.xml", "op_tests.toml", "kernels/Planted.cpp"
FLOAT = "<Datatype>QNN_DATATYPE_FLOAT_32</Datatype>"
RUN_OP = ("run", "op", CPU, "Planted", "--input", "x=129")
RUN_MODEL = ("run", "model", "net.onnx", *RUN)
TEST = ("test", ".", "--backend", "cpu")
STEPS = ("run", "steps", ".", "--feed", "x=x.npy", "--against", "right.npz")


def _xml(folder: Path) -> None:
    changed(folder / XML, FLOAT, FLOAT.replace("32", "23"))


def _json(folder: Path) -> str:
    """A JSON config without the name of its op."""
    done = udogen("convert", XML, "--to", "json", "-o", "planted.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    changed(folder / "planted.json", '"type": "Planted"', '"typ": "Planted"')
    return "planted.json"


def _merged(folder: Path) -> Path:
    """Write the results of two parts of a run."""
    changed(folder / TESTS, 'shape = ["129"]', 'shape = ["129", "3"]')
    for number in (1, 2):
        done = udogen(*TEST, "--json", "--shard", f"{number}/2", cwd=folder)
        (folder / f"{number}.json").write_text(done.stdout)
    return folder


def _edited(path: Path, **keys: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


BAD_XML = r"Planted\.xml:\d+: error: .*FLOAT_23"
_BAD_OPS = "[[op]]\nname = 5\n"

COMMANDS: tuple[Planted, ...] = (
    # --- configs
    row("verb check, file config.xml", "malformed file", in_cpp, lambda f: after(_xml(f), "check", XML), 2, BAD_XML),
    row(
        "verb convert",
        "malformed file",
        in_cpp,
        lambda f: after(_xml(f), "convert", XML, "--to", "json", "-o", "x.json"),
        2,
        BAD_XML,
    ),
    row(
        "file config.json",
        "malformed file",
        in_cpp,
        lambda f: ("check", _json(f)),
        2,
        r"planted\.json:\d+: error: .*type",
    ),
    row("verb generate", "malformed file", in_cpp, lambda f: after(_xml(f), "generate", XML, "-o", "out"), 2, BAD_XML),
    row(
        "verb new", "malformed file", in_cpp, lambda f: after(_xml(f), "new", "again", "--from-config", XML), 2, BAD_XML
    ),
    # --- packages
    row(
        "verb build",
        "malformed file",
        built,
        lambda f: after(
            changed(f / f"{CPU}/src/ops/Planted.cpp", "args.factor *", "args.factr *"), "build", "cpu_x86", "-C", CPU
        ),
        4,
        r"Planted\.cpp:\d+.*factr",
    ),
    row(
        "verb build",
        "stale library",
        built,
        lambda f: after(_older(f), *TEST, "--no-build"),
        5,
        r"libPlantedOpPackage\.so was built from another",
    ),
    row(
        "verb inspect",
        "wrong package",
        built,
        lambda f: after((f / "libs.so").write_bytes(b"\x7fELF" + bytes(60)), "inspect", "libs.so"),
        5,
        r"libs\.so",
    ),
    row(
        "verb inspect",
        "other processor",
        built,
        lambda f: ("inspect", _library(f, "cpu"), "--against", _runtime("htp")),
        5,
        r"will not register",
    ),
    row(
        "verb inspect",
        "nothing compared",
        in_cpp,
        lambda f: after(udogen("generate", XML, "--kernels", "kernels", "-o", "out", cwd=f), "inspect", "out"),
        2,
        r"no library is built",
    ),
    # --- one op
    row(
        "verb run op",
        "exit",
        built,
        lambda f: after(rebuilt(f, "  for (", "  __builtin_trap();\n  for ("), *RUN_OP),
        5,
        r"Planted.*execute",
    ),
    row(
        "verb run op",
        "unwritten output",
        built,
        lambda f: after(rebuilt(f, "args.y.setReal(i, args.factor * args.x.real(i));", "(void)i;"), *RUN_OP),
        5,
        r"Planted.*`y`",
    ),
    row(
        "verb run op",
        "wrong package",
        built,
        lambda f: ("run", "op", CPU, "Planted", "--backend", "htp", "--input", "x=129"),
        2,
        r"cpu",
    ),
    # --- contexts and models
    row(
        "verb run context, file context binary",
        "malformed file",
        model,
        lambda f: after(flipped(f / "forward_0.bin"), "run", "context", ".", "--runtime", "emulator"),
        5,
        r"forward_0\.bin",
    ),
    row(
        "verb run steps",
        "wrong last op",
        model,
        lambda f: after(changed_array(f / "right.npz", "forward_1.y"), *STEPS),
        6,
        r"`forward_1\.y` is the first tensor that differs",
    ),
    row(
        "verb run steps", "nothing compared", model, lambda f: after(emptied(f / "right.npz"), *STEPS), 2, r"right\.npz"
    ),
    row(
        "verb run steps",
        "nothing compared",
        model,
        lambda f: ("run", "steps", ".", "--feed", "x=x.npy", "--prove"),
        2,
        r"--prove is about op packages, and none was given",
    ),
    row(
        "verb run steps, file model.toml",
        "malformed file",
        model,
        lambda f: after(changed(f / "model.toml", "sessions = 0", "sessions = 'x'"), "run", "steps", "model.toml"),
        2,
        r"model\.toml:\d+: error: .*sessions",
    ),
    row(
        "verb run steps",
        "dropped node",
        model,
        lambda f: after(changed(f / "model.toml", "[links]", '[links]\n"hiden" = "hidden"'), *STEPS),
        2,
        r"hiden",
    ),
    row(
        "verb run steps",
        "missing part",
        model,
        lambda f: after((f / "forward_1.bin").unlink(), *STEPS),
        2,
        r"forward_1\.y",
    ),
    row(
        "file context.json",
        "malformed file",
        model,
        lambda f: after((f / "forward_0_json.json").write_text('{"info": 5}'), "inspect", "forward_0_json.json"),
        2,
        r"forward_0_json\.json",
    ),
    # --- networks
    row(
        "verb run model",
        "wrong operator",
        network,
        lambda f: after(rebuilt(f, "args.factor *", "args.factor +"), *RUN_MODEL),
        6,
        r"scaled",
    ),
    row(
        "verb run model",
        "crash",
        network,
        lambda f: after(rebuilt(f, "  for (", "  __builtin_trap();\n  for ("), *RUN_MODEL),
        5,
        r"Planted",
    ),
    row("verb run model", "other processor", network, lambda f: after(_of_rank_3(f), *RUN_MODEL), 5, r"Planted"),
    row(
        "verb run model",
        "missing part",
        network,
        lambda f: ("run", "model", "net.onnx", "--input", "x=x.npy", "--tests", TESTS),
        2,
        r"Planted",
    ),
    row(
        "verb run model, file model.onnx",
        "malformed file",
        network,
        lambda f: after(flipped(f / "net.onnx"), *RUN_MODEL),
        2,
        r"net\.onnx",
    ),
    row(
        "verb onnx schema",
        "malformed file",
        network,
        lambda f: after(
            (f / "net.onnx").write_bytes(b"\x08\x0a" + bytes(9)),
            "onnx",
            "schema",
            "net.onnx",
            "--config",
            XML,
            "-o",
            "out.onnx",
        ),
        2,
        r"net\.onnx",
    ),
    row(
        "verb onnx fuse",
        "missing part",
        network,
        lambda f: ("onnx", "fuse", "net.onnx", "--nodes", "x..nowhere", "--name", "Fused"),
        2,
        r"nowhere",
    ),
    row(
        "verb onnx context",
        "malformed file",
        network,
        lambda f: ("onnx", "context", "x.npy", "-o", "out.onnx"),
        5,
        r"x\.npy",
    ),
    # --- tests
    row(
        "verb test",
        "exit",
        in_cpp,
        lambda f: after(changed(f / "reference.py", "import numpy as np", "import sys\n\nsys.exit(0)"), *TEST),
        2,
        r"reference\.py:\d+",
    ),
    row(
        "verb test",
        "exit",
        in_cpp,
        lambda f: after(changed(f / "reference.py", "    return", "    raise SystemExit(0)\n    return"), *TEST),
        5,
        r"reference\.py:\d+",
    ),
    row("verb test", "nothing compared", in_cpp, lambda f: (*TEST, "--case", "nothing"), 2, r"nothing"),
    row(
        "verb test",
        "nothing compared",
        in_cpp,
        lambda f: after(changed(f / TESTS, 'reference = "reference.py:planted"\n', ""), *TEST),
        2,
        r"Planted",
    ),
    row(
        "file op_tests.toml",
        "malformed file",
        in_cpp,
        lambda f: after((f / TESTS).write_text(_BAD_OPS), "test", "."),
        2,
        r"op_tests\.toml:\d+: error",
    ),
    row(
        "file reference.py",
        "wrong constant",
        in_cpp,
        lambda f: after(changed(f / "reference.py", "factor * x", "factor * x + 1"), *TEST),
        6,
        r"Planted on cpu",
    ),
    row(
        "file reference.py",
        "nothing compared",
        in_cpp,
        lambda f: after(changed(f / "reference.py", "factor * x", "()"), *TEST),
        5,
        r"reference\.py:planted returns no `y`",
    ),
    row(
        "verb test --merge",
        "missing part",
        in_cpp,
        lambda f: after(_merged(f), "test", "--merge", "1.json"),
        2,
        r"missing: part 2/2",
    ),
    row(
        "verb test --merge",
        "missing part",
        in_cpp,
        lambda f: after(_merged(f), "test", "--merge", "1.json", "1.json"),
        2,
        r"twice",
    ),
    row(
        "verb test --merge",
        "dropped node",
        in_cpp,
        lambda f: after(_edited(_merged(f) / "2.json", cases=[]), "test", "--merge", "1.json", "2.json"),
        2,
        r"2\.json",
    ),
    # --- programs that load packages
    row("verb register", "wrong package", built, lambda f: ("register", ".", "--client", "ort"), 2, r"package"),
    row(
        "verb script",
        "missing part",
        built,
        lambda f: ("script", CPU, "--client", "cpp", "-o", "s", "--model", "no.bin"),
        2,
        r"no\.bin",
    ),
    row("verb explain", "malformed file", in_cpp, lambda f: ("explain", "123456789"), 2, r"123456789"),
    row("verb doctor", "missing part", in_cpp, lambda f: ("doctor", "--warm", "nothing"), 2, r"nothing"),
)


def _older(folder: Path) -> None:
    """Change the kernel after a test has built it, and give it an old date."""
    assert udogen(*TEST, cwd=folder).returncode == 0
    changed(folder / KERNEL, "args.factor *", "3.0f * args.factor *")
    os.utime(folder / KERNEL, (0, 0))


def _of_rank_3(folder: Path) -> None:
    """A package that does not accept the shapes of the model."""
    changed(folder / XML, "<Rank>ND</Rank>", "<Rank>3D</Rank>")
    rebuild(folder, "cpu")


def _library(folder: Path, backend: str) -> Path:
    [library] = (folder / PACKAGES[backend]).rglob("libPlanted*.so")
    return library


def _runtime(backend: str) -> Path:
    from udogen.runtime import find_runtime

    return find_runtime(backend).path
