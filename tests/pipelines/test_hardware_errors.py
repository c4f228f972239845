"""What FFmpeg's words and numbers mean, and that its words are heard."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from pipelines.errors import DeviceError, DeviceFault, DeviceLost, DeviceOutOfMemory, DeviceUnsupported
from pipelines.hardware.errors import is_said, listening, recognise

SAID: list[tuple[str, int, type[DeviceError]]] = [
    ("No usable encoding profile found.", errno.ENOSYS, DeviceUnsupported),
    ("No usable encoding entrypoint found for profile VAProfileH264High (7).", errno.ENOSYS, DeviceUnsupported),
    ("Surface RT format 0x100 not supported.", errno.ENOSYS, DeviceUnsupported),
    ("Hardware does not support encoding at size 16x16", errno.EINVAL, DeviceUnsupported),
    ("Driver does not support VBR RC mode (supported modes: CQP).", errno.EINVAL, DeviceUnsupported),
    ("Failed setup for format vaapi: hwaccel initialisation returned error.", 0, DeviceUnsupported),
    ("Failed to end picture encode issue: 24 (internal encoding error).", errno.EIO, DeviceFault),
    ("Encode failed: -5.", errno.EIO, DeviceFault),
    ("Failed to create decode context: 2 (resource allocation failed).", errno.EIO, DeviceOutOfMemory),
    ("Cannot allocate memory", errno.ENOMEM, DeviceOutOfMemory),
    ("Error during encoding: device failed (-17)", errno.EIO, DeviceFault),
    ("Error during encoding: GPU hang (-21)", errno.EIO, DeviceLost),
    ("Error creating a MFX session: -9.", errno.EINVAL, DeviceUnsupported),
    ("Error submitting the frame for encoding: GPU Hang (-21)", errno.EIO, DeviceLost),
    ("Error initializing an internal MFX session: unsupported (-3)", errno.ENOSYS, DeviceUnsupported),
    ("", errno.ENODEV, DeviceLost),
    ("", errno.EIO, DeviceFault),
]


@pytest.mark.parametrize(("line", "number", "kind"), SAID)
def test_failures_are_told_apart_by_words_then_by_number(line: str, number: int, kind: type[DeviceError]) -> None:
    assert recognise(OSError(number, ""), [line], began=False) is kind


def test_what_has_worked_is_not_called_unsupported() -> None:
    assert recognise(OSError(errno.EINVAL, ""), [], began=True) is DeviceFault


def test_a_benign_warning_of_the_driver_is_no_verdict() -> None:
    assert not is_said(["Driver does not support some wanted packed headers (wanted 0xd, found 0x1)."])


def test_words_are_heard_and_go_on_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with listening() as words:
        os.write(2, b"[h264_vaapi @ 0x55d0c0ffee] Encode failed: -5.\n")
        assert words.last() == ["Encode failed: -5."]
    assert capfd.readouterr().err == "[h264_vaapi @ 0x55d0c0ffee] Encode failed: -5.\n"
    assert not any(thread.name == "Words" for thread in threading.enumerate())


def test_only_the_last_words_are_kept() -> None:
    with listening() as words:
        os.write(2, b"".join(b"line %d\n" % number for number in range(100)))
        assert words.last()[-1] == "line 99"
        assert len(words.last()) < 20
