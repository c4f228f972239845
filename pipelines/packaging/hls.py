"""The HLS playlists of a ladder, from its tracks as they were written. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from pipelines.packaging import bandwidth
from pipelines.packaging.encryption import key_tag
from pipelines.packaging.layout import HLS_NAME, IFRAMES_NAME, Packaging
from pipelines.packaging.m3u8 import (
    Alternative,
    ByteRange,
    Entry,
    InitSection,
    Key,
    MediaPlaylist,
    MultivariantPlaylist,
    Variant,
)
from pipelines.packaging.tracks import Track, common_target, of_kind

CHARACTERISTICS = {
    "hearing_impaired": "public.accessibility.transcribes-spoken-dialog",
    "captions": "public.accessibility.transcribes-spoken-dialog",
    "visual_impaired": "public.accessibility.describes-video",
    "descriptions": "public.accessibility.describes-video",
}
"""By a track's role."""


def playlists(tracks: Sequence[Track], packaging: Packaging) -> dict[str, str]:
    """Texts by paths relative to the ladder's folder."""
    target = common_target(tracks)
    key = key_tag(packaging.encryption)
    texts = {track.path(HLS_NAME): _media(track, target, key).text() for track in tracks}
    pictures = of_kind(tracks, "video") if packaging.iframes else []
    texts |= {track.path(IFRAMES_NAME): _iframes(track, target, key).text() for track in pictures}
    texts[HLS_NAME] = _multivariant(tracks, pictures, target).text()
    return texts


def _media(track: Track, target: int, key: Key | None) -> MediaPlaylist:
    """Subtitles are never encrypted."""
    key = None if track.layout.kind == "subtitle" else key
    entries = [
        Entry(
            segment.path, segment.seconds, ByteRange(segment.size, segment.offset) if track.single else None
        )
        for segment in track.segments
    ]  # fmt: skip
    return MediaPlaylist(target, entries, init=_init(track), key=key, kind="VOD", ended=True)


def _init(track: Track) -> InitSection | None:
    if track.init_path is None:
        return None
    return InitSection(track.init_path, ByteRange(track.init_size, 0) if track.single else None)


def _iframes(track: Track, target: int, key: Key | None) -> MediaPlaylist:
    """Each I-frame lasts until the next one."""
    shown = list(_shown(track))
    entries = [Entry(path, seconds, byte_range) for path, seconds, byte_range in shown]
    return MediaPlaylist(target, entries, init=_init(track), key=key, kind="VOD", ended=True, iframes_only=True)


def _shown(track: Track) -> Iterator[tuple[str, Fraction, ByteRange]]:
    frames = [(segment.path, frame) for segment in track.segments for frame in segment.iframes]
    ends = [frame.begin for _, frame in frames[1:]] + [track.end]
    for (path, frame), end in zip(frames, ends, strict=True):
        yield path, end - frame.begin, frame.byte_range


def _multivariant(tracks: Sequence[Track], pictures: Sequence[Track], target: int) -> MultivariantPlaylist:
    sounds, texts = of_kind(tracks, "audio"), of_kind(tracks, "subtitle")
    rungs = of_kind(tracks, "video")
    groups = _groups(sounds)
    # with sound alone, its first track is the variant
    combined = [(track, group) for group in groups.values() or [[]] for track in rungs or group[:1]]
    variants = [_variant(track, group if rungs or len(group) > 1 else [], texts, target) for track, group in combined]
    alternatives = [
        _alternative(track, "AUDIO") for group in groups.values() if rungs or len(group) > 1 for track in group
    ]
    alternatives += [_alternative(track, "SUBTITLES") for track in texts]
    return MultivariantPlaylist(variants, alternatives, [_iframe_variant(track, target) for track in pictures])


def _groups(tracks: Sequence[Track]) -> dict[str, list[Track]]:
    groups: dict[str, list[Track]] = {}
    for track in tracks:
        groups.setdefault(track.layout.group, []).append(track)
    return groups


def _variant(track: Track, sounds: Sequence[Track], texts: Sequence[Track], target: int) -> Variant:
    """Bitrates are those of the most expensive combination of the rung with its groups."""
    others = [tracks for tracks in (sounds if track.layout.kind == "video" else [], texts) if tracks]
    peaks = [max(other.peak(target) for other in group) for group in others]
    averages = [max(other.average for other in group) for group in others]
    picture = track.layout.picture
    codecs = dict.fromkeys(
        [track.codec, *(sound.codec for sound in sounds), *(text.codec for text in texts if text.codec)]
    )
    return Variant(
        track.path(HLS_NAME),
        track.peak(target) + sum(peaks),
        track.average + sum(averages),
        tuple(codecs),
        None if picture is None else (picture.width, picture.height),
        None if picture is None else picture.frame_rate,
        None if picture is None else picture.video_range,
        audio=sounds[0].layout.group if sounds else None,
        subtitles=texts[0].layout.group if texts else None,
    )


def _iframe_variant(track: Track, target: int) -> Variant:
    sizes = [(seconds, byte_range.length) for _, seconds, byte_range in _shown(track)]
    picture = track.layout.picture
    assert picture is not None
    return Variant(
        track.path(IFRAMES_NAME),
        bandwidth.peak(sizes, target),
        bandwidth.average(sizes),
        (track.codec,),
        (picture.width, picture.height),
        video_range=picture.video_range,
    )


def _alternative(track: Track, kind: str) -> Alternative:
    layout = track.layout
    features = dict.fromkeys(CHARACTERISTICS[role] for role in layout.roles if role in CHARACTERISTICS)
    return Alternative(
        "AUDIO" if kind == "AUDIO" else "SUBTITLES",
        layout.group,
        layout.name,
        track.path(HLS_NAME),
        layout.language,
        default=layout.default,
        forced=layout.forced,
        channels=None if layout.sound is None else str(layout.sound.channels),
        characteristics=tuple(features),
    )
