"""The manifest of live MPEG-DASH (ISO/IEC 23009-1): one period for each set of init sections."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from pipelines.live.journal import Segment
from pipelines.live.shelf import Wall
from pipelines.live.units import Track
from pipelines.packaging.codecs import Shape, codec_string

NAMESPACE = "urn:mpeg:dash:schema:mpd:2011"
PROFILE = "urn:mpeg:dash:profile:isoff-live:2011"
UTC_SCHEME = "urn:mpeg:dash:utc:direct:2014"

Told = tuple[Track, Sequence[Segment], int]
"""A track, its listed segments, its bandwidth."""


def manifest(told: Sequence[Told], wall: Wall, window: Fraction, segment: Fraction, *, ended: bool) -> str:
    """`wall(0)` is when the presentation became available; times in it are those of the output's clock."""
    root = Element("MPD", xmlns=NAMESPACE, profiles=PROFILE, minBufferTime=_duration(segment))
    newest = max((segments[-1].end for _, segments, _ in told if segments), default=Fraction(0))
    if ended:
        root.set("type", "static")
        root.set("mediaPresentationDuration", _duration(newest))
    else:
        root.set("type", "dynamic")
        root.set("availabilityStartTime", _moment(wall(Fraction(0))))
        root.set("publishTime", _moment(wall(newest)))
        root.set("minimumUpdatePeriod", _duration(segment / 2))
        root.set("timeShiftBufferDepth", _duration(window))
        root.set("suggestedPresentationDelay", _duration(3 * segment))
    for number, start in enumerate(_periods(told)):
        following = _periods(told)[number + 1] if number + 1 < len(_periods(told)) else None
        period = SubElement(root, "Period", id=f"p{_milliseconds(start)}", start=_duration(start))
        for place, kind in enumerate(("video", "audio")):
            tracks = [(t, _within(s, start, following), b) for t, s, b in told if t.kind == kind]
            if any(segments for _, segments, _ in tracks):
                _adaptation(period, place, kind, tracks, start)
    if not ended:
        SubElement(root, "UTCTiming", schemeIdUri=UTC_SCHEME, value=_moment(wall(newest)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _periods(told: Sequence[Told]) -> list[Fraction]:
    """Where any rendition begins or gets another init section."""
    _, leading, _ = told[0]
    starts = [leading[0].start] if leading else []
    for before, segment in pairwise(leading):
        if segment.init != before.init or segment.fresh:
            starts.append(segment.start)
    return starts


def _within(segments: Sequence[Segment], start: Fraction, end: Fraction | None) -> list[Segment]:
    """By their middles: sound is cut where it can be, a little beside the picture."""
    middles = ((each, (each.start + each.end) / 2) for each in segments)
    return [each for each, middle in middles if middle >= start and (end is None or middle < end)]


def _adaptation(
    period: Element, place: int, kind: str, tracks: Sequence[tuple[Track, list[Segment], int]], start: Fraction
) -> None:
    group = SubElement(
        period, "AdaptationSet", id=str(place), contentType=kind, mimeType=f"{kind}/mp4",
        segmentAlignment="true", startWithSAP="1",
    )  # fmt: skip
    for track, segments, bandwidth in tracks:
        if not segments:
            continue
        shape = Shape(track.width, track.height, track.frame_rate or Fraction(30))
        about = {"id": track.name, "bandwidth": str(bandwidth)}
        with suppress(ValueError):  # players find out from the init section
            about["codecs"] = codec_string(track.codec, track.extradata, shape)
        if track.kind == "video" and track.width:
            about |= {"width": str(track.width), "height": str(track.height)}
        representation = SubElement(group, "Representation", about)
        scale = track.time_base.denominator
        template = SubElement(
            representation, "SegmentTemplate", timescale=str(scale), startNumber=str(segments[0].number),
            presentationTimeOffset=str(round(start * scale)), media="$RepresentationID$/$Number%08d$.m4s",
            initialization=str(segments[0].init),
        )  # fmt: skip
        timeline = SubElement(template, "SegmentTimeline")
        for segment in segments:
            begin, end = round(segment.start * scale), round(segment.end * scale)
            SubElement(timeline, "S", t=str(begin), d=str(end - begin))


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _duration(seconds: Fraction) -> str:
    return f"PT{float(seconds):.3f}S"


def _milliseconds(seconds: Fraction) -> int:
    return round(seconds * 1000)
