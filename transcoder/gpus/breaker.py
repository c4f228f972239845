"""What a GPU has failed at for several jobs without success between: it is not planned there until it is seen to work.

A failure counts when its job was completed otherwise: a file that fails everywhere says nothing against a device.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipelines.devices import HardwareApi, Stage, Verdict
from pipelines.hardware.encoders import API_OF
from pipelines.rendition import Plan, VideoRendition
from transcoder.attempts.fallback import STAGES, bit_depth_of, encode_api, is_step
from transcoder.jobs import Attempt

_COUNTED = ("device_error", "device_unsupported", "device_fault")


@dataclass(frozen=True)
class Circuit:
    """What a breaker is about: one kind of work of one device."""

    device: str
    stage: Stage
    codec: str
    profile: str | None = None
    bit_depth: int = 8
    api: HardwareApi | None = None
    """`qsv` of its encoders; None of everything else."""

    def __str__(self) -> str:
        return f"{self.stage} of {self.codec} ({self.bit_depth} bit{', QSV' if self.api == 'qsv' else ''})"


def circuits_of(attempt: Attempt) -> tuple[Circuit, ...]:
    """What a failed attempt counts against; nothing where its error does not say what failed."""
    error = attempt.error
    if error is None or not is_step(attempt) or error.code not in _COUNTED or error.stage not in STAGES:
        return ()
    codec = error.facts.get("codec")
    if not isinstance(codec, str):
        return ()
    stage: Stage = error.stage  # type: ignore[assignment]
    profile, bit_depth = error.facts.get("profile"), error.facts.get("bit_depth") or 8
    return (Circuit(attempt.device, stage, codec, profile, bit_depth, encode_api(error)),)


def circuits_in(plan: Plan) -> frozenset[Circuit]:
    """All that a plan does on its GPU."""
    found = set()
    for step in plan.decode:
        if step.placement == "hardware":
            found.add(Circuit(plan.device, "decode", step.decoder, step.profile, step.bit_depth))
    decoded = {step.stream: step for step in plan.decode}
    for rendition in (each for output in plan.outputs for each in output.renditions):
        if not isinstance(rendition, VideoRendition) or rendition.placement != "hardware":
            continue
        api: HardwareApi | None = "qsv" if API_OF[rendition.encoder] == "qsv" else None
        found.add(Circuit(plan.device, "encode", rendition.codec, None, bit_depth_of(rendition), api))
        if rendition.filter_placement == "hardware":
            step = decoded[rendition.stream]
            found.add(Circuit(plan.device, "filter", step.decoder, step.profile, step.bit_depth))
    return frozenset(found)


@dataclass
class _Record:
    jobs: set[str] = field(default_factory=set)
    open: bool = False


class Breaker:
    """Counts by circuit. `threshold`: jobs that fail before it opens."""

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._records: dict[Circuit, _Record] = {}

    def failed(self, circuit: Circuit, job_id: str) -> bool:
        """Counts a failure; True when this opens the circuit."""
        record = self._records.setdefault(circuit, _Record())
        record.jobs.add(job_id)
        if record.open or len(record.jobs) < self._threshold:
            return False
        record.open = True
        return True

    def succeeded(self, circuit: Circuit) -> None:
        """Forgets the failures before. Profiles are left aside: an encoder's is known only when it fails."""
        for known in list(self._records):
            same = (known.device, known.stage, known.codec, known.bit_depth, known.api)
            if same == (circuit.device, circuit.stage, circuit.codec, circuit.bit_depth, circuit.api) and (
                circuit.profile in (None, known.profile) or known.profile is None
            ):
                del self._records[known]

    def half_close(self, circuit: Circuit) -> None:
        """Lets it be tried, and opens again at the next failure."""
        record = self._records.get(circuit)
        if record is not None:
            record.open = False
            record.jobs = set(sorted(record.jobs)[: self._threshold - 1])

    @property
    def open(self) -> tuple[Circuit, ...]:
        return tuple(circuit for circuit, record in self._records.items() if record.open)

    def verdicts(self, device: str) -> tuple[Verdict, ...]:
        """What is not to be planned on the device now."""
        return tuple(
            Verdict(
                device=circuit.device,
                stage=circuit.stage,
                codec=circuit.codec,
                profile=circuit.profile if circuit.stage == "decode" else None,
                bit_depth=circuit.bit_depth,
                api=circuit.api,
                reason=f"{circuit} failed here for {len(self._records[circuit].jobs)} jobs in a row: "
                "it waits until a test passes",
            )
            for circuit in self.open
            if circuit.device == device
        )
