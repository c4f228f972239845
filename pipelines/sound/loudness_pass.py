"""The first of two passes: decodes the sound of a plan, and nothing else, to find the gains for the second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from av.packet import Packet

from pipelines.channel import Channel, Stopped
from pipelines.demux import Demuxer
from pipelines.errors import Cancelled
from pipelines.filters import Filter, Loudness, Normalise, Resample
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input
from pipelines.rendition import AudioRendition, Plan, RenditionPlan
from pipelines.result import Progress
from pipelines.sound.graph import AudioGraph, end_in_samples
from pipelines.sound.loudness import LoudnessMeter, corrected, made_up
from pipelines.sound.worker import AudioTarget, AudioWorker
from pipelines.source import SourceInfo
from pipelines.tracks import Span
from pipelines.warning_log import WarningLog

PACKET_CAPACITY = 64
PACKETS_PER_REPORT = 500

Sound = tuple[int, tuple[Filter, ...]]
"""What is measured once: a source track, as some renditions will hear it."""
Measured = dict[Sound, Loudness]


def is_measured(plan: Plan) -> bool:
    return any(_step_of(each) is not None for output in plan.outputs for each in output.renditions)


def with_gains(
    plan: Plan,
    source: SourceInfo,
    file: LocalFile,
    span: Span,
    limits: Limits,
    *,
    on_progress: Callable[[Progress], None] | None,
    cancelled: threading.Event,
) -> Plan:
    """The plan with the gain of each rendition whose loudness is asked for. What `Demuxer` and decoders raise."""

    def measured(renditions: Iterable[AudioRendition], key_of: Callable[[AudioRendition], Sound]) -> Measured:
        sounds: dict[Sound, _Ear] = {}
        for rendition in renditions:
            sounds.setdefault(key_of(rendition), _Ear(_as_floats(rendition, key_of(rendition)), span))
        if sounds:
            _listen(sounds, source, file, span, limits, on_progress, cancelled)
        return {key: ear.meter.result() for key, ear in sounds.items()}

    found = measured(_asking(plan), _sound)
    plan = _changed(plan, lambda rendition, step: corrected(step, found[_sound(rendition)]))
    # limiting takes loudness away, and how much is heard only by listening again
    limited = measured((each for each in _asking(plan) if _step(each).limits), _whole)
    return _changed(plan, lambda rendition, step: made_up(step, limited.get(_whole(rendition))))


def _asking(plan: Plan) -> Iterator[AudioRendition]:
    for output in plan.outputs:
        yield from (each for each in output.renditions if isinstance(each, AudioRendition) and _step_of(each))


def _step(rendition: AudioRendition) -> Normalise:
    step = _step_of(rendition)
    assert step is not None
    return step


def _step_of(rendition: RenditionPlan) -> Normalise | None:
    if not isinstance(rendition, AudioRendition):
        return None
    return next((step for step in rendition.filters if isinstance(step, Normalise)), None)


def _sound(rendition: AudioRendition) -> Sound:
    """Sample formats make no difference, and what is done about loudness comes afterwards."""
    stream, steps = _whole(rendition)
    return stream, tuple(step for step in steps if not isinstance(step, Normalise))


def _whole(rendition: AudioRendition) -> Sound:
    heard = (
        step.model_copy(update={"sample_format": "fltp"}) if isinstance(step, Resample) else step
        for step in rendition.filters
    )
    return rendition.stream, tuple(heard)


def _as_floats(rendition: AudioRendition, sound: Sound) -> AudioRendition:
    return rendition.model_copy(update={"filters": sound[1], "sample_format": "fltp"})


def _changed(plan: Plan, change: Callable[[AudioRendition, Normalise], Normalise]) -> Plan:
    """The plan with other steps in place of those that normalise."""

    def rendition(each: RenditionPlan) -> RenditionPlan:
        if not isinstance(each, AudioRendition):
            return each
        filters = tuple(change(each, step) if isinstance(step, Normalise) else step for step in each.filters)
        return each.model_copy(update={"filters": filters})

    outputs = (
        output.model_copy(update={"renditions": tuple(map(rendition, output.renditions))}) for output in plan.outputs
    )
    return plan.model_copy(update={"outputs": tuple(outputs)})


@dataclass
class _Ear:
    """A rendition that is heard and not written: encoder and writer of an AudioTarget at once."""

    rendition: AudioRendition
    span: Span
    meter: LoudnessMeter = field(default_factory=LoudnessMeter)

    def encode(self, frame: Any) -> list[Packet[Any]]:
        self.meter.push(frame)
        return []

    def flush(self) -> list[Packet[Any]]:
        return []

    def write(self, packets: list[Packet[Any]]) -> None:
        """There are none."""

    def target(self) -> AudioTarget:
        samples = end_in_samples(self.span, self.rendition.sample_rate)
        return AudioTarget(AudioGraph(self.rendition, frame_size=0, end_samples=samples), self, self)


def _listen(
    sounds: dict[Sound, _Ear],
    source: SourceInfo,
    file: LocalFile,
    span: Span,
    limits: Limits,
    on_progress: Callable[[Progress], None] | None,
    cancelled: threading.Event,
) -> None:
    ears: dict[int, list[_Ear]] = {}
    for (stream, _), ear in sounds.items():
        ears.setdefault(stream, []).append(ear)
    # the second pass warns of the same damage
    warnings = WarningLog(())
    failures: list[BaseException] = []
    with open_input(file, limits) as container:
        channels: dict[int, Channel[Packet[Any]]] = {stream: Channel(PACKET_CAPACITY) for stream in ears}
        workers = [
            AudioWorker(container.streams[stream], channels[stream], [ear.target() for ear in heard], span, warnings)
            for stream, heard in ears.items()
        ]

        def guarded(worker: AudioWorker) -> None:
            try:
                worker()
            except Stopped:
                return
            except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
                failures.append(error)
                for channel in channels.values():
                    channel.stop()

        threads = [threading.Thread(target=guarded, args=(worker,), daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        try:
            demuxer = Demuxer(container, sorted(ears), span, source, limits, warnings)
            for count, (packet, _) in enumerate(demuxer, 1):
                if cancelled.is_set():
                    raise Cancelled("cancelled", stage="run")
                channels[packet.stream_index].put(packet)
                if count % PACKETS_PER_REPORT == 0 and on_progress is not None:
                    # packets stand for frames here: what is read shows that it gets on
                    on_progress(Progress(frames=count, fraction=0.0))
                if all(worker.state.done for worker in workers):
                    break
            for channel in channels.values():
                channel.close()
        except Stopped:
            pass
        finally:
            if cancelled.is_set():
                for channel in channels.values():
                    channel.stop()
            for thread in threads:
                thread.join()
    if failures:
        raise failures[0]
