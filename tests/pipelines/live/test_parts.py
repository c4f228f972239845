"""The parts of live streams that need no connection: clocks, cuts, segments, queues, what is asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.asked.streams import Reconnect, StreamJob
from pipelines.live import adts
from pipelines.live.audio_lane import SamplePlaces
from pipelines.live.backoff import Backoff
from pipelines.live.clock import BEGIN, ConnectionClock, OutputClock
from pipelines.live.cutting import Cutter
from pipelines.live.fanout import Fanout
from pipelines.live.outputs import places
from pipelines.live.remux import Continuity
from pipelines.live.sink import MAX_QUEUED_SECONDS, Queued
from pipelines.live.units import Piece, Track, Unit
from pipelines.timestamps import nearest
from tests.pipelines.live.rig import job_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VIDEO = Track("v0", "video", "h264", Fraction(1, 90_000), None)
AUDIO = Track("a0", "audio", "aac", Fraction(1, 48_000), None)
FRAME = 3600
SOUND = 1024


COARSE = Track("v0", "video", "h264", Fraction(1, 1000), None)


class Kept:
    """A sink that keeps what it is handed."""

    tracks = frozenset({"v0"})

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def put(self, piece: Piece) -> None:
        self.pieces.append(piece)


def picture(number: int, *, key: bool = False, fresh: bool = False, track: Track = VIDEO) -> Piece:
    return Piece(track, Unit(b"p" * 100, number * FRAME, number * FRAME, FRAME, key), fresh)


def sound(number: int) -> Piece:
    return Piece(AUDIO, Unit(b"s" * 10, number * SOUND, number * SOUND, SOUND, True))


def test_a_stream_that_resumes_is_at_the_wall_clocks_moment() -> None:
    clock = OutputClock.fresh(NOW)
    later = OutputClock.resumed(clock.epoch, Fraction(100), NOW + timedelta(hours=1))
    assert clock.at == BEGIN
    assert later.at == BEGIN + 3600
    # a wall clock that was set back does not take the stream back
    assert OutputClock.resumed(clock.epoch, Fraction(100), NOW - timedelta(days=1)).at == 100


@given(st.lists(st.sampled_from([0.04, 0.04, 0.04, -90_000.0, 95_443.7, 3600.0, -0.5]), min_size=5, max_size=60))
def test_times_rise_whatever_a_sources_clock_does(steps: list[float]) -> None:
    """Restarts, jumps ahead, and the wrap of a transport stream's 33 bits."""
    track = ConnectionClock(OutputClock.fresh(NOW)).track(Fraction(1, 1000))
    raw, last = 5000, None
    for step in steps:
        shift = track.shift(raw, 40)
        assert shift is not None
        moment = raw + shift
        assert moment >= 1000 * BEGIN
        if last is not None and step >= -0.2:
            assert -250 < moment - last < 11_000
        last = moment
        raw += round(step * 1000)


def test_another_connection_goes_on_after_the_newest_piece() -> None:
    clock = OutputClock.fresh(NOW)
    clock.reached(Fraction(500))
    shift = ConnectionClock(clock).track(Fraction(1, 1000)).shift(3000, 40)
    assert shift is not None
    assert 3000 + shift >= 500_000


@pytest.mark.slow
@given(st.integers(10, 60), st.integers(5, 40), st.integers(0, 60))
def test_segments_hold_each_piece_once_and_follow_each_other(seconds: int, gop: int, late: int) -> None:
    """Whatever the keyframes' distance, and however far the sound comes behind the picture."""
    cutter = Cutter(("v0", "a0"), Fraction(2))
    pieces = [(float(n) / 25, picture(n, key=n % gop == 0)) for n in range(seconds * 5)]
    pieces += [(n * SOUND / 48_000 + late / 25, sound(n)) for n in range(int(seconds / 5 * 48_000 / SOUND))]
    cuts = [cut for _, piece in sorted(pieces, key=lambda pair: pair[0]) for cut in cutter.take(piece)]
    cuts += cutter.flush()
    held = [piece for cut in cuts for piece in cut.pieces if piece.track is VIDEO]
    assert [piece.unit.dts for piece in held] == [n * FRAME for n in range(seconds * 5)]
    for before, after in pairwise(cuts):
        assert before.end == after.start
        first = next(piece for piece in after.pieces if piece.track is VIDEO)
        assert first.unit.key
        assert first.time == after.start


@pytest.mark.slow
@given(st.integers(0, 150))
def test_sound_that_comes_before_the_first_picture_is_kept_from_its_time_on(early: int) -> None:
    """Copied sound is there before the picture is encoded, by what the encoder holds; for 3 seconds at most."""
    cutter = Cutter(("v0", "a0"), Fraction(2))
    for number in range(early):
        cutter.take(sound(number))
    cutter.take(picture(25, key=True))
    (cut,) = cutter.flush()
    kept = [number for number in range(early) if number * SOUND >= 48_000]
    assert [piece.unit.dts for piece in cut.pieces] == [*(number * SOUND for number in kept), 25 * FRAME]


def test_segments_of_a_ladder_are_cut_at_the_same_times() -> None:
    other = Track("v1", "video", "h264", Fraction(1, 90_000), None)
    cutters = Cutter(("v0",), Fraction(2)), Cutter(("v1",), Fraction(2))
    starts: list[list[Fraction]] = [[], []]
    for number in range(500):
        key = number % 20 == 0
        for place, track in enumerate((VIDEO, other)):
            starts[place] += [cut.start for cut in cutters[place].take(picture(number, key=key, track=track))]
    assert starts[0] == starts[1] != []


def test_a_break_begins_a_segment_that_says_so() -> None:
    cutter = Cutter(("v0",), Fraction(2))
    for number in range(30):
        cutter.take(picture(number, key=number == 0))
    done = cutter.take(picture(1000, key=True, fresh=True))
    assert [cut.fresh for cut in done] == [True]
    assert done[0].end == Fraction(30, 25)
    assert cutter.flush()[0].fresh


class Slow(Queued):
    """A sink that takes nothing before its thread is started."""

    def __init__(self) -> None:
        super().__init__("slow", "push", frozenset({"v0"}), "v0")
        self.taken: list[Piece] = []

    def take(self, piece: Piece) -> None:
        self.taken.append(piece)


def test_a_slow_output_loses_whole_groups_and_begins_anew_at_a_keyframe() -> None:
    sink = Slow()
    count = int(MAX_QUEUED_SECONDS * 25) * 3
    for number in range(count):
        sink.put(picture(number, key=number % 50 == 0))
    sink.start()
    sink.finish()
    assert sink.join(5)
    assert sink.standing.dropped + len(sink.taken) == count
    assert sink.standing.dropped > 0
    assert sink.taken[0].unit.key
    assert sink.taken[0].fresh
    numbers = [piece.unit.dts // FRAME for piece in sink.taken]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@given(st.lists(st.integers(1, 40), min_size=2, max_size=6))
def test_counters_of_transport_segments_go_on(sizes: list[int]) -> None:
    continuity, expected = Continuity(), 0
    for size in sizes:
        packets = b"".join(bytes([0x47, 0x01, 0x00, 0x10 | n & 0xF]) + bytes(184) for n in range(size))
        carried = continuity.carry_on(packets)
        counters = [carried[at + 3] & 0xF for at in range(0, len(carried), 188)]
        assert counters == [(expected + n) & 0xF for n in range(size)]
        expected += size


def test_aacs_header_says_what_its_config_says() -> None:
    # 48 kHz stereo AAC-LC without a checksum
    header = adts.parse(bytes.fromhex("fff14c8001bffc") + b"sound")
    assert header is not None
    assert (header.size, header.config.hex()) == (7, "1190")
    assert adts.parse(b"\x21\x10\x04\x60\x8c\x1c\x00") is None


def test_pauses_double_up_to_their_bound_and_begin_anew() -> None:
    now = [0.0]
    backoff = Backoff(Reconnect(first_seconds=1, longest_seconds=5, max_attempts=4), lambda: now[0])
    pauses = []
    for _ in range(4):
        assert backoff.failed()
        pauses.append(backoff.pause_seconds)
    assert pauses == [1, 2, 4, 5]
    assert not backoff.is_due()
    assert not backoff.failed()
    backoff.succeeded()
    assert backoff.is_due()
    assert backoff.pause_seconds == 0


@pytest.mark.parametrize(
    ("outputs", "source"),
    [
        ([{"type": "hls", "segment_type": "ts", "video": {"codec": "av1"}}], {}),
        ([{"type": "hls", "segment_seconds": 10, "window_seconds": 20}], {}),
        ([{"type": "push", "url": "ftp://example.org/x"}], {}),
        ([{"type": "push", "url": "rtmp://example.org/a/b", "video": {"codec": "hevc"}}], {}),
        ([{"type": "record", "name": "v0"}], {}),
        ([{"type": "record", "name": "../x"}], {}),
        ([{"type": "record", "name": "a"}, {"type": "hls", "name": "A"}], {}),
        ([{"type": "hls", "video": "copy"}], {"slate": {}}),
        ([{"type": "hls"}], {"url": "file:///etc/passwd"}),
        ([{"type": "hls"}], {"url": None}),
        ([{"type": "hls"}], {"url": None, "listen": {"protocol": "srt", "key": "longenough"}}),
        ([{"type": "hls"}], {"url": None, "listen": {"key": "short"}}),
        ([{"type": "hls"}], {"transport": "udp"}),
        ([], {}),
    ],
)
def test_what_can_not_be_is_refused(outputs: list[dict[str, Any]], source: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        job_of(*outputs, source=source)


def test_a_job_survives_its_storing() -> None:
    job = job_of({"type": "hls", "video": [{"height": 720}]}, {"type": "push", "url": "rtmp://h.example/a/b"})
    assert StreamJob.model_validate(job.model_dump(mode="json")) == job
    assert job.outputs[0].rungs[0].speed == "veryfast"  # type: ignore[union-attr]


def test_the_first_playlist_is_at_the_top() -> None:
    job = job_of({"type": "record"}, {"type": "hls"}, {"type": "dash"}, {"type": "snapshot"}, {"type": "snapshot"})
    assert places(job) == {
        "record": "record", "hls": "", "dash": "dash", "snapshot": "snapshot.jpg", "snapshot-2": "snapshot-2.jpg",
    }  # fmt: skip


def test_what_is_missing_in_a_folder_does_not_stop_a_journal(tmp_path: Path) -> None:
    from pipelines.live.journal import Journal, Segment

    (tmp_path / "v0").mkdir()
    journal = Journal(tmp_path)
    for number in (1, 2, 3):
        path = f"v0/{number}.ts"
        if number != 2:
            (tmp_path / path).write_bytes(b"x")
        journal.add(Segment("v0", number, path, Fraction(number), Fraction(number + 1), False, 0, None, 1))
    with (tmp_path / ".segments.jsonl").open("a") as file:
        file.write('{"rendition":"v0","num')
    assert [segment.number for segment in Journal(tmp_path).known] == [1, 3]


@given(st.lists(st.tuples(st.sampled_from([VIDEO, COARSE]), st.integers(-5, 50)), max_size=40))
def test_decode_times_rise_strictly_also_when_a_tracks_ticks_change(steps: list[tuple[Track, int]]) -> None:
    """As they do when a camera comes back with another time base; what rises by itself is left as it is."""
    fanout, given_out = Fanout(OutputClock.fresh(NOW)), Kept()
    fanout.connect([given_out])
    milliseconds, repairs = 0, 0
    for track, step in steps:
        milliseconds += step
        ticks = milliseconds if track is COARSE else milliseconds * 90
        repairs += bool(given_out.pieces) and track.seconds(ticks) <= given_out.pieces[-1].time
        fanout.put(Piece(track, Unit(b"", ticks, ticks, 1, True)))
    assert all(before.time < after.time for before, after in pairwise(given_out.pieces))
    assert fanout.repaired == repairs


RATES = st.sampled_from([8000, 44_100, 48_000, 96_000])


@given(RATES, RATES, st.lists(st.tuples(st.integers(0, 400_000), st.integers(1, 5000)), min_size=1, max_size=30))
def test_sound_is_placed_as_exact_seconds_say(source: int, ours: int, frames: list[tuple[int, int]]) -> None:
    places, began, reached, moment = SamplePlaces(ours), 0, None, Fraction(0)
    for ticks, samples in frames:
        moment += Fraction(ticks, 90_000)
        follows = reached is not None and abs(moment - reached) <= 2
        assert places.goes_on(moment) == follows
        if not follows:
            began = nearest(moment * ours)
            places.begin(moment, 0)
        assert places.place(moment, samples, source) == nearest((moment - Fraction(began, ours)) * source)
        reached = moment + Fraction(samples, source)
        assert places.reached == reached
