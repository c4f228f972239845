"""Files are recognised by their bytes: what the muxers at hand write, and what must not be taken for media."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import pytest

from pipelines.errors import BadInput
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input
from pipelines.opening.signatures import Demuxer
from pipelines.opening.sniff import describe, identify, sniff
from tests.media import Tone, make_audio, make_picture, make_video

VIDEO = [
    ("mp4", "h264", "aac", Demuxer.MOV),
    ("mov", "h264", "pcm_s16le", Demuxer.MOV),
    ("3gp", "mpeg4", "aac", Demuxer.MOV),
    ("3g2", "mpeg4", "aac", Demuxer.MOV),
    ("f4v", "h264", "aac", Demuxer.MOV),
    ("psp", "mpeg4", "aac", Demuxer.MOV),
    ("ismv", "h264", "aac", Demuxer.MOV),
    ("avif", "av1", None, Demuxer.MOV),
    ("matroska", "h264", "opus", Demuxer.MATROSKA),
    ("webm", "vp9", "opus", Demuxer.MATROSKA),
    ("mpegts", "h264", "aac", Demuxer.MPEGTS),
    ("mpeg", "mpeg2video", "mp2", Demuxer.MPEGPS),
    ("vob", "mpeg2video", "ac3", Demuxer.MPEGPS),
    ("dvd", "mpeg2video", "ac3", Demuxer.MPEGPS),
    ("vcd", "mpeg1video", "mp2", Demuxer.MPEGPS),
    ("svcd", "mpeg2video", "mp2", Demuxer.MPEGPS),
    ("avi", "mpeg4", "mp3", Demuxer.AVI),
    ("flv", "flv", "mp3", Demuxer.FLV),
    ("asf", "wmv2", "mp3", Demuxer.ASF),
    ("nut", "mpeg4", "mp2", Demuxer.NUT),
    ("mxf", "mpeg2video", "pcm_s16le", Demuxer.MXF),
    ("rm", "rv20", "ac3", Demuxer.RM),
    ("wtv", "mpeg2video", "mp2", Demuxer.WTV),
    ("ivf", "vp8", None, Demuxer.IVF),
    ("obu", "av1", None, Demuxer.OBU),
    ("h264", "h264", None, Demuxer.H264),
    ("hevc", "hevc", None, Demuxer.HEVC),
    ("m4v", "mpeg4", None, Demuxer.M4V),
    ("mpeg1video", "mpeg1video", None, Demuxer.MPEGVIDEO),
    ("mpeg2video", "mpeg2video", None, Demuxer.MPEGVIDEO),
    ("yuv4mpegpipe", "rawvideo", None, Demuxer.Y4M),
]
AUDIO = [
    ("wav", "pcm_s16le", Demuxer.WAV),
    ("w64", "pcm_s16le", Demuxer.W64),
    ("aiff", "pcm_s16be", Demuxer.AIFF),
    ("au", "pcm_s16be", Demuxer.AU),
    ("caf", "pcm_s16be", Demuxer.CAF),
    ("flac", "flac", Demuxer.FLAC),
    ("ogg", "flac", Demuxer.OGG),
    ("opus", "opus", Demuxer.OGG),
    ("mp3", "mp3", Demuxer.MP3),
    ("mp2", "mp2", Demuxer.MP3),
    ("adts", "aac", Demuxer.AAC),
    ("latm", "aac", Demuxer.LOAS),
    ("ac3", "ac3", Demuxer.AC3),
    ("eac3", "eac3", Demuxer.EAC3),
    ("tta", "tta", Demuxer.TTA),
    ("wv", "wavpack", Demuxer.WV),
    ("voc", "pcm_s16le", Demuxer.VOC),
    ("sox", "pcm_s32le", Demuxer.SOX),
    ("ircam", "pcm_s16le", Demuxer.IRCAM),
    ("ast", "pcm_s16be_planar", Demuxer.AST),
    ("ipod", "aac", Demuxer.MOV),
]
PICTURES = [
    ("png", "rgb24", Demuxer.PNG),
    ("mjpeg", "yuvj420p", Demuxer.JPEG),
    ("libwebp", "yuv420p", Demuxer.WEBP),
    ("tiff", "rgb24", Demuxer.TIFF),
    ("bmp", "bgr24", Demuxer.BMP),
    ("jpeg2000", "rgb24", Demuxer.J2K),
    ("qoi", "rgb24", Demuxer.QOI),
    ("ppm", "rgb24", Demuxer.PPM),
    ("dpx", "rgb24", Demuxer.DPX),
]


def recognised(path: Path) -> Demuxer:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return sniff(descriptor)
    finally:
        os.close(descriptor)


def first_frame(path: Path) -> object:
    with open_input(LocalFile(path, path.name), Limits()) as container:
        return next(container.decode(container.streams[0]))


@pytest.mark.parametrize(("muxer", "codec", "audio", "demuxer"), VIDEO, ids=[row[0] for row in VIDEO])
def test_muxed_video_is_recognised_and_decoded(
    tmp_path: Path, muxer: str, codec: str, audio: str | None, demuxer: Demuxer
) -> None:
    sounds = [Tone(audio, sample_rate=44_100 if muxer == "flv" else 48_000)] if audio else []
    path = make_video(tmp_path / "clip", container=muxer, codec=codec, audio=sounds, seconds=Fraction(2, 5))
    assert recognised(path) is demuxer
    with open_input(LocalFile(path, "clip"), Limits()) as container:
        assert next(container.decode(container.streams.video[0])).width == 320


@pytest.mark.parametrize(("muxer", "codec", "demuxer"), AUDIO, ids=[row[0] for row in AUDIO])
def test_muxed_audio_is_recognised_and_decoded(tmp_path: Path, muxer: str, codec: str, demuxer: Demuxer) -> None:
    path = make_audio(tmp_path / "clip", container=muxer, codec=codec, seconds=Fraction(2, 5))
    assert recognised(path) is demuxer
    assert first_frame(path) is not None


@pytest.mark.parametrize(("codec", "pixel_format", "demuxer"), PICTURES, ids=[row[0] for row in PICTURES])
def test_pictures_are_recognised_and_decoded(tmp_path: Path, codec: str, pixel_format: str, demuxer: Demuxer) -> None:
    path = make_picture(tmp_path / "picture", codec=codec, pixel_format=pixel_format)
    assert recognised(path) is demuxer
    assert first_frame(path) is not None


def test_animated_pictures_are_told_from_still_ones(tmp_path: Path) -> None:
    gif = make_video(tmp_path / "a", container="gif", codec="gif", pixel_format="rgb8", audio=(), seconds=0.2)
    png = make_video(tmp_path / "b", container="apng", codec="apng", pixel_format="rgb24", audio=(), seconds=0.2)
    assert (recognised(gif), recognised(png)) == (Demuxer.GIF, Demuxer.APNG)


@pytest.mark.parametrize("muxer", ["flac", "adts", "mp3", "tta", "wv"])
def test_id3_tag_in_front_is_skipped(tmp_path: Path, muxer: str) -> None:
    codec = {"adts": "aac", "wv": "wavpack"}.get(muxer, muxer)
    path = make_audio(tmp_path / "clip", container=muxer, codec=codec, seconds=Fraction(1, 2))
    plain = recognised(path)
    # 100,000 bytes of tag (as after a large cover), its size in 7-bit bytes
    tag = b"ID3\x04\x00\x00" + bytes([0, 6, 13, 32]) + bytes(100_000)
    path.write_bytes(tag + path.read_bytes())
    assert recognised(path) is plain


@pytest.mark.parametrize("codec", ["flac", "aac"])
def test_tagged_flac_and_aac_are_decoded(tmp_path: Path, codec: str) -> None:
    path = make_audio(tmp_path / "clip", container={"aac": "adts"}.get(codec, codec), codec=codec, seconds=1)
    path.write_bytes(b"ID3\x03\x00\x00\x00\x00\x00\x0a" + bytes(10) + path.read_bytes())
    assert first_frame(path) is not None


def transport_stream(folder: Path) -> bytes:
    return make_video(folder / "clip.ts", seconds=Fraction(2, 5)).read_bytes()


def test_transport_stream_with_garbage_before_it_is_recognised_and_decoded(tmp_path: Path) -> None:
    path = tmp_path / "late.ts"
    path.write_bytes(os.urandom(3000) + transport_stream(tmp_path))
    assert recognised(path) is Demuxer.MPEGTS
    with open_input(LocalFile(path, "late.ts"), Limits()) as container:
        assert next(container.decode(container.streams.video[0])).width == 320


@pytest.mark.parametrize(("before", "after"), [(4, 0), (0, 16)], ids=["m2ts-192", "parity-204"])
def test_transport_streams_with_longer_packets_are_decoded(tmp_path: Path, before: int, after: int) -> None:
    data = transport_stream(tmp_path)
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    path = tmp_path / "long.ts"
    path.write_bytes(b"".join(bytes(before) + packet + bytes(after) for packet in packets))
    assert recognised(path) is Demuxer.MPEGTS
    with open_input(LocalFile(path, "long.ts"), Limits()) as container:
        assert next(container.decode(container.streams.video[0])).width == 320


def test_mxf_is_found_behind_its_run_in(tmp_path: Path) -> None:
    path = make_video(tmp_path / "clip", container="mxf", codec="mpeg2video", audio=(), seconds=Fraction(2, 5))
    path.write_bytes(b"\x00" * 2000 + path.read_bytes())
    assert recognised(path) is Demuxer.MXF


@pytest.mark.parametrize("box", [b"moov", b"mdat", b"wide", b"free", b"skip"])
def test_quicktime_without_ftyp_is_recognised(box: bytes) -> None:
    assert identify((64).to_bytes(4) + box + bytes(100)) is Demuxer.MOV


def test_program_stream_without_pack_headers_is_recognised() -> None:
    packet = b"\x00\x00\x01\xe0\x00\x20" + bytes(32)
    assert identify(packet * 4) is Demuxer.MPEGPS


def test_annexb_av1_is_recognised() -> None:
    assert identify(bytes([0x0F, 0x0E, 0x01, 0x10, 0x0B, 0x08]) + bytes(20)) is Demuxer.AV1_ANNEXB


HOSTILE = {
    "m3u8": (b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n/etc/passwd\n", "a playlist (M3U, HLS)"),
    "m3u8 with BOM": (b"\xef\xbb\xbf#EXTM3U\n#EXTINF:10,\nhttp://canary/\n", "a playlist (M3U, HLS)"),
    "m3u8 in UTF-16": ("#EXTM3U\nhttp://canary/\n".encode("utf-16"), "a playlist (M3U, HLS)"),
    "m3u8 behind blank lines": (b"\r\n\n  #EXTM3U\nconcat:/etc/passwd\n", "a playlist (M3U, HLS)"),
    "ffconcat": (b"ffconcat version 1.0\nfile '/etc/passwd'\n", "an ffconcat script"),
    "concat": (b"file '/etc/passwd'\nfile 'subfile,,start,0,end,10,,:/etc/passwd'\n", "text"),
    "sdp": (b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\nc=IN IP4 127.0.0.1\r\nm=video 5004 RTP/AVP 96\r\n", "(SDP)"),
    "dash": (b'<?xml version="1.0"?>\n<MPD><BaseURL>file:///etc/passwd</BaseURL></MPD>', "an XML document"),
    "asx": (b'<ASX version="3.0"><ref href="http://canary/"/></ASX>', "an ASX playlist"),
    "reference": (b"[Reference]\nRef1=http://canary/\n", "a reference playlist"),
    "rtsptext": (b"rtsptextrtsp://canary/\n", "a QuickTime text reference"),
    "ffmetadata": (b";FFMETADATA1\ntitle=x\n", "an FFmpeg metadata file"),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>', "an SVG drawing"),
    "srt": (b"1\n00:00:01,000 --> 00:00:02,000\nline\n", "subtitles (SRT)"),
    "ass": (b"[Script Info]\nTitle: x\n", "subtitles (ASS)"),
    "vtt": (b"WEBVTT\n\n00:01.000 --> 00:02.000\nline\n", "subtitles (WebVTT)"),
    "html": (b"<!DOCTYPE html><html><body>404</body></html>", "a web page (HTML)"),
    "terminal": (b"\x1b[31mred\x1b[0m\n" * 50, "unknown data"),
    "zip": (b"PK\x03\x04" + bytes(100), "a ZIP archive"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document"),
    "lavfi": (b"movie=/etc/passwd\n", "text"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_text_and_reference_forms_are_refused(tmp_path: Path, name: str) -> None:
    data, kind = HOSTILE[name]
    path = tmp_path / "clip.mp4"
    path.write_bytes(data)
    with pytest.raises(BadInput) as refused:
        recognised(path)
    assert refused.value.code == "bad_input"
    assert kind in refused.value.message


def test_empty_files_are_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "empty.mp4"
    path.touch()
    with pytest.raises(BadInput, match="empty"):
        recognised(path)


@pytest.mark.slow
def test_random_bytes_are_no_media() -> None:
    for seed in range(200):
        noise = bytes((seed * 7919 + n * n * 31 + (n * seed) % 251) & 0xFF for n in range(1, 4097))
        assert identify(b"\x01" + noise) is None, seed


def test_sniffing_leaves_the_position_alone(tmp_path: Path) -> None:
    path = make_audio(tmp_path / "a.flac", seconds=Fraction(1, 5))
    with path.open("rb") as file:
        sniff(file.fileno())
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 0


def test_no_demuxer_is_allowed_that_follows_references_or_reads_devices() -> None:
    dangerous = {
        "hls", "dash", "concat", "image2", "image2pipe", "tty", "lavfi", "sdp", "rtsp", "rtp", "sap", "imf", "vobsub",
        "webm_dash_manifest", "ffmetadata", "alsa", "fbdev", "kmsgrab", "oss", "x11grab", "video4linux2,v4l2", "xbin",
        "bin", "adf", "idf", "srt", "ass", "webvtt", "svg_pipe", "rawvideo", "data",
    }  # fmt: skip
    assert not dangerous & {demuxer.value for demuxer in Demuxer}


def test_binary_junk_is_called_unknown() -> None:
    assert describe(bytes(range(256)) * 4) == "unknown data"
