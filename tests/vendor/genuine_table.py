"""The table of genuine sources in docs/vendor.md, of what ran: `python -m tests.vendor.genuine_table FOLDER [PART…]`.

FOLDER has one folder for each repository, `owner+name`; parts that are not named keep their rows.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.making import LONG, ROOT, udogen
from udogen import resources

HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "vendor.md"
SDK = "qdsp6sw+qualcomm-ai-engine-direct-sdk"
SOURCES = {"sdk": f"{SDK}/examples/SNPE/NativeCpp/UdoExample", "qidk": "quic+qidk", "rwkv": "MollySophia+rwkv-qualcomm"}
RELEASES = {"sdk": "SDK 2.25", "qidk": "quic/qidk, 2026-04", "rwkv": "MollySophia/rwkv-qualcomm, 2026-07"}
_SECTION = re.compile(r"<!-- genuine -->\n(.*?)<!-- /genuine -->\n", re.DOTALL)
_HEAD = "| source | release | accepted | generated | compiles | runs | right |\n|---|---|---|---|---|---|---|\n"
_PLACES = {"cpu": "CPU, real libQnnCpu 2.47", "gpu": "GPU, emulator on PoCL", "dsp": "V66, qemu-hexagon"}


class Row(NamedTuple):
    source: str
    release: str
    accepted: str = "yes"
    generated: str = "yes"
    compiles: str = "yes"
    runs: str = "yes"
    right: str = "yes"

    def __str__(self) -> str:
        return f"| {' | '.join(self)} |"


def op_tests(folder: Path, into: Path) -> None:
    """The test file, with the folders of the repositories in it, and its references."""
    text = (HERE / "genuine" / "op_tests.toml").read_text("utf-8")
    for name, path in SOURCES.items():
        text = text.replace(f"@{name}@", str(folder / path))
    (into / "op_tests.toml").write_text(text)
    (into / "reference.py").write_text((HERE / "genuine" / "reference.py").read_text("utf-8"))


def ops(folder: Path) -> Iterator[Row]:
    """Kernels for CPU, GPU, and DSP V65 and V66, tested against numpy."""
    with tempfile.TemporaryDirectory() as into:
        op_tests(folder, Path(into))
        places = ("--backend", "cpu", "--backend", "gpu", "--backend", "dsp")
        answer = json.loads(udogen("test", into, *places, "--json", timeout=6 * LONG).stdout)
    text = (HERE / "genuine" / "op_tests.toml").read_text("utf-8")
    home = dict(re.findall(r'name = "(\w+)"\nconfig = "@(\w+)@', text))
    found: dict[tuple[str, str], list[str]] = {}
    for case in answer["cases"]:
        found.setdefault((case["backend"], case["op"]), []).append(case["status"])
    for (place, op), states in found.items():
        ran = "yes" if set(states) <= {"passed", "failed"} else "no"
        right = "yes" if set(states) == {"passed"} else "no"
        if op == "Selu" and right == "no":
            right = "but for the largest number of each row, which it leaves unwritten"
        yield Row(f"{op}: {_PLACES[place]}", RELEASES[home[op]], runs=ran, right=right)


def core(folder: Path) -> Iterator[Row]:
    """HTP kernels in the C++ interface, built for this machine with the headers of their SDK."""
    sdk = folder / SDK
    for name, op in (("Softmax", "Softmax"), ("Relu", "Relu"), ("Conv2D", "Conv"), ("Argmax", "ArgMax")):
        sample = folder / SOURCES["sdk"] / name
        with tempfile.TemporaryDirectory() as out:
            config = sample / "config" / f"{name}_Htp.json"
            made = udogen(
                "generate", config, "--backend", "htp", "--layout", "qnn", "--kernels", sample / "src", "-o", out
            )
            built = udogen("build", "-C", out, "htp_x86", env={"QNN_SDK_ROOT": str(sdk)})
        yield Row(
            f"{op}: HTP, C++ interface, x86-64",
            RELEASES["sdk"],
            generated=_yes(made.returncode == 0),
            compiles=_yes(built.returncode == 0),
            runs="not tried: no libQnnHtp of 2.25",
            right="-",
        )


def hexagon(folder: Path) -> Iterator[Row]:
    """HTP kernels with HVX of others, as objects for v75: by zig, with headers of an SDK, and of ours."""
    headers = folder / "chuzcjoe+qnnx" / "external" / "QNN" / "include"
    for title, release, pattern in (
        ("LLaMAPackage: HTP, C++ interface", "mllm, 2026-06", "UbiquitousLearning+mllm/**/LLaMAPackage/src/ops/*.cpp"),
        (
            "RwkvWkvOpPackage: HTP, C++ interface",
            RELEASES["rwkv"],
            "MollySophia+rwkv-qualcomm/hexagon/HTP/**/src/ops/*.cpp",
        ),
        (
            "custom_op examples: HTP, C++ interface",
            "ExecuTorch, main",
            "pytorch+executorch/**/custom_op/*/*/src/ops/*.cpp",
        ),
    ):
        sources = sorted(folder.glob(pattern))
        configs = sorted({config for source in sources for config in source.parents[2].glob("config/*.xml")})
        accepted = all(udogen("check", config, "--backend", "htp").returncode == 0 for config in configs)
        good = [source for source in sources if _compiles(source, headers)]
        yield Row(
            f"{title}, v75",
            release,
            accepted="yes" if accepted else "no: `BACKEND_SPECIFIC` that no supplement defines",
            generated="yes" if accepted else "-",
            compiles=f"{len(good)} of {len(sources)} sources, headers of 2.43",
            runs="not tried: HVX floating point, which no QEMU here has",
            right="-",
        )


def _compiles(source: Path, headers: Path) -> bool:
    """Whether zig makes an object of it, with the flags of a package's Makefile.hexagon."""
    rules = (resources.templates() / "qnn/shared/makefiles/Makefile.hexagon").read_text("utf-8")
    flags = re.findall(r"^TARGET_CXXFLAGS \+?:?= (-[^$\n]*)$", rules[rules.index("ZIG :=") :], re.MULTILINE)
    ours = resources.templates() / "qnn/shared/makefiles/hexagon/include"
    with tempfile.TemporaryDirectory() as out:
        command = [
            *(sys.executable, "-m", "ziglang", "c++", "-target", "hexagon-linux-musl"),
            *("-mcpu=hexagonv75+hvxv75+hvx_length128b", "-mhvx-qfloat", "-mhvx-ieee-fp"),
            *("-Xclang", "-triple", "-Xclang", "hexagon-unknown-none-elf", *shlex.split(" ".join(flags))),
            *("-std=c++17", "-O0", "-w", "-frtti", "-DUSE_OS_QURT", "-DPREPARE_DISABLED", "-DTHIS_PKG_NAME=Package"),
            *("-isystem", str(headers), "-I", str(ours), "-c", str(source), "-o", f"{out}/a.o"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(source.name, *done.stderr.splitlines()[:3], sep="\n  ", file=sys.stderr)
    return done.returncode == 0


def qhpi(folder: Path) -> Iterator[Row]:
    """HTP kernels of others that register themselves with QHPI, in the real libQnnHtp and under qemu-hexagon."""
    rng = np.random.default_rng(0)
    lhs, rhs = rng.normal(size=(1, 2, 5, 7)).astype(np.float32), rng.normal(size=(1, 2, 7, 3)).astype(np.float32)
    with tempfile.TemporaryDirectory() as temporary:
        into = Path(temporary)
        (into / "kernels").mkdir()
        source = folder / "qhpi-scalar/src/ops/MatMulQhpiScalar.cpp"
        (into / "kernels" / source.name).write_bytes(source.read_bytes())
        config = HERE / "genuine" / "MatMulQhpiScalar.xml"
        made = udogen("generate", config, "--kernels", into / "kernels", "-o", into / "out")
        built = udogen("build", "-C", into / "out", "htp_x86")
        np.save(into / "lhs.npy", lhs)
        np.save(into / "rhs.npy", rhs)
        for backend, place in (("htp", "real libQnnHtp 2.47"), ("hexagon", "v73, qemu-hexagon")):
            output = into / f"{backend}.npy"
            ran = udogen(
                *("run", "op", into / "out", "MatMulQhpiScalar", "--backend", backend, "--shape", "output=1x2x5x3"),
                *("--input", f"lhs={into / 'lhs.npy'}", "--input", f"rhs={into / 'rhs.npy'}"),
                *("--output", f"output={output}"),
                timeout=LONG,
            )
            right = output.is_file() and np.allclose(np.load(output), lhs @ rhs, atol=1e-5)
            yield Row(
                f"MatMulQhpiScalar: HTP, QHPI, {place}",
                "generator of SDK 2.47",
                generated=_yes(made.returncode == 0),
                compiles=_yes(built.returncode == 0),
                runs=_yes(ran.returncode == 0),
                right=_yes(right),
            )


def _yes(good: bool) -> str:
    return "yes" if good else "no"


PARTS: dict[str, Callable[[Path], Iterator[Row]]] = {"ops": ops, "core": core, "hexagon": hexagon, "qhpi": qhpi}


def table(folder: Path, parts: tuple[str, ...], old: str) -> str:
    """The section; rows of parts that do not run are kept."""
    kept = [line for line in old.splitlines() if line.startswith("| ") and not line.startswith("| source ")]

    def part_of(line: str) -> str:
        if ", QHPI, " in line:
            return "qhpi"
        return "hexagon" if ", v75 |" in line else "core" if "C++ interface" in line else "ops"

    rows = []
    for name, make in PARTS.items():
        rows += (
            [str(row) for row in make(folder)] if name in parts else [each for each in kept if part_of(each) == name]
        )
    return _HEAD + "".join(f"{row}\n" for row in rows)


def section(page: str) -> str:
    """The table as the page has it."""
    found = _SECTION.search(page)
    assert found is not None
    return found[1]


def main() -> None:
    folder, parts = Path(sys.argv[1]).absolute(), tuple(sys.argv[2:]) or tuple(PARTS)
    page = PAGE.read_text("utf-8")
    made = table(folder, parts, section(page))
    page = PAGE.read_text("utf-8")
    PAGE.write_text(_SECTION.sub(lambda _: f"<!-- genuine -->\n{made}<!-- /genuine -->\n", page), "utf-8")


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    main()
