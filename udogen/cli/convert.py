"""`udogen convert`: a config in the other format."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from udogen import backends
from udogen.cli import output
from udogen.cli.lazy import NameChoice
from udogen.cli.options import ConfigOptions, json_option, option, strict_option, verb
from udogen.configs import json_write, rules, vendor, xml_write
from udogen.configs.load import load, parse
from udogen.errors import UsageError, read_plain, replace_file, writing
from udogen.findings import Finding, Findings
from udogen.generate.pipeline import GenerateOptions, resolve_all
from udogen.opdef.model import Op, OpPackage

_SHOWN = 8  # refusals of Qualcomm's generators


@dataclass(frozen=True)
class ConvertOptions(ConfigOptions):
    """The options of the command line."""

    language: str = option("--to", type=NameChoice(["xml", "json"]), required=True, help="The format to write.")
    out: Path | None = option("-o", "--output", metavar="FILE", help="The output file (default, or -: stdout).")
    chosen: tuple[str, ...] = option(
        "--backend", type=NameChoice(list(backends.ALL)),
        help="Write only the parts for this backend; may repeat.",
    )  # fmt: skip
    force: bool = option("--force", help="Overwrite FILE.")
    strict: bool = strict_option()
    as_json: bool = json_option()


@verb("convert", ConvertOptions)
def command(options: ConvertOptions) -> None:
    """Example: udogen convert scale/Scale.xml --to json -o op.json

    Write configs in the other format; warns of what that format cannot store.
    """
    packages, findings = load(options.all_configs, strict=options.strict)
    packages = tuple(_only(package, options.chosen) for package in packages) if options.chosen else packages

    out = options.out if options.out != Path("-") else None
    if options.language == "json":
        text = json_write.write(packages, findings)
    elif len(packages) == 1:
        text = xml_write.write(packages[0], findings)
    else:
        names = ", ".join(package.name for package in packages)
        raise UsageError(
            f"an XML config holds one package, but these are {len(packages)}: {names}",
            hint="convert them one by one, each from its own config",
        )
    _check(text, out, packages, findings)
    _warn_of_refusals(text, packages[0], findings)
    findings.stop_if_any(strict=options.strict)
    if out is not None:
        _save(out, text, force=options.force)
    if options.as_json:
        warnings = [finding.as_json() for finding in findings.warnings]
        output.print_json({"ok": True, "file": str(out) if out else None, "text": text, "warnings": warnings})
        return
    output.print_problems(findings.warnings)
    if out is None:
        output.print_file(output.json_text(text) if options.language == "json" else output.xml_text(text))
    else:
        output.print_note(f"{out}: written")
        output.print_next(f"`udogen check {shlex.quote(str(out))}`")


def _only(package: OpPackage, chosen: Sequence[str]) -> OpPackage:
    """The package with only the parts for these backends; ops for none of them are left out."""
    ops = tuple(kept for op in package.ops if (kept := _for_backends(op, package, chosen)) is not None)
    if not ops:
        raise UsageError(f"no op of `{package.name}` is for {', '.join(chosen)}", hint="choose another --backend")
    left = {op.name for op in ops}
    supplements = dict.fromkeys(
        supplement for backend in chosen for supplement in backends.supplements_for(backend, package)
    )
    return replace(
        package,
        ops=ops,
        supplements=tuple(
            replace(
                supplement,
                ops=tuple(op for op in supplement.ops if op.name in left),
                supported=tuple(name for name in supplement.supported if name in left),
            )
            for supplement in package.supplements
            if supplement in supplements
        ),
    )


def _for_backends(op: Op, package: OpPackage, chosen: Sequence[str]) -> Op | None:
    """The op, only for these backends; None if it is for none of them."""
    names, archs = backends.of_supplements(op, package)
    kept = tuple(dict.fromkeys(name for backend in chosen for name in backends.ALL[backend].names if name in names))
    versions = tuple(a for a in archs if any(int(a[1:]) in backends.ALL[backend].hexagon for backend in chosen))
    if not versions and (not kept or (archs and set(kept) == {"DSP"})):
        return None
    return replace(op, backends=tuple(dict.fromkeys((*kept, *(("DSP",) if versions else ())))), dsp_archs=versions)


def _warn_of_refusals(text: str, package: OpPackage, findings: Findings) -> None:
    """Warn if one of Qualcomm's generators would refuse the converted config; JSON is for SNPE's alone."""
    refused = vendor.refusals(text.encode(), "the converted config")
    if all(refused.values()):
        meant = next(iter(refused))
        shown = [(meant, reason) for reason in refused[meant][:_SHOWN]]
    else:
        shown = [(tool, reasons[0]) for tool, reasons in refused.items() if reasons and text.startswith("<")]
    for tool, reason in shown:
        what = f"{tool} of Qualcomm's release {vendor.release()} would refuse the converted config"
        findings.warn(package.location, f"{what}: {reason.message}", reason.hint)


def _check(text: str, out: Path | None, packages: Sequence[OpPackage], findings: Findings) -> None:
    """Add errors if the converted config would be refused, but the original is accepted."""

    def faults(made: Sequence[OpPackage], layout: str = "") -> Sequence[Finding]:
        resolve_all(made, found := Findings(), GenerateOptions(layout=layout))
        return found.errors

    collected = Findings()
    made = parse(text.encode(), str(out or "the converted config"), collected)
    for package in made:
        rules.check(package, collected)
    refused = collected.errors or (() if faults(packages) else faults(made))
    if refused and not collected.errors and not faults(made, "snpe"):
        findings.warn(
            packages[0].location,
            "the layout qnn, which is usual for XML, refuses data types that the layout snpe ignores",
            "check and generate the result with --layout snpe",
        )
        return
    for finding in refused:
        findings.error(
            packages[0].location,
            f"this cannot be converted; the result would be refused: {finding.location}: {finding.message}",
            finding.hint,
        )


def _save(path: Path, text: str, *, force: bool) -> None:
    with writing(path, hint="choose another file with -o"):
        if path.is_file() and not force and read_plain(path) != text.encode():
            raise UsageError(f"{path} exists and is different", hint="choose another file, or --force")
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
