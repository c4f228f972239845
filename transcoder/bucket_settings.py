"""Settings of the bucket that uploads and outputs are kept in, where it is one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([A-Za-z0-9._/-]{0,500}))?")


@dataclass(frozen=True)
class BucketLocation:
    """`prefix` is without slashes around it; empty for the whole bucket."""

    bucket: str
    prefix: str


class BucketSettings(BaseModel):
    """Part of `Settings`."""

    bucket_url: str | None = Field(
        None, description="Bucket for uploads and outputs, s3://name/prefix; the data folder when not given."
    )
    bucket_endpoint: str | None = Field(
        None, description="URL of an S3-compatible store; Amazon's when not given, or what AWS_ENDPOINT_URL says."
    )
    bucket_region: str | None = Field(
        None, pattern=r"^[a-z0-9-]{1,40}$", description="The bucket's region; us-east-1, or what AWS_REGION says."
    )
    bucket_access_key: SecretStr | None = Field(
        None, description="Access key; AWS_ACCESS_KEY_ID or the instance's role when not given."
    )
    bucket_secret_key: SecretStr | None = Field(None, description="Secret key that belongs to it.")
    bucket_path_style: bool | None = Field(
        None, description="Address the bucket by path, not by host name; on with an endpoint, else off."
    )
    bucket_retry_seconds: float = Field(
        300.0, ge=0, le=86_400, description="How long work waits for a store that does not answer before it fails."
    )
    bucket_redirect_seconds: int | None = Field(
        None,
        ge=1,
        le=7 * 86_400,
        description="Send who downloads an output to the store itself, with an address that holds for so long; "
        "outputs go through the service when not given.",
    )

    @field_validator("bucket_url")
    @classmethod
    def _is_bucket(cls, url: str | None) -> str | None:
        if url is not None and (_URL.fullmatch(url) is None or ".." in url or "//" in url.removeprefix("s3://")):
            raise ValueError("a bucket is written as s3://name or s3://name/prefix")
        return url

    @field_validator("bucket_endpoint")
    @classmethod
    def _is_endpoint(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise ValueError("an endpoint is written as https://host or http://host:port")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.bucket_access_key is None) != (self.bucket_secret_key is None):
            raise ValueError("TRANSCODER_BUCKET_ACCESS_KEY and TRANSCODER_BUCKET_SECRET_KEY go together")
        return self

    @property
    def bucket(self) -> BucketLocation:
        match = _URL.fullmatch(self.bucket_url or "")
        if match is None:
            raise ValueError("there is no bucket")
        return BucketLocation(match[1], (match[2] or "").strip("/"))

    @property
    def path_style(self) -> bool:
        return self.bucket_endpoint is not None if self.bucket_path_style is None else self.bucket_path_style
