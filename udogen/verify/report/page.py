"""A run as one HTML file: what `story` and `failures` say of it, filled into templates/report."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from udogen import __version__, resources
from udogen.errors import UsageError
from udogen.verify.report import failures, palette, story, words

if TYPE_CHECKING:
    from mako.template import Template

    from udogen.verify.results import TestRun


def write(run: TestRun, file: Path) -> None:
    """The report as a file; its folder must be there."""
    try:
        file.write_text(render(run), "utf-8", newline="\n")
    except OSError as fault:
        raise UsageError(
            f"the report cannot be written to {file}: {fault.strerror}",
            hint="give --html a file in a folder that is there",
        ) from fault


def render(run: TestRun) -> str:
    """The report: the same run gives the same text."""
    judged = story.verdict(run)
    found = failures.problems(run)
    drawn = story.matrix(run)
    told = {
        "style": words.Html(palette.style() + (resources.templates() / "report" / "report.css").read_text("utf-8")),
        "title": f"{judged.sentence} {run.folder.name}".strip(),
        "folder": run.folder,
        "version": __version__,
        "verdict": judged,
        "warnings": [words.rich(each) for each in run.warnings],
        "problems": found,
        "matrix": drawn,
        "absent": [each for each in drawn.columns if each.kind == "absent"],
        "costs": story.costs(run),
        "runtimes": story.runtimes(run),
        "environment": story.environment(run),
        "skipped": story.rows(run, "skipped"),
        "unchecked": story.rows(run, "ran"),
        "passing": story.rows(run, "passed"),
    }
    counts = {f"{name}_count": words.many(len(told[name]), "case") for name in ("skipped", "unchecked", "passing")}  # type: ignore[arg-type]
    return str(_template().render_unicode(**told, **counts))


@cache
def _template() -> Template:
    """Everything that is filled in is escaped, but for what is `Html`."""
    from mako.template import Template

    return Template(
        (resources.templates() / "report" / "report.html.mako").read_text("utf-8"),
        strict_undefined=True,
        default_filters=["escaped"],
        imports=["from udogen.verify.report.words import text as escaped"],
    )
