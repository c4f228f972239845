"""Presets: what ships is sound, what a user adds is read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.presets import BadPreset, Preset, UnknownPreset, load_preset_file, load_presets, preset_files, resolve
from pipelines.rate_control import Crf
from pipelines.spec import FileJob, Input, Mp4Output, Rung

SHIPPED = load_presets()
PROMISED = [
    "h264-1080p",
    "h264-720p",
    "h264-480p",
    "hevc-1080p",
    "hevc-2160p",
    "av1-1080p",
    "vp9-1080p",
    "web-mp4",
    "audio-aac",
    "audio-mp3",
    "audio-opus",
    "audio-flac",
    "remux-mp4",
]


def rungs(preset: Preset) -> list[Rung]:
    return [video for output in preset.outputs if isinstance(video := getattr(output, "video", None), Rung)]


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("name", PROMISED)
def test_promised_preset_ships(name: str) -> None:
    assert SHIPPED[name].name == name


@pytest.mark.parametrize("preset", SHIPPED.values(), ids=list(SHIPPED))
def test_preset_tells_what_it_is(preset: Preset) -> None:
    assert preset.title
    assert preset.description.endswith(".")


@pytest.mark.parametrize("preset", SHIPPED.values(), ids=list(SHIPPED))
def test_size_is_a_bounding_box(preset: Preset) -> None:
    for rung in rungs(preset):
        assert (rung.width is None) == (rung.height is None)
        assert not rung.upscale


@pytest.mark.parametrize("preset", SHIPPED.values(), ids=list(SHIPPED))
def test_preset_survives_json(preset: Preset) -> None:
    assert Preset.model_validate_json(preset.model_dump_json()) == preset


def test_delivery_presets_cap_their_peaks() -> None:
    delivery = [SHIPPED[name] for name in PROMISED if rungs(SHIPPED[name])]
    assert delivery
    for preset in delivery:
        for rung in rungs(preset):
            assert isinstance(rung.rate_control, Crf)
            assert rung.rate_control.maxrate is not None


def test_larger_pictures_get_higher_caps() -> None:
    caps = [
        rung.rate_control.maxrate or 0
        for name in ("h264-480p", "h264-720p", "h264-1080p")
        for rung in rungs(SHIPPED[name])
        if isinstance(rung.rate_control, Crf)
    ]
    assert caps == sorted(caps)
    assert len(set(caps)) == 3


def test_own_preset_is_added(tmp_path: Path) -> None:
    write(tmp_path, "mine", '[[outputs]]\ntype = "mkv"\n')
    presets = load_presets(tmp_path)
    assert presets["mine"].outputs[0].type == "mkv"
    assert presets.keys() == SHIPPED.keys() | {"mine"}


def test_own_preset_replaces_the_shipped_one(tmp_path: Path) -> None:
    write(tmp_path, "web-mp4", 'title = "Ours"\n[[outputs]]\ntype = "mp4"\n')
    assert load_presets(tmp_path)["web-mp4"].title == "Ours"


def test_shipped_file_can_be_copied_and_changed(tmp_path: Path) -> None:
    text = preset_files()["h264-720p"].read_text(encoding="utf-8")
    changed = load_preset_file(write(tmp_path, "ours", text.replace("crf = 22", "crf = 25")))
    (rung,) = rungs(changed)
    assert isinstance(rung.rate_control, Crf)
    assert rung.rate_control.crf == 25
    assert changed.name == "ours"


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ('[[outputs]]\ntype = "mp4"\n[outputs.video]\ncodec = "h265"\n', "outputs.0.mp4.video", "'h264'"),
        ('[[outputs]]\ntype = "mp4"\nbit_rate = 3\n', "outputs.0.mp4.bit_rate", "not permitted"),
        ('[[outputs]]\ntype = "avi"\n', "outputs.0", "'avi'"),
        ('title = "no outputs"\n', "outputs", "required"),
        ('[[outputs]]\ntype = "webm"\n[outputs.video]\ncodec = "h264"\n', "outputs.0.webm", "does not carry"),
        ('name = "other"\n[[outputs]]\ntype = "mp4"\n', "name", "file"),
        ("outputs = [", None, "not TOML"),
    ],
)
def test_broken_preset_names_file_field_and_reason(tmp_path: Path, text: str, field: str | None, reason: str) -> None:
    file = write(tmp_path, "broken", text)
    with pytest.raises(BadPreset, match=r"broken\.toml") as caught:
        load_presets(tmp_path)
    facts = caught.value.facts
    assert facts["file"] == str(file)
    assert reason in facts["reason"]
    if field is None:
        assert facts["field"] is None
    else:
        assert facts["field"].startswith(field)


def test_preset_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "binary.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadPreset, match="UTF-8"):
        load_preset_file(file)


def test_missing_preset_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadPreset, match="nowhere"):
        load_presets(tmp_path / "nowhere")


def test_resolve_puts_outputs_in_place_of_the_preset() -> None:
    spec = FileJob(input=Input(path="/a.mkv"), preset="web-mp4", priority=7)
    resolved = resolve(spec, SHIPPED)
    assert resolved.outputs == SHIPPED["web-mp4"].outputs
    assert resolved.preset is None
    assert resolved.priority == 7
    assert FileJob.model_validate_json(resolved.model_dump_json()) == resolved


def test_resolve_leaves_outputs_alone() -> None:
    spec = FileJob(input=Input(path="/a.mkv"), outputs=(Mp4Output(),))
    assert resolve(spec, SHIPPED) is spec


def test_unknown_preset_suggests_the_nearest() -> None:
    with pytest.raises(UnknownPreset, match="h264-1080p") as caught:
        resolve(FileJob(input=Input(path="/a.mkv"), preset="h264-1080"), SHIPPED)
    assert caught.value.code == "unknown_preset"
    assert caught.value.facts["preset"] == "h264-1080"
