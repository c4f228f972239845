"""Which tracks count: covers, data, attachments, unknown codecs and empty tracks never end a job that has others."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest
from av.packet import Packet
from av.stream import Disposition

import pipelines.facts.samples
from pipelines.errors import BadInput, PipelineError, UnsupportedSpec
from pipelines.facts.side_data import side_data
from pipelines.result import Result
from tests.jobs import SMALL, rest_slow, run_job, transcoded, warning_counts
from tests.measure import decode_video
from tests.media import Tone, make_audio, make_video
from tests.remux import remux, replaced

SIZE = (96, 64)


def tracks(path: Path) -> list[str]:
    """Types of the tracks; `cover` for attached pictures."""
    with av.open(str(path)) as container:
        return ["cover" if s.disposition & Disposition.attached_pic else s.type for s in container.streams]


def messages(result: Result, code: str) -> list[str]:
    return [warning.message for warning in result.warnings if warning.code == code]


@pytest.mark.parametrize("form", ["mp3", "m4a", "flac"])
def test_the_cover_of_a_song_is_not_its_video(tmp_path: Path, form: str) -> None:
    song = make_audio(tmp_path / f"song.{form}", cover=True)
    path, result = transcoded(song, tmp_path / "mp4", {"type": "mp4"})
    assert tracks(path) == ["audio", "cover"]
    assert not result.warnings
    path, result = transcoded(song, tmp_path / "opus", {"type": "audio", "format": "opus"})
    assert tracks(path) == ["audio"]
    path, _ = transcoded(song, tmp_path / "copy", {"type": "copy", "format": "mkv"})
    assert tracks(path)[0] == "audio"
    assert "video" not in tracks(path)


def test_the_cover_of_a_film_is_not_its_video(tmp_path: Path) -> None:
    film = make_video(tmp_path / "film.mkv", size=SIZE, cover=True)
    path, _ = transcoded(film, tmp_path / "out", {"type": "mp4", "video": SMALL})
    assert len(decode_video(path).frames) == 50
    assert tracks(path).count("video") == 1
    path, result = transcoded(film, tmp_path / "ts", {"type": "ts", "video": SMALL})
    assert tracks(path) == ["video", "audio"]
    assert warning_counts(result) == {"cover_dropped": 1}


OUTPUTS: list[dict[str, Any]] = [
    {"type": "mp4", "video": SMALL}, {"type": "copy", "format": "mkv"}, {"type": "copy", "format": "mp4"},
]  # fmt: skip
IDS = ["encoded", "copied to mkv", "copied to mp4"]


@pytest.mark.parametrize("output", rest_slow(OUTPUTS, 2), ids=IDS)
def test_attachments_are_left_out_with_a_warning(tmp_path: Path, output: dict[str, Any]) -> None:
    font = ("font.ttf", "application/x-truetype-font", b"font" * 100)
    source = make_video(tmp_path / "in.mkv", size=SIZE, attachments=[font])
    path, result = transcoded(source, tmp_path / "out", output)
    assert tracks(path) == ["video", "audio"]
    assert ["attachment" in message for message in messages(result, "track_dropped")] == [True]


@pytest.mark.parametrize("output", rest_slow(OUTPUTS, 2), ids=IDS)
def test_timecode_tracks_are_left_out_with_a_warning(tmp_path: Path, output: dict[str, Any]) -> None:
    source = make_video(tmp_path / "in.mov", size=SIZE, video_metadata={"timecode": "01:00:00:00"})
    assert tracks(source) == ["video", "audio", "data"]
    path, result = transcoded(source, tmp_path / "out", output)
    assert tracks(path) == ["video", "audio"]
    assert ["data track 2" in message for message in messages(result, "track_dropped")] == [True]


@pytest.mark.parametrize("output", OUTPUTS[:2], ids=IDS[:2])
def test_sound_of_an_unknown_codec_is_left_out_where_there_is_other_sound(
    tmp_path: Path, output: dict[str, Any]
) -> None:
    two = make_video(tmp_path / "two.mkv", size=SIZE, audio=(Tone("aac"), Tone("flac")))
    source = replaced(two, tmp_path / "in.mkv", b"A_AAC", b"A_ZZZ")
    path, result = transcoded(source, tmp_path / "out", output)
    assert tracks(path) == ["video", "audio"]
    assert len(messages(result, "track_dropped")) == 1


@pytest.mark.parametrize("output", rest_slow(OUTPUTS, 2), ids=IDS)
def test_sound_of_an_unknown_codec_is_left_out_where_there_are_pictures(tmp_path: Path, output: dict[str, Any]) -> None:
    source = replaced(make_video(tmp_path / "a.mkv", size=SIZE), tmp_path / "in.mkv", b"A_AAC", b"A_ZZZ")
    path, result = transcoded(source, tmp_path / "out", output)
    assert tracks(path) == ["video"]
    assert len(messages(result, "track_dropped")) == 1


@pytest.mark.parametrize("output", rest_slow(OUTPUTS, 2), ids=IDS)
def test_pictures_of_an_unknown_codec_are_left_out_where_there_is_sound(tmp_path: Path, output: dict[str, Any]) -> None:
    source = replaced(make_video(tmp_path / "a.mp4", size=SIZE), tmp_path / "in.mp4", b"avc1", b"zzzz")
    path, result = transcoded(source, tmp_path / "out", output)
    assert tracks(path) == ["audio"]
    assert len(messages(result, "track_dropped")) == 1


def test_nothing_known_is_bad_input(tmp_path: Path) -> None:
    source = replaced(make_video(tmp_path / "a.mp4", size=SIZE, audio=()), tmp_path / "in.mp4", b"avc1", b"zzzz")
    with pytest.raises(BadInput):
        run_job(source, tmp_path, OUTPUTS[0])


@pytest.mark.parametrize("look", rest_slow(["at its start", "wholly"], 1))
@pytest.mark.parametrize("form", ["mp4", "mkv", "ts"])
def test_a_track_that_never_had_a_packet_is_left_out(
    tmp_path: Path, form: str, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if look == "at its start":
        monkeypatch.setattr(pipelines.facts.samples, "MAX_PACKETS", 20)
    clip = make_video(tmp_path / "a.mp4", size=SIZE)
    source = remux(clip, tmp_path / f"in.{form}", empty=("audio",))
    for number, output in enumerate(OUTPUTS):
        path, result = transcoded(source, tmp_path / f"{number}", output)
        assert tracks(path) == ["video"]
        assert all(code == "track_dropped" for code in warning_counts(result))
        assert len(decode_video(path).frames) == 50
    with pytest.raises(UnsupportedSpec, match="no sound"):
        run_job(source, tmp_path, {"type": "audio"})


EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x01\0\0\0\0\0\0\0"
"""Side data of a kind that PyAV has no name for."""


def with_exif(packet: Packet[Any], kind: str, number: int) -> Packet[Any]:
    data = bytes(packet)
    changed: Packet[Any] = Packet(data[:2] + b"\xff\xe1" + (len(EXIF) + 2).to_bytes(2) + EXIF + data[2:])
    changed.pts, changed.dts, changed.time_base = packet.pts, packet.dts, packet.time_base
    changed.duration, changed.is_keyframe = packet.duration, True
    return changed


@pytest.mark.parametrize("form", ["mkv", "mov", "avi"])
def test_side_data_that_is_not_known_ends_no_job(tmp_path: Path, form: str) -> None:
    clip = make_video(tmp_path / "a.mkv", size=SIZE, codec="mjpeg", pixel_format="yuvj420p", audio=())
    source = remux(clip, tmp_path / f"in.{form}", with_exif)
    frame = decode_video(source, limit=1).frames[0]
    assert any(name.startswith("TYPE_") for name in side_data(frame))
    path, _ = transcoded(source, tmp_path / "out", {"type": "mp4", "video": SMALL})
    assert len(decode_video(path).frames) == 50


def test_a_second_video_is_left_out_with_a_warning(tmp_path: Path) -> None:
    small = make_video(tmp_path / "small.mkv", size=SIZE, seconds=1, audio=())
    large = make_video(tmp_path / "large.mkv", size=(192, 128), seconds=1, audio=())
    source = tmp_path / "two.mkv"
    with av.open(str(small)) as a, av.open(str(large)) as b, av.open(str(source), "w") as made:
        lanes = [(made.add_stream_from_template(given.streams.video[0]), given) for given in (a, b)]
        packets = [(stream, packet) for stream, given in lanes for packet in given.demux() if packet.dts is not None]
        for stream, packet in sorted(packets, key=lambda pair: pair[1].dts or 0):
            packet.stream = stream
            made.mux(packet)
    path, result = transcoded(source, tmp_path / "out", {"type": "mp4", "video": {"speed": "ultrafast"}})
    assert decode_video(path, limit=1).frames[0].width == 192
    assert len(messages(result, "track_dropped")) == 1


def test_errors_are_told_by_code(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", size=SIZE, audio=(), seconds=Fraction(1, 5))
    with pytest.raises(PipelineError) as caught:
        run_job(source, tmp_path, {"type": "audio"})
    assert caught.value.code == "unsupported"
