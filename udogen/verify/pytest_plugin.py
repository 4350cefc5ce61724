"""`pytest --udogen`: test files of udogen collected as tests, a case on a backend being one.

Nothing of udogen is imported before the option is given: pytest loads this at each of its starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from udogen.runtime.built import Built
    from udogen.verify.campaign import Options, Task
    from udogen.verify.cases import Case
    from udogen.verify.places import Session
    from udogen.verify.results import Outcome

_MOST_DETAILS = 40


def pytest_addoption(parser: pytest.Parser) -> None:
    """Our options, in a group of their own."""
    group = parser.getgroup("udogen", "custom ops on Qualcomm's backends")
    group.addoption("--udogen", action="store_true", help="collect op_tests.toml, and Python files that use op_test")
    group.addoption(
        "--udogen-backend",
        action="append",
        default=[],
        metavar="NAME",
        help="only on this backend, as in --backend of `udogen test`; may repeat",
    )
    group.addoption("--udogen-timeout", type=float, default=60.0, metavar="SECONDS", help="for each case")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A test file of ours; one in Python is collected by pytest too, for what else is in it."""
    if not parent.config.getoption("--udogen"):
        return None
    from udogen.verify.suite.find import is_test_file

    return OpTestFile.from_parent(parent, path=file_path) if is_test_file(file_path) else None


class OpTestFile(pytest.File):
    """One test file."""

    def collect(self) -> Iterator[pytest.Collector]:
        """A collector for each package and backend."""
        from udogen.errors import UdogenError
        from udogen.verify import campaign
        from udogen.verify.suite.find import load_suite

        options = campaign.Options(
            backends=tuple(self.config.getoption("--udogen-backend")),
            timeout=self.config.getoption("--udogen-timeout"),
        )
        try:
            program = campaign.plan(load_suite(self.path), options)
        except UdogenError as fault:
            raise self.CollectError(told(fault)) from fault
        for task in program.tasks:
            name = f"{task.package.name}-{task.place.id}"
            yield OpTestPlace.from_parent(self, name=name, task=task, options=options)


class OpTestPlace(pytest.Collector):
    """The cases of one package on one backend, and the session in which they run."""

    def __init__(self, *, task: Task, options: Options, **more: Any) -> None:
        super().__init__(**more)
        self._task, self._options = task, options
        self._built: Built | None = None
        self._session: Session | None = None
        self._why = ""  # there is none

    def collect(self) -> Iterator[pytest.Item]:
        """An item for each case."""
        from udogen.verify.runner import data_type

        for case in self._task.cases:
            yield OpTestCase.from_parent(self, name=f"{case.op}: {case.name} [{data_type(case)}]", case=case)

    def run(self, case: Case) -> Outcome:
        """Run one case; the package is built, and the session opened, for the first."""
        from udogen.verify.runner import run_case

        if self._session is None:
            self._open()
        assert self._session is not None and self._built is not None
        op = self._built.op(case.op, self._task.place.config)
        return run_case(self._session, self._task.place, self._built, op, case)

    def _open(self) -> None:
        from udogen.errors import ToolMissing
        from udogen.verify.places import check_there, open_session
        from udogen.verify.workshop import ready

        if self._why:
            pytest.skip(self._why)
        task = self._task
        ops = list(dict.fromkeys(case.op for case in task.cases))
        try:
            check_there(task.place, lambda _line: None)
            self._built = ready(
                task.source, task.package, task.place, ops, wish=self._options.wish, on_step=lambda _line: None
            )
            session = open_session(task.place, self._built, timeout=self._options.timeout)
            session.__enter__()
        except ToolMissing as fault:
            self._why = told(fault)
            pytest.skip(self._why)
        self._session = session

    def teardown(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            session.__exit__(None, None, None)


class CaseFailed(Exception):
    """A case that has not passed."""


class OpTestCase(pytest.Item):
    """One case on one backend."""

    def __init__(self, *, case: Case, **more: Any) -> None:
        super().__init__(**more)
        self._case = case

    def runtest(self) -> None:
        """Run it."""
        from udogen.verify import terminal

        place = self.parent
        assert isinstance(place, OpTestPlace)
        outcome = place.run(self._case)
        if outcome.status == "skipped":
            pytest.skip(outcome.trouble.message if outcome.trouble else "")
        if outcome.status in ("failed", "error"):
            raise CaseFailed("\n".join(terminal.failure(outcome)))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Our own words, without a traceback of ours."""
        from udogen.errors import UdogenError

        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return told(excinfo.value) if isinstance(excinfo.value, UdogenError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the case stands."""
        line = self._case.origin.location.rpartition(":")[2] if self._case.origin else ""
        return self.path, int(line) - 1 if line.isdecimal() else None, self.name


def told(fault: Any) -> str:
    """An error of udogen's in lines: what, where, what next."""
    from udogen.opdef.problems import visible

    hint = [f"= {fault.hint}"] if fault.hint else []
    return visible("\n".join([fault.message, *fault.details[:_MOST_DETAILS], *hint]))
