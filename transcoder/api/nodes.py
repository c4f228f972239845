"""Nodes: the processes that share a PostgreSQL database."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from transcoder.api.bodies import documented, json_body
from transcoder.api.context import ServiceOf
from transcoder.api.problems import responses
from transcoder.cluster.nodes import Node

router = APIRouter(prefix="/v1/nodes", tags=["devices"])


class NodeList(BaseModel):
    items: tuple[Node, ...]
    next: str | None = None


class NodeChange(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    draining: bool = Field(description="start nothing new on its devices; what runs ends as usual")


@router.get("", summary="All nodes")
async def list_nodes(service: ServiceOf) -> NodeList:
    """By name. Where the service runs alone, on SQLite, that is one."""
    return NodeList(items=await service.nodes.all())


@router.patch(
    "/{node}",
    responses=responses(400, 404, 422),
    openapi_extra=documented(NodeChange, {"draining": True}),
    summary="Drain a node",
)
async def change_node(service: ServiceOf, node: str, change: Annotated[NodeChange, json_body(NodeChange)]) -> Node:
    """Before it is taken down: wait until its `running` is 0."""
    return await service.nodes.set_draining(node, change.draining)
