"""What the muxers of the FFmpeg at hand take."""

from __future__ import annotations

import io
from functools import cache

import av


@cache
def muxed_codecs(muxer: str) -> frozenset[str]:
    """FFmpeg's names of the codecs that its muxer takes as they are, as this FFmpeg says.

    Those that it takes only outside of the container's own list (AVI's codecs in Matroska) are not among them: PyAV
    makes no such track.
    """
    with av.open(io.BytesIO(), "w", format=muxer) as container:
        coders = container.supported_codecs
    return frozenset(_codec_of(coder) for coder in coders)


def _codec_of(coder: str) -> str:
    try:
        return av.Codec(coder, "r").canonical_name
    except av.codec.codec.UnknownCodecError:
        return av.Codec(coder, "w").canonical_name
