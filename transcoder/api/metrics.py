"""Metrics for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response

from transcoder.api.context import ServiceOf, TelemetryOf
from transcoder.telemetry import CONTENT_TYPE

router = APIRouter(tags=["operation"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": "Prometheus text", "content": {"text/plain": {}}}},
    summary="Metrics",
)
async def metrics(service: ServiceOf, telemetry: TelemetryOf) -> Response:
    """Jobs by status and queue, slots by device, attempts, HTTP requests, uploaded bytes."""
    text = telemetry.exposition(service.devices(), await service.store.active_counts())
    return Response(text, media_type=CONTENT_TYPE)
