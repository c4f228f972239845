"""Low-latency HLS as the engine writes it: parts, their playlists, and what a crash leaves of them."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.asked.streams import CmafOutput, HlsOutput
from pipelines.live import parted
from pipelines.live.homes import CopyHome
from pipelines.live.packager import Packager
from pipelines.live.parting import Filled, InStep, Parting
from pipelines.live.units import Piece, Track, Unit
from tests.ll_hls_rules import Playlist, check, check_bytes, check_history
from tests.media import make_video
from tests.pipelines.live.rig import is_rising, played

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = {"low_latency": True, "segment_seconds": 1, "window_seconds": 4, "part_seconds": 0.2, "name": "hls"}


def wall(moment: Fraction) -> datetime:
    return EPOCH + timedelta(seconds=float(moment))


def packager(folder: Path, video: str | None = "v-copy", *, kind: type[Any] = HlsOutput, **more: Any) -> Packager:
    folder.mkdir(exist_ok=True)
    output = kind.model_validate({**ASKED, **more})
    return Packager(output, folder, [video] if video else [], "a-copy", wall)


def pieces_of(path: Path) -> Iterator[Piece]:
    """A clip's packets as pieces, as a copy of a source has them."""
    home = CopyHome()
    with av.open(str(path)) as container:
        tracks = {stream: home.track(f"{stream.type[0]}-copy", stream) for stream in container.streams}
        for packet in container.demux():
            if packet.pts is not None and packet.dts is not None:
                key = packet.is_keyframe or packet.stream.type == "audio"
                unit = Unit(bytes(packet), packet.pts, packet.dts, packet.duration or 0, key)
                yield Piece(tracks[packet.stream], unit)


def made(folder: Path, **how: Any) -> Path:
    defaults: dict[str, Any] = {"size": (160, 120), "seconds": 5, "gop": 12, "options": {"preset": "ultrafast"}}
    return make_video(folder / "clip.mkv", **{**defaults, **how})


def write(target: Packager, pieces: Iterator[Piece], folder: Path, name: str = "v-copy") -> list[str]:
    """Each text that the playlist had, in turn."""
    texts: list[str] = []
    for piece in pieces:
        target.take(piece)
        path = folder / f"{name}.m3u8"
        if path.exists() and (text := path.read_text()) not in texts[-1:]:
            texts.append(text)
    return texts


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"rate": Fraction(30_000, 1001), "gop": 20},
        {"rate": 10, "gop": 7},
        {"b_frames": 2, "gop": 20, "options": {"preset": "veryfast"}},
    ],
    ids=["plain", "29.97", "slow", "reordered"],
)
def test_playlists_keep_the_rules_from_part_to_part(tmp_path: Path, how: dict[str, Any]) -> None:
    out = tmp_path / "out"
    target = packager(out)
    texts = write(target, pieces_of(made(tmp_path, **how)), out)
    history = check_history(texts)
    last = history[-1]
    assert len(history) > 15
    assert last.reports.keys() == {"a-copy.m3u8"}
    assert abs(last.reports["a-copy.m3u8"][0] - last.edge[0]) <= 1
    assert check_bytes(last, lambda uri: (out / uri).read_bytes()) >= 3
    check((out / "a-copy.m3u8").read_text())


def test_sound_alone_is_published_in_parts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    target = packager(out, None)
    sound = (piece for piece in pieces_of(made(tmp_path)) if piece.track.kind == "audio")
    history = check_history(write(target, sound, out, "a-copy"))
    assert history[-1].reports == {}
    assert history[-1].edge[0] >= 4


def test_at_the_end_there_is_a_plain_playlist_and_no_part(tmp_path: Path) -> None:
    out = tmp_path / "out"
    target = packager(out)
    write(target, pieces_of(made(tmp_path)), out)
    target.end()
    text = (out / "v-copy.m3u8").read_text()
    assert "#EXT-X-ENDLIST" in text
    assert "PART" not in text
    assert not list(out.rglob(f"{parted.PART_NAME}*"))
    frames = played(out / "index.m3u8")
    assert is_rising([dts for _, dts in frames["video"]])
    assert len(frames["video"]) >= 100


def test_sound_is_in_the_segment_of_its_time_however_far_it_runs_ahead(tmp_path: Path) -> None:
    """Encoded pictures come later than the sound that belongs to them."""
    out = tmp_path / "out"
    target = packager(out)
    pieces = list(pieces_of(made(tmp_path)))
    late = sorted(pieces, key=lambda piece: piece.time + (Fraction(2, 5) if piece.track.kind == "video" else 0))
    write(target, iter(late), out)
    video, audio = (check((out / f"{name}-copy.m3u8").read_text()) for name in "va")
    whole = [(one, other) for one, other in zip(video.segments, audio.segments, strict=False) if one.uri and other.uri]
    assert len(whole) >= 3
    assert all(abs(one.seconds - other.seconds) < Fraction(1, 20) for one, other in whole)


def test_dash_and_the_long_window_know_nothing_of_parts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    target = packager(out, kind=CmafOutput, dvr_seconds=60)
    write(target, pieces_of(made(tmp_path)), out)
    long = (out / "dvr-v-copy.m3u8").read_text()
    assert "PART" not in long
    assert long.count("#EXTINF") == check((out / "v-copy.m3u8").read_text()).segments[-1].number - 1
    assert parted.PART_NAME not in (out / "manifest.mpd").read_text()


def test_old_parts_leave_the_disk(tmp_path: Path) -> None:
    out = tmp_path / "out"
    target = packager(out)
    write(target, pieces_of(made(tmp_path, seconds=12)), out)
    left = len(list((out / "v-copy").glob(f"{parted.PART_NAME}*")))
    per_segment = 5
    assert left <= (parted.KEPT_TARGETS + 2) * per_segment


def test_a_crash_in_mid_segment_leaves_a_segment_of_its_parts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    pieces = list(pieces_of(made(tmp_path)))
    stopped = int(len(pieces) * 0.75)
    before = check(write(packager(out), iter(pieces[:stopped]), out)[-1])
    number, _ = before.edge
    assert before.segments[-1].uri is None
    # with a line that was not written whole
    with (out / ".parts-v-copy.jsonl").open("a") as log:
        log.write('{"segment":')
    expected = b"".join((out / each.uri).read_bytes() for each in before.segments[-1].parts)
    again = packager(out)
    texts = write(again, (replace(piece, fresh=False) for piece in pieces[stopped:]), out)
    after = check(texts[-1], resumed=True)
    restored = next(each for each in after.segments if each.number == number)
    assert restored.uri is not None
    assert (out / restored.uri).read_bytes() == expected
    assert restored.seconds == before.segments[-1].parted
    following = next(each for each in after.segments if each.number == number + 1)
    assert following.fresh
    assert not set(before.parts) & set(after.parts), "a name was used twice"
    again.end()
    assert is_rising([dts for _, dts in played(out / "v-copy.m3u8")["video"]])


def test_a_part_that_can_not_be_written_costs_no_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    written: list[Path] = []
    really: Callable[[Path, bytes], None] = parted.write_whole

    def write_whole(path: Path, data: bytes) -> None:
        written.append(path)
        if path.name.startswith(parted.PART_NAME) and len(written) == 12:
            raise OSError(errno.ENOSPC, "full")
        really(path, data)

    monkeypatch.setattr(parted, "write_whole", write_whole)
    target = packager(out)
    write(target, pieces_of(made(tmp_path)), out)
    target.end()
    assert target.standing.failures == 1
    assert (target.standing.error, target.standing.state) == (None, "live")
    frames = played(out / "v-copy.m3u8")["video"]
    assert len(frames) == 125


def test_segments_that_were_never_cut_in_parts_are_listed_on(tmp_path: Path) -> None:
    """A stream that was made with another version, or another setting, goes on."""
    out = tmp_path / "out"
    pieces = list(pieces_of(made(tmp_path)))
    plain = packager(out, low_latency=False)
    for piece in pieces[: len(pieces) // 2]:
        plain.take(piece)
    texts = write(packager(out), iter(pieces[len(pieces) // 2 :]), out)
    assert "#EXT-X-PART:" in texts[-1]
    assert texts[-1].count("#EXT-X-DISCONTINUITY\n") == 1


TIMES = Fraction(1, 90_000)


def parts_of(durations: list[int], *, steady: bool, said: int | None = None) -> tuple[Parting, list[Filled]]:
    track = Track("v0", "video", "h264", TIMES, None, frame_rate=Fraction(25), steady=steady)
    parting = Parting(Fraction(1, 2))
    dts, filled = 0, []
    for number, ticks in enumerate(durations):
        unit = Unit(b"x", dts, dts, said or ticks, number == 0)
        filled += parting.take(Piece(track, unit))
        dts += ticks
    return parting, [*filled, *parting.rest()]


@given(st.integers(1, 200))
def test_steady_pictures_make_equal_parts(count: int) -> None:
    parting, filled = parts_of([3600] * count, steady=True)
    assert [len(each.pieces) for each in filled[:-1]] == [13] * (len(filled) - 1)
    assert sum(len(each.pieces) for each in filled) == count
    assert all(each.end - each.start <= parting.target for each in filled)


@given(st.lists(st.integers(3500, 3700), min_size=30, max_size=200))
def test_pictures_at_rounded_times_make_parts_that_are_long_enough(durations: list[int]) -> None:
    parting, filled = parts_of(durations, steady=False, said=3600)
    assert all(each.end - each.start <= parting.target for each in filled)
    assert all(each.end - each.start >= parting.target * Fraction(85, 100) for each in filled[:-1])
    assert all(before.end == after.start for before, after in pairwise(filled))


@given(st.lists(st.integers(1, 400_000), min_size=1, max_size=60))
def test_no_part_is_longer_than_the_target_whatever_pictures_do(durations: list[int]) -> None:
    parting, filled = parts_of(durations, steady=False)
    assert all(0 < each.end - each.start <= parting.target for each in filled)
    assert sum(len(each.pieces) for each in filled) == len(durations)


def test_what_the_leader_never_reaches_goes_on_alone() -> None:
    step = InStep("v0")
    sound = Track("a0", "audio", "aac", Fraction(1, 48_000), None)
    pieces = [Piece(sound, Unit(b"s", n * 1024, n * 1024, 1024, True)) for n in range(300)]
    passed = [each for piece in pieces for each in step.take(piece)]
    assert 0 < len(passed) < 300
    assert [*passed, *step.rest()] == pieces


@pytest.mark.parametrize(
    "asked",
    [{"segment_type": "ts"}, {"part_seconds": 0.6}, {"part_seconds": 0.1}, {"part_seconds": 3}],
    ids=["ts", "half", "short", "long"],
)
def test_what_can_not_be_low_latency_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        HlsOutput.model_validate({**ASKED, **asked})


def test_each_playlist_reports_the_other_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(packager(out), pieces_of(made(tmp_path)), out)
    found: dict[str, Playlist] = {name: check((out / f"{name}-copy.m3u8").read_text()) for name in "va"}
    # the one that was written later knows how far the other is
    assert found["v"].edge in found["a"].reports.values() or found["a"].edge in found["v"].reports.values()
