"""What clients see of uploads and outputs that are in a bucket: the same as of those in the folder."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.transcoder.bucket_peer import Bucket, gate_to
from tests.transcoder.fixtures_api import BODY, Api, problem, serving_api


@pytest.fixture
async def bucket_api(tmp_path: Path, bucket: Bucket) -> AsyncGenerator[Api, None]:
    async with serving_api(tmp_path / "data", **bucket.settings()) as running:
        yield running


async def done(api: Api, **spec: Any) -> tuple[dict[str, Any], str]:
    job = await api.ended((await api.submit(**spec))["id"])
    assert job["status"] == "completed", job
    return job, f"/v1/jobs/{job['id']}/outputs/{job['outputs'][0]['files'][0]['path']}"


@pytest.mark.slow
async def test_outputs_are_served_from_the_bucket_as_from_the_folder(bucket_api: Api) -> None:
    http = bucket_api.http
    job, url = await done(bucket_api)
    whole = await http.get(url)
    assert whole.content == BODY
    assert whole.headers["content-type"] == "video/mp4"
    assert whole.headers["content-length"] == str(len(BODY))
    assert whole.headers["accept-ranges"] == "bytes"
    assert whole.headers["etag"] == f'"{job["outputs"][0]["files"][0]["sha256"]}"'
    again = await http.get(url, headers={"if-none-match": whole.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    since = await http.get(url, headers={"if-modified-since": whole.headers["last-modified"]})
    assert since.status_code == 304
    head = await http.head(url)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(BODY)))
    download = await http.get(f"{url}?download=true")
    assert "attachment" in download.headers["content-disposition"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [("bytes=0-0", 0, 0), ("bytes=100-4999", 100, 4999), ("bytes=16000-", 16000, 16383), ("bytes=-7", 16377, 16383)],
)
async def test_a_range_is_read_from_the_bucket(bucket_api: Api, asked: str, first: int, last: int) -> None:
    _, url = await done(bucket_api)
    part = await bucket_api.http.get(url, headers={"range": asked})
    assert part.status_code == 206
    assert part.headers["content-range"] == f"bytes {first}-{last}/{len(BODY)}"
    assert part.content == BODY[first : last + 1]
    assert part.headers["content-length"] == str(last - first + 1)


@pytest.mark.slow
async def test_several_ranges_come_as_parts_and_ranges_beyond_the_end_are_refused(bucket_api: Api) -> None:
    _, url = await done(bucket_api)
    parts = await bucket_api.http.get(url, headers={"range": "bytes=0-3,10-13"})
    assert parts.status_code == 206
    kind, _, boundary = parts.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/byteranges"
    assert int(parts.headers["content-length"]) == len(parts.content)
    pieces = parts.content.split(f"--{boundary}".encode())
    assert [piece.partition(b"\r\n\r\n")[2] for piece in pieces[1:-1]] == [BODY[0:4] + b"\r\n", BODY[10:14] + b"\r\n"]
    problem(await bucket_api.http.get(url, headers={"range": "bytes=99999-"}), 416, "range_not_satisfiable")


@pytest.mark.slow
async def test_a_transcode_in_one_request_goes_through_the_bucket(bucket_api: Api, bucket: Bucket) -> None:
    answer = await bucket_api.http.put("/v1/transcode/clip.mov?preset=h264-480p", content=b"media")
    assert answer.content == BODY
    assert not [key for key in bucket.objects() if key.startswith("uploads/")]


@pytest.mark.slow
async def test_a_resumable_upload_ends_in_the_bucket(bucket_api: Api, bucket: Bucket) -> None:
    versioned = {"Tus-Resumable": "1.0.0"}
    made = await bucket_api.http.post("/v1/tus", headers={**versioned, "Upload-Length": "10"})
    for offset in (0, 5):
        headers = {**versioned, "Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
        assert (await bucket_api.http.patch(made.headers["location"], content=b"12345", headers=headers)).is_success
    upload = made.headers["location"].rpartition("/")[2]
    assert bucket.objects() == {f"uploads/{upload}": b"1234512345"}
    assert not [path for path in (bucket_api.data_dir / "partial").iterdir()]


@pytest.mark.slow
async def test_an_object_that_is_gone_is_a_404(bucket_api: Api) -> None:
    job, url = await done(bucket_api)
    await bucket_api.service.storage.discard_job_outputs(job["id"])
    problem(await bucket_api.http.get(url), 404, "not_found")


@pytest.mark.slow
async def test_a_store_that_is_away_is_a_503_with_a_time_to_come_back(tmp_path: Path, bucket: Bucket) -> None:
    async with gate_to(bucket.port) as gate:
        settings = bucket.settings(bucket_endpoint=f"http://127.0.0.1:{gate.port}")
        async with serving_api(tmp_path / "data", **settings) as api:
            _, url = await done(api)
            await gate.shut()
            answer = await api.http.get(url)
            told = problem(answer, 503, "storage_unavailable")
            assert answer.headers["retry-after"] == "5"
            assert "the-secret-key" not in answer.text
            assert "the-access-key" not in answer.text
            assert "does not answer" in told["detail"]
            await gate.open()
            assert (await api.http.get(url)).content == BODY


@pytest.mark.slow
async def test_downloads_are_sent_to_the_store_only_where_that_is_asked_for(tmp_path: Path, bucket: Bucket) -> None:
    async with serving_api(tmp_path / "data", **bucket.settings(bucket_redirect_seconds=60)) as api:
        _, url = await done(api)
        sent = await api.http.get(url)
        assert sent.status_code == 307
        assert sent.headers["cache-control"] == "no-store"
        async with httpx2.AsyncClient() as anyone:
            there = await anyone.get(sent.headers["location"])
        assert there.content == BODY
        assert there.headers["content-type"] == "video/mp4"
        assert (await api.http.get(f"{url}?download=true")).content == BODY
