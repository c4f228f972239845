"""Which device the command line takes, without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import DeviceUnsuitable
from pipelines.spec import DevicePolicy, FileJob
from tests.pipelines.facts import SOFTWARE, source
from tests.pipelines.gpus import gpu
from transcoder.children.supervise import Supervisor
from transcoder.cli.failures import CommandError
from transcoder.cli.gpu import Gpus, wants_gpu
from transcoder.cli.options import device_policy
from transcoder.cli.screen import Quiet
from transcoder.settings import Settings


def machine(*devices: object) -> Gpus:
    return Gpus(devices or (gpu(), SOFTWARE), Supervisor(), Settings(), Quiet())  # type: ignore[arg-type]


def spec(codec: str = "h264", device: str = "auto") -> FileJob:
    output = {"type": "mp4", "video": {"codec": codec}}
    return FileJob.model_validate({"input": {"path": "in"}, "outputs": [output], "device": device_policy(device)})


def test_device_option_is_a_policy_or_an_id() -> None:
    assert device_policy("software") == DevicePolicy(policy="software")
    assert device_policy("hardware") == DevicePolicy(policy="hardware")
    assert device_policy("pci-0000:03:00.0") == DevicePolicy(id="pci-0000:03:00.0")
    with pytest.raises(CommandError, match="--device"):
        device_policy("x" * 200)


def test_plan_is_the_gpus_where_it_has_something_to_do() -> None:
    assert machine().plan(spec(), source()).device == gpu().id


def test_plan_in_software_says_what_the_gpu_refused() -> None:
    made = machine().plan(spec("av1"), source())
    assert made.device == "software"
    assert [refusal.reason for refusal in made.refusals] == ["this device does not encode av1"]


def test_hardware_policy_has_no_other_plan() -> None:
    with pytest.raises(DeviceUnsuitable):
        machine().plan(spec("av1", "hardware"), source())


def test_device_that_is_not_there_is_named_with_the_problems_of_others() -> None:
    broken = gpu(problem="the node can't be opened")
    with pytest.raises(CommandError, match=r"no device 'pci-9'.*there are: software.*the node can't be opened") as no:
        machine(broken, SOFTWARE).able(DevicePolicy(id="pci-9"))
    assert no.value.code == "no_device"


@pytest.mark.parametrize("policy", [DevicePolicy(policy="software"), DevicePolicy(id="software"), DevicePolicy()])
def test_machine_without_gpus_works_in_software(tmp_path: Path, policy: DevicePolicy) -> None:
    assert not wants_gpu(policy, Settings(hardware_root=tmp_path, data_dir=tmp_path))


def test_gpu_that_is_asked_for_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="there is no GPU to use"):
        wants_gpu(DevicePolicy(policy="hardware"), Settings(hardware_root=tmp_path, data_dir=tmp_path))
