"""Where each source track is decoded, once for all its renditions; and whether a GPU gets anything to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipelines.errors import DeviceUnsuitable
from pipelines.planning.placement import Site
from pipelines.rendition import (
    AudioRendition,
    DecodePlan,
    OutputPlan,
    PictureRendition,
    RenditionPlan,
    SubtitleRendition,
    VideoRendition,
)
from pipelines.source import SourceInfo

Decoded = VideoRendition | AudioRendition | SubtitleRendition | PictureRendition


def check_use(site: Site, outputs: Sequence[OutputPlan]) -> None:
    """`check_encodes` of all that the outputs have."""
    check_encodes(site, _video(_decoded(outputs)))


def check_encodes(site: Site, renditions: Iterable[VideoRendition]) -> None:
    """DeviceUnsuitable when a GPU would encode nothing: its slots are for encoding, and the CPU's for the rest."""
    if not site.is_gpu or any(each.placement == "hardware" for each in renditions):
        return
    why = "; ".join(f"{refusal.option}: {refusal.reason}" for refusal in site.refusals if refusal.stage == "encode")
    raise DeviceUnsuitable(
        f"nothing of this job is for {site.device.id} to encode" + (f": {why}" if why else ""),
        stage="plan",
        device=site.device.id,
        refusals=[refusal.model_dump(mode="json") for refusal in site.refusals],
    )


def plan_decoders(outputs: Iterable[OutputPlan], source: SourceInfo, site: Site) -> tuple[DecodePlan, ...]:
    """Each source track that some rendition needs decoded, once."""
    renditions: dict[int, list[Decoded]] = {}
    for rendition in _decoded(outputs):
        renditions.setdefault(rendition.stream, []).append(rendition)
    tracks = (*source.video, *source.audio, *source.subtitles, *source.pictures)
    codecs = {track.index: track.codec for track in tracks}
    return tuple(plan_decoder(stream, codecs[stream], of, source, site) for stream, of in renditions.items())


def plan_decoder(stream: int, codec: str, of: Sequence[Decoded], source: SourceInfo, site: Site) -> DecodePlan:
    """The decoder of one track, of which `of` is made."""
    base = DecodePlan(
        stream=stream,
        kind="video" if isinstance(of[0], PictureRendition) else of[0].kind,
        decoder=codec,
        placement="software",
        keyframes_only=all(isinstance(each, PictureRendition) and each.nearest for each in of),
        reason="decoded once, in software, for every rendition of it",
    )
    if base.keyframes_only:
        return base.model_copy(update={"reason": "keyframes alone are decoded, in software, for every rendition of it"})
    track = next((track for track in source.video if track.index == stream), None)
    if track is None or not site.is_gpu:
        return base
    refusal = site.decode_refusal(track)
    if refusal is not None:
        return base.model_copy(update={"reason": f"{base.reason}: {refusal}"})
    stay = any(each.filter_placement == "hardware" for each in _video(of))
    where = "its pictures stay on the GPU" if stay else "its pictures are fetched into memory"
    return base.model_copy(
        update={
            "placement": "hardware",
            "frames": "hardware" if stay else "software",
            "profile": track.profile,
            "bit_depth": track.bit_depth,
            "reason": f"decoded once, on the GPU, for every rendition of it; {where}",
        }
    )


def _decoded(outputs: Iterable[OutputPlan]) -> Iterator[Decoded]:
    for output in outputs:
        yield from (each for each in output.renditions if _is_decoded(each))  # type: ignore[misc]


def _is_decoded(rendition: RenditionPlan) -> bool:
    return isinstance(rendition, Decoded)


def _video(renditions: Iterable[Decoded]) -> Iterator[VideoRendition]:
    return (each for each in renditions if isinstance(each, VideoRendition))
