"""Requests that wait for a low-latency playlist: what they may ask, how long they wait, who may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.live.folder import write_whole
from pipelines.packaging.m3u8 import Entry, InitSection, MediaPlaylist
from pipelines.packaging.parts import LowLatency, Part
from transcoder.streams import holding, watching
from transcoder.streams.edge import ImpossibleReload, Wanted, edge_of, wanted
from transcoder.streams.holding import Holding, ReloadTimeout, TooManyHeld, may_wait

FIRST = 5
PART = Fraction(1, 2)


def playlist(segments: int, parts: int, *, per_segment: int = 4, ended: bool = False, target: int = 2) -> str:
    """Whole segments of `per_segment` parts each, numbered from FIRST on, and the open one's parts."""
    numbers = range(FIRST, FIRST + segments)
    entries = [
        Entry(f"v0/{n}.m4s", Fraction(2), parts=[_part(n, place) for place in range(per_segment)]) for n in numbers
    ]
    if parts:
        entries.append(Entry(None, Fraction(0), parts=[_part(FIRST + segments, place) for place in range(parts)]))
    control = LowLatency(PART, PART, f"v0/part-{FIRST + segments}.{parts}.m4s")
    init = InitSection("v0/init.mp4")
    return MediaPlaylist(target, entries, init, media_sequence=FIRST, ended=ended, low_latency=control).text()


def _part(segment: int, place: int) -> Part:
    return Part(f"v0/part-{segment}.{place}.m4s", PART, place == 0)


def publish(folder: Path, text: str) -> None:
    write_whole(folder / "v0.m3u8", text.encode())


async def runs() -> bool:
    return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "v0").mkdir()
    publish(tmp_path, playlist(3, 1))
    return tmp_path


def test_the_edge_is_read_off_a_playlist() -> None:
    edge = edge_of(playlist(3, 2))
    assert edge is not None
    assert (edge.segments, edge.parts, edge.parts_of) == (8, 2, {5: 4, 6: 4, 7: 4})
    assert (edge.target_seconds, edge.part_target_seconds, edge.hint) == (2, 0.5, "v0/part-8.2.m4s")
    assert edge_of(MediaPlaylist(2, [Entry("a.m4s", Fraction(2))]).text()) is None


@pytest.mark.parametrize(
    ("asked", "met"),
    [
        (Wanted(7, None), True),
        (Wanted(8, None), False),
        (Wanted(8, 1), True),
        (Wanted(8, 2), False),
        (Wanted(7, 3), True),
        # behind the last part of 7 comes the first one of 8
        (Wanted(7, 4), True),
        (Wanted(2, 9), True),
        (Wanted(9, 0), False),
    ],
)
def test_a_playlist_has_what_is_asked_for_or_has_not(asked: Wanted, met: bool) -> None:
    edge = edge_of(playlist(3, 2))
    assert edge is not None
    assert asked.is_in(edge) == met


def test_the_part_after_a_segments_last_one_is_the_next_segments_first() -> None:
    edge = edge_of(playlist(3, 0))
    assert edge is not None
    assert Wanted(7, 3).is_in(edge)
    assert not Wanted(7, 4).is_in(edge)


def test_an_ended_playlist_has_all_there_will_be() -> None:
    edge = edge_of(playlist(3, 0, ended=True))
    assert edge is not None
    assert Wanted(100, 7).is_in(edge)


@pytest.mark.parametrize("asked", [Wanted(10, None), Wanted(10, 0), Wanted(8, 8), Wanted(10**14, 0)])
def test_what_is_too_far_ahead_is_refused(asked: Wanted) -> None:
    edge = edge_of(playlist(3, 2))
    assert edge is not None
    with pytest.raises(ImpossibleReload):
        asked.check(edge)


@pytest.mark.parametrize("asked", [Wanted(9, None), Wanted(9, 0), Wanted(8, 7)])
def test_what_comes_soon_is_waited_for(asked: Wanted) -> None:
    edge = edge_of(playlist(3, 2))
    assert edge is not None
    asked.check(edge)


@pytest.mark.parametrize(
    "query",
    [{"_HLS_part": "1"}, {"_HLS_msn": "-1"}, {"_HLS_msn": "x"}, {"_HLS_msn": "1", "_HLS_part": "²"}, {"_HLS_msn": ""}],
)
def test_what_is_no_number_is_refused(query: Mapping[str, str]) -> None:
    with pytest.raises(ImpossibleReload):
        wanted(query)


@given(st.text(max_size=300))
def test_any_text_has_an_edge_or_none(text: str) -> None:
    edge_of(text)


def test_only_playlists_and_parts_are_waited_for() -> None:
    assert wanted({"download": "1"}) is None
    assert not may_wait("v0/00000001.m4s", None)
    assert may_wait("v0/part-1.m4s", None)


async def test_a_reload_is_answered_with_the_part_it_asked_for(folder: Path) -> None:
    keeper = Holding(4)
    waiting = asyncio.create_task(keeper.reload(folder, "v0.m3u8", Wanted(8, 2), runs))
    await _held(keeper, 1)
    publish(folder, playlist(3, 2))
    publish(folder, playlist(3, 3))
    async with asyncio.timeout(20):
        await waiting
    assert keeper.held == 0


async def test_many_who_wait_are_answered_together(folder: Path) -> None:
    keeper = Holding(100)
    waiting = [asyncio.create_task(keeper.reload(folder, "v0.m3u8", Wanted(8, 1), runs)) for _ in range(50)]
    await _held(keeper, 50)
    publish(folder, playlist(3, 2))
    async with asyncio.timeout(20):
        await asyncio.gather(*waiting)


async def test_the_next_part_is_waited_for_by_its_name(folder: Path) -> None:
    keeper = Holding(4)
    waiting = asyncio.create_task(keeper.part(folder, "v0/part-8.1.m4s", runs))
    await _held(keeper, 1)
    publish(folder, playlist(3, 2))
    async with asyncio.timeout(20):
        await waiting


@pytest.mark.parametrize("path", ["v0/part-8.2.m4s", "v0/part-1.0.m4s", "v1/part-8.1.m4s", "part-8.1.m4s", "../part-x"])
async def test_other_parts_are_not_waited_for(folder: Path, path: str) -> None:
    await Holding(0).part(folder, path, runs)


async def test_nobody_waits_for_a_playlist_without_parts_or_none(folder: Path) -> None:
    keeper = Holding(0)
    publish(folder, MediaPlaylist(2, [Entry("a.m4s", Fraction(2))]).text())
    await keeper.reload(folder, "v0.m3u8", Wanted(100, 3), runs)
    await keeper.reload(folder, "v9.m3u8", Wanted(100, 3), runs)
    await keeper.reload(folder, "../../etc/passwd", Wanted(100, 3), runs)


async def test_who_comes_when_too_many_wait_is_turned_away(folder: Path) -> None:
    keeper = Holding(1)
    first = asyncio.create_task(keeper.reload(folder, "v0.m3u8", Wanted(8, 1), runs))
    await _held(keeper, 1)
    with pytest.raises(TooManyHeld):
        await keeper.reload(folder, "v0.m3u8", Wanted(8, 1), runs)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert keeper.held == 0


async def test_a_reload_ends_when_nothing_comes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "MAX_TARGETS", 0.05)
    with pytest.raises(ReloadTimeout):
        await Holding(4).reload(folder, "v0.m3u8", Wanted(8, 1), runs)


async def test_a_reload_ends_with_its_stream(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, with the playlist's end; or without, when its process has gone."""
    keeper = Holding(4)
    waiting = asyncio.create_task(keeper.reload(folder, "v0.m3u8", Wanted(9, None), runs))
    await _held(keeper, 1)
    publish(folder, playlist(3, 1, ended=True))
    async with asyncio.timeout(20):
        await waiting
    publish(folder, playlist(3, 1))
    monkeypatch.setattr(holding, "LOOK_SECONDS", 0.02)
    gone = asyncio.Event()

    async def runs_no_more() -> bool:
        return not gone.is_set()

    waiting = asyncio.create_task(keeper.reload(folder, "v0.m3u8", Wanted(9, None), runs_no_more))
    await _held(keeper, 1)
    gone.set()
    async with asyncio.timeout(20):
        await waiting


async def test_a_file_system_that_tells_nothing_is_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_inotify() -> None:
        raise OSError(24, "too many")

    monkeypatch.setattr(watching, "Inotify", no_inotify)
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.02)
    keeper = Holding(4)
    waiting = asyncio.create_task(keeper.reload(folder, "v0.m3u8", Wanted(8, 1), runs))
    await _held(keeper, 1)
    publish(folder, playlist(3, 2))
    async with asyncio.timeout(20):
        await waiting


async def test_a_folder_that_goes_ends_the_wait(folder: Path) -> None:
    keeper = Holding(4)
    waiting = asyncio.create_task(keeper.reload(folder, "v0.m3u8", Wanted(8, 1), runs))
    await _held(keeper, 1)
    (folder / "v0.m3u8").unlink()
    (folder / "v0").rmdir()
    folder.rmdir()
    async with asyncio.timeout(20):
        await waiting


async def _held(keeper: Holding, count: int) -> None:
    """Once as many requests wait, and their folder is watched."""
    async with asyncio.timeout(20):
        while keeper.held < count:
            await asyncio.sleep(0)
