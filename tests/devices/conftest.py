"""Fixtures of tests that need VAAPI. softva has to be there before libva is: hence on import.

Where VAAPI can't run the tests are skipped and say why. With `REQUIRE_DEVICE=vaapi` they fail instead.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.softva.build import Unavailable, build, enter, preloaded
from tests.softva.log import Log
from tests.softva.rig import ARC_A380, UHD_770, Rig

# before `enter` sets it for processes to come
_preloaded = preloaded()
_folder = Path(tempfile.mkdtemp(prefix="softva-"))


def _why_not() -> str | None:
    try:
        enter(build(), _folder)
    except Unavailable as reason:
        return str(reason)
    import av

    if "vaapi" not in av.codec.hwaccel.hwdevices_available():
        return "this PyAV was built without VAAPI"
    return None


_reason = _why_not()
_no_qsv = None if _preloaded else "QSV needs softva from the start: python -m tests.softva pytest tests/devices"


def pytest_unconfigure() -> None:
    shutil.rmtree(_folder)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = {"vaapi": _reason, "qsv": _reason or _no_qsv}
    for marker, reason in missing.items():
        if reason is None or item.get_closest_marker(marker) is None:
            continue
        if os.environ.get("REQUIRE_DEVICE") == "vaapi":
            pytest.fail(f"{reason}, and REQUIRE_DEVICE=vaapi is set", pytrace=False)
        pytest.skip(reason)


@pytest.fixture
def rig(tmp_path: Path) -> Generator[Rig, None, None]:
    """A machine with a UHD 770 (renderD128) and an Arc A380 (renderD129), both able to do all that softva can."""
    # what earlier tests held of a GPU, a failed run's traceback for one, is closed before this test's log begins
    gc.collect()
    machine = Rig(tmp_path / "machine", (UHD_770, ARC_A380), _folder)
    yield machine
    machine.close()


@pytest.fixture
def softva_log(rig: Rig) -> Log:
    """What the GPUs have done in this test."""
    return rig.log
