"""The command `udogen`, also run as `python -m udogen`; Ctrl-C during its imports ends it without a traceback."""

import os
import sys

commands: list[int] = []  # this process, if it is the command and not a program that uses udogen


def main() -> None:
    """The entry point of the console script."""
    commands.append(os.getpid())
    try:
        from udogen.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
