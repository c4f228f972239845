"""No encoder's thread stands above all others of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from typing import Any

import av
import pytest

from pipelines.encode import open_encoder
from pipelines.scheduling import ordinary_threads


def policies() -> set[int]:
    return {os.sched_getscheduler(int(task)) for task in os.listdir("/proc/self/task")}


def test_opened_encoder_leaves_all_threads_ordinary() -> None:
    """SVT-AV1 makes its own real-time where it may."""
    context: Any = av.CodecContext.create("libsvtav1", "w")
    context.width, context.height, context.pix_fmt = 320, 240, "yuv420p"
    context.time_base, context.framerate = Fraction(1, 25), Fraction(25)
    context.options = {"preset": "12"}

    open_encoder(context, "libsvtav1")

    assert policies() == {os.SCHED_OTHER}


def test_thread_that_was_made_real_time_is_ordinary_afterwards() -> None:
    try:
        with ordinary_threads():
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
            assert os.sched_getscheduler(0) == os.SCHED_RR
    except PermissionError:
        pytest.skip("no right to real-time scheduling here")
    assert policies() == {os.SCHED_OTHER}


def test_process_that_is_real_time_by_choice_stays_so() -> None:
    script = (
        "import os\n"
        "from pipelines.scheduling import ordinary_threads\n"
        "try:\n"
        "    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))\n"
        "except PermissionError:\n"
        "    print('no right')\n"
        "with ordinary_threads():\n"
        "    pass\n"
        "print(os.sched_getscheduler(0) == os.SCHED_RR)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    if done.stdout.startswith("no right"):
        pytest.skip("no right to real-time scheduling here")
    assert done.stdout == "True\n"
