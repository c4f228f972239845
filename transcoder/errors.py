"""What the service refuses or fails at, with the code and the HTTP status that clients see.

ServiceError
├── JobNotFound           job_not_found         404
├── ThumbnailNotFound     thumbnail_not_found   404  the job has not completed, or shows nothing
├── ReceiptNotFound       receipt_not_found     404  the job has not completed, or is a stream's
├── UploadNotFound        upload_not_found      404
│   └── InputUploadNotFound                     422  named in a job's input
├── DeviceNotFound        device_not_found      404
├── NodeNotFound          node_not_found        404
├── QueueNotFound         queue_not_found       404
│   └── UnknownQueue                            422  named by a job
├── Conflict              conflict              409  the job is not in a state for this
├── IdempotencyConflict   idempotency_conflict  422  the key was used with another body
├── InvalidCursor         invalid_cursor        400
├── PathNotAllowed        path_not_allowed      422  outside the media roots
├── InputNotFound         input_not_found       422  inside the media roots, but not a file
├── NoDevice              no_device             422  no device satisfies the job's device policy
├── NoWorker              no_worker             503  no node that runs jobs is known
├── PayloadTooLarge       payload_too_large     413
├── UploadLocked          upload_locked         423  another request fills it
├── OffsetMismatch        offset_mismatch       409  bytes would be missing, or there twice
├── ChecksumMismatch      checksum_mismatch     460  as the protocol tus has it
├── StorageFull           disk_full             507
├── TooManyJobs           limit_jobs            429  of a tenant
├── QueueFull             limit_queue           429  of a queue
├── TooManyQueues         limit_queues          409
├── DeadlineImpossible    deadline_impossible   422  the job can't be ready by then
├── TooManyUploads        limit_uploads         429  of a tenant, at once
├── TenantStorageFull     limit_storage         507  of a tenant
├── TenantOutputsFull     limit_outputs         507  of a tenant: what its jobs have made
└── ServiceUnavailable    service_unavailable   503
    ├── StorageUnavailable storage_unavailable       the bucket does not answer
    ├── StorageRefused    storage_refused            the bucket is not there, or its keys do not fit
    ├── StorageDamaged    storage_damaged            the bucket has other bytes than were stored
    ├── AlreadyRunning    already_running            another service owns the data folder
    └── SandboxMissing    sandbox_missing            children can't be confined, and have to be

What players of low-latency streams are refused with is in `transcoder.streams.edge` and `transcoder.streams.holding`.
What goes wrong with an input's URL is in `transcoder.network.fetch` and `transcoder.network.addresses`; with who calls,
in `transcoder.auth.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class ServiceError(Exception):
    """Base of all: a message for people, a stable `code`, facts as plain JSON values."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    http_headers: Mapping[str, str] = {}

    def __init__(self, message: str, *, retryable: bool = False, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        """Whether an attempt that fails with this may be tried again."""
        self.stage = "fetch"
        """Of the attempt, where it happens in one."""
        self.facts = facts


class JobNotFound(ServiceError):
    code = "job_not_found"
    http_status = 404


class ThumbnailNotFound(ServiceError):
    code = "thumbnail_not_found"
    http_status = 404


class ReceiptNotFound(ServiceError):
    code = "receipt_not_found"
    http_status = 404


class UploadNotFound(ServiceError):
    code = "upload_not_found"
    http_status = 404


class InputUploadNotFound(UploadNotFound):
    http_status = 422


class DeviceNotFound(ServiceError):
    code = "device_not_found"
    http_status = 404


class NodeNotFound(ServiceError):
    code = "node_not_found"
    http_status = 404


class QueueNotFound(ServiceError):
    code = "queue_not_found"
    http_status = 404


class UnknownQueue(QueueNotFound):
    http_status = 422


class Conflict(ServiceError):
    code = "conflict"
    http_status = 409


class IdempotencyConflict(ServiceError):
    code = "idempotency_conflict"
    http_status = 422


class InvalidCursor(ServiceError):
    code = "invalid_cursor"
    http_status = 400


class PathNotAllowed(ServiceError):
    code = "path_not_allowed"
    http_status = 422


class InputNotFound(ServiceError):
    code = "input_not_found"
    http_status = 422


class NoDevice(ServiceError):
    code = "no_device"
    http_status = 422


class NoWorker(ServiceError):
    code = "no_worker"
    http_status = 503
    http_headers = {"Retry-After": "10"}


class PayloadTooLarge(ServiceError):
    code = "payload_too_large"
    http_status = 413


class UploadLocked(ServiceError):
    code = "upload_locked"
    http_status = 423


class OffsetMismatch(ServiceError):
    code = "offset_mismatch"
    http_status = 409


class ChecksumMismatch(ServiceError):
    code = "checksum_mismatch"
    http_status = 460


class StorageFull(ServiceError):
    code = "disk_full"
    http_status = 507


class TooManyJobs(ServiceError):
    code = "limit_jobs"
    http_status = 429
    http_headers = {"Retry-After": "30"}


class QueueFull(ServiceError):
    code = "limit_queue"
    http_status = 429
    http_headers = {"Retry-After": "30"}


class TooManyQueues(ServiceError):
    code = "limit_queues"
    http_status = 409


class DeadlineImpossible(ServiceError):
    code = "deadline_impossible"
    http_status = 422


class TooManyUploads(ServiceError):
    code = "limit_uploads"
    http_status = 429
    http_headers = {"Retry-After": "5"}


class TenantStorageFull(ServiceError):
    code = "limit_storage"
    http_status = 507


class TenantOutputsFull(ServiceError):
    code = "limit_outputs"
    http_status = 507


class ServiceUnavailable(ServiceError):
    code = "service_unavailable"
    http_status = 503


class StorageUnavailable(ServiceUnavailable):
    code = "storage_unavailable"
    http_headers = {"Retry-After": "5"}


class StorageRefused(ServiceUnavailable):
    code = "storage_refused"


class StorageDamaged(ServiceUnavailable):
    code = "storage_damaged"


class AlreadyRunning(ServiceUnavailable):
    code = "already_running"


class SandboxMissing(ServiceUnavailable):
    code = "sandbox_missing"
