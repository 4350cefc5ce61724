"""`udogen check`: everything that is wrong with configs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from udogen import backends
from udogen.cli import output
from udogen.cli.options import ConfigOptions, json_option, option, strict_option, verb

if TYPE_CHECKING:
    from udogen.opdef.model import OpPackage
    from udogen.opdef.problems import Problems


@dataclass(frozen=True)
class CheckOptions(ConfigOptions):
    """The options of the command line."""

    chosen: tuple[str, ...] = option(
        "--backend", type=click.Choice(list(backends.ALL)),
        help="Check what this backend needs, and no other; may repeat.",
    )  # fmt: skip
    layout: str | None = option(
        "--layout", type=click.Choice(list(dict.fromkeys(backends.USUAL_LAYOUT.values()))),
        help="Check for this layout of packages: snpe (usual for JSON), qnn (for XML).",
    )  # fmt: skip
    vendors: bool = option("--vendor", help="Check that Qualcomm's own generators take the config, too.")
    strict: bool = strict_option()
    as_json: bool = json_option()


@verb("check", CheckOptions)
def command(options: CheckOptions) -> None:
    """Example: udogen check scale/Scale.xml

    Report all errors in configs, with file, line and fix.
    """
    from udogen.configs.load import load
    from udogen.generate.pipeline import GenerateOptions, resolve_all

    packages, problems = load(options.all_configs, strict=options.strict)
    resolved = resolve_all(packages, problems, GenerateOptions(backends=options.chosen, layout=options.layout or ""))
    taken = _vendor_generators(problems) if options.vendors else {}
    problems.stop_if_any(strict=options.strict)
    if options.as_json:
        vendor = {"vendor": {file: list(tools) for file, tools in taken.items()}} if options.vendors else {}
        warnings = [problem.as_json() for problem in problems.warnings]
        output.print_json({"ok": True, "packages": [*map(_as_json, packages)], **vendor, "warnings": warnings})
        return
    output.print_problems(problems.warnings)
    for package, by_backend in resolved:
        named = sorted(backend for backend, each in by_backend.items() if each.ops)
        count = f"{len(package.ops)} op{'s' if len(package.ops) != 1 else ''}"
        output.print_result(
            f"{', '.join(package.sources)}: ok: {package.name}, {count}, {' '.join(named) or 'no backend'}"
        )
    for file, tools in taken.items():
        output.print_result(f"{file}: {' and '.join(tools)} of Qualcomm's release {_release()} would take it")
    files = " ".join(shlex.quote(file) for package, _ in resolved for file in package.sources)
    output.print_next(f"`udogen generate {files} -o out`")


def _as_json(package: OpPackage) -> dict[str, object]:
    ops = [{"name": op.name, "backends": list(backends.of_op(op, package))} for op in package.ops]
    return {"name": package.name, "configs": list(package.sources), "ops": ops}


def _vendor_generators(problems: Problems) -> dict[str, tuple[str, ...]]:
    """Which of Qualcomm's generators take each config; an error for what none of them takes."""
    from udogen.configs import vendor

    found = {file: vendor.verdict(data, file) for file, data in problems.contents.items()}
    for verdict in found.values():
        for each in verdict.refusals:
            what = f"{verdict.meant} of Qualcomm's release {vendor.release()} would refuse this: {each.message}"
            problems.error(each.location, what, each.hint)
    return {file: verdict.takes for file, verdict in found.items()}


def _release() -> str:
    from udogen.configs import vendor

    return vendor.release()
