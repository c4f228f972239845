"""What tests of resumable uploads say and expect over HTTP."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import httpx2

from tests.transcoder.fixtures_api import Api

V = {"Tus-Resumable": "1.0.0"}
PIECE = {**V, "Content-Type": "application/offset+octet-stream"}
CONTENT = bytes(range(256)) * 40


def encoded(text: bytes | str) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


async def begin(api: Api, size: int = len(CONTENT), details: str | None = None, **headers: str) -> str:
    more = {} if details is None else {"Upload-Metadata": details}
    response = await api.http.post("/v1/tus", headers={**V, "Upload-Length": str(size), **more, **headers})
    assert response.status_code == 201, response.text
    return str(response.headers["location"])


async def send(api: Api, place: str, offset: int, content: Any, **headers: str) -> httpx2.Response:
    return await api.http.patch(place, content=content, headers={**PIECE, "Upload-Offset": str(offset), **headers})


async def offset_of(api: Api, place: str) -> int:
    response = await api.http.head(place, headers=V)
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    return int(response.headers["upload-offset"])


async def whole(api: Api, place: str, content: bytes = CONTENT) -> dict[str, Any]:
    """The upload, after checking that it is one, and that a job takes it."""
    upload: dict[str, Any] = (await api.http.get(f"/v1/uploads/{place.rpartition('/')[2]}")).json()
    assert (upload["size"], upload["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert (api.data_dir / "uploads" / upload["id"]).read_bytes() == content
    assert upload["id"] not in unfinished(api)
    job = await api.http.post("/v1/jobs", json={"input": {"upload": upload["id"]}, "outputs": [{"type": "mp4"}]})
    assert (await api.ended(job.json()["id"]))["status"] == "completed"
    return upload


def unfinished(api: Api) -> list[str]:
    """Names in the folder of uploads that are not whole."""
    return sorted(path.name for path in (api.data_dir / "partial").iterdir())
