"""`udogen build`: package folder -> libraries."""

from __future__ import annotations

import time
from pathlib import Path

import click

from udogen.cli import output


@click.command("build")
@click.argument("names", nargs=-1, metavar="[TARGET...]")
@click.option(
    "-C",
    "folder",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="The package folder (default: here).",
)
@click.option(
    "--toolchain", type=click.Choice(["auto", "sdk", "open"]), default="auto",
    help="sdk: the vendor's; open: zig, clang or g++ with udogen's own headers; auto: the SDK where it fits.",
)  # fmt: skip
@click.option("-j", "jobs", type=click.IntRange(min=1), metavar="N", help="Compilers at once (default: all cores).")
@output.json_option
def command(names: tuple[str, ...], folder: Path, toolchain: str, jobs: int | None, as_json: bool) -> None:
    """Build targets of a package; without a TARGET what runs on this machine.

    Targets: cpu_x86, cpu_aarch64 (Linux), cpu_android, and the groups cpu, all, all_x86, all_aarch64, all_android.
    """
    from udogen.build import make, tools
    from udogen.build.package import open_package

    package = open_package(folder)
    steps = make.plan(package, names, toolchain=toolchain, env=tools.environment())
    for step in steps:
        output.note(f"{step.target.id}: {step.choice.toolchain} toolchain: {step.choice.title}")
    begun = time.perf_counter()
    with output.progress(package.name, total=len(steps) * (make.sources(package) + 1)) as advance:
        built = make.build(package, steps, jobs=jobs or 0, on_step=advance)
    took = time.perf_counter() - begun
    if as_json:
        output.answer(
            {
                "ok": True,
                "package": package.name,
                "provider": package.provider,
                "seconds": round(took, 3),
                "artifacts": [
                    {
                        "target": each.step.target.id,
                        "library": str(each.step.artifact),
                        "toolchain": each.step.choice.toolchain,
                        "compiler": each.step.choice.title,
                        "compiled": list(each.compiled),
                    }
                    for each in built
                ],
            }
        )
        return
    for each in built:
        state = f"{len(each.compiled)} compiled" if each.compiled else "up to date"
        output.say(f"{each.step.artifact} ({state})")
