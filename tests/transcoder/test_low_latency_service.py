"""Low-latency HLS through the whole service: a source, the stream's child, and players that wait for parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.ll_hls_rules import Playlist, check, check_bytes, check_history
from tests.transcoder.stream_peers import free_udp_port, need_ffmpeg, publisher
from tests.transcoder.test_stream_service import Streams, serving

pytestmark = pytest.mark.slow

RUNG = {"height": 64, "speed": "ultrafast"}
HLS = {"type": "hls", "low_latency": True, "segment_seconds": 2, "part_seconds": 0.4, "window_seconds": 8}
BLOCKING_SECONDS = 20


class Player:
    """Asks as players of low-latency streams do."""

    def __init__(self, streams: Streams, base: str) -> None:
        self.http, self.base = streams.http, base

    async def get(self, path: str, **query: int) -> Any:
        params = {f"_HLS_{name}": number for name, number in query.items()}
        return await self.http.get(urljoin(self.base, path), params=params, timeout=BLOCKING_SECONDS)

    async def playlist(self, name: str = "v0.m3u8", **query: int) -> Playlist:
        response = await self.get(name, **query)
        assert response.status_code == 200, response.text
        return check(response.text)

    async def followed(self, name: str, count: int) -> list[str]:
        """As many playlists, each of which was waited for."""
        texts = [(await self.get(name)).text]
        while len(texts) < count:
            segment, part = check(texts[-1]).edge
            texts.append((await self.get(name, msn=segment, part=part + 1)).text)
        return texts


@asynccontextmanager
async def low_latency(folder: Path, **output: Any) -> AsyncGenerator[tuple[Streams, str, Player], None]:
    need_ffmpeg()
    url = f"udp://127.0.0.1:{free_udp_port()}"
    async with serving(folder) as streams:
        with publisher(f"{url}?pkt_size=1316", "mpegts"):
            job_id = await streams.submit({"url": url}, {**HLS, "video": RUNG, **output})
            await streams.published(job_id)
            yield streams, job_id, Player(streams, f"{streams.base}/v1/jobs/{job_id}/outputs/")


async def test_players_follow_a_stream_part_by_part(tmp_path: Path) -> None:
    async with low_latency(tmp_path) as (streams, job_id, player):
        video, audio = await asyncio.gather(player.followed("v0.m3u8", 14), player.followed("a0.m3u8", 14))
        last = check_history(video)[-1]
        check_history(audio)
        got = {part: (await player.get(part)).content for part in last.parts}
        whole = {each.uri: (await player.get(each.uri)).content for each in last.segments if each.uri}
        assert check_bytes(last, lambda uri: {**got, **whole}[uri]) >= 1
        listed = [file["path"] for output in (await streams.get(job_id))["outputs"] for file in output["files"]]
        assert not [path for path in listed if "part-" in path]
        # a player that knows nothing of parts: the segments alone
        plain = await streams.http.get(f"{player.base}v0.m3u8")
        assert plain.text.count("#EXTINF") >= 1


async def test_the_next_part_is_sent_as_soon_as_it_is_there(tmp_path: Path) -> None:
    async with low_latency(tmp_path) as (_, _, player):
        hint = (await player.playlist()).hint
        part = await player.get(hint)
        assert (part.status_code, part.content[4:8]) == (200, b"moof")
        assert hint in (await player.playlist()).parts
        unknown = hint.replace("part-", "part-0")
        assert (await player.get(unknown)).status_code == 404


async def test_what_can_not_come_is_refused_and_a_link_waits_as_a_key_does(tmp_path: Path) -> None:
    async with low_latency(tmp_path) as (streams, job_id, player):
        segment, _ = (await player.playlist()).edge
        far = await player.get("v0.m3u8", msn=segment + 50)
        assert (far.status_code, far.json()["code"]) == (400, "impossible_reload")
        assert (await player.get("v0.m3u8", part=0)).status_code == 400
        link = await streams.http.post(f"/v1/jobs/{job_id}/outputs/index.m3u8/link")
        shared = Player(streams, link.json()["url"])
        check_history(await shared.followed("v0.m3u8", 4))


async def test_who_waits_is_answered_when_the_stream_stops(tmp_path: Path) -> None:
    async with low_latency(tmp_path) as (streams, job_id, player):
        segment, _ = (await player.playlist()).edge
        waiting = asyncio.create_task(player.get("v0.m3u8", msn=segment + 1, part=0))
        ended = await streams.stop(job_id)
        response = await waiting
        assert ended["status"] == "completed"
        assert response.status_code == 200
        last = await player.get("v0.m3u8", msn=segment + 1)
        assert "#EXT-X-ENDLIST" in last.text
        assert "PART" not in last.text
