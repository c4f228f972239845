"""What `run IN OUT` makes that is no file of video or sound: ladders, pictures, animations. Pure.

Of several files OUT names the folder that they come in: `film.m3u8` makes the folder `film`, with `index.m3u8` in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.presets import Preset
from pipelines.spec import (
    CmafLadder,
    ContactSheetOutput,
    DashLadder,
    FileOutput,
    GifOutput,
    HlsLadder,
    LadderOutput,
    PictureOutput,
    PosterOutput,
    Rung,
    ThumbnailsOutput,
    WebpOutput,
)
from transcoder.cli.choices import Choices
from transcoder.cli.failures import CommandError
from transcoder.cli.values import FOLDER_SUFFIXES, OTHER_SUFFIXES

OtherOutput = LadderOutput | PictureOutput

USUAL: dict[str, type[OtherOutput]] = {
    ".m3u8": HlsLadder,
    ".mpd": DashLadder,
    ".vtt": ThumbnailsOutput,
    ".jpg": PosterOutput,
    ".jpeg": PosterOutput,
    ".gif": GifOutput,
    ".webp": WebpOutput,
}
"""What an extension makes without a preset."""
ABLE: dict[str, tuple[type[OtherOutput], ...]] = {
    ".m3u8": (HlsLadder, CmafLadder),
    ".mpd": (DashLadder, CmafLadder),
    ".vtt": (ThumbnailsOutput,),
    ".jpg": (PosterOutput, ContactSheetOutput),
    ".jpeg": (PosterOutput, ContactSheetOutput),
    ".gif": (GifOutput,),
    ".webp": (WebpOutput, PosterOutput, ContactSheetOutput),
}
"""What may come out under an extension, where a preset says which."""
FOLLOWED = ("--start", "--end")
BOXED = ("--width", "--height")


def other_output(out: Path, preset: Preset | None, choices: Choices) -> OtherOutput | None:
    """The output that OUT and the preset ask for; None where that is a file of video or sound.

    CommandError where preset, options and extension exclude each other.
    """
    suffix = out.suffix.lower()
    wanted = preset.outputs[0] if preset is not None and len(preset.outputs) == 1 else None
    if suffix not in OTHER_SUFFIXES:
        if isinstance(wanted, FileOutput) or wanted is None:
            return None
        able = " ".join(name for name, kinds in ABLE.items() if isinstance(wanted, kinds))
        assert preset is not None
        raise CommandError("unsupported", f"preset {preset.name} makes {wanted.type}: {out} would have to be {able}")
    made: Any = wanted
    if preset is None:
        made = USUAL[suffix]()
    elif not isinstance(wanted, ABLE[suffix]):
        raise CommandError("unsupported", f"preset {preset.name} does not make {suffix} files")
    fields: dict[str, Any] = {"name": out.stem if suffix in FOLDER_SUFFIXES else "output"}
    if isinstance(made, PosterOutput | ContactSheetOutput):
        fields["format"] = "webp" if suffix == ".webp" else "jpg"
    fields |= _chosen(made, choices)
    return type(made).model_validate({**_given(made), **fields})  # type: ignore[no-any-return]


def folder_of(out: Path) -> Path | None:
    """The folder that is made in place of a file called OUT; None: a file."""
    return out.with_suffix("") if out.suffix.lower() in FOLDER_SUFFIXES else None


def _given(output: OtherOutput) -> dict[str, Any]:
    return {name: getattr(output, name) for name in output.model_fields_set if name != "name"}


def _chosen(output: OtherOutput, choices: Choices) -> dict[str, Any]:
    boxed = hasattr(output, "height")
    refused = [option for option in choices.given if option not in FOLLOWED and not (boxed and option in BOXED)]
    box = {name: value for name in ("width", "height") if (value := getattr(choices, name)) is not None}
    if isinstance(output, HlsLadder | DashLadder | CmafLadder):
        # one rung of the size and effort that were asked for
        refused = [option for option in refused if option not in (*BOXED, "--speed", "--fps", "--gop")]
        if choices.rung:
            return _refusing(refused, output) or {"video": (Rung.model_validate(choices.rung),)}
    elif "height" in box and "width" not in box:
        box["width"] = None
    return _refusing(refused, output) or box


def _refusing(refused: list[str], output: OtherOutput) -> dict[str, Any]:
    if refused:
        raise CommandError("unsupported", f"{output.type} does not follow {', '.join(refused)}")
    return {}
