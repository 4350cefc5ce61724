"""`python -m udogen.compat.qti [--replace] SCRIPT.py|-m MODULE [ARGUMENT]...`: runs a program with udogen's generator.

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

USAGE = "python -m udogen.compat.qti [--replace] SCRIPT.py|-m MODULE [ARGUMENT]..."
HELP = f"""Usage: {USAGE}

  Run a program with udogen's qti.aisw.op_package_generator where Qualcomm's is not installed:
  ExecuTorch's custom-op interface then needs no Python of the SDK.

  --replace  use udogen's even where Qualcomm's is installed
  -m MODULE  the program is a module, as with python -m"""


def main(arguments: Sequence[str]) -> None:
    """Run the program; its own errors and exit codes are passed on."""
    rest, replace, module = list(arguments), False, ""
    while rest and rest[0].startswith("-") and not module:
        option = rest.pop(0)
        if option in ("-h", "--help"):
            output.print_result(HELP)
            return
        if option == "--replace":
            replace = True
        elif option == "-m" and rest:
            module = rest.pop(0)
        else:
            raise UsageError(f"no such option: {option}" if option != "-m" else "-m needs a module", hint=USAGE)
    if not module and not rest:
        raise UsageError("no program is given", hint=USAGE)
    install(replace=replace, log=lambda line: output.print_note(f"note: {line}"))
    if module:
        sys.argv = [sys.argv[0], *rest]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    _run_script(rest)


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
