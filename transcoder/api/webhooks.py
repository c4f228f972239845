"""Webhooks: what was told of a job, and the secret that it was signed with."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from transcoder.api.context import ServiceOf, TenantOf
from transcoder.api.problems import responses
from transcoder.webhooks.deliveries import Delivery

router = APIRouter(prefix="/v1", tags=["webhooks"])


class DeliveryList(BaseModel):
    items: tuple[Delivery, ...]
    next: str | None = None


class SigningSecret(BaseModel):
    secret: str = Field(description="whsec_ and the key in base64, as libraries of Standard Webhooks take it")


@router.get("/jobs/{job_id}/webhooks", responses=responses(404), summary="What was told of a job")
async def list_deliveries(service: ServiceOf, tenant: TenantOf, job_id: str) -> DeliveryList:
    """Each event that the job's webhook asked for, its state, and every try with its answer."""
    await service.get(job_id, tenant)
    return DeliveryList(items=await service.deliveries.of_job(job_id, tenant))


@router.get("/webhooks/secret", summary="The secret that webhooks are signed with")
async def read_secret(service: ServiceOf, tenant: TenantOf, response: Response) -> SigningSecret:
    """Made at the first call, the same from then on."""
    response.headers["cache-control"] = "no-store"
    return SigningSecret(secret=await service.courier.secret(tenant))
