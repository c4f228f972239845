"""Headers that tell browsers what they may do with an answer. A route's own headers win."""

from __future__ import annotations

import re
from functools import cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # addresses may be signed links
    "referrer-policy": "no-referrer",
}

NOTHING = "default-src 'none'; frame-ancestors 'none'"
# a file that turns out to be a page is a page without scripts and without this origin
OUTPUT = (
    "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'"
)
# Swagger UI writes styles into its elements
DOCS = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = (
    "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)

POLICIES = tuple(
    (re.compile(path, re.DOTALL), policy)
    for path, policy in (
        (r"/v1/(jobs/[^/]+/outputs|s)/.*", OUTPUT),
        (r"/(v1/.*|healthz|readyz|metrics|openapi\.json)", NOTHING),
        (r"/docs(/.*)?", DOCS),
        (r".*", PAGE),
    )
)
"""Content security policies by path; the first that fits counts."""

_INLINE = re.compile(
    r"(video|audio)/[a-z0-9.+-]+|image/(?!svg)[a-z0-9.+-]+|text/vtt|text/plain"
    r"|application/(vnd\.apple\.mpegurl|dash\+xml|octet-stream)"
)


Added = tuple[tuple[bytes, bytes], ...]
"""Headers as ASGI has them."""


def shown_inline(content_type: str) -> bool:
    """Whether a browser may show an output of this type in place. HTML, SVG, XML and scripts are saved instead."""
    return _INLINE.fullmatch(content_type.partition(";")[0].strip().lower()) is not None


def security_headers(path: str, *, by_link: bool = False) -> dict[str, str]:
    """For the answer at `path`. What a signed link leads to may be embedded anywhere: it was made to be passed on."""
    return {name.decode(): value.decode() for name, value in _added(path, by_link)}


def _added(path: str, by_link: bool) -> Added:
    policy = next(policy for pattern, policy in POLICIES if pattern.fullmatch(path))
    return _headers(policy, by_link, path.startswith("/v1/"))


@cache
def _headers(policy: str, by_link: bool, private: bool) -> Added:
    """One value for each of the few cases: this is asked for with every answer."""
    headers = ALWAYS | {
        "content-security-policy": policy,
        "cross-origin-resource-policy": "cross-origin" if by_link else "same-origin",
    }
    headers |= {"cache-control": "no-store"} if private else {}
    return tuple((name.encode(), value.encode()) for name, value in headers.items())


class SecurityHeaders:
    """ASGI middleware, outermost."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                principal = scope.get("state", {}).get("principal")
                own = message["headers"]
                there = {name.lower() for name, _ in own}
                added = _added(scope["path"], principal is not None and principal.by_link)
                own += [header for header in added if header[0] not in there]
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)
