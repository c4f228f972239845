"""Connections that go to the addresses that were checked, and to no others."""

from __future__ import annotations

from collections.abc import Iterable

import httpcore2

from transcoder.network.addresses import Address


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the addresses that were checked, whatever host it is asked for. TLS still verifies the host."""

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        self._addresses = addresses
        self._sockets = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: httpcore2.NetworkError | httpcore2.TimeoutException | None = None
        for address in self._addresses:
            try:
                return await self._sockets.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError("no address")
