"""Resumable uploads whose senders, services or disks go away."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from tests.transcoder.fixtures_api import Api, problem, serving_api
from tests.transcoder.tus_client import CONTENT, V, begin, offset_of, send, unfinished, whole


async def half_sent(api: Api, place: str, length: int, content: bytes, safe: int) -> asyncio.StreamWriter:
    """A PATCH on a raw connection that sent only a part of its body; returns once `safe` bytes are in the file."""
    _, writer = await api.connect()
    head = f"PATCH {place} HTTP/1.1\r\nHost: localhost\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n"
    head += f"Content-Type: application/offset+octet-stream\r\nContent-Length: {length}\r\n\r\n"
    writer.write(head.encode() + content)
    await writer.drain()
    file = api.data_dir / "partial" / place.rpartition("/")[2]
    async with asyncio.timeout(10):
        while file.stat().st_size < safe:
            await asyncio.sleep(0.01)
    return writer


@pytest.mark.slow
async def test_broken_connection_keeps_what_came_and_a_second_writer_is_refused(api: Api) -> None:
    content = CONTENT * 300
    place = await begin(api, len(content))
    writer = await half_sent(api, place, len(content), content[:2_500_000], safe=2 << 20)
    problem(await send(api, place, 0, b"other"), 423, "upload_locked")
    problem(await api.http.delete(place, headers=V), 423, "upload_locked")
    assert await offset_of(api, place) == 0
    writer.transport.abort()
    async with asyncio.timeout(10):
        while (offset := await offset_of(api, place)) == 0:
            await asyncio.sleep(0.01)
    assert offset == 2_500_000
    await send(api, place, offset, content[offset:])
    await whole(api, place, content)


@pytest.mark.slow
async def test_slow_piece_is_ended_and_kept(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "data", upload_idle_seconds=0.3) as api:
        place = await begin(api)
        reader, writer = await api.connect()
        head = f"PATCH {place} HTTP/1.1\r\nHost: localhost\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n"
        head += f"Content-Type: application/offset+octet-stream\r\nContent-Length: {len(CONTENT)}\r\n\r\n"
        writer.write(head.encode() + CONTENT[:700])
        assert b" 408 " in await asyncio.wait_for(reader.readline(), 10)
        writer.close()
        assert await offset_of(api, place) == 700


@pytest.mark.slow
async def test_next_service_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "data") as api:
        place = await begin(api)
        await send(api, place, 0, CONTENT[:5000])
    # bytes that were written and never promised, and a file that no row knows
    with open(tmp_path / "data/partial" / place.rpartition("/")[2], "ab") as file:
        file.write(b"torn")
    (tmp_path / "data/partial/stray").write_bytes(b"x")
    async with serving_api(tmp_path / "data") as api:
        assert await offset_of(api, place) == 5000
        assert not (tmp_path / "data/partial/stray").exists()
        await send(api, place, 5000, CONTENT[5000:])
        await whole(api, place)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["keep_upload", "complete"])
async def test_service_that_dies_while_finishing_is_finished_by_the_next(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise RuntimeError("died")

    async with serving_api(tmp_path / "data") as api:
        place = await begin(api)
        owner = api.service.storage.depot if step == "keep_upload" else api.service.resumable._store
        monkeypatch.setattr(owner, step, die)
        assert (await send(api, place, 0, CONTENT)).status_code == 500
    async with serving_api(tmp_path / "data") as api:
        assert await offset_of(api, place) == len(CONTENT)
        await whole(api, place)


@pytest.mark.slow
async def test_full_disk_is_told_and_what_was_safe_stays(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    place = await begin(api)
    await send(api, place, 0, CONTENT[:100])
    with monkeypatch.context() as patched:
        patched.setattr("transcoder.uploads.partfile.os.write", full)
        problem(await send(api, place, 100, CONTENT[100:200]), 507, "disk_full")
    with monkeypatch.context() as patched:
        patched.setattr(api.service.resumable, "_fsync", full)
        problem(await api.http.post("/v1/tus", headers={**V, "Upload-Length": "5"}), 507, "disk_full")
    assert unfinished(api) == [place.rpartition("/")[2]]
    assert await offset_of(api, place) == 100
    await send(api, place, 100, CONTENT[100:])
    await whole(api, place)


@pytest.mark.slow
async def test_file_that_is_gone_ends_the_upload(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "data") as api:
        place = await begin(api)
        await send(api, place, 0, CONTENT[:10])
    (tmp_path / "data/partial" / place.rpartition("/")[2]).unlink()
    async with serving_api(tmp_path / "data") as api:
        assert (await api.http.head(place, headers=V)).status_code == 404


@pytest.mark.slow
async def test_abandoned_upload_expires(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "data", resumable_ttl_seconds=0.2) as api:
        place = await begin(api)
        async with asyncio.timeout(10):
            while (await api.http.head(place, headers=V)).status_code != 404 or unfinished(api):
                await asyncio.sleep(0.05)
        problem(await send(api, place, 0, b"a"), 404, "upload_not_found")


@pytest.mark.slow
async def test_uploads_that_are_not_whole_are_limited_in_number_and_size(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "data", max_open_uploads=2, max_stored_bytes=1000) as api:
        await begin(api, 600)
        full = await api.http.post("/v1/tus", headers={**V, "Upload-Length": "500"})
        problem(full, 507, "limit_storage")
        place = await begin(api, 400)
        problem(await api.http.post("/v1/tus", headers={**V, "Upload-Length": "0"}), 429, "limit_uploads")
        await api.http.delete(place, headers=V)
        await begin(api, 0)
