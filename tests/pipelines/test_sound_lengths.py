"""Lengths: a tone of N samples is N samples afterwards, again and again, without clicks at its ends."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.jobs import transcoded
from tests.measure import decode_audio, find_boxes
from tests.media import Tone, make_audio

RATE = 44_100
COUNTS = (RATE, RATE + 1, RATE + 567, 1024 * 40, 1152 * 30 - 1, 700)
"""Whole frames of AAC and MP3, and what is far from them."""

TARGETS = [
    ("audio", "m4a", "aac"), ("audio", "mp3", "mp3"), ("audio", "opus", "opus"), ("audio", "flac", "flac"),
    ("mp4", None, "aac"), ("mp4", None, "opus"), ("mp4", None, "flac"), ("mkv", None, "aac"), ("mkv", None, "opus"),
    ("mkv", None, "flac"), ("mkv", None, "mp3"), ("webm", None, "opus"), ("ts", None, "aac"),
]  # fmt: skip

TOLERANCE = {
    # samples that a decoder gives beyond the sound: what fills the last frame is not told everywhere
    ("m4a", "aac"): 1024, ("mp4", "aac"): 1024, ("mp4", "opus"): 960, ("mkv", "aac"): 1024, ("ts", "aac"): 2048,
    ("mkv", "mp3"): 1152,
    ("mp3", "mp3"): 1,
}  # fmt: skip


def tone_of(path: Path, samples: int, rate: int = RATE) -> Path:
    tone = Tone("pcm_s16le", "mono", rate, (441.0,), seconds=Fraction(samples, rate))
    return make_audio(path, tracks=(tone,), seconds=Fraction(samples, rate))


def output_of(kind: str, form: str | None, codec: str) -> dict[str, object]:
    return {"type": kind, "audio": {"codec": codec}, **({"format": form} if form else {})}


@pytest.mark.parametrize(("kind", "form", "codec"), TARGETS)
@pytest.mark.parametrize(
    "samples", [COUNTS[2], *(pytest.param(count, marks=pytest.mark.slow) for count in COUNTS if count != COUNTS[2])]
)
def test_a_tone_keeps_its_number_of_samples(
    tmp_path: Path, kind: str, form: str | None, codec: str, samples: int
) -> None:
    path = tone_of(tmp_path / "in.wav", samples)
    output, _ = transcoded(path, tmp_path / "out", output_of(kind, form, codec))
    heard = decode_audio(output)
    expected = samples if codec != "opus" else round(samples * 48_000 / RATE)
    extra = heard.samples.shape[1] - expected
    assert -2 <= extra <= TOLERANCE.get((form or kind, codec), 2)


@pytest.mark.parametrize("samples", COUNTS)
@pytest.mark.parametrize("form", ["m4a", "mp4"])
def test_mp4_says_the_exact_length(tmp_path: Path, form: str, samples: int) -> None:
    """Players that follow edit lists stop at the last sample of the sound."""
    path = tone_of(tmp_path / "in.wav", samples)
    output, _ = transcoded(
        path, tmp_path / "out", output_of("audio", "m4a", "aac") if form == "m4a" else output_of("mp4", None, "aac")
    )
    (edits,) = find_boxes(output, "elst")
    version, count = edits.body[0], int.from_bytes(edits.body[4:8])
    assert (version, count) == (0, 1)
    milliseconds, media_time = int.from_bytes(edits.body[8:12]), int.from_bytes(edits.body[12:16], signed=True)
    (header,) = find_boxes(output, "mvhd")
    timescale = int.from_bytes(header.body[12:16])
    assert media_time == 1024
    assert milliseconds / timescale == pytest.approx(samples / RATE, abs=1.5 / timescale)


@pytest.mark.parametrize(
    ("kind", "form", "codec"), [*TARGETS[:3], *(pytest.param(*t, marks=pytest.mark.slow) for t in TARGETS[3:])]
)
def test_later_generations_add_nothing(tmp_path: Path, kind: str, form: str | None, codec: str) -> None:
    samples = RATE + 567
    path = tone_of(tmp_path / "in.wav", samples)
    lengths, places = [], []
    for generation in range(3):
        path, _ = transcoded(path, tmp_path / f"out{generation}", output_of(kind, form, codec))
        check, _ = transcoded(path, tmp_path / f"check{generation}", {"type": "mkv", "audio": {"codec": "flac"}})
        heard = decode_audio(check)
        lengths.append(heard.seconds)
        loud = np.flatnonzero(np.abs(heard.samples[0]) > 0.05)
        places.append((int(loud[0]), int(loud[-1])))
    frame = 1152 / RATE if (form or kind, codec) in (("mkv", "aac"), ("mkv", "mp3"), ("ts", "aac")) else 4 / RATE
    assert max(lengths) - samples / RATE <= frame
    assert lengths[2] - lengths[0] <= frame
    rate = 48_000 if codec == "opus" else RATE
    assert abs(places[2][0] - places[0][0]) <= rate // 200
    assert abs(places[2][1] - places[0][1]) <= rate // 200


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "form", "codec"), TARGETS)
def test_a_tone_starts_and_ends_without_clicks(tmp_path: Path, kind: str, form: str | None, codec: str) -> None:
    path = tone_of(tmp_path / "in.wav", RATE)
    output, _ = transcoded(path, tmp_path / "out", output_of(kind, form, codec))
    heard = decode_audio(output).samples[0]
    assert float(np.max(np.abs(heard))) < 0.45
    rate = 48_000 if codec == "opus" else RATE
    first = int(np.flatnonzero(np.abs(heard) > 0.03)[0])
    last = int(np.flatnonzero(np.abs(heard) > 0.03)[-1])
    # a transport stream can't say what is priming: without it the first frame fades in
    assert first <= (1024 if kind == "ts" else rate // 250)
    assert abs(last - rate) <= rate // 250


def test_mp3_counts_its_priming_and_padding(tmp_path: Path) -> None:
    path = tone_of(tmp_path / "in.wav", RATE)
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": "mp3"})
    data = output.read_bytes()
    header = next(data.index(mark) for mark in (b"Xing", b"Info") if mark in data)
    tag = header + 120  # after its flags, counts, table of contents and quality
    delays = int.from_bytes(data[tag + 21 : tag + 24])
    delay, padding = delays >> 12, delays & 0xFFF
    with av.open(str(output)) as container:
        packets = sum(1 for packet in container.demux() if packet.size)
    assert packets * 1152 - delay - padding == RATE
