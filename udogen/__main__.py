"""`python -m udogen` is the command `udogen`."""

from udogen.cli.main import main

if __name__ == "__main__":
    main()
