"""Presets that jobs can name."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from pipelines.presets import Preset
from transcoder.api.context import ServiceOf
from transcoder.api.problems import NotFound, responses

router = APIRouter(prefix="/v1/presets", tags=["presets"])


class PresetList(BaseModel):
    items: tuple[Preset, ...]
    next: str | None = None


@router.get("", summary="All presets")
async def list_presets(service: ServiceOf) -> PresetList:
    """Those that come with the service and those of the operator's presets folder."""
    return PresetList(items=tuple(service.presets.values()))


@router.get("/{name}", responses=responses(404), summary="One preset")
async def read_preset(service: ServiceOf, name: str) -> Preset:
    """Its outputs can be copied into a job and changed there."""
    preset = service.presets.get(name)
    if preset is None:
        raise NotFound(f"there is no preset of that name; there are: {', '.join(service.presets)}")
    return preset
