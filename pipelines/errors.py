"""What can go wrong in a pipeline, as one tree of exceptions with stable codes.

PipelineError
├── BadInput            bad_input      not media, or not decodable; never retried
│   ├── Truncated       truncated      ends before its header promised
│   ├── NoFrames        no_frames      opens, but yields nothing
│   └── BadSubtitles    bad_subtitles  a file of subtitles beside the input is no text, or has none
├── UnsupportedSpec     unsupported    the request can't be done on this source
│   └── FilterMissing   filter_missing this build of FFmpeg lacks a filter for it
├── EncoderRejected     encoder_rejected   an encoder refused or ignored its options
├── LimitExceeded       limit_*        a limit of the operator
├── LargerThanSource    larger_than_source  an output grew above the size that the job allows
├── VerifyFailed        verify_failed  what was written is not what was planned
├── PiecesDiffer        pieces_differ  pieces of a job that was cut do not go together
├── OutputFailed        output_failed  writing failed
│   ├── DiskFull        disk_full
│   └── OutputStalled   output_stalled
├── OutOfMemory         oom
├── DeviceError         device_error   something on a GPU: the next step down, or another device, may do it
│   ├── DeviceUnsuitable    device_unsuitable   this device can do nothing of the job
│   ├── DeviceUnsupported   device_unsupported  it refused a codec, format, size or rate control
│   ├── DeviceFault         device_fault        it failed in the middle of work
│   ├── DeviceOutOfMemory   device_oom          no surfaces left
│   └── DeviceLost          device_lost         it can't be opened, hangs or was reset
├── Stalled             stalled        no progress within the watchdog's time
├── DeadlineExceeded    timeout
├── Crashed             crashed        the process died
└── Cancelled           cancelled
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

Stage = Literal[
    "fetch",
    "open",
    "probe",
    "plan",
    "check",
    "decode",
    "filter",
    "encode",
    "mux",
    "verify",
    "publish",
    "run",
    "canary",
    "stream",
]
LimitCode = Literal[
    "limit_pixels",
    "limit_streams",
    "limit_duration",
    "limit_fps",
    "limit_work",
    "limit_output",
    "limit_size",
    "limit_pictures",
]


class PipelineError(Exception):
    """Base of all: a message for people, a stable `code`, the stage, and facts as plain values."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, stage: Stage | None = None, device: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.stage: Stage | None = stage
        self.device = device
        self.facts = facts

    def to_json(self) -> dict[str, Any]:
        """The job's `error` object: code, message, stage, device, retryable, and the facts beside them."""
        return {
            "code": self.code,
            "message": self.message,
            "stage": self.stage,
            "device": self.device,
            "retryable": self.retryable,
            "facts": self.facts,
        }


class BadInput(PipelineError):
    code = "bad_input"


class Truncated(BadInput):
    code = "truncated"


class NoFrames(BadInput):
    code = "no_frames"


class BadSubtitles(BadInput):
    """Facts: `subtitles`, its place in the list from 1, and `file`, what it is called."""

    code = "bad_subtitles"


class UnsupportedSpec(PipelineError):
    code = "unsupported"


class FilterMissing(UnsupportedSpec):
    """Facts: the `filter`, by FFmpeg's name."""

    code = "filter_missing"


class EncoderRejected(PipelineError):
    code = "encoder_rejected"


class LimitExceeded(PipelineError):
    """`code` is one of the `limit_*` family; facts carry the limit and what was asked."""

    def __init__(self, code: LimitCode, message: str, *, stage: Stage | None = None, **facts: Any) -> None:
        super().__init__(message, stage=stage, **facts)
        self.code = code  # type: ignore[misc]


class LargerThanSource(PipelineError):
    """Facts: the `output`, its `bytes` (perhaps projected), `max_bytes`, `source_bytes`."""

    code = "larger_than_source"


class VerifyFailed(PipelineError):
    code = "verify_failed"


class PiecesDiffer(PipelineError):
    code = "pieces_differ"


class OutputFailed(PipelineError):
    code = "output_failed"
    retryable = True


class DiskFull(OutputFailed):
    code = "disk_full"
    retryable = False


class OutputStalled(OutputFailed):
    code = "output_stalled"


class OutOfMemory(PipelineError):
    code = "oom"


class DeviceError(PipelineError):
    """Facts, where known: `codec`, `profile`, `bit_depth` (of what the stage worked on), `detail` (FFmpeg's words)."""

    code = "device_error"
    retryable = True


class DeviceUnsuitable(DeviceError):
    code = "device_unsuitable"


class DeviceUnsupported(DeviceError):
    code = "device_unsupported"


class DeviceFault(DeviceError):
    code = "device_fault"


class DeviceOutOfMemory(DeviceError):
    code = "device_oom"


class DeviceLost(DeviceError):
    code = "device_lost"


class Stalled(PipelineError):
    code = "stalled"


class DeadlineExceeded(PipelineError):
    code = "timeout"


class Crashed(PipelineError):
    code = "crashed"
    retryable = True


class Cancelled(PipelineError):
    code = "cancelled"


def cause(error: BaseException) -> str:
    """What FFmpeg or the system says, without the file that it says it of: a path of this machine is nobody's."""
    return getattr(error, "strerror", None) or str(error)
