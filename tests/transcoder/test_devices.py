"""Devices over a service's life: found, measured in children, kept, measured anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipelines import capabilities
from pipelines.capabilities import Support
from pipelines.devices import Device
from pipelines.errors import Crashed, DeadlineExceeded, PipelineError
from tests.transcoder.stubs import software
from transcoder.children.watch import ChildTask
from transcoder.errors import Conflict, DeviceNotFound
from transcoder.gpus import devices as devices_module
from transcoder.gpus.devices import Devices, default_slots
from transcoder.settings import Settings

DRIVER = "Intel iHD driver - 26.3.5"


@dataclass
class Driver:
    """Stands in for children that try a GPU: everything works but what `failures` say, by kind and name."""

    driver: str = DRIVER
    failures: dict[str, PipelineError] = field(default_factory=dict)
    once: bool = False
    """Each of `failures` is a moment's trouble."""
    opens: bool = True
    tasks: list[ChildTask] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def execute(self, task: ChildTask) -> dict[str, Any]:
        self.tasks.append(task)
        check = task.payload["check"]
        if check["kind"] == "open":
            return {"works": self.opens, "driver": self.driver, "reason": None if self.opens else "no driver"}
        await self.gate.wait()
        for name in (check.get("encoder"), check.get("filter")):
            if name in self.failures:
                raise self.failures.pop(name) if self.once else self.failures[name]
        return {"works": True, "rate_controls": ["cqp"] if check["kind"] == "encode" else []}

    @property
    def opened(self) -> int:
        return sum(task.payload["check"]["kind"] == "open" for task in self.tasks)

    @property
    def tried(self) -> int:
        return len(self.tasks) - self.opened


@pytest.fixture(autouse=True)
def _vaapi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_module, "support", lambda: Support(vaapi=True, graphs=True))
    monkeypatch.setattr(capabilities, "_exists", lambda encoder: True)


@pytest.fixture
def node(tmp_path: Path) -> str:
    path = tmp_path / "renderD128"
    path.touch()
    return str(path)


@pytest.fixture
def make(tmp_path: Path, node: str) -> Callable[..., Devices]:
    def made(driver: Driver, **settings: Any) -> Devices:
        return Devices.found(Settings(data_dir=tmp_path, devices=(node,), **settings), driver)

    return made


Told = list[tuple[Device, bool]]


async def started(devices: Devices) -> Told:
    """Starts, and measures until nothing is left."""
    told: Told = []
    await devices.start(lambda device, *, measuring: told.append((device, measuring)))
    await settled(devices)
    return told


async def settled(devices: Devices) -> None:
    measuring = asyncio.create_task(devices.keep_measuring())
    async with asyncio.timeout(5):
        while devices.ready != devices.usable:
            await asyncio.sleep(0)
    measuring.cancel()


async def test_a_new_gpu_is_measured_and_shown_when_it_is(make: Callable[..., Devices]) -> None:
    driver = Driver()
    devices = make(driver)
    assert [device.kind for device in devices.all] == ["vaapi", "software"]
    assert [device.kind for device in devices.ready] == ["software"]
    told = await started(devices)
    assert [(device.driver, measuring) for device, measuring in told] == [(None, True), (DRIVER, False)]
    gpu = devices.ready[0]
    assert gpu.encoder("h264_vaapi") is not None
    assert "scale_vaapi" in gpu.filters
    assert {task.gpu for task in driver.tasks} == {gpu.path}


@pytest.mark.slow
async def test_a_gpu_that_was_measured_before_is_ready_at_once(make: Callable[..., Devices]) -> None:
    first = make(Driver())
    await started(first)
    driver = Driver()
    second = make(driver)
    await second.start(lambda device, *, measuring: None)
    assert second.ready == first.ready
    assert (driver.opened, driver.tried) == (1, 0)


async def test_another_driver_is_measured_anew(make: Callable[..., Devices]) -> None:
    await started(make(Driver()))
    driver = Driver(driver="Intel iHD driver - 27.0.0")
    devices = make(driver)
    await started(devices)
    assert driver.tried > 0
    assert devices.ready[0].driver == driver.driver


async def test_other_libraries_measure_anew(make: Callable[..., Devices], monkeypatch: pytest.MonkeyPatch) -> None:
    await started(make(Driver()))
    monkeypatch.setattr("transcoder.gpus.cache.build", lambda: "another FFmpeg")
    driver = Driver()
    await started(make(driver))
    assert driver.tried > 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"node-renderD128": 7}', '{"node-renderD128": {"key": []}}'])
async def test_a_damaged_file_is_measured_anew(make: Callable[..., Devices], tmp_path: Path, content: str) -> None:
    (tmp_path / "devices.json").write_text(content)
    driver = Driver()
    await started(make(driver))
    assert driver.tried > 0
    assert "node-renderD128" in json.loads((tmp_path / "devices.json").read_text())


async def test_what_crashes_twice_costs_one_answer_and_is_kept(make: Callable[..., Devices]) -> None:
    broken = {"av1_vaapi": Crashed("SIGSEGV"), "overlay_vaapi": DeadlineExceeded("not finished within 30 s")}
    devices = make(Driver(failures=broken))
    await started(devices)
    gpu = devices.ready[0]
    assert gpu.encoder("av1_vaapi") is None
    assert gpu.encoder("hevc_vaapi") is not None
    assert "overlay_vaapi" not in gpu.filters
    assert any("av1_vaapi" in note and "crashed" in note for note in gpu.notes)
    again = Driver()
    later = make(again)
    await started(later)
    assert again.tried == 0
    assert later.ready[0] == gpu


async def test_a_crash_that_does_not_come_again_costs_nothing(make: Callable[..., Devices]) -> None:
    devices = make(Driver(failures={"av1_vaapi": Crashed("SIGSEGV")}, once=True))
    await started(devices)
    assert devices.ready[0].encoder("av1_vaapi") is not None
    assert devices.ready[0].notes == ()


async def test_a_driver_that_does_not_open_makes_the_gpu_unusable(make: Callable[..., Devices]) -> None:
    driver = Driver(opens=False)
    devices = make(driver)
    await started(devices)
    assert [device.kind for device in devices.usable] == ["software"]
    assert "no driver" in str(devices.all[0].problem)
    assert driver.tried == 0


async def test_a_repaired_driver_is_found_by_measuring_anew(make: Callable[..., Devices]) -> None:
    driver = Driver(opens=False)
    devices = make(driver)
    await started(devices)
    driver.opens = True
    devices.request(devices.all[0].id)
    assert devices.all[0].problem is None
    assert len(devices.ready) == 1
    await settled(devices)
    assert len(devices.ready) == 2


async def test_two_wishes_to_measure_are_one(make: Callable[..., Devices]) -> None:
    driver = Driver()
    devices = make(driver)
    await started(devices)
    tried = driver.tried
    for _ in range(2):
        devices.request(devices.all[0].id)
    await settled(devices)
    assert driver.tried == 2 * tried


async def test_the_cpu_and_what_is_not_there_are_not_measured(make: Callable[..., Devices]) -> None:
    devices = make(Driver())
    with pytest.raises(Conflict):
        devices.request("software")
    with pytest.raises(DeviceNotFound):
        devices.request("pci-0000:99:00.0")


async def test_a_node_that_is_not_there_is_listed_and_not_tried(tmp_path: Path) -> None:
    driver = Driver()
    devices = Devices.found(Settings(data_dir=tmp_path, devices=(str(tmp_path / "renderD9"),)), driver)
    await started(devices)
    assert devices.all[0].problem is not None
    assert driver.tasks == []
    with pytest.raises(Conflict, match="not there"):
        devices.request(devices.all[0].id)


async def test_given_devices_are_taken_as_they_are() -> None:
    driver = Driver()
    devices = Devices.fixed((software(3),), driver)
    await started(devices)
    assert devices.ready == (software(3),)
    assert driver.tasks == []


async def test_slots_follow_the_video_engines_unless_they_are_set(make: Callable[..., Devices]) -> None:
    found = capabilities.Found(id="x", node="x", name="x")
    assert default_slots(found, None) == 2
    assert default_slots(found.model_copy(update={"engines": {"video": 2}}), None) == 4
    assert default_slots(found, 7) == 7
    assert make(Driver(), device_slots=5).all[0].slots == 5


@pytest.mark.parametrize(
    ("text", "wish"),
    [("auto", "auto"), ("none", "none"), ("/dev/dri/renderD128, :7", ("/dev/dri/renderD128", ":7"))],
)
def test_devices_are_a_wish_or_a_list(text: str, wish: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSCODER_DEVICES", text)
    assert Settings().devices == wish


def test_a_device_is_a_path_or_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSCODER_DEVICES", "renderD128")
    with pytest.raises(ValueError, match="render node"):
        Settings()
