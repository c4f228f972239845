"""What the service tells whoever measures it."""

from __future__ import annotations

from typing import Protocol

from transcoder.jobs import Job


class Observer(Protocol):
    """Called in the event loop; must not block."""

    def job_finished(self, job: Job) -> None:
        """The job has completed, failed or been cancelled."""

    def job_started(self, queue: str, waited_seconds: float) -> None:
        """Its first attempt begins."""

    def attempt_started(self, device: str) -> None: ...

    def frames_written(self, device: str, count: int) -> None:
        """By an attempt that has ended."""

    def attempt_finished(self, device: str, status: str, seconds: float) -> None:
        """`status` is the attempt's: completed, failed, cancelled, lost."""


class Unobserved:
    """Nobody measures."""

    def job_finished(self, job: Job) -> None: ...

    def attempt_started(self, device: str) -> None: ...

    def attempt_finished(self, device: str, status: str, seconds: float) -> None: ...

    def job_started(self, queue: str, waited_seconds: float) -> None: ...

    def frames_written(self, device: str, count: int) -> None: ...
