"""How generate, build and test grow with the number of ops: `python -m tests.bench.scale 10 100 1000 [--svg FILE]`.

One CPU package of N ops, with one case each.  It prints a table in Markdown: the CPU seconds of a command and all its
children, that time per op, and wall-clock seconds, which mean little on a busy machine.  With --launcher
ccache the package is built a second time, with a warm cache, and the statistics of ccache are printed.  No time makes
it fail.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.generate.fifty import project

ROOT = Path(__file__).resolve().parents[2]
STEPS = ("generate", "build", "build, warm cache", "test")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


@dataclass(frozen=True)
class Took:
    """The time that a command took, in seconds."""

    processor: float
    clock: float


def udogen(*arguments: object, **env: str) -> Took:
    """Run a command to its end."""
    begun = time.perf_counter()
    argv = [sys.executable, "-m", "udogen", *map(str, arguments)]
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            argv, env={**os.environ, "PYTHONPATH": str(ROOT), **env}, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(child.pid, 0)
        if status:
            output.seek(0)
            raise SystemExit(f"{argv} failed\n{output.read().decode(errors='replace')}")
    return Took(used.ru_utime + used.ru_stime, time.perf_counter() - begun)


def measure(count: int, folder: Path, launcher: str) -> list[Took | None]:
    """Return the time of each of STEPS."""
    xml, kernels, out, again = folder / "Many.xml", folder / "kernels", folder / "out", folder / "again"
    project(folder, count)
    env = {
        "XDG_CACHE_HOME": str(folder / "cache"),
        "CCACHE_DIR": str(folder / "ccache"),
        "UDOGEN_LAUNCHER": launcher,
    }
    generated = udogen("generate", xml, "-o", out, "--kernels", kernels, **env)
    built = udogen("build", "cpu_x86", "-C", out, **env)
    cached = None
    if launcher:
        udogen("generate", xml, "-o", again, "--kernels", kernels, **env)
        if launcher == "ccache":
            ccache("--zero-stats", **env)
        cached = udogen("build", "cpu_x86", "-C", again, **env)
        if launcher == "ccache":
            wanted = ("direct_cache_hit", "preprocessed_cache_hit", "cache_miss")
            lines = [line.split() for line in ccache("--print-stats", **env).splitlines()]
            print(f"{count} ops again:", {line[0]: int(line[1]) for line in lines if line[0] in wanted})
    # The package of `udogen test` is kept in the cache; its first run builds it.
    udogen("test", folder, "--backend", "cpu", **env)
    return [generated, built, cached, udogen("test", folder, "--backend", "cpu", **env)]


def ccache(option: str, **env: str) -> str:
    """Return the output of ccache."""
    done = subprocess.run(["ccache", option], env={**os.environ, **env}, check=True, capture_output=True, text=True)
    return done.stdout


def table(counts: Sequence[int], rows: Sequence[Sequence[Took | None]]) -> str:
    """Return the table in Markdown."""
    lines = [f"| ops | {' | '.join(STEPS)} |", "|---" * (1 + len(STEPS)) + "|"]
    for count, row in zip(counts, rows, strict=True):
        cells = [
            f"{each.processor:.1f} s ({1e3 * each.processor / count:.0f} ms an op), {each.clock:.1f} s on the clock"
            if each
            else "-"
            for each in row
        ]
        lines.append(f"| {count:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def svg(counts: Sequence[int], rows: Sequence[Sequence[Took | None]]) -> str:
    """Return a plot of CPU seconds over the number of ops, both axes linear."""
    width, height, margin = 640, 360, 50
    most = max(each.processor for row in rows for each in row if each)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12">',
        "<style>rect { fill: #fff } text { fill: #1b1f24 } .axes { stroke: #57606a }",
        "@media (prefers-color-scheme: dark) { rect { fill: #111 } text { fill: #eee } .axes { stroke: #999 } }",
        "</style>",
        f'<rect width="{width}" height="{height}"/>',
        f'<path class="axes" d="M{margin} {margin / 2}V{height - margin}H{width - margin}" fill="none"/>',
        f'<text x="{margin}" y="15">{most:.0f} s</text>',
        f'<text x="{width - margin}" y="{height - 30}" text-anchor="end">{counts[-1]:,} ops</text>',
    ]
    for number, (name, colour) in enumerate(zip(STEPS, _COLOURS, strict=True)):
        points = [
            f"{margin + (width - 2 * margin) * count / counts[-1]:.1f},"
            f"{height - margin - (height - 1.5 * margin) * took.processor / most:.1f}"
            for count, row in zip(counts, rows, strict=True)
            if (took := row[number])
        ]
        if points:
            lines.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
            y = 45 + 18 * number
            lines.append(f'<path d="M{margin + 15} {y - 4}h20" stroke="{colour}" stroke-width="2"/>')
            lines.append(f'<text x="{margin + 42}" y="{y}">{name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="+", type=int)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--launcher", default="", help="ccache or sccache: build again with it, warm")
    options = parser.parse_args()
    rows = []
    for count in options.counts:
        with tempfile.TemporaryDirectory(prefix="udogen-scale-") as folder:
            rows.append(measure(count, Path(folder) / "many", options.launcher))
        print(table([count], rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(table(options.counts, rows))
    if options.svg:
        options.svg.write_text(svg(options.counts, rows), "utf-8")


if __name__ == "__main__":
    main()
