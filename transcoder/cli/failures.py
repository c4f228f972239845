"""Errors on the command line: one line on stderr, and an exit code that scripts can tell apart.

0 done · 1 it was tried and failed · 2 the request can't be done as given · 3 the input can't be used ·
4 the server can't be reached or refused · 130 interrupted (Ctrl-C, SIGTERM)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pydantic import ValidationError

FAILED, USAGE, INPUT, SERVER, INTERRUPTED = 1, 2, 3, 4, 130

EXIT_CODES: dict[str, int] = {
    "invalid_request": USAGE,
    "unsupported": USAGE,
    "filter_missing": USAGE,
    "no_device": USAGE,
    "unknown_preset": USAGE,
    "bad_preset": USAGE,
    "encoder_rejected": USAGE,
    "bad_input": INPUT,
    "truncated": INPUT,
    "no_frames": INPUT,
    "bad_subtitles": INPUT,
    "limit_pixels": INPUT,
    "limit_streams": INPUT,
    "limit_duration": INPUT,
    "limit_fps": INPUT,
    "limit_work": INPUT,
    "limit_size": INPUT,
    "limit_pictures": USAGE,
    "input_not_found": INPUT,
    "path_not_allowed": INPUT,
    "fetch_failed": INPUT,
    "dns_timeout": INPUT,
    "blocked_address": INPUT,
    "cancelled": INTERRUPTED,
}
"""Exit codes by error code; every other error code exits with 1."""


class CommandError(Exception):
    """An error of the command line itself, with the code to show and to exit with."""

    def __init__(self, code: str, message: str, exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.code, self.message, self.exit_code = code, message, exit_code


class Interrupted(CommandError):
    """Ctrl-C or SIGTERM, after everything was cleaned up."""

    def __init__(self) -> None:
        super().__init__("cancelled", "interrupted; nothing was written", INTERRUPTED)


@contextmanager
def reported() -> Iterator[None]:
    """Turns the errors that users can cause into a line and an exit code; others are bugs and pass."""
    try:
        yield
    except PipelineError as error:
        fail(error.code, error.message, EXIT_CODES.get(error.code, FAILED))
    except CommandError as error:
        fail(error.code, error.message, error.exit_code)
    except BrokenPipeError:
        # the reader of a pipe is gone (`| head`): nobody is left to tell
        sys.stderr.close()
        sys.exit(FAILED)
    except OSError as error:
        if error.filename is None:
            raise
        fail("file_error", f"{error.filename}: {error.strerror}", FAILED)


def fail(code: str, message: str, exit_code: int) -> None:
    print(f"error [{code}]: {message}", file=sys.stderr, flush=True)
    sys.exit(exit_code)


@contextmanager
def values_from(where: str) -> Iterator[None]:
    """Says which value of `where` (options, a file, the environment) a model refuses, and why."""
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        raise CommandError("invalid_request", f"{where}: {explain(error)}") from None


def explain(error: ValidationError) -> str:
    """`field: reason` of each fault in a line."""
    return "; ".join(_explain(fault) for fault in error.errors(include_url=False, include_context=False))


def _explain(fault: Any) -> str:
    field = ".".join(str(part) for part in fault["loc"])
    reason = fault["msg"].removeprefix("Value error, ")
    return f"{field}: {reason}" if field else reason
