"""The options of `run` and `plan` that shape an output, as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_type_hints

import typer

from transcoder.cli.values import parse_bitrate, parse_time

VideoCodecChoice = Literal["h264", "hevc", "av1", "vp9", "copy", "none"]
AudioCodecChoice = Literal["aac", "opus", "mp3", "flac", "copy", "none"]
SpeedChoice = Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"]

# These stand here as well as in pipelines.spec so that `--help` need not load the engine's models; a test holds them
# together.


def _typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser whose ValueError is shown as a fault of its option."""

    def parser(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parser


def _time(*names: str, help: str) -> Any:
    return typer.Option(*names, parser=_typed(parse_time), metavar="TIME", help=help)


def _rate(*names: str, help: str, panel: str) -> Any:
    return typer.Option(*names, parser=_typed(parse_bitrate), metavar="RATE", help=help, rich_help_panel=panel)


def _option(*names: str, help: str, panel: str | None = None) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel)


@dataclass(frozen=True)
class Choices:
    """None: as the preset has it, or as the engine finds best. The annotations are the command line's options."""

    start: Annotated[float | None, _time("--start", help="Start here: 90, 1:30 or 1:02:03.5.")] = None
    end: Annotated[float | None, _time("--end", help="End here.")] = None
    copy: Annotated[bool, _option("--copy", help="Change the container only; nothing is encoded.")] = False
    subtitles: Annotated[bool, _option("--subtitles/--no-subtitles", help="Keep subtitle tracks.")] = True
    video_codec: Annotated[
        VideoCodecChoice | None, _option("--video-codec", help="`none` leaves the picture out.", panel="Video")
    ] = None
    height: Annotated[int | None, _option("--height", help="Highest picture, in pixels.", panel="Video")] = None
    width: Annotated[int | None, _option("--width", help="Widest picture, in pixels.", panel="Video")] = None
    frame_rate: Annotated[
        str | None, _option("--fps", help="Constant frame rate: 30, 29.97 or 30000/1001.", panel="Video")
    ] = None
    crf: Annotated[
        float | None, _option("--crf", help="Quality on the codec's own scale; less is better.", panel="Video")
    ] = None
    bitrate: Annotated[
        int | None, _rate("--bitrate", help="Average: 4M, 800k (the sound's, where OUT is sound only).", panel="Video")
    ] = None
    maxrate: Annotated[int | None, _rate("--maxrate", help="Cap on the peaks.", panel="Video")] = None
    speed: Annotated[SpeedChoice | None, _option("--speed", help="Effort: faster is larger.", panel="Video")] = None
    gop_seconds: Annotated[
        float | None, _option("--gop", help="Longest time between keyframes, in seconds.", panel="Video")
    ] = None
    audio_codec: Annotated[
        AudioCodecChoice | None, _option("--audio-codec", help="`none` leaves the sound out.", panel="Sound")
    ] = None
    audio_bitrate: Annotated[int | None, _rate("--audio-bitrate", help="Bitrate: 128k.", panel="Sound")] = None

    @property
    def given(self) -> list[str]:
        """The options that were given, as typed."""
        # inside Annotated, typer keeps an option's first spelling as its "default"; a flag's last one turns it off
        names = {name: hint.__metadata__[0].default.split("/")[-1] for name, hint in _hints().items()}
        return [names[field.name] for field in fields(self) if getattr(self, field.name) != field.default]

    @property
    def rung(self) -> dict[str, object]:
        """What of a rung was given, codec and rate control apart."""
        names = ("width", "height", "frame_rate", "speed", "gop_seconds")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def _hints() -> dict[str, Any]:
    return get_type_hints(Choices, include_extras=True)


def takes_choices(command: Callable[..., None]) -> Callable[..., None]:
    """Gives `command` one option for each field of Choices, in place of its parameter `choices`."""
    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "choices"
    ]
    added = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=_hints()[field.name]
        )
        for field in fields(Choices)
    ]
    names = [field.name for field in fields(Choices)]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        choices = Choices(**{name: values.pop(name) for name in names})
        command(**values, choices=choices)

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + added
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper
