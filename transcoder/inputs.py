"""A job's input as a local file: an upload, a path inside the media roots, or a download."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pipelines.asked.filters import ImageSource
from pipelines.asked.subtitle_files import SubtitleFile
from pipelines.captions.text_files import MAX_BYTES as MAX_TEXT_BYTES
from pipelines.errors import DeadlineExceeded
from pipelines.spec import Input
from transcoder.errors import InputNotFound, InputUploadNotFound, PathNotAllowed, UploadNotFound
from transcoder.jobs import Upload
from transcoder.network.addresses import Network, parse_url
from transcoder.network.fetch import FetchedFile, fetch
from transcoder.settings import Settings
from transcoder.storage import Storage
from transcoder.uploads.uploads import UploadStore

Beside = ImageSource | SubtitleFile
"""What a job names beside an input."""


class Fetch(Protocol):
    """`transcoder.network.fetch.fetch`."""

    def __call__(
        self,
        url: str,
        target: Path,
        *,
        allowed_networks: Sequence[Network],
        max_bytes: int,
        idle_seconds: float,
        total_seconds: float,
    ) -> Awaitable[FetchedFile]: ...


@dataclass(frozen=True)
class LocalInput:
    """`name` is what its owner calls the file: metadata."""

    path: Path
    name: str
    sha256: str | None = None
    """Of an upload, which was hashed as it came."""
    beside: Mapping[str, Path] = field(default_factory=dict)
    """Files that the job names beside its input, by what it knows them by."""


@dataclass(frozen=True)
class Inputs:
    """Where inputs may come from."""

    storage: Storage
    uploads: UploadStore
    fetch: Fetch
    media_roots: tuple[Path, ...]
    allowed_networks: tuple[Network, ...]
    max_bytes: int
    idle_seconds: float

    async def check(self, source: Input | SubtitleFile) -> None:
        """Refuses what can be seen to fail before anything runs. Uploads are checked with the job's own row."""
        if source.url is not None:
            parse_url(source.url)
        if source.path is not None:
            await asyncio.to_thread(locate, source.path, self.media_roots)

    async def check_all(self, sources: Sequence[Input]) -> None:
        for source in sources:
            await self.check(source)

    async def bring_all(
        self, sources: Sequence[Input], tenant: str, scratch: Path, *, total_seconds: float
    ) -> tuple[LocalInput, ...]:
        """Several inputs, one after another within the time for all; downloads go to folders in `scratch`."""
        if len(sources) == 1:
            return (await self.bring(sources[0], tenant, scratch, total_seconds=total_seconds),)
        brought: list[LocalInput] = []
        ends_at = time.monotonic() + total_seconds
        for number, source in enumerate(sources, 1):
            folder = scratch / f"input-{number}"
            await asyncio.to_thread(folder.mkdir)
            left = ends_at - time.monotonic()
            if left <= 0:
                raise DeadlineExceeded(f"the inputs were not here within {total_seconds:g} s", stage="fetch")
            brought.append(await self.bring(source, tenant, folder, total_seconds=left))
        return tuple(brought)

    async def bring(self, source: Input, tenant: str, scratch: Path, *, total_seconds: float) -> LocalInput:
        """The input on this machine; downloads go to `scratch`. Cancelling ends a download."""
        if source.url is not None:
            fetched = await self._download(source.url, scratch, self.max_bytes, total_seconds)
            return LocalInput(fetched.path, fetched.name)
        if source.upload is not None:
            return await self._upload(source.upload, tenant, scratch, total_seconds)
        assert source.path is not None
        path = await asyncio.to_thread(locate, source.path, self.media_roots)
        return LocalInput(path, path.name)

    async def check_beside(self, files: Sequence[Beside]) -> None:
        """The same of files beside an input."""
        for file in files:
            if isinstance(file, SubtitleFile):
                await self.check(file)
            elif file.path is not None:
                await asyncio.to_thread(locate, file.path, self.media_roots)

    async def find_beside(self, files: Sequence[Beside], tenant: str) -> None:
        """`check_beside`, and InputUploadNotFound: for a look at a job that is not to be added."""
        await self.check_beside(files)
        for file in files:
            if file.upload is not None:
                await self._known_upload(file.upload, tenant)

    async def with_beside(
        self, source: LocalInput, files: Sequence[Beside], tenant: str, scratch: Path, *, total_seconds: float
    ) -> LocalInput:
        """The input with the files that a job names beside it, within the time for all."""
        found: dict[str, Path] = {}
        ends_at = time.monotonic() + total_seconds
        for number, file in enumerate(files):
            left = ends_at - time.monotonic()
            if left <= 0:
                raise DeadlineExceeded(f"the files were not here within {total_seconds:g} s", stage="fetch")
            folder = scratch / f"beside-{number}"
            url = file.url if isinstance(file, SubtitleFile) else None
            if url is None and file.path is not None:
                found[file.key] = await asyncio.to_thread(locate, file.path, self.media_roots)
                continue
            await asyncio.to_thread(folder.mkdir)
            if url is not None:
                found[file.key] = (await self._download(url, folder, MAX_TEXT_BYTES, left)).path
            else:
                found[file.key] = (await self._upload(str(file.upload), tenant, folder, left)).path
        return replace(source, beside=found)

    async def _download(self, url: str, folder: Path, max_bytes: int, total_seconds: float) -> FetchedFile:
        return await self.fetch(
            url,
            folder / "input",
            allowed_networks=self.allowed_networks,
            max_bytes=max_bytes,
            idle_seconds=self.idle_seconds,
            total_seconds=total_seconds,
        )

    async def _known_upload(self, upload_id: str, tenant: str) -> Upload:
        try:
            return await self.uploads.get(upload_id, tenant)
        except UploadNotFound:
            raise InputUploadNotFound("there is no such upload", upload=upload_id) from None

    async def _upload(self, upload_id: str, tenant: str, scratch: Path, total_seconds: float) -> LocalInput:
        upload = await self._known_upload(upload_id, tenant)
        try:
            async with asyncio.timeout(total_seconds) as total:
                path = await self.storage.depot.bring_upload(upload, scratch)
        except FileNotFoundError:
            raise InputNotFound("the upload's file is gone", upload=upload_id) from None
        except TimeoutError:
            if not total.expired():
                raise
            raise DeadlineExceeded(f"the upload was not here within {total_seconds:g} s", stage="fetch") from None
        return LocalInput(path, upload.name, upload.sha256)


def more_payload(more: Sequence[LocalInput]) -> dict[str, Any]:
    """What operations are told of a job's inputs after the first."""
    return {"more": [{"path": str(each.path), "name": each.name} for each in more]} if more else {}


def inputs_for(settings: Settings, storage: Storage, uploads: UploadStore) -> Inputs:
    return Inputs(
        storage=storage,
        uploads=uploads,
        fetch=fetch,
        media_roots=settings.media_roots,
        allowed_networks=settings.allowed_networks,
        max_bytes=settings.max_upload_bytes,
        idle_seconds=settings.upload_idle_seconds,
    )


def locate(path: str, media_roots: Sequence[Path]) -> Path:
    """The file that `path` names, with links resolved; a relative path is looked for in each root. Blocks.

    PathNotAllowed for everything outside the roots, whether it exists or not; InputNotFound inside them.
    """
    if "\0" in path:
        raise PathNotAllowed("a path has no NUL", path=path)
    roots = [Path(os.path.realpath(root)) for root in media_roots]
    found = [Path(os.path.realpath(root / path)) for root in roots]
    allowed = [place for place in found if any(place.is_relative_to(root) for root in roots)]
    if not allowed:
        raise PathNotAllowed("the path is not inside a media root (see TRANSCODER_MEDIA_ROOTS)", path=path)
    for place in allowed:
        if os.path.isfile(place):
            return place
    raise InputNotFound("there is no such file", path=path)
