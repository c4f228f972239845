"""`transcoder keys`: API keys, made and revoked on the service's database. The service may run meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from transcoder.auth.scopes import Scope
from transcoder.cli.failures import FAILED, CommandError
from transcoder.cli.options import JsonOption, load_settings

if TYPE_CHECKING:
    from transcoder.auth.keys import ApiKey, Token
    from transcoder.auth.store import KeyStore

T = TypeVar("T")

app = typer.Typer(
    help="Make, list and revoke API keys.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def create(
    name: Annotated[str, typer.Option(help="What the key is for; for people.")],
    tenant: Annotated[str, typer.Option(help="Whose jobs and files it sees.")] = "default",
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help="What it may do; several times for several. Without: submit and read."),
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option(help="A queue that it may submit to; several times for several. Without: all.")
    ] = None,
    expires_days: Annotated[int | None, typer.Option(min=1, max=36_500, help="Days that it is valid for.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key and print it. It is shown this once: the service keeps only its hash."""
    from transcoder.cli.screen import print_json, say

    key, token = _new_key(name, tenant, scope or (Scope.SUBMIT, Scope.READ), queue, expires_days)
    _finish(_add(key, token))
    if as_json:
        print_json(key.model_dump(mode="json") | {"token": str(token)})
        return
    until = "" if key.expires_at is None else f", until {_local(key.expires_at)}"
    say(f"key {key.id} of tenant {key.tenant} ({', '.join(key.scopes)}{until}); it is not shown again:")
    print(token, flush=True)


def _new_key(
    name: str, tenant: str, scopes: Sequence[Scope], queues: list[str] | None, expires_days: int | None
) -> tuple[ApiKey, Token]:
    from transcoder.auth.keys import TENANT_PATTERN, ApiKey, new_token
    from transcoder.clock import utc_now
    from transcoder.names import display_name

    if TENANT_PATTERN.fullmatch(tenant) is None:
        raise CommandError(
            "invalid_request", "a tenant's name has letters, digits and . _ - and begins with a letter or digit"
        )
    token, now = new_token(), utc_now()
    key = ApiKey(
        id=token.key_id,
        tenant=tenant,
        name=display_name(name, "key"),
        scopes=tuple(each for each in Scope if each in scopes),
        queues=tuple(queues) if queues else None,
        created_at=now,
        expires_at=None if expires_days is None else now + timedelta(days=expires_days),
    )
    return key, token


async def _add(key: ApiKey, token: Token) -> None:
    async with _keys() as keys:
        await keys.add(key, token)


@app.command("list")
def list_keys(as_json: JsonOption = False) -> None:
    """List all keys, also those that have ended."""
    from transcoder.cli.screen import print_json, table
    from transcoder.clock import utc_now

    keys = _finish(_all())
    if as_json:
        print_json([key.model_dump(mode="json") for key in keys])
        return
    now = utc_now()
    rows = (
        (
            key.id,
            key.tenant,
            key.name,
            " ".join(key.scopes),
            "all" if key.queues is None else " ".join(key.queues),
            key.ended(now) or "valid",
            _local(key.created_at),
            _local(key.last_used_at),
            _local(key.expires_at),
        )
        for key in keys
    )
    table(("key", "tenant", "name", "scopes", "queues", "state", "created", "last used", "expires"), rows)


async def _all() -> tuple[ApiKey, ...]:
    async with _keys() as keys:
        return await keys.all()


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(metavar="ID", help="A key's id, as `keys list` shows it.")]) -> None:
    """End a key and the links that it made. A running service notices within a second."""
    from transcoder.cli.screen import say

    _finish(_revoke(key_id))
    say(f"key {key_id} revoked")


async def _revoke(key_id: str) -> None:
    from transcoder.auth.errors import KeyNotFound
    from transcoder.clock import utc_now

    try:
        async with _keys() as keys:
            await keys.revoke(key_id, utc_now())
    except KeyNotFound as error:
        raise CommandError(error.code, error.message) from None


def _finish(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run(work)


@asynccontextmanager
async def _keys() -> AsyncGenerator[KeyStore, None]:
    from sqlalchemy.exc import SQLAlchemyError

    from transcoder.auth.opening import open_keys

    try:
        async with open_keys(load_settings()) as keys:
            yield keys
    except SQLAlchemyError as error:
        raise CommandError("database", str(error).partition("\n")[0], FAILED) from None


def _local(moment: datetime | None) -> str:
    return "–" if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
