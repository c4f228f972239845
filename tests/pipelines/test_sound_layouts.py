"""Channels: each is where it was, in every codec; what a codec can't hold is mixed by one stated matrix."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from pipelines.filters import Resample
from pipelines.rendition import AudioRendition
from pipelines.sound.downmix import FOLDS, LAYOUTS, matrix, speakers
from pipelines.sound.graph import AudioGraph
from tests.jobs import transcoded
from tests.measure import DecodedAudio, decode_audio, tones
from tests.media import Tone, make_audio
from tests.pipelines.facts import audio, audio_of, source

NAMED = (
    "mono", "stereo", "downmix", "2.1", "3.0", "3.0(back)", "3.1", "4.0", "quad", "quad(side)", "4.1", "5.0",
    "5.0(side)", "5.1", "5.1(side)", "6.0", "6.0(front)", "hexagonal", "6.1", "6.1(back)", "6.1(front)", "7.0",
    "7.0(front)", "7.1", "7.1(wide)", "7.1(wide-side)", "octagonal", "cube", "5.1.2", "5.1.4", "7.1.4", "22.2",
)  # fmt: skip
UNNAMED = ("1 channels", "2 channels", "5 channels", "6 channels", "8 channels", "10 channels")
FORMS = {"aac": "m4a", "opus": "opus", "flac": "flac", "mp3": "mp3"}
QUIET = 0.02
"""Below this (of full scale) a channel counts as silent; coding noise and an encoder's low-pass on LFE are not."""

CARRIED = {
    # source: its layout in AAC, Opus and FLAC
    "mono": ("mono",) * 3, "stereo": ("stereo",) * 3, "2 channels": ("stereo",) * 3, "6 channels": ("5.1",) * 3,
    "5 channels": ("5.0",) * 3, "10 channels": ("stereo",) * 3, "2.1": ("5.1",) * 3, "3.0": ("3.0",) * 3,
    "3.0(back)": ("4.0", "quad", "quad"), "4.0": ("4.0", "5.0", "5.0"), "quad": ("5.0", "quad", "quad"),
    "5.0": ("5.0",) * 3, "5.1": ("5.1",) * 3, "5.1(side)": ("5.1",) * 3, "6.1": ("7.1", "6.1", "6.1"),
    "6.1(back)": ("5.1", "6.1", "6.1"), "7.1": ("7.1",) * 3, "7.1(wide)": ("7.1",) * 3,
}  # fmt: skip

COMMON = ("mono", "2 channels", "6 channels", "5.0", "5.1", "5.1(side)", "6.1", "7.1")


def distinct(channels: int, names: tuple[str, ...]) -> tuple[float, ...]:
    """A tone for each channel; a low one for LFE."""
    return tuple(60.0 if names[n] == "LFE" else 300.0 + 200 * n for n in range(channels))


def expected_tones(names: tuple[str, ...], frequencies: tuple[float, ...], layout: str) -> list[float]:
    """The strongest tone that the matrix sends to each channel; 0: none."""
    rows = matrix(names, layout)
    return [frequencies[int(np.argmax(row))] if any(row) else 0.0 for row in rows]


def strongest(heard: DecodedAudio) -> list[float]:
    loud = [float(np.max(np.abs(channel))) > QUIET for channel in heard.samples]
    return [round(tone) if is_loud else 0.0 for tone, is_loud in zip(tones(heard), loud, strict=True)]


@pytest.mark.parametrize(
    "layout", [name if name in COMMON else pytest.param(name, marks=pytest.mark.slow) for name in CARRIED]
)
@pytest.mark.parametrize("codec", ["aac", "opus", "flac"])
def test_every_layout_comes_out_as_planned_with_each_channel_in_its_place(
    tmp_path: Path, codec: str, layout: str
) -> None:
    names = speakers(layout, av.AudioLayout(layout).nb_channels)
    frequencies = distinct(len(names), names)
    path = make_audio(tmp_path / "in.wav", codec="pcm_s16le", layout=layout, seconds=0.5, frequencies=frequencies)
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": FORMS[codec]})
    heard = decode_audio(output)
    wanted = CARRIED[layout][("aac", "opus", "flac").index(codec)]
    assert heard.layout == wanted
    assert strongest(heard) == pytest.approx(expected_tones(names, frequencies, wanted), abs=4)


@pytest.mark.parametrize("layout", ["mono", "2 channels", "2.1", "5.1(side)", "7.1", "10 channels"])
def test_mp3_gets_what_it_holds(tmp_path: Path, layout: str) -> None:
    path = make_audio(tmp_path / "in.wav", codec="pcm_s16le", layout=layout, seconds=0.5)
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": "mp3"})
    assert decode_audio(output).layout == ("mono" if layout == "mono" else "stereo")


@pytest.mark.parametrize("layout", ["5.1", "5.1(side)", "7.1"])
def test_layouts_that_only_change_their_name_stay_exact(tmp_path: Path, layout: str) -> None:
    path = make_audio(tmp_path / "in.wav", codec="pcm_s16le", layout=layout, seconds=0.5)
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": "flac"})
    assert np.array_equal(decode_audio(path).samples, decode_audio(output).samples)


def test_5_1_to_stereo_is_the_matrix_of_bs_775_scaled_so_that_nothing_clips() -> None:
    left, right = matrix(LAYOUTS["5.1"], "stereo")
    third = 0.5**0.5
    unscaled = np.array([1, 0, third, 0, third, 0])
    assert np.array(left) == pytest.approx(unscaled / unscaled.sum())
    assert np.array(right) == pytest.approx(np.array([0, 1, third, 0, 0, third]) / unscaled.sum())


def test_5_1_to_mono_is_the_matrix_of_bs_775() -> None:
    (row,) = matrix(LAYOUTS["5.1"], "mono")
    third = 0.5**0.5
    unscaled = np.array([third, third, 1, 0, 0.5, 0.5])
    assert np.array(row) == pytest.approx(unscaled / unscaled.sum())


@pytest.mark.parametrize("layout", [*NAMED, *UNNAMED])
def test_no_matrix_can_clip_and_only_lfe_is_ever_left_out(layout: str) -> None:
    count = av.AudioLayout(layout).nb_channels
    names = speakers(layout, count)
    assert len(names) == count
    for target, outputs in LAYOUTS.items():
        rows = matrix(names, target)
        assert len(rows) == len(outputs)
        assert all(sum(row) <= 1 + 1e-9 for row in rows)
        silent = {name for number, name in enumerate(names) if not any(row[number] for row in rows)}
        assert silent <= {"LFE", "LFE2", "NONE"}
        assert ("LFE" in silent) == ("LFE" in names and "LFE" not in outputs)


@pytest.mark.parametrize("layout", NAMED)
def test_the_filters_do_what_the_matrix_says(layout: str) -> None:
    names = speakers(layout, av.AudioLayout(layout).nb_channels)
    levels = np.linspace(0.1, 0.9, len(names), dtype=np.float32)
    for target in LAYOUTS:
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(np.tile(levels, (1, 480))), format="flt", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = 48_000, 0, Fraction(1, 48_000)
        graph = AudioGraph(_rendition(target), frame_size=0, end_samples=None)
        (mixed,) = [*graph.push(frame), *graph.flush()]
        got = mixed.to_ndarray()[0][: len(LAYOUTS[target])]
        assert got == pytest.approx(np.array(matrix(names, target)) @ levels, abs=1e-4), target


def _rendition(layout: str) -> AudioRendition:
    resample = Resample(sample_rate=48_000, layout=layout, sample_format="flt")
    return AudioRendition(
        stream=0, codec="flac", encoder="flac", options={}, filters=(resample,), sample_rate=48_000, layout=layout,
        sample_format="flt", reason="",
    )  # fmt: skip


@pytest.mark.parametrize(("how", "ceiling"), [("scaled", 1.0), ("level", 10 ** (-1 / 20))])
def test_a_loud_downmix_does_not_clip(tmp_path: Path, how: str, ceiling: float) -> None:
    """The same full-scale tone in all channels is the worst case: it adds up in phase."""
    path = make_audio(
        tmp_path / "in.wav",
        tracks=(Tone("pcm_f32le", "5.1", frequencies=(440.0,) * 6, amplitude=1.0),),
        seconds=0.5,
    )
    output, _ = transcoded(
        path, tmp_path / "out", {"type": "mkv", "audio": {"codec": "flac", "layout": "stereo", "downmix": how}}
    )
    peak = float(np.max(np.abs(decode_audio(output).samples)))
    assert 0.98 * ceiling < peak <= ceiling + 1e-3


@pytest.mark.parametrize(("codec", "how"), [("aac", "scaled"), ("opus", "level")])
def test_a_downmix_has_the_stated_levels(tmp_path: Path, codec: str, how: str) -> None:
    """Measured per source channel: one loud channel at a time, its level left and right."""
    gains = np.array(matrix(LAYOUTS["5.1"], "stereo", scaled=how == "scaled"))
    for number, name in enumerate(LAYOUTS["5.1"]):
        frequencies = tuple(1000.0 if n == number else 0.0 for n in range(6))
        path = make_audio(
            tmp_path / f"{name}.wav", tracks=(Tone("pcm_s16le", "5.1", frequencies=frequencies, amplitude=0.5),),
            seconds=0.3,
        )  # fmt: skip
        output, _ = transcoded(
            path,
            tmp_path / "out",
            {"type": "mkv", "audio": {"codec": codec, "layout": "stereo", "bitrate": 256_000, "downmix": how}},
        )
        middle = decode_audio(output).samples[:, 4800:9600]
        levels = np.sqrt(2 * np.mean(middle**2, axis=1)) / 0.5
        assert levels == pytest.approx(gains[:, number], abs=0.02), name


def test_reasons_say_what_became_of_the_channels() -> None:
    def reason(called: str, channels: int, **spec: str) -> str:
        return audio_of({"type": "mp4", "audio": spec}, source(audio(layout=called, channels=channels))).reason

    assert "downmixed from 5.1 to stereo at -7.7 dB" in reason("5.1", 6, layout="stereo", downmix="scaled")
    assert "downmixed from 5.1 to stereo; " in reason("5.1", 6, layout="stereo")
    assert "limited to -1 dBFS" in reason("5.1", 6, layout="stereo")
    assert "2.1 (FL FR LFE) put into 5.1" in reason("2.1", 3)
    assert "layout 5.1(side) taken as 5.1" in reason("5.1(side)", 6)
    assert "channels are not invented" in reason("mono", 1, layout="5.1")
    assert "layout" not in reason("stereo", 2)
    assert audio_of({"type": "mp4"}, source(audio(layout="stereo"))).layout == "stereo"


def test_each_fold_leads_to_channels_that_exist() -> None:
    known = {channel for layout in LAYOUTS.values() for channel in layout}
    assert all(output in known for rows in FOLDS.values() for gains in rows for output in gains)
