"""Load of GPUs from what i915 and xe write into fdinfo (kernel documentation: drm-usage-stats)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.devices import Device
from pipelines.hardware.drm_usage import Busy, parse_fdinfo
from transcoder.engine import DeviceState
from transcoder.gpus.load import Load, LoadMeter
from transcoder.telemetry import Telemetry

SECOND_NS = 1_000_000_000
GPU = "0000:03:00.0"

I915 = """\
pos:	0
flags:	02100002
mnt_id:	26
ino:	284
drm-driver:	i915
drm-client-id:	{client}
drm-pdev:	0000:03:00.0
drm-total-system0:	6044 KiB
drm-shared-system0:	0
drm-active-system0:	0
drm-resident-system0:	2 MiB
drm-purgeable-system0:	1688 KiB
drm-total-local0:	65536 KiB
drm-resident-local0:	1024 KiB
drm-engine-render:	0 ns
drm-engine-copy:	1000 ns
drm-engine-video:	{video} ns
drm-engine-capacity-video:	2
drm-engine-video-enhance:	0 ns
"""

XE = """\
pos:	0
drm-driver:	xe
drm-client-id:	{client}
drm-pdev:	0000:03:00.0
drm-total-system:	0
drm-resident-system:	0
drm-total-vram0:	23992 KiB
drm-resident-vram0:	16 MiB
drm-cycles-rcs:	0
drm-total-cycles-rcs:	{total}
drm-cycles-vcs:	{video}
drm-total-cycles-vcs:	{total}
drm-engine-capacity-vcs:	2
drm-cycles-vecs:	0
drm-total-cycles-vecs:	{total}
"""

OLD_KERNEL = "pos:\t0\nflags:\t02100002\nmnt_id:\t26\n"


class Proc:
    """A /proc of one's own."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self, pid: int, descriptor: int, text: str, *, path: str = "/dev/dri/renderD128") -> None:
        for folder in ("fd", "fdinfo"):
            (self.root / str(pid) / folder).mkdir(parents=True, exist_ok=True)
        link = self.root / str(pid) / "fd" / str(descriptor)
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        (self.root / str(pid) / "fdinfo" / str(descriptor)).write_text(text)

    def close(self, pid: int, descriptor: int) -> None:
        (self.root / str(pid) / "fd" / str(descriptor)).unlink()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_i915_tells_nanoseconds_capacity_and_memory() -> None:
    client = parse_fdinfo(I915.format(client=7, video=500))
    assert client is not None
    assert (client.device, client.id) == (GPU, "7")
    assert client.engines["video"] == Busy(500, None, 2)
    assert client.engines["copy"] == Busy(1000)
    assert set(client.engines) == {"render", "copy", "video", "video-enhance"}
    assert client.memory_bytes == 3 << 20


def test_xe_tells_cycles_under_the_same_names() -> None:
    client = parse_fdinfo(XE.format(client=3, video=40, total=1000))
    assert client is not None
    assert client.engines["video"] == Busy(40, 1000, 2)
    assert client.engines["video-enhance"] == Busy(0, 1000, 1)
    assert client.memory_bytes == 16 << 20


def test_cycles_that_went_by_are_no_memory() -> None:
    text = "drm-pdev:\t0000:03:00.0\ndrm-client-id:\t1\ndrm-total-gtt:\t192 KiB\ndrm-total-cycles-rcs:\t7655183225\n"
    client = parse_fdinfo(text)
    assert client is not None
    assert client.memory_bytes == 192 << 10


@pytest.mark.parametrize("text", ["", OLD_KERNEL, "drm-driver:\tvgem\n", "nonsense", "drm-pdev:\n:\n"])
def test_files_that_say_nothing_are_no_clients(text: str) -> None:
    assert parse_fdinfo(text) is None


def test_the_share_is_of_all_engines_of_a_class(proc: Proc) -> None:
    meter = LoadMeter(proc.root)
    proc.open(10, 5, I915.format(client=7, video=0))
    meter.look(0)
    proc.open(10, 5, I915.format(client=7, video=SECOND_NS))
    meter.look(2 * SECOND_NS)
    assert meter.loads[GPU].engines["video"] == 0.25
    assert meter.loads[GPU].memory_bytes == 3 << 20


def test_xe_is_measured_by_its_own_clock(proc: Proc) -> None:
    meter = LoadMeter(proc.root)
    proc.open(10, 5, XE.format(client=7, video=100, total=10_000))
    meter.look(0)
    proc.open(10, 5, XE.format(client=7, video=1100, total=12_000))
    meter.look(SECOND_NS)
    assert meter.loads[GPU].engines["video"] == 0.25


def test_one_client_of_many_descriptors_and_processes_counts_once(proc: Proc) -> None:
    meter = LoadMeter(proc.root)
    meter.look(0)
    for pid, descriptor in ((10, 5), (10, 6), (11, 5)):
        proc.open(pid, descriptor, I915.format(client=7, video=SECOND_NS))
    meter.look(SECOND_NS)
    assert meter.loads[GPU].engines["video"] == 0.5
    assert meter.loads[GPU].memory_bytes == 3 << 20


def test_clients_add_up_also_those_that_came_since(proc: Proc) -> None:
    meter = LoadMeter(proc.root)
    proc.open(10, 5, I915.format(client=7, video=SECOND_NS))
    meter.look(0)
    proc.open(10, 5, I915.format(client=7, video=SECOND_NS + SECOND_NS // 2))
    proc.open(11, 5, I915.format(client=8, video=SECOND_NS // 4))
    meter.look(SECOND_NS)
    assert meter.loads[GPU].engines["video"] == pytest.approx((0.5 + 0.25) / 2)
    assert meter.loads[GPU].memory_bytes == 6 << 20


def test_a_counter_that_lags_behind_is_no_load(proc: Proc) -> None:
    meter = LoadMeter(proc.root)
    proc.open(10, 5, I915.format(client=7, video=SECOND_NS))
    meter.look(0)
    proc.open(10, 5, I915.format(client=7, video=SECOND_NS - 5))
    meter.look(SECOND_NS)
    assert meter.loads[GPU].engines["video"] == 0.0


def test_a_gpu_that_nobody_uses_any_more_is_idle(proc: Proc) -> None:
    meter = LoadMeter(proc.root)
    proc.open(10, 5, I915.format(client=7, video=SECOND_NS))
    meter.look(0)
    proc.close(10, 5)
    meter.look(SECOND_NS)
    assert meter.loads[GPU] == Load(engines={"copy": 0, "render": 0, "video": 0, "video-enhance": 0}, memory_bytes=0)


def test_nothing_is_known_after_one_look_or_without_counters(proc: Proc) -> None:
    meter = LoadMeter(proc.root)
    proc.open(10, 5, I915.format(client=7, video=1))
    meter.look(0)
    assert meter.loads == {}
    silent = LoadMeter(proc.root / "11")
    proc.open(11, 5, OLD_KERNEL)
    silent.look(0)
    silent.look(1)
    assert silent.loads == {}


def test_only_descriptors_of_gpus_are_looked_at(proc: Proc) -> None:
    meter = LoadMeter(proc.root)
    proc.open(10, 5, I915.format(client=7, video=1), path="/home/user/film.mkv")
    meter.look(0)
    meter.look(1)
    assert meter.loads == {}


def test_this_machine_can_be_looked_at() -> None:
    meter = LoadMeter()
    meter.look()
    meter.look()
    assert all(0 <= share <= 1 for load in meter.loads.values() for share in load.engines.values())


def test_metrics_show_load_memory_and_readiness() -> None:
    gpu = Device(id=f"pci-{GPU}", kind="vaapi", path="/dev/dri/renderD128", name="GPU", pci_address=GPU)
    load = Load(engines={"video": 0.42}, memory_bytes=4096)
    states = (
        DeviceState(**gpu.model_dump(), busy=1, state="ready", load=load),
        DeviceState(**gpu.model_copy(update={"id": "other"}).model_dump(), busy=0, state="measuring"),
    )
    text = Telemetry().exposition(states, {}).decode()
    assert 'transcoder_device_engine_busy_ratio{device="pci-0000:03:00.0",engine="video"} 0.42' in text
    assert 'transcoder_device_memory_bytes{device="pci-0000:03:00.0"} 4096.0' in text
    assert 'transcoder_device_ready{device="other"} 0.0' in text
    assert 'engine_busy_ratio{device="other"' not in text
