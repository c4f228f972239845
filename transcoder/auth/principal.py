"""Who makes a call, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from transcoder.auth.errors import Forbidden
from transcoder.auth.keys import ApiKey
from transcoder.auth.scopes import Scope

LOCAL_TENANT = "default"
"""The tenant of a service without keys."""


@dataclass(frozen=True)
class Principal:
    """`key_id` is None in a service without keys; `by_link` when a signed link was followed."""

    tenant: str
    scopes: frozenset[Scope]
    queues: tuple[str, ...] | None = None
    key_id: str | None = None
    by_link: bool = False

    @classmethod
    def of_key(cls, key: ApiKey) -> Self:
        return cls(key.tenant, frozenset(key.scopes), key.queues, key.id)

    @classmethod
    def of_link(cls, key: ApiKey) -> Self:
        """Who follows a link that the key made."""
        return cls(key.tenant, frozenset({Scope.READ}), key_id=key.id, by_link=True)

    def require(self, scope: Scope) -> None:
        """Forbidden without the scope."""
        if scope not in self.scopes and Scope.ADMIN not in self.scopes:
            raise Forbidden(f"this key has no scope {scope}", scope=scope)

    def require_queue(self, queue: str) -> None:
        """Forbidden for a queue that the key may not submit to."""
        if self.queues is not None and queue not in self.queues:
            raise Forbidden(f"this key may not submit to the queue {queue!r}", queue=queue)


LOCAL = Principal(LOCAL_TENANT, frozenset(Scope))
"""Everyone who reaches a service without keys."""
