"""What a GPU can do, found out by trying it: softva plays the GPUs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from pipelines.capabilities import checks
from pipelines.devices import Device
from pipelines.trials.checks import FILTERS, Check
from tests.softva.rig import Rig
from transcoder.children.supervise import Supervisor
from transcoder.gpus.devices import Devices
from transcoder.settings import Settings

pytestmark = pytest.mark.vaapi

MODES = ("cqp", "icq", "cbr", "vbr", "qvbr")


@pytest_asyncio.fixture
async def supervisor() -> AsyncGenerator[Supervisor, None]:
    async with Supervisor() as running:
        yield running


def only(monkeypatch: pytest.MonkeyPatch, keep: Callable[[Check], bool]) -> None:
    """Leaves the other checks out, to save their time."""
    monkeypatch.setattr("transcoder.gpus.devices.checks", lambda support: tuple(filter(keep, checks(support))))


def is_small(check: Check, codecs: Sequence[str] = ("h264",)) -> bool:
    """Of VAAPI's codecs and of scaling."""
    words = check.model_dump()
    return (words.get("codec") in codecs and words.get("api") != "qsv") or words.get("filter") == "scale_vaapi"


async def measured(rig: Rig, supervisor: Supervisor, data_dir: Path) -> tuple[Device, ...]:
    """The rig's GPUs; the CPU comes last, and is left out."""
    devices = Devices.found(Settings(data_dir=data_dir, hardware_root=rig.root), supervisor)
    await devices.measure_all(anew=False)
    return devices.all[:-1]


def coded(device: Device, direction: str, api: str = "vaapi") -> set[tuple[str, int]]:
    return {(c.codec, c.bit_depth) for c in device.capabilities if c.direction == direction and c.api == api}


def only_one(rig: Rig, **settings: str) -> None:
    """Settings of the first GPU; the second can't be opened, to save the time of measuring it."""
    rig.set(rig.gpus[0].node, **settings)
    Path(rig.node(1)).unlink()


@pytest.mark.slow
@pytest.mark.qsv
async def test_all_that_works_is_found(rig: Rig, supervisor: Supervisor, tmp_path: Path) -> None:
    only_one(rig)
    device, _ = await measured(rig, supervisor, tmp_path)
    assert device.problem is None
    assert device.name == "Intel UHD Graphics 770 (Alder Lake)"
    assert "softva" in str(device.driver)
    assert {("h264", 8), ("hevc", 8), ("hevc", 10)} <= coded(device, "encode")
    assert {("h264", 8), ("hevc", 8), ("hevc", 10), ("vp9", 8), ("mpeg2video", 8)} <= coded(device, "decode")
    encoder, decoder = device.encoder("h264_vaapi"), device.decoder("h264", "yuv420p")
    assert encoder is not None
    assert decoder is not None
    assert encoder.rate_controls == MODES
    assert (encoder.min_size, encoder.max_size) == ((32, 32), (4096, 4096))
    assert decoder.max_size == (4096, 4096)
    assert set(device.filters) == set(FILTERS)
    assert device.decoder("h264", "yuv420p10le") is None
    # Intel's VPL runtime takes the GPU
    assert {("h264", 8), ("hevc", 8), ("hevc", 10)} <= coded(device, "encode", "qsv")
    encoder = device.encoder("hevc_qsv")
    assert encoder is not None
    assert set(encoder.look_ahead) <= set(encoder.rate_controls) == set(MODES)
    # it crashes when H.264 looks ahead here: that costs this one answer
    encoder = device.encoder("h264_qsv")
    assert encoder is not None
    assert (encoder.look_ahead, set(encoder.rate_controls)) == ((), set(MODES))


@pytest.mark.slow
async def test_each_gpu_has_its_own_answers_and_is_measured_once(
    rig: Rig, supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, lambda check: is_small(check, ("h264", "hevc")))
    rig.set("renderD128", SOFTVA_PROFILES="h264,novpp", SOFTVA_RC="cqp")
    rig.set("renderD129", SOFTVA_PROFILES="hevcenc")
    first, second = await measured(rig, supervisor, tmp_path)
    assert [device.id for device in (first, second)] == ["pci-0000:00:02.0", "pci-0000:03:00.0"]
    assert coded(first, "encode") == {("h264", 8)}
    assert coded(first, "decode") == {("h264", 8)}
    assert first.capabilities[-1].rate_controls == ("cqp",)
    assert set(first.filters) <= {"hwupload", "hwdownload"}
    assert coded(second, "encode") == {("hevc", 8), ("hevc", 10)}
    assert coded(second, "decode") == set()
    rig.log.clear()
    assert await measured(rig, supervisor, tmp_path) == (first, second)
    assert rig.log.pictures("encode") + rig.log.pictures("decode") + rig.log.pictures("vpp") == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["crash:encode:2", "encode:*"])
async def test_a_driver_that_fails_in_encoding_still_decodes_and_filters(
    rig: Rig, supervisor: Supervisor, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, is_small)
    only_one(rig, SOFTVA_PROFILES="h264")
    rig.fail("renderD128", fault)
    device, _ = await measured(rig, supervisor, tmp_path)
    assert coded(device, "encode") == set()
    assert coded(device, "decode") == {("h264", 8)}
    assert "scale_vaapi" in device.filters
    assert any("crashed" in note for note in device.notes) == fault.startswith("crash")


@pytest.mark.slow
async def test_a_driver_that_hangs_costs_one_answer(
    rig: Rig, supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transcoder.gpus.devices.CHECK_SECONDS", 3.0)
    only(monkeypatch, is_small)
    only_one(rig, SOFTVA_PROFILES="h264")
    rig.fail("renderD128", "hang:encode:1")
    device, _ = await measured(rig, supervisor, tmp_path)
    assert coded(device, "encode") == set()
    assert coded(device, "decode") == {("h264", 8)}
    assert any("h264_vaapi" in note and "timeout" in note for note in device.notes)


async def test_a_file_that_is_no_gpu_is_not_used(supervisor: Supervisor, tmp_path: Path) -> None:
    node = tmp_path / "nothing"
    node.touch()
    devices = Devices.found(Settings(data_dir=tmp_path, devices=(str(node),)), supervisor)
    await devices.measure_all(anew=False)
    assert "the VA driver can't be opened" in str(devices.all[0].problem)
    assert len(devices.ready) == 1
