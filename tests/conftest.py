"""The setup of every test run: compilers go through ccache, slow tests are marked, the slowest files start first.

`tests/slow.toml` lists the tests that `make test` leaves out, and why.  `--cpu-times FILE` writes the CPU time of
each test with its child processes.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import signal
import sys
import sysconfig
import tempfile
import time
import venv
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck

import udogen
import udogen.runtime
from tests import worker_forks
from udogen import resources

HERE = Path(__file__).parent
CCACHE = Path("/usr/lib/ccache")  # Debian's folder with links to ccache under the names of all compilers

# They take longest and start first, so that all workers end at about the same time.
SLOWEST = (
    "falsify/test_planted_faults.py",
    "hexagon/test_hexagon_examples.py",
    "emulator/test_gpu_sanitized.py",
    "docs/test_documents.py",
    "emulator/test_threads_sanitized.py",
    "hostile/test_programs.py",
    "scripts/test_device_places.py",
    "verify/test_safety.py",
    "verify/test_exits.py",
    "generate/test_golden_trees.py",
    "kernels/test_python_kernels.py",
    "kernels/test_halves.py",
    "kernels/test_examples.py",
    "kernels/test_kernel_function.py",
    "generate/test_releases.py",
    "build/test_devices.py",
    "opdef/test_broken.py",
    "examples/test_demo.py",
    "snpe/test_builds.py",
    "hexagon/test_hexagon_kernels.py",
    "verify/test_faulty_kernels.py",
    "verify/test_test_runs.py",
    "contexts/test_run_context.py",
    "verify/test_one_kernel.py",
    "runtime/test_udo.py",
    "build/test_building.py",
    "contexts/test_context_models.py",
    "kernels/test_htp_graphs.py",
    "init/test_next_lines.py",
    "runtime/test_proof.py",
    "vendor/test_vendor_style.py",
    "generate/test_htp_core.py",
    "snpe/test_variables.py",
    "docs/test_prose.py",
    "generate/test_cmake.py",
    "fuse/test_fuse.py",
    "generate/test_arguments.py",
    "contexts/test_endings.py",
    "verify/test_client_places.py",
    "scripts/test_scripts_devices.py",
    "inspect/test_inspect_command.py",
    "runtime/test_mistakes.py",
    "verify/test_many_machines.py",
    "generate/test_order.py",
    "scripts/test_scripts_here.py",
    "clients/test_ort_contexts.py",
    "clients/test_ort.py",
    "generate/test_encodings.py",
    "inspect/test_verdicts.py",
    "build/test_launchers.py",
    "cli/test_command_line.py",
    "verify/test_network.py",
    "clients/test_ort_mistakes.py",
    "opdef/test_round_trip.py",
    "build/test_contents.py",
    "fuse/test_onnx_ops.py",
    "hexagon/test_hexagon_tensors.py",
    "build/test_dsp.py",
    "contexts/test_sharded_llm.py",
    "generate/test_htp.py",
    "contexts/test_external_buffers.py",
    "verify/test_stray_writes.py",
    "opdef/test_same_verdicts.py",
    "cli/test_special_files.py",
    "emulator/test_gpu_misuse.py",
    "dsp/test_dsp_runs.py",
)

# Some images set it to avoid clutter; then each of some thousand children would compile all modules that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

UNKNOWN_ROWS = pytest.StashKey[list[str]]()  # rows of slow.toml for which no test was collected

_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
hypothesis.settings.register_profile("quick", max_examples=20, derandomize=True, **_UNHURRIED)
hypothesis.settings.register_profile("all", max_examples=200, **_UNHURRIED)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this test suite."""
    parser.addoption("--cpu-times", metavar="FILE", help="write the processor seconds of each test as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Set up what all tests share."""
    if not config.getoption("--hypothesis-profile"):
        hypothesis.settings.load_profile("quick")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # pytest runs in the background of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)  # or programs that tests interrupt would ignore it
    if CCACHE.is_dir():
        _compile_through_ccache()
    if not hasattr(config, "workerinput"):  # the process that collects the reports of all workers
        config.pluginmanager.register(_Summary(config.getoption("--cpu-times")))


def _compile_through_ccache() -> None:
    """Share one cache between all workers and runs, independent of the folders of tests."""
    os.environ["PATH"] = os.pathsep.join((str(CCACHE), os.environ.get("PATH", os.defpath)))
    os.environ.setdefault("UDOGEN_LAUNCHER", "ccache")  # for zig, which is not in that folder
    settings = {
        "DIR": str(resources.cache_path().parent / "udogen-tests" / "ccache"),
        "BASEDIR": os.path.realpath(tempfile.gettempdir()),
        "COMPILERCHECK": "content",  # the script that starts zig is a new file in each package
        "DEPEND": "1",
        "SLOPPINESS": "include_file_ctime,include_file_mtime",  # tests compile files that they have just written
        "MAXSIZE": "4G",
    }
    for name, value in settings.items():
        os.environ.setdefault(f"CCACHE_{name}", value)


# --- which tests, and in what order -------------------------------------------------------------------------------


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow tests; put the slowest files first."""
    unknown = config.stash.setdefault(UNKNOWN_ROWS, [])
    by_file = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        by_file[item.nodeid.partition("::")[0]].append(item)
    for reason, patterns in resources.read_toml((HERE / "slow.toml").read_bytes()).items():
        for pattern in patterns:
            # A file, a test, or one of its parameters; `*` matches anything.
            named = re.compile("tests/" + re.escape(pattern).replace(r"\*", ".*") + r"($|::|\[)")
            slow = [item for item in by_file["tests/" + pattern.partition("::")[0]] if named.match(item.nodeid)]
            for item in slow:
                item.add_marker(pytest.mark.slow(reason=reason))
            if not slow:
                unknown.append(pattern)
    ranks = {f"tests/{name}": rank for rank, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Load all public names, which from then on check their arguments: in each test, in any order.

    Open the HTP emulator before libQnnHtp: op packages use QHPI's functions of the library that was opened first.
    """
    for package in (udogen, udogen.runtime):
        for name in package.__all__:
            getattr(package, name)
    worker_forks.install()
    if any("emulator" in item.path.parts for item in session.items):
        from udogen.qnn.interface import Interface
        from udogen.runtime import find_runtime

        Interface.load(find_runtime("htp", runtime="emulator").path)


@pytest.fixture(scope="module", autouse=True)
def _shared_sessions() -> Iterator[None]:
    """Close the sessions of `tests.making.op_session` at the end of the file.

    Exclude what earlier files have left (tests, modules, reports) from garbage collections, which many tests call.
    """
    gc.collect()
    gc.freeze()
    yield
    if making := sys.modules.get("tests.making"):
        making.close_op_sessions()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build udogen's wheel, from its source distribution."""
    from tests.making import run_outside

    out = tmp_path_factory.mktemp("dist")
    run_outside(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, HERE.parent, cwd=out)
    (built,) = out.glob("udogen-*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of a venv with the wheel; its dependencies are those of the running venv."""
    from tests.making import run_outside

    home = tmp_path_factory.mktemp("clean")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    site = Path(run_outside(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip())
    # A folder named in a .pth file is only added to the path: the editable udogen in it stays invisible.
    borrowed = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (site / "borrowed.pth").write_text("".join(f"{path}\n" for path in borrowed))
    # pip is borrowed too, and must not treat the udogen next to it as the installed one.
    run_outside(python, "-m", "pip", "install", "--ignore-installed", "--no-deps", "--no-index", wheel, cwd=home)
    return home / "bin"


@pytest.fixture
def unknown_rows(pytestconfig: pytest.Config) -> list[str]:
    """Return the rows of slow.toml that match no test, in a run of the whole suite."""
    if [Path(arg).resolve() for arg in pytestconfig.args] != [HERE]:
        pytest.skip("only some tests were collected")
    return pytestconfig.stash[UNKNOWN_ROWS]


# --- CPU time -----------------------------------------------------------------------------------------------------


def _cpu_seconds() -> float:
    """Return the user and system time of this process and of its children that have ended."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


_last_cpu_seconds = _cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Add to each report (of set-up, test and tear-down) the CPU time since the one before."""
    global _last_cpu_seconds
    report: Any = yield
    before, _last_cpu_seconds = _last_cpu_seconds, _cpu_seconds()
    report.cpu_seconds = _last_cpu_seconds - before
    return report


@pytest.fixture
def print_figures(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Show figures of a test after the run."""

    def show(text: str) -> None:
        request.node.user_properties.append(("figures", text.rstrip()))

    return show


class _Summary:
    """The figures of tests, and their CPU time, from all workers."""

    def __init__(self, cpu_times: str | None) -> None:
        self.cpu_times = cpu_times
        self.by_test: Counter[str] = Counter()
        self.figures: dict[str, str] = {}
        self.ended: dict[str, float] = {}  # worker -> end of its last test

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.by_test[report.nodeid] += getattr(report, "cpu_seconds", 0)
        self.ended[getattr(report, "worker_id", "this process")] = time.monotonic()
        for name, text in report.user_properties:
            if name == "figures":
                self.figures[report.nodeid] = str(text)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for test, text in sorted(self.figures.items()):
            terminalreporter.section(test)
            terminalreporter.write_line(text)
        if self.cpu_times:
            by_folder: Counter[str] = Counter()
            for test, seconds in self.by_test.items():
                by_folder["/".join(test.partition("::")[0].split("/")[1:-1])] += seconds
            terminalreporter.section("processor seconds")
            for folder, seconds in by_folder.most_common():
                terminalreporter.write_line(f"{seconds:8.1f}  {folder}")
            terminalreporter.write_line(f"{sum(by_folder.values()):8.1f}  in all")
            last = max(self.ended.values(), default=0.0)
            for worker, when in self.ended.items():
                terminalreporter.write_line(f"{last - when:8.1f}  seconds before the end {worker} had no more tests")
            took = {test: round(seconds, 3) for test, seconds in self.by_test.most_common()}
            Path(self.cpu_times).write_text(json.dumps(took, indent=0))
