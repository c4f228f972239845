"""SAMPLE-AES: FFmpeg's readers decrypt both kinds of segments to what was encrypted, and nothing else is told."""

from __future__ import annotations

import hashlib
import io
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import av
import pytest
from pydantic import ValidationError

from pipelines.errors import UnsupportedSpec
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.packaging.mp4 import find
from pipelines.packaging.ts import PACKET_BYTES, PMT_PID
from pipelines.rendition import Plan
from pipelines.spec import FileJob, HlsLadder
from pipelines.transcode import transcode
from tests.hls_rules import Media, Multivariant, check_multivariant
from tests.ladders import DEVICE, form, rung
from tests.media import Subtitles, make_video
from tests.pipelines.facts import only_output
from transcoder.aes import encrypt_cbc

KEY, IV = bytes(range(16)), bytes(range(16, 32))
ENCRYPTION = {"method": "sample-aes", "key": KEY.hex(), "uri": "the.key", "iv": IV.hex()}
OPENED = {"decryption_key": KEY.hex()}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keyframes each second, so that ladders may copy the pictures: both of a pair have the same ones then."""
    path = tmp_path_factory.mktemp("clip") / "in.mp4"
    texts = (Subtitles(cues=((0.5, 1.5, "Here"),), language="eng", codec="mov_text"),)
    return make_video(path, size=(192, 108), seconds=3, gop=25, b_frames=2, subtitles=texts)


def picture(codec: str = "h264") -> dict[str, Any]:
    """Without a cap, which the clip would be above, and not be copied."""
    return rung(108, codec=codec, rate_control={"mode": "crf", "crf": 30})


def make(clip: Path, folder: Path, *, sealed: bool = True, **output: Any) -> Multivariant:
    made = {"type": "hls", "segment_seconds": 1, "copy_if_fits": True, "video": [picture()], **output}
    if sealed:
        made["encryption"] = {**ENCRYPTION, **output.get("encryption", {})}
    folder.mkdir(parents=True, exist_ok=True)
    spec = FileJob.model_validate({"input": {"path": "x"}, "outputs": [made]})
    file = LocalFile(clip, clip.name)
    plans: list[Plan] = []
    transcode(spec, file, folder, device=DEVICE, limits=Limits(), cipher=encrypt_cbc, on_plan=plans.append)
    assert plans[0].outputs[0].renditions[0].reason.startswith("copied")
    ladder = check_multivariant(folder / "output" / "index.m3u8")
    for _, media in (*ladder.variants, *ladder.alternatives):
        (media.path.parent / "the.key").write_bytes(KEY)
    return ladder


def frames(path: Path | io.BytesIO, format: str, count: int | None = None, **options: str) -> list[str]:
    """Of a playlist or a file: digests of the first `count` pictures or frames of sound."""
    file = str(path) if isinstance(path, Path) else path
    with av.open(file, "r", format=format, options=options) as container:
        decoded: Any = islice(container.decode(container.streams[0]), count)
        return [hashlib.sha256(frame.to_ndarray().tobytes()).hexdigest() for frame in decoded]


def played(media: Media, count: int | None = None) -> list[str]:
    return frames(media.path, "hls", count, allowed_extensions="ALL")


def check_same(sealed: Media, clear: Media) -> None:
    """FFmpeg leaves samples encrypted that it comes to when all has been read: the last segment is read once more."""
    shown = played(clear)
    *head, last = sealed.path.read_text().removesuffix("\n#EXT-X-ENDLIST\n").split("#EXTINF")
    longer = sealed.path.with_name("longer.m3u8")
    longer.write_text("#EXTINF".join([*head, f"{last}\n", f"{last}\n#EXT-X-ENDLIST\n"]))
    assert frames(longer, "hls", len(shown), allowed_extensions="ALL") == shown


def without_key(media: Media, number: int) -> list[str]:
    """What decoders make of a segment as it is."""
    try:
        return frames(io.BytesIO(media.read(media.entries[number])), form(media))
    except av.error.FFmpegError:
        return []


def pairs(clip: Path, folder: Path, **output: Any) -> list[tuple[Media, Media]]:
    """Each track of pictures and sound, encrypted and not."""
    one, two = (make(clip, folder / name, sealed=name == "sealed", **output) for name in ("sealed", "clear"))
    tracks = [[each.variants[0][1], *(media for _, media in each.group("AUDIO", "audio"))] for each in (one, two)]
    assert len(tracks[0]) == 2
    return list(zip(*tracks, strict=True))


@pytest.mark.parametrize("output", [{"segment_type": "ts"}, {}, {"single_file": True}], ids=["ts", "fmp4", "one file"])
def test_ffmpeg_plays_what_was_encrypted(clip: Path, tmp_path: Path, output: dict[str, Any]) -> None:
    for sealed, clear in pairs(clip, tmp_path, **output):
        assert 'METHOD=SAMPLE-AES,URI="the.key",IV=0x101112131415161718191A1B1C1D1E1F,KEYFORMAT="identity"' in (
            sealed.path.read_text()
        )
        check_same(sealed, clear)


@pytest.mark.parametrize("codec", ["opus", "flac"])
def test_other_sound_is_encrypted_in_fmp4(clip: Path, tmp_path: Path, codec: str) -> None:
    _, (sealed, clear) = pairs(clip, tmp_path, audio={"codec": codec})
    check_same(sealed, clear)
    assert without_key(sealed, 0) != without_key(clear, 0)


def test_hevc_is_encrypted_behind_its_slices_headers(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "hevc.mp4", size=(192, 108), seconds=2, codec="hevc", gop=25, b_frames=2)
    sealed, clear = pairs(clip, tmp_path, video=[picture("hevc")])[0]
    check_same(sealed, clear)


@pytest.mark.parametrize("kind", ["ts", "fmp4"])
def test_most_of_it_is_nothing_without_the_key(clip: Path, tmp_path: Path, kind: str) -> None:
    for sealed, clear in pairs(clip, tmp_path, segment_type=kind):
        seen = frames(io.BytesIO(clear.read(clear.entries[1])), form(clear))
        assert not set(seen).intersection(without_key(sealed, 1)[1:])


@pytest.mark.parametrize("kind", ["ts", "fmp4"])
def test_keyframes_have_a_playlist_with_the_key(clip: Path, tmp_path: Path, kind: str) -> None:
    ladder = make(clip, tmp_path, segment_type=kind)
    media = ladder.iframes[0][1]
    assert media.encrypted
    assert media.version >= 5
    assert len(media.entries) == 3
    if kind == "fmp4":
        shown = frames(io.BytesIO(media.read(media.entries[1])), "mp4", **OPENED)
        assert shown[0] == played(ladder.variants[0][1])[25]


def test_subtitles_and_their_playlist_stay_clear(clip: Path, tmp_path: Path) -> None:
    ladder = make(clip, tmp_path)
    ((_, texts),) = ladder.group("SUBTITLES", "subs")
    assert not texts.encrypted
    assert "Here" in texts.entries[0].path.read_text()


def test_transport_streams_say_that_their_samples_are_encrypted(clip: Path, tmp_path: Path) -> None:
    ladder = make(clip, tmp_path, segment_type="ts")
    media = [ladder.variants[0][1], ladder.group("AUDIO", "audio")[0][1]]
    for each, told in zip(media, ((0xDB, b"zavc"), (0xCF, b"aacd")), strict=True):
        data = each.read(each.entries[1])
        packets = [data[at : at + PACKET_BYTES] for at in range(0, len(data), PACKET_BYTES)]
        table = next(packet for packet in packets if (packet[1] & 0x1F) << 8 | packet[2] == PMT_PID)
        stream = table.index(b"\x0f\x04") - 5
        assert (table[stream], table[stream + 7 : stream + 11]) == told
        counts = [packet[3] & 0xF for packet in packets if packet[1] & 0x1F == 1]
        assert len(counts) > 2
        assert all((before + 1) & 0xF == after for before, after in pairwise(counts))


def test_init_sections_name_scheme_and_key(clip: Path, tmp_path: Path) -> None:
    ladder = make(clip, tmp_path, encryption={"key_id": "ab" * 16})
    for media, entry, pattern in (
        (ladder.variants[0][1], b"encv", 0x19), (ladder.group("AUDIO", "audio")[0][1], b"enca", 0),
    ):  # fmt: skip
        assert media.init is not None
        init = media.init.path.read_bytes()
        stsd = find(init, b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd")
        description = init[stsd.begin : stsd.end]
        assert description[12:16] == entry
        tenc = description[description.index(b"tenc") + 4 :]
        assert tenc[4:] == bytes([0, pattern, 1, 0]) + bytes.fromhex("ab" * 16) + b"\x10" + IV
        assert b"schm\x00\x00\x00\x00cbcs" in description


def test_the_keys_id_goes_by_its_address() -> None:
    output = {"type": "hls", "encryption": ENCRYPTION}
    ids = [
        only_output({**output, "encryption": {**ENCRYPTION, "uri": uri}}).packaging.encryption.key_id  # type: ignore[union-attr]
        for uri in ("a", "a", "b")
    ]
    assert ids[0] == ids[1] != ids[2]
    plan = only_output(output)
    assert KEY.hex() not in plan.model_dump_json()
    assert KEY.hex() not in repr(plan)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"encryption": {**ENCRYPTION, "iv": None}}, "needs an iv"),
        ({"encryption": {**ENCRYPTION, "method": "aes-128", "key_id": "00" * 16}}, "key_id is for sample-aes"),
        ({"segment_type": "ts", "encryption": {**ENCRYPTION, "key_id": "00" * 16}}, "key_id is for fMP4"),
        ({"segment_type": "ts", "audio": {"codec": "mp3"}}, "no rule for mp3"),
        ({"video": [{"height": 90, "codec": "av1"}]}, "no rule for av1"),
        ({"encryption": {**ENCRYPTION, "method": "cenc"}}, "aes-128"),
    ],
)
def test_what_there_is_no_rule_for_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        HlsLadder.model_validate({"encryption": ENCRYPTION, **wrong})


def test_slices_that_are_not_understood_end_the_job(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, idr: bool) -> None:
        raise ValueError("slices of a kind")

    monkeypatch.setattr("pipelines.packaging.sealing.avc.AvcHeaders._slice", refuse)
    with pytest.raises(UnsupportedSpec, match="slices of a kind") as raised:
        make(clip, tmp_path)
    assert raised.value.code == "unsupported"
