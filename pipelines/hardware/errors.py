"""What failed on a GPU, told from FFmpeg's exceptions and its words.

The exception alone says little: a missing profile, a full pool and a broken driver may all be an I/O error. What FFmpeg
logged just before tells them apart, so that its words are kept while a plan with hardware runs (`listening`).
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import av

from pipelines.devices import Stage
from pipelines.errors import DeviceError, DeviceFault, DeviceLost, DeviceOutOfMemory, DeviceUnsupported

KEPT_LINES = 16
"""About what FFmpeg says of one failure."""

CATCH_UP_SECONDS = 2.0

_NOISE = re.compile(r"vaGetDriverNames|Last message repeated|frames left in the queue on closing")
_PREFIX = re.compile(r"^\[(\S+) @ 0x[0-9a-f]+\] ")


class Words:
    """FFmpeg's last words: what the process writes to stderr goes through here, and on to where it went before."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._reader, self._writer = os.pipe()
        self._stderr = os.dup(2)
        self._caught_up = threading.Event()
        self._mark = f"\x01{os.getpid()}".encode()
        self._thread = threading.Thread(target=self._pump, daemon=True, name="Words")

    def start(self) -> None:
        # PyAV's own way to get at FFmpeg's log takes the GIL while FFmpeg holds a lock of its surfaces; a thread that
        # has the GIL and drops a surface wants that lock: both wait for ever
        av.logging.set_libav_level(av.logging.WARNING)
        av.logging.restore_default_callback()
        os.dup2(self._writer, 2)
        self._thread.start()

    def stop(self) -> None:
        os.dup2(self._stderr, 2)
        os.close(self._writer)
        self._thread.join(CATCH_UP_SECONDS)
        if not self._thread.is_alive():  # a process that was started meanwhile may still have the other end
            os.close(self._reader)
            os.close(self._stderr)

    def last(self) -> list[str]:
        """The last lines, of whatever thread."""
        self._caught_up.clear()
        os.write(self._writer, self._mark + b"\n")
        self._caught_up.wait(CATCH_UP_SECONDS)
        return list(self._lines)

    def _pump(self) -> None:
        pending = b""
        while chunk := os.read(self._reader, 65_536):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                said = line.removesuffix(self._mark)
                if said or said == line:
                    self._hear(said + b"\n")
                if said != line:
                    self._caught_up.set()
        self._hear(pending)

    def _hear(self, line: bytes) -> None:
        with suppress(OSError):  # who read it may be gone
            os.write(self._stderr, line)
        text = _PREFIX.sub("", line.decode(errors="replace")).strip()
        if text and not _NOISE.search(text):
            self._lines.append(text)


@contextmanager
def listening() -> Iterator[Words]:
    """Keeps what the whole process writes to stderr while it lasts."""
    words = Words()
    words.start()
    try:
        yield words
    finally:
        words.stop()


@dataclass(frozen=True)
class Rule:
    """Lines that `pattern` is found in mean `kind`."""

    kind: type[DeviceError]
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, kind: type[DeviceError], *texts: str) -> Rule:
        return cls(kind, re.compile("|".join(texts), re.IGNORECASE))


RULES: tuple[Rule, ...] = (
    Rule.of(
        DeviceLost,
        r"device (was )?lost", r"gpu hang", r"failed to initiali[sz]e VAAPI connection",
        r"cannot open (a )?(X11|DRM) display", r"no VA display found", r"\((-13|-21)\)",
        r"\bMFX_ERR_(DEVICE_LOST|GPU_HANG)\b",
    ),
    # what the VPL runtime makes of any error of the VA driver
    Rule.of(DeviceFault, r"\bdevice failed\b", r"\(-17\)", r"\bMFX_ERR_DEVICE_FAILED\b"),
    Rule.of(
        DeviceOutOfMemory,
        r"resource allocation failed", r"cannot allocate memory", r"failed to allocate surface", r"\(-4\)",
        r"\bMFX_ERR_MEMORY_ALLOC\b",
    ),
    Rule.of(
        DeviceUnsupported,
        r"no usable encoding (profile|entrypoint)", r"RT format .* not supported",
        r"driver does not support (\S+|any)\s+RC mode",
        r"hardware does not support",
        r"error creating a MFX session", r"no support for codec",
        r"the requested VA\w+ is not supported", r"hwaccel initiali[sz]ation returned error",
        r"failed to create processing pipeline config", r"no mastering display data", r"\(-3\)",
        r"\bMFX_ERR_(UNSUPPORTED|INVALID_VIDEO_PARAM)\b", r"must be set for \S+ RC mode",
    ),
)  # fmt: skip
"""In this order: a device that is lost or full says of all it has that it is not supported."""

BY_NUMBER: dict[int, type[DeviceError]] = {
    errno.ENOSYS: DeviceUnsupported,
    errno.EINVAL: DeviceUnsupported,
    errno.ENOMEM: DeviceOutOfMemory,
    errno.ENODEV: DeviceLost,
    errno.EIO: DeviceFault,
}


@dataclass(frozen=True)
class Work:
    """What a stage works on; the facts of its failures."""

    device: str
    words: Words
    stage: Stage
    codec: str
    """The source's for decode and filter, the output's for encode."""
    profile: str | None = None
    bit_depth: int = 8
    api: str | None = None
    """Of an encoder."""

    def failed(self, error: BaseException, *, began: bool) -> DeviceError:
        """The failure as ours. `began`: pictures had come through the stage before it."""
        lines = self.words.last()
        kind = recognise(error, lines, began=began)
        said = next((line for line in lines if is_said([line])), None)
        reason = said or (lines[-1] if lines else str(error))
        message = f"{self.codec} {self.stage} failed on the GPU: {reason.rstrip('.')}"
        return self.error(kind, message, "; ".join(lines) or str(error))

    def error(self, kind: type[DeviceError], message: str, detail: str | None = None, **facts: Any) -> DeviceError:
        return kind(
            message, stage=self.stage, device=self.device, codec=self.codec, profile=self.profile,
            bit_depth=self.bit_depth, detail=detail, **({} if self.api is None else {"api": self.api}), **facts,
        )  # fmt: skip


def is_said(lines: Sequence[str]) -> bool:
    """Whether FFmpeg spoke of the GPU, and not of the stream."""
    return any(rule.pattern.search(line) for line in lines for rule in RULES)


def recognise(error: BaseException, lines: Sequence[str], *, began: bool) -> type[DeviceError]:
    """Which kind of failure it is, by what FFmpeg said before `error`, else by its number."""
    text = "\n".join(lines)
    found = next((rule.kind for rule in RULES if rule.pattern.search(text)), None)
    kind = found or BY_NUMBER.get(getattr(error, "errno", None) or 0, DeviceFault)
    # what worked before is supported
    return DeviceFault if kind is DeviceUnsupported and began else kind
