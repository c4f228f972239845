"""Writers of a ladder's tracks: each has a muxer of its own, and cuts what that writes into segments."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.packet import Packet

from pipelines.mux import MUX_ERRORS, Writer, output_error
from pipelines.packaging.codecs import codec_string
from pipelines.packaging.encryption import SampleSeal, sealing
from pipelines.packaging.mp4 import Fragment, Mp4Stream, decoder_config, joined, sample_entry, with_edit_list
from pipelines.packaging.sealing.fragments import SealedFragments
from pipelines.packaging.sealing.transport import SealedTransport
from pipelines.packaging.segments import Assembled, Segment, Segmenter, SegmentFiles
from pipelines.packaging.ts import MUXER_OPTIONS, TsPiece, TsTables
from pipelines.rendition import OutputPlan

_CMAF = {"brand": "cmfc", "use_editlist": "0", "flush_packets": "1"}
FMP4_OPTIONS = {"movflags": "+empty_moov+default_base_moof+frag_keyframe", **_CMAF}
"""A fragment for each GOP."""
FMP4_SOUND_OPTIONS = {"movflags": "+empty_moov+default_base_moof+frag_every_frame", **_CMAF}
"""A fragment for each packet: they are joined where a segment is to end."""
MPEG4_OBJECTS = {0x69: "mp3", 0x6B: "mp3"}


class Sink:
    """A file for a muxer, in memory."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


class Lane(Writer, ABC):
    """One track. `codec` and `segments` are known once it is closed."""

    def __init__(self, plan: OutputPlan, folder: Path, files: SegmentFiles, *, sound: bool) -> None:
        self.written = files
        self.sound = sound
        self._sink = Sink()
        self._end = Fraction(0)
        super().__init__(plan, folder)

    @property
    @abstractmethod
    def segments(self) -> list[Segment]: ...

    @property
    @abstractmethod
    def codec(self) -> str: ...

    def _open(self) -> Any:
        return av.open(self._sink, "w", format=self.plan.muxer, container_options=dict(self.plan.muxer_options))

    def _put(self, packet: Packet[Any]) -> None:
        assert packet.pts is not None
        time_base = packet.time_base or Fraction(1)
        begin, end = packet.pts * time_base, (packet.pts + (packet.duration or 0)) * time_base
        if self.sound and end <= 0:
            return  # an encoder's priming: there is no edit list to say so
        self._end = max(self._end, end)
        is_keyframe = packet.is_keyframe
        super()._put(packet)
        self._take(begin, is_keyframe)

    @abstractmethod
    def _take(self, begin: Fraction, is_keyframe: bool) -> None:
        """What the muxer has written by now; its last packet began then."""

    @abstractmethod
    def _finish(self) -> None:
        """All that the muxer wrote has been taken."""

    def close(self) -> None:
        if self._closed:
            return
        super().close()
        try:
            self._finish()
        except MUX_ERRORS as error:
            raise output_error(error, self.plan.path) from error


@dataclass(frozen=True)
class _Mp4Piece:
    """A fragment. `delay`: ticks that pictures are shown after what their times say, as the edit list tells players."""

    fragment: Fragment
    timescale: int
    delay: int
    cuttable: bool = True

    @property
    def begin(self) -> Fraction:
        return Fraction(self.fragment.begin - self.delay, self.timescale)


class Mp4Lane(Lane):
    """Fragmented MP4 (CMAF). The first decode time is that at which the track begins.

    Pictures that are reordered are shown later than that says, and an edit list takes back by how much. Players that
    look at decode times only, and those that look at all, both find the beginning where it is.
    """

    def __init__(
        self,
        plan: OutputPlan,
        folder: Path,
        files: SegmentFiles,
        seconds: Fraction,
        seal: SampleSeal | None = None,
        *,
        sound: bool,
    ) -> None:
        self._seal = seal
        self._sealed: SealedFragments | None = None
        self._stream = Mp4Stream()
        self._origin: Fraction | None = None
        self._shift: int | None = None
        self._delay = 0
        self._segmenter = Segmenter(seconds, files, self._join_sound if sound else _chain)
        super().__init__(plan, folder, files, sound=sound)

    @property
    def segments(self) -> list[Segment]:
        return self._segmenter.segments

    @property
    def timescale(self) -> int:
        return self._stream.timescale

    @property
    def codec(self) -> str:
        return init_codec(self._stream.init)

    def _take(self, begin: Fraction, is_keyframe: bool) -> None:
        self._origin = begin if self._origin is None else self._origin
        self._feed()

    def _feed(self) -> None:
        for fragment in self._stream.feed(self._sink.take()):
            if self._shift is None:
                self._first(fragment)
            fragment = fragment.moved(self._shift or 0)
            if self._sealed is not None and not self.sound:
                with sealing(self.plan.path):
                    fragment = self._sealed.fragment(fragment)
            self._segmenter.add(_Mp4Piece(fragment, self._stream.timescale, self._delay))

    def _finish(self) -> None:
        self._feed()
        # by the packets: samples have the durations of others where pictures are reordered and their times uneven;
        # what begins before 0, as Opus does with its priming, has been put there and ends later by as much
        self._segmenter.finish(self._end - min(self._origin or Fraction(0), Fraction(0)))

    def _first(self, first: Fragment) -> None:
        """The muxer's first decode time is 0."""
        assert self._origin is not None
        self._shift = round(max(self._origin, Fraction(0)) * self._stream.timescale) - first.decode_time
        self._delay = first.samples[0].offset
        init = with_edit_list(self._stream.init, self._delay)
        if self._seal is not None:
            with sealing(self.plan.path):
                self._sealed = SealedFragments(self._seal.blocks, self._seal.key_id, self._stream.init)
            init = self._sealed.init(init)
        self.written.write_init(init)

    def _join_sound(self, pieces: Sequence[_Mp4Piece], number: int) -> Assembled:
        fragment = joined([piece.fragment for piece in pieces], number)
        return Assembled((fragment if self._sealed is None else self._sealed.fragment(fragment)).data)


def _chain(pieces: Sequence[_Mp4Piece], number: int) -> Assembled:
    """Fragments one behind the other, each with a picture that can be shown alone."""
    at, iframes = 0, []
    for piece in pieces:
        iframes.append((piece.begin, at, piece.fragment.first_sample_end))
        at += len(piece.fragment.data)
    return Assembled(b"".join(piece.fragment.data for piece in pieces), tuple(iframes))


def init_codec(init: bytes) -> str:
    """The CODECS string of an init section's track."""
    entry, records = sample_entry(init)
    if "vpcC" in records:
        profile, level, depth = records["vpcC"][4], records["vpcC"][5], records["vpcC"][6] >> 4
        return f"vp09.{profile:02d}.{level:02d}.{depth:02d}"
    if "esds" in records:
        kind, config = decoder_config(records["esds"])
        return codec_string(MPEG4_OBJECTS.get(kind, "aac"), config)
    for record, codec in (("avcC", "h264"), ("hvcC", "hevc"), ("av1C", "av1")):
        if record in records:
            return codec_string(codec, records[record])
    return {"Opus": "opus", "fLaC": "fLaC", "ac-3": "ac-3", "ec-3": "ec-3", ".mp3": "mp4a.40.34"}[entry]


class TsLane(Lane):
    """MPEG transport stream: the tables at the head of each segment are put there here."""

    def __init__(
        self,
        plan: OutputPlan,
        folder: Path,
        files: SegmentFiles,
        seconds: Fraction,
        seal: SampleSeal | None = None,
        *,
        sound: bool,
    ) -> None:
        self._seal = seal
        self._sealed: SealedTransport | None = None
        self._tables = TsTables()
        self._segmenter = Segmenter(seconds, files, self._assemble)
        self._codec = ""
        super().__init__(plan, folder, files, sound=sound)

    @property
    def segments(self) -> list[Segment]:
        return self._segmenter.segments

    @property
    def codec(self) -> str:
        return self._codec

    def _assemble(self, pieces: Sequence[TsPiece], number: int) -> Assembled:
        if not self._codec:
            self._codec = stream_codec(self._tables.head + b"".join(piece.data for piece in pieces))
        if self._seal is not None:
            with sealing(self.plan.path):
                pieces = [replace(piece, data=self._sealed_packets(piece.data)) for piece in pieces]
        return self._tables.assemble(pieces, number)

    def _sealed_packets(self, data: bytes) -> bytes:
        if self._sealed is None:
            assert self._seal is not None
            self._sealed = SealedTransport(self._seal.blocks, self._tables.map)
            self._tables.map = self._sealed.table(data)
        return self._sealed.packets(data)

    def _take(self, begin: Fraction, is_keyframe: bool) -> None:
        data = self._tables.without(self._sink.take())
        self._segmenter.add(TsPiece(begin, is_keyframe or self.sound, data))

    def _finish(self) -> None:
        rest = self._tables.without(self._sink.take())
        if rest:
            self._segmenter.add(TsPiece(self._end, cuttable=False, data=rest))
        self._segmenter.finish(self._end)


def stream_codec(data: bytes) -> str:
    """The CODECS string of a transport stream's only track."""
    with av.open(io.BytesIO(data), format="mpegts") as container:
        context: Any = container.streams[0].codec_context
        return codec_string(context.codec.canonical_name, bytes(context.extradata or b""))


LANES: dict[str, tuple[type[Mp4Lane] | type[TsLane], str, dict[str, str], dict[str, str]]] = {
    "fmp4": (Mp4Lane, "m4s", FMP4_OPTIONS, FMP4_SOUND_OPTIONS),
    "ts": (TsLane, "ts", MUXER_OPTIONS, MUXER_OPTIONS),
}
"""By segment format: the lane, the segments' extension, the muxer's options for pictures and for sound."""
