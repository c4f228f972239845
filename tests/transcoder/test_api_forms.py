"""The form reader: whatever way a form is cut into chunks, and whatever is wrong with it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcoder.api.forms import Form, boundary_of, receive_form
from transcoder.api.problems import MalformedBody
from transcoder.errors import PayloadTooLarge
from transcoder.storage import Storage


def part(disposition: str, content: bytes) -> bytes:
    return b"--b\r\nContent-Disposition: form-data; " + disposition.encode() + b"\r\n\r\n" + content + b"\r\n"


FILE = part('name="file"; filename="a.mov"', b"\r\n--bb\r\n-- b --b" * 100)
FIELD = part('name="preset"', b"web-mp4")
END = b"--b--\r\n"


async def read(body: bytes, folder: Path, *, cuts: list[int] | None = None) -> Form:
    storage = Storage(folder, max_upload_bytes=1 << 20)
    storage.prepare()
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts or []), len(body)]

    async def chunks() -> AsyncIterator[bytes]:
        for start, end in itertools.pairwise(edges):
            yield body[start:end]

    return await receive_form(chunks(), b"b", storage.receive)


@pytest.mark.slow
@given(cuts=st.lists(st.integers(0, 10_000), max_size=20), file_first=st.booleans())
def test_chunk_edges_and_field_order_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], file_first: bool
) -> None:
    folder = tmp_path_factory.mktemp("data")
    body = (FILE + FIELD if file_first else FIELD + FILE) + END
    form = asyncio.run(read(body, folder, cuts=cuts))
    assert form.fields == {"preset": "web-mp4"}
    assert form.file is not None
    assert form.file.name == "a.mov"
    assert (folder / "uploads" / form.file.id).read_bytes() == b"\r\n--bb\r\n-- b --b" * 100


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('name="file"; filename="a \\"b\\".mov"', 'a "b".mov'),
        ('name="file"; filename="ü.mov"', "ü.mov"),
        ('name="file"; filename=""', "upload"),
        ('name="file"', "upload"),
        ('filename="C:\\\\a\\\\b.mov"; name=file', None),
    ],
)
async def test_file_name_is_read_in_every_form(tmp_path: Path, disposition: str, name: str | None) -> None:
    form = await read(part(disposition, b"x") + END, tmp_path)
    assert form.file is not None
    if name is not None:
        assert form.file.name == name


BROKEN = {
    "no end": FILE + FIELD,
    "cut in the file": FILE[:-20],
    "two files": FILE + FILE + END,
    "a file in another field": part('name="video"; filename="a.mov"', b"x") + END,
    "a field twice": FIELD + FIELD + FILE + END,
    "no name": part('filename="a"', b"x") + END,
    "no disposition": b"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n" + FILE + END,
    "not form-data": b"--b\r\nContent-Disposition: attachment; name=file\r\n\r\nx\r\n" + END,
    "other boundary": FILE.replace(b"--b\r\n", b"--c\r\n", 1) + END,
    "a field that is no UTF-8": FILE + part('name="preset"', b"\xff\xfe") + END,
    "no multipart": b"hello",
    "empty": b"",
    "long header": b"--b\r\nContent-Disposition: " + b"a" * 100_000,
    "many headers": b"--b\r\n" + b"X-A: b\r\n" * 1000,
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
async def test_broken_form_is_refused_and_leaves_nothing(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(MalformedBody):
        await read(body, tmp_path)
    assert list((tmp_path / "uploads").iterdir()) == []


@pytest.mark.parametrize(
    "body",
    [
        b"".join(part(f'name="f{number}"', b"") for number in range(100_000)) + FILE + END,
        FILE + part('name="spec"', b"a" * ((1 << 20) + 1)) + END,
        part('name="file"; filename="a"', b"a" * (1 << 20) + b"a") + END,
    ],
    ids=["many fields", "large field", "large file"],
)
async def test_form_past_a_limit_is_refused_and_leaves_nothing(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(PayloadTooLarge):
        await read(body, tmp_path, cuts=list(range(0, len(body), 65536)))
    assert list((tmp_path / "uploads").iterdir()) == []


@pytest.mark.slow
@given(st.binary(max_size=300))
def test_any_bytes_are_a_form_or_refused(tmp_path_factory: pytest.TempPathFactory, body: bytes) -> None:
    folder = tmp_path_factory.mktemp("data")
    for candidate in (body, b"--b\r\n" + body, FILE[:60] + body):
        try:
            form = asyncio.run(read(candidate, folder))
        except (MalformedBody, PayloadTooLarge):
            continue
        assert isinstance(form, Form)


def test_boundary_is_needed_only_in_forms() -> None:
    assert boundary_of("multipart/form-data; boundary=abc") == b"abc"
    assert boundary_of('Multipart/Form-Data; charset=utf-8; boundary="a b"') == b"a b"
    assert boundary_of("application/json") is None
    assert boundary_of("") is None
    for wrong in ("multipart/form-data", "multipart/form-data; boundary=", f"multipart/form-data; boundary={'b' * 71}"):
        with pytest.raises(MalformedBody):
            boundary_of(wrong)
