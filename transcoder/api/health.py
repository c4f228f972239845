"""Whether the service lives, and whether it can take work."""

from __future__ import annotations

from fastapi import APIRouter, Response
