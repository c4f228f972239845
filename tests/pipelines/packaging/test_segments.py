"""Cutting, joining and measuring: the parts by themselves."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.packaging import bandwidth
from pipelines.packaging.cue_lane import TextCue, webvtt
from pipelines.packaging.dash import duration
from pipelines.packaging.mp4 import Fragment, Sample, boxes, index_box, index_bytes, joined, parse, with_edit_list
from pipelines.packaging.segments import Assembled, Segmenter, SegmentFiles


@dataclass(frozen=True)
class Unit:
    begin: Fraction
    cuttable: bool
    data: bytes = b"x"


def cut(units: list[Unit], end: Fraction, grid: Fraction, folder: Path) -> list[tuple[Fraction, Fraction]]:
    files = SegmentFiles(folder, "bin", single=True)
    segmenter: Segmenter[Unit] = Segmenter(
        grid, files, lambda pieces, number: Assembled(b"".join(piece.data for piece in pieces))
    )
    for unit in units:
        segmenter.add(unit)
    segmenter.finish(end)
    assert b"".join((folder / path).read_bytes() for path in files.paths) == b"".join(unit.data for unit in units)
    return [(segment.begin, segment.end) for segment in segmenter.segments]


STEPS = st.lists(st.tuples(st.fractions(Fraction(1, 100), 3), st.booleans()), min_size=1, max_size=40)


@pytest.mark.slow
@given(STEPS, st.sampled_from([Fraction(1), Fraction(2), Fraction(4)]))
def test_segments_are_seamless_and_begin_with_the_first_cut_of_their_cell(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Fraction, bool]], grid: Fraction
) -> None:
    time, units = Fraction(0), [Unit(Fraction(0), cuttable=True)]
    for step, cuttable in steps:
        time += step
        units.append(Unit(time, cuttable))
    found = cut(units, time + 1, grid, tmp_path_factory.mktemp("cut"))
    begins = [begin for begin, _ in found]
    assert [end for _, end in found] == [*begins[1:], time + 1]
    cuts = {unit.begin for unit in units if unit.cuttable}
    assert cuts.issuperset(begins)
    cells = [begin // grid for begin in begins]
    assert all(a < b for a, b in pairwise(cells))
    assert {cut // grid for cut in cuts} == set(cells)


ROWS = st.lists(st.tuples(st.integers(1, 5000), st.binary(min_size=1, max_size=50)), min_size=1, max_size=20)


def single(time: int, length: int, data: bytes) -> Fragment:
    """A fragment of one sample, as `joined` writes it."""
    bare = Fragment(time, (Sample(length, len(data), 0, sync=True),), data, 0)
    return joined([bare], 1)


@given(ROWS, st.integers(0, 2**40))
def test_joined_fragments_hold_the_same_samples_at_the_same_times(rows: list[tuple[int, bytes]], start: int) -> None:
    time, parts = start, []
    for length, data in rows:
        parts.append(single(time, length, data))
        time += length
    whole = joined(parts, 7)
    assert parse(whole.data) == whole
    assert (whole.decode_time, whole.end) == (start, time)
    assert whole.data[whole.payload :] == b"".join(data for _, data in rows)
    assert parse(whole.moved(90_000).data).begin == start + 90_000


def test_an_index_leads_over_the_gap() -> None:
    box = index_box(90_000, 5, [(100, 180_000), (50, 90_000)], gap=24)
    assert len(box) == index_bytes(2)
    assert struct.unpack_from(">IIQQHH", box, 12) == (1, 90_000, 5, 24, 0, 2)


def test_an_edit_list_goes_into_its_track_and_sizes_stay_right() -> None:
    def box(kind: bytes, body: bytes = b"") -> bytes:
        return struct.pack(">I4s", 8 + len(body), kind) + body

    init = box(b"ftyp", b"cmfc") + box(b"moov", box(b"trak", box(b"tkhd", b"0000") + box(b"mdia")) + box(b"mvex"))
    changed = with_edit_list(init, 1024)
    assert [each.kind for each in boxes(changed)] == [b"ftyp", b"moov"]
    moov = next(each for each in boxes(changed) if each.kind == b"moov")
    trak = next(boxes(changed, moov.begin, moov.end))
    assert [each.kind for each in boxes(changed, trak.begin, trak.end)] == [b"tkhd", b"edts", b"mdia"]
    assert with_edit_list(init, 0) == init


@pytest.mark.parametrize("data", [b"\0\0\0\x04moof", b"\0\0\0\x20moof1234", b"\0\0\0\x08moofrest"])
def test_boxes_that_do_not_fit_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"fit|behind"):
        list(boxes(data))


SIZED = st.lists(st.tuples(st.fractions(Fraction(1, 10), 6), st.integers(1, 10**7)), min_size=1, max_size=20)


@pytest.mark.slow
@given(SIZED)
def test_the_peak_is_never_below_the_average(segments: list[tuple[Fraction, int]]) -> None:
    assert bandwidth.peak(segments, 4) >= bandwidth.average(segments) > 0


def test_a_short_last_segment_alone_makes_no_peak() -> None:
    segments: list[tuple[Fraction, int]] = [(Fraction(4), 1000), (Fraction(4), 2000), (Fraction(1, 10), 1000)]
    assert bandwidth.peak(segments, 4) == -(-3000 * 8 * 10 // 41)


def test_cues_cannot_break_their_file() -> None:
    text = webvtt([TextCue(Fraction(1), Fraction(3723, 1), "a\n\nb --> c\r\n", "line:0")], "X-TIMESTAMP-MAP=MPEGTS:0")
    assert text == ("WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0\n\n00:00:01.000 --> 01:02:03.000 line:0\na\nb --&gt; c\n")


@pytest.mark.parametrize(("seconds", "text"), [(Fraction(12), "PT12.0S"), (Fraction(12_012_300, 10**6), "PT12.013S")])
def test_durations_never_cut_the_end(seconds: Fraction, text: str) -> None:
    assert duration(seconds) == text


def test_one_file_is_where_the_others_would_be(tmp_path: Path) -> None:
    files: Any = SegmentFiles(tmp_path, "m4s", single=True)
    files.write_init(b"init")
    assert [files.write(1, b"one"), files.write(2, b"two")] == [("media.mp4", 4), ("media.mp4", 7)]
    assert (files.paths, (tmp_path / "media.mp4").read_bytes()) == (["media.mp4"], b"initonetwo")
