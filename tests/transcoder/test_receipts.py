"""Receipts of the service: written by the attempt that was published, kept with the job, shown to its tenant."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from pipelines.hardware.drm_usage import GpuClock
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.receipt.values import Receipt
from pipelines.rendition import Plan
from pipelines.spec import FileJob
from pipelines.transcode import transcode
from tests.jobs import DEVICE, SMALL
from tests.media import make_video
from tests.transcoder.fixtures_api import Api, problem
from tests.transcoder.stubs import ended, give_upload, settings_for
from tests.transcoder.test_cli_run import transcoder
from tests.transcoder.test_gpu_load import I915, XE, Proc
from transcoder.clock import utc_now
from transcoder.errors import JobNotFound, ReceiptNotFound
from transcoder.inputs import LocalInput
from transcoder.jobs import Attempt, ErrorInfo
from transcoder.queueing.admission import Claim
from transcoder.receipts.notes import Notes
from transcoder.receipts.store import read_receipt
from transcoder.service import Service

OUTPUTS = [{"type": "mp4", "video": SMALL}, {"type": "hls", "name": "show", "segment_seconds": 1, "video": [SMALL]}]


@pytest.mark.slow
async def test_receipt_has_the_hashes_of_the_files_and_outlives_the_service(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mp4", size=(160, 120), seconds=2)
    async with Service(settings_for(tmp_path)) as service:
        upload = await give_upload(service, clip.read_bytes())
        spec = FileJob.model_validate({"input": {"upload": upload.id}, "outputs": OUTPUTS})
        job, _ = await service.submit(spec)
        done = await ended(service, job.id, seconds=60)
        assert done.error is None
        root = service.storage.depot.output_folder(job.id, done.published_attempt)
        files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    async with Service(settings_for(tmp_path)) as service:
        body = await read_receipt(service.database, job.id, "default")
        with pytest.raises(JobNotFound):
            await read_receipt(service.database, job.id, "another")
        await service.delete(job.id)
        with pytest.raises(JobNotFound):
            await read_receipt(service.database, job.id, "default")
    receipt = Receipt.model_validate(body)
    assert (receipt.job, receipt.attempt) == (job.id, 1)
    told = {file.path: (file.size, file.sha256) for output in receipt.outputs for file in output.files}
    assert told == {path: (len(data), hashlib.sha256(data).hexdigest()) for path, data in files.items()}
    assert receipt.source is not None
    assert receipt.source.sha256 == hashlib.sha256(clip.read_bytes()).hexdigest()
    assert {"fetch", "probe", "plan", "run", "verify", "publish"} <= set(receipt.costs.wall_seconds)
    assert receipt.costs.cpu_seconds is not None
    assert receipt.costs.cpu_seconds > 0
    assert str(tmp_path) not in json.dumps(body)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [True, False])
async def test_inputs_that_are_no_uploads_are_hashed_unless_told_not_to(tmp_path: Path, wanted: bool) -> None:
    clip = make_video(tmp_path / "media.mp4", size=(160, 120), seconds=1)
    settings = settings_for(tmp_path).model_copy(update={"media_roots": (tmp_path,)})
    async with Service(settings) as service:
        spec = FileJob.model_validate(
            {"input": {"path": str(clip)}, "outputs": OUTPUTS[:1], "receipt": {"source_hash": wanted}}
        )
        job, _ = await service.submit(spec)
        await ended(service, job.id, seconds=60)
        body = await read_receipt(service.database, job.id, "default")
    expected = hashlib.sha256(clip.read_bytes()).hexdigest() if wanted else None
    assert body["source"]["sha256"] == expected


def test_attempts_that_failed_before_are_told(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mp4", size=(160, 120), seconds=1)
    plans: list[Plan] = []
    (tmp_path / "out").mkdir()
    spec = FileJob.model_validate({"input": {"path": "in"}, "outputs": OUTPUTS[:1]})
    file = LocalFile(clip, clip.name)
    result = transcode(spec, file, tmp_path / "out", device=DEVICE, limits=Limits(), on_plan=plans.append)
    failed = Attempt(
        number=1, device="gpu", status="failed", reason="first", started_at=utc_now(),
        error=ErrorInfo(code="device_lost", message="gone"),
    )  # fmt: skip
    notes = Notes(Claim("j", "t", "j-0", 2, DEVICE, {}), (failed,))
    told = plans[0].model_dump(mode="json")
    receipt = Receipt.model_validate(notes.receipt(told, result, (), LocalInput(clip, "clip.mp4"), None))
    assert receipt.attempt == 2
    assert [(each.number, each.device, each.code) for each in receipt.earlier_attempts] == [(1, "gpu", "device_lost")]
    assert notes.receipt({"device": "software"}, result, (), LocalInput(clip, "clip.mp4"), None) is None


@pytest.mark.slow
async def test_job_without_a_result_has_no_receipt(api: Api) -> None:
    api.executor.gate.clear()
    job = await api.submit()
    problem(await api.http.get(f"/v1/jobs/{job['id']}/receipt"), 404, "receipt_not_found")
    api.executor.gate.set()
    await api.ended(job["id"])
    # this executor tells no plan that could be understood
    with pytest.raises(ReceiptNotFound):
        await read_receipt(api.service.database, job["id"], "default")
    problem(await api.http.get(f"/v1/jobs/{'0' * 34}/receipt"), 404, "job_not_found")


def test_command_line_writes_a_receipt_of_the_file_it_made(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mkv", size=(160, 120), seconds=1)
    out, written = tmp_path / "small.mp4", tmp_path / "receipt.json"
    assert transcoder("run", clip, out, "--height", "64", "--receipt", written, "--quiet") == 0
    receipt = Receipt.model_validate_json(written.read_bytes())
    (file,) = receipt.outputs[0].files
    assert (file.path, file.size, file.sha256) == (
        "small.mp4",
        out.stat().st_size,
        hashlib.sha256(out.read_bytes()).hexdigest(),
    )
    assert receipt.source is not None
    assert receipt.source.sha256 == hashlib.sha256(clip.read_bytes()).hexdigest()
    assert receipt.command is not None
    assert receipt.command.text.endswith("small.mp4")
    assert transcoder("run", clip, out, "--receipt", out, "--force") == 2


@pytest.mark.parametrize("text", [I915, XE], ids=["i915", "xe"])
def test_gpu_time_is_what_the_kernel_counted_since(tmp_path: Path, text: str) -> None:
    proc = Proc(tmp_path)
    second = 1_000_000_000
    proc.open(7, 5, text.format(client=1, video=3 * second, total=100 * second))
    clock = GpuClock(tmp_path / "7", now_ns=0)
    proc.open(7, 5, text.format(client=1, video=5 * second, total=110 * second))
    proc.open(7, 6, text.format(client=2, video=second, total=110 * second))
    assert clock.seconds(now_ns=10 * second)["video"] == pytest.approx(3.0)


def test_process_without_a_gpu_has_no_gpu_time(tmp_path: Path) -> None:
    assert GpuClock(tmp_path / "none").seconds() == {}
