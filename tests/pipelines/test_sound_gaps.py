"""Sound with holes, overlaps, late starts and changes of format: it goes on, in time, in the planned layout."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.audio.frame import AudioFrame

from pipelines.filters import Resample
from pipelines.rendition import AudioRendition
from pipelines.sound.graph import SILENCE_SAMPLES, AudioGraph
from tests.jobs import SMALL, transcoded
from tests.measure import assert_dts_rising, click_times, decode_audio, flash_times, tones
from tests.media import Tone, make_audio, make_flash_click, make_video

CLICKS = tuple(Fraction(n, 4) for n in range(1, 12, 2))
"""0.25, 0.75 … 2.75 s."""
CODECS = {"aac": "mp4", "opus": "mkv", "mp3": "mkv", "flac": "mkv"}


def clicking(path: Path, codec: str = "pcm_s16le", **changes: Any) -> Path:
    tone = Tone(codec, "mono", clicks=CLICKS, amplitude=0.8, **changes)
    return make_audio(path, tracks=(tone,), seconds=3)


def remuxed(path: Path, target: Path, change: Callable[[float], float | None]) -> Path:
    """The same packets with other times: `change` maps seconds to seconds, None drops the packet."""
    with av.open(str(path)) as source, av.open(str(target), "w") as output:
        track = source.streams.audio[0]
        stream = output.add_stream_from_template(track)
        for packet in source.demux(track):
            if packet.pts is None:
                continue
            time = change(float(packet.pts * track.time_base))
            if time is None:
                continue
            packet.pts = packet.dts = round(time / track.time_base)
            packet.stream = stream
            output.mux(packet)
    return target


def assert_clicks(path: Path, expected: list[float]) -> None:
    assert click_times(path) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("codec", CODECS)
def test_a_hole_becomes_silence_and_what_follows_is_in_time(tmp_path: Path, codec: str) -> None:
    whole = clicking(tmp_path / "whole.mkv")
    path = remuxed(whole, tmp_path / "in.mkv", lambda time: None if 0.9 <= time < 1.6 else time)
    output, _ = transcoded(path, tmp_path / "out", {"type": CODECS[codec], "audio": {"codec": codec}})
    assert_clicks(output, [0.25, 0.75, 1.75, 2.25, 2.75])
    heard = decode_audio(output)
    assert abs(heard.seconds - 3) < 0.05
    assert float(np.max(np.abs(heard.samples[:, 48_000:72_000]))) < 0.01


@pytest.mark.parametrize("lost", [1, 2])
def test_single_lost_packets_do_not_shift_what_follows(tmp_path: Path, lost: int) -> None:
    """Of 21.3 ms each: less than a resampler's usual tolerance, but they add up."""
    whole = clicking(tmp_path / "whole.mkv", "aac")
    at = iter(range(10_000))
    path = remuxed(whole, tmp_path / "in.mkv", lambda time: time if next(at) % 20 >= lost or time < 0.1 else None)
    output, _ = transcoded(path, tmp_path / "out", {"type": "mkv", "audio": {"codec": "flac"}})
    heard = click_times(output)
    assert len(heard) >= 4
    assert all(min(abs(time - float(click)) for click in CLICKS) < 0.02 for time in heard)


def test_overlapping_packets_are_cut_and_nothing_is_late(tmp_path: Path) -> None:
    whole = clicking(tmp_path / "whole.mkv")
    path = remuxed(
        whole,
        tmp_path / "in.mkv",
        lambda time: time if time < 1.3 else 1.3 + (time - 1.3) / 2 if time < 1.7 else time - 0.2,
    )
    output, _ = transcoded(path, tmp_path / "out", {"type": "mkv", "audio": {"codec": "flac"}})
    # what is left of the overlap is less than a packet, and stays
    assert click_times(output) == pytest.approx([0.25, 0.75, 1.25, 1.55, 2.05, 2.55], abs=0.019)
    assert abs(decode_audio(output).seconds - 2.8) < 0.05


def test_jitter_of_a_coarse_clock_changes_no_sample(tmp_path: Path) -> None:
    whole = make_audio(tmp_path / "whole.mkv", codec="pcm_s16le", seconds=1, frequencies=(441.0, 997.0))
    at = iter(range(10_000))
    path = remuxed(whole, tmp_path / "in.mkv", lambda time: max(0.0, time + (next(at) % 3 - 1) * 0.008))
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": "flac"})
    assert np.array_equal(decode_audio(whole).samples, decode_audio(output).samples)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("late", [pytest.param(Fraction(1, 10), marks=pytest.mark.slow), Fraction(7, 10)])
def test_sound_that_starts_late_or_ends_early_keeps_its_place(tmp_path: Path, codec: str, late: Fraction) -> None:
    tone = Tone("aac", "mono", clicks=(Fraction(1, 4),), amplitude=0.8, start=late, seconds=Fraction(1, 2))
    path = make_video(tmp_path / "in.mkv", size=(64, 48), seconds=2, audio=(tone,))
    output, result = transcoded(
        path, tmp_path / "out", {"type": CODECS[codec], "video": SMALL, "audio": {"codec": codec}}
    )
    assert_clicks(output, [float(late) + 0.25])
    assert not result.warnings
    assert result.outputs[0].duration_seconds == pytest.approx(2, abs=0.01)
    assert_dts_rising(output)


@pytest.mark.parametrize("codec", ["aac", *(pytest.param(c, marks=pytest.mark.slow) for c in ("opus", "mp3", "flac"))])
def test_joined_transport_streams_of_other_rates_and_layouts_go_on_in_the_first_ones_layout(
    tmp_path: Path, codec: str
) -> None:
    first = make_flash_click(tmp_path / "1.ts", size=(64, 48), sample_rate=44_100)
    video = {"size": (64, 48), "rate": 30, "seconds": 2, "container": "ts"}
    surround = Tone("aac", "5.1", 48_000, frequencies=(440.0, 440.0, 440.0, 60.0, 440.0, 440.0))
    second = make_video(tmp_path / "2.ts", audio=(surround,), **video)
    path = tmp_path / "in.ts"
    path.write_bytes(first.read_bytes() + second.read_bytes())
    output, _ = transcoded(path, tmp_path / "out", {"type": "mkv", "video": SMALL, "audio": {"codec": codec}})
    heard = decode_audio(output)
    assert heard.layout == "mono"
    assert abs(heard.seconds - 4) < 0.1
    assert click_times(output)[:2] == pytest.approx([float(t) for t in flash_times(output)][:2], abs=0.02)
    second_half = heard.samples[:, int(2.2 * heard.sample_rate) : int(3.8 * heard.sample_rate)]
    assert float(np.sqrt(np.mean(second_half**2))) > 0.05
    assert tones(type(heard)(second_half, heard.sample_rate, heard.layout, Fraction(0))) == pytest.approx((440,), abs=2)
    assert_dts_rising(output)


@pytest.mark.parametrize("codec", ["aac", *(pytest.param(c, marks=pytest.mark.slow) for c in ("opus", "mp3", "flac"))])
def test_sync_survives_a_change_of_rate(tmp_path: Path, codec: str) -> None:
    parts = [
        make_flash_click(tmp_path / f"{rate}.ts", size=(64, 48), sample_rate=rate) for rate in (44_100, 48_000, 32_000)
    ]
    path = tmp_path / "in.ts"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    output, _ = transcoded(path, tmp_path / "out", {"type": "mkv", "video": SMALL, "audio": {"codec": codec}})
    flashes, clicks = flash_times(output), click_times(output)
    assert len(flashes) == len(clicks) == 6
    assert clicks == pytest.approx([float(flash) for flash in flashes], abs=0.02)


def test_a_hole_of_hours_is_filled_in_small_pieces() -> None:
    rate = 8_000
    resample = Resample(sample_rate=rate, layout="mono", sample_format="fltp")
    graph = AudioGraph(
        AudioRendition(
            stream=0, codec="aac", encoder="aac", options={}, filters=(resample,), sample_rate=rate, layout="mono",
            sample_format="fltp", reason="",
        ),
        frame_size=1024,
        end_samples=None,
    )  # fmt: skip
    frame = AudioFrame(format="fltp", layout="mono", samples=1024)
    frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), 3600 * rate
    largest = samples = 0
    for piece in (*graph.push(frame), *graph.flush()):
        largest = max(largest, piece.samples)
        samples += piece.samples
    assert samples == 3600 * rate + 1024
    assert largest <= max(1024, SILENCE_SAMPLES)


@pytest.mark.parametrize("codec", CODECS)
def test_a_clip_cuts_sound_at_the_sample(tmp_path: Path, codec: str) -> None:
    path = clicking(tmp_path / "in.wav")
    output, _ = transcoded(
        path, tmp_path / "out", {"type": CODECS[codec], "audio": {"codec": codec}}, clip={"start": 0.6, "end": 2.3}
    )
    assert_clicks(output, [0.15, 0.65, 1.15, 1.65])
    frame = {"aac": 1024, "opus": 960, "mp3": 1152, "flac": 1}[codec]
    assert abs(decode_audio(output).samples.shape[1] - 1.7 * 48_000) <= frame
