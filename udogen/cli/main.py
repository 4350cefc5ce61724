"""`udogen`: finds the verb, imports only its module, and turns every error into a sentence and an exit code."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from typing import Any

gc.disable()  # a short-lived process: imported objects are never garbage, and collection takes a tenth of the start

import click  # noqa: E402

from udogen import __version__  # noqa: E402
from udogen.cli.lazy import LazyGroup  # noqa: E402
from udogen.errors import UdogenError, limit_of_threads, of_length, of_limit  # noqa: E402

# verb -> (module, one line for --help)
VERBS = {
    "new": ("new", "Make a project: from scratch, a config, a model or an old package."),
    "check": ("check", "Report all errors in configs, with file, line and fix."),
    "convert": ("convert", "Convert a config between XML OpDef and JSON UDO."),
    "generate": ("generate", "Generate op packages from configs."),
    "build": ("build", "Build packages with the SDKs or with open compilers."),
    "inspect": ("inspect", "Show what a library, context, config, model or kernel contains."),
    "run": ("main:run", "Run an op, a model or context binaries in the QNN runtime."),
    "test": ("test", "Compare ops with their references on every backend."),
    "register": ("register", "Show what a program needs to use an op package."),
    "script": ("script", "Write a folder that runs packages on a device."),
    "doctor": ("doctor", "Check this machine: what is missing, and how to get it."),
    "explain": ("explain", "Explain an error number or a log."),
}

# In the order of the work; verbs of plug-ins follow.
SECTIONS = {
    "Describe": "new check convert",
    "Build": "generate build inspect",
    "Run": "run test",
    "Ship": "register script",
    "Help": "doctor explain",
}


# what is run -> (module, one line for --help)
RUNS = {
    "op": ("run_op", "Run one op of a built package."),
    "steps": ("run_steps", "Execute steps of a model of context binaries."),
    "context": ("run_context", "Restore context binaries and execute their graphs."),
}


@click.group("run", cls=LazyGroup, rows=RUNS, path="run ")
def run() -> None:
    """Example: udogen run op out Scale --input x=2x3x4

    Run ops, models and context binaries in the real QNN runtime, or in udogen's emulator."""
    from udogen.runtime.worker_process import check_memory

    check_memory()


class Udogen(LazyGroup):
    """The group of all verbs, whose shell completion ends without `SystemExit`, as a verb does."""

    def _main_shell_completion(self, *args: Any, **more: Any) -> None:
        try:
            super()._main_shell_completion(*args, **more)
        except SystemExit as stop:  # by click: the words are printed
            raise click.exceptions.Exit(int(stop.code or 0)) from None


@click.command(
    cls=Udogen,
    rows=VERBS,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "-V", "--version", message="udogen %(version)s")
def cli() -> None:
    """One description of a custom op, op packages for every Qualcomm backend: generated, built, registered in
    the real QNN runtime, executed and verified.

    First steps: udogen new scale && cd scale && udogen test"""


def main(command: click.Command = cli, name: str = "udogen") -> None:
    """The entry point of the console script; those of the vendor's commands pass their own command."""
    _open_closed_streams()
    # UTF-8 regardless of the locale; names of files are printed as they were given
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    before = set(threading.enumerate())
    code = _run(command, name)
    leave_threads(before, code)
    sys.exit(code)


def leave_threads(before: set[threading.Thread], code: int) -> None:
    """End the process without waiting for threads that the user's code has started and that do not end."""
    left = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    for thread in left:
        thread.join(1)
    if any(thread.is_alive() for thread in left):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _open_closed_streams() -> None:
    """Open /dev/null where a standard stream was closed: a file or pipe of udogen would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _choose_cache() -> None:
    from udogen import resources

    if cache := resources.choose_cache():
        from udogen.cli import output

        output.warn(f"HOME is not set to a folder: the cache is {cache}; set HOME or XDG_CACHE_HOME")


def _run(command: click.Command, name: str) -> int:
    stdout = sys.stdout
    try:
        _choose_cache()
        code: int | None = command.main(prog_name=name, standalone_mode=False)  # a verb may return an exit code
        sys.stdout.flush()
        return code or 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except BaseException as fault:
        return _ended_by(fault, is_replaced=sys.stdout is not stdout)  # click replaces stdout if its reader is gone


def _ended_by(fault: BaseException, *, is_replaced: bool) -> int:
    """Print an error; returns the exit code."""
    from udogen.cli import output

    match fault:
        case UdogenError():
            output.print_error(fault)
            return fault.exit_code
        case click.Abort() | KeyboardInterrupt():
            if threads := limit_of_threads():
                output.print_error(threads)
                return threads.exit_code
            output.print_note("interrupted")
            return 130
        case click.ClickException():
            output.print_usage_error(fault)
            return 2
        case BrokenPipeError():
            return output.reader_gone()
        case SystemExit(code=1) if is_replaced:
            return output.reader_gone()
        case SystemExit(code=code) if code == 128 + signal.SIGTERM:
            raise fault
    if limit := of_limit(fault) or of_length(fault):
        output.print_error(limit)
        return limit.exit_code
    if isinstance(fault, OSError) and fault.filename is None:
        return output.stdout_failed(fault)
    return output.print_internal_error(fault)  # a bug of udogen: never print a bare traceback
