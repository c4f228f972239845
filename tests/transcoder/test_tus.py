"""The protocol tus over HTTP: pieces, refusals, checksums."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator

import pytest

from tests.transcoder.fixtures_api import Api, problem
from tests.transcoder.tus_client import CONTENT, PIECE, V, begin, encoded, offset_of, send, unfinished, whole

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def chunked(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def test_server_tells_what_it_can_do(shared_api: Api) -> None:
    for path in ("/v1/tus", "/v1/tus/anything"):
        response = await shared_api.http.options(path)
        assert response.status_code == 204
        assert response.headers["tus-version"] == "1.0.0"
        assert "creation-with-upload" in response.headers["tus-extension"].split(",")
        assert response.headers["tus-checksum-algorithm"] == "sha1,sha256"
        assert int(response.headers["tus-max-size"]) > 0


@pytest.mark.slow
async def test_pieces_make_an_upload_like_any_other(shared_api: Api) -> None:
    place = await begin(shared_api, details=f"filename {encoded('führung 🎬.mov')},empty,type {encoded('video/mp4')}")
    at = 0
    for size in (1, 999, 0, 5000, len(CONTENT) - 6000):
        assert await offset_of(shared_api, place) == at
        response = await send(shared_api, place, at, CONTENT[at : at + size])
        at += size
        assert (response.status_code, response.headers["upload-offset"]) == (204, str(at))
        assert response.headers["tus-resumable"] == "1.0.0"
        assert ("upload-expires" in response.headers) == (at < len(CONTENT))
    assert response.headers["content-location"] == place.replace("tus", "uploads")
    assert (await whole(shared_api, place))["name"] == "führung 🎬.mov"
    head = await shared_api.http.head(place, headers=V)
    assert (head.headers["upload-offset"], head.headers["upload-length"]) == (str(len(CONTENT)),) * 2
    assert head.headers["upload-metadata"] == f"filename {encoded('führung 🎬.mov')}"


async def test_first_piece_may_come_with_the_creation(shared_api: Api) -> None:
    headers = {**PIECE, "Upload-Length": str(len(CONTENT))}
    response = await shared_api.http.post("/v1/tus", headers=headers, content=CONTENT[:100])
    assert (response.status_code, response.headers["upload-offset"]) == (201, "100")
    place = response.headers["location"]
    await send(shared_api, place, 100, CONTENT[100:])
    await whole(shared_api, place)


async def test_empty_upload_is_whole_at_once(shared_api: Api) -> None:
    await whole(shared_api, await begin(shared_api, 0), b"")


async def test_given_details_are_given_back(shared_api: Api) -> None:
    details = f"filename {encoded('a')},is_confidential,other {encoded(bytes(range(256)))}"
    place = await begin(shared_api, details=details)
    assert (await shared_api.http.head(place, headers=V)).headers["upload-metadata"] == details


@pytest.mark.parametrize("name", ["../../etc/passwd", "a\0b\r\nX: 1", "\u202egpj.exe", "x" * 5000, "/", "ü" * 300])
async def test_hostile_name_is_only_a_name(shared_api: Api, name: str) -> None:
    place = await begin(shared_api, 1, details=f"filename {encoded(name)}")
    await send(shared_api, place, 0, b"a")
    upload = await whole(shared_api, place, b"a")
    assert re.fullmatch(r"[0-9a-f]{34}", upload["id"])
    assert upload["id"] in shared_api.stored()


@pytest.mark.parametrize("offset", [1, 5, len(CONTENT), 10**17])
async def test_wrong_offset_is_refused_and_changes_nothing(shared_api: Api, offset: int) -> None:
    place = await begin(shared_api)
    problem(await send(shared_api, place, offset, b"abc"), 409, "offset_mismatch")
    await send(shared_api, place, 0, CONTENT[:10])
    problem(await send(shared_api, place, 0, b"abc"), 409, "offset_mismatch")
    assert await offset_of(shared_api, place) == 10
    await send(shared_api, place, 10, CONTENT[10:])
    await whole(shared_api, place)


async def test_more_than_was_announced_is_refused(shared_api: Api) -> None:
    place = await begin(shared_api, 10)
    problem(await send(shared_api, place, 0, b"a" * 11), 413, "payload_too_large")
    problem(await send(shared_api, place, 0, chunked(b"a" * 11)), 413, "payload_too_large")
    assert await offset_of(shared_api, place) == 0
    await send(shared_api, place, 0, b"a" * 10)
    await whole(shared_api, place, b"a" * 10)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 400, "invalid_header"),
        ({"Upload-Length": "-1"}, 400, "invalid_header"),
        ({"Upload-Length": "1e3"}, 400, "invalid_header"),
        ({"Upload-Length": "٣"}, 400, "invalid_header"),
        ({"Upload-Length": "9" * 30}, 400, "invalid_header"),
        ({"Upload-Defer-Length": "1"}, 400, "invalid_header"),
        ({"Upload-Length": "9" * 18}, 413, "payload_too_large"),
        ({"Upload-Length": "1", "Upload-Metadata": "a b c"}, 400, "invalid_header"),
        ({"Upload-Length": "1", "Upload-Metadata": "filename !!!"}, 400, "invalid_header"),
        ({"Upload-Length": "1", "Upload-Metadata": "a YQ==,a YQ=="}, 400, "invalid_header"),
        ({"Upload-Length": "1", "Upload-Metadata": "a YQ==,"}, 400, "invalid_header"),
        ({"Upload-Length": "1", "Upload-Checksum": "md5 YQ=="}, 400, "invalid_header"),
        ({"Upload-Length": "1", "Upload-Checksum": "sha1 YQ=="}, 400, "invalid_header"),
        ({"Upload-Length": "1", "Tus-Resumable": "0.2.2"}, 412, "tus_version"),
    ],
)
async def test_creation_that_makes_no_sense_is_refused(
    shared_api: Api, headers: dict[str, str], status: int, code: str
) -> None:
    before = unfinished(shared_api)
    sent = [(name.encode(), value.encode()) for name, value in {**V, **headers}.items()]
    problem(await shared_api.http.post("/v1/tus", headers=sent), status, code)
    assert unfinished(shared_api) == before


async def test_requests_of_another_protocol_are_refused(shared_api: Api) -> None:
    place = await begin(shared_api)
    answer = problem_of = await shared_api.http.patch(place, content=b"a", headers={"Upload-Offset": "0"})
    problem(problem_of, 412, "tus_version")
    assert answer.headers["tus-version"] == answer.headers["tus-resumable"] == "1.0.0"
    problem(
        await shared_api.http.patch(place, content=b"a", headers={**V, "Upload-Offset": "0"}),
        415,
        "unsupported_media_type",
    )
    problem(await shared_api.http.patch(place, content=b"a", headers=PIECE), 400, "invalid_header")
    assert (await shared_api.http.head(place)).status_code == 412
    assert (await shared_api.http.get(place, headers=V)).status_code == 405
    problem(await send(shared_api, "/v1/tus/" + "0" * 34, 0, b"a"), 404, "upload_not_found")
    problem(await send(shared_api, "/v1/tus/..%2f..%2fx", 0, b"a"), 404, "not_found")
    assert await offset_of(shared_api, place) == 0


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
async def test_piece_with_another_checksum_is_taken_back(shared_api: Api, algorithm: str) -> None:
    place = await begin(shared_api)

    def checksum(content: bytes) -> dict[str, str]:
        return {"Upload-Checksum": f"{algorithm} {encoded(hashlib.new(algorithm, content).digest())}"}

    assert (await send(shared_api, place, 0, CONTENT[:1000], **checksum(CONTENT[:1000]))).status_code == 204
    problem(await send(shared_api, place, 1000, b"x" * 500, **checksum(CONTENT[1000:1500])), 460, "checksum_mismatch")
    problem(
        await send(shared_api, place, 1000, b"x" * (len(CONTENT) - 1000), **checksum(b"")), 460, "checksum_mismatch"
    )
    assert await offset_of(shared_api, place) == 1000
    assert (await send(shared_api, place, 1000, CONTENT[1000:], **checksum(CONTENT[1000:]))).status_code == 204
    await whole(shared_api, place)


async def test_termination_frees_what_came(shared_api: Api) -> None:
    before = unfinished(shared_api)
    place = await begin(shared_api)
    await send(shared_api, place, 0, CONTENT[:100])
    assert (await shared_api.http.delete(place, headers=V)).status_code == 204
    assert unfinished(shared_api) == before
    assert (await shared_api.http.head(place, headers=V)).status_code == 404
    problem(await shared_api.http.delete(place, headers=V), 404, "upload_not_found")
    finished = await begin(shared_api, 0)
    assert (await shared_api.http.delete(finished, headers=V)).status_code == 204
    assert finished.rpartition("/")[2] not in shared_api.stored()


async def test_methods_may_be_overridden(shared_api: Api) -> None:
    place = await begin(shared_api)
    patch = {**PIECE, "Upload-Offset": "0", "X-HTTP-Method-Override": "PATCH"}
    assert (await shared_api.http.post(place, content=CONTENT[:9], headers=patch)).status_code == 204
    head = await shared_api.http.post(place, headers={**V, "X-HTTP-Method-Override": "HEAD"})
    assert head.headers["upload-offset"] == "9"
    assert (await shared_api.http.post(place, headers=V)).status_code == 405
    assert (await shared_api.http.post(place, headers={**V, "X-HTTP-Method-Override": "DELETE"})).status_code == 204
    assert (await shared_api.http.head(place, headers=V)).status_code == 404
