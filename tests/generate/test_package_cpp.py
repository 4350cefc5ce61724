"""C++ files of every generated package, called directly: stored values, and nodes created in several threads."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.making import ROOT, make_packages

STORED = """
#include <cstdio>
#include <cstdlib>
#include "udogen.hpp"

int main(int argc, char** argv) {
  for (int i = 1; i + 4 < argc; i += 5) {
    const udo::Quantization quantization = {std::strtof(argv[i + 1], nullptr), std::atoi(argv[i + 2])};
    const float real = std::strtof(argv[i], nullptr);
    std::printf("%d\\n", quantization.toStored(real, std::atoi(argv[i + 3]), std::atoi(argv[i + 4])));
  }
}
"""

NODES = """
// Each thread validates nodes of its own, makes them and frees them, as a client with several graphs may do.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "CPU/QnnCpuOpPackage.h"
#include "QnnOpPackage.h"

extern "C" Qnn_ErrorHandle_t LeakyReluPackageInterfaceProvider(QnnOpPackage_Interface_t*);

static std::atomic<int> failed{0};

static void work(const QnnOpPackage_Interface_t& interface, int thread) {
  std::uint32_t dims[2] = {2, 3};
  Qnn_Tensor_t tensors[2] = {};
  QnnCpuOpPackage_Tensor_t shown[2] = {};
  for (int i = 0; i < 2; ++i) {
    tensors[i].version = QNN_TENSOR_VERSION_1;
    tensors[i].v1.name = i == 0 ? "input" : "output";
    tensors[i].v1.dataType = QNN_DATATYPE_FLOAT_32;
    tensors[i].v1.rank = 2;
    tensors[i].v1.dimensions = dims;
    shown[i].dataType = QNN_CPU_DATATYPE_FLOAT_32;
    shown[i].rank = 2;
    shown[i].maxDimensions = shown[i].currentDimensions = dims;
  }
  for (int number = 0; number < 50; ++number) {
    const std::string name = "node" + std::to_string(thread) + "_" + std::to_string(number);
    Qnn_OpConfig_t config = {};
    config.version = QNN_OPCONFIG_VERSION_1;
    config.v1.name = name.c_str();
    config.v1.packageName = "LeakyReluPackage";
    config.v1.typeName = "LeakyRelu";
    config.v1.numOfInputs = config.v1.numOfOutputs = 1;
    config.v1.inputTensors = &tensors[0];
    config.v1.outputTensors = &tensors[1];
    QnnCpuOpPackage_Tensor_t *in = &shown[0], *out = &shown[1];
    QnnCpuOpPackage_Node_t node = {};
    node.name = name.c_str();
    node.packageName = "LeakyReluPackage";
    node.typeName = "LeakyRelu";
    node.numOfInputs = node.numOfOutputs = 1;
    node.inputs = &in;
    node.outputs = &out;
    QnnOpPackage_OpImpl_t made = nullptr;
    if (interface.v1_4.validateOpConfig(config) != QNN_SUCCESS ||
        interface.v1_4.createOpImpl(nullptr, reinterpret_cast<QnnOpPackage_Node_t>(&node), &made) != QNN_SUCCESS) {
      ++failed;
      continue;
    }
    QnnCpuOpPackage_OpImpl_t copy = *reinterpret_cast<QnnCpuOpPackage_OpImpl_t*>(made);
    if (interface.v1_4.freeOpImpl(reinterpret_cast<QnnOpPackage_OpImpl_t>(&copy)) != QNN_SUCCESS) ++failed;
  }
}

int main() {
  QnnOpPackage_Interface_t interface = {};
  if (LeakyReluPackageInterfaceProvider(&interface) != QNN_SUCCESS) return 2;
  if (interface.v1_4.init(nullptr) != QNN_SUCCESS) return 3;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, std::cref(interface), i);
  for (std::thread& each : threads) each.join();
  if (interface.v1_4.terminate() != QNN_SUCCESS) return 4;
  std::printf("%d failed\\n", failed.load());
  return failed.load() == 0 ? 0 : 5;
}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = ROOT / "examples" / "leaky_relu" / "LeakyRelu.xml"
    [made] = make_packages([config], tmp_path_factory.mktemp("made"), chosen=["cpu"], layout="qnn")
    return made.folder


def compiled(folder: Path, text: str, include: str, sources: Sequence[str] = (), *flags: str) -> Path:
    """Build a program of this text and of files in this folder, with one compiler call each, so that ccache works."""
    (folder / "main.cpp").write_text(text)
    objects = []
    for number, source in enumerate(("main.cpp", *sources)):
        objects.append(f"{number}.o")
        argv = ["g++", "-std=c++17", "-O1", *flags, *(f"-I{each}" for each in include.split()), "-c", source]
        run([*argv, "-o", objects[-1]], folder)
    run(["g++", *flags, *objects, "-o", "program", "-lpthread"], folder)
    return folder / "program"


def run(argv: Sequence[str], folder: Path) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_stored_is_the_nearest_value_in_the_range(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path, dirs_exist_ok=True)
    program = compiled(tmp_path, STORED, "include include/QNN")
    rows = []
    for (low, high), scale, offset in itertools.product(
        [(0, 255), (-128, 127), (0, 65535), (-32768, 32767)], [1.0, 0.25], [0, -7]
    ):
        for stored in (low - 300, low - 1, low, low + 1, (low + high) // 2, high - 1, high, high + 1, high + 300):
            for shift in (-0.25, 0.0, 0.25):
                rows.append(((stored + shift + offset) * scale, scale, offset, low, high))
    rows += [(real, 1.0, 0, -(2**31), 2**31 - 1) for real in (-3e9, -(2.0**31), -5.0, 5.0, 2.0**31, 3e9)]
    rows += [(real, 1.0, 0, 0, 255) for real in (float("inf"), float("-inf"), float("nan"), 0.5, 1.5, 254.5)]
    done = subprocess.run([program, *(repr(number) for row in rows for number in row)], capture_output=True, text=True)
    found = [int(line) for line in done.stdout.split()]

    def expected(real: float, scale: float, offset: int, low: int, high: int) -> int:
        if np.isnan(real):
            return low
        return int(np.clip(np.rint(np.float64(real) / scale) - offset, low, high))

    wrong = [(row, got) for row, got in zip(rows, found, strict=True) if got != expected(*row)]
    assert wrong == []


@pytest.mark.parametrize("early", [False, True])
def test_a_compiler_that_looks_for_the_kernel_too_early_refuses_it(package: Path, early: bool, tmp_path: Path) -> None:
    """A precompiled header, which Clang can instantiate at once: before it reads the file of the kernel."""
    clang = shutil.which("clang++") or pytest.skip("clang++ is not installed")
    flags = [clang, "-std=c++17", *(f"-I{package / each}" for each in ("include", "include/QNN"))]
    header = [*flags, "-x", "c++-header", *(["-fpch-instantiate-templates"] if early else [])]
    compiled_first = tmp_path / "op.pch"
    done = subprocess.run(
        [*header, package / "include" / "ops" / "LeakyRelu.hpp", "-o", compiled_first], capture_output=True, text=True
    )
    if early:
        assert done.returncode and "must define `udo::Status execute" in done.stderr, done.stderr
        return
    kernel = package / "src" / "ops" / "LeakyRelu.cpp"
    subprocess.run([*flags, "-include-pch", compiled_first, "-fsyntax-only", kernel], check=True)


def test_nodes_may_be_validated_and_made_in_several_threads(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path, dirs_exist_ok=True)
    sources = sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "src").rglob("*.cpp"))
    program = compiled(tmp_path, NODES, "include include/QNN", sources, "-fsanitize=thread")
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert "data race" not in done.stderr, done.stderr[:3000]
    assert (done.returncode, done.stdout) == (0, "0 failed\n"), done.stderr[:3000]
