"""What an input is, and what would be done with it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict

from pipelines.rendition import Plan
from pipelines.source import SourceInfo
from pipelines.spec import FileJob, Input
from transcoder.api.bodies import documented, json_body, read_json, validated
from transcoder.api.context import ServiceOf, TenantOf
from transcoder.api.problems import responses

router = APIRouter(prefix="/v1", tags=["probe and plan"])

_FAILURES = responses(400, 413, 422, 503, 504)


class ProbeRequest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Input


@router.post(
    "/probe",
    responses=_FAILURES,
    openapi_extra=documented(ProbeRequest, {"input": {"url": "https://example.org/clip.mov"}}),
    summary="What is this input",
)
async def probe(request: Request, service: ServiceOf, tenant: TenantOf) -> SourceInfo:
    """Container, tracks, sizes, colour, duration. The body may also be the input itself: `{"upload": "…"}`."""
    value: Any = await read_json(request)
    if isinstance(value, dict) and "input" in value:
        return await service.probe(validated(ProbeRequest, value).input, tenant)
    return await service.probe(validated(Input, value), tenant)


@router.post(
    "/plan",
    responses=_FAILURES,
    openapi_extra=documented(FileJob, {"input": {"upload": "000640…"}, "preset": "h264-720p"}),
    summary="What would be done with this job",
)
async def plan(service: ServiceOf, tenant: TenantOf, spec: Annotated[FileJob, json_body(FileJob)]) -> Plan:
    """Decoder, filters, encoder and options of each rendition, with the reasons; nothing is run."""
    return await service.plan(spec, tenant)
