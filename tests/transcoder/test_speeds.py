"""Speeds of devices: tried, learned from attempts, kept, and told where a plan is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.devices import Device, software_device
from pipelines.estimates.estimate import estimated
from pipelines.estimates.speeds import Speed
from pipelines.estimates.work import Pace
from pipelines.rendition import Plan
from pipelines.result import OutputResult, Result
from pipelines.trials.speed import SOFTWARE_TRIALS, run_trial
from tests.pipelines.facts import planned, source
from transcoder.database import Database
from transcoder.engine import DeviceState
from transcoder.gpus.speeds import SpeedBook, cpu_beside

TRIED = (
    Speed(stage="encode", coder="libx264", effort="medium", pixels_per_second=10e6),
    Speed(stage="decode", coder="h264", pixels_per_second=200e6),
)


def cpu(*speeds: Speed, device_id: str = "software") -> DeviceState:
    facts = software_device(2).model_copy(update={"id": device_id, "speeds": speeds})
    return DeviceState(**facts.model_dump(), busy=0, state="ready")


@pytest.fixture
async def database(tmp_path: Path) -> Database:
    made = Database(f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}")
    await made.migrate()
    return made


def plan_of(device: Device, book: SpeedBook | None = None, **video: Any) -> Plan:
    facts = source()
    pace = Pace() if book is None else book.pace(device)
    return estimated(planned({"type": "mp4", "video": {"height": 720, **video}}, facts), facts, pace)


def seconds_of(device: Device, book: SpeedBook) -> float | None:
    estimate = plan_of(device, book).estimate
    assert estimate is not None
    return estimate.seconds


def result(wall_seconds: float, seconds: float = 60.0) -> Result:
    output = OutputResult(
        name="output", type="mp4", path="output.mp4", size=1, duration_seconds=seconds, renditions=()
    )  # fmt: skip
    return Result(outputs=(output,), wall_seconds=wall_seconds)


async def test_estimates_come_to_what_attempts_take_and_outlive_the_service(database: Database) -> None:
    device = cpu(*TRIED)
    book = SpeedBook(database, lambda: [device])
    for _ in range(12):
        await book.learn(device.id, plan_of(device, book).model_dump(mode="json"), result(wall_seconds=40.0))
    assert seconds_of(device, book) == pytest.approx(40.0, rel=0.05)
    again = SpeedBook(database, lambda: [device])
    await again.read()
    assert again.of(device.id) == book.of(device.id)


async def test_the_first_attempt_tells_of_what_was_never_tried(database: Database) -> None:
    device = cpu()
    book = SpeedBook(database, lambda: [device])
    assert seconds_of(device, book) is None
    await book.learn(device.id, plan_of(device, book).model_dump(mode="json"), result(wall_seconds=30.0))
    assert seconds_of(device, book) == pytest.approx(30.0, rel=0.02)


@pytest.mark.parametrize(
    ("told", "wall_seconds"),
    [(None, 30.0), ({"device": "software"}, 30.0), ("plan", 0.2)],
    ids=["no plan", "not understood", "over in a moment"],
)
async def test_nothing_is_learned_from_what_tells_nothing(
    database: Database, told: dict[str, Any] | str | None, wall_seconds: float
) -> None:
    device = cpu(*TRIED)
    book = SpeedBook(database, lambda: [device])
    plan = plan_of(device, book).model_dump(mode="json") if told == "plan" else told
    assert not isinstance(plan, str)
    await book.learn(device.id, plan, result(wall_seconds))
    assert {speed.samples for speed in book.of(device.id).all} == {0}


async def test_a_database_that_is_away_costs_no_attempt(tmp_path: Path) -> None:
    device = cpu(*TRIED)
    book = SpeedBook(Database(f"sqlite+aiosqlite:///{tmp_path / 'none' / 'transcoder.db'}"), lambda: [device])
    await book.learn(device.id, plan_of(device, book).model_dump(mode="json"), result(wall_seconds=40.0))
    assert {speed.samples for speed in book.of(device.id).all} == {1}


def test_devices_of_a_node_share_its_cpu() -> None:
    assert cpu_beside("pci-0000:03:00.0@one") == "software@one"
    assert cpu_beside("pci-0000:03:00.0") == "software"


@pytest.mark.slow
@pytest.mark.parametrize("trial", SOFTWARE_TRIALS, ids=lambda trial: trial.stage)
def test_a_trial_takes_a_moment_and_says_a_speed(trial: Any) -> None:
    assert 1e5 < run_trial(trial, None) < 1e10
