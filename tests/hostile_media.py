"""Hostile files, made from a few bytes or from generated media."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from tests.measure import find_boxes
from tests.media import Tone, make_video

TINY = (64, 64)
HTML = b"<!DOCTYPE html>\n<html><body>not found</body></html>\n"


def playlists(port: int, file: Path) -> dict[str, bytes]:
    """Playlists that lead to a listener on loopback, or to a file of another, by many roads."""
    address = f"127.0.0.1:{port}"
    targets = {
        "http": f"http://{address}/a.ts",
        "http without slashes": f"http:{address}/a.ts",
        "tcp": f"tcp://{address}",
        "gopher": f"gopher://{address}/_x",
        "rtmp": f"rtmp://{address}/a",
        "concat": f"concat:{file}|http://{address}/a.ts",
        "subfile": f"subfile,,start,0,end,9,,:{file}",
        "file": f"file://{file}",
        "path": str(file),
    }
    made = {f"m3u8 of {name}": _m3u8(target) for name, target in targets.items()}
    made["m3u8 with a key"] = f'#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="http://{address}/k"\n{_end("a.ts")}'.encode()
    made["m3u8 with a map"] = f'#EXTM3U\n#EXT-X-MAP:URI="http://{address}/m"\n{_end("a.ts")}'.encode()
    made["master m3u8"] = f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nhttp://{address}/v.m3u8\n".encode()
    made["ffconcat"] = f"ffconcat version 1.0\nfile '{file}'\nfile 'http://{address}/a.ts'\n".encode()
    made["sdp"] = f"v=0\nc=IN IP4 127.0.0.1\nm=video {port} RTP/AVP 96\na=rtpmap:96 H264/90000\n".encode()
    made["mpd"] = f'<?xml version="1.0"?>\n<MPD><BaseURL>http://{address}/</BaseURL></MPD>\n'.encode()
    made["svg"] = f'<svg xmlns="http://www.w3.org/2000/svg"><image href="http://{address}/"/></svg>'.encode()
    made["smooth streaming"] = f'<SmoothStreamingMedia Url="http://{address}/"/>'.encode()
    return made


def _m3u8(target: str) -> bytes:
    return f"#EXTM3U\n{_end(target)}".encode()


def _end(target: str) -> str:
    return f"#EXTINF:1,\n{target}\n#EXT-X-ENDLIST\n"


def subtitles_in_avi(path: Path, port: int) -> bytes:
    """An AVI whose text track is a playlist, which FFmpeg would open as a file of its own (GAB2)."""
    make_video(path, size=TINY, codec="mpeg4", audio=(Tone("mp3"),), seconds=Fraction(2, 5))
    playlist = _m3u8(f"http://127.0.0.1:{port}/")
    title = b"x\x00"
    text = b"GAB2\x00\x02\x00" + struct.pack("<I", len(title)) + title + struct.pack("<HI", 4, len(playlist)) + playlist
    data = path.read_bytes().replace(b"auds", b"txts")
    first = data.index(b"00dc", data.index(b"movi"))
    return data[:first] + b"01tx" + struct.pack("<I", len(text)) + text + data[first:]


def many_tracks(path: Path, count: int) -> bytes:
    """A small Matroska file with `count` tracks."""
    with av.open(str(path), "w", format="matroska") as output:
        streams: list[Any] = [output.add_stream("pcm_s16le", rate=48_000, layout="mono") for _ in range(count)]
        output.start_encoding()
        for stream in streams:
            frame = av.AudioFrame("s16", "mono", 64)
            frame.planes[0].update(bytes(frame.planes[0].buffer_size))
            frame.sample_rate, frame.pts, frame.time_base = 48_000, 0, Fraction(1, 48_000)
            output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
    return path.read_bytes()


def png_of(width: int, height: int) -> bytes:
    """A few bytes that claim a large picture."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def with_timescale(path: Path, timescale: int) -> bytes:
    """An MP4 whose track claims this many ticks per second."""
    make_video(path, size=TINY, audio=(), seconds=1)
    data = bytearray(path.read_bytes())
    box = find_boxes(path, "mdhd")[0]
    data[box.offset + 20 : box.offset + 24] = timescale.to_bytes(4)
    return bytes(data)


def many_frames(path: Path, count: int, size: tuple[int, int]) -> bytes:
    """A Matroska file of `count` frames that repeat one another: much to decode, and few bytes."""
    make_video(path, size=size, audio=(), seconds=Fraction(2, 25), frames=None, options={"preset": "ultrafast"})
    target = path.with_suffix(".many.mkv")
    with av.open(str(path)) as source, av.open(str(target), "w") as output:
        stream = output.add_stream_from_template(source.streams.video[0])
        first, second = [packet for packet in source.demux(video=0) if packet.size][:2]
        output.mux(first)
        for number in range(1, count):
            packet = av.Packet(bytes(second))
            packet.pts = packet.dts = number * 40
            packet.time_base, packet.stream = Fraction(1, 1000), stream
            output.mux(packet)
    return target.read_bytes()


def far_times(path: Path, seconds: Sequence[Fraction]) -> bytes:
    """Frames at these times."""
    make_video(path, size=TINY, audio=(), seconds=Fraction(len(seconds), 25), timestamps=seconds)
    return path.read_bytes()


def changing_size(folder: Path) -> bytes:
    """One H.264 stream whose pictures become larger on the way."""
    parts = [
        make_video(folder / f"{size[0]}.h264", container="h264", audio=(), seconds=1, size=size)
        for size in ((64, 64), (128, 96))
    ]
    return b"".join(part.read_bytes() for part in parts)


def overwritten(data: bytes, count: int, seed: int = 1) -> bytes:
    """`count` bytes in the middle replaced."""
    start = (len(data) - count) // 2
    return data[:start] + random.Random(seed).randbytes(count) + data[start + count :]


def with_title(path: Path, title: bytes) -> bytes:
    """A Matroska file with these very bytes as its title, which no muxer would write."""
    mark = "T" * len(title)
    make_video(path, size=TINY, seconds=1, metadata={"title": mark})
    data = path.read_bytes()
    assert data.count(mark.encode()) == 1
    return data.replace(mark.encode(), title)
