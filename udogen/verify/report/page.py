"""A run as one HTML file: what `story` and `failures` say of it, filled into templates/report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from udogen import __version__, resources
from udogen.errors import writing
from udogen.verify.report import costs, failures, matrix, palette, story, words

if TYPE_CHECKING:
    from pathlib import Path

    from mako.template import Template

    from udogen.verify.baseline import Baseline, Change
    from udogen.verify.results import TestRun


def write(run: TestRun, file: Path, changes: Sequence[Change] = (), baseline: Baseline | None = None) -> None:
    """The report as a file."""
    text = render(run, changes, baseline)
    with writing(file):
        file.write_text(text, "utf-8", newline="\n")


def render(run: TestRun, changes: Sequence[Change] = (), baseline: Baseline | None = None) -> str:
    """The report: the same run gives the same text.  `changes` are its costs against those of a baseline."""
    judged = story.verdict(run, worse=sum(each.worse for each in changes))
    found = failures.problems(run)
    told = {
        "style": words.Html(palette.style() + (resources.templates() / "report" / "report.css").read_text("utf-8")),
        "title": f"{judged.sentence} {run.folder.name}".strip(),
        "folder": run.folder,
        "version": __version__,
        "verdict": judged,
        "warnings": [words.rich(each) for each in run.warnings],
        "problems": found,
        "matrix": matrix.matrix(run),
        "absent": matrix.absent(run),
        "costs": costs.costs(run),
        "compared": costs.compare(changes, baseline, run),
        "runtimes": matrix.runtimes(run),
        "environment": story.environment(run, __version__),
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
