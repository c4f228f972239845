"""Whether a job is worth cutting."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.devices import software_device
from pipelines.spec import FileJob
from pipelines.stitch.tasks import CutRules
from transcoder.engine import DeviceState
from transcoder.split.rules import SplitSettings, cut_rules

NODES = SplitSettings("nodes", least_seconds=300, piece_seconds=60)
SLOTS = SplitSettings("slots", least_seconds=300, piece_seconds=60)
OFF = SplitSettings("off", least_seconds=300, piece_seconds=60)
WHERE_IT_PAYS = CutRules(least_seconds=300, piece_seconds=60)


def cpu(node: str, *, slots: int = 2, busy: int = 0, **more: Any) -> DeviceState:
    facts = {name: value for name, value in software_device(slots) if name not in ("id", "slots")}
    return DeviceState(**{**facts, "id": f"software@{node}", "slots": slots, "busy": busy, "state": "ready", **more})


def job(split: str = "auto", **more: Any) -> FileJob:
    spec = {"input": {"upload": "x"}, "outputs": [{"type": "mp4", "video": {"codec": "h264"}}], "split": split, **more}
    return FileJob.model_validate(spec)


HERE = cpu("one", busy=1)


@pytest.mark.parametrize(
    ("settings", "states", "rules"),
    [
        (NODES, [HERE], None),
        (SLOTS, [HERE], WHERE_IT_PAYS),
        (SLOTS, [cpu("one", slots=1, busy=1)], None),
        (NODES, [HERE, cpu("two")], WHERE_IT_PAYS),
        (NODES, [HERE, cpu("two", busy=2)], None),
        (NODES, [HERE, cpu("two", state="draining")], None),
        (SplitSettings("nodes", 300, 60, live_slots=2), [HERE, cpu("two")], None),
        (OFF, [HERE, cpu("two")], None),
    ],
)
def test_a_job_is_cut_where_there_is_another_slot_for_it(
    settings: SplitSettings, states: list[DeviceState], rules: CutRules | None
) -> None:
    assert cut_rules(job(), HERE.id, states, settings) == rules


def test_slots_that_the_job_or_its_queue_may_not_use_do_not_count() -> None:
    states = [HERE, cpu("two")]
    assert cut_rules(job(device={"policy": "software", "id": "software@one"}), HERE.id, states, NODES) is None
    assert cut_rules(job(), HERE.id, states, NODES, lambda device: device == HERE.id) is None
    assert cut_rules(job(device={"policy": "software", "id": "software"}), HERE.id, states, NODES) == WHERE_IT_PAYS


def test_a_job_may_ask_for_it_and_against_it() -> None:
    assert cut_rules(job("always"), HERE.id, [HERE], NODES) == CutRules(least_seconds=0, piece_seconds=60)
    assert cut_rules(job("always"), HERE.id, [HERE], OFF) is None
    assert cut_rules(job("never"), HERE.id, [HERE, cpu("two")], SLOTS) is None


def test_a_job_that_can_not_be_made_of_pieces_is_not_cut() -> None:
    outputs = [{"type": "hls", "video": [{"height": 240, "codec": "h264"}]}]
    assert cut_rules(job(outputs=outputs), HERE.id, [HERE, cpu("two")], SLOTS) is None
    assert cut_rules(job(input={"url": "https://example.org/x"}), HERE.id, [HERE, cpu("two")], SLOTS) is None
