"""Codes that the functions of a DSP package return, also for wrong calls: compiled for this machine, sanitized."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.dsp.conftest import HERE
from udogen.runtime.built import Built

# The codes of UdoBase.h and QnnOpPackage.h.
EXPECTED = """\
provider NULL: 3200
provider: 0
terminate before init: 3001
getInfo before init: 3001
init NULL: 3200
init empty: 3200
init V3: 1000
init: 0
init twice: 0
getInfo NULL: 3101
getInfo: 0
Several 1 Scale
Scale 4 2 1
validate: 0
validate NULL: 2
validate other op: 100
validate without factor: 102
validate params NULL: 2
validate too many: 102
validate unknown param: 2
validate scalar for tensor: 2
validate float for integer: 2
validate text for scalar: 2
query: 0
2 0 1 0
query NULL: 2
query other op: 100
factory for CPU: 1
factory of other op: 100
factory nowhere: 2
factory: 0
operation without factory: 2
operation nowhere: 2
operation with 3 inputs: 104
operation with no inputs: 104
operation with no outputs: 105
operation with inputs nowhere: 2
operation: 0
execute NULL: 2
executions before: 0
execute: 0
3 2 9 9
execute and notify: 0
notified: 42
executions: 2
executions of all ops: 2
executions of other op: 18446744073709551615
counted: executions
execute with bytes: 2
execute without input: 2
execute with too small memory: 3
first error of 3 workers: 6
release NULL: 0
release: 0
release factory NULL: 0
release factory: 0
config empty: 3110
config of other op: 3110
config without tensors: 3110
config: 0
createOpImpl: 1000
freeOpImpl: 1000
terminate the second: 0
factory for the first: 0
release it: 0
terminate: 0
terminate twice: 3001
factory after terminate: 3
execute after terminate: 3
init again: 0
blocks left: 0
"""


@pytest.mark.parametrize("name", ["g++", "clang++"])
def test_every_call_gets_the_documented_code(several: Built, tmp_path: Path, name: str) -> None:
    compiler = shutil.which(name)
    if compiler is None:
        pytest.skip(f"{name} is not installed")
    assert several.folder is not None
    folder = several.folder.path
    sources = ["src/SeveralScaleInterface.cpp", "src/ops/Scale.cpp", "src/udogen_dsp.cpp"]
    flags = "-std=c++17 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all".split()
    includes = ["-Iinclude", "-Iinclude/QNN"]
    program = tmp_path / "calls"
    argv = [compiler, *flags, *includes, *sources, str(HERE / "calls.cpp"), "-o", str(program)]
    built = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == EXPECTED
    for line in ("package Several has no op `Head` in this library, which is Scale's", "lacks the mandatory parameter"):
        assert line in done.stderr
