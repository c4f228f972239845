"""The web page, the API's documentation, and what both are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from starlette.responses import Response

from transcoder.web import ASSETS, Asset

router = APIRouter()


def _serving(asset: Asset) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        # the browser asks each time, and is mostly told that it has it already: a new version is seen at once
        headers = {"etag": asset.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if asset.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(asset.zipped, headers=headers, media_type=asset.content_type)
        return Response(asset.content, headers=headers, media_type=asset.content_type)

    return serve


for path, asset in ASSETS.items():
    router.add_api_route(path, _serving(asset), methods=["GET"], include_in_schema=False)
