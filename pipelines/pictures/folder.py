"""An output of pictures being written: files of stills and sheets and the indexes that name them, or an animation."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath
from types import TracebackType

from pipelines.errors import NoFrames
from pipelines.mux import output_error
from pipelines.pictures.animation import write_animation
from pipelines.pictures.encoding import Rgb, StillEncoder
from pipelines.pictures.layout import INDEX_NAME, SPRITES_NAME
from pipelines.pictures.sheets import Tiler
from pipelines.pictures.vtt import PictureCue, index_text
from pipelines.rendition import OutputPlan, PictureRendition
from pipelines.source import Chapter


@dataclass(frozen=True)
class Shot:
    """A picture that was taken: of what is shown at `time`; it stands for what follows `begin`."""

    picture: Rgb
    time: Fraction
    begin: Fraction


class PictureFolder:
    """Writes one output of pictures, with the interface of a Writer. One thread takes them."""

    def __init__(self, plan: OutputPlan, folder: Path, rendition: PictureRendition) -> None:
        self.plan, self.rendition, self._folder = plan, rendition, folder
        self.path = folder / plan.path
        self.bytes = 0
        self.count = 0
        self.times: list[float] = []
        self._paths: list[str] = []
        self._still_cues: list[PictureCue] = []
        self._sprite_cues: list[PictureCue] = []
        self._sheets = 0
        self._frames: list[Rgb] = []
        self._encoder = None if rendition.animation else StillEncoder(rendition.encoder, rendition.options)
        self._tiler = None if rendition.sheet is None else Tiler(rendition.sheet)
        self._in_folder = rendition.form == "thumbnails"
        if self._in_folder:
            self.path.parent.mkdir(exist_ok=True)

    def lane(self, number: int) -> PictureFolder:
        return self

    def start(self, chapters: tuple[Chapter, ...] = ()) -> None:
        """Nothing is written before the first picture."""

    def take(self, shot: Shot) -> None:
        """The next picture; DiskFull or OutputFailed when it can't be written."""
        self.count += 1
        self.times.append(round(float(shot.time), 6))
        if self.rendition.animation is not None:
            self._frames.append(shot.picture)
            return
        if self.rendition.stills:
            name = (
                f"{self.count:05}.{self.rendition.extension}" if self._in_folder else PurePosixPath(self.plan.path).name
            )
            self._write(name, self._encoded(shot.picture))
            self._still_cues.append(PictureCue(shot.begin, name))
        if self._tiler is not None:
            place = self._tiler.add(shot.picture, shot.time)
            target = f"{self._sheet_name()}#xywh={','.join(map(str, place))}"
            self._sprite_cues.append(PictureCue(shot.begin, target))
            if self._tiler.full:
                self._end_sheet()

    def finish(self, end: Fraction) -> None:
        """No more pictures; `end`: how long the last one stands for."""
        if self.count == 0:
            raise NoFrames("no picture came of the input", stage="decode", output=self.plan.name)
        if self._frames:
            name = PurePosixPath(self.plan.path).name
            write_animation(self._folder / name, self.rendition, self._frames, name)
            self._count_file(name)
            self._frames = []
            return
        if self._tiler is not None and not self._tiler.empty:
            self._end_sheet()
        if self._in_folder:
            indexes = ((SPRITES_NAME, self._sprite_cues), (INDEX_NAME, self._still_cues))
            for name, cues in indexes:
                if cues:
                    self._write(name, index_text(cues, end).encode())

    def files(self) -> tuple[str, ...]:
        """What players open comes first."""
        return tuple(dict.fromkeys([self.plan.path, *self._paths]))

    def close(self) -> None:
        """All is written when the last picture has been taken."""

    def _sheet_name(self) -> str:
        if not self._in_folder:
            return PurePosixPath(self.plan.path).name
        return f"sprites-{self._sheets + 1:03}.{self.rendition.extension}"

    def _end_sheet(self) -> None:
        assert self._tiler is not None
        self._write(self._sheet_name(), self._encoded(self._tiler.take()))
        self._sheets += 1

    def _encoded(self, picture: Rgb) -> bytes:
        assert self._encoder is not None
        return self._encoder.encode(picture)

    def _relative(self, name: str) -> str:
        return str(PurePosixPath(self.plan.path).parent / name)

    def _write(self, name: str, content: bytes) -> None:
        path = self._relative(name)
        try:
            (self._folder / path).write_bytes(content)
        except OSError as error:
            raise output_error(error, path) from error
        self._paths.append(path)
        self.bytes += len(content)

    def _count_file(self, name: str) -> None:
        path = self._relative(name)
        self._paths.append(path)
        self.bytes += (self._folder / path).stat().st_size

    def __enter__(self) -> PictureFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._frames = []
