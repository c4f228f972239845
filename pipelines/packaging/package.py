"""A ladder being written: a lane for each track, and the manifests when all have ended."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import TracebackType

from pipelines.errors import OutputFailed, PipelineError, UnsupportedSpec
from pipelines.mux import MUX_ERRORS, Writer, output_error
from pipelines.packaging import dash, hls
from pipelines.packaging.cue_lane import CueLane
from pipelines.packaging.encryption import Seals, seals_of
from pipelines.packaging.lanes import LANES, Lane, Mp4Lane
from pipelines.packaging.layout import DASH_NAME, Packaging
from pipelines.packaging.sealing.blocks import Cipher
from pipelines.packaging.segments import SegmentFiles
from pipelines.packaging.tracks import Track
from pipelines.packaging.ts import OFFSET_SECONDS
from pipelines.pictures.folder import PictureFolder
from pipelines.rendition import OutputPlan
from pipelines.source import Chapter

TS_CLOCK = 90_000


def open_writer(plan: OutputPlan, folder: Path, cipher: Cipher | None = None) -> Writer | Package | PictureFolder:
    """What writes an output: one file, a ladder, or pictures. `cipher` is needed where that is to be encrypted."""
    packaging = plan.packaging
    if plan.pictures is not None:
        return PictureFolder(plan, folder, plan.pictures)
    if packaging is None:
        return Writer(plan, folder)
    if packaging.encryption is None:
        return Package(plan, folder, packaging)
    if cipher is None:
        raise UnsupportedSpec("nothing here encrypts with AES", stage="plan", output=plan.name)
    return Package(plan, folder, packaging, seals_of(packaging.encryption, cipher))


class Package:
    """Writes one ladder into its folder, with the interface of a Writer."""

    def __init__(self, plan: OutputPlan, folder: Path, packaging: Packaging, seals: Seals | None = None) -> None:
        self.plan, self.packaging, self._seals = plan, packaging, seals or Seals()
        self.path = folder / plan.path
        self._root = self.path.parent
        self._texts: list[str] = []
        self._closed = False
        self._lanes = [self._make_lane(number) for number in range(len(plan.renditions))]

    def _make_lane(self, number: int) -> Lane | CueLane:
        packaging, layout = self.packaging, self.packaging.tracks[number]
        folder = self._root / layout.folder
        make, extension, picture_options, sound_options = LANES[packaging.segment_format]
        sound = layout.kind == "audio"
        path = str(Path(self.plan.path).parent / layout.folder)
        plan = self.plan.model_copy(
            update={
                "path": path,
                "muxer_options": sound_options if sound else picture_options,
                "renditions": (self.plan.renditions[number],),
                "metadata": {},
                "chapters": None,
                "packaging": None,
            }
        )
        if layout.kind == "subtitle":
            return CueLane(plan, self._root, SegmentFiles(folder, "vtt", single=False))
        files = SegmentFiles(
            folder,
            extension,
            single=packaging.single_file,
            index_entries=packaging.index_entries,
            seal=self._seals.segments,
        )
        return make(plan, self._root, files, packaging.grid, self._seals.samples, sound=sound)

    @property
    def bytes(self) -> int:
        return sum(lane.bytes for lane in self._lanes)

    def lane(self, number: int) -> Writer:
        """Where the rendition at that place of the plan is written."""
        return self._lanes[number]

    def start(self, chapters: tuple[Chapter, ...] = ()) -> None:
        """Chapters have no place in manifests."""
        for lane in self._lanes:
            lane.start()

    def files(self) -> tuple[str, ...]:
        """What was written, by paths relative to the job's output folder; the one that players open comes first."""
        root = Path(self.plan.path).parent
        listed = [*self._texts]
        for lane, layout in zip(self._lanes, self.packaging.tracks, strict=True):
            listed += [f"{layout.folder}/{path}" for path in lane.written.paths]
        return tuple(dict.fromkeys([self.plan.path, *(str(root / path) for path in listed)]))

    def close(self) -> None:
        """Ends the last segments and writes the manifests."""
        if self._closed:
            return
        self._closed = True
        for lane in self._lanes:
            lane.close()
        tracks = self._tracks()
        if not tracks:
            raise OutputFailed("nothing was written", stage="mux", path=self.plan.path)
        texts: dict[str, str] = {}
        if "hls" in self.packaging.manifests:
            texts |= hls.playlists(tracks, self.packaging)
        if "dash" in self.packaging.manifests:
            texts[DASH_NAME] = dash.manifest(tracks, self.packaging)
        for name, text in texts.items():
            self._write_text(name, text)

    def _write_text(self, name: str, text: str) -> None:
        try:
            with (self._root / name).open("w", encoding="utf-8", newline="") as file:
                file.write(text)
        except MUX_ERRORS as error:
            raise output_error(error, str(Path(self.plan.path).parent / name)) from error
        self._texts.append(name)

    def _tracks(self) -> list[Track]:
        """Those that something came of; subtitles are cut where the longest other track says."""
        timed: list[Track] = []
        for lane, layout in zip(self._lanes, self.packaging.tracks, strict=True):
            if isinstance(lane, Lane) and lane.segments:
                timescale = lane.timescale if isinstance(lane, Mp4Lane) else TS_CLOCK
                files, segments = lane.written, tuple(lane.segments)
                try:
                    files.write_index(segments, timescale)
                except MUX_ERRORS as error:
                    raise output_error(error, lane.plan.path) from error
                place = (files.init_path, files.init_size, files.index_size)
                timed.append(Track(layout, lane.codec, segments, timescale, *place))
        if not timed:
            return []
        cuts = self._cuts(timed)
        texts = []
        for lane, layout in zip(self._lanes, self.packaging.tracks, strict=True):
            if isinstance(lane, CueLane):
                segmented, whole = "hls" in self.packaging.manifests, "dash" in self.packaging.manifests
                lane.write_files(cuts, segmented=segmented, whole=whole, head=self._clock())
                texts.append(Track(layout, "", tuple(lane.segments), whole_path=lane.whole_path))
        return [*timed, *texts]

    def _cuts(self, timed: list[Track]) -> list[Fraction]:
        end = max(track.end for track in timed)
        leader = next((track for track in timed if track.layout.kind == "video"), timed[0])
        inner = [segment.begin for segment in leader.segments[1:] if segment.begin < end]
        return [Fraction(0), *inner, end]

    def _clock(self) -> str:
        """Where the subtitles' zero lies on the clock of the pictures (RFC 8216, 3.5)."""
        offset = OFFSET_SECONDS if self.packaging.segment_format == "ts" else 0
        return f"X-TIMESTAMP-MAP=MPEGTS:{offset * TS_CLOCK},LOCAL:00:00:00.000"

    def __enter__(self) -> Package:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        for lane in self._lanes:
            try:
                lane.close()
            except PipelineError:
                continue  # the first error is the one that counts
