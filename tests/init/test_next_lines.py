"""The line `next: …` at the end of a verb: a project needs no other instruction, from `udogen new` to `register`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.making import ROOT, need_runtime


def next_command(stderr: str) -> str:
    """Return the command of the last line."""
    last = stderr.rstrip().splitlines()[-1]
    assert last.startswith("next: "), stderr
    return re.findall(r"`(.+?)`", last)[0]


def run_in_shell(command: str, folder: Path, programs: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run a command as printed; return the result, and the shell's folder afterwards."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{programs}:{os.environ['PATH']}"}
    script = f"{command} && pwd > {programs}/pwd"
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True)
    return done, Path((programs / "pwd").read_text().strip()) if done.returncode == 0 else folder


@pytest.mark.parametrize("options", ["--backend cpu", ""], ids=["cpu", "all backends"])
def test_from_a_new_project_to_a_program_by_the_next_lines_alone(options: str, tmp_path: Path) -> None:
    need_runtime("cpu")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "udogen").write_text(f'#!/bin/sh\nexec {sys.executable} -m udogen "$@"\n')
    (programs / "udogen").chmod(0o755)
    folder, command, commands = tmp_path, f"udogen new scale {options}".strip(), []
    while len(commands) < 6:
        commands.append(command)
        done, folder = run_in_shell(command, folder, programs)
        assert done.returncode == 0, (command, done.stderr)
        if "register" in command:
            break
        command = next_command(done.stderr)
    assert commands[1:4] == ["cd scale && make test", "make build", "make run"]
    package = "ScaleOpPackage" if options else "ScaleOpPackageCpu"
    assert commands[4:] == [f"udogen register out/{package} --client ort --target cpu"]
    assert "ScaleOpPackageInterfaceProvider" in done.stdout


BODY = re.compile(r"(udo::Status execute\(const Args& args\) \{\n)")


@pytest.mark.parametrize(
    ("broken", "code", "step"),
    [
        ("  does not compile\n", 4, "fix the errors of the compiler, then `{command}`"),
        ("  return udo::ok;\n", 6, "`{command} --html report.html`"),
        ('  return udo::error("it failed");\n', 5, "fix the first error, then `{command} --case 'Scale/"),
    ],
    ids=["does not compile", "wrong numbers", "an error"],
)
def test_what_comes_after_a_test_that_failed(broken: str, code: int, step: str, tmp_path: Path) -> None:
    need_runtime("cpu")
    folder = tmp_path / "scale"
    assert udogen("new", folder, "--backend", "cpu").returncode == 0
    kernel = folder / "kernels" / "Scale.cpp"
    text, count = BODY.subn(rf"\g<1>{broken}", kernel.read_text())
    assert count == 1
    kernel.write_text(text)
    done = udogen("test", folder, "--backend", "cpu")
    assert done.returncode == code, done.stderr
    expected = step.format(command=f"udogen test {folder} --backend cpu")
    assert done.stderr.splitlines()[-1].startswith(f"next: {expected}"), done.stderr
    if "--case" in step:
        words = shlex.split(next_command(done.stderr))
        assert "1 error" in udogen(*words[1:]).stdout


def test_a_package_without_a_project_is_run_with_inputs_of_its_config(tmp_path: Path) -> None:
    need_runtime("cpu")
    config = ROOT / "examples" / "leaky_relu" / "LeakyRelu.xml"
    kernels = config.parent / "kernels"
    assert udogen("generate", config, "--kernels", kernels, "--backend", "cpu", "-o", tmp_path / "out").returncode == 0
    library = "out/LeakyReluPackage/libs/x86_64-linux-clang/libLeakyReluPackage.so"
    for verb in ("build -C out", "inspect out", f"inspect {library}"):
        done = udogen(*verb.split(), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        command = next_command(done.stderr)
        assert re.match(r"udogen run op \S*out/LeakyReluPackage LeakyRelu --input input=", command), command
    ran = udogen(*command.split()[1:], cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert udogen(*next_command(ran.stderr).split()[1:], cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("error", ["3110", "QNN_DEVICE_ERROR_INVALID_CONFIG"])
def test_what_comes_after_an_explanation(error: str) -> None:
    assert next_command(udogen("explain", error).stderr) == "udogen doctor"


def test_what_comes_after_a_look_at_a_kernel_in_python() -> None:
    pytest.importorskip("halide")
    folder = ROOT / "examples" / "python_kernels"
    look = ("inspect", folder / "kernels" / "LeakyRelu.py", "--config", folder / "PythonKernels.xml")
    done = udogen(*look, "--machine", "x86_64-linux-clang")
    assert done.returncode == 0, done.stderr
    assert next_command(done.stderr) == f"udogen test {folder}"
