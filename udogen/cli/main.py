"""`udogen`: finds the verb, loads only its module, and turns every error into a sentence and an exit code."""

from __future__ import annotations

import gc
import sys

gc.disable()  # a short-lived process: what it imports is never garbage, and looking for it costs a tenth of the start

import click  # noqa: E402

from udogen import __version__  # noqa: E402
from udogen.cli.lazy import LazyGroup  # noqa: E402
from udogen.errors import UdogenError, of_limit  # noqa: E402

# verb -> (module, one line for --help)
VERBS = {
    "init": ("init", "Write a first config, from an ONNX model or from flags."),
    "check": ("check", "Find everything that is wrong with configs."),
    "convert": ("convert", "Write a config in the other language."),
    "generate": ("generate", "Generate op packages from configs."),
    "build": ("build", "Build a package with the compilers of this machine."),
    "inspect": ("inspect", "Check whether a built library will register, and if not, why."),
    "doctor": ("doctor", "Check what this machine has, what is wrong, and how to get the rest."),
    "register": ("register", "Show what a program needs to use an op package."),
    "script": ("script", "Write a folder that runs op packages in a client on a device."),
    "onnx-schema": ("onnx_schema", "Give the custom ops of an ONNX model schemas."),
    "onnx-context": ("onnx_context", "Make a context binary a model of ONNX Runtime."),
    "explain": ("explain", "Explain an error number or a log, and what to try."),
    "graph": ("graph", "Draw the ops of a config, the graphs of a context binary, or an ONNX model."),
    "list": ("list", "Show what udogen can build, generate and compile with."),
    "test": ("test", "Compare ops with their references, on every backend of this machine."),
    "kernels": ("kernels", "Show what code kernels in Python become."),
    "run": ("run", "Run an op of a built package, or context binaries, in the real QNN runtime."),
}


@click.command(
    cls=LazyGroup,
    rows=VERBS,
    title="Verbs",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "-V", "--version", message="udogen %(version)s")
def cli() -> None:
    """From one description of a custom op to op packages for every Qualcomm backend: generated, built,
    registered in the real QNN runtime, executed and verified."""


def main(command: click.Command = cli, name: str = "udogen") -> None:
    """The console script; the vendor's commands call it with a command of their own."""
    if sys.stdout is not None:  # stdout is UTF-8 whatever the locale; names of files are printed as they were given
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    sys.exit(_run(command, name))


def _run(command: click.Command, name: str) -> int:
    from udogen.cli import output

    try:
        code = command.main(prog_name=name, standalone_mode=False)
        output.flush()
        return code if isinstance(code, int) else 0  # a verb may return an exit code
    except UdogenError as fault:
        output.print_error(fault)
        return fault.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as fault:
        output.print_usage_error(fault)
        return 2
    except (KeyboardInterrupt, click.Abort):
        output.print_note("interrupted")
        return 130
    except BrokenPipeError:
        return output.reader_gone()
    except SystemExit as stop:
        if stop.code == 1:  # click, when the reader of stdout is gone
            return output.reader_gone()
        raise
    except Exception as fault:
        if limit := of_limit(fault):
            output.print_error(limit)
            return limit.exit_code
        if isinstance(fault, OSError) and fault.filename is None:
            return output.stdout_failed(fault)
        return output.print_internal_error(fault)  # a fault of udogen: never a bare traceback
