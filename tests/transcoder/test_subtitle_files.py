"""Files of subtitles beside a job's input, through the service: brought as inputs are, read in the sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.asked.subtitle_files import SubtitleFile
from pipelines.spec import FileJob
from tests.acceptance.live import LiveServer, live_server
from tests.captions import captions
from tests.media import make_video
from tests.transcoder.fixtures_api import SPEC, Api, problem
from tests.transcoder.stubs import StubExecutor, ended, give_upload, running_service, settings_for
from transcoder.database import Database
from transcoder.inputs import LocalInput, inputs_for
from transcoder.network.fetch import FetchedFile
from transcoder.reuse.key import work_key
from transcoder.storage import Storage
from transcoder.uploads.uploads import UploadStore

SRT = "1\n00:00:00,200 --> 00:00:00,800\nSchöne Grüße\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    roots = tmp_path_factory.mktemp("media")
    make_video(roots / "in.mkv", size=(96, 64), seconds=1)
    (roots / "film.de.srt").write_bytes(SRT.encode("cp1252"))
    (roots / "prose.srt").write_text("Once upon a time")
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1", TRANSCODER_MEDIA_ROOTS=str(roots)) as running:
        yield running


def asked(*texts: dict[str, Any], **source: Any) -> dict[str, Any]:
    output = {"type": "mp4", "video": {"height": 48, "speed": "ultrafast"}}
    return {"input": {**source, "subtitles": list(texts)}, "outputs": [output]}


@pytest.mark.slow
def test_an_upload_and_a_path_become_tracks(server: LiveServer, tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(SRT, encoding="utf-16")
    upload = json.loads(server.curl("-T", tmp_path / "a.srt", "/v1/uploads/").out)["id"]
    spec = asked({"upload": upload, "language": "deu"}, {"path": "film.de.srt", "language": "deu"}, path="in.mkv")
    told = json.loads(server.curl("--json", json.dumps(spec), "/v1/plan").out)
    reasons = [rendition["reason"] for rendition in told["outputs"][0]["renditions"]]
    assert reasons[-2:] == [
        f"subtitles file 1 (upload:{upload}), utf-16-le: subrip to mov_text, mp4's kind",
        "subtitles file 2 (path:film.de.srt), cp1252 by its bytes: subrip to mov_text, mp4's kind",
    ]
    tracks = json.loads(server.curl("--json", json.dumps({"input": spec["input"]}), "/v1/probe").out)["subtitles"]
    assert [track["beside"]["charset"] for track in tracks] == ["utf-16-le", "cp1252"]
    job = server.ended(spec)
    assert job["status"] == "completed", job["error"]
    server.curl("-o", tmp_path / "out.mp4", f"/v1/jobs/{job['id']}/outputs/output.mp4")
    for track in (0, 1):
        assert [(cue.begin, cue.end, cue.text) for cue in captions(tmp_path / "out.mp4", track)] == [
            (0.2, 0.8, "Schöne Grüße")
        ]


@pytest.mark.slow
def test_a_broken_file_fails_the_job_by_name(server: LiveServer) -> None:
    job = server.ended(asked({"path": "film.de.srt"}, {"path": "prose.srt"}, path="in.mkv"))
    assert job["status"] == "failed"
    assert job["error"]["code"] == "bad_subtitles"
    assert job["error"]["facts"] == {"subtitles": 2, "file": "path:prose.srt"}
    assert len(job["attempts"]) == 1


async def test_a_child_may_read_the_files_and_no_others(tmp_path: Path) -> None:
    roots = tmp_path / "roots"
    roots.mkdir()
    (roots / "a.srt").write_text(SRT)
    async with running_service(tmp_path, executor := StubExecutor(), media_roots=(roots,)) as service:
        film, text = await give_upload(service), await give_upload(service, SRT.encode())
        spec = asked({"upload": text.id}, {"path": "a.srt"}, upload=film.id)
        job, _ = await service.submit(FileJob.model_validate(spec))
        assert (await ended(service, job.id)).status == "completed"
    (task,) = executor.tasks
    beside = {key: Path(path) for key, path in task.payload["beside"].items()}
    assert set(beside) == {f"upload:{text.id}", "path:a.srt"}
    assert beside["path:a.srt"] == roots / "a.srt"
    assert set(task.readable) == {Path(task.payload["path"]), *beside.values()}


async def test_an_address_is_fetched_by_the_rules_of_inputs_and_no_further_than_subtitles_go(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    async def fetch(url: str, target: Path, **limits: Any) -> FetchedFile:
        asked.append({"url": url, **limits})
        target.write_text(SRT)
        return FetchedFile(path=target, size=len(SRT), name="a.srt")

    settings = settings_for(tmp_path)
    storage = Storage(settings.data_dir, max_upload_bytes=1)
    inputs = replace(inputs_for(settings, storage, UploadStore(Database("sqlite+aiosqlite://"))), fetch=fetch)
    text = SubtitleFile(url="https://example.org/a.srt?token=1")
    source = LocalInput(tmp_path / "in", "in")
    found = await inputs.with_beside(source, [text], "default", tmp_path, total_seconds=9)
    assert found.beside[text.key].read_text() == SRT
    (told,) = asked
    assert told["url"] == text.url
    assert (told["max_bytes"], told["allowed_networks"]) == (8 << 20, settings.allowed_networks)
    assert 0 < told["total_seconds"] <= 9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ({"upload": "01" * 13}, "upload_not_found"),
        ({"path": "/etc/passwd"}, "path_not_allowed"),
        ({"url": "ftp://example.org/a.srt"}, "blocked_address"),
        ({"url": "http://example.org/\r\na.srt"}, "blocked_address"),
    ],
)
async def test_the_rules_of_inputs_hold_for_files_beside_them(api: Api, text: dict[str, Any], code: str) -> None:
    film = (await api.upload())["id"]
    body = {"input": {"upload": film, "subtitles": [text]}, **SPEC}
    problem(await api.http.post("/v1/jobs", json=body), 422, code)


async def test_their_uploads_are_kept_for_a_waiting_job(api: Api) -> None:
    api.executor.gate.clear()
    film, text = [await api.upload(name=name) for name in ("a.mov", "a.srt")]
    body = {"input": {"upload": film["id"], "subtitles": [{"upload": text["id"]}]}, **SPEC}
    job = await api.http.post("/v1/jobs", json=body)
    problem(await api.http.delete(f"/v1/uploads/{text['id']}"), 409, "conflict")
    api.executor.gate.set()
    await api.ended(job.json()["id"])
    assert (await api.http.delete(f"/v1/uploads/{text['id']}")).status_code == 204


async def test_joined_inputs_have_none(api: Api) -> None:
    there = {"upload": (await api.upload())["id"]}
    body = {"inputs": [there, {**there, "subtitles": [{"path": "a.srt"}]}], **SPEC}
    problem(await api.http.post("/v1/jobs", json=body), 422, "invalid_request")


def test_the_same_film_with_other_subtitles_is_other_work() -> None:
    def key(*texts: dict[str, Any]) -> str:
        return work_key(FileJob.model_validate(asked(*texts, upload="a")), "sha256:0")

    keys = [key(), key({"upload": "b"}), key({"upload": "c"}), key({"upload": "b", "offset_seconds": 1})]
    assert len(set(keys)) == 4
