"""Limits of the operator, each reached by a job of a live service, which then stands as before."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests import hostile_media as media
from tests.media import Tone, make_audio, make_picture, make_video
from tests.transcoder.fixtures_peers import Peer, says, serving
from tests.transcoder.hostile import Target, target

LIMITS = {
    "TRANSCODER_MAX_PIXELS": str(640 * 480),
    "TRANSCODER_MAX_STREAMS": "8",
    "TRANSCODER_MAX_DURATION_SECONDS": "30",
    "TRANSCODER_MAX_FRAME_RATE": "240",
    "TRANSCODER_MAX_WORK": str(5_000_000),
    "TRANSCODER_MAX_OUTPUT_BYTES": "100000",
    "TRANSCODER_MAX_UPLOAD_BYTES": str(4 << 20),
    "TRANSCODER_ALLOWED_NETWORKS": "127.0.0.0/8",
}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    sound = make_audio(tmp_path_factory.mktemp("sound") / "a.wav", seconds=Fraction(1, 10)).read_bytes()
    with target(sound, **LIMITS) as running:
        yield running


def large_picture(folder: Path) -> bytes:
    return make_picture(folder / "a.png", size=(800, 600)).read_bytes()


def large_video(folder: Path) -> bytes:
    return make_video(folder / "a.mkv", size=(800, 600), audio=(), seconds=Fraction(1, 5)).read_bytes()


def picture_bomb(folder: Path) -> bytes:
    return media.png_of(16_000, 16_000)


def tracks(folder: Path) -> bytes:
    return media.many_tracks(folder / "a.mkv", 900)


def long_sound(folder: Path) -> bytes:
    tone = Tone("pcm_s16le", "mono", 8000)
    return make_audio(folder / "a.wav", tracks=(tone,), seconds=40).read_bytes()


def far_time(folder: Path) -> bytes:
    return media.far_times(folder / "a.mkv", [Fraction(0), Fraction(1, 25), Fraction(10**6)])


def fast_clock(folder: Path) -> bytes:
    return media.with_timescale(folder / "a.mp4", 0x7FFFFFFF)


def frames(folder: Path) -> bytes:
    return media.many_frames(folder / "a.mkv", 100, (640, 480))


CASES: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "large picture": (large_picture, "limit_pixels"),
    "large video": (large_video, "limit_pixels"),
    "picture bomb": (picture_bomb, "limit_pixels"),
    "900 tracks": (tracks, "limit_streams"),
    "long sound": (long_sound, "limit_duration"),
    "a frame far in the future": (far_time, "limit_duration"),
    "a clock of 2 GHz": (fast_clock, "limit_fps"),
    "many frames": (frames, "limit_work"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_input_beyond_a_limit_fails_with_its_code_at_once(limited: Target, tmp_path: Path, name: str) -> None:
    make, code = CASES[name]
    job = limited.run(make(tmp_path))

    assert (job["status"], job["error"]["code"]) == ("failed", code), job
    assert len(job["attempts"]) == 1
    assert limited.outputs(job) == []
    limited.assert_unharmed()


def test_output_beyond_its_limit_is_limit_output(limited: Target, tmp_path: Path) -> None:
    data = make_audio(tmp_path / "a.wav", seconds=4).read_bytes()
    job = limited.run(data, outputs=[{"type": "audio", "audio": {"codec": "flac"}}, _copy()])

    assert (job["status"], job["error"]["code"]) == ("failed", "limit_output"), job
    assert limited.outputs(job) == []
    limited.assert_unharmed()


def _copy() -> dict[str, Any]:
    return {"type": "mkv", "name": "copy", "video": None, "audio": "copy"}


def test_download_beyond_its_limit_is_limit_size(limited: Target) -> None:
    with _serving(bytes(5 << 20)) as peer:
        job = limited.ended(limited.submit(input={"url": peer.url()}))

    assert (job["status"], job["error"]["code"]) == ("failed", "limit_size"), job
    limited.assert_unharmed()


@pytest.mark.slow
def test_upload_beyond_its_limit_is_refused_and_leaves_nothing(limited: Target) -> None:
    response = limited.http.put("/v1/uploads/a", content=bytes(5 << 20))

    assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")
    assert not list((limited.server.data / "uploads").glob("*.part"))
    limited.assert_unharmed()


@pytest.mark.slow
def test_clock_without_ticks_ends_with_a_code(limited: Target, tmp_path: Path) -> None:
    job = limited.run(media.with_timescale(tmp_path / "a.mp4", 0))

    assert job["status"] == "completed" or job["error"]["code"] in ("bad_input", "limit_fps"), job
    limited.assert_unharmed()


@contextmanager
def _serving(body: bytes) -> Iterator[Peer]:
    """A web server in a thread of its own, as these tests block."""
    peers: list[Peer] = []
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with serving(says(f"HTTP/1.1 200 OK\nContent-Length: {len(body)}", body)) as peer:
            peers.append(peer)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    started.wait(10)
    try:
        yield peers[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
