"""What holds for every test: no settings from outside, and skips that count where nothing may be missing."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# how long an example takes is the machine's business, not a property
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

NO_SKIPS = "TRANSCODER_TEST_NO_SKIPS"
"""Set (as in CI), a test that is skipped for want of something fails."""


# tests submit the same again and again, and want it done
os.environ["TRANSCODER_REUSE"] = "false"


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TRANSCODER_") and not name.startswith(("TRANSCODER_TEST_", "TRANSCODER_REUSE")):
            monkeypatch.delenv(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and _no_skips:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and {NO_SKIPS} is set: {report.longrepr}"
    return report


_no_skips = bool(os.environ.get(NO_SKIPS))
