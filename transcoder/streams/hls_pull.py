"""Reading a live HLS stream: its newest segments, one after the other, as one stream of bytes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from pipelines.live.link import ConnectFailed
from transcoder.network.addresses import BlockedAddress, Target, parse_url

HLS_TYPES = frozenset({"application/vnd.apple.mpegurl", "application/x-mpegurl", "audio/mpegurl", "audio/x-mpegurl"})
MAX_PLAYLIST_BYTES = 1 << 20
FIRST_SEGMENTS = 3
"""From the end of the playlist on: what its own rules say that a player starts with."""
MAX_VARIANTS_DEPTH = 2

Open = Callable[[str], AbstractAsyncContextManager[tuple[Any, Target]]]

_ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"]*"|[^,]*)')


@dataclass(frozen=True)
class RemoteSegment:
    number: int
    url: str
    init: str | None


@dataclass(frozen=True)
class RemotePlaylist:
    """A media playlist."""

    target_seconds: float
    segments: tuple[RemoteSegment, ...]
    ended: bool


async def pull(url: str, open_url: Open) -> AsyncIterator[bytes]:
    """Bytes of the segments, with their init sections in front. Ends where the playlist does, or its init changes.

    ConnectFailed for playlists that can't be followed: encrypted ones, byte ranges, sound apart from the picture.
    """
    media = await _media_url(url, open_url)
    done: int | None = None
    init: str | None = None
    while True:
        text, base = await _text(media, open_url)
        playlist = parse_media(text, base)
        wanted = [s for s in playlist.segments if done is None or s.number > done]
        if done is None and not playlist.ended:
            wanted = wanted[-FIRST_SEGMENTS:]
        for segment in wanted:
            if segment.init != init:
                if init is not None:
                    return  # another codec: it is opened anew
                init = segment.init
                if init is not None:
                    async for chunk in _body(init, open_url):
                        yield chunk
            async for chunk in _body(segment.url, open_url):
                yield chunk
            done = segment.number
        if playlist.ended:
            return
        await asyncio.sleep(playlist.target_seconds / (1 if wanted else 2))


async def _media_url(url: str, open_url: Open) -> str:
    """The media playlist: the URL itself, or the best variant that it names."""
    for _ in range(MAX_VARIANTS_DEPTH):
        text, base = await _text(url, open_url)
        variant = best_variant(text, base)
        if variant is None:
            return url
        url = variant
    return url


def best_variant(text: str, base: str) -> str | None:
    """The URL of the variant with the highest bandwidth; None for a media playlist."""
    lines = [line.strip() for line in text.splitlines()]
    apart = {
        _attributes(line).get("GROUP-ID")
        for line in lines
        if line.startswith("#EXT-X-MEDIA:TYPE=AUDIO") and "URI" in _attributes(line)
    }
    found: list[tuple[int, str]] = []
    for place, line in enumerate(lines):
        if line.startswith("#EXT-X-STREAM-INF:"):
            about = _attributes(line)
            following = next((each for each in lines[place + 1 :] if each and not each.startswith("#")), None)
            if following is not None and about.get("AUDIO") not in apart:
                found.append((int(about.get("BANDWIDTH", "0") or 0), following))
    if not found:
        if any(line.startswith("#EXT-X-STREAM-INF:") for line in lines):
            raise ConnectFailed("the playlist has its sound apart from the picture: give a variant's URL", stage="open")
        return None
    return _joined(base, max(found)[1])


def parse_media(text: str, base: str) -> RemotePlaylist:
    if not text.lstrip("\ufeff").startswith("#EXTM3U"):
        raise ConnectFailed("the source is no playlist", stage="open")
    target, number, ended = 4.0, 0, False
    init: str | None = None
    segments: list[RemoteSegment] = []
    for line in (each.strip() for each in text.splitlines()):
        tag, _, value = line.partition(":")
        if tag == "#EXT-X-TARGETDURATION":
            target = min(60.0, max(0.5, float(value)))
        elif tag == "#EXT-X-MEDIA-SEQUENCE":
            number = int(value)
        elif tag == "#EXT-X-MAP":
            init = _joined(base, _attributes(line)["URI"])
        elif tag == "#EXT-X-KEY" and _attributes(line).get("METHOD") != "NONE":
            raise ConnectFailed("the playlist is encrypted", stage="open")
        elif tag == "#EXT-X-BYTERANGE":
            raise ConnectFailed("the playlist's segments are parts of files", stage="open")
        elif tag == "#EXT-X-ENDLIST":
            ended = True
        elif line and not line.startswith("#"):
            segments.append(RemoteSegment(number, _joined(base, line), init))
            number += 1
    return RemotePlaylist(target, tuple(segments), ended)


def _attributes(line: str) -> dict[str, str]:
    return {name: value.strip('"') for name, value in _ATTRIBUTE.findall(line.partition(":")[2])}


def _joined(base: str, reference: str) -> str:
    """BlockedAddress for what leads to another scheme; addresses are checked when it is opened."""
    if not reference.isprintable():
        raise BlockedAddress("a playlist's URL has a character that must be percent-encoded")
    url = urljoin(base, reference)
    parse_url(url)
    return url


async def _text(url: str, open_url: Open) -> tuple[str, str]:
    """A playlist, and where it came from at last."""
    taken = bytearray()
    async with open_url(url) as (response, place):
        async for chunk in response.aiter_stream():
            taken += chunk
            if len(taken) > MAX_PLAYLIST_BYTES:
                raise ConnectFailed("the playlist is too long", stage="open")
    return taken.decode("utf-8", "replace"), place.url


async def _body(url: str, open_url: Open) -> AsyncIterator[bytes]:
    async with open_url(url) as (response, _):
        async for chunk in response.aiter_stream():
            yield chunk
