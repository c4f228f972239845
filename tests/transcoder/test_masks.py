"""Keys of encrypted ladders are stored and used, and in nothing that is shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from pipelines.asked.ladders import KEY_MASK
from pipelines.errors import UnsupportedSpec
from pipelines.spec import FileJob
from tests.pipelines.facts import only_output
from tests.transcoder.fixtures_api import Api, problem
from transcoder.jobs import Job, JobStatus

KEY = "0123456789abcdef" * 2


def outputs(key: str = KEY) -> list[dict[str, Any]]:
    encryption = {"method": "sample-aes", "key": key, "uri": "https://keys.example.org/1", "iv": "00" * 16}
    return [{"type": "hls", "name": "ladder", "encryption": encryption}, {"type": "mp4", "name": "file"}]


def test_a_jobs_record_keeps_the_key_and_shows_asterisks() -> None:
    spec = FileJob.model_validate({"input": {"upload": "x"}, "outputs": outputs()})
    now = datetime.now(UTC)
    job = Job(id="a", kind="file", status=JobStatus.QUEUED, queue="default", priority=0, created_at=now, spec=spec)
    assert job.spec == spec
    assert KEY in spec.model_dump_json()
    for text in (job.model_dump_json(), json.dumps(job.model_dump(mode="json")), repr(job)):
        assert KEY not in text
    shown = job.model_dump(mode="json")
    assert shown["spec"]["outputs"][0]["encryption"]["key"] == KEY_MASK
    assert shown["spec"]["outputs"][1]["name"] == "file"
    assert Job.model_validate(shown).model_dump(mode="json") == shown


def test_the_schema_of_what_is_shown_is_that_of_a_job() -> None:
    spec = Job.model_json_schema(mode="serialization")["properties"]["spec"]
    assert {ref["$ref"].rpartition("/")[2] for ref in spec["oneOf"]} == {"FileJob", "StreamJob"}


@pytest.mark.slow
async def test_no_answer_has_the_key(api: Api) -> None:
    upload = (await api.upload())["id"]
    made = await api.http.post("/v1/jobs", json={"input": {"upload": upload}, "outputs": outputs()})
    assert made.status_code == 201
    job = made.json()["id"]
    await api.ended(job)
    paths = ("/v1/jobs", f"/v1/jobs/{job}", f"/v1/jobs/{job}/events", f"/v1/jobs/{job}/log", f"/v1/jobs/{job}/receipt")
    answers = [made, *[await api.http.get(path) for path in paths]]
    assert all(KEY not in answer.text for answer in answers)
    assert made.json()["spec"]["outputs"][0]["encryption"]["key"] == KEY_MASK


async def test_a_shown_job_is_not_taken_for_one_with_a_key(api: Api) -> None:
    upload = (await api.upload())["id"]
    answer = await api.http.post("/v1/jobs", json={"input": {"upload": upload}, "outputs": outputs(KEY_MASK)})
    assert "ladder" in problem(answer, 422, "invalid_request")["detail"]


def test_asterisks_are_no_key_to_plan_with() -> None:
    with pytest.raises(UnsupportedSpec, match="asterisks"):
        only_output(outputs(KEY_MASK)[0])
