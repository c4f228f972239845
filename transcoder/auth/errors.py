"""Why a call is refused before it is looked at.

ServiceError
├── Unauthorized    unauthorized    401  no key, or one that is not valid (any more)
├── Forbidden       forbidden       403  the key lacks a scope, or may not use the queue
├── LinkExpired     link_expired    403
├── BadSignature    bad_signature   403  a link that this service did not make
├── BadHost         bad_host        421  without keys: a name that is not this machine's own
├── BadOrigin       bad_origin      403  without keys: a web page of somewhere else
├── RateLimited     rate_limited    429
└── KeyNotFound     key_not_found   404
"""

from __future__ import annotations

import math

from transcoder.errors import ServiceError

REALM = 'Bearer realm="transcoder"'


class Unauthorized(ServiceError):
    """`presented`: there was a key, and it was not valid."""

    code = "unauthorized"
    http_status = 401

    def __init__(self, message: str, *, presented: bool) -> None:
        super().__init__(message)
        self.http_headers = {"WWW-Authenticate": f'{REALM}, error="invalid_token"' if presented else REALM}


class Forbidden(ServiceError):
    code = "forbidden"
    http_status = 403


class LinkExpired(ServiceError):
    code = "link_expired"
    http_status = 403


class BadSignature(ServiceError):
    code = "bad_signature"
    http_status = 403


class BadHost(ServiceError):
    code = "bad_host"
    http_status = 421


class BadOrigin(ServiceError):
    code = "bad_origin"
    http_status = 403


class RateLimited(ServiceError):
    code = "rate_limited"
    http_status = 429

    def __init__(self, wait_seconds: float) -> None:
        wait = max(1, math.ceil(wait_seconds))
        super().__init__(f"too many requests with this key; try again in {wait} s", retry_after_seconds=wait)
        self.http_headers = {"Retry-After": str(wait)}


class KeyNotFound(ServiceError):
    code = "key_not_found"
    http_status = 404
