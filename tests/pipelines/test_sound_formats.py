"""Sample formats and codecs of sources: all are decoded, and what was exact stays exact."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from tests.jobs import transcoded
from tests.measure import decode_audio, tones
from tests.media import Tone, make_audio

SOURCES = [
    ("wav", "pcm_s16le"), ("wav", "pcm_s24le"), ("wav", "pcm_s32le"), ("wav", "pcm_f32le"), ("wav", "pcm_f64le"),
    ("wav", "pcm_u8"), ("wav", "pcm_alaw"), ("wav", "pcm_mulaw"), ("wav", "adpcm_ima_wav"), ("wav", "adpcm_ms"),
    ("mov", "pcm_s16be"), ("mov", "pcm_s24be"), ("mov", "pcm_f32be"), ("m4a", "alac"), ("ts", "ac3"), ("ts", "eac3"),
    ("mka", "mp2"), ("ogg", "vorbis"), ("wv", "wavpack"), ("mka", "opus"), ("flac", "flac"), ("tta", "tta"),
    ("mka", "aac"), ("mp3", "mp3"), ("aiff", "pcm_s16be"), ("au", "pcm_s16be"), ("caf", "pcm_s24le"),
]  # fmt: skip


@pytest.mark.parametrize(("container", "codec"), SOURCES)
@pytest.mark.parametrize("target", ["aac", pytest.param("flac", marks=pytest.mark.slow)])
def test_every_source_codec_becomes_aac_and_flac(tmp_path: Path, container: str, codec: str, target: str) -> None:
    muxer = {"mka": "matroska", "tta": "tta", "wv": "wv"}.get(container)
    path = make_audio(tmp_path / f"in.{container}", codec=codec, container=muxer, seconds=0.6)
    output, _ = transcoded(path, tmp_path / "out", {"type": "mkv", "audio": {"codec": target}})
    heard = decode_audio(output)
    assert tones(heard) == pytest.approx((300, 500), abs=3)
    assert abs(heard.seconds - 0.6) < 0.05
    # the MP3 encoder turns everything down by 5 %, Vorbis is the simplest encoder there is
    level = np.sqrt(2 * np.mean(heard.samples[:, 4800:-4800] ** 2, axis=1))
    assert level == pytest.approx(0.3, rel={"vorbis": 0.2, "mp3": 0.06}.get(codec, 0.03))


def samples_of(path: Path) -> np.ndarray:
    """All samples as 32-bit integers, as the decoder has them."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        parts = []
        for frame in container.decode(stream):
            channels = frame.layout.nb_channels
            resampler = av.AudioResampler(format="s32", layout=frame.layout, rate=frame.sample_rate)
            parts += [got.to_ndarray().reshape(-1, channels) for got in resampler.resample(frame)]
    return np.concatenate(parts)


def noise(path: Path, codec: str, container: str | None = None) -> Path:
    """A tone whose lowest bits are all in use."""
    tone = Tone(codec, "stereo", 44_100, (441.7, 1234.5), amplitude=0.77)
    return make_audio(path, tracks=(tone,), seconds=1, container=container)


@pytest.mark.parametrize(
    ("name", "codec", "bits"),
    [("in.wav", "pcm_s16le", 16), ("in.wav", "pcm_s24le", 24), ("in.m4a", "alac", 24), ("in.flac", "flac", 16)],
)
def test_lossless_stays_exact(tmp_path: Path, name: str, codec: str, bits: int) -> None:
    path = noise(tmp_path / name, codec)
    first, _ = transcoded(path, tmp_path / "first", {"type": "audio", "format": "flac"})
    second, _ = transcoded(first, tmp_path / "second", {"type": "mkv", "audio": {"codec": "flac"}})
    original = samples_of(path)
    assert len(original) == 44_100
    assert np.array_equal(original, samples_of(first))
    assert np.array_equal(original, samples_of(second))
    with av.open(str(second)) as container:
        assert container.streams.audio[0].codec_context.format.name == ("s32" if bits == 24 else "s16")


def test_float_sources_keep_24_bits_in_flac_and_loud_ones_are_limited_not_wrapped(tmp_path: Path) -> None:
    path = make_audio(
        tmp_path / "in.wav", tracks=(Tone("pcm_f32le", "mono", 48_000, (440.0,), amplitude=1.5),), seconds=0.5
    )
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": "flac"})
    original, kept = decode_audio(path).samples, decode_audio(output).samples
    assert np.max(np.abs(kept - np.clip(original, -1, 1))) < 2**-22


def test_lossy_sources_become_16_bit_flac_with_dither(tmp_path: Path) -> None:
    """A tone below half of the last bit is still there, as noise around it: without dither it would be silence."""
    tone = Tone("aac", "mono", 48_000, (1000.0,), amplitude=0.4 * 2**-15, bit_rate=256_000)
    path = make_audio(tmp_path / "in.m4a", tracks=(tone,), seconds=1)
    if float(np.max(np.abs(decode_audio(path).samples))) == 0:
        pytest.skip("the encoder left nothing of the tone")
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": "flac"})
    heard = decode_audio(output)
    with av.open(str(output)) as container:
        assert container.streams.audio[0].codec_context.format.name == "s16"
    assert float(np.max(np.abs(heard.samples))) > 0


def test_digital_silence_stays_silent(tmp_path: Path) -> None:
    path = make_audio(tmp_path / "in.wav", tracks=(Tone("pcm_s16le", "stereo", 48_000, (0.0, 0.0)),), seconds=0.5)
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": "flac"})
    assert not np.any(decode_audio(output).samples)
