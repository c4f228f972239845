"""What a user asks for: jobs, outputs, rungs. Frozen and closed (unknown fields are errors); stored as JSON.

Times are seconds, bitrates bit/s, sizes displayed pixels (after rotation and sample aspect ratio).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue

from pipelines.asked.ladders import CmafLadder, DashLadder, HlsLadder, LadderOutput
from pipelines.asked.outputs import (
    AudioOutput,
    CopyOutput,
    FileOutput,
    MkvOutput,
    MovOutput,
    Mp4Output,
    OutputBase,
    OutputName,
    SubtitleOutput,
    TsOutput,
    WebmOutput,
)
from pipelines.asked.pictures import (
    ContactSheetOutput,
    GifOutput,
    PictureOutput,
    PosterOutput,
    ThumbnailsOutput,
    WebpOutput,
)
from pipelines.asked.rungs import AUDIO_CODECS, VIDEO_CODECS, AudioSpec, Metadata, Model, Rung, SubtitleSpec
from pipelines.asked.subtitle_files import MAX_FILES, SubtitleFile
from pipelines.asked.webhook import Webhook
from pipelines.receipt.spec import ReceiptSpec

__all__ = [
    "AUDIO_CODECS", "VIDEO_CODECS", "AudioOutput", "AudioSpec", "Clip", "CmafLadder", "ContactSheetOutput",
    "CopyOutput", "DashLadder", "DevicePolicy", "FileJob", "FileOutput", "GifOutput", "HlsLadder", "Input", "JobSpec",
    "LadderOutput", "MkvOutput", "Model", "MovOutput", "Mp4Output", "Output", "OutputBase", "OutputName",
    "PictureOutput", "PosterOutput", "Rung", "SubtitleFile", "SubtitleOutput", "SubtitleSpec", "ThumbnailsOutput",
    "TsOutput", "UniqueOutputs", "Webhook", "WebmOutput", "WebpOutput",
]  # fmt: skip

Seconds = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class Clip(Model):
    """A part of the input, frame-accurate; times count from the input's first presented moment."""

    start: Seconds = 0.0
    end: Seconds | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.end is not None and self.end <= self.start:
            raise ValueError("a clip ends after it starts")
        return self


class Input(Model):
    """Exactly one of `url` (http or https), `upload` (an upload's id) and `path` (in one of the media roots)."""

    url: str | None = Field(None, max_length=8192)
    upload: str | None = Field(None, max_length=200)
    path: str | None = Field(None, max_length=4096)
    clip: Clip | None = None
    subtitles: tuple[SubtitleFile, ...] = Field(
        (), max_length=MAX_FILES, description="files of text beside it, each a subtitle track more"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(value is not None for value in (self.url, self.upload, self.path)) != 1:
            raise ValueError("give exactly one of url, upload, path")
        return self


Output = Annotated[FileOutput | LadderOutput | PictureOutput, Field(discriminator="type")]


class DevicePolicy(Model):
    """Where the job may run; `id` pins it to one device."""

    policy: Literal["auto", "hardware", "software"] = "auto"
    id: str | None = Field(None, max_length=100)
    fallback: bool = Field(True, description="whether the next step down may be taken when one fails")
    max_wait_seconds: float | None = Field(
        None,
        ge=0,
        le=7 * 86_400,
        description="how long a job of policy auto waits for hardware that is busy before software will do; "
        "the service's setting when not given",
    )


def _with_names(outputs: Any) -> Any:
    """Gives nameless outputs their names: output, or output-1, output-2 … where there are several."""
    if not isinstance(outputs, list | tuple):
        return outputs
    named = []
    for number, output in enumerate(outputs, 1):
        name = "output" if len(outputs) == 1 else f"output-{number}"
        if isinstance(output, dict) and output.get("name") is None:
            output = {**output, "name": name}
        elif isinstance(output, OutputBase) and output.name is None:
            output = output.model_copy(update={"name": name})
        named.append(output)
    return tuple(named)


Outputs = Annotated[tuple[Output, ...], BeforeValidator(_with_names), Field(min_length=1, max_length=16)]


def _unique_names(
    outputs: tuple[FileOutput | LadderOutput | PictureOutput, ...],
) -> tuple[FileOutput | LadderOutput | PictureOutput, ...]:
    names = [str(output.name).casefold() for output in outputs]
    if len(set(names)) != len(names):
        raise ValueError("outputs have different names")
    return outputs


UniqueOutputs = Annotated[Outputs, AfterValidator(_unique_names)]


class FileJob(Model):
    """A file in, files out."""

    kind: Literal["file"] = "file"
    input: Input = Field(description="this or `inputs`, whose first it is then")
    inputs: tuple[Input, ...] | None = Field(
        None, min_length=2, max_length=64, description="several inputs, each with its clip, joined in this order"
    )
    input_chapters: bool = Field(False, description="a chapter for each of `inputs`, called as the file is")
    outputs: UniqueOutputs | None = None
    preset: str | None = Field(None, max_length=100, description="a preset's name, in place of outputs")
    queue: str = Field("default", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    priority: int = Field(0, ge=-1000, le=1000, description="higher starts earlier; the queue's own when not given")
    ready_by: AwareDatetime | None = Field(
        None, description="when it is needed: of jobs with one priority the earliest goes first"
    )
    device: DevicePolicy = DevicePolicy()
    max_missing: float = Field(
        0.01,
        ge=0,
        le=1,
        description="share of the promised duration that may be missing before the job fails",
    )
    timeout_seconds: float | None = Field(None, gt=0, le=7 * 86_400, description="deadline of one attempt")
    abort_if_larger: float | None = Field(
        None,
        ge=0.01,
        le=100,
        allow_inf_nan=False,
        description="share of the source's size above which the job fails, as soon as an output is seen to get there",
    )
    receipt: ReceiptSpec = ReceiptSpec()
    split: Literal["auto", "never", "always"] = Field(
        "auto",
        description="whether it is cut into pieces that are encoded at the same time: auto where it pays, always "
        "wherever it can be done",
    )
    reuse: bool = Field(
        True, description="take the result of a job that did the same with the same input; false does the work anew"
    )
    webhook: Webhook | None = None
    metadata: Metadata = Field(default_factory=dict)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Of what is sent: `input` may be left out. Not told as `anyOf`, of which generators of clients make a type."""
        schema = handler(core_schema)
        if handler.mode == "validation":
            own = handler.resolve_ref_schema(schema)
            own["required"] = [name for name in own.get("required", ()) if name != "input"]
            if not own["required"]:
                del own["required"]
        return schema

    @model_validator(mode="before")
    @classmethod
    def _first(cls, value: Any) -> Any:
        if isinstance(value, dict) and "input" not in value and isinstance(value.get("inputs"), list | tuple):
            return {**value, "input": value["inputs"][0]} if value["inputs"] else value
        return value

    @model_validator(mode="after")
    def _one_way_of_input(self) -> Self:
        if self.inputs is not None and self.input != self.inputs[0]:
            raise ValueError("give either input or inputs")
        if any(each.subtitles for each in self.inputs or ()):
            raise ValueError("subtitles are for one input: joined ones have none")
        if self.input_chapters and self.inputs is None:
            raise ValueError("input_chapters is for inputs")
        return self

    @property
    def all_inputs(self) -> tuple[Input, ...]:
        return self.inputs or (self.input,)

    @model_validator(mode="after")
    def _outputs_or_preset(self) -> Self:
        if (self.outputs is None) == (self.preset is None):
            raise ValueError("give either outputs or preset")
        return self


JobSpec = FileJob
