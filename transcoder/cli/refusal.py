"""A service that refuses to start, told in one line: the web server would print where in the code it happened."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from transcoder.errors import ServiceError
from transcoder.observer import Observer
from transcoder.service import Service
from transcoder.settings import Settings


class Refusal:
    """Makes the service, and keeps the error that kept it from starting."""

    def __init__(self) -> None:
        self.error: ServiceError | None = None
        logging.getLogger("uvicorn.error").addFilter(lambda record: self.error is None)

    @asynccontextmanager
    async def make_service(self, settings: Settings, *, observer: Observer) -> AsyncGenerator[Service, None]:
        async with AsyncExitStack() as stack:
            try:
                service = await stack.enter_async_context(Service(settings, observer=observer))
            except ServiceError as error:
                self.error = error
                raise
            yield service
