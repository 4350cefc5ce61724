"""`pytest --udogen` collects test files of udogen; each case on each backend is one test.

Without the option no module of udogen is imported, because pytest loads this file at every start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from udogen.errors import RunFailed
    from udogen.verify.cases import Case
    from udogen.verify.options import TestOptions
    from udogen.verify.planning import Batch
    from udogen.verify.results import Outcome
    from udogen.verify.runner import CaseRunner

_MOST_DETAILS = 40
_PROGRAMS = ("pytest", "py.test", "__main__.py")
_PROPERTY = "udogen"  # of a test: the status of its case
_PLACE = "udogen-place"  # given to a worker of pytest-xdist: where it writes which code of the user is running


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of udogen."""
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


def pytest_configure(config: pytest.Config) -> None:
    """Judge the cases of the session."""
    if config.getoption("--udogen"):
        config.pluginmanager.register(SessionVerdict(), "udogen-verdict")


class SessionVerdict:
    """Cases of which none was compared with anything are not green: the session ends as one without tests."""

    def __init__(self) -> None:
        self._statuses: list[Any] = []
        self._places = TemporaryDirectory(prefix="udogen-")  # where code of the user is in workers of pytest-xdist

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Let an end of this process in code of the user be an error."""
        from udogen import python_files

        def stop(fault: RunFailed) -> NoReturn:
            session.shouldstop = fault.message
            raise fault

        if Path(sys.argv[0]).name in _PROGRAMS:  # a program that calls `pytest.main` may not become two
            python_files.on_end.append(stop)
            python_files.expect_end("a test of pytest")
        if place := getattr(session.config, "workerinput", {}).get(_PLACE):
            python_files.record_places(Path(place))
            python_files.on_exit.append(lambda _place, _fault: False)  # the end is reported where `place` is read

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Let a worker of pytest-xdist on this machine write where code of the user is."""
        if node.gateway.spec.popen:
            node.workerinput[_PLACE] = os.path.join(self._places.name, node.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Let an end of a worker in code of the user be an error of collection, and stop."""
        from udogen import python_files

        file = Path(node.workerinput.get(_PLACE, ""))
        if error and file.is_file() and (place := python_files.read_place(file)):
            said = f"{place}: it ended a worker of pytest-xdist\n= raise an exception instead"
            report = pytest.CollectReport(place.rpartition(":")[0] or place, "failed", said, [])
            node.config.hook.pytest_collectreport(report=report)
            raise pytest.Session.Interrupted(said.partition("\n")[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a case; with pytest-xdist, those of all workers."""
        if report.when == "call":
            self._statuses += [status for name, status in report.user_properties if name == _PROPERTY]

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Change the exit code."""
        from udogen import python_files

        python_files.expect_end("")
        self._places.cleanup()
        if not exitstatus and self._reasons():
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print why."""
        for reason in self._reasons():
            terminalreporter.write_line(f"udogen: {reason}", red=True)

    def _reasons(self) -> tuple[str, ...]:
        from udogen.verdict import Verdict

        rows = [(status, "") for status in self._statuses]
        return Verdict.of(rows, planned=len(rows)).reasons if rows else ()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A collector if this is a test file of udogen; pytest also collects Python files itself, for their other tests."""
    if not parent.config.getoption("--udogen"):
        return None
    from udogen.verify.test_files.read import is_test_file

    return OpTestFile.from_parent(parent, path=file_path) if is_test_file(file_path) else None


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Pytest imports Python files that use op_test, too."""
    with ExitStack() as stack:
        if isinstance(collector, pytest.Module) and collector.config.getoption("--udogen"):
            from udogen.python_files import user_code
            from udogen.verify.test_files.read import is_test_file

            if is_test_file(collector.path):
                stack.enter_context(user_code(collector.path))
        yield


class OpTestFile(pytest.File):
    """One test file."""

    def collect(self) -> Iterator[pytest.Collector]:
        """A collector for each package and backend."""
        from udogen.errors import UdogenError
        from udogen.verify.options import TestOptions
        from udogen.verify.planning import plan
        from udogen.verify.test_files.read import load_test_files

        options = TestOptions(
            backends=tuple(self.config.getoption("--udogen-backend")),
            timeout=self.config.getoption("--udogen-timeout"),
        )
        try:
            batches = plan(load_test_files(self.path), options).batches
        except UdogenError as error:
            raise self.CollectError(message_of(error)) from error
        for batch in batches:
            name = f"{batch.package.name}-{batch.place.id}"
            yield OpTestPlace.from_parent(self, name=name, batch=batch, options=options)


class OpTestPlace(pytest.Collector):
    """The cases of one package on one backend, and the session in which they run."""

    def __init__(self, *, batch: Batch, options: TestOptions, **more: Any) -> None:
        super().__init__(**more)
        self._batch, self._options = batch, options
        self._runner: CaseRunner | None = None
        self._missing = ""  # why the cases cannot run

    def collect(self) -> Iterator[pytest.Item]:
        """An item for each case."""
        from udogen.findings import visible

        for case in self._batch.cases:
            yield OpTestCase.from_parent(self, name=visible(f"{case.op}: {case.name} [{case.output_types}]"), case=case)

    def run(self, case: Case) -> Outcome:
        """Run one case; the first one builds the package and opens the session."""
        if self._runner is None:
            self._runner = self._open()
        return self._runner.run(case)

    def _open(self) -> CaseRunner:
        from udogen.errors import ToolMissing
        from udogen.verify import packages
        from udogen.verify.places import check_available
        from udogen.verify.runner import CaseRunner

        if self._missing:
            pytest.skip(self._missing)
        batch, options = self._batch, self._options
        ops = list(dict.fromkeys(case.op for case in batch.cases))
        try:
            check_available(batch.place, lambda _line: None)
            built = packages.prepare(batch.source, batch.package, batch.place, ops, options=options)
            return CaseRunner(built, batch.place, options).__enter__()
        except ToolMissing as error:
            self._missing = message_of(error)
            pytest.skip(self._missing)

    def teardown(self) -> None:
        """End the session."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()


class CaseFailed(Exception):
    """A case did not pass."""


class OpTestCase(pytest.Item):
    """One case on one backend."""

    def __init__(self, *, case: Case, **more: Any) -> None:
        super().__init__(**more)
        self._case = case

    def runtest(self) -> None:
        """Run the case; skip or raise if it was skipped or failed."""
        from udogen.verify.report import terminal

        place = self.parent
        assert isinstance(place, OpTestPlace)
        self.user_properties[:] = [(_PROPERTY, "skipped")]
        outcome = place.run(self._case)
        self.user_properties[:] = [(_PROPERTY, outcome.status)]
        if outcome.status in ("skipped", "ran"):
            pytest.skip(outcome.error.message if outcome.error else "there is no reference to compare with")
        if outcome.status in ("failed", "error"):
            raise CaseFailed("\n".join(terminal.failure(outcome)))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The message of udogen, without its traceback."""
        from udogen.errors import UdogenError

        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return (
            message_of(excinfo.value)
            if isinstance(excinfo.value, UdogenError)
            else super().repr_failure(excinfo, style)
        )

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The location of the case."""
        line = self._case.origin.location.rpartition(":")[2] if self._case.origin else ""
        return self.path, int(line) - 1 if line.isdecimal() else None, self.name


def message_of(error: Any) -> str:
    """An error of udogen as lines: what, where, what to do."""
    from udogen.findings import visible

    hint = [f"= {error.hint}"] if error.hint else []
    return visible("\n".join([error.message, *error.details[:_MOST_DETAILS], *hint]))
