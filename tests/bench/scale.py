"""How generate, build and test grow with the number of ops: `python -m tests.bench.scale 10 100 1000 [--svg FILE]`.

One CPU package of N ops, one case of each.  Without --launcher no build has a cache.  It prints a table in
Markdown: seconds, and seconds for an op.  Nothing here fails because of a time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.generate.fifty import config, kernel

ROOT = Path(__file__).resolve().parents[2]
STEPS = ("generate", "build", "build, warm cache", "test")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def udogen(*arguments: object, **env: str) -> float:
    """Seconds of one command."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "udogen", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - began


def measure(count: int, folder: Path, launcher: str) -> list[float | None]:
    """Seconds of each of STEPS."""
    xml, kernels, out = folder / "Many.xml", folder / "kernels", folder / "out"
    kernels.mkdir(parents=True)
    xml.write_text(config(count), "utf-8")
    for number in range(count):
        (kernels / f"Op{number:02d}.cpp").write_text(kernel(number), "utf-8")
    tests = ['config = "Many.xml"', 'kernels = "kernels"']
    for number in range(count):
        tests += ["[[op]]", f'name = "Op{number:02d}"', 'reference = "reference.py:add"', "[[op.case]]", 'shape = "8"']
    (folder / "op_tests.toml").write_text("\n".join(tests) + "\n", "utf-8")
    (folder / "reference.py").write_text("def add(x, step):\n    return x + step\n", "utf-8")
    env = {"XDG_CACHE_HOME": str(folder / "cache"), "CCACHE_DIR": str(folder / "ccache")}
    generated = udogen("generate", xml, "-o", out, "--kernels", kernels, **env)
    built = udogen("build", "cpu_x86", "-C", out, **env)
    cached = None
    if launcher:
        for name in ("cold", "warm"):
            # At the same path, for absolute paths would make other objects.
            shutil.move(out, folder / name)
            udogen("generate", xml, "-o", out, "--kernels", kernels, **env)
            cached = udogen("build", "cpu_x86", "-C", out, UDOGEN_LAUNCHER=launcher, **env)
    # The package of `udogen test` lies in the cache; its first run builds it.
    udogen("test", folder, "--backend", "cpu", **env)
    return [generated, built, cached, udogen("test", folder, "--backend", "cpu", **env)]


def table(counts: Sequence[int], rows: Sequence[Sequence[float | None]]) -> str:
    """Markdown."""
    lines = [f"| ops | {' | '.join(STEPS)} |", "|---" * (1 + len(STEPS)) + "|"]
    for count, row in zip(counts, rows, strict=True):
        cells = ["-" if each is None else f"{each:.1f} s ({1e3 * each / count:.0f} ms an op)" for each in row]
        lines.append(f"| {count:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def svg(counts: Sequence[int], rows: Sequence[Sequence[float | None]]) -> str:
    """Seconds over the number of ops, both linear."""
    width, height, margin = 640, 360, 50
    most = max(each for row in rows for each in row if each is not None)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<path d="M{margin} {margin / 2}V{height - margin}H{width - margin}" fill="none" stroke="#444"/>',
        f'<text x="{margin}" y="15">{most:.0f} s</text>',
        f'<text x="{width - margin}" y="{height - 30}" text-anchor="end">{counts[-1]:,} ops</text>',
    ]
    for number, (name, colour) in enumerate(zip(STEPS, _COLOURS, strict=True)):
        points = [
            f"{margin + (width - 2 * margin) * count / counts[-1]:.1f},"
            f"{height - margin - (height - 1.5 * margin) * row[number] / most:.1f}"  # type: ignore[operator]
            for count, row in zip(counts, rows, strict=True)
            if row[number] is not None
        ]
        if points:
            lines.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
            lines.append(f'<text x="{margin + 15}" y="{45 + 18 * number}" fill="{colour}">{name}</text>')
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
