"""A publisher of RTSP (RFC 2326): announces what a stream's process describes, then passes on its packets."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import socket
from dataclasses import dataclass, field

from pipelines.live.link import ConnectFailed
from transcoder.streams.relay import closed
from transcoder.streams.urls import StreamUrl

ANSWER_SECONDS = 10.0
SEND_SECONDS = 10.0
"""How long a server may take nothing."""
ALIVE_SECONDS = 20.0
"""Between requests that tell the server that its session is in use still; servers' usual limit is 60."""
MAX_BODY_BYTES = 65_536
_READ_BYTES = 1 << 16
_CHALLENGE = re.compile(r'(\w+)=(?:"([^"]*)"|([^,\s]*))')


@dataclass
class Answer:
    status: int
    reason: str
    headers: dict[str, str] = field(default_factory=dict)
    challenges: list[str] = field(default_factory=list)


class RtspPublisher:
    """One connection to a server, which is told the URL without its credentials."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: StreamUrl) -> None:
        self._reader, self._writer, self._url = reader, writer, url
        self._address = url.plain.rstrip("/")
        self._number = 0
        self._session: str | None = None
        self._challenge: tuple[str, dict[str, str]] | None = None

    async def announce(self, described: bytes) -> None:
        """Until the server records. ConnectFailed when it does not take the stream."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._begin(described)
        except (asyncio.IncompleteReadError, TimeoutError, OSError, ValueError) as error:
            raise ConnectFailed(f"{self._url.host} broke off, or does not speak RTSP", stage="fetch") from error

    async def send(self, source: socket.socket) -> None:
        """Everything that comes over `source`, until it ends or the server does."""
        theirs, ours = await asyncio.open_connection(sock=source)
        ways = [asyncio.create_task(self._send(theirs)), asyncio.create_task(self._hear())]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if ways[0] in done and ways[0].exception() is None:
                self._write("TEARDOWN", self._address)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await closed(ours, self._writer)

    async def _begin(self, described: bytes) -> None:
        await self._ask("OPTIONS", self._address)
        await self._ask("ANNOUNCE", self._address, {"Content-Type": "application/sdp"}, described)
        for number in range(described.count(b"\r\nm=")):
            way = f"RTP/AVP/TCP;unicast;interleaved={2 * number}-{2 * number + 1};mode=record"
            await self._ask("SETUP", f"{self._address}/streamid={number}", {"Transport": way})
        await self._ask("RECORD", self._address, {"Range": "npt=0.000-"})

    async def _ask(self, method: str, url: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Answer:
        """The server's answer; asked again with credentials where it wants some. ConnectFailed: it refuses."""
        self._write(method, url, headers, body)
        answer = await self._answer()
        if answer.status == 401 and self._url.username is not None and self._challenge is None:
            self._challenge = _chosen(answer.challenges)
            self._write(method, url, headers, body)
            answer = await self._answer()
        if answer.status != 200:
            raise ConnectFailed(f"the server refused {method}: {answer.status} {answer.reason}", stage="fetch")
        if (session := answer.headers.get("session")) is not None:
            self._session = session.partition(";")[0].strip()
        return answer

    def _write(self, method: str, url: str, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self._number += 1
        told = {"CSeq": str(self._number), "User-Agent": "transcoder", **(headers or {})}
        if self._session is not None:
            told["Session"] = self._session
        if self._challenge is not None:
            told["Authorization"] = self._authorization(method, url)
        if body:
            told["Content-Length"] = str(len(body))
        lines = [f"{method} {url} RTSP/1.0", *(f"{name}: {value}" for name, value in told.items()), "", ""]
        self._writer.write("\r\n".join(lines).encode() + body)

    def _authorization(self, method: str, url: str) -> str:
        """RFC 2617, 2 and 3; cameras and their servers know nothing newer than MD5."""
        assert self._challenge is not None
        scheme, told = self._challenge
        name, password = self._url.username or "", self._url.password or ""
        if scheme == "basic":
            return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
        realm, nonce = told.get("realm", ""), told.get("nonce", "")
        proof = _md5(f"{_md5(f'{name}:{realm}:{password}')}:{nonce}:{_md5(f'{method}:{url}')}")
        return f'Digest username="{name}", realm="{realm}", nonce="{nonce}", uri="{url}", response="{proof}"'

    async def _answer(self) -> Answer:
        """The next one; packets and requests of the server's between are passed over."""
        while True:
            first = await self._reader.readexactly(1)
            if first == b"$":
                size = int.from_bytes((await self._reader.readexactly(3))[1:])
                await self._reader.readexactly(size)
                continue
            line = (first + await self._reader.readline()).decode("utf-8", "replace").strip()
            if not line:
                continue
            answer = Answer(0, "")
            if line.startswith("RTSP/"):
                status, _, reason = line.partition(" ")[2].partition(" ")
                answer = Answer(int(status), "".join(c for c in reason if c.isprintable())[:100])
            await self._read_headers(answer)
            size = int(answer.headers.get("content-length", "0"))
            if not 0 <= size <= MAX_BODY_BYTES:
                raise ValueError("a body that is too long")
            await self._reader.readexactly(size)
            if answer.status >= 200:
                return answer

    async def _read_headers(self, answer: Answer) -> None:
        while line := (await self._reader.readline()).decode("utf-8", "replace").strip():
            name, _, value = line.partition(":")
            answer.headers[name.strip().lower()] = value.strip()
            if name.strip().lower() == "www-authenticate":
                answer.challenges.append(value.strip())

    async def _send(self, source: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        told = loop.time()
        while head := await source.read(1):
            head += await source.readexactly(3)
            packet = await source.readexactly(int.from_bytes(head[2:]))
            self._writer.write(head + packet)
            if loop.time() - told > ALIVE_SECONDS:
                told = loop.time()
                self._write("OPTIONS", self._address)
            async with asyncio.timeout(SEND_SECONDS):
                await self._writer.drain()

    async def _hear(self) -> None:
        """What the server says while it records is of no account, but for its end."""
        while await self._reader.read(_READ_BYTES):
            continue


def _chosen(challenges: list[str]) -> tuple[str, dict[str, str]]:
    """Digest where the server offers it."""
    offered: dict[str, dict[str, str]] = {}
    for challenge in challenges:
        scheme, _, rest = challenge.partition(" ")
        values = {name.lower(): quoted or plain for name, quoted, plain in _CHALLENGE.findall(rest)}
        offered.setdefault(scheme.lower(), values)
    for scheme in ("digest", "basic"):
        if scheme in offered:
            return scheme, offered[scheme]
    raise ConnectFailed("the server wants credentials of a kind that is not known here", stage="fetch")


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
