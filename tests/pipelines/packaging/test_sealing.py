"""Encrypted samples can be taken apart again, and hostile headers are errors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from pipelines.packaging.sealing.avc import AvcHeaders
from pipelines.packaging.sealing.bits import BitReader, place_in_unit
from pipelines.packaging.sealing.blocks import BlockSeal
from pipelines.packaging.sealing.elementary import aac_setup, seal_adts, seal_h264
from pipelines.packaging.sealing.hevc import HevcHeaders
from pipelines.packaging.sealing.transport import PACKET_BYTES, SealedTransport
from transcoder.aes import encrypt_cbc

KEY, IV = bytes(range(16)), bytes(range(16, 32))
SEAL = BlockSeal(encrypt_cbc, KEY, IV)


def opened(data: bytes) -> bytes:
    decryptor = Cipher(algorithms.AES(KEY), modes.CBC(IV)).decryptor()
    return decryptor.update(data) + decryptor.finalize()


def escaped(payload: bytes) -> bytes:
    """As NAL units are: without three bytes that begin a start code."""
    made = bytearray()
    for byte in payload:
        if byte <= 3 and made[-2:] == b"\x00\x00":
            made.append(3)
        made.append(byte)
    return bytes(made)


def unescaped(unit: bytes) -> bytes:
    made, zeros = bytearray(), 0
    for byte in unit:
        if zeros >= 2 and byte == 3:
            zeros = 0
            continue
        zeros = zeros + 1 if byte == 0 else 0
        made.append(byte)
    return bytes(made)


def h264_opened(unit: bytes) -> bytes:
    """A NAL unit as players decrypt it, block by block."""
    if unit[0] & 0x1F not in (1, 5) or len(unit) <= 48:
        return unit
    made = bytearray(unescaped(unit))
    places = list(range(32, len(made) - 16, 160))
    plain = opened(b"".join(made[place : place + 16] for place in places))
    for number, place in enumerate(places):
        made[place : place + 16] = plain[16 * number : 16 * number + 16]
    return bytes(made)


payloads = st.binary(max_size=700) | st.lists(st.sampled_from([0, 1, 3, 255]), max_size=400).map(bytes)
kinds = st.sampled_from([0x65, 0x41, 0x01, 0x06, 0x67, 0x68])


@given(st.lists(st.tuples(kinds, payloads), min_size=1, max_size=4))
def test_h264_is_opened_by_apples_rule_and_has_no_start_codes_inside(parts: list[tuple[int, bytes]]) -> None:
    units = [bytes([kind]) + escaped(payload + b"\x80") for kind, payload in parts]
    sealed = seal_h264(b"".join(b"\x00\x00\x01" + unit for unit in units), SEAL)
    found = sealed.split(b"\x00\x00\x00\x01")[1:]
    assert [h264_opened(unit) for unit in found] == units
    assert all(b"\x00\x00" + bytes([last]) not in unit for unit in found for last in (0, 1, 2))
    for unit, clear in zip(found, units, strict=True):
        assert unescaped(unit)[:32] == clear[:32] or len(clear) <= 48 or clear[0] & 0x1F not in (1, 5)


def adts(payload: bytes, *, checked: bool = False) -> bytes:
    """A frame of AAC-LC, 48 kHz, two channels."""
    size = (9 if checked else 7) + len(payload)
    head = bytes([0xFF, 0xF0 if checked else 0xF1, 0x4C, 0x80 | size >> 11, size >> 3 & 0xFF, (size & 7) << 5, 0xFC])
    return head + (b"\xab\xcd" if checked else b"") + payload


@given(st.lists(st.tuples(st.binary(max_size=200), st.booleans()), min_size=1, max_size=3))
def test_each_frame_of_aac_begins_anew(frames: list[tuple[bytes, bool]]) -> None:
    clear = b"".join(adts(payload, checked=checked) for payload, checked in frames)
    sealed = seal_adts(clear, SEAL)
    assert len(sealed) == len(clear)
    at = 0
    for payload, checked in frames:
        head = 9 if checked else 7
        found = sealed[at + head : at + head + len(payload)]
        blocks = max(0, len(payload) - 16) // 16 * 16
        assert found[:16] + opened(found[16 : 16 + blocks]) + found[16 + blocks :] == payload
        assert sealed[at : at + head] == clear[at : at + head]
        at += head + len(payload)


def test_what_is_no_frame_of_aac_is_an_error() -> None:
    for wrong in (b"\x00" * 40, adts(b"x" * 20)[:-1], adts(b"x" * 20)[:5]):
        with pytest.raises(ValueError, match="AAC"):
            seal_adts(wrong, SEAL)
    assert aac_setup(adts(b"x")) == bytes([0x11, 0x90])


def test_slices_in_partitions_are_refused() -> None:
    with pytest.raises(ValueError, match="partitions"):
        seal_h264(b"\x00\x00\x01\x02" + b"x" * 80, SEAL)


def program_map(stream_type: int) -> bytes:
    section = (
        b"\x02\xb0\x12\x00\x01\xc1\x00\x00\xe1\x00\xf0\x00" + bytes([stream_type]) + b"\xe1\x00\xf0\x00" + bytes(4)
    )
    return (b"\x47\x50\x00\x10\x00" + section).ljust(PACKET_BYTES, b"\xff")


def pes(payload: bytes) -> bytes:
    """A PES packet in transport packets, as FFmpeg writes it: with a clock in the first one."""
    rest = b"\x00\x00\x01\xe0\x00\x00\x80\x80\x05\x21\x00\x01\x00\x01" + payload
    made, fields = [], b"\x50" + bytes(6)
    while rest:
        room = 184 - (1 + len(fields) if fields else 0)
        part, rest = rest[:room], rest[room:]
        stuffing = 184 - len(part) - (1 + len(fields) if fields else 0)
        if fields or stuffing:
            body = (fields or b"\x00" * (stuffing > 1)) + b"\xff" * (stuffing if fields else max(0, stuffing - 2))
            part = bytes([len(body)]) + body + part
        made.append(bytes([0x47, 0x41 if not made else 0x01, 0x00, 0x30 if fields or stuffing else 0x10]) + part)
        fields = b""
    return b"".join(made)


@given(st.lists(st.binary(min_size=60, max_size=1500), min_size=1, max_size=4))
def test_transport_packets_are_whole_and_counted(pictures: list[bytes]) -> None:
    sealed = SealedTransport(SEAL, program_map(0x1B))
    units = [b"\x65" + escaped(picture + b"\x80") for picture in pictures]
    data = b"".join(sealed.packets(pes(b"\x00\x00\x00\x01" + unit)) for unit in units)
    packets = [data[at : at + PACKET_BYTES] for at in range(0, len(data), PACKET_BYTES)]
    assert all(len(packet) == PACKET_BYTES and packet[0] == 0x47 for packet in packets)
    assert all((one[3] + 1) & 0xF == two[3] & 0xF for one, two in pairwise(packets))
    found: list[bytes] = []
    for packet in packets:
        payload = packet[4 + (1 + packet[4] if packet[3] & 0x20 else 0) :]
        if packet[1] & 0x40:
            assert packet[5:12] == b"\x50" + bytes(6)
            found.append(payload[14 + 4 :])
        else:
            found[-1] += payload
    assert [h264_opened(unit) for unit in found] == units


def test_streams_without_a_rule_are_refused() -> None:
    with pytest.raises(ValueError, match="0x03"):
        SealedTransport(SEAL, program_map(0x03))


@pytest.mark.parametrize("make", [AvcHeaders, HevcHeaders])
@given(data=st.data())
def test_hostile_headers_are_errors(make: Any, data: st.DataObject) -> None:
    headers = make()
    first = [0x67, 0x68, 0x65, 0x41, 0x01] if make is AvcHeaders else [0x42, 0x44, 0x26, 0x02, 0x28]
    for _ in range(6):
        unit = bytes([data.draw(st.sampled_from(first)), 1]) + data.draw(st.binary(max_size=80))
        try:
            head = headers.take(unit)
        except ValueError:
            continue
        assert head is None or 0 < head <= len(unit)


@given(st.lists(st.sampled_from([0, 1, 2, 3, 4]), min_size=1, max_size=60).map(bytes))
def test_places_count_the_bytes_that_keep_start_codes_out(payload: bytes) -> None:
    unit = escaped(payload)
    assert BitReader(unit).u(8 * len(payload)) == int.from_bytes(payload, "big")
    for count in range(1, len(payload) + 1):
        assert unescaped(unit[: place_in_unit(unit, count)]) == payload[:count]
    with pytest.raises(ValueError, match="too early"):
        place_in_unit(unit, len(payload) + 1)
