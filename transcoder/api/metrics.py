"""Metrics for Prometheus."""

from __future__ import annotations

import asyncio
import shutil

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
    """Jobs by status and queue, waits and durations, slots and load of devices, attempts, fallbacks, HTTP requests."""
    disk = await asyncio.to_thread(shutil.disk_usage, service.storage.data_dir)
    active = await service.store.active_counts()
    text = telemetry.exposition(service.devices(), active, streams=service.running_streams(), free_bytes=disk.free)
    return Response(text, media_type=CONTENT_TYPE)
