"""Keys that ladders are encrypted with, in answers: stored with the job, shown to nobody."""

from __future__ import annotations

from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from pipelines.asked.ladders import KEY_MASK, HlsLadder
from pipelines.asked.streams import StreamJob
from pipelines.spec import FileJob
from transcoder.errors import ServiceError


class MaskedKey(ServiceError):
    """A job as it is shown was given to be done."""

    code = "invalid_request"
    http_status = 422


def check_keys(spec: FileJob) -> None:
    """MaskedKey where an output has asterisks in place of its key."""
    for output in spec.outputs or ():
        if _key_of(output) == KEY_MASK:
            raise MaskedKey(f"the key of output {output.name!r} is asterisks, which are shown in place of one")


def with_masks(spec: FileJob | StreamJob) -> FileJob | StreamJob:
    """As it is shown."""
    if not isinstance(spec, FileJob) or not any(_key_of(output) for output in spec.outputs or ()):
        return spec
    outputs = tuple(
        output.model_copy(update={"encryption": output.encryption.model_copy(update={"key": KEY_MASK})})
        if isinstance(output, HlsLadder) and output.encryption is not None
        else output
        for output in spec.outputs or ()
    )
    return spec.model_copy(update={"outputs": outputs})


def _key_of(output: object) -> str | None:
    return output.encryption.key if isinstance(output, HlsLadder) and output.encryption is not None else None


class ShownWithoutKeys:
    """Of a field that holds a job's spec: its keys are masked in whatever is written of it; its schema stays."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return {**handler(source), "serialization": core_schema.wrap_serializer_function_ser_schema(_written)}


def _written(spec: FileJob | StreamJob, write: core_schema.SerializerFunctionWrapHandler) -> Any:
    return write(with_masks(spec))
