"""`udogen check`: all errors in configs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from udogen import backends
from udogen.cli import output
from udogen.cli.lazy import NameChoice
from udogen.cli.options import ConfigOptions, json_option, option, strict_option, verb
from udogen.configs import vendor
from udogen.configs.load import load
from udogen.findings import Findings
from udogen.generate.op_tests import FILE
from udogen.generate.pipeline import GenerateOptions, resolve_all
from udogen.opdef.model import OpPackage
from udogen.tables import many


@dataclass(frozen=True)
class CheckOptions(ConfigOptions):
    """The options of the command line."""

    chosen: tuple[str, ...] = option(
        "--backend", type=NameChoice(list(backends.ALL)),
        help="Check only for this backend; may repeat.",
    )  # fmt: skip
    layout: str | None = option(
        "--layout", type=NameChoice(list(dict.fromkeys(backends.USUAL_LAYOUT.values()))),
        help="Check for this package layout: snpe (default for JSON), qnn (default for XML).",
    )  # fmt: skip
    vendors: bool = option("--vendor", help="Also check that Qualcomm's own generators accept the config.")
    strict: bool = strict_option()
    as_json: bool = json_option()


@verb("check", CheckOptions)
def command(options: CheckOptions) -> None:
    """Example: udogen check scale/Scale.xml

    Report all errors in configs, with file, line and fix.
    """
    packages, findings = load(options.all_configs, strict=options.strict)
    resolved = resolve_all(packages, findings, GenerateOptions(backends=options.chosen, layout=options.layout or ""))
    taken = _vendor_generators(findings) if options.vendors else {}
    findings.stop_if_any(strict=options.strict)
    if options.as_json:
        takers = {"vendor": {file: list(tools) for file, tools in taken.items()}} if options.vendors else {}
        warnings = [finding.as_json() for finding in findings.warnings]
        output.print_json({"ok": True, "packages": [*map(_as_json, packages)], **takers, "warnings": warnings})
        return
    output.print_problems(findings.warnings)
    for package, by_backend in resolved:
        named = sorted(backend for backend, each in by_backend.items() if each.ops)
        count = many(len(package.ops), "op")
        output.print_result(
            f"{', '.join(package.sources)}: ok: {package.name}, {count}, {' '.join(named) or 'no backend'}"
        )
    for file, tools in taken.items():
        output.print_result(f"{file}: accepted by {' and '.join(tools)} of Qualcomm's release {vendor.release()}")
    _print_next([Path(file) for package, _ in resolved for file in package.sources])


def _print_next(files: Sequence[Path]) -> None:
    """Print the next step for these configs: test their project, or make one."""
    folders = dict.fromkeys(file.parent for file in files)
    if all((folder / FILE).is_file() for folder in folders):
        output.print_next(" and ".join(f"`udogen test {shlex.quote(str(folder))}`" for folder in folders))
        return
    names = " ".join(shlex.quote(str(file)) for file in files)
    new = "" if len(files) > 1 else f"`udogen new {shlex.quote(files[0].stem.lower())} --from-config {names}`, or "
    output.print_next(f"{new}`udogen generate {names} -o out`")


def _as_json(package: OpPackage) -> dict[str, object]:
    ops = [{"name": op.name, "backends": list(backends.of_op(op, package))} for op in package.ops]
    return {"name": package.name, "configs": list(package.sources), "ops": ops}


def _vendor_generators(findings: Findings) -> dict[str, tuple[str, ...]]:
    """Config -> those of Qualcomm's generators that accept it; adds an error for everything that they refuse."""
    taken = {}
    for file, data in findings.contents.items():
        refused = vendor.refusals(data, file)
        taken[file] = tuple(sorted(tool for tool, reasons in refused.items() if not reasons))
        meant = next(iter(refused))
        for reason in refused[meant] if not taken[file] else ():
            what = f"{meant} of Qualcomm's release {vendor.release()} would refuse this: {reason.message}"
            findings.error(reason.location, what, reason.hint)
    return taken
