"""How many bits: the rate-control modes as types.

Bitrates are bit/s. Quality scales are each codec's own (x264 and x265 0-51, SVT-AV1 and libvpx 0-63): equal numbers
do not mean equal pictures across codecs.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Bitrate = Annotated[int, Field(ge=8_000, le=800_000_000, description="bit/s")]
Quality = Annotated[float, Field(ge=0, le=63)]


class _Mode(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Crf(_Mode):
    """Constant quality as the encoder judges it; `maxrate` and `bufsize` cap the peaks (capped CRF)."""

    mode: Literal["crf"] = "crf"
    crf: Quality
    maxrate: Bitrate | None = None
    bufsize: Bitrate | None = Field(None, description="bits; 2 × maxrate when not given")

    @model_validator(mode="after")
    def _bufsize_needs_maxrate(self) -> Crf:
        if self.bufsize is not None and self.maxrate is None:
            raise ValueError("bufsize needs maxrate")
        return self


class Cqp(_Mode):
    """Constant quantiser."""

    mode: Literal["cqp"] = "cqp"
    qp: Annotated[int, Field(ge=0, le=255)]


class Icq(_Mode):
    """Intelligent constant quality of Intel's encoders; software encoders take it as CRF."""

    mode: Literal["icq"] = "icq"
    quality: Annotated[int, Field(ge=1, le=51)]


class Vbr(_Mode):
    """An average bitrate, peaks bounded by `maxrate` over `bufsize`."""

    mode: Literal["vbr"] = "vbr"
    bitrate: Bitrate
    maxrate: Bitrate | None = Field(None, description="bit/s; 1.5 × bitrate when not given")
    bufsize: Bitrate | None = Field(None, description="bits; 2 × maxrate when not given")

    @model_validator(mode="after")
    def _maxrate_above_bitrate(self) -> Vbr:
        if self.maxrate is not None and self.maxrate < self.bitrate:
            raise ValueError("maxrate is below bitrate")
        return self


class Cbr(_Mode):
    """A constant bitrate over `bufsize`."""

    mode: Literal["cbr"] = "cbr"
    bitrate: Bitrate
    bufsize: Bitrate | None = Field(None, description="bits; 1 s of bitrate when not given")


class TargetQuality(_Mode):
    """As few bits as give this quality: the CRF is found by measuring samples of the source before the run."""

    mode: Literal["target_quality"] = "target_quality"
    metric: Literal["ssim", "psnr", "xpsnr"] = Field("ssim", description="SSIM is 0-1, the others are in dB")
    value: Annotated[float, Field(gt=0, le=80, description="the mean over all pictures of the samples")]
    min_crf: Quality | None = Field(None, description="best CRF that is tried; by codec when not given")
    max_crf: Quality | None = Field(None, description="worst CRF that is tried; by codec when not given")
    max_bitrate: Bitrate | None = Field(None, description="bit/s that peaks stay below, whatever the quality")

    @model_validator(mode="after")
    def _on_the_scale(self) -> TargetQuality:
        if self.metric == "ssim" and self.value >= 1:
            raise ValueError("SSIM is below 1")
        if self.metric != "ssim" and self.value < 10:
            raise ValueError(f"{self.metric} is in dB: at least 10")
        if self.min_crf is not None and self.max_crf is not None and self.min_crf > self.max_crf:
            raise ValueError("min_crf is above max_crf")
        return self


RateControl = Annotated[Crf | Cqp | Icq | Vbr | Cbr | TargetQuality, Field(discriminator="mode")]
