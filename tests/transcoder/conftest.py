"""Fixtures of these tests, each defined beside what it needs."""

from tests.transcoder.fixtures_api import api, shared_api

__all__ = ["api", "shared_api"]
