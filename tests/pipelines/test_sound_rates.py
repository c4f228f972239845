"""Sample rates and bitrates: pitch and length stay, and a codec gets what it has."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from pipelines.errors import UnsupportedSpec
from pipelines.sound.bitrates import usual_bitrate
from tests.jobs import transcoded
from tests.measure import DecodedAudio, decode_audio
from tests.media import make_audio
from tests.pipelines.facts import audio, audio_of, source

FORMS = {"aac": "m4a", "opus": "opus", "mp3": "mp3", "flac": "flac"}
FRAME_SAMPLES = {"aac": 1024, "opus": 960, "mp3": 1152, "flac": 1}
EXPECTED = {
    # source: AAC, Opus, MP3, FLAC
    8_000: (8_000, 8_000, 8_000, 8_000), 11_025: (11_025, 12_000, 11_025, 11_025),
    16_000: (16_000, 16_000, 16_000, 16_000), 22_050: (22_050, 24_000, 22_050, 22_050),
    32_000: (32_000, 48_000, 32_000, 32_000), 44_100: (44_100, 48_000, 44_100, 44_100),
    48_000: (48_000, 48_000, 48_000, 48_000), 88_200: (48_000, 48_000, 48_000, 88_200),
    96_000: (48_000, 48_000, 48_000, 96_000), 192_000: (48_000, 48_000, 48_000, 192_000),
    37_800: (44_100, 48_000, 44_100, 37_800), 6_000: (8_000, 8_000, 8_000, 6_000),
}  # fmt: skip

USUAL = (8_000, 22_050, 44_100, 96_000)


def pitch(heard: DecodedAudio) -> float:
    """Of the strongest tone in the first channel, interpolated between the lines of the spectrum."""
    channel = heard.samples[0]
    spectrum = np.log(np.abs(np.fft.rfft(channel * np.hanning(len(channel)))) + 1e-12)
    at = int(np.argmax(spectrum))
    left, middle, right = spectrum[at - 1 : at + 2]
    return float(at + (left - right) / (2 * (left - 2 * middle + right))) * heard.sample_rate / len(channel)


@pytest.mark.parametrize(
    "rate", [rate if rate in USUAL else pytest.param(rate, marks=pytest.mark.slow) for rate in EXPECTED]
)
@pytest.mark.parametrize("codec", FORMS)
def test_any_rate_keeps_pitch_and_length(tmp_path: Path, codec: str, rate: int) -> None:
    path = make_audio(tmp_path / "in.wav", codec="pcm_s16le", sample_rate=rate, seconds=1, frequencies=(440.0, 1000.0))
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": FORMS[codec]})
    heard = decode_audio(output)
    with av.open(str(output)) as container:
        told = container.streams.audio[0]
        assert told.codec_context.sample_rate == (48_000 if codec == "opus" else heard.sample_rate)
    wanted = EXPECTED[rate][list(FORMS).index(codec)]
    # Opus decodes at 48 kHz whatever it was made from
    assert heard.sample_rate == (48_000 if codec == "opus" else wanted)
    assert pitch(heard) == pytest.approx(440, abs=1)
    assert abs(heard.seconds - 1) <= FRAME_SAMPLES[codec] / wanted


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8_000, 12_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("bitrate", [8_000, 33_000, 100_000, 2_000_000])
def test_mp3_gets_the_nearest_bitrate_that_it_has_at_the_rate(tmp_path: Path, rate: int, bitrate: int) -> None:
    planned = audio_of(
        {"type": "audio", "format": "mp3", "audio": {"bitrate": bitrate}}, source(audio(sample_rate=rate))
    )
    path = make_audio(tmp_path / "in.wav", codec="pcm_s16le", sample_rate=rate, seconds=0.3)
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": "mp3", "audio": {"bitrate": bitrate}})
    with av.open(str(output)) as container:
        stream = container.streams.audio[0]
        sizes = [packet.size for packet in container.demux(stream) if packet.size]
    samples = 1152 if rate >= 32_000 else 576
    written = float(np.mean(sizes)) * 8 * rate / samples
    assert planned.bit_rate == pytest.approx(written, rel=0.02)
    assert (planned.bit_rate == bitrate) == ("nearest" not in planned.reason)


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["aac", "opus", "mp3"])
@pytest.mark.parametrize("rate", [8_000, 16_000, 48_000])
@pytest.mark.parametrize("bitrate", [8_000, 64_000, 2_000_000])
@pytest.mark.parametrize("layout", ["mono", "stereo"])
def test_a_bitrate_that_a_codec_cannot_do_becomes_the_nearest_and_says_so(
    tmp_path: Path, codec: str, rate: int, bitrate: int, layout: str
) -> None:
    path = make_audio(tmp_path / "in.wav", codec="pcm_s16le", sample_rate=rate, layout=layout, seconds=0.3)
    spec = {"type": "audio", "format": FORMS[codec], "audio": {"bitrate": bitrate}}
    transcoded(path, tmp_path / "out", spec)
    channels = 1 if layout == "mono" else 2
    planned = audio_of(spec, source(audio(sample_rate=rate, channels=channels, layout=layout)))
    assert (planned.bit_rate == bitrate) == ("nearest" not in planned.reason)


@pytest.mark.parametrize("codec", ["aac", "opus", "mp3"])
def test_usual_bitrates_fall_with_the_rate_and_rise_with_channels(codec: str) -> None:
    by_rate = [usual_bitrate(codec, 1, rate) or 0 for rate in (8_000, 16_000, 24_000, 48_000)]
    assert by_rate == sorted(by_rate)
    by_channels = [usual_bitrate(codec, channels, 48_000) or 0 for channels in range(1, 3)]
    assert by_channels == sorted(by_channels)
    assert usual_bitrate("flac", 2, 48_000) is None


def test_a_rate_that_is_asked_for_is_made_or_refused(tmp_path: Path) -> None:
    path = make_audio(tmp_path / "in.wav", codec="pcm_s16le", sample_rate=44_100, seconds=0.3)
    output, _ = transcoded(path, tmp_path / "out", {"type": "mkv", "audio": {"codec": "aac", "sample_rate": 96_000}})
    assert decode_audio(output).sample_rate == 96_000
    with pytest.raises(UnsupportedSpec, match="opus has no 44100 Hz"):
        transcoded(path, tmp_path / "out", {"type": "mkv", "audio": {"codec": "opus", "sample_rate": 44_100}})
