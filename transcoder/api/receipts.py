"""Receipts: how a job's result came about."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from pipelines.receipt.values import Receipt
from transcoder.api.context import ServiceOf, TenantOf
from transcoder.api.problems import responses
from transcoder.receipts.store import read_receipt

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get(
    "/{job_id}/receipt",
    response_model=None,
    responses={200: {"model": Receipt, "description": "The receipt"}, **responses(404)},
    summary="How a completed job's result came about",
)
async def receipt(service: ServiceOf, tenant: TenantOf, job_id: str) -> JSONResponse:
    """The way taken by stage and device with reasons, what was measured of every track, hashes of input and files,
    versions, time spent, and an equivalent command. 404 `receipt_not_found` until the job has completed.
    """
    # as it was written: an earlier version's receipt stays what it is
    return JSONResponse(await read_receipt(service.database, job_id, tenant))
