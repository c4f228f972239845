"""Devices: what they can do, how busy they are; slots, draining, measuring."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from transcoder.api.bodies import documented, json_body
from transcoder.api.context import ServiceOf
from transcoder.api.problems import responses
from transcoder.engine import DeviceState

router = APIRouter(prefix="/v1/devices", tags=["devices"])


class DeviceList(BaseModel):
    items: tuple[DeviceState, ...]
    next: str | None = None


class DeviceChange(BaseModel):
    """What is not given stays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: int | None = Field(None, ge=0, le=1024, description="tasks that may run at once; until the next start")
    draining: bool | None = Field(None, description="start nothing new; what runs ends as usual")


@router.get("", summary="All devices")
async def list_devices(service: ServiceOf) -> DeviceList:
    """Capabilities, slots, how many are busy, the GPU's load; with a problem, what to do about it."""
    return DeviceList(items=service.devices())


@router.patch(
    "/{device_id}",
    responses=responses(400, 404, 422),
    openapi_extra=documented(DeviceChange, {"slots": 2, "draining": False}),
    summary="Set slots, drain",
)
async def change_device(
    service: ServiceOf, device_id: str, change: Annotated[DeviceChange, json_body(DeviceChange)]
) -> DeviceState:
    """Fewer slots end nothing that runs; more are used at once."""
    return await service.update_device(device_id, slots=change.slots, draining=change.draining)


@router.post("/{device_id}/measure", status_code=202, responses=responses(404, 409), summary="Measure anew")
async def measure_device(service: ServiceOf, device_id: str) -> DeviceState:
    """Looks again what a GPU can do, after a new driver or a repair. It takes no tasks until it is `ready` again."""
    return service.measure_device(device_id)
