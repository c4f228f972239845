"""Failures of a GPU that softva plays, by the type, the stage and the words that they are told with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DeviceError, DeviceFault, DeviceLost, DeviceOutOfMemory, DeviceUnsupported
from pipelines.rate_control import Cqp, Vbr
from tests.devices.gpu_plans import FULL, Places, made
from tests.media import make_video
from tests.softva.rig import Rig

pytestmark = pytest.mark.vaapi


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "clip.mp4", seconds=1, b_frames=2, gop=25, audio=())


def failure(clip: Path, folder: Path, node: str, places: Places = FULL, **video: Any) -> DeviceError:
    with pytest.raises(DeviceError) as caught:
        made(clip, folder, node, places, **{"height": 120, **video})
    return caught.value


@pytest.mark.parametrize("stage", ["decode", "filter", "encode"])
@pytest.mark.parametrize("at", [1, 5, 25])
def test_a_picture_that_fails_is_a_fault_of_its_stage(
    clip: Path, tmp_path: Path, rig: Rig, stage: str, at: int
) -> None:
    rig.fail(rig.gpus[0].node, f"{'vpp' if stage == 'filter' else stage}:{at}")
    error = failure(clip, tmp_path, rig.node())
    assert (type(error), error.stage, error.device) == (DeviceFault, stage, "gpu")
    assert (error.facts["codec"], error.facts["bit_depth"]) == ("h264", 8)
    assert "failed" in error.facts["detail"].lower()


LACKS: list[tuple[dict[str, str], str, str]] = [
    ({"SOFTVA_PROFILES": "h264enc"}, "decode", "not supported"),
    ({"SOFTVA_PROFILES": "h264dec"}, "encode", "No usable encoding entrypoint"),
    ({"SOFTVA_PROFILES": "h264,novpp"}, "filter", "not supported"),
    ({"SOFTVA_RC": "cqp"}, "encode", "Driver does not support VBR RC mode"),
    ({"SOFTVA_MAX_SIZE": "256"}, "decode", "does not support image size"),
]


@pytest.mark.parametrize(("settings", "stage", "words"), LACKS)
def test_what_a_gpu_lacks_is_unsupported_in_the_drivers_words(
    clip: Path, tmp_path: Path, rig: Rig, settings: dict[str, str], stage: str, words: str
) -> None:
    rig.set(rig.gpus[0].node, **settings)
    error = failure(clip, tmp_path, rig.node(), Places(rate_control=Vbr(bitrate=200_000)))
    assert (type(error), error.stage) == (DeviceUnsupported, stage)
    assert words in error.facts["detail"]


def test_too_many_contexts_are_a_matter_of_memory(clip: Path, tmp_path: Path, rig: Rig) -> None:
    rig.set(rig.gpus[0].node, SOFTVA_MAX_CONTEXTS="2")
    assert type(failure(clip, tmp_path, rig.node())) is DeviceOutOfMemory


def test_a_codec_that_no_gpu_decoder_takes_is_unsupported_not_decoded_in_software(tmp_path: Path, rig: Rig) -> None:
    clip = make_video(tmp_path / "clip.mkv", seconds=1, codec="ffv1", audio=())
    error = failure(clip, tmp_path, rig.node(), Places(rate_control=Cqp(qp=20)))
    assert (type(error), error.stage) == (DeviceUnsupported, "decode")


def test_a_node_that_does_not_open_is_a_lost_device(clip: Path, tmp_path: Path, rig: Rig) -> None:
    error = failure(clip, tmp_path, str(tmp_path / "renderD128"))
    assert (type(error), error.stage) == (DeviceLost, "open")
    assert error.retryable


def test_a_damaged_input_is_said_to_be_under_suspicion(clip: Path, tmp_path: Path, rig: Rig) -> None:
    data = bytearray(clip.read_bytes())
    at = data.index(b"mdat") + len(data) // 3
    data[at : at + 3000] = bytes(3000)
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(data)
    error = failure(damaged, tmp_path / "out", rig.node())
    assert (error.stage, error.facts["suspect"]) == ("decode", "input")
