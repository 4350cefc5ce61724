"""The command `udogen`, also as `python -m udogen`; Ctrl-C ends it without a traceback while it is still imported."""

import sys


def main() -> None:
    """The console script."""
    try:
        from udogen.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
