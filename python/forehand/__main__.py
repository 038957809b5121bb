"""`python -m forehand`: the same as the command `forehand`."""

from forehand.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
