"""What was measured before a run, and decided by it."""

from __future__ import annotations

from pipelines.quality.metrics import Score
from pipelines.rate_control import TargetQuality
from pipelines.source import Facts


class Probe(Facts):
    """One CRF tried on the samples. `bit_rate`: of their pictures, bit/s."""

    crf: float
    score: Score
    bit_rate: int | None


class RungFinding(Facts):
    """What target quality came to for one rung: the CRF, and what was measured with it on samples."""

    output: str
    rung: int
    goal: TargetQuality
    crf: float
    score: Score
    reached: bool
    probes: tuple[Probe, ...]

    @property
    def reason(self) -> str:
        goal, score = self.goal, self.score
        how = f"crf {self.crf:g} by measuring {score.frames} pictures of samples in {len(self.probes)} probes"
        reached = "" if self.reached else ", which is the best there is"
        return f"{how}: {goal.metric} {score.mean:.4f} for {goal.value:g}{reached}"


class TitleRung(Facts):
    """What became of one rung of a per-title ladder. `bit_rate`: of samples at the codec's usual quality, uncapped."""

    output: str
    width: int | None
    height: int | None
    bit_rate: int | None
    usual_maxrate: int | None
    maxrate: int | None
    kept: bool
    reason: str


class Checked(Facts):
    """What was measured of a finished track, over samples of it."""

    output: str
    track: int
    samples: int
    scores: tuple[Score, ...]


class Findings(Facts):
    titles: tuple[TitleRung, ...] = ()
    targets: tuple[RungFinding, ...] = ()
