"""Playlists as text."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.packaging.m3u8 import (
    Alternative,
    ByteRange,
    Entry,
    InitSection,
    Key,
    MediaPlaylist,
    MultivariantPlaylist,
    Variant,
    target_seconds,
)
from pipelines.packaging.tags import decimal, quoted, uri

ENTRIES = [Entry("00001.m4s", Fraction(4)), Entry("00002.m4s", Fraction(1001, 400))]


def test_a_finished_playlist_has_its_kind_its_init_and_its_end() -> None:
    playlist = MediaPlaylist(4, ENTRIES, init=InitSection("init.mp4"), kind="VOD", ended=True)
    assert playlist.text().splitlines() == [
        "#EXTM3U",
        "#EXT-X-VERSION:6",
        "#EXT-X-TARGETDURATION:4",
        "#EXT-X-MEDIA-SEQUENCE:0",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        '#EXT-X-MAP:URI="init.mp4"',
        "#EXTINF:4.0,",
        "00001.m4s",
        "#EXTINF:2.5025,",
        "00002.m4s",
        "#EXT-X-ENDLIST",
    ]


def test_a_live_playlist_says_where_it_is_and_what_changed() -> None:
    changed = Entry(
        "7.ts", Fraction(2), discontinuity=True, key=Key("k.key", bytes(16)), starts_at=datetime(2026, 1, 2, tzinfo=UTC)
    )
    text = MediaPlaylist(2, [changed], media_sequence=7, discontinuity_sequence=1).text()
    assert "#EXT-X-MEDIA-SEQUENCE:7\n#EXT-X-DISCONTINUITY-SEQUENCE:1\n" in text
    assert '#EXT-X-DISCONTINUITY\n#EXT-X-KEY:METHOD=AES-128,URI="k.key",IV=0x' + "0" * 32 in text
    assert "#EXT-X-PROGRAM-DATE-TIME:2026-01-02T00:00:00.000+00:00" in text
    assert "ENDLIST" not in text
    assert "PLAYLIST-TYPE" not in text


def test_the_version_is_the_lowest_that_has_what_is_used() -> None:
    ranged = [Entry("all.ts", Fraction(2), byte_range=ByteRange(10, 20))]
    init = InitSection("all.mp4", ByteRange(700, 0))
    assert MediaPlaylist(2, ENTRIES).version == 3
    assert MediaPlaylist(2, ranged).version == 4
    assert MediaPlaylist(2, ranged, iframes_only=True).version == 4
    assert MediaPlaylist(2, ranged, init=init, iframes_only=True).version == 5
    assert MediaPlaylist(2, ranged, init=init).version == 6
    assert '#EXT-X-MAP:URI="all.mp4",BYTERANGE="700@0"' in MediaPlaylist(2, ranged, init=init).text()


def test_the_multivariant_playlist_names_groups_variants_and_iframes() -> None:
    variant = Variant(
        "720p/index.m3u8",
        3_000_000,
        2_000_000,
        ("avc1.64001F", "mp4a.40.2"),
        (1280, 720),
        Fraction(30_000, 1001),
        "SDR",
        audio="aac",
        subtitles="subs",
    )
    sound = Alternative("AUDIO", "aac", "English", "audio/index.m3u8", "en", default=True, channels="2")
    text = MultivariantPlaylist([variant], [sound], [Variant("720p/iframes.m3u8", 300_000)]).text()
    assert text.splitlines()[3:] == [
        '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="aac",NAME="English",LANGUAGE="en",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="2",'
        'URI="audio/index.m3u8"',
        '#EXT-X-STREAM-INF:BANDWIDTH=3000000,AVERAGE-BANDWIDTH=2000000,CODECS="avc1.64001F,mp4a.40.2",'
        'RESOLUTION=1280x720,VIDEO-RANGE=SDR,FRAME-RATE=29.97,AUDIO="aac",SUBTITLES="subs",CLOSED-CAPTIONS=NONE',
        "720p/index.m3u8",
        '#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=300000,URI="720p/iframes.m3u8"',
    ]


@given(st.text())
def test_no_text_leaves_its_quotes_or_its_line(text: str) -> None:
    made = quoted(text)
    assert made is not None
    assert made[0] == made[-1] == '"'
    assert '"' not in made[1:-1]
    assert len(made.split("\n")) == len(made.split("\r")) == 1


@given(st.text(min_size=1))
def test_no_path_breaks_its_line_or_starts_a_comment(path: str) -> None:
    assert set(uri("x/" + path.encode(errors="ignore").decode())).isdisjoint('\n\r" <>')


@pytest.mark.parametrize(
    ("number", "places", "text"),
    [(Fraction(4), 6, "4.0"), (Fraction(1, 3), 6, "0.333333"), (Fraction(30_000, 1001), 3, "29.97")],
)
def test_decimals_are_short_and_exact(number: Fraction, places: int, text: str) -> None:
    assert decimal(number, places) == text


@pytest.mark.slow
@given(st.lists(st.fractions(min_value=0, max_value=60), min_size=1))
def test_no_segment_rounds_above_the_target(durations: list[Fraction]) -> None:
    target = target_seconds(durations)
    assert all(int(seconds + Fraction(1, 2)) <= target for seconds in durations)


def test_keys_of_samples_say_their_format_and_need_a_higher_version() -> None:
    entries = [Entry("1.ts", Fraction(2))]
    whole = MediaPlaylist(2, entries, key=Key("the.key"))
    samples = MediaPlaylist(2, entries, key=Key("the.key", bytes(16), samples=True))
    assert (whole.version, samples.version) == (3, 5)
    assert '#EXT-X-KEY:METHOD=SAMPLE-AES,URI="the.key",IV=0x' + "0" * 32 + ',KEYFORMAT="identity"\n' in samples.text()
    fragmented = MediaPlaylist(2, entries, init=InitSection("init.mp4"), key=Key("the.key", bytes(16), samples=True))
    assert fragmented.version == 6
