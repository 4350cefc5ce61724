"""`udogen generate`: configs -> package folders."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from udogen import backends
from udogen.build.package import open_packages
from udogen.cli import output
from udogen.cli.lazy import completed
from udogen.cli.options import (
    ConfigOptions,
    json_option,
    option,
    same_options,
    split_names,
    strict_option,
    verb,
)
from udogen.configs.load import load
from udogen.generate import cmake, pipeline
from udogen.generate.kernel_files import kernels_not_used
from udogen.generate.pipeline import Generated, GenerateOptions
from udogen.generate.write import diff


@dataclass(frozen=True)
class GenerateArguments(ConfigOptions):
    """The options of the command line."""

    out: Path | None = option(
        "-o", "--output_path", "--output", metavar="DIR",
        help="The output folder (default: UDO_PACKAGE_PATH of the config, or the current folder).",
    )  # fmt: skip
    backends: tuple[str, ...] = option(
        "--backend", metavar="NAME[,NAME]", callback=split_names,
        shell_complete=completed(lambda _: backends.ALL), help="Only for these backends; may repeat.",
    )  # fmt: skip
    layout: str = option("--layout", metavar="NAME", help="The folder layout: snpe (default for JSON), qnn (for XML).")
    kernels: Path | None = option(
        "--kernels",
        metavar="DIR",
        help="A folder with finished kernels, <Op>.cpp or <Op>.py, to use instead of skeletons.",
    )
    htp_api: str = option(
        "--htp-api", metavar="NAME",
        help="HTP's interface: qhpi (C, SDK 2.47 and later), or core (C++, needs an SDK, works with its release only).",
    )  # fmt: skip
    version_folders: bool = option(
        "--dsp-folders",
        help="Layout snpe: a folder for each version of DSP (DSP_V68, DSP_V69 …), as in Qualcomm's release 2.25.",
    )  # fmt: skip
    converter: bool = option(
        "-cop", "--converter", "--converter_op_package",
        help="Also generate the package from which converters get the shapes and types of outputs.",
    )  # fmt: skip
    cmake: bool = option(
        "--gen_cmakelists", "--cmake",
        help="Also write a CMakeLists.txt, which builds the CPU libraries on Linux and Windows.",
    )  # fmt: skip
    force: bool = option(
        "-f", "--force-generation",
        help="Move an existing folder to <name>.bak-N, and generate a new one.",
    )  # fmt: skip
    dry_run: bool = option("--dry-run", help="List the files that would be written; write nothing.")
    show_diff: bool = option("--diff", help="Show the changes; write nothing.")
    strict: bool = strict_option()
    as_json: bool = json_option()


@verb("generate", GenerateArguments)
def command(options: GenerateArguments) -> None:
    """Example: udogen generate scale/Scale.xml --kernels scale/kernels -o out

    Generate an op package for each backend of each config.

    Generating again updates generated code and keeps your edits; if both changed the same lines, your file stays and
    the generated one is written beside it.
    """
    wanted = same_options(pipeline.GenerateOptions, options)
    if options.show_diff:
        wanted = wanted._replace(dry_run=True)
    loaded, problems = load(options.all_configs, strict=wanted.strict)
    generated = pipeline.generate(
        loaded,
        wanted,
        problems,
        log=output.print_note,
        before_writing=lambda: output.print_problems(() if options.as_json else problems.warnings),
    )
    if not options.as_json:
        print_all(generated, wanted, show_diff=options.show_diff)
    if not wanted.dry_run:
        pipeline.stop_on_conflict(generated)
    if options.as_json:
        output.print_json(
            {
                "ok": True,
                "written": not wanted.dry_run,
                "packages": [_package_json(generated, show_diff=options.show_diff) for generated in generated],
                "warnings": [problem.as_json() for problem in problems.warnings],
            }
        )


def _package_json(each: Generated, *, show_diff: bool) -> dict[str, Any]:
    return {
        "folder": str(each.folder),
        **({"set_aside": str(each.backup)} if each.backup else {}),
        "package": each.plan.package,
        "backend": each.plan.backend,
        "layout": each.plan.layout,
        **({"vendor_style": each.vendor} if each.vendor else {}),
        "parts": [asdict(part) for part in each.plan.parts],
        "files": [
            {"path": change.path, "action": change.action, **({"note": change.note} if change.note else {})}
            for change in each.changes
        ],
        **({"diff": diff(each.changes)} if show_diff else {}),
    }


def print_all(found: Sequence[Generated], wanted: GenerateOptions, *, show_diff: bool = False) -> None:
    """Print what happened, or would happen, to the package folders."""
    if show_diff:
        output.print_result("".join(diff(generated.changes) for generated in found).rstrip("\n"))
        return
    for generated in found:
        _print_generated(generated, dry_run=wanted.dry_run)
    _print_styles(found, wanted)
    _warn_of_edits(found)
    if not wanted.dry_run:
        _print_next(found)


def _warn_of_edits(found: Sequence[Generated]) -> None:
    """Warn about kernels in packages that the user edited: --kernels does not replace them."""
    if any(change.action == "kept" for generated in found for change in generated.changes):
        folders = [
            package for generated in found if generated.folder.is_dir() for package in open_packages(generated.folder)
        ]
        for line in dict.fromkeys(line for package in folders for line in kernels_not_used(package)):
            output.warn(line)


def _print_styles(found: Sequence[Generated], wanted: GenerateOptions) -> None:
    """Print the kernels in the vendor's style, and the options that have no effect."""
    for generated in found:
        for backend, ops in generated.vendor.items():
            kernels = f"kernels for {backend} in the style of Qualcomm's generators: {', '.join(ops)}"
            api = next((part.api for part in generated.plan.parts if part.backend == backend), "")
            output.print_note(f"  {generated.folder}: {kernels}" + (f" (--htp-api {api})" if api else ""))
    if wanted.htp_api and not any(part.api for generated in found for part in generated.plan.parts):
        output.print_note(f"  --htp-api {wanted.htp_api} changes nothing: there is no package for HTP here")
    if wanted.cmake:
        for generated in found:
            if not cmake.has(generated.plan):
                output.print_note(f"  --gen_cmakelists changes nothing in {generated.folder}: make alone builds it")


def _print_generated(each: Generated, *, dry_run: bool = False) -> None:
    """Print what happened, or would happen, to one package folder."""
    if each.backup is not None:
        output.print_note(f"  {each.folder} {'would be' if dry_run else 'is'} moved aside, to {each.backup}")
    counts = Counter(change.action for change in each.changes)
    fresh = set(counts) == {"created"}
    for change in each.changes:
        if not fresh and change.action != "unchanged":
            why = f"  ({change.note})" if change.note else ""
            output.print_result(f"  {change.action:<9} {each.folder / change.path}{why}")
    summary = ", ".join(f"{number} {action}" for action, number in counts.items())
    would = "would be " if dry_run else ""
    kind = " ".join(dict.fromkeys(part.backend for part in each.plan.parts))
    output.print_result(f"{each.folder}: {kind} package {each.plan.package} {would}({summary})")


def _print_next(found: Sequence[Generated]) -> None:
    """Print the next step, unless all packages are unchanged."""
    if all(change.action == "unchanged" for generated in found for change in generated.changes):
        return
    unwritten = [
        str(generated.folder / file.path)
        for generated in found
        if {change.action for change in generated.changes} == {"created"}
        for file in generated.plan.files
        if file.user_owned and file.template
    ]
    shown = ", ".join(unwritten[:3]) + (" …" if len(unwritten) > 3 else "")
    write = f"write {'kernels' if len(unwritten) > 1 else 'the kernel'} in {shown}, then " if unwritten else ""
    folders = [generated.folder for generated in found]
    if len({folder.is_absolute() for folder in folders}) == 1:
        folders = [Path(os.path.commonpath(folders))]
    builds = " and ".join(f"`udogen build -C {shlex.quote(str(folder))}`" for folder in folders)
    output.print_next(f"{write}{builds}")
