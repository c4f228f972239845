"""What a user asks for as text subtitles beside an input: where the file is, and what the track made of it says."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipelines.asked.rungs import Model

MAX_FILES = 16

Charset = Literal[
    "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32",
    "windows-1250", "windows-1251", "windows-1252", "windows-1253", "windows-1254", "windows-1255", "windows-1256",
    "windows-1257", "windows-1258", "windows-874",
    "iso-8859-1", "iso-8859-2", "iso-8859-3", "iso-8859-4", "iso-8859-5", "iso-8859-6", "iso-8859-7", "iso-8859-8",
    "iso-8859-9", "iso-8859-10", "iso-8859-13", "iso-8859-14", "iso-8859-15", "iso-8859-16",
    "koi8-r", "koi8-u", "cp437", "cp850", "cp852", "cp866", "mac-roman",
    "shift-jis", "euc-jp", "iso-2022-jp", "gb18030", "gbk", "big5", "big5-hkscs", "euc-kr", "cp949", "johab",
]  # fmt: skip


class SubtitleFile(Model):
    """An SRT, ASS (SSA) or WebVTT file: exactly one of `url`, `upload` and `path`, as for the input itself.

    Its track comes after the input's own subtitle tracks, in the list's order.
    """

    url: str | None = Field(None, max_length=8192)
    upload: str | None = Field(None, max_length=200)
    path: str | None = Field(None, max_length=4096)
    language: Annotated[str, Field(pattern=r"^[a-zA-Z-]{2,12}$")] | None = Field(None, description="ISO 639")
    title: str | None = Field(None, min_length=1, max_length=200)
    default: bool = Field(False, description="shown unless the viewer says otherwise")
    forced: bool = Field(False, description="for what the viewer can't understand, such as signs")
    charset: Charset | None = Field(None, description="the text's encoding; told from its bytes when not given")
    offset_seconds: float = Field(
        0.0, ge=-86_400, le=86_400, allow_inf_nan=False, description="how much later it is shown than the file says"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(value is not None for value in (self.url, self.upload, self.path)) != 1:
            raise ValueError("give exactly one of url, upload, path")
        return self

    @property
    def key(self) -> str:
        """What its file is known by."""
        if self.url is not None:
            return f"url:{self.url}"
        return f"path:{self.path}" if self.upload is None else f"upload:{self.upload}"

    @property
    def label(self) -> str:
        """The same for messages: what an address asks with may be secret."""
        return self.key.partition("?")[0] if self.url is not None else self.key
