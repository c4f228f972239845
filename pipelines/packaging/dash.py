"""The DASH manifest of a ladder, from its tracks as they were written (ISO/IEC 23009-1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil
from xml.etree import ElementTree as ET

from pipelines.packaging.layout import Packaging
from pipelines.packaging.segments import Segment
from pipelines.packaging.tags import decimal, uri
from pipelines.packaging.tracks import Track, common_target, of_kind

NAMESPACE = "urn:mpeg:dash:schema:mpd:2011"
LIVE_PROFILE = "urn:mpeg:dash:profile:isoff-live:2011"
ON_DEMAND_PROFILE = "urn:mpeg:dash:profile:isoff-on-demand:2011"
CMAF_PROFILE = "urn:mpeg:dash:profile:cmaf:2019"
NUMBERED_SET = {"segmentAlignment": "true", "startWithSAP": "1"}
INDEXED_SET = {"subsegmentAlignment": "true", "subsegmentStartsWithSAP": "1"}
"""That players may switch between its rungs at any segment."""
ROLE_SCHEME = "urn:mpeg:dash:role:2011"
TRANSFER_SCHEME = "urn:mpeg:mpegB:cicp:TransferCharacteristics"
CHANNELS_SCHEME = "urn:mpeg:mpegB:cicp:ChannelConfiguration"
CHANNELS_BY_COUNT = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 8: 12}
"""CICP channel configurations (ISO/IEC 23001-8) of the layouts that sound comes in here."""
TRANSFERS = {"PQ": 16, "HLG": 18}
ROLES = {
    "dub": "dub",
    "comment": "commentary",
    "hearing_impaired": "enhanced-audio-intelligibility",
    "visual_impaired": "description",
    "descriptions": "description",
    "captions": "caption",
}
"""By a track's role; `main` and `alternate` otherwise."""


def manifest(tracks: Sequence[Track], packaging: Packaging) -> str:
    """The MPD's text. Paths in it are relative to the ladder's folder."""
    target = common_target(tracks)
    timed = [track for track in tracks if track.layout.kind != "subtitle"]
    mpd = ET.Element(
        "MPD",
        {
            "xmlns": NAMESPACE,
            "type": "static",
            "profiles": f"{ON_DEMAND_PROFILE if packaging.single_file else LIVE_PROFILE},{CMAF_PROFILE}",
            "mediaPresentationDuration": duration(max(track.end for track in timed)),
            "minBufferTime": duration(packaging.grid),
            "maxSegmentDuration": duration(max(s.seconds for track in timed for s in track.segments)),
        },
    )
    period = ET.SubElement(mpd, "Period", {"id": "0", "start": "PT0S"})
    for number, adaptation in enumerate(_sets(tracks)):
        _add_set(period, number, adaptation, target)
    ET.indent(mpd)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(mpd, encoding="unicode") + "\n"


def duration(seconds: Fraction) -> str:
    """As XML Schema writes durations; never shorter than it is, so that no last frame is cut."""
    return f"PT{decimal(Fraction(ceil(seconds * 1000), 1000), 3)}S"


def _sets(tracks: Sequence[Track]) -> Iterator[list[Track]]:
    """What players may switch between: rungs of one codec that are cut at the same times; else each for itself."""
    rungs: dict[tuple[str, str, int], list[Track]] = {}
    for track in of_kind(tracks, "video"):
        assert track.layout.picture is not None
        family = track.codec.partition(".")[0]
        for number in range(len(tracks)):
            alike = rungs.setdefault((family, track.layout.picture.video_range, number), [])
            if not alike or _aligned(alike[0], track):
                alike.append(track)
                break
    yield from (alike for alike in rungs.values() if alike)
    yield from ([track] for kind in ("audio", "subtitle") for track in of_kind(tracks, kind))


def _aligned(one: Track, other: Track) -> bool:
    """Cut at the same times, but for what a picture lasts."""
    if len(one.segments) != len(other.segments):
        return False
    rates = [track.layout.picture.frame_rate for track in (one, other) if track.layout.picture is not None]
    slack = 1 / min(rates)
    return all(abs(a.begin - b.begin) <= slack for a, b in zip(one.segments, other.segments, strict=True))


def _add_set(period: ET.Element, number: int, tracks: Sequence[Track], target: int) -> None:
    first = tracks[0].layout
    facts = {"id": str(number), "contentType": "text" if first.kind == "subtitle" else first.kind}
    if first.kind == "subtitle":
        facts["mimeType"] = "text/vtt"
    else:
        facts |= {"mimeType": f"{first.kind}/mp4", **(INDEXED_SET if tracks[0].single else NUMBERED_SET)}
    if first.language is not None:
        facts["lang"] = first.language
    adaptation = ET.SubElement(period, "AdaptationSet", facts)
    # in the order that the schema wants
    if first.picture is not None and first.picture.video_range in TRANSFERS:
        value = str(TRANSFERS[first.picture.video_range])
        _describe(adaptation, "SupplementalProperty", TRANSFER_SCHEME, value)
    if first.kind != "video":
        ET.SubElement(adaptation, "Label").text = first.name
        _describe(adaptation, "Role", ROLE_SCHEME, _role(first.roles, default=first.default))
    for track in tracks:
        _add_representation(adaptation, track, target)


def _role(roles: Sequence[str], *, default: bool) -> str:
    named = [ROLES[role] for role in roles if role in ROLES]
    return named[0] if named else "main" if default else "alternate"


def _describe(parent: ET.Element, tag: str, scheme: str, value: str) -> None:
    ET.SubElement(parent, tag, {"schemeIdUri": scheme, "value": value})


def _add_representation(adaptation: ET.Element, track: Track, target: int) -> None:
    layout = track.layout
    facts = {"id": layout.folder, "bandwidth": str(max(1, track.peak(target)))}
    if layout.kind != "subtitle":
        facts["codecs"] = track.codec
    if layout.picture is not None:
        facts |= {
            "width": str(layout.picture.width),
            "height": str(layout.picture.height),
            "frameRate": str(layout.picture.frame_rate),
            "sar": "1:1",
        }
    if layout.sound is not None:
        facts["audioSamplingRate"] = str(layout.sound.sample_rate)
    representation = ET.SubElement(adaptation, "Representation", facts)
    if layout.sound is not None and layout.sound.channels in CHANNELS_BY_COUNT:
        value = str(CHANNELS_BY_COUNT[layout.sound.channels])
        _describe(representation, "AudioChannelConfiguration", CHANNELS_SCHEME, value)
    if layout.kind == "subtitle":
        assert track.whole_path is not None
        ET.SubElement(representation, "BaseURL").text = uri(track.path(track.whole_path))
    elif track.single:
        _add_base(representation, track)
    else:
        _add_template(representation, track)


def _add_template(representation: ET.Element, track: Track) -> None:
    folder = uri(track.layout.folder)
    assert track.init_path is not None
    template = ET.SubElement(
        representation,
        "SegmentTemplate",
        {
            "timescale": str(track.timescale),
            "initialization": f"{folder}/{track.init_path}",
            "media": f"{folder}/$Number%05d$.m4s",
            "startNumber": "1",
        },
    )
    _add_timeline(template, track)


def _add_base(representation: ET.Element, track: Track) -> None:
    """One file with an index of its own."""
    assert track.init_path is not None
    ET.SubElement(representation, "BaseURL").text = uri(track.path(track.init_path))
    base = ET.SubElement(representation, "SegmentBase", {"indexRange": _range(track.init_size, track.index_size)})
    ET.SubElement(base, "Initialization", {"range": _range(0, track.init_size)})


def _range(offset: int, size: int) -> str:
    return f"{offset}-{offset + size - 1}"


def _add_timeline(parent: ET.Element, track: Track) -> None:
    timeline = ET.SubElement(parent, "SegmentTimeline")
    for time, length, repeats in _runs(track.segments, track.timescale):
        facts = {"d": str(length)}
        if time is not None:
            facts = {"t": str(time), **facts}
        if repeats:
            facts["r"] = str(repeats)
        ET.SubElement(timeline, "S", facts)


def _runs(segments: Sequence[Segment], timescale: int) -> Iterator[tuple[int | None, int, int]]:
    """Start of the first, and length and repetitions of each run of equal ones, in ticks without gaps."""
    seconds = [*(segment.begin for segment in segments), segments[-1].end]
    times = [round(time * timescale) for time in seconds]
    lengths = [after - before for before, after in pairwise(times)]
    at = 0
    while at < len(lengths):
        count = next((n for n, length in enumerate(lengths[at:]) if length != lengths[at]), len(lengths) - at)
        yield (times[0] if at == 0 else None), lengths[at], count - 1
        at += count
