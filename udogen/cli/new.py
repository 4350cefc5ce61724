"""`udogen new`: a project folder, from a model, a config, an old package, an example, or nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen import backends, resources
from udogen.cli import output
from udogen.cli.lazy import NameChoice
from udogen.cli.options import PathType, argument, given, json_option, option, sizes, verb
from udogen.errors import UsageError
from udogen.plugins import SOURCES

if TYPE_CHECKING:
    from udogen.adopt.project import AdoptReport
    from udogen.init.project import Project, ProjectFiles

_MODELS = "udogen.models"  # of the context of click: the options of sources
_SHOWN = 12  # number of open decisions that are printed


@dataclass(frozen=True)
class NewOptions:
    """The options of the command line."""

    folder: Path | None = argument(required=False, metavar="NAME")
    config: Path | None = option("--from-config", metavar="FILE", help="The ops of a config.")
    package_folder: Path | None = option(
        "--from-package", metavar="DIR",
        help="A package of Qualcomm's generators, or handwritten in their style; DIR is not changed.",
    )  # fmt: skip
    example: str | None = option(
        "--example", type=NameChoice(resources.examples), metavar="EXAMPLE",
        help="A copy of an example that comes with udogen.",
    )  # fmt: skip
    kernel: str | None = option(
        "--kernel", type=NameChoice(["cpp", "python"]),
        help="The language of the kernels (default: cpp).  Python needs the extra `kernels`.",
    )  # fmt: skip
    chosen: tuple[str, ...] = option(
        "--backend", type=NameChoice(list(backends.ALL)),
        help="For this backend; may repeat (default: cpu, and htp if it supports the op).",
    )  # fmt: skip
    wanted: tuple[str, ...] = option("--op", metavar="DOMAIN::TYPE", help="Only this op of the model; may repeat.")
    dims: tuple[str, ...] = option("--dim", metavar="NAME=SIZE", help="The size of an open axis in the test cases.")
    as_json: bool = json_option()

    @property
    def models(self) -> dict[str, Path]:
        """The options of sources, as --from-onnx -> its value."""
        found: dict[str, Path] = click.get_current_context().meta.get(_MODELS, {})
        return found

    @property
    def sources(self) -> dict[str, Path | str | None]:
        """The options that name the source of a project."""
        return {
            **self.models,
            "--from-config": self.config,
            "--from-package": self.package_folder,
            "--example": self.example,
        }


@verb("new", NewOptions)
def command(options: NewOptions) -> None:
    """Example: udogen new scale

    Make a project folder NAME: config, kernels, references in numpy, test cases, Makefile, README.

    With only NAME the project has a finished op, y = factor * x, and `make test` in it passes.  Otherwise the ops come
    from a model, a config, an old package or an example.  Existing files are never overwritten.
    """
    folder = _checked_folder(options)
    if options.package_folder is not None:
        _adopt(options.package_folder, folder, as_json=options.as_json)
    elif options.example is not None:
        _copy(options.example, folder, as_json=options.as_json)
    else:
        _make(options, folder)


def _keep(context: click.Context, param: click.Parameter, value: Path | None) -> None:
    if value is not None:
        context.meta.setdefault(_MODELS, {})[param.opts[0]] = value


command.params[1:1] = [
    click.Option(
        [f"--from-{name}"],
        metavar="MODEL",
        type=PathType(path_type=Path),
        help=f"The ops of {source.title}.",
        expose_value=False,
        callback=_keep,
    )
    for name, source in SOURCES.items()
]


def _checked_folder(options: NewOptions) -> Path:
    """The folder of the project; raises if there is none, or for options that exclude each other."""
    asked, of_models = {**given(options), **options.models}, tuple(f"--from-{name}" for name in SOURCES)
    sources = [name for name in options.sources if name in asked]
    if len(sources) > 1:
        raise UsageError(f"{sources[0]} and {sources[1]} exclude each other", hint="leave one of them out")
    source = sources[0] if sources else ""
    fits = {
        "--op": of_models,
        "--dim": of_models,
        "--backend": ("", *of_models),
        "--kernel": ("", *of_models, "--from-config"),
    }
    for name in (fit for fit in fits if fit in asked and source not in fits[fit]):
        what = f"means nothing with {source}" if source else f"is for {' and '.join(fits[name])}"
        raise UsageError(f"{name} {what}", hint="leave it out")
    if options.folder is None:
        hint = " ".join(["udogen new NAME", *([f"{source} {options.sources[source]}"] if source else [])])
        raise UsageError("the project has no name", hint=hint)
    return options.folder


def _make(options: NewOptions, folder: Path) -> None:
    from udogen.init import project

    contents = _contents(options, folder)
    model = next(iter(options.models.values()), None)
    made = project.make(folder, contents, kernel=options.kernel or "cpp", model=model)
    show = _print_json if options.as_json else _print
    show(folder, made, contents)


def _contents(options: NewOptions, folder: Path) -> ProjectFiles:
    """The configs of the project, and what is known about their ops."""
    from udogen.init import project

    if options.config is not None:
        return project.of_config(options.config)
    if not options.models:
        return project.of_drafts([project.starter(project.op_name(folder), options.chosen)], is_starter=True)
    [(flag, model)] = options.models.items()
    source = SOURCES[flag.removeprefix("--from-")]
    return project.of_drafts(
        source.drafts(model, wanted=options.wanted, chosen=options.chosen, dims=sizes(options.dims))
    )


def _print_json(folder: Path, made: Project, contents: ProjectFiles) -> None:
    output.print_json(
        {
            "ok": True,
            "folder": str(folder),
            "packages": [package.name for package in made.packages],
            "ops": [op.name for package in made.packages for op in package.ops],
            "files": _rows(made.files),
            "unwritten": list(made.unwritten),
            "findings": [finding.as_json() for finding in (*contents.warnings, *contents.remarks)],
        }
    )


def _print(folder: Path, made: Project, contents: ProjectFiles) -> None:
    output.print_problems(contents.warnings)
    _print_files(made.files)
    open_points = [remark for remark in contents.remarks if remark.severity == "warning"]
    if open_points:
        output.print_note("TODO, as the model does not define it (comments in the config):")
    for point in open_points[:_SHOWN]:
        output.print_note(f"  {'.'.join(point.about)}: {point.message}")
    if len(open_points) > _SHOWN:
        output.print_note(f"  … and {len(open_points) - _SHOWN} more")
    shown = ", ".join(made.unwritten[:3]) + (" …" if len(made.unwritten) > 3 else "")
    write = f"write {shown}; then " if made.unwritten else ""
    if any(path.suffix == ".py" and path.parent.name == "kernels" for path in made.files) and not find_spec("halide"):
        write = f"{resources.pip_install('kernels')} (Halide compiles kernels in Python); {write}"
    output.print_next(f"{write}`cd {shlex.quote(str(folder))} && make test`")


def _print_files(files: Mapping[Path, str]) -> None:
    for path, action in files.items():
        output.print_result(f"{path}: {action}")


def _rows(files: Mapping[Path, str]) -> list[dict[str, str]]:
    return [{"path": str(path), "action": action} for path, action in files.items()]


def _copy(example: str, folder: Path, *, as_json: bool) -> None:
    """Copy an example into the folder."""
    from udogen.init import draft

    files = draft.save({folder / path: content for path, content in resources.example(example).items()})
    if as_json:
        output.print_json({"ok": True, "folder": str(folder), "files": _rows(files)})
        return
    _print_files(files)
    output.print_next(f"read {folder / 'README.md'}")


# --- an old package --------------------------------------------------------------------------------------------------


def _adopt(folder: Path, out: Path, *, as_json: bool) -> None:
    """Make the project `out` from the package in `folder`, which is only read."""
    from udogen.adopt import project

    report = project.adopt(folder, out, log=output.print_note)
    if as_json:
        output.print_json(
            {
                "ok": True,
                "folder": str(out),
                "config": str(report.config),
                "recognized": list(report.recognized),
                "decide": list(report.decide),
                "members": list(report.members),
                "packages": [str(package.folder) for package in report.packages],
            }
        )
    else:
        _print_report(report, out)


def _print_report(report: AdoptReport, out: Path) -> None:
    for title, lines in (
        ("recognized", report.recognized),
        ("TODO", report.decide),
        ("members that differ between SDK releases", report.members),
    ):
        if lines:
            output.print_result(f"{title}:")
        for line in lines:
            output.print_result(f"  {line}")
    for package in report.packages:
        kinds = " ".join(dict.fromkeys(part.backend for part in package.plan.parts))
        output.print_result(f"{package.folder}: {kinds} package {package.plan.package}")
    output.print_next(f"`cd {shlex.quote(str(out))} && make build`, then write reference.py for `make test`")
