"""`python -m udogen.compat.qti SCRIPT.py|-m MODULE [ARGUMENT]...`: runs a program with udogen's generator.

The unchanged program gets its own arguments and runs in this process, as Python would run it.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from udogen.cli import output
from udogen.compat.qti import install
from udogen.errors import UdogenError, UsageError

USAGE = "python -m udogen.compat.qti SCRIPT.py|-m MODULE [ARGUMENT]..."
HELP = f"""Usage: {USAGE}

  Run a program with udogen's qti.aisw.op_package_generator where Qualcomm's is not installed:
  ExecuTorch's custom-op interface then needs no Python of the SDK.

  -m MODULE  the program is a module, as with python -m"""


def main(arguments: Sequence[str]) -> None:
    """Run the program; its own errors and exit codes are passed on."""
    first, *rest = arguments or [""]
    if first in ("-h", "--help"):
        output.print_result(HELP)
        return
    if first == "-m" and not rest:
        raise UsageError("-m needs a module", hint=USAGE)
    if first.startswith("-") and first != "-m":
        raise UsageError(f"no such option: {first}", hint=USAGE)
    if not first:
        raise UsageError("no program is given", hint=USAGE)
    install(log=lambda line: output.print_note(f"note: {line}"))
    if first == "-m":
        sys.argv = [sys.argv[0], *rest[1:]]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        _run_script([first, *rest])


def _run_script(argv: Sequence[str]) -> None:
    script = argv[0]
    if not os.path.isfile(script):
        raise UsageError(f"{script} does not exist", hint=USAGE)
    sys.argv = list(argv)
    if not getattr(sys.flags, "safe_path", False):  # as Python does; for -m it is the current folder
        sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UdogenError as fault:
        output.print_error(fault)
        sys.exit(fault.exit_code)
