"""The sinks of a stream's outputs, and where their files go."""

from __future__ import annotations

from pathlib import Path

from pipelines.asked.streams import LiveOutput, PushOutput, RecordOutput, SnapshotOutput, StreamJob
from pipelines.live.link import Link
from pipelines.live.packager import Packager
from pipelines.live.planning import Feed
from pipelines.live.push import Pusher
from pipelines.live.record import Recorder
from pipelines.live.shelf import Wall
from pipelines.live.sink import Queued
from pipelines.live.snapshot import Snapshots

FIRST_SNAPSHOT = "snapshot.jpg"
"""The file of a job's first output of snapshots."""


def places(job: StreamJob) -> dict[str, str]:
    """By output name: its folder, or its file, in the job's. The first playlist is at the top, the others are not."""
    found: dict[str, str] = {}
    kinds: set[str] = set()
    for output in job.outputs:
        name = str(output.name)
        if isinstance(output, PushOutput):
            continue
        if isinstance(output, RecordOutput):
            found[name] = name
        elif isinstance(output, SnapshotOutput):
            found[name] = FIRST_SNAPSHOT if "snapshot" not in kinds else f"{name}.jpg"
            kinds.add("snapshot")
        else:
            found[name] = "" if "packaged" not in kinds else name
            kinds.add("packaged")
    return found


class Outlets:
    """Makes sinks."""

    def __init__(self, job: StreamJob, folder: Path, wall: Wall, link: Link) -> None:
        self._folder, self._wall, self._link = folder, wall, link
        self._places = places(job)

    def sink(self, feed: Feed) -> Queued:
        output = feed.output
        leader = feed.tracks[0]
        if isinstance(output, PushOutput):
            return Pusher(output, feed.tracks, leader, self._link)
        folder = self._place(output)
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(output, RecordOutput):
            return Recorder(output, folder, feed.tracks, leader, self._wall)
        assert not isinstance(output, SnapshotOutput)
        return Packager(output, folder, feed.video, feed.audio, self._wall)

    def snapshots(self, output: SnapshotOutput) -> Snapshots:
        return Snapshots(output, self._place(output))

    def _place(self, output: LiveOutput) -> Path:
        return self._folder / self._places[str(output.name)]
