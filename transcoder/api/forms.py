"""multipart/form-data with one file, streamed: the file's bytes go to the disk as they come, fields stay small."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from transcoder.api.problems import MalformedBody
from transcoder.errors import PayloadTooLarge
from transcoder.jobs import Upload
from transcoder.uploads.sink import UploadSink

Receive = Callable[[str], AbstractAsyncContextManager[UploadSink]]
"""What takes a file of that name, such as `Storage.receive`."""

MAX_FIELDS = 16
MAX_FIELD_BYTES = 1 << 20
MAX_HEADER_BYTES = 8192


@dataclass(frozen=True)
class Form:
    """`fields` in the order they came; a name that came twice is an error."""

    fields: dict[str, str]
    file: Upload | None


@dataclass(frozen=True)
class _Begin:
    """A part's headers are known. `file_name` is None for a field."""

    name: str
    file_name: str | None


@dataclass(frozen=True)
class _Data:
    content: bytes


@dataclass(frozen=True)
class _End:
    """A part ended."""


_News = _Begin | _Data | _End


@dataclass
class _Parts:
    """Turns the parser's callbacks into news, a chunk's worth at a time."""

    boundary: bytes
    _news: list[_News] = field(default_factory=list)
    _headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    _name: bytes = b""
    _value: bytes = b""
    _finished: bool = False

    def __post_init__(self) -> None:
        self._parser = MultipartParser(
            self.boundary,
            {
                "on_part_begin": self._headers.clear,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": lambda: self._news.append(_End()),
                "on_end": self._on_end,
            },
            max_header_count=8,
            max_header_size=MAX_HEADER_BYTES,
        )

    def feed(self, chunk: bytes) -> Iterator[_News]:
        """What `chunk` brings; MalformedBody when it is no multipart."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise MalformedBody(f"the form is broken: {error}") from None
        news, self._news = self._news, []
        return iter(news)

    def finish(self) -> None:
        """MalformedBody when the closing boundary is missing."""
        if not self._finished:
            raise MalformedBody("the form ends before its closing boundary")

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers.append((self._name.lower(), self._value))
        self._name = self._value = b""

    def _on_headers_finished(self) -> None:
        disposition = next((value for name, value in self._headers if name == b"content-disposition"), b"")
        kind, options = parse_options_header(disposition)
        if kind != b"form-data" or b"name" not in options:
            raise MalformedBody("a part of the form has no name")
        file_name = options[b"filename"].decode("utf-8", "replace") if b"filename" in options else None
        self._news.append(_Begin(options[b"name"].decode("utf-8", "replace"), file_name))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._news.append(_Data(data[start:end]))

    def _on_end(self) -> None:
        self._finished = True


def boundary_of(content_type: str) -> bytes | None:
    """The boundary of a multipart/form-data type; None for other types. MalformedBody without one."""
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        return None
    boundary = options.get(b"boundary", b"")
    if not 0 < len(boundary) <= 70:
        raise MalformedBody("the form's boundary is missing or too long")
    return boundary


async def receive_form(
    chunks: AsyncIterator[bytes], boundary: bytes, receive: Receive, *, file_field: str = "file"
) -> Form:
    """Reads a form and gives the file in the field `file_field` to `receive`. Nothing is kept when it raises.

    Parts may come in any order. All fields together are at most 1 MiB; more than 16 are refused.
    """
    async with AsyncExitStack() as kept:
        reader = _Reader(receive, file_field, kept)
        parts = _Parts(boundary)
        async for chunk in chunks:
            for news in parts.feed(chunk):
                await reader.take(news)
        parts.finish()
        fields = reader.fields()
    return Form(fields, reader.sink.upload if reader.sink is not None else None)


class _Reader:
    """Takes a form's parts. The sink stays open in `kept` to the form's end, so that a broken form leaves no upload."""

    def __init__(self, receive: Receive, file_field: str, kept: AsyncExitStack) -> None:
        self._receive, self._file_field, self._kept = receive, file_field, kept
        self.sink: UploadSink | None = None
        self._fields: dict[str, bytearray] = {}
        self._field: bytearray | None = None
        self._room_bytes = MAX_FIELD_BYTES

    async def take(self, news: _News) -> None:
        match news:
            case _Begin(name, file_name) if name == self._file_field:
                await self._begin_file(file_name or "")
            case _Begin(name, file_name):
                self._begin_field(name, file_name)
            case _Data(content) if self._field is not None:
                self._add(content)
            case _Data(content) if self.sink is not None:
                await self.sink.write(content)
            case _:
                self._field = None

    async def _begin_file(self, file_name: str) -> None:
        if self.sink is not None:
            raise MalformedBody(f"the form has more than one {self._file_field}")
        self._field = None
        self.sink = await self._kept.enter_async_context(self._receive(file_name))

    def _begin_field(self, name: str, file_name: str | None) -> None:
        if file_name is not None:
            raise MalformedBody(f"the form's file is in the field {self._file_field}")
        if name in self._fields:
            raise MalformedBody("a field of the form is there twice")
        if len(self._fields) >= MAX_FIELDS:
            raise PayloadTooLarge(f"the form has more than {MAX_FIELDS} fields", limit_fields=MAX_FIELDS)
        self._field = self._fields[name] = bytearray()

    def _add(self, content: bytes) -> None:
        assert self._field is not None
        self._room_bytes -= len(content)
        if self._room_bytes < 0:
            raise PayloadTooLarge(
                f"the form's fields have more than {MAX_FIELD_BYTES} bytes", limit_bytes=MAX_FIELD_BYTES
            )
        self._field += content

    def fields(self) -> dict[str, str]:
        try:
            return {name: value.decode() for name, value in self._fields.items()}
        except UnicodeDecodeError:
            raise MalformedBody("a field of the form is not UTF-8") from None
