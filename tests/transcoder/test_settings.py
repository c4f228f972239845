"""Settings as the environment gives them."""

from __future__ import annotations

import os
from ipaddress import ip_network
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.limits import Limits
from transcoder.settings import Settings


def test_nothing_needs_to_be_set() -> None:
    settings = Settings()
    assert settings.host == "127.0.0.1"
    assert settings.limits == Limits()
    assert settings.allowed_networks == ()
    assert settings.media_roots == ()


def test_half_of_the_processors_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for processors, slots in ((1, 1), (2, 1), (8, 4), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=processors: count)
        assert Settings().software_slots == slots


def test_lists_are_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSCODER_MEDIA_ROOTS", "/srv/media, /mnt/more,")
    monkeypatch.setenv("TRANSCODER_ALLOWED_NETWORKS", "192.168.0.0/16,fd00::/8")
    settings = Settings()
    assert settings.media_roots == (Path("/srv/media"), Path("/mnt/more"))
    assert settings.allowed_networks == (ip_network("192.168.0.0/16"), ip_network("fd00::/8"))


@pytest.mark.parametrize("name", Limits.model_fields)
def test_every_limit_is_a_setting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"TRANSCODER_{name.upper()}", "7")
    assert getattr(Settings().limits, name) == 7


def test_database_lies_in_the_data_folder(tmp_path: Path) -> None:
    assert Settings(data_dir=tmp_path).effective_database_url == f"sqlite+aiosqlite:///{tmp_path}/transcoder.db"
    named = "postgresql+psycopg://db/transcoder"
    assert Settings(database_url=named).effective_database_url == named


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "70000"),
        ("PORT", "http"),
        ("SOFTWARE_SLOTS", "-1"),
        ("ALLOWED_NETWORKS", "192.168.0.1/16"),
        ("STALL_SECONDS", "0"),
        ("MAX_ATTEMPTS", "0"),
    ],
)
def test_value_that_makes_no_sense_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"TRANSCODER_{name}", value)
    with pytest.raises(ValidationError, match=name.lower()):
        Settings()
