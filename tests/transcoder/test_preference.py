"""What measured speeds decide: slots by device, the CPU in place of a slower GPU, deadlines that can't be met."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines.devices import Capability, Device
from pipelines.estimates.speeds import Speed, Speeds
from pipelines.estimates.work import Estimate
from pipelines.spec import FileJob
from tests.transcoder.queue_sim import CPU, add, job_in, make_queues
from tests.transcoder.stubs import StubExecutor, ended, give_upload, job_for, running_service
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.errors import DeadlineImpossible, NoDevice
from transcoder.queueing import deadlines
from transcoder.queueing.admission import FreeSlots, claim
from transcoder.queueing.deadlines import check_reachable
from transcoder.queueing.preference import preference
from transcoder.queueing.queues import QueueSettings

GPU = Device(
    id="gpu0",
    kind="vaapi",
    name="GPU",
    slots=4,
    capabilities=tuple(
        Capability(direction="encode", codec=codec, encoder=f"{codec}_vaapi", api="vaapi") for codec in ("h264", "hevc")
    ),
)


def encode(coder: str, megapixels: float) -> Speed:
    return Speed(stage="encode", coder=coder, effort="medium", pixels_per_second=megapixels * 1e6)


def job(**video: Any) -> FileJob:
    outputs = [{"type": "mp4", "video": {"height": 1080, "frame_rate": 30, **video}}]
    return FileJob.model_validate({"input": {"path": "/a.mp4"}, "outputs": outputs})


def known(**speeds: Sequence[Speed]) -> Any:
    return lambda device_id: Speeds.of(speeds.get(device_id, ()))


def test_hevc_costs_what_the_device_takes_for_it() -> None:
    speeds = known(
        software=[encode("libx264", 60), encode("libx265", 15)],
        gpu0=[encode("h264_vaapi", 400), encode("hevc_vaapi", 390)],
    )
    costs = preference(job(codec="hevc"), [GPU, CPU], speeds).costs
    assert costs == {"software": 4, "gpu0": 2}
    assert preference(job(), [GPU, CPU], speeds).costs == {"software": 1, "gpu0": 1}


def test_devices_whose_speed_is_not_known_have_the_usual_costs() -> None:
    assert preference(job(codec="hevc"), [GPU, CPU], known()).costs == {}


@pytest.mark.parametrize(("gpu", "in_software"), [(30.0, True), (300.0, False)])
def test_a_gpu_is_preferred_unless_the_cpu_is_faster(gpu: float, in_software: bool) -> None:
    speeds = known(software=[encode("libx264", 60)], gpu0=[encode("h264_vaapi", gpu)])
    assert preference(job(), [GPU, CPU], speeds).faster_in_software is in_software


def test_hardware_is_preferred_while_nothing_is_known_of_it() -> None:
    assert not preference(job(), [GPU, CPU], known(software=[encode("libx264", 60)])).faster_in_software


@pytest.fixture
async def database(tmp_path: Path) -> Database:
    made = Database(f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}")
    await made.migrate()
    return made


async def claimed(database: Database) -> list[tuple[str, int]]:
    async with database.write() as connection:
        free = [FreeSlots(GPU, GPU.slots), FreeSlots(CPU, CPU.slots)]
        return [(each.device.id, each.held) for each in await claim(connection, free, utc_now())]


@pytest.mark.slow
async def test_a_task_holds_what_it_costs_on_the_device_that_it_gets(database: Database) -> None:
    new = job_in(cost=3)
    await add(database, type(new)(**{**vars(new), "costs": {"gpu0": 2}}))
    assert await claimed(database) == [("gpu0", 2)]


async def test_a_job_that_the_cpu_does_faster_goes_there_unless_its_queue_may_not(database: Database) -> None:
    await make_queues(database, gpus=QueueSettings(devices=("gpu0",)))
    for queue in ("default", "gpus"):
        new = job_in(queue)
        await add(database, type(new)(**{**vars(new), "in_software": True}))
    assert sorted(await claimed(database)) == [("gpu0", 1), ("software", 1)]


@pytest.mark.slow
async def test_a_job_that_no_device_of_its_queue_can_run_is_refused(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        await service.put_queue("gpus", QueueSettings(devices=("gpu0",)))
        upload = await give_upload(service)
        sound = {"outputs": [{"type": "mp4", "video": None}]}
        with pytest.raises(NoDevice, match="may use none of the devices"):
            await service.submit(job_for(upload, queue="gpus", **sound))
        await service.put_queue("gpus", QueueSettings(devices=("gpu0", "software")))
        taken, _ = await service.submit(job_for(upload, queue="gpus", **sound))
        assert (await ended(service, taken.id)).status == "completed"


def foretelling(seconds: float | None) -> Any:
    async def foretell(spec: FileJob, tenant: str, devices: Sequence[Device]) -> Any:
        return type("Foretold", (), {"estimate": Estimate(seconds=seconds)})()

    return foretell


@pytest.mark.parametrize(
    ("split", "seconds", "possible"),
    [("never", 3600.0, False), ("never", 30.0, True), ("never", None, True), ("auto", 300.0, True)],
)
async def test_a_deadline_that_no_device_can_meet_is_refused(split: str, seconds: float | None, possible: bool) -> None:
    now = utc_now()
    wanted = job().model_copy(update={"ready_by": now + timedelta(minutes=1), "split": split})
    check = check_reachable(wanted, "t", [CPU], now, foretelling(seconds))
    if possible:
        await check
        return
    with pytest.raises(DeadlineImpossible) as refused:
        await check
    assert refused.value.facts["estimated_seconds"] == seconds


@pytest.mark.slow
async def test_without_a_deadline_nothing_is_planned_at_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "_seconds", lambda *_: pytest.fail("it was planned"))
    executor = StubExecutor()
    async with running_service(tmp_path, executor) as service:
        taken, _ = await service.submit(job_for(await give_upload(service)))
        assert (await ended(service, taken.id)).status == "completed"
