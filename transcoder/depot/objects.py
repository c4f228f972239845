"""Objects in an S3-compatible bucket: obstore, with patience, and its errors as the service's own.

obstore is Rust's object_store behind Python's asyncio: it signs, streams and uploads in parts, and needs nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from transcoder.bucket_settings import BucketSettings
from transcoder.errors import ServiceError, StorageDamaged, StorageFull, StorageRefused, StorageUnavailable

T = TypeVar("T")

READ_BYTES = 256 * 1024
PART_BYTES = 8 << 20
MAX_PARTS = 9000
"""S3 takes 10,000 of an upload."""
PARTS_AT_ONCE = 4
DELETED_AT_ONCE = 1000
COPY_BYTES = 5 << 30
"""S3 copies larger objects only in parts."""
READ_PATIENCE_SECONDS = 5.0
"""How long a client that reads waits before it is told that the store is away."""

_PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
_LAST_DROPS_SECONDS = 0.1
_FULL = ("InsufficientStorage", "StorageFull", "QuotaExceeded", "507 ")
_REFUSED = ("NoSuchBucket", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "PermanentRedirect")

_CODE = re.compile(r"<Code>(\w{1,60})</Code>")

logger = logging.getLogger(__name__)


def open_store(settings: BucketSettings) -> S3Store:
    """What settings do not say is taken from AWS's environment variables, or from the instance that this runs on."""
    location = settings.bucket
    keys = {"access_key_id": settings.bucket_access_key, "secret_access_key": settings.bucket_secret_key}
    given: dict[str, Any] = {name: secret.get_secret_value() for name, secret in keys.items() if secret is not None}
    if settings.bucket_endpoint is not None:
        given["endpoint"] = settings.bucket_endpoint
    if settings.bucket_region is not None:
        given["region"] = settings.bucket_region
    return S3Store(
        location.bucket,
        prefix=location.prefix or None,
        virtual_hosted_style_request=not settings.path_style,
        client_options={
            "allow_http": True,
            "connect_timeout": timedelta(seconds=5),
            "read_timeout": timedelta(seconds=60),
            # of a whole request: a client may read slowly for hours
            "timeout": timedelta(days=2),
        },
        # patience is had below, where it is known whose it is
        retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=5)},
        **given,
    )


class Objects:
    """`patience_seconds`: how long work waits for a store that is away."""

    def __init__(self, store: S3Store, *, patience_seconds: float) -> None:
        self._store, self.patience_seconds = store, patience_seconds

    async def close(self) -> None:
        # obstore's threads let go of their last results; they must not be at it when the interpreter ends
        await asyncio.sleep(_LAST_DROPS_SECONDS)

    async def check(self) -> None:
        """Whether the bucket is there and may be looked into. StorageRefused, StorageUnavailable."""
        await self.list("check/", READ_PATIENCE_SECONDS)

    async def put(
        self, key: str, file: Path | bytes, *, content_type: str = "application/octet-stream", patience: float
    ) -> None:
        """The object is there whole or not at all."""
        size = len(file) if isinstance(file, bytes) else (await asyncio.to_thread(file.stat)).st_size

        async def attempt() -> None:
            await obstore.put_async(
                self._store,
                key,
                file,
                attributes={"Content-Type": content_type},
                use_multipart=size > PART_BYTES,
                chunk_size=max(PART_BYTES, -(-size // MAX_PARTS)),
                max_concurrency=PARTS_AT_ONCE,
            )

        await _patiently(attempt, patience, missing=StorageRefused("there is no such bucket"))

    async def size(self, key: str) -> int | None:
        """None when there is no such object."""
        try:
            found = await _patiently(lambda: obstore.head_async(self._store, key), self.patience_seconds)
        except FileNotFoundError:
            return None
        return int(found["size"])

    async def read(self, key: str, first: int, last: int, patience: float | None = None) -> AsyncIterator[bytes]:
        """Bytes from the `first` to the `last`; goes on where the connection broke. FileNotFoundError."""
        patience = self.patience_seconds if patience is None else patience

        async def stream(offset: int) -> Any:
            if offset > last:
                # there is no range of no bytes
                return _nothing()
            response = await obstore.get_async(self._store, key, options={"range": (offset, last + 1)})
            return response.stream(READ_BYTES)

        began = await _patiently(partial(stream, first), patience)

        async def chunks() -> AsyncIterator[bytes]:
            offset, current = first, began
            until = time.monotonic() + patience
            while True:
                try:
                    async for chunk in current:
                        offset += len(chunk)
                        until = time.monotonic() + patience
                        yield bytes(chunk)
                except BaseError as error:
                    failure = _failure(error)
                    if time.monotonic() >= until:
                        raise failure from None
                    logger.info("%s breaks off at byte %d: %s", key, offset, failure.message)
                    await asyncio.sleep(_PAUSES_SECONDS[0])
                else:
                    if offset <= last:
                        raise StorageDamaged(f"the store has only {offset} bytes of it", retryable=True, key=key)
                    return
                current = await _patiently(partial(stream, offset), patience)

        return chunks()

    async def copy(self, source: str, target: str, *, size: int, content_type: str) -> None:
        """FileNotFoundError without the source."""
        if size <= COPY_BYTES:
            await _patiently(lambda: obstore.copy_async(self._store, source, target), self.patience_seconds)
            return

        async def attempt() -> None:
            response = await obstore.get_async(self._store, source)
            await obstore.put_async(
                self._store,
                target,
                response,
                attributes={"Content-Type": content_type},
                chunk_size=max(PART_BYTES, -(-size // MAX_PARTS)),
                max_concurrency=PARTS_AT_ONCE,
            )

        await _patiently(attempt, self.patience_seconds)

    async def list(self, prefix: str, patience: float | None = None) -> list[Any]:
        """Of a folder each with `path`, `size` and `last_modified`, in order."""

        async def attempt() -> list[Any]:
            return [entry async for batch in self._store.list(prefix) for entry in batch]

        found = await _patiently(attempt, self.patience_seconds if patience is None else patience)
        return sorted(found, key=lambda entry: str(entry["path"]))

    async def delete(self, keys: Sequence[str]) -> None:
        """Those that are not there do no harm."""
        for start in range(0, len(keys), DELETED_AT_ONCE):
            some = list(keys[start : start + DELETED_AT_ONCE])
            try:
                await _patiently(partial(obstore.delete_async, self._store, some), READ_PATIENCE_SECONDS)
            except FileNotFoundError:
                continue

    async def discard(self, keys: Sequence[str]) -> None:
        """The same; what resists is logged, a sweep comes by again."""
        try:
            await self.delete(keys)
        except ServiceError as error:
            logger.warning("%d objects (%s …) can't be deleted: %s", len(keys), keys[0], error.message)

    async def discard_under(self, prefix: str) -> None:
        try:
            found = await self.list(prefix, READ_PATIENCE_SECONDS)
        except ServiceError as error:
            logger.warning("objects under %s can't be deleted: %s", prefix, error.message)
        else:
            await self.discard([str(entry["path"]) for entry in found])

    async def link(self, key: str, seconds: int) -> str:
        return str(await obstore.sign_async(self._store, "GET", key, timedelta(seconds=seconds)))


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def _patiently(
    attempt: Callable[[], Awaitable[T]], patience_seconds: float, *, missing: ServiceError | None = None
) -> T:
    """Again and again until it is done, or patience has ended. `missing`: what FileNotFoundError means, if not that."""
    until = time.monotonic() + patience_seconds
    pauses = iter(_PAUSES_SECONDS)
    while True:
        pause = next(pauses, _PAUSES_SECONDS[-1])
        try:
            return await attempt()
        except FileNotFoundError as error:
            if missing is None:
                raise
            raise missing from error
        except BaseError as error:
            failure = _failure(error)
            if not failure.retryable or time.monotonic() + pause >= until:
                raise failure from None
            logger.info("the store does not answer, it is tried again: %s", failure.message)
        await asyncio.sleep(pause)


def _failure(error: BaseError) -> ServiceError:
    told = str(error)
    if any(word in told for word in _FULL):
        return StorageFull("there is no room in the store")
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or any(word in told for word in _REFUSED):
        return StorageRefused(f"the store refuses: {_short(error)}")
    return StorageUnavailable(f"the store does not answer: {_short(error)}", retryable=True)


def _short(error: Exception) -> str:
    """What was asked, and the store's own code: what follows is for those who debug the library."""
    told = str(error)
    code = _CODE.search(told)
    return told.partition("\n")[0].partition(" <?xml")[0][:300].strip(": ") + (f" ({code[1]})" if code else "")
