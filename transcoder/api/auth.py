"""The gate that every request passes: who calls, and whether they may. What no rule names is refused."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from fastapi import Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope
from structlog.contextvars import bind_contextvars, clear_contextvars

from transcoder.api.problems import service_problem
from transcoder.api.revocation import Watched
from transcoder.auth.authority import Authority
from transcoder.auth.errors import LinkExpired, Unauthorized
from transcoder.auth.hosts import BrowserGuard
from transcoder.auth.links import FOLDERS, SIGNATURE, LinkSigner
from transcoder.auth.principal import LOCAL, Principal
from transcoder.auth.rate_limit import Rate, TokenBuckets
from transcoder.auth.scopes import Scope
from transcoder.clock import utc_now
from transcoder.errors import ServiceError, ServiceUnavailable
from transcoder.settings import Settings
from transcoder.web import ASSETS

READING = frozenset({"GET", "HEAD"})
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})

PUBLIC = frozenset({"/openapi.json", "/healthz", "/readyz", *ASSETS})
"""Read by everyone: they tell nothing of anyone's jobs. Health tells less without a key."""


@dataclass(frozen=True)
class Rule:
    """Requests of these methods (None: all) whose whole path matches need the scope."""

    path: re.Pattern[str]
    methods: Collection[str] | None
    scope: Scope


def _rule(path: str, methods: Collection[str] | None, scope: Scope) -> Rule:
    return Rule(re.compile(path, re.DOTALL), methods, scope)


RULES = (
    _rule(r"/v1/(devices|queues|nodes)(/.*)?", CHANGING, Scope.ADMIN),
    _rule(r"/v1/jobs/[^/]+/(outputs/.+|events|thumbnail\.jpg)/link", {"POST"}, Scope.READ),
    # who has it can speak for the service
    _rule(r"/v1/webhooks/secret", None, Scope.SUBMIT),
    # who uploads in pieces asks how far it got
    _rule(r"/v1/tus(/.*)?", None, Scope.SUBMIT),
    _rule(r"/v1/.*", READING, Scope.READ),
    _rule(r"/v1/.*", None, Scope.SUBMIT),
)
"""The first that fits counts."""


def needed_scope(method: str, path: str) -> Scope:
    for rule in RULES:
        if (rule.methods is None or method in rule.methods) and rule.path.fullmatch(path):
            return rule.scope
    return Scope.ADMIN


@dataclass(frozen=True)
class Gatekeeper:
    """Tells who makes a request, or raises what it is refused with."""

    authority: Authority
    signer: LinkSigner
    buckets: TokenBuckets
    guard: BrowserGuard

    async def admit(self, request: Request) -> Principal | None:
        """None for someone without a key who reads what is public."""
        path = path_of(request)
        public = path in PUBLIC and request.method in READING
        try:
            if path.startswith(FOLDERS) and request.method in READING:
                return await self._by_folder(request)
            if not await self.authority.required():
                return self._local(request)
            if _signed(request) and request.method in READING and _presented(request) is None:
                return await self._by_link(request)
            return await self._by_key(request)
        except Unauthorized:
            if not public:
                raise
        except SQLAlchemyError as error:
            if not public:
                raise ServiceUnavailable("the database does not answer") from error
        return None

    def _local(self, request: Request) -> Principal:
        hosts = request.headers.getlist("host")
        self.guard.check_host(hosts)
        self.guard.check_origin(request.method, request.headers.get("origin"), hosts[0])
        if _signed(request):
            self.signer.verify(path_of(request), request.query_params, utc_now())
        return LOCAL

    async def _by_link(self, request: Request) -> Principal:
        link = self.signer.verify(path_of(request), request.query_params, utc_now())
        return await self._maker(link.key_id)

    async def _by_folder(self, request: Request) -> Principal:
        """The address has the token, whatever else a player sends with it."""
        followed = self.signer.follow(path_of(request), utc_now())
        request.state.followed = followed
        if await self.authority.required():
            return await self._maker(followed.link.key_id)
        self.guard.check_host(request.headers.getlist("host"))
        return LOCAL

    async def _maker(self, key_id: str | None) -> Principal:
        """Whom a link speaks for: the key that made it."""
        try:
            key = await self.authority.holder(key_id or "")
        except Unauthorized as error:
            # also of a link from before there were keys
            raise LinkExpired(f"the key that made this link has ended: {error.message}") from None
        return Principal.of_link(key)

    async def _by_key(self, request: Request) -> Principal:
        presented = _presented(request)
        if presented is None:
            raise Unauthorized("this call needs an API key: Authorization: Bearer tk_…", presented=False)
        key = await self.authority.authenticate(presented)
        self.buckets.take(key.id)
        principal = Principal.of_key(key)
        if path_of(request) not in PUBLIC:
            principal.require(needed_scope(request.method, path_of(request)))
        return principal


def path_of(request: Request) -> str:
    """What routes see. Of the path in `request.url`, `?` and `#` that were escaped cut the end off."""
    path: str = request.scope["path"]
    return path


def _signed(request: Request) -> bool:
    return bool(request.scope["query_string"]) and SIGNATURE in request.query_params


def _presented(request: Request) -> str | None:
    """The key that a request brings, well-formed or not."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return request.headers.get("x-api-key")


def gatekeeper(settings: Settings, authority: Authority, link_secret: bytes) -> Gatekeeper:
    hosts = None if settings.insecure else frozenset(settings.allowed_hosts)
    return Gatekeeper(
        authority,
        LinkSigner(link_secret),
        TokenBuckets(Rate(settings.requests_per_second, settings.requests_burst)),
        BrowserGuard(hosts, frozenset(settings.cors_origins)),
    )


class Gate:
    """ASGI middleware: nothing behind it is reached without a principal, except what is public."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            keeper: Gatekeeper = request.app.state.gatekeeper
            # requests of one connection may share a context
            clear_contextvars()
            try:
                request.state.principal = await keeper.admit(request)
                principal: Principal | None = request.state.principal
                if principal is not None:
                    bind_contextvars(tenant=principal.tenant)
                    if principal.key_id is not None:
                        receive = Watched(receive, keeper.authority, principal.key_id)
            except ServiceError as error:
                refusal = await service_problem(request, error)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
