"""What failed on a GPU, told from FFmpeg's exceptions and its words.

The exception alone says little: a missing profile, a full pool and a broken driver may all be an I/O error. What FFmpeg
logged just before tells them apart, so that its errors are kept while a plan with hardware runs (`listen`).
"""

from __future__ import annotations

import errno
import logging
import re
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import av

from pipelines.devices import Stage
from pipelines.errors import DeviceError, DeviceFault, DeviceLost, DeviceOutOfMemory, DeviceUnsupported

KEPT_LINES = 64


class Words(logging.Handler):
    """FFmpeg's last errors, as (thread, text). They go on to stderr as they would without it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._lines: deque[tuple[int | None, str]] = deque(maxlen=KEPT_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage().strip()
        self._lines.append((record.thread, text))
        print(f"[{record.name.removeprefix('libav.')}] {text}", file=sys.stderr)

    def peek(self) -> str:
        """All that is kept, of any thread."""
        return "\n".join(text for _, text in list(self._lines))

    def take(self, thread: int) -> list[str]:
        """What `thread` has been told since it last asked; the lines are gone afterwards."""
        lines = list(self._lines)
        mine = [text for owner, text in lines if owner == thread]
        self._lines = deque((line for line in lines if line[0] != thread), maxlen=KEPT_LINES)
        return mine


def listen() -> Words:
    """Keeps FFmpeg's errors from now on, in the whole process."""
    logger = logging.getLogger("libav")
    known = next((handler for handler in logger.handlers if isinstance(handler, Words)), None)
    if known is not None:
        return known
    words = Words()
    logger.addHandler(words)
    logger.propagate = False
    # warnings would come from threads of encoders too, which must not wait for Python
    av.logging.set_level(av.logging.ERROR)
    return words


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
        r"device (was )?lost", r"gpu hang", r"hardware busy", r"\bMFX_ERR_(DEVICE_LOST|DEVICE_FAILED|GPU_HANG)\b",
        r"\((-13|-17|-21)\)", r"failed to initiali[sz]e vaapi connection", r"cannot open.* display",
        r"no va display found", r"error (initializing|creating) .*session",
    ),
    Rule.of(
        DeviceOutOfMemory,
        r"resource allocation failed", r"cannot allocate memory", r"out of memory", r"failed to allocate .*surface",
        r"\bMFX_ERR_MEMORY_ALLOC\b", r"no free surfaces", r"failed to create surface",
    ),
    Rule.of(
        DeviceUnsupported,
        r"no usable encoding (profile|entrypoint)", r"rt format .* not supported", r"does not support",
        r"no support for codec", r"not supported", r"unsupported", r"unable to find .*format",
        r"hwaccel initiali[sz]ation returned error", r"no device available for decoder", r"must be set for .* rc mode",
        r"the requested \w+ is not supported", r"\bMFX_ERR_(UNSUPPORTED|INVALID_VIDEO_PARAM)\b",
        r"no usable (decoding|processing)", r"driver does not", r"no mastering display data",
    ),
)  # fmt: skip
"""In this order: a lost device says of all it has that it is not supported."""

FINAL_FAULTS = re.compile(
    r"(failed to (begin|end|render|sync)\w* .*|invalid vasurfaceid|encode failed|picture encode issue)", re.IGNORECASE
)

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
    stage: Stage
    codec: str
    """The source's for decode and filter, the output's for encode."""
    profile: str | None = None
    bit_depth: int = 8
    words: Words = field(default_factory=listen)

    def failed(self, error: BaseException, thread: int, *, began: bool) -> DeviceError:
        """The failure as ours. `began`: pictures had come through the stage before it."""
        lines = self.words.take(thread)
        kind = recognise(error, lines, began=began)
        detail = "; ".join(lines) or str(error)
        return self.error(kind, f"{self.codec} {self.stage} failed on the GPU: {lines[0] if lines else error}", detail)

    def error(self, kind: type[DeviceError], message: str, detail: str | None = None, **facts: Any) -> DeviceError:
        return kind(
            message, stage=self.stage, device=self.device, codec=self.codec, profile=self.profile,
            bit_depth=self.bit_depth, detail=detail, **facts,
        )  # fmt: skip


def recognise(error: BaseException, lines: list[str], *, began: bool) -> type[DeviceError]:
    """Which kind of failure it is, by what FFmpeg said before `error`, else by its number."""
    text = "\n".join(lines)
    for rule in RULES:
        if rule.pattern.search(text) and not (rule.kind is DeviceUnsupported and began and FINAL_FAULTS.search(text)):
            return rule.kind
    kind = BY_NUMBER.get(getattr(error, "errno", None) or 0, DeviceFault)
    # what worked before is supported
    return DeviceFault if kind is DeviceUnsupported and began else kind
