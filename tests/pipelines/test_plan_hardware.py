"""Where a GPU's plan decodes, filters and encodes, and what it says of what it doesn't."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.devices import Device, Verdict, software_device
from pipelines.errors import DeviceUnsuitable, PipelineError, UnsupportedSpec
from pipelines.filters import Deinterlace, Scale
from pipelines.hardware.filters import hardware_names
from pipelines.plan import plan
from pipelines.rendition import DecodePlan, Plan, VideoRendition
from pipelines.source import Colour, MasteringDisplay, SourceInfo
from pipelines.spec import FileJob
from tests.pipelines.facts import SOFTWARE, audio, source, video
from tests.pipelines.gpus import CAPABILITIES, FILTERS, decodes, encodes, gpu

PQ = Colour(primaries="bt2020", transfer="smpte2084", matrix="bt2020nc", range="tv")
MASTERED = PQ.model_copy(
    update={
        "mastering_display": MasteringDisplay(
            green=(13250, 34500), blue=(7500, 3000), red=(34000, 16000), white=(15635, 16450),
            max_luminance=10_000_000, min_luminance=50,
        )
    }
)  # fmt: skip
DEEP = video(codec="hevc", profile="Main 10", pixel_format="yuv420p10le", bit_depth=10)


def job(*outputs: dict[str, Any], **changes: Any) -> FileJob:
    return FileJob.model_validate({"input": {"path": "in"}, "outputs": outputs or ({"type": "mp4"},), **changes})


def planned(
    spec: FileJob | None = None, of: SourceInfo | None = None, device: Device | None = None, *verdicts: Verdict
) -> Plan:
    return plan(spec or job(), of or source(), device or gpu(), verdicts=verdicts)


def videos(made: Plan) -> list[VideoRendition]:
    return [r for output in made.outputs for r in output.renditions if isinstance(r, VideoRendition)]


def decoder(made: Plan) -> DecodePlan:
    return next(step for step in made.decode if step.kind == "video")


def ways(made: Plan) -> tuple[str, ...]:
    """Where the picture is decoded, then where each rendition is filtered and encoded."""
    each = (place for rendition in videos(made) for place in (rendition.filter_placement, rendition.placement))
    return (decoder(made).placement, *each)


def reasons(made: Plan) -> dict[str, str]:
    return {refusal.stage: refusal.reason for refusal in made.refusals}


def verdict(stage: Any, codec: str, bit_depth: int = 8, **changes: Any) -> Verdict:
    facts = {"device": gpu().id, "profile": None, "reason": "it failed there", **changes}
    return Verdict(stage=stage, codec=codec, bit_depth=bit_depth, **facts)


def test_everything_is_on_the_gpu_where_it_can_be() -> None:
    made = planned(job({"type": "mp4", "video": {"codec": "h264", "height": 720}}))
    (rendition,) = videos(made)
    assert ways(made) == ("hardware", "hardware", "hardware")
    assert (decoder(made).frames, made.refusals) == ("hardware", ())
    assert (rendition.encoder, rendition.pixel_format) == ("h264_vaapi", "nv12")
    assert rendition.options["rc_mode"] == "ICQ"
    assert (made.device, made.device_path) == ("pci-0000:03:00.0", "/dev/dri/renderD128")


def test_sound_stays_in_software_beside_the_gpu() -> None:
    made = planned()
    sound = next(step for step in made.decode if step.kind == "audio")
    assert (sound.placement, sound.frames) == ("software", "software")
    assert next(r for r in made.outputs[0].renditions if r.kind == "audio").placement == "software"


def test_ladder_is_decoded_once_and_scaled_on_the_gpu() -> None:
    rungs = [{"type": "mp4", "video": {"codec": "h264", "height": height}} for height in (1080, 720, 480, 360)]
    made = planned(job(*rungs))
    assert [step.kind for step in made.decode].count("video") == 1
    assert ways(made) == ("hardware",) * 9
    assert [r.height for r in videos(made)] == [1080, 720, 480, 360]


def test_ten_bit_h264_is_decoded_in_software_and_encoded_on_the_gpu() -> None:
    made = planned(of=source(video(pixel_format="yuv420p10le", bit_depth=10, profile="High 10")))
    assert ways(made) == ("software", "software", "hardware")
    assert reasons(made)["decode"] == "this device decodes h264 in 8 bits only"
    assert made.refusals[0].option == "hardware decode of h264 (10 bit)"
    assert videos(made)[0].pixel_format == "nv12"


def test_deep_source_stays_deep_on_the_gpu() -> None:
    made = planned(job({"type": "mp4", "video": {"codec": "hevc"}}), source(DEEP))
    assert ways(made) == ("hardware",) * 3
    assert videos(made)[0].pixel_format == "p010le"


def test_deep_hevc_goes_to_software_where_the_gpu_has_eight_bits() -> None:
    shallow = gpu(*(c for c in CAPABILITIES if c.direction == "decode"), encodes("hevc"), encodes("h264"))
    outputs = ({"type": "mp4", "video": {"codec": codec}} for codec in ("hevc", "h264"))
    made = planned(job(*outputs), source(DEEP), shallow)
    assert ways(made) == ("hardware", "software", "software", "hardware", "hardware")
    assert reasons(made)["encode"] == "this device encodes hevc in 8 bits only"
    assert [r.encoder for r in videos(made)] == ["libx265", "h264_vaapi"]
    assert "8 bits only" in videos(made)[0].reason


@pytest.mark.parametrize(
    ("track", "reason"),
    [
        (video(codec="mpeg4"), "this device does not decode mpeg4"),
        (video(pixel_format="yuv422p"), "this device decodes h264 as yuv420p, and this is yuv422p"),
        (video(pixel_format=None), "the file does not say its pixel format"),
        (video(width=8192, height=4320), "this device decodes h264 up to 4096×4096, and this is 8192×4320"),
    ],
)
def test_decoding_is_refused_in_words(track: Any, reason: str) -> None:
    made = planned(job({"type": "mp4", "video": {"codec": "h264", "height": 720}}), source(track))
    assert ways(made) == ("software", "software", "hardware")
    assert reasons(made)["decode"] == reason
    assert reason in decoder(made).reason


def test_full_range_pictures_are_decoded_like_others() -> None:
    made = planned(of=source(video(pixel_format="yuvj420p")))
    assert decoder(made).placement == "hardware"


@pytest.mark.parametrize(
    ("rung", "reason"),
    [
        ({"codec": "av1"}, "this device does not encode av1"),
        ({"codec": "h264", "pixel_format": "yuv444p"}, "this device does not encode h264 as yuv444p"),
        ({"codec": "h264", "height": 64}, "this device encodes h264 from 128×128 on, and this is 114×64"),
    ],
)
def test_what_the_gpu_can_not_encode_is_encoded_in_software_within_the_job(rung: dict[str, Any], reason: str) -> None:
    made = planned(job({"type": "mp4", "video": rung}, {"type": "mp4", "video": {"codec": "hevc"}}))
    assert [r.placement for r in videos(made)] == ["software", "hardware"]
    assert reasons(made)["encode"] == reason
    assert decoder(made).frames == "hardware"


def test_rate_control_that_the_gpu_lacks_is_refused() -> None:
    simple = gpu(*(c for c in CAPABILITIES if c.direction == "decode"), encodes("h264", rate_controls=("cqp",)))
    vbr = {"codec": "h264", "rate_control": {"mode": "vbr", "bitrate": 2_000_000}}
    with pytest.raises(DeviceUnsuitable, match="no rate control for vbr"):
        planned(job({"type": "mp4", "video": vbr}), device=simple)
    (rendition,) = videos(planned(device=simple))
    assert rendition.options["rc_mode"] == "CQP"
    assert "crf as cqp" in rendition.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"filters": ()}, "this build can't give filters the pictures of a GPU"),
        ({"filters": ("hwupload", "hwdownload")}, "scale_vaapi did not work on this device"),
    ],
)
def test_filters_are_in_memory_where_the_gpu_has_none(changes: dict[str, Any], reason: str) -> None:
    made = planned(job({"type": "mp4", "video": {"codec": "h264", "height": 720}}), device=gpu(**changes))
    assert ways(made) == ("hardware", "software", "hardware")
    assert (decoder(made).frames, reasons(made)["filter"]) == ("software", reason)
    assert [step.pixel_format for step in videos(made)[0].filters if isinstance(step, Scale)] == ["nv12"]


def test_only_the_rendition_whose_filters_the_gpu_lacks_is_fetched_into_memory() -> None:
    rungs = ({"codec": "h264"}, {"codec": "h264", "deinterlace": "off"})
    interlaced = source(video(field_order="tt", interlacing="top"))
    without = gpu(filters=tuple(name for name in FILTERS if name != "deinterlace_vaapi"))
    made = planned(job(*({"type": "mp4", "video": rung} for rung in rungs)), interlaced, without)
    assert ways(made) == ("hardware", "software", "hardware", "hardware", "hardware")
    assert decoder(made).frames == "hardware"
    assert any(isinstance(step, Deinterlace) for step in videos(made)[0].filters)


@pytest.mark.parametrize(("colour", "where"), [(PQ, "software"), (MASTERED, "hardware")])
def test_tone_mapping_is_on_the_gpu_where_the_mastering_display_is_known(colour: Colour, where: str) -> None:
    made = planned(of=source(DEEP.model_copy(update={"colour": colour})))
    assert videos(made)[0].filter_placement == where


def test_hdr_that_stays_is_no_tone_mapping() -> None:
    made = planned(job({"type": "mp4", "video": {"codec": "hevc"}}), source(DEEP.model_copy(update={"colour": PQ})))
    assert (videos(made)[0].filter_placement, videos(made)[0].colour.is_hdr) == ("hardware", True)


@pytest.mark.parametrize(
    ("generation", "colour", "encoder"),
    [
        ("Tiger Lake", Colour(), "h264_qsv"),
        ("Skylake", Colour(), "h264_vaapi"),
        (None, Colour(), "h264_vaapi"),
        ("Alchemist", MASTERED, "h264_vaapi"),
    ],
)
def test_qsv_encodes_where_it_is_measured_and_worth_it(generation: str | None, colour: Colour, encoder: str) -> None:
    both = gpu(*CAPABILITIES, encodes("h264", api="qsv"), generation=generation)
    made = planned(of=source(DEEP.model_copy(update={"colour": colour})), device=both)
    assert videos(made)[0].encoder == encoder


def test_second_api_is_taken_where_the_first_lacks_the_rate_control() -> None:
    both = gpu(decodes("h264"), encodes("h264", rate_controls=("cqp",)), encodes("h264", api="qsv"))
    cbr = {"codec": "h264", "rate_control": {"mode": "cbr", "bitrate": 2_000_000}}
    made = planned(job({"type": "mp4", "video": cbr}), device=both)
    assert videos(made)[0].encoder == "h264_qsv"
    assert made.refusals[0].option == "hardware encode of h264 (8 bit) by h264_vaapi"


def test_each_verdict_takes_one_step_down() -> None:
    down = [verdict("filter", "h264"), verdict("decode", "h264"), verdict("encode", "h264")]
    assert ways(planned(None, None, None, *down[:1])) == ("hardware", "software", "hardware")
    assert ways(planned(None, None, None, *down[:2])) == ("software", "software", "hardware")
    with pytest.raises(DeviceUnsuitable, match="it failed there"):
        planned(None, None, None, *down)


@pytest.mark.parametrize(
    "other",
    [
        verdict("decode", "h264", device="pci-0000:04:00.0"),
        verdict("decode", "hevc"),
        verdict("decode", "h264", bit_depth=10),
        verdict("decode", "h264", profile="Baseline"),
    ],
)
def test_verdict_on_something_else_changes_nothing(other: Verdict) -> None:
    of = source(video(profile="High"))
    assert planned(None, of, None, other) == planned(None, of)


def test_verdict_on_any_codec_is_on_all() -> None:
    assert ways(planned(None, None, None, verdict("decode", "*", bit_depth=10))) == (
        "software", "software", "hardware",
    )  # fmt: skip


@pytest.mark.parametrize("device", [{"policy": "hardware"}, {"policy": "auto", "fallback": False}])
def test_without_fallback_no_rendition_is_encoded_in_software(device: dict[str, Any]) -> None:
    outputs = ({"type": "mp4", "video": {"codec": codec}} for codec in ("h264", "av1"))
    with pytest.raises(DeviceUnsuitable, match="this device does not encode av1") as unsuitable:
        planned(job(*outputs, device=device))
    assert (unsuitable.value.device, unsuitable.value.stage) == (gpu().id, "plan")


@pytest.mark.parametrize(
    "output",
    [{"type": "audio"}, {"type": "copy"}, {"type": "mp4", "video": "copy"}, {"type": "mp4", "video": {"codec": "av1"}}],
)
def test_job_without_anything_to_encode_there_is_not_for_a_gpu(output: dict[str, Any]) -> None:
    with pytest.raises(DeviceUnsuitable, match=r"nothing of this job is for pci-0000:03:00\.0 to encode"):
        planned(job(output))


def test_policies_keep_to_their_kind_of_device() -> None:
    with pytest.raises(UnsupportedSpec):
        planned(job(device={"policy": "hardware"}), device=SOFTWARE)
    with pytest.raises(UnsupportedSpec):
        planned(job(device={"policy": "software"}))


CODECS = ("h264", "hevc", "av1", "vp9")
SIZES = st.tuples(st.integers(64, 4500), st.integers(64, 4500))
FORMATS = {"yuv420p": 8, "yuv420p10le": 10, "yuvj420p": 8, "yuv422p": 8, "gray": 8, "rgb24": 8, "yuva420p": 8}
WHOLE = [
    *(decodes(codec, depth) for codec in CODECS for depth in (8, 10)),
    *(encodes(codec, depth, api) for codec in CODECS for depth in (8, 10) for api in ("vaapi", "qsv")),
]

changes = st.fixed_dictionaries(
    {},
    optional={"max_size": SIZES, "min_size": SIZES, "rate_controls": st.sampled_from((("cqp",), ("vbr", "icq"), ()))},
)
devices = st.builds(
    lambda missing, changes, lost, generation: gpu(
        *(
            capability.model_copy(update={k: v for k, v in change.items() if k in capability.model_fields_set})
            for number, (capability, change) in enumerate(zip(WHOLE, changes, strict=True))
            if number not in missing
        ),
        filters=tuple(name for name in FILTERS if name not in lost),
        generation=generation,
    ),
    st.sets(st.integers(0, len(WHOLE) - 1), max_size=len(WHOLE) - 1),
    st.lists(st.just({}) | changes, min_size=len(WHOLE), max_size=len(WHOLE)),
    st.sets(st.sampled_from(FILTERS), max_size=2),
    st.sampled_from((None, "Skylake", "Tiger Lake")),
)
tracks = st.builds(
    lambda codec, format, size, rotation, field, sar: video(
        codec=codec, pixel_format=format, bit_depth=FORMATS[format], width=size[0], height=size[1], rotation=rotation,
        interlacing=field, sample_aspect_ratio=sar,
    ),
    st.sampled_from(CODECS), st.sampled_from(tuple(FORMATS)), SIZES, st.sampled_from((0, 90, 180, 270)),
    st.sampled_from((None, "progressive", "top", "bottom")), st.sampled_from((Fraction(1), Fraction(16, 11))),
)  # fmt: skip
rungs = st.fixed_dictionaries(
    {"codec": st.sampled_from(("h264", "hevc", "av1", "vp9"))},
    optional={
        "height": st.integers(16, 2000),
        "rate_control": st.sampled_from(({"mode": "cqp", "qp": 20}, {"mode": "vbr", "bitrate": 1_000_000})),
        "pixel_format": st.sampled_from(("yuv420p", "yuv420p10le", "yuv444p")),
        "deinterlace": st.sampled_from(("auto", "on", "off", "bob")),
    },
)
verdicts = st.builds(verdict, st.sampled_from(("decode", "filter", "encode")), st.sampled_from((*CODECS, "*")))


def attempt_at(spec: FileJob, of: SourceInfo, device: Device, *against: Verdict) -> Plan | PipelineError:
    try:
        return planned(spec, of, device, *against)
    except PipelineError as error:
        return error


@pytest.mark.slow
@given(devices, tracks, st.lists(rungs, min_size=1, max_size=3), st.lists(verdicts, max_size=2))
def test_no_stage_is_placed_where_the_device_can_not_and_every_software_stage_has_its_reason(
    device: Device, track: Any, asked: list[dict[str, Any]], against: list[Verdict]
) -> None:
    spec = job(*({"type": "mkv", "video": rung} for rung in asked))
    made = attempt_at(spec, source(track, audio()), device, *against)
    if not isinstance(made, Plan):
        assert isinstance(made, DeviceUnsuitable | UnsupportedSpec)
        return
    step = decoder(made)
    if step.placement == "hardware":
        assert any(
            c.direction == "decode" and c.codec == track.codec and c.bit_depth == track.bit_depth
            for c in device.capabilities
        )
    else:
        assert reasons(made)["decode"] in step.reason
    assert any(r.placement == "hardware" for r in videos(made))
    for rendition in videos(made):
        if rendition.placement == "hardware":
            depth = 10 if rendition.pixel_format == "p010le" else 8
            assert any(
                c.encoder == rendition.encoder and c.bit_depth == depth and rendition.pixel_format in c.pixel_formats
                and (c.max_size is None or (rendition.width <= c.max_size[0] and rendition.height <= c.max_size[1]))
                for c in device.capabilities
            )  # fmt: skip
            assert not any(v.stage == "encode" and v.codec == "*" for v in against)
        else:
            assert any(r.stage == "encode" and r.reason in rendition.reason for r in made.refusals)
        if rendition.filter_placement == "hardware":
            assert (rendition.placement, step.placement, step.frames) == ("hardware",) * 3
            needed = [name for planned_filter in rendition.filters for name in hardware_names(planned_filter) or ("?",)]
            assert set(needed) <= set(device.filters)
        elif rendition.placement == "hardware":
            assert any(r.stage == "filter" and r.reason in rendition.reason for r in made.refusals)


@pytest.mark.slow
@given(tracks, rungs)
def test_verdicts_and_gpus_leave_software_plans_as_they_are(track: Any, rung: dict[str, Any]) -> None:
    spec, of = job({"type": "mkv", "video": rung}), source(track)
    made = attempt_at(spec, of, software_device(1), verdict("encode", "*"), verdict("encode", "*", device="software"))
    if isinstance(made, Plan):
        assert (made, made.refusals) == (plan(spec, of, SOFTWARE), ())
        assert ways(made) == ("software",) * 3
    else:
        assert isinstance(made, UnsupportedSpec)
