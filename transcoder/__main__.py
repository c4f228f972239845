"""The `transcoder` command; also `python -m transcoder`."""

from __future__ import annotations

from collections.abc import Sequence

from transcoder.cli import app
from transcoder.cli.failures import reported


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command line (the process's own when not given); always ends in SystemExit."""
    with reported():
        app(args=arguments, prog_name="transcoder")


if __name__ == "__main__":
    main()
