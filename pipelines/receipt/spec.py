"""What a user asks of a job's receipt."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ReceiptSpec(BaseModel):
    """What is worked out for it besides what the work tells anyway."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quality: bool = Field(
        False, description="SSIM and PSNR of samples of the finished files, against the source after its filters"
    )
    source_hash: bool = Field(True, description="the input's SHA-256; an input that is no upload is read once more")
