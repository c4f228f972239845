"""Downloads: ranges, validators, headers; and that nothing but a job's files can be reached."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.transcoder.fixtures_api import BODY, Api, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def file(shared_api: Api) -> str:
    """The address of a finished file."""
    job = await shared_api.ended((await shared_api.submit())["id"])
    return f"/v1/jobs/{job['id']}/outputs/output.mp4"


@pytest.mark.slow
async def test_whole_file_comes_with_its_type_and_validators(shared_api: Api, file: str) -> None:
    response = await shared_api.http.get(file)
    job = (await shared_api.http.get(file.partition("/outputs")[0])).json()
    assert response.content == BODY
    assert response.headers["content-type"] == "video/mp4"
    assert response.headers["etag"] == f'"{job["outputs"][0]["files"][0]["sha256"]}"'
    assert response.headers["accept-ranges"] == "bytes"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "content-disposition" not in response.headers


async def test_head_has_the_headers_and_no_body(shared_api: Api, file: str) -> None:
    head, get = await shared_api.http.head(file), await shared_api.http.get(file)
    assert head.status_code == 200
    assert head.content == b""
    for name in ("content-length", "content-type", "etag", "last-modified", "accept-ranges"):
        assert head.headers[name] == get.headers[name]


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=100-199", 100, 199),
        ("bytes=100-", 100, len(BODY) - 1),
        ("bytes=-5", len(BODY) - 5, len(BODY) - 1),
        ("bytes=-999999999", 0, len(BODY) - 1),
        ("bytes=5-999999999999999999", 5, len(BODY) - 1),
        ("BYTES = 1-2", 1, 2),
        ("bytes=999999999-,1-2", 1, 2),
    ],
)
async def test_one_range_is_served_exactly(shared_api: Api, file: str, asked: str, first: int, last: int) -> None:
    response = await shared_api.http.get(file, headers={"range": asked})
    assert response.status_code == 206
    assert response.headers["content-range"] == f"bytes {first}-{last}/{len(BODY)}"
    assert response.headers["content-length"] == str(last - first + 1)
    assert response.content == BODY[first : last + 1]


async def test_several_ranges_come_as_multipart(shared_api: Api, file: str) -> None:
    response = await shared_api.http.get(file, headers={"range": "bytes=0-1,100-103"})
    assert response.status_code == 206
    kind, _, boundary = response.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/byteranges"
    parts = response.content.split(f"--{boundary}".encode())
    assert [part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n") for part in parts[1:3]] == [BODY[0:2], BODY[100:104]]
    assert f"bytes 100-103/{len(BODY)}".encode() in parts[2]


@pytest.mark.parametrize(
    "asked", ["bytes=999999999-", "bytes=-0", f"bytes={len(BODY)}-", "bytes=99999999-999999999,-0"]
)
async def test_range_outside_of_the_file_is_not_satisfiable(shared_api: Api, file: str, asked: str) -> None:
    response = await shared_api.http.get(file, headers={"range": asked})
    problem(response, 416, "range_not_satisfiable")
    assert response.headers["content-range"] == f"bytes */{len(BODY)}"


MANY = "bytes=" + ",".join(f"{number}-{number}" for number in range(10_000))


@pytest.mark.parametrize("asked", [
    "", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=2-1", "lines=1-2", "bytes=1-2-3", "bytes=1-2,x", "bytes=+1-2",
    MANY,
])  # fmt: skip
async def test_range_that_is_malformed_or_too_much_gets_the_whole_file(shared_api: Api, file: str, asked: str) -> None:
    response = await shared_api.http.get(file, headers={"range": asked})
    assert response.status_code == 200
    assert response.content == BODY


async def test_if_range_continues_only_the_same_version(shared_api: Api, file: str) -> None:
    whole = await shared_api.http.get(file)
    cases = {
        whole.headers["etag"]: 206,
        whole.headers["last-modified"]: 206,
        '"old"': 200,
        f"W/{whole.headers['etag']}": 200,
    }
    for validator, status in cases.items():
        response = await shared_api.http.get(file, headers={"range": "bytes=0-9", "if-range": validator})
        assert response.status_code == status, validator
    outdated = await shared_api.http.get(file, headers={"range": "bytes=99999999-", "if-range": '"old"'})
    assert outdated.status_code == 200


async def test_what_the_client_has_is_not_sent_again(shared_api: Api, file: str) -> None:
    whole = await shared_api.http.get(file)
    etag, date = whole.headers["etag"], whole.headers["last-modified"]
    cases: list[tuple[dict[str, str], int]] = [
        ({"if-none-match": etag}, 304),
        ({"if-none-match": f'"other", W/{etag}'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"other"'}, 200),
        ({"if-modified-since": date}, 304),
        ({"if-modified-since": "Thu, 01 Jan 1970 00:00:00 GMT"}, 200),
        ({"if-modified-since": "nonsense"}, 200),
        ({"if-none-match": '"other"', "if-modified-since": date}, 200),
    ]
    for headers, status in cases:
        response = await shared_api.http.get(file, headers=headers)
        assert response.status_code == status, headers
        assert response.headers["etag"] == etag
        assert bool(response.content) == (status == 200)


@pytest.mark.slow
async def test_download_asks_the_browser_to_save(shared_api: Api) -> None:
    job = await shared_api.ended((await shared_api.submit(outputs=[{"type": "mkv", "name": "My film"}]))["id"])
    response = await shared_api.http.get(f"/v1/jobs/{job['id']}/outputs/My%20film.mkv?download=1")
    assert (
        response.headers["content-disposition"]
        == "attachment; filename=\"My film.mkv\"; filename*=UTF-8''My%20film.mkv"
    )
    assert response.headers["content-type"] == "video/x-matroska"


@pytest.mark.parametrize(
    "path",
    ["../../../transcoder.db", "..%2f..%2ftranscoder.db", "%2e%2e/%2e%2e/transcoder.db", "/etc/passwd",
     "%2fetc%2fpasswd", "output.mp4/..", "./output.mp4", "OUTPUT.MP4", "output.mp4%00", "output.mp4/", "", "%0a"],
)  # fmt: skip
async def test_no_path_leads_out_of_the_jobs_files(shared_api: Api, file: str, path: str) -> None:
    reader, writer = await shared_api.connect()
    target = file.removesuffix("output.mp4") + path
    writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"application/problem+json" in answer
    writer.close()


async def test_file_that_was_deleted_under_the_job_is_a_404_without_its_place(shared_api: Api) -> None:
    job = await shared_api.ended((await shared_api.submit())["id"])
    shared_api.service.storage.depot.output_path(job["id"], 1, "output.mp4").unlink()
    body = problem(await shared_api.http.get(f"/v1/jobs/{job['id']}/outputs/output.mp4"), 404, "not_found")
    assert str(shared_api.data_dir) not in str(body)


async def test_log_is_plain_text(shared_api: Api, file: str) -> None:
    response = await shared_api.http.get(f"{file.partition('/outputs')[0]}/log")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.text.startswith("a line\nan ö\n")


async def test_log_of_a_job_that_has_not_started_is_empty(shared_api: Api) -> None:
    shared_api.executor.gate.clear()
    shared_api.executor.running.clear()
    await shared_api.submit()
    await shared_api.executor.running.wait()
    waiting = await shared_api.submit()
    response = await shared_api.http.get(f"/v1/jobs/{waiting['id']}/log")
    shared_api.executor.gate.set()
    assert (response.status_code, response.content) == (200, b"")
