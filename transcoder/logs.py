"""The service's own log: one line for each thing that happened, as JSON for machines or in colour for people.

What is bound to the context (`structlog.contextvars`) is on each line: job, tenant and attempt, or a request's tenant.
Modules log with the standard library; this gives their lines their form.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal, TextIO

import structlog
from structlog.typing import Processor

LogFormat = Literal["auto", "json", "pretty"]
LogLevel = Literal["debug", "info", "warning", "error"]

QUIET = ("uvicorn", "alembic", "httpx2", "httpcore2", "procrastinate")
"""Loggers whose every step is no news."""


_TRACEBACKS = structlog.processors.ExceptionRenderer(
    # values of variables are requests, keys and addresses with passwords
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


def configure(form: LogFormat, level: LogLevel, stream: TextIO = sys.stderr) -> None:
    """Sets up the process's log. `auto` is pretty on a terminal, JSON elsewhere."""
    pretty = stream.isatty() if form == "auto" else form == "pretty"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(pretty=pretty, coloured=pretty and stream.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def formatter(*, pretty: bool, coloured: bool = False) -> logging.Formatter:
    """Renders records of the standard library."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = (
        [structlog.dev.ConsoleRenderer(colors=coloured)]
        if pretty
        else [
            _TRACEBACKS,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
    )
