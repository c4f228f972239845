"""The storage that the settings ask for."""

from __future__ import annotations

from transcoder.depot import Depot
from transcoder.errors import ServiceUnavailable
from transcoder.settings import Settings
from transcoder.storage import Storage


def storage_for(settings: Settings) -> Storage:
    return Storage(
        settings.data_dir,
        max_upload_bytes=settings.max_upload_bytes,
        min_free_bytes=settings.min_free_bytes,
        node=settings.node if settings.clustered else None,
        depot=depot_for(settings),
    )


def depot_for(settings: Settings) -> Depot | None:
    """None for the data folder. ServiceUnavailable without the library for buckets."""
    if settings.bucket_url is None:
        return None
    try:
        from transcoder.depot.bucket import BucketDepot
        from transcoder.depot.objects import Objects, open_store
    except ImportError as error:
        raise ServiceUnavailable(f"a bucket needs the extra transcoder[s3]: {error}") from error
    return BucketDepot(Objects(open_store(settings), patience_seconds=settings.bucket_retry_seconds))
