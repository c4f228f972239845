"""Streams through the whole service, children in their sandbox, with real peers on this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from tests.transcoder.stream_peers import (
    free_port,
    free_udp_port,
    need_ffmpeg,
    need_srt,
    played_frames,
    publisher,
    rtmp_server,
    rtsp_camera,
)
from transcoder.app import create_app
from transcoder.settings import Settings

SMALL = {"height": 64, "speed": "ultrafast"}
HLS = {"type": "hls", "segment_seconds": 1, "window_seconds": 6, "video": SMALL}
COPIED = {"video": "copy", "audio": "copy"}
SECRET = "hunter2secret"
LOOPBACK = (ip_network("127.0.0.0/8"),)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The test runner keeps its own handlers."""
        yield


class Streams:
    """A client of a service."""

    def __init__(self, http: httpx2.AsyncClient, base: str) -> None:
        self.http, self.base = http, base

    async def submit(self, source: dict[str, Any], *outputs: dict[str, Any], **more: Any) -> str:
        body = {"kind": "stream", "input": source, "outputs": list(outputs), "force": True, **more}
        response = await self.http.post("/v1/jobs", json=body)
        assert response.status_code == 201, response.text
        job_id: str = response.json()["id"]
        return job_id

    async def get(self, job_id: str) -> dict[str, Any]:
        job: dict[str, Any] = (await self.http.get(f"/v1/jobs/{job_id}")).json()
        return job

    async def until(
        self, job_id: str, happened: Callable[[dict[str, Any]], bool], seconds: float = 30
    ) -> dict[str, Any]:
        job: dict[str, Any] = {}
        try:
            async with asyncio.timeout(seconds):
                while not happened(job := await self.get(job_id)):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"it did not happen: {job}") from None
        return job

    async def published(self, job_id: str, path: str = "index.m3u8") -> dict[str, Any]:
        """The job once the file is there."""
        return await self.until(job_id, lambda job: path in files(job) or job["status"] == "failed")

    async def stop(self, job_id: str) -> dict[str, Any]:
        response = await self.http.post(f"/v1/jobs/{job_id}/stop")
        assert response.status_code == 200, response.text
        job: dict[str, Any] = response.json()
        return job


def files(job: dict[str, Any]) -> list[str]:
    return [file["path"] for output in job["outputs"] for file in output["files"]]


def bytes_of(job: dict[str, Any], name: str) -> int:
    outputs = (job["stats"] or {}).get("outputs", [])
    return next((output["bytes"] for output in outputs if output["name"] == name), 0)


@asynccontextmanager
async def serving(folder: Path, **settings: Any) -> AsyncGenerator[Streams, None]:
    defaults = {"allowed_networks": LOOPBACK, "software_slots": 2, "devices": "none", "shutdown_seconds": 5.0}
    app = create_app(Settings(data_dir=folder / "data", **{**defaults, **settings}))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = _Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
                assert not task.done(), "the service did not start"
            async with httpx2.AsyncClient(base_url=base, timeout=40) as http:
                yield Streams(http, base)
        finally:
            server.should_exit = True
            await task


@pytest.mark.slow
async def test_datagrams_become_live_hls_that_stop_finishes(tmp_path: Path) -> None:
    need_ffmpeg()
    url = f"udp://127.0.0.1:{free_port()}"
    async with serving(tmp_path) as streams:
        with publisher(f"{url}?pkt_size=1316", "mpegts"):
            job_id = await streams.submit({"url": url}, HLS, {"type": "snapshot", "every_seconds": 1})
            await streams.published(job_id)
            job = await streams.until(job_id, lambda job: (job["stats"] or {}).get("in_fps", 0) > 20)
            assert (job["status"], job["state"]) == ("running", "live")
            playlist = await streams.http.get(f"/v1/jobs/{job_id}/outputs/v0.m3u8")
            assert playlist.headers["content-type"] == "application/vnd.apple.mpegurl"
            assert playlist.headers["cache-control"] == "private, no-cache"
            assert "#EXT-X-ENDLIST" not in playlist.text
            name = next(line for line in playlist.text.splitlines() if line.endswith(".m4s"))
            segment = await streams.http.get(f"/v1/jobs/{job_id}/outputs/{name}")
            assert "immutable" in segment.headers["cache-control"]
            part = await streams.http.get(f"/v1/jobs/{job_id}/outputs/{name}", headers={"Range": "bytes=2-5"})
            assert (part.status_code, part.content) == (206, segment.content[2:6])
            assert (await streams.http.get(f"/v1/jobs/{job_id}/outputs/.stream.json")).status_code == 404
            await streams.until(job_id, lambda job: bytes_of(job, "snapshot") > 0)
            shown = await streams.http.get(f"/v1/jobs/{job_id}/thumbnail.jpg")
            assert (shown.status_code, shown.headers["content-type"]) == (200, "image/jpeg")
            assert shown.headers["cache-control"] == "private, no-cache"
            assert (await streams.http.get(f"/v1/jobs/{job_id}/outputs/v0/..%2f..%2fx")).status_code == 404
            assert (await streams.http.delete(f"/v1/jobs/{job_id}")).status_code == 409
            ended = await streams.stop(job_id)
        assert ended["status"] == "completed"
        assert "#EXT-X-ENDLIST" in (await streams.http.get(f"/v1/jobs/{job_id}/outputs/v0.m3u8")).text
        assert "snapshot.jpg" in files(ended)
        assert (await streams.http.post(f"/v1/jobs/{job_id}/stop")).status_code == 409
        assert (await streams.http.delete(f"/v1/jobs/{job_id}")).status_code == 204
    assert not (tmp_path / "data" / "outputs" / job_id).exists()


@pytest.mark.slow
async def test_a_camera_is_remuxed_and_recorded_and_its_password_told_to_nobody(tmp_path: Path) -> None:
    with rtsp_camera() as url:
        async with serving(tmp_path) as streams:
            source = {"url": url.replace("rtsp://", f"rtsp://admin:{SECRET}@")}
            job_id = await streams.submit(source, {**HLS, **COPIED}, {"type": "record", "segment_seconds": 2})
            await streams.published(job_id)
            job = await streams.until(job_id, lambda job: bytes_of(job, "record") > 0)
            told = [
                (await streams.http.get(f"/v1/jobs/{job_id}")).text,
                (await streams.http.get("/v1/jobs")).text,
                (await streams.http.get(f"/v1/jobs/{job_id}/log")).text,
            ]
            await streams.stop(job_id)
    assert job["spec"]["input"]["url"].startswith("rtsp://***@")
    assert all(SECRET not in text for text in told)
    recorded = sorted((tmp_path / "data" / "outputs" / job_id / "live" / "record").glob("*.mp4"))
    assert recorded
    assert played_frames(str(recorded[0]), 20) > 10


@pytest.mark.slow
async def test_a_publisher_with_the_key_is_taken_in_and_passed_on(tmp_path: Path) -> None:
    port = free_port()
    with rtmp_server(tmp_path) as target:
        async with serving(tmp_path, listen_ports=(port,)) as streams:
            push = {"type": "push", "url": f"{target}/{SECRET}", **COPIED}
            job_id = await streams.submit({"listen": {"key": SECRET}}, {**HLS, **COPIED}, push)
            job = await streams.until(job_id, lambda job: bool((job["stats"] or {}).get("publish_url")))
            assert job["stats"]["publish_url"] == f"rtmp://127.0.0.1:{port}/live"
            with publisher(f"rtmp://127.0.0.1:{port}/live/wrongkey1", "flv") as stranger:
                assert await asyncio.to_thread(stranger.wait, 10) != 0
            with publisher(f"rtmp://127.0.0.1:{port}/live/{SECRET}", "flv"):
                await streams.until(job_id, lambda job: bytes_of(job, "push") > 20_000)
                frames = await asyncio.to_thread(played_frames, f"{target}/{SECRET}", 2)
                assert SECRET not in (await streams.http.get(f"/v1/jobs/{job_id}")).text
            assert frames > 10
            # the publisher comes back
            with publisher(f"rtmp://127.0.0.1:{port}/live/{SECRET}", "flv"):
                job = await streams.until(job_id, lambda job: job["stats"]["reconnects"] > 0)
                await streams.until(job_id, lambda now: bytes_of(now, "push") > bytes_of(job, "push") + 20_000)
                assert (await streams.stop(job_id))["status"] == "completed"


@pytest.mark.slow
async def test_a_restart_of_the_service_resumes_its_streams(tmp_path: Path) -> None:
    need_ffmpeg()
    url = f"udp://127.0.0.1:{free_port()}"
    with publisher(f"{url}?pkt_size=1316", "mpegts"):
        async with serving(tmp_path) as streams:
            job_id = await streams.submit({"url": url}, {**HLS, **COPIED})
            await streams.until(job_id, lambda job: len(files(job)) > 5)
        async with serving(tmp_path) as streams:
            before = await streams.get(job_id)
            await streams.until(job_id, lambda job: job["state"] == "live" and len(files(job)) > len(files(before)) + 3)
            job = await streams.stop(job_id)
    assert job["status"] == "completed"
    assert [attempt["status"] for attempt in job["attempts"]] == ["lost", "completed"]
    folder = tmp_path / "data" / "outputs" / job_id / "live"
    text = (folder / "v-copy.m3u8").read_text()
    assert text.count("#EXT-X-DISCONTINUITY\n") + int("#EXT-X-DISCONTINUITY-SEQUENCE:1" in text) == 1
    numbers = sorted(int(path.stem) for path in (folder / "v-copy").glob("*.m4s"))
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@pytest.mark.slow
async def test_a_server_of_http_is_read_and_its_absence_reported(tmp_path: Path) -> None:
    need_ffmpeg()
    port = free_port()
    source = {"url": f"http://127.0.0.1:{port}/live.ts", "reconnect": {"first_seconds": 0.3, "longest_seconds": 0.3}}
    async with serving(tmp_path) as streams:
        job_id = await streams.submit(source, {**HLS, **COPIED})
        job = await streams.until(job_id, lambda job: bool((job["stats"] or {}).get("error")))
        assert job["state"] == "connecting"
        with publisher(f"http://127.0.0.1:{port}/live.ts", "mpegts", "-listen", "1"):
            await streams.published(job_id)
        job = await streams.until(job_id, lambda job: job["state"] == "reconnecting")
        cancelled = (await streams.http.post(f"/v1/jobs/{job_id}/cancel")).json()
        assert cancelled["status"] == "cancelled"
        # what was published stays until the job is deleted
        assert "index.m3u8" in files(cancelled)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "code"),
    [
        ({"url": "rtsp://10.0.0.1/a"}, "blocked_address"),
        ({"url": "udp://239.1.1.1:5000"}, "blocked_address"),
        ({"listen": {"key": SECRET}}, "listen_disabled"),
    ],
)
async def test_what_is_not_allowed_fails_with_its_code(tmp_path: Path, source: dict[str, Any], code: str) -> None:
    async with serving(tmp_path) as streams:
        job_id = await streams.submit(source, HLS)
        job = await streams.until(job_id, lambda job: job["status"] == "failed")
        assert job["error"]["code"] == code
        assert len(job["attempts"]) == 1


@pytest.mark.slow
async def test_a_stream_waits_for_its_time_and_ends_at_it(tmp_path: Path) -> None:
    need_ffmpeg()
    url = f"udp://127.0.0.1:{free_port()}"
    async with serving(tmp_path) as streams:
        with publisher(f"{url}?pkt_size=1316", "mpegts"):
            later = await streams.submit({"url": url}, HLS, start_at="2099-01-01T00:00:00Z")
            short = await streams.submit({"url": url}, {**HLS, **COPIED}, max_duration_seconds=4)
            job = await streams.until(short, lambda job: job["status"] == "completed")
            assert "index.m3u8" in files(job)
            assert (await streams.get(later))["status"] == "queued"
            refused = await streams.http.post(
                "/v1/jobs",
                json={"kind": "stream", "input": {"url": url}, "outputs": [HLS], "stop_at": "2001-01-01T00:00:00Z"},
            )
            assert refused.status_code == 422
            assert refused.json()["code"] == "deadline_impossible"


@pytest.mark.slow
async def test_a_playlist_of_another_service_is_followed(tmp_path: Path) -> None:
    need_ffmpeg()
    url = f"udp://127.0.0.1:{free_port()}"
    async with serving(tmp_path) as streams:
        with publisher(f"{url}?pkt_size=1316", "mpegts"):
            first = await streams.submit({"url": url}, {**HLS, **COPIED, "segment_type": "ts"})
            await streams.published(first)
            playlist = f"{streams.base}/v1/jobs/{first}/outputs/index.m3u8"
            second = await streams.submit({"url": playlist}, {**HLS, **COPIED})
            job = await streams.until(second, lambda job: len(files(job)) > 9)
            assert job["stats"]["reconnects"] == 0
            assert job["stats"]["source"].startswith("h264 160×120")
            await streams.stop(second)
            await streams.stop(first)


@pytest.mark.slow
async def test_srt_is_called_and_listened_to_by_the_tool_of_its_makers(tmp_path: Path) -> None:
    need_srt()
    called, port = free_udp_port(), free_udp_port()
    async with serving(tmp_path, listen_ports=(port,)) as streams:
        with publisher(f"srt://127.0.0.1:{called}?mode=listener", "mpegts"):
            again = {"first_seconds": 0.5, "longest_seconds": 0.5}
            source = {"url": f"srt://127.0.0.1:{called}?streamid={SECRET}", "reconnect": again}
            job_id = await streams.submit(source, {**HLS, **COPIED})
            job = await streams.published(job_id)
            assert SECRET not in job["spec"]["input"]["url"]
            assert (await streams.stop(job_id))["status"] == "completed"
        job_id = await streams.submit({"listen": {"protocol": "srt", "passphrase": SECRET}}, {**HLS, **COPIED})
        await streams.until(job_id, lambda job: bool((job["stats"] or {}).get("publish_url")))
        with publisher(f"srt://127.0.0.1:{port}?mode=caller&passphrase={SECRET}", "mpegts"):
            await streams.published(job_id)
            assert (await streams.stop(job_id))["status"] == "completed"
