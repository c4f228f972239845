"""DASH: manifests that say what the segments hold, read by another program."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pipelines.packaging.mp4 import boxes, parse
from tests.hls_rules import check_multivariant
from tests.ladders import make_ladder, rung
from tests.media import Subtitles, Tone, make_video

MPD = "{urn:mpeg:dash:schema:mpd:2011}"
TITLE = 'A & B <"best">'


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(
        tmp_path_factory.mktemp("source") / "in.mkv",
        size=(320, 180),
        rate=Fraction(24_000, 1001),
        seconds=7,
        audio=(Tone(language="eng", title=TITLE), Tone(language="fra", layout="5.1")),
        subtitles=(Subtitles(language="ger"),),
    )


LADDER: dict[str, Any] = {"type": "cmaf", "segment_seconds": 2, "video": [rung(180), rung(90, codec="hevc")]}


@pytest.fixture(scope="module", params=[False, True], ids=["files", "one file"])
def folder(request: pytest.FixtureRequest, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ladder")
    make_ladder(source, made, {**LADDER, "single_file": request.param})
    check_multivariant(made / "output" / "index.m3u8")
    return made / "output"


def manifest(folder: Path) -> ET.Element:
    return ET.parse(folder / "manifest.mpd").getroot()


@pytest.mark.slow
def test_sets_are_by_kind_codec_and_language(folder: Path) -> None:
    found = []
    for each in manifest(folder).iter(f"{MPD}AdaptationSet"):
        codecs = [one.get("codecs", "").partition(".")[0] for one in each.iter(f"{MPD}Representation")]
        found.append((each.get("contentType"), each.get("lang"), codecs))
    assert found == [
        ("video", None, ["avc1"]),
        ("video", None, ["hvc1"]),
        ("audio", "en", ["mp4a"]),
        ("audio", "fr", ["mp4a"]),
        ("text", "de", [""]),
    ]


@pytest.mark.slow
def test_titles_come_back_as_they_were(folder: Path) -> None:
    labels = [label.text for label in manifest(folder).iter(f"{MPD}Label")]
    assert labels == [TITLE, "fr", "de"]


def test_channels_and_roles_are_said(folder: Path) -> None:
    root = manifest(folder)
    assert [each.get("value") for each in root.iter(f"{MPD}AudioChannelConfiguration")] == ["2", "6"]
    assert [each.get("value") for each in root.iter(f"{MPD}Role")][:2] == ["main", "alternate"]


def test_the_duration_is_that_of_the_longest_track(folder: Path) -> None:
    said = float(str(manifest(folder).get("mediaPresentationDuration")).removeprefix("PT").removesuffix("S"))
    assert said == pytest.approx(7.0, abs=0.05)


def timeline(representation: ET.Element) -> list[tuple[int, int]]:
    """Start and duration of each segment, as the template says."""
    found: list[tuple[int, int]] = []
    for each in representation.iter(f"{MPD}S"):
        start = int(each.get("t") or sum(found[-1]))
        for _ in range(int(each.get("r", "0")) + 1):
            found.append((start, int(each.get("d", "0"))))
            start = sum(found[-1])
    return found


def test_the_timeline_is_that_of_the_fragments(folder: Path) -> None:
    for representation in manifest(folder).iter(f"{MPD}Representation"):
        template = representation.find(f"{MPD}SegmentTemplate")
        if template is None:
            continue
        listed = timeline(representation)
        assert (folder / str(template.get("initialization"))).is_file()
        for number, (start, length) in enumerate(listed, 1):
            path = folder / str(template.get("media")).replace("$Number%05d$", f"{number:05d}")
            data = path.read_bytes()
            found = list(boxes(data))
            moofs, mdats = ([box for box in found if box.kind == kind] for kind in (b"moof", b"mdat"))
            parts = [parse(data[moof.begin - 8 : mdat.end]) for moof, mdat in zip(moofs, mdats, strict=True)]
            told = (parts[0].decode_time, sum(part.duration for part in parts))
            # decode times of reordered pictures are not quite as regular as the source's own times
            assert told == pytest.approx((start, length), abs=int(str(template.get("timescale"))) / 500)
        assert not (folder / str(template.get("media")).replace("$Number%05d$", f"{len(listed) + 1:05d}")).exists()


def test_the_index_of_one_file_leads_to_each_fragment(folder: Path) -> None:
    for representation in manifest(folder).iter(f"{MPD}Representation"):
        base = representation.find(f"{MPD}SegmentBase")
        if base is None:
            continue
        data = (folder / str(representation.findtext(f"{MPD}BaseURL"))).read_bytes()
        first, last = (int(part) for part in str(base.get("indexRange")).split("-"))
        assert data[first + 4 : first + 8] == b"sidx"
        (gap,), (count,) = struct.unpack_from(">Q", data, first + 28), struct.unpack_from(">H", data, first + 38)
        at = last + 1 + gap
        assert count == 4
        for number in range(count):
            size, _, access = struct.unpack_from(">III", data, first + 40 + 12 * number)
            assert data[at + 4 : at + 8] == b"moof"
            assert access >> 28 == 9
            at += size
        assert at == len(data)


@pytest.mark.skipif(shutil.which("ffprobe") is None, reason="ffprobe is not installed")
def test_ffprobe_reads_every_representation_from_zero(folder: Path) -> None:
    found = {track: probed(folder / "manifest.mpd", track) for track in ("v:0", "v:1", "a:0", "a:1")}
    assert [count for count, _ in found.values()][:2] == [168, 168]
    assert all(count > 300 for count, _ in list(found.values())[2:])
    assert all(abs(start) < 0.05 for _, start in found.values())


def probed(path: Path, track: str) -> tuple[int, float]:
    """Packets and start of one track, the only one that is read: the shortest that is read ends all."""
    words = ["ffprobe", "-v", "error", "-allowed_extensions", "ALL", "-count_packets", "-select_streams", track,
             "-of", "json", "-show_entries", "stream=nb_read_packets,start_time", str(path)]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if "allowed_extensions" in done.stderr:
        pytest.skip("this ffprobe reads no DASH")
    [stream] = json.loads(done.stdout)["streams"]
    return int(stream["nb_read_packets"]), float(stream["start_time"])


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["av1", "vp9"])
def test_av1_and_vp9_are_cut_on_the_grid_too(tmp_path: Path, codec: str) -> None:
    path = make_video(tmp_path / "in.mp4", size=(128, 72), rate=Fraction(30_000, 1001), seconds=6, audio=())
    rungs = [rung(72, codec=codec), rung(48, codec=codec)]
    make_ladder(path, tmp_path, {"type": "dash", "segment_seconds": 2, "video": rungs})
    representations = list(manifest(tmp_path / "output").iter(f"{MPD}Representation"))
    prefix = {"av1": "av01.", "vp9": "vp09."}[codec]
    assert [each.get("codecs", "")[:5] for each in representations] == [prefix, prefix]
    assert len(list(manifest(tmp_path / "output").iter(f"{MPD}AdaptationSet"))) == 1
    for representation in representations:
        template = representation.find(f"{MPD}SegmentTemplate")
        assert template is not None
        timescale = int(str(template.get("timescale")))
        assert [start / timescale for start, _ in timeline(representation)] == [0, 2.002, 4.004]
