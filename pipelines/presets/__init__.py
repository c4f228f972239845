"""Presets: named outputs in TOML files, one preset a file. Those beside this module, and a folder of the user's own.

A preset's name is its file's name. A user's preset replaces the one of the same name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath
from typing import Any

from pydantic import Field, ValidationError

from pipelines.errors import PipelineError, cause
from pipelines.spec import FileJob, Model, OutputName, UniqueOutputs

SUFFIX = ".toml"
MAX_FILE_BYTES = 1 << 20


class UnknownPreset(PipelineError):
    """Facts: the name asked for, and the names there are."""

    code = "unknown_preset"


class BadPreset(PipelineError):
    """A preset file that can't be used. Facts: the file, the field (None when the file as a whole is wrong), why."""

    code = "bad_preset"


class Preset(Model):
    """Outputs under a name."""

    name: OutputName
    title: str = Field("", max_length=200)
    description: str = Field("", max_length=2000)
    outputs: UniqueOutputs


def preset_files(extra: Path | None = None) -> dict[str, Traversable]:
    """Preset files by preset name, sorted; BadPreset when `extra` is not a folder that can be read."""
    files = _toml_files(resources.files(__name__))
    if extra is not None:
        try:
            files |= _toml_files(extra)
        except OSError as error:
            raise _bad(extra, None, cause(error)) from None
    return dict(sorted(files.items()))


def load_presets(extra: Path | None = None) -> dict[str, Preset]:
    """All presets by name; those in the folder `extra` are added to the built-in ones or replace them."""
    return {name: load_preset_file(file) for name, file in preset_files(extra).items()}


def load_preset_file(path: Path | Traversable) -> Preset:
    """The preset in a TOML file; BadPreset when there is none or it says what it can't."""
    data = _read(path)
    if "name" in data:
        raise _bad(path, "name", "a preset is named by its file")
    try:
        return Preset.model_validate({**data, "name": PurePath(path.name).stem})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or None
        raise _bad(path, field, first["msg"].removeprefix("Value error, ")) from None


def find_preset(name: str, presets: Mapping[str, Preset]) -> Preset:
    """The preset of that name; UnknownPreset with the nearest names when there is none."""
    preset = presets.get(name)
    if preset is not None:
        return preset
    near = get_close_matches(name, presets, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(presets)}"
    raise UnknownPreset(f"no preset is called {name!r}{hint}", stage="plan", preset=name, presets=list(presets))


def resolve(spec: FileJob, presets: Mapping[str, Preset]) -> FileJob:
    """`spec` with its preset replaced by the preset's outputs."""
    if spec.preset is None:
        return spec
    return spec.model_copy(update={"outputs": find_preset(spec.preset, presets).outputs, "preset": None})


def _toml_files(folder: Traversable | Path) -> dict[str, Traversable]:
    return {PurePath(file.name).stem: file for file in folder.iterdir() if file.name.endswith(SUFFIX)}


def _read(path: Path | Traversable) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _bad(path, None, cause(error)) from None
    if len(content) > MAX_FILE_BYTES:
        raise _bad(path, None, f"it is larger than {MAX_FILE_BYTES} bytes")
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise _bad(path, None, f"it is not UTF-8 (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise _bad(path, None, f"it is not TOML: {error}") from None


def _bad(path: Path | Traversable, field: str | None, reason: str) -> BadPreset:
    where = f"preset file {path}: " + (f"{field}: " if field else "")
    return BadPreset(where + reason, stage="plan", file=str(path), field=field, reason=reason)
