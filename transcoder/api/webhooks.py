"""Webhooks: what was told of a job, and the secret that it was signed with."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from transcoder.api.bodies import documented, json_body
from transcoder.api.context import ServiceOf, TenantOf
from transcoder.api.problems import responses
from transcoder.webhooks.deliveries import Delivery
from transcoder.webhooks.keyring import Keys

router = APIRouter(prefix="/v1", tags=["webhooks"])


class DeliveryList(BaseModel):
    items: tuple[Delivery, ...]
    next: str | None = None


class SigningSecret(BaseModel):
    secret: str = Field(description="whsec_ and the key in base64, as libraries of Standard Webhooks take it")
    previous: str | None = Field(None, description="the one before it, which signs as well for a while")
    previous_until: datetime | None = None

    @classmethod
    def of(cls, keys: Keys) -> SigningSecret:
        return cls(secret=keys.secret, previous=keys.previous, previous_until=keys.previous_until)


class Rotation(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    overlap_seconds: float = Field(
        86_400.0, ge=0, le=30 * 86_400, description="how long webhooks are signed with the present secret as well"
    )


@router.get("/jobs/{job_id}/webhooks", responses=responses(404), summary="What was told of a job")
async def list_deliveries(service: ServiceOf, tenant: TenantOf, job_id: str) -> DeliveryList:
    """Each event that the job's webhook asked for, its state, and every try with its answer."""
    await service.get(job_id, tenant)
    return DeliveryList(items=await service.deliveries.of_job(job_id, tenant))


@router.get("/webhooks/secret", summary="The secret that webhooks are signed with")
async def read_secret(service: ServiceOf, tenant: TenantOf, response: Response) -> SigningSecret:
    """Made at the first call, the same until it is changed."""
    response.headers["cache-control"] = "no-store"
    return SigningSecret.of(await service.courier.keys(tenant))


@router.post(
    "/webhooks/secret",
    responses=responses(400, 409, 422),
    openapi_extra=documented(Rotation, {"overlap_seconds": 86_400}),
    summary="A new secret to sign webhooks with",
)
async def rotate_secret(
    service: ServiceOf, tenant: TenantOf, response: Response, rotation: Annotated[Rotation, json_body(Rotation)]
) -> SigningSecret:
    """Until the overlap is over each webhook has two signatures, of the new secret and of the present one.

    409 where the service has one secret for all tenants.
    """
    response.headers["cache-control"] = "no-store"
    return SigningSecret.of(await service.courier.rotate(tenant, rotation.overlap_seconds))
