"""One live service and one clip for all acceptance tests that don't end the service themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.live import LiveServer, live_server
from tests.media import make_video


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1") as running:
        yield running


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "clip.mkv", size=(640, 360), rate=25, seconds=2)


@pytest.fixture(scope="session")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Takes the slowest encoder far longer than any test waits."""
    return make_video(tmp_path_factory.mktemp("media") / "long.mkv", size=(1280, 720), rate=30, seconds=20)
