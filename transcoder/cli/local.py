"""Work in this process that Ctrl-C ends quickly and that leaves nothing half done."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Generic, TypeVar

from pipelines.errors import Cancelled
from transcoder.cli.failures import INPUT, INTERRUPTED, CommandError, Interrupted
from transcoder.cli.options import is_url
from transcoder.cli.screen import ProgressView, say

if TYPE_CHECKING:
    from pipelines.asked.filters import ImageSource
    from pipelines.asked.subtitle_files import SubtitleFile
    from pipelines.devices import Device
    from pipelines.estimates.speeds import Speed
    from pipelines.opening.input import LocalFile
    from pipelines.rendition import Plan
    from pipelines.result import Result
    from pipelines.source import SourceInfo
    from pipelines.spec import FileJob
    from transcoder.jobs import Attempt
    from transcoder.settings import Settings

T = TypeVar("T")

GRACE_SECONDS = 5.0
"""Time that the engine gets to stop by itself; after it the process ends under it."""

ANYWHERE = (ip_network("0.0.0.0/0"), ip_network("::/0"))
"""Addresses that the command line reads from: whoever types the URL could as well fetch it with another tool."""


@dataclass(frozen=True)
class _Ended(Generic[T]):
    value: T | None
    error: BaseException | None


class _Signalled:
    """Ctrl-C or SIGTERM came."""


def interruptible(work: Callable[[threading.Event], T], *, on_abandon: Callable[[], None] | None = None) -> T:
    """Runs `work` in a thread; SIGINT and SIGTERM set the event it is given and end this as Interrupted.

    Work that does not stop in time, or a second signal, ends the process after `on_abandon`.
    """
    stop = threading.Event()
    # SimpleQueue.put may be called in a signal handler; locks and Event.set may not
    news: SimpleQueue[_Ended[T] | _Signalled] = SimpleQueue()

    def run() -> None:
        try:
            news.put(_Ended(work(stop), None))
        except BaseException as error:  # noqa: BLE001 - carried to the waiting thread and raised there
            news.put(_Ended(None, error))

    def signalled(number: int, frame: FrameType | None) -> None:
        news.put(_Signalled())

    before = {number: signal.signal(number, signalled) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        threading.Thread(target=run, name="transcode", daemon=True).start()
        first = news.get()
        if isinstance(first, _Signalled):
            stop.set()
            ended = _await_end(news, on_abandon)
            if ended.error is not None:
                raise Interrupted from ended.error
        else:
            ended = first
        if ended.error is not None:
            raise ended.error
        return ended.value  # type: ignore[return-value]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _await_end(news: SimpleQueue[_Ended[T] | _Signalled], on_abandon: Callable[[], None] | None) -> _Ended[T]:
    """How the work ended after it was told to stop; it may have been done already."""
    killer = threading.Timer(GRACE_SECONDS, news.put, (_Signalled(),))
    killer.daemon = True
    killer.start()
    ended = news.get()
    killer.cancel()
    if isinstance(ended, _Signalled):
        if on_abandon is not None:
            on_abandon()
        say("error [cancelled]: interrupted; nothing was written")
        sys.stdout.flush()
        os._exit(INTERRUPTED)
    return ended


@contextmanager
def scratch_beside(out: Path) -> Iterator[Path]:
    """A hidden folder on the same file system as `out`, removed at the end whatever happens."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name[:100]}.", dir=out.parent))
    except FileNotFoundError:
        raise CommandError("file_error", f"{out.parent}: there is no such folder") from None
    except OSError as error:
        raise CommandError("file_error", f"{out.parent}: {error.strerror}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(written: Path, out: Path, *, force: bool) -> None:
    """Gives a finished file its name in one step; without `force` never over a file that appeared meanwhile."""
    if not force:
        try:
            os.link(written, out)
            return
        except FileExistsError:
            raise exists(out) from None
        except OSError:
            # no hard links on this file system: the check before the run stands
            if out.exists():
                raise exists(out) from None
    written.replace(out)


def publish_folder(written: Path, out: Path, *, force: bool) -> None:
    """The same with a finished folder; what `force` replaces is moved away first, so that it is whole at any time."""
    if out.exists() or out.is_symlink():
        if not force:
            raise exists(out)
        old = written.with_name(f"{written.name}.replaced")
        out.rename(old)
    written.rename(out)


def exists(out: Path) -> CommandError:
    return CommandError("output_exists", f"{out} exists; --force replaces it")


def beside(files: Iterable[ImageSource | SubtitleFile]) -> dict[str, Path]:
    """The files that a job names, by paths of this machine: uploads are a server's."""
    found: dict[str, Path] = {}
    for file in files:
        if file.path is None:
            raise CommandError("file_error", f"{file.key}: uploads are on a server; give a path", INPUT)
        check_file(Path(file.path))
        found[file.key] = Path(file.path).absolute()
    return found


def check_file(path: Path) -> None:
    """CommandError where `path` is no file that can be read."""
    if not path.exists():
        raise CommandError("file_error", f"{path}: there is no such file", INPUT)
    if path.is_dir():
        raise CommandError("file_error", f"{path}: is a folder", INPUT)
    if not os.access(path, os.R_OK):
        raise CommandError("file_error", f"{path}: may not be read", INPUT)


@dataclass
class Way:
    """The way that a run took: what a receipt is written from."""

    plan: Plan | None = None
    device: Device | None = None
    earlier: tuple[Attempt, ...] = ()


@dataclass(frozen=True)
class Engine:
    """What the media engine needs from this side."""

    settings: Settings
    view: ProgressView
    way: Way = field(default_factory=Way)

    @property
    def cpu(self) -> Device:
        from pipelines.devices import software_device

        return software_device(max(1, self.settings.software_slots))

    def plan(self, spec: FileJob, source: SourceInfo) -> Plan:
        """For the device that `transcode` would begin with, or the next that has something to do."""
        from pipelines.estimates.estimate import estimated
        from pipelines.estimates.work import Pace
        from pipelines.plan import plan
        from transcoder.cli.gpu import opened, wants_gpu

        if not wants_gpu(spec.device, self.settings):
            return estimated(plan(spec, source, self.cpu), source, Pace(cpu=self._cpu_speeds()))

        async def planned() -> Plan:
            async with opened(self.settings, self.view) as gpus:
                return gpus.plan(spec, source)

        return asyncio.run(planned())

    def _cpu_speeds(self) -> tuple[Speed, ...]:
        """As a service has measured them in the data folder; else by a moment's trial."""
        from pipelines.trials.speed import SOFTWARE_TRIALS, run_trial
        from transcoder.gpus.cache import DeviceCache
        from transcoder.gpus.devices import cpu_name

        cache = DeviceCache(self.settings.data_dir / "devices.json")
        known = cache.recall(self.cpu, cpu_name())
        if known is not None:
            return known.speeds
        return tuple(trial.speed(run_trial(trial, None)) for trial in SOFTWARE_TRIALS)

    def open(self, source: str, scratch: Path, stop: threading.Event) -> LocalFile:
        """The input as a local file; URLs are fetched into `scratch` first."""
        from pipelines.opening.input import LocalFile

        if is_url(source):
            return asyncio.run(self._fetch(source, scratch / "input", stop))
        path = Path(source)
        check_file(path)
        return LocalFile(path=path.absolute(), name=path.name)

    async def _fetch(self, url: str, target: Path, stop: threading.Event) -> LocalFile:
        from pipelines.opening.input import LocalFile
        from transcoder.network.fetch import fetch

        self.view.note("fetching")
        fetching = asyncio.create_task(
            fetch(
                url,
                target,
                allowed_networks=ANYWHERE,
                max_bytes=self.settings.max_upload_bytes,
                idle_seconds=self.settings.upload_idle_seconds,
            )
        )
        while not fetching.done():
            await asyncio.wait({fetching}, timeout=0.2)
            if stop.is_set():
                fetching.cancel()
        if fetching.cancelled():
            raise Cancelled("the download was cancelled", stage="fetch")
        fetched = fetching.result()
        return LocalFile(path=fetched.path, name=fetched.name)

    def transcode(
        self,
        spec: FileJob,
        file: LocalFile,
        folder: Path,
        stop: threading.Event,
    ) -> Result:
        """In this process where no GPU has a part in it, else in children."""
        from pipelines.opening.beside import files_beside
        from pipelines.planning.placement import encodes_pictures
        from pipelines.transcode import transcode
        from transcoder.cli.gpu import opened, wants_gpu

        file = replace(file, beside=beside(files_beside(spec)))
        if encodes_pictures(spec) and wants_gpu(spec.device, self.settings):

            async def transcoded() -> Result:
                async with opened(self.settings, self.view) as gpus:
                    self.view.note("transcoding")
                    return await gpus.transcode(spec, file, folder, stop, self.way)

            return asyncio.run(transcoded())
        self.view.note("transcoding")
        self.way.device = self.cpu
        return transcode(
            spec,
            file,
            folder,
            device=self.cpu,
            on_plan=lambda made: setattr(self.way, "plan", made),
            limits=self.settings.limits,
            on_progress=self.view.show,
            cancelled=stop,
        )
