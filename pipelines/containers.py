"""Containers: FFmpeg's muxer, extension, muxer options, and which codecs go along by copy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

_MP4_AUDIO = frozenset({"aac", "mp3", "mp2", "ac3", "eac3", "opus", "flac", "alac"})
_PCM = frozenset(
    {"pcm_s16le", "pcm_s16be", "pcm_s24le", "pcm_s24be", "pcm_s32le", "pcm_s32be", "pcm_f32le", "pcm_f32be"}
)

Durations = Literal["each", "last", "none"]


ChapterStyle = Literal["entries", "comments"]
"""How a file has chapters: entries of its own, or comments that name their starts (Ogg, FLAC)."""


@dataclass(frozen=True)
class Container:
    """`copies` names the codecs (FFmpeg's names) that players of this container take; None: all of the muxer's."""

    muxer: str
    extension: str
    options: dict[str, str] = field(default_factory=dict)
    copies_video: frozenset[str] | None = frozenset()
    copies_audio: frozenset[str] | None = frozenset()
    copies_subtitles: frozenset[str] | None = frozenset()
    subtitle_codec: str | None = None
    """The encoder of the container's own kind of text subtitles."""
    overlapping_cues: bool = True
    """Whether subtitles may be on screen at the same time."""
    cover_art: Literal["track", "attachment"] | None = None
    """How it carries a cover picture."""
    display_matrix: bool = False
    """Whether it says how players turn the picture."""
    pixel_shape: bool = True
    """Whether its header says the sample aspect ratio."""
    chapters: ChapterStyle | None = "entries"
    time_base_denominator: int = 90_000
    """Ticks per second that video timing is kept with where the source's own are too coarse."""
    tracks_per_type: int | None = None
    signals_priming: bool = True
    """Whether players are told which samples at the start are the encoder's own."""
    durations: Durations = "each"
    """Whose durations are kept: each packet's, only that of the packet decoded last, nobody's."""


_FASTSTART = {"movflags": "+faststart"}

CONTAINERS: dict[str, Container] = {
    "mp4": Container(
        "mp4", "mp4", _FASTSTART,
        copies_video=frozenset({"h264", "hevc", "av1", "vp9", "mpeg4", "mpeg2video", "mpeg1video"}),
        copies_audio=_MP4_AUDIO, copies_subtitles=frozenset({"mov_text"}), subtitle_codec="mov_text", cover_art="track",
        display_matrix=True, durations="last", overlapping_cues=False,
    ),
    "mov": Container(
        "mov", "mov", _FASTSTART,
        copies_video=frozenset({"h264", "hevc", "mpeg4", "mpeg2video", "mjpeg", "prores", "dnxhd", "qtrle", "png"}),
        copies_audio=frozenset({"aac", "mp3", "ac3", "eac3", "alac"}) | _PCM,
        copies_subtitles=frozenset({"mov_text"}), subtitle_codec="mov_text", display_matrix=True,
        durations="last", overlapping_cues=False,
    ),
    "mkv": Container(
        "matroska", "mkv", {"cues_to_front": "1"}, copies_video=None, copies_audio=None,
        copies_subtitles=frozenset({"subrip", "ass", "webvtt", "hdmv_pgs_subtitle", "dvd_subtitle", "dvb_subtitle"}),
        subtitle_codec="subrip", cover_art="attachment",
        display_matrix=True, time_base_denominator=1000,
    ),
    "webm": Container(
        "webm", "webm", {"cues_to_front": "1"}, copies_video=frozenset({"vp8", "vp9", "av1"}),
        copies_audio=frozenset({"opus", "vorbis"}), copies_subtitles=frozenset({"webvtt"}), subtitle_codec="webvtt",
        display_matrix=True, time_base_denominator=1000,
    ),
    "ts": Container(
        "mpegts", "ts", {}, copies_video=frozenset({"h264", "hevc", "mpeg2video", "mpeg1video"}),
        copies_audio=frozenset({"aac", "mp3", "mp2", "ac3", "eac3", "opus", "dts"}),
        copies_subtitles=frozenset({"dvb_subtitle"}), chapters=None,
        signals_priming=False, durations="none",
    ),
    "fmp4": Container(
        # segments of ladders: no edit lists, so that priming can't be said
        "mp4", "m4s", {}, copies_video=frozenset({"h264", "hevc", "av1", "vp9"}),
        copies_audio=frozenset({"aac", "ac3", "eac3", "opus", "flac"}),
        copies_subtitles=frozenset({"webvtt"}), subtitle_codec="webvtt", chapters=None,
        signals_priming=False, durations="last",
    ),
    "ts_segments": Container(
        "mpegts", "ts", {}, copies_video=frozenset({"h264"}), copies_audio=frozenset({"aac", "mp3", "ac3", "eac3"}),
        copies_subtitles=frozenset({"webvtt"}), subtitle_codec="webvtt", chapters=None,
        signals_priming=False, durations="none",
    ),
    "srt": Container("srt", "srt", subtitle_codec="subrip", chapters=None),
    "vtt": Container("webvtt", "vtt", subtitle_codec="webvtt", chapters=None),
    "ass": Container("ass", "ass", copies_subtitles=frozenset({"ass"}), subtitle_codec="ass", chapters=None),
    "m4a": Container(
        "mp4", "m4a", {**_FASTSTART, "brand": "M4A "},
        copies_audio=frozenset({"aac", "alac", "ac3", "mp3"}), cover_art="track",
    ),
    "mp3": Container("mp3", "mp3", {}, copies_audio=frozenset({"mp3"}), cover_art="track", tracks_per_type=1),
    "opus": Container(
        "opus", "opus", {}, copies_audio=frozenset({"opus"}), tracks_per_type=1, chapters="comments",
    ),
    "flac": Container(
        "flac", "flac", {}, copies_audio=frozenset({"flac"}), cover_art="track", tracks_per_type=1, chapters="comments",
    ),
}  # fmt: skip

LIVE_MKV = "mkv, live"
"""Matroska that is written as a stream is: its header is done with before its end."""
CONTAINERS[LIVE_MKV] = replace(CONTAINERS["mkv"], pixel_shape=False)
