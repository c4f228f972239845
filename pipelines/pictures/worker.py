"""The thread of one output of pictures: chooses among decoded frames, filters what is chosen, hands it on."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pipelines.channel import Channel
from pipelines.errors import NoFrames
from pipelines.graph import VideoGraph
from pipelines.pictures.bounds import check_count
from pipelines.pictures.encoding import Rgb, rgb_of
from pipelines.pictures.folder import PictureFolder, Shot
from pipelines.pictures.layout import BestOf, SceneStarts
from pipelines.pictures.moments import Chosen, selector_for
from pipelines.pictures.score import Greys, worth
from pipelines.rendition import PictureRendition
from pipelines.tracks import Span, TrackState
from pipelines.warning_log import WarningLog

AT_ONCE_SECONDS = Fraction(1, 5)
"""A picture that follows within this time tells whether something fades."""


class PictureWorker:
    """Takes pictures of one track for one output."""

    def __init__(
        self,
        rendition: PictureRendition,
        track: TrackState,
        frames: Channel[Any],
        graph: VideoGraph,
        folder: PictureFolder,
        time_base: Fraction,
        span: Span,
        duration: Fraction | None,
        warnings: WarningLog,
    ) -> None:
        """`time_base`: of the decoded frames. `duration`: of what is taken of the input, None where nobody knows."""
        self._rendition, self._track, self._frames, self._graph, self.folder = rendition, track, frames, graph, folder
        self._time_base, self._span, self._duration, self._warnings = time_base, span, duration, warnings
        self._selector = selector_for(rendition.picks, duration, nearest=rendition.nearest)
        self._fields = any(step.kind == "deinterlace" for step in rendition.filters)
        self._greys = Greys() if isinstance(rendition.picks, BestOf) else None
        self._best: tuple[float, Chosen, Rgb] | None = None
        self._filtered: tuple[Any, Rgb] | None = None
        self._reached = Fraction(0)

    @property
    def end_seconds(self) -> float:
        """How far it has come."""
        return float(self._reached)

    def __call__(self) -> None:
        while (frame := self._frames.get()) is not None:
            time = max(Fraction(0), frame.pts * self._time_base - self._span.zero)
            for chosen in self._selector.see(frame, time):
                self._weigh(chosen)
            self._reached = time
        end = self._end()
        for chosen in self._selector.finish(end):
            self._weigh(chosen)
        self._emit_best()
        if self.folder.count == 0 and self._track.frames == 0:
            raise NoFrames("nothing could be decoded from the video", stage="decode", stream=self._rendition.stream)
        self.folder.finish(max(end, self._duration or end))

    def _end(self) -> Fraction:
        """When the last frame is no longer shown."""
        end = self._reached if self._track.end is None else self._track.end - self._span.zero
        if self._span.end is not None:
            end = min(end, self._span.end - self._span.zero)
        return max(end, self._reached)

    def _weigh(self, chosen: Chosen) -> None:
        """Of several candidates for one picture the best one is kept."""
        if self._greys is None:
            self._take(chosen, self._picture(chosen))
            return
        if self._best is not None and self._best[1].group != chosen.group:
            self._emit_best()
        at_once = chosen.after_time is not None and chosen.after_time - chosen.time <= AT_ONCE_SECONDS
        after = self._greys.for_worth(chosen.after) if at_once else None
        value = worth(self._greys.for_worth(chosen.frame), after)
        if self._best is None or value > self._best[0]:
            self._best = (value, chosen, self._picture(chosen))

    def _emit_best(self) -> None:
        best, self._best = self._best, None
        if best is not None:
            self._take(best[1], best[2])

    def _take(self, chosen: Chosen, picture: Rgb) -> None:
        limit = self._rendition.max_pictures
        if self.folder.count >= limit:
            if isinstance(self._rendition.picks, SceneStarts):
                self._warnings.add("pictures_limited", f"more than {limit} scenes: those after are left out")
                return
            check_count(self.folder.count + 1, limit, stage="run")
        self.folder.take(Shot(picture, chosen.time, chosen.begin))

    def _picture(self, chosen: Chosen) -> Rgb:
        """The frame as it is displayed, at the size of the plan."""
        if self._filtered is not None and self._filtered[0] is chosen.frame:
            return self._filtered[1]
        picture = rgb_of(self._with_neighbours(chosen) if self._fields else self._alone(chosen.frame))
        self._filtered = (chosen.frame, picture)
        return picture

    def _alone(self, frame: Any) -> Any:
        made = [*self._graph.push(frame)]
        return made[-1] if made else [*self._graph.flush()][-1]

    def _with_neighbours(self, chosen: Chosen) -> Any:
        """What becomes of two fields depends on those before and after them."""
        given = [frame for frame in (chosen.before, chosen.frame, chosen.after) if frame is not None]
        made = [filtered for frame in given for filtered in self._graph.push(frame)]
        made += self._graph.flush()
        return made[min(given.index(chosen.frame), len(made) - 1)]
