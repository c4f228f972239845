"""Low-latency HLS through the whole service: a source, the stream's child, and players that wait for parts."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import av
import pytest

from tests.ll_hls_rules import Playlist, check, check_bytes, check_history
from tests.transcoder.stream_peers import free_udp_port, need_ffmpeg, played_frames, publisher
from tests.transcoder.test_stream_service import Streams, serving

pytestmark = pytest.mark.slow

RUNG = {"height": 64, "speed": "ultrafast"}
HLS = {"type": "hls", "low_latency": True, "segment_seconds": 2, "part_seconds": 0.4, "window_seconds": 8}
BLOCKING_SECONDS = 20


def pictures(data: bytes) -> int:
    with av.open(io.BytesIO(data)) as container:
        return sum(1 for _ in container.decode(video=0))


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
        first = next(part for part in last.parts if last.parts[part].independent)
        assert pictures((await player.get("v0/init-1.mp4")).content + got[first]) >= 10
        # a player that knows nothing of parts
        assert await asyncio.to_thread(played_frames, f"{player.base}index.m3u8", 2) > 10


async def test_what_comes_next_is_waited_for_and_nothing_else(tmp_path: Path) -> None:
    async with low_latency(tmp_path) as (streams, job_id, player):
        hint = (await player.playlist()).hint
        part = await player.get(hint)
        assert (part.status_code, part.content[4:8]) == (200, b"moof")
        assert hint in (await player.playlist()).parts
        assert (await player.get(hint.replace("part-", "part-0"))).status_code == 404
        segment, _ = (await player.playlist()).edge
        far = await player.get("v0.m3u8", msn=segment + 50)
        assert (far.status_code, far.json()["code"]) == (400, "impossible_reload")
        assert (await player.get("v0.m3u8", part=0)).status_code == 400
        # a link waits as a key does
        link = await streams.http.post(f"/v1/jobs/{job_id}/outputs/index.m3u8/link")
        check_history(await Player(streams, link.json()["url"]).followed("v0.m3u8", 3))
        # and who waits is answered when the stream stops
        segment, _ = (await player.playlist()).edge
        waiting = asyncio.create_task(player.get("v0.m3u8", msn=segment + 1, part=0))
        ended = await streams.stop(job_id)
        response = await waiting
        assert ended["status"] == "completed"
        assert response.status_code == 200
        last = await player.get("v0.m3u8", msn=segment + 1)
        assert "#EXT-X-ENDLIST" in last.text
        assert "PART" not in last.text
