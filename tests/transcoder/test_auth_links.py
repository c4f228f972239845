"""Signed links: they lead to one thing, for a while, without a key; nothing about them can be changed."""

from __future__ import annotations

import stat
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import pytest_asyncio

from tests.transcoder.fixtures_api import BODY, Api, problem, serving_api
from tests.transcoder.fixtures_auth import Caller, keyed_api, make_key, store_of
from transcoder.auth.errors import BadSignature, LinkExpired
from transcoder.auth.keys import parse_token
from transcoder.auth.links import FolderLink, Link, LinkSigner
from transcoder.auth.secret import UnusableSecret, server_secret
from transcoder.clock import utc_now

module_loop = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Linked:
    api: Api
    owner: Caller
    job_id: str
    url: str

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.url).query, keep_blank_values=True).items()}

    def with_query(self, **changes: str) -> str:
        return f"{self.path}?{urlencode(self.query | changes)}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def linked(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Linked, None]:
    async with keyed_api(tmp_path_factory.mktemp("links") / "data", requests_burst=10_000) as (api, owner):
        job_id = await owner.finished_job()
        response = await owner.request("POST", f"/v1/jobs/{job_id}/outputs/output.mp4/link?expires_seconds=600")
        assert response.status_code == 200, response.text
        yield Linked(api, owner, job_id, response.json()["url"])


@pytest.mark.slow
@module_loop
async def test_link_needs_no_key_and_serves_ranges(linked: Linked) -> None:
    http = linked.api.http
    whole = await http.get(linked.url)
    assert (whole.status_code, whole.content) == (200, BODY)
    part = await http.get(linked.url, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, BODY[10:20])
    head = await http.head(linked.url)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(BODY)))
    saved = await http.get(linked.url + "&download=1")
    assert saved.headers["content-disposition"].startswith("attachment")


@pytest.mark.slow
@module_loop
async def test_link_may_be_embedded_elsewhere_and_a_plain_address_not(linked: Linked) -> None:
    by_link = await linked.api.http.get(linked.url)
    by_key = await linked.owner.request("GET", linked.path)
    assert by_link.headers["cross-origin-resource-policy"] == "cross-origin"
    assert by_key.headers["cross-origin-resource-policy"] == "same-origin"


@module_loop
async def test_link_says_when_it_ends(linked: Linked) -> None:
    made = utc_now()
    answer = (await linked.owner.request("POST", f"{linked.path}/link?expires_seconds=60")).json()
    expires = datetime.fromisoformat(answer["expires_at"])
    assert timedelta(seconds=58) <= expires - made <= timedelta(seconds=62)
    assert answer["url"].startswith(f"http://127.0.0.1:{linked.api.port}/v1/jobs/{linked.job_id}/outputs/output.mp4?")


@module_loop
async def test_changed_link_is_a_bad_signature(linked: Linked) -> None:
    other_key = await make_key(store_of(linked.api), "default")
    token = parse_token(other_key)
    assert token is not None
    signature = linked.query["signature"]
    for changed in (
        linked.with_query(expires=str(int(linked.query["expires"]) + 1)),
        linked.with_query(expires="9" * 12),
        linked.with_query(expires="9" * 400),
        linked.with_query(expires="-1"),
        linked.with_query(expires=""),
        linked.with_query(key=token.key_id),
        linked.with_query(key=""),
        linked.with_query(signature=signature[:-2] + ("AA" if signature[-2:] != "AA" else "BB")),
        linked.with_query(signature=""),
        linked.with_query(signature="\u00fc\u0000"),
        f"{linked.path}x?{urlencode(linked.query)}",
        f"/v1/jobs/{linked.job_id}?{urlencode(linked.query)}",
        f"/v1/jobs/{linked.job_id}/log?{urlencode(linked.query)}",
        f"/v1/jobs?{urlencode(linked.query)}",
        f"/metrics?{urlencode(linked.query)}",
    ):
        problem(await linked.api.http.get(changed), 403, "bad_signature")


@module_loop
async def test_link_is_for_reading(linked: Linked) -> None:
    for method in ("PUT", "POST", "DELETE", "PATCH"):
        problem(await linked.api.http.request(method, linked.url), 401, "unauthorized")


@module_loop
async def test_link_that_is_over_has_expired(linked: Linked) -> None:
    signer: LinkSigner = linked.api.app.state.gatekeeper.signer
    past = int(utc_now().timestamp()) - 1
    query = signer.query(Link(linked.path, linked.query["key"], past))
    body = problem(await linked.api.http.get(f"{linked.path}?{query}"), 403, "link_expired")
    assert datetime.fromisoformat(body["facts"]["expired_at"]).timestamp() == past


@module_loop
async def test_link_ends_with_the_key_that_made_it(linked: Linked) -> None:
    keys = store_of(linked.api)
    token = await make_key(keys, "default")
    made = await Caller(linked.api, token).request("POST", f"{linked.path}/link")
    parsed = parse_token(token)
    assert parsed is not None
    await keys.revoke(parsed.key_id, utc_now())
    linked.api.app.state.gatekeeper.authority._known.clear()
    problem(await linked.api.http.get(made.json()["url"]), 403, "link_expired")


@module_loop
async def test_nobody_links_to_what_is_not_theirs(linked: Linked) -> None:
    other = Caller(linked.api, await make_key(store_of(linked.api), "other"))
    problem(await other.request("POST", f"{linked.path}/link"), 404, "job_not_found")
    problem(await linked.owner.request("POST", f"/v1/jobs/{linked.job_id}/outputs/nothing/link"), 404, "not_found")
    for seconds in ("0", "-1", "x", str(8 * 86_400), "9" * 30):
        body = problem(
            await linked.owner.request("POST", f"{linked.path}/link?expires_seconds={seconds}"), 422, "invalid_request"
        )
        assert body["errors"][0]["pointer"] == "expires_seconds"


@module_loop
async def test_events_are_followed_by_link(linked: Linked) -> None:
    made = await linked.owner.request("POST", f"/v1/jobs/{linked.job_id}/events/link")
    async with linked.api.http.stream("GET", made.json()["url"]) as events:
        assert events.status_code == 200
        text = "".join([part async for part in events.aiter_text()])
    assert "event: status" in text


@module_loop
async def test_a_picture_is_seen_by_link(linked: Linked) -> None:
    made = await linked.owner.request("POST", f"/v1/jobs/{linked.job_id}/thumbnail.jpg/link")
    url = made.json()["url"]
    # this executor makes no pictures: it is the call itself that answers, and the gate where the link is another's
    problem(await linked.api.http.get(url), 404, "thumbnail_not_found")
    problem(await linked.api.http.get(url.replace("thumbnail.jpg", "events")), 403, "bad_signature")
    assert (await linked.api.http.get(f"/v1/jobs/{linked.job_id}/thumbnail.jpg")).status_code == 401


@module_loop
async def test_link_does_not_wait_for_the_keys_rate(linked: Linked) -> None:
    linked.api.app.state.gatekeeper.buckets._buckets.clear()
    assert (await linked.api.http.get(linked.url)).status_code == 200
    assert linked.api.app.state.gatekeeper.buckets._buckets == {}


async def folder_link(linked: Linked, job_id: str | None = None) -> str:
    """The path of a link to a job's folder, up to the file's name."""
    job_id = job_id or linked.job_id
    made = await linked.owner.request("POST", f"/v1/jobs/{job_id}/outputs/output.mp4/link?folder=true")
    path = urlsplit(made.json()["url"]).path
    assert path.startswith("/v1/s/")
    return path.removesuffix("output.mp4")


@module_loop
async def test_link_to_a_folder_needs_no_key_and_serves_ranges(linked: Linked) -> None:
    http, base = linked.api.http, await folder_link(linked)
    whole = await http.get(f"{base}output.mp4")
    assert (whole.status_code, whole.content) == (200, BODY)
    assert whole.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "sandbox" in whole.headers["content-security-policy"]
    part = await http.get(f"{base}output.mp4", headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, BODY[10:20])
    assert (await http.head(f"{base}output.mp4")).headers["content-length"] == str(len(BODY))
    problem(await http.get(f"{base}other.mp4"), 404, "not_found")


@module_loop
async def test_changed_link_to_a_folder_is_a_bad_signature(linked: Linked) -> None:
    base, other = await folder_link(linked), await folder_link(linked, await linked.owner.finished_job())
    token = base.split("/")[3]
    told, signature = token.split(".")
    for changed in (
        f"/v1/s/{other.split('/')[3].split('.')[0]}.{signature}/output.mp4",
        f"/v1/s/{told}.{signature[:-2]}{'AA' if signature[-2:] != 'AA' else 'BB'}/output.mp4",
        f"/v1/s/{told}.{linked.query['signature']}/output.mp4",
        f"/v1/s/{told}/output.mp4",
        f"/v1/s/{token}/",
        f"/v1/s/{token}/a/%2e%2e/output.mp4",
        f"/v1/s/{token}/%2e%2e/log",
        f"/v1/s/{token}//output.mp4",
        f"/v1/s/{told}%00.{signature}/output.mp4",
        "/v1/s/x/output.mp4",
    ):
        problem(await linked.api.http.get(changed), 403, "bad_signature")


@module_loop
async def test_link_to_a_folder_is_for_reading(linked: Linked) -> None:
    base = await folder_link(linked)
    for method in ("PUT", "POST", "DELETE", "PATCH"):
        problem(await linked.api.http.request(method, f"{base}output.mp4"), 401, "unauthorized")


@module_loop
async def test_link_to_a_folder_ends_with_the_key_that_made_it(linked: Linked) -> None:
    keys, token = store_of(linked.api), await make_key(store_of(linked.api), "default")
    made = await Caller(linked.api, token).request("POST", f"{linked.path}/link?folder=true")
    parsed = parse_token(token)
    assert parsed is not None
    await keys.revoke(parsed.key_id, utc_now())
    linked.api.app.state.gatekeeper.authority._known.clear()
    problem(await linked.api.http.get(made.json()["url"]), 403, "link_expired")


def test_link_leads_to_its_folder_and_below_until_it_ends() -> None:
    signer, now = LinkSigner(b"s" * 32), utc_now()
    link = FolderLink("job", "lädder/", "k", int(now.timestamp()) + 9)
    base = signer.folder_path(link)
    assert signer.follow(f"{base}720p/ü #?.m4s", now).path == "lädder/720p/ü #?.m4s"
    with pytest.raises(LinkExpired):
        signer.follow(f"{base}index.m3u8", now + timedelta(seconds=10))
    with pytest.raises(BadSignature):
        LinkSigner(b"t" * 32).follow(f"{base}index.m3u8", now)


@pytest.mark.slow
async def test_link_outlives_a_restart_but_not_its_secret(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with keyed_api(data) as (_, owner):
        job_id = await owner.finished_job()
        made = (await owner.request("POST", f"/v1/jobs/{job_id}/outputs/output.mp4/link")).json()["url"]
    link = f"{urlsplit(made).path}?{urlsplit(made).query}"
    assert stat.S_IMODE((data / "link.secret").stat().st_mode) == 0o600
    async with serving_api(data) as api:
        assert (await api.http.get(link)).content == BODY
    async with serving_api(data, link_secret="s" * 32) as api:
        problem(await api.http.get(link), 403, "bad_signature")


@pytest.mark.slow
async def test_link_works_without_keys_until_there_are_some(api: Api) -> None:
    job = await api.ended((await api.submit())["id"])
    made = (await api.http.post(f"/v1/jobs/{job['id']}/outputs/output.mp4/link")).json()["url"]
    assert (await api.http.get(made)).content == BODY
    problem(await api.http.get(made.replace("signature=", "signature=x")), 403, "bad_signature")
    await make_key(store_of(api))
    api.app.state.gatekeeper.authority._asked_at = float("-inf")
    problem(await api.http.get(made), 403, "link_expired")


def test_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "link.secret"
    secret = server_secret(path)
    assert len(secret) == 32
    assert server_secret(path) == secret
    assert [file.name for file in tmp_path.iterdir()] == ["link.secret"]
    assert server_secret(tmp_path / "other") != secret
    path.write_bytes(b"short")
    with pytest.raises(UnusableSecret):
        server_secret(path)


def test_names_with_odd_characters_are_signed_as_they_are() -> None:
    signer, now = LinkSigner(b"s" * 32), utc_now()
    path = '/v1/jobs/a/outputs/ü\n","x/€ #?.mp4'
    link = Link(path, "k", int(now.timestamp()) + 9)
    query = {name: values[0] for name, values in parse_qs(signer.query(link)).items()}
    assert signer.verify(path, query, now) == link
