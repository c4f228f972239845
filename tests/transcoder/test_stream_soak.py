"""Two streams for a long time, a reconnect a minute: only with TRANSCODER_SOAK_MINUTES (20 is a real soak)."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.transcoder.soak import Keeper, Member, decode_times, engines, falls, family, times_of_segments
from tests.transcoder.stream_peers import free_port, need_ffmpeg, publisher
from tests.transcoder.test_stream_service import COPIED, HLS, SMALL, Streams, files, serving

MINUTES = float(os.environ.get("TRANSCODER_SOAK_MINUTES", "0"))
PERIOD_SECONDS = 60
AWAY_SECONDS = 2
LOOK_SECONDS = 1
GROWTH = 1.1
"""At most, of memory from the second quarter of the periods to the last."""
NAME = "%Y-%m-%dT%H-%M-%S.%fZ"

ENCODED = ({**HLS, "window_seconds": 10}, {"type": "record", "segment_seconds": 10, "format": "mkv", "video": SMALL})
PASSED_ON = (
    {**HLS, **COPIED, "window_seconds": 10, "segment_type": "ts"},
    {"type": "record", "segment_seconds": 10, "format": "mp4", **COPIED},
)


async def periods(urls: list[str], keepers: Iterable[Keeper]) -> list[dict[int, Member]]:
    """What the family is at the end of each period, while the sources are there."""
    end = time.monotonic() + MINUTES * 60
    seen = []
    while time.monotonic() < end:
        over = time.monotonic() + min(PERIOD_SECONDS, max(10.0, end - time.monotonic()))
        with publisher(urls[0], "mpegts", "-listen", "1"), publisher(urls[1], "mpegts", "-listen", "1"):
            while time.monotonic() < over:
                await asyncio.sleep(LOOK_SECONDS)
                for keeper in keepers:
                    await asyncio.to_thread(keeper.look)
            seen.append(await asyncio.to_thread(engines))
        await asyncio.sleep(AWAY_SECONDS)
    return seen


def check_processes(seen: list[dict[int, Member]]) -> None:
    """The same ones from the first period to the last, with the same threads and files, and flat memory."""
    first, last = seen[0], seen[-1]
    assert {pid: each.name for pid, each in first.items()} == {pid: each.name for pid, each in last.items()}
    quarter = max(1, len(seen) // 4)
    early, late = seen[quarter : 2 * quarter] or seen[:1], seen[-quarter:]
    for pid, member in last.items():
        before, after = ([statistics.median(each[pid].memory for each in part)] for part in (early, late))
        told = [(each[pid].memory >> 10, each[pid].files, each[pid].threads) for each in seen]
        print(f"{member.name} {pid}: KiB, files and threads by period: {told}")
        assert after[0] <= before[0] * GROWTH, f"memory of {member.name} {pid}"
        assert statistics.median(each[pid].files for each in late) <= statistics.median(e[pid].files for e in early)
        assert statistics.median(each[pid].threads for each in late) <= statistics.median(e[pid].threads for e in early)


def check_segments(keeper: Keeper, sources: int) -> None:
    headers = keeper.headers()
    renditions = keeper.renditions()
    for name, segments in renditions.items():
        assert len(headers[name]) <= 1, "the header changed, and the encoder did not"
        whole: dict[str, list[Any]] = {}
        for times in times_of_segments(segments, headers[name]):
            for kind, told in times.items():
                whole.setdefault(kind, []).extend(told)
        for kind, times in whole.items():
            span = float(times[-1] - times[0])
            gaps = sum(after - before > 1 for before, after in pairwise(times))
            print(f"{name} {kind}: {len(segments)} segments, {len(times)} packets in {span:.1f} s, {gaps} gaps")
            assert falls(times) == []
            assert gaps <= sources


def check_recording(folder: Path) -> None:
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    ends = []
    for path in paths:
        times = decode_times(path)
        assert {kind: falls(told) for kind, told in times.items()} == {kind: [] for kind in times}
        began = datetime.strptime(path.stem, NAME).replace(tzinfo=UTC).timestamp()
        ends.append((began, began + float(times["video"][-1])))
    print(f"{folder.name}: {len(paths)} files, {sum(end - began for began, end in ends):.1f} s")
    # names are of the wall clock, and how far the source is behind it is known better as it goes on
    assert all(after >= before - 2 for (_, before), (after, _) in pairwise(ends))


async def stopped(streams: Streams, job_id: str, reconnects: int) -> None:
    stats = (await streams.get(job_id))["stats"]
    print({key: stats[key] for key in ("frames", "reconnects", "corrupt", "latency_seconds", "warnings")})
    assert stats["reconnects"] >= reconnects
    ended = await streams.stop(job_id)
    assert ended["status"] == "completed"
    assert len([path for path in files(ended) if not path.startswith("record/")]) < 120


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 600)
@pytest.mark.skipif(not MINUTES, reason="set TRANSCODER_SOAK_MINUTES")
async def test_two_streams_with_a_reconnect_a_minute_stay_as_they_are(tmp_path: Path) -> None:
    need_ffmpeg()
    urls = [f"http://127.0.0.1:{free_port()}/live.ts" for _ in range(2)]
    again = {"first_seconds": 0.5, "longest_seconds": 1}
    outputs = tmp_path / "data" / "outputs"
    before = family()
    async with serving(tmp_path) as streams:
        sources = [{"url": url, "reconnect": again, "read_seconds": 3} for url in urls]
        wanted = zip(sources, (ENCODED, PASSED_ON), strict=True)
        ids = [await streams.submit(source, *asked) for source, asked in wanted]
        keepers = [Keeper(outputs / job_id / "live", tmp_path / "kept" / job_id) for job_id in ids]
        seen = await periods(urls, keepers)
        for job_id in ids:
            await stopped(streams, job_id, len(seen) - 1)
        for keeper in keepers:
            keeper.look()
    check_processes(seen)
    for job_id, keeper in zip(ids, keepers, strict=True):
        check_segments(keeper, len(seen))
        check_recording(outputs / job_id / "live" / "record")
    left = [path for path in (tmp_path / "data").rglob(".part-*")]
    after = family()
    assert left == []
    assert set(after) - set(before) == set()
    assert after[os.getpid()].files <= before[os.getpid()].files + 2
