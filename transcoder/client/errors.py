"""What calls of the service fail with.

ClientError
├── ApiError           the service refused: `code`, `status`, `message`, `facts`
├── Unreachable        no answer
├── UploadInterrupted  given up after tries; `location` is where it can be gone on with
└── JobFailed          a job that was waited for did not complete: `job`
"""

from __future__ import annotations

from typing import Any

import httpx2

from transcoder.jobs import Job


class ClientError(Exception):
    """Base of all."""


class ApiError(ClientError):
    """The service's problem (RFC 9457). `code` is stable; `message` is for people."""

    def __init__(self, status: int, code: str, message: str, facts: dict[str, Any]) -> None:
        super().__init__(f"[{code}] {message}")
        self.status, self.code, self.message, self.facts = status, code, message, facts

    @classmethod
    def of(cls, response: httpx2.Response) -> ApiError:
        try:
            body = response.json()
        except ValueError:
            body = None
        told = body if isinstance(body, dict) else {}
        faults = [f"{fault.get('pointer')}: {fault.get('detail')}" for fault in told.get("errors") or ()]
        message = "; ".join([str(told.get("detail") or f"HTTP {response.status_code}"), *faults])
        return cls(response.status_code, str(told.get("code", "server_error")), message, told.get("facts") or {})


class Unreachable(ClientError):
    """The service could not be reached, or the connection broke."""


class UploadInterrupted(ClientError):
    """An upload that got `offset` bytes far. `upload(..., resume=error.location)` goes on."""

    def __init__(self, location: str, offset: int, reason: str) -> None:
        super().__init__(f"the upload stopped after {offset} bytes: {reason}")
        self.location, self.offset = location, offset


class JobFailed(ClientError):
    """A job ended without a result. `job.error` says why; it is None for a cancelled job."""

    def __init__(self, job: Job) -> None:
        why = f"[{job.error.code}] {job.error.message}" if job.error is not None else "it was cancelled"
        super().__init__(f"job {job.id}: {why}")
        self.job = job
