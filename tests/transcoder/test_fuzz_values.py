"""Values that anybody may send, whatever they are: read, or refused in words. Each run tries the same ones."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Network, ip_address
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from starlette.testclient import TestClient

from pipelines.spec import FileJob
from tests.transcoder.fixtures_api import ScriptedExecutor
from transcoder.api.tus import InvalidHeader, name_in
from transcoder.app import create_app
from transcoder.network.addresses import BlockedAddress, is_allowed, parse_literal, parse_url
from transcoder.service import Service
from transcoder.settings import Settings
from transcoder.webhooks.send import check_url

same_each_run = partial(
    settings, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)

numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.just(10**400))
texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["1e1000000000", "1/0", "30000/1001", "\ud800", "a\0b", "../x", "NaN", "copy", "mp4", "h264"]),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)

WHOLE: dict[str, Any] = {
    "input": {"url": "https://example.org/a.mov", "clip": {"start": 1, "end": 2.5}},
    "outputs": [
        {
            "type": "mp4",
            "name": "a",
            "video": {
                "codec": "h264",
                "height": 720,
                "frame_rate": "30000/1001",
                "rate_control": {"mode": "crf", "crf": 23, "maxrate": 4_000_000},
                "gop_seconds": 2,
            },
            "audio": {"codec": "aac", "bitrate": 128_000, "tracks": [0, 1], "languages": ["de"]},
            "subtitles": {"tracks": "all"},
        },
        {"type": "audio", "format": "opus", "audio": {"codec": "opus"}},
        {"type": "mkv", "video": "copy", "audio": None},
    ],
    "queue": "default",
    "priority": 3,
    "device": {"policy": "auto", "id": None, "fallback": True},
    "max_missing": 0.5,
    "timeout_seconds": 60,
    "webhook": {"url": "https://example.org/hook", "events": ["job.failed"]},
    "metadata": {"title": "ü", "number": 1},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def replaced(path: tuple[Any, ...], value: Any) -> Any:
    """WHOLE with something else in one place."""
    if not path:
        return value
    changed = copy.deepcopy(WHOLE)
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


nearly_jobs = st.builds(replaced, st.sampled_from(sorted(places(WHOLE), key=str)), documents)


@pytest.mark.slow
@same_each_run(max_examples=300)
@given(nearly_jobs)
def test_spec_that_is_read_is_written_and_read_the_same(value: Any) -> None:
    try:
        job = FileJob.model_validate(value)
    except ValidationError:
        return
    # as the database keeps it, and as the child gets it
    assert FileJob.model_validate(json.loads(json.dumps(job.model_dump(mode="json")))) == job


@pytest.mark.parametrize("rate", ["1e1000000000", "1E-1000000000", "9" * 5000, "1/" + "9" * 5000, 1e300, 10**4000])
def test_frame_rate_of_any_size_is_refused_at_once(rate: object) -> None:
    started = time.monotonic()
    with pytest.raises(ValidationError):
        FileJob.model_validate(replaced(("outputs", 0, "video", "frame_rate"), rate))
    assert time.monotonic() - started < 1


def test_whole_spec_is_one() -> None:
    job = FileJob.model_validate(WHOLE)
    assert FileJob.model_validate_json(job.model_dump_json()) == job


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("fuzz") / "data"
    chosen = Settings(data_dir=folder, software_slots=0, shutdown_seconds=0.0, max_queued_jobs=10**6)
    app = create_app(chosen, make_service=partial(Service, supervisor=ScriptedExecutor()))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/plan", "/v1/probe"])
def test_any_json_is_answered(client: TestClient, path: str) -> None:
    @same_each_run(max_examples=60)
    @given(st.one_of(documents, nearly_jobs, st.fixed_dictionaries({"input": documents})))
    def posted(value: Any) -> None:
        # nothing of these leads anywhere: a URL that did would be fetched
        text = json.dumps(value).replace("https://example.org", "https://127.0.0.1")
        response = client.post(path, content=text.encode())
        assert response.status_code < 500, (text, response.text)
        assert response.is_success or response.headers["content-type"] == "application/problem+json"

    posted()
    assert client.get("/readyz").json()["ready"]


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/plan", "/v1/probe"])
def test_any_bytes_are_answered(client: TestClient, path: str) -> None:
    @same_each_run(max_examples=40)
    @given(st.binary(max_size=60), st.sampled_from(["application/json", "multipart/form-data; boundary=b", "\xff", ""]))
    def posted(content: bytes, kind: str) -> None:
        headers = {"content-type": kind.encode("latin-1")}
        assert client.post(path, content=content, headers=headers).status_code < 500

    posted()


hosts = st.one_of(
    st.ip_addresses().map(lambda address: f"[{address}]" if address.version == 6 else str(address)),
    st.sampled_from(
        ["localhost", "127.1", "0x7f.1", "0177.0.0.1", "2130706433", "0", "[::]", "[::ffff:7f00:1]", "１２７.0.0.1"]
    ),
    st.ip_addresses(network="127.0.0.0/8").map(str),
    st.ip_addresses(network="::ffff:10.0.0.0/104").map(lambda address: f"[{address}]"),
    st.ip_addresses(network="64:ff9b::a00:0/104").map(lambda address: f"[{address}]"),
    st.text(max_size=12),
)
urls = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["http://", "https://", "HTTP://", "ftp://", "//", "http:", "file:///", ""]),
    st.sampled_from(["", "", "", "u:p@", "a@b@"]),
    hosts,
    st.sampled_from(["", ":80", ":0", ":65536", ":", ":８０"]),
    st.one_of(st.just("/"), st.text(max_size=12)),
)


@pytest.mark.slow
@same_each_run(max_examples=400)
@given(urls)
def test_address_guard_lets_nothing_inside(url: str) -> None:
    try:
        check_url(url, ())
    except BlockedAddress:
        return
    target = parse_url(url)
    literal = parse_literal(target.host)
    assert literal is None or (is_allowed(literal) and not literal.is_private and not literal.is_loopback)
    # what is requested is ASCII without anything that could end a line or a host
    assert target.url.isascii()
    assert not set(target.url) & set("\r\n\t \\@")
    assert parse_url(target.url) == target


@pytest.mark.slow
@same_each_run(max_examples=300)
@given(st.ip_addresses(), st.sampled_from(["192.168.0.0/16", "10.0.0.0/8"]))
def test_allowed_network_opens_itself_only(address: Any, network: str) -> None:
    allowed = is_allowed(address, (IPv4Network(network),))
    assert allowed == is_allowed(address) or address in IPv4Network(network) or _carries(address, network)


def _carries(address: Any, network: str) -> bool:
    return address.version == 6 and any(
        ip_address(int(address) >> shift & 0xFFFF_FFFF) in IPv4Network(network) for shift in range(0, 97, 8)
    )


@pytest.mark.slow
@same_each_run(max_examples=300)
@given(details=st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=40))
def test_any_details_of_an_upload_are_read_or_refused(details: str) -> None:
    try:
        name = name_in(details)
    except InvalidHeader:
        return
    assert isinstance(name, str)
