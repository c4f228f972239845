"""Fixtures of these tests, each defined beside what it needs."""

from tests.transcoder.bucket_peer import bucket, bucket_server
from tests.transcoder.fixtures_api import api, shared_api
from tests.transcoder.postgres import cluster_url, postgres

__all__ = ["api", "bucket", "bucket_server", "cluster_url", "postgres", "shared_api"]
