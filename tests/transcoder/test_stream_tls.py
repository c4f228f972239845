"""Cameras and servers of RTSP over TLS (rtsps), whose certificates they signed themselves."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from pipelines.live.link import ConnectFailed
from tests.transcoder.stream_peers import (
    free_port,
    need_tls_of_glib,
    played_frames,
    publisher,
    rtsp_camera,
    rtsp_recorder,
)
from tests.transcoder.test_stream_push import standing
from tests.transcoder.test_stream_service import COPIED, HLS, LOOPBACK, SECRET, SMALL, bytes_of, serving
from transcoder.streams.dial import Dialer
from transcoder.streams.urls import parse_stream_url


def self_signed(folder: Path, name: str = "127.0.0.1") -> Path:
    """What cameras make for themselves: a key and a certificate that nobody else has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "camera")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(name))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = folder / f"{name}.pem"
    path.write_bytes(private + made.public_bytes(Encoding.PEM))
    return path


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A server's certificate, which the service was told to trust as its operator would tell it."""
    need_tls_of_glib()
    path = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


@asynccontextmanager
async def listening(certificate: Path | None) -> AsyncGenerator[str, None]:
    """The URL of a server that says nothing of its own."""
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1):
            writer.write(b"RTSP/1.0 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"rtsps://127.0.0.1:{server.sockets[0].getsockname()[1]}/cam"


async def refusal(url: str, connect_seconds: float = 5.0) -> str:
    with pytest.raises(ConnectFailed) as refused:
        await Dialer(LOOPBACK, connect_seconds).dial(parse_stream_url(url), sends=False)
    assert refused.value.retryable
    return refused.value.message


async def test_a_certificate_that_is_told_of_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with listening(certificate) as url:
        handover = await Dialer(LOOPBACK).dial(parse_stream_url(url), sends=False)
        assert (handover.kind, handover.url) == ("rtsp", "rtsp://{host}/cam")
        assert handover.work is not None
        handover.sock.close()
        await handover.work()


async def test_a_certificate_that_nobody_vouches_for_is_refused_in_words(tmp_path: Path) -> None:
    async with listening(self_signed(tmp_path)) as url:
        assert "no TLS with 127.0.0.1: its certificate is not accepted: self-signed certificate" in await refusal(url)


async def test_a_certificate_of_another_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = self_signed(tmp_path, "192.0.2.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with listening(certificate) as url:
        assert "not valid for '127.0.0.1'" in await refusal(url)


async def test_a_server_without_tls_is_told_of(tmp_path: Path) -> None:
    async with listening(None) as url:
        assert "it does not speak what is spoken here" in await refusal(url)


async def test_a_server_that_accepts_and_is_silent_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"rtsps://127.0.0.1:{silent.getsockname()[1]}/cam"
        assert await refusal(url, 1.0) == "no TLS with 127.0.0.1: it did not answer in time"


@pytest.mark.slow
async def test_a_camera_behind_tls_is_remuxed_and_recorded(tmp_path: Path, trusted: Path) -> None:
    with rtsp_camera(f"certificate={trusted}") as url:
        async with serving(tmp_path) as streams:
            job_id = await streams.submit({"url": url}, {**HLS, **COPIED}, {"type": "record", "segment_seconds": 2})
            await streams.until(job_id, lambda job: bytes_of(job, "record") > 0)
            ended = await streams.stop(job_id)
            assert (ended["status"], ended["stats"]["reconnects"]) == ("completed", 0)
            playlist = f"{streams.base}/v1/jobs/{job_id}/outputs/index.m3u8"
            assert await asyncio.to_thread(played_frames, playlist, 10) > 20


@pytest.mark.slow
async def test_a_server_behind_tls_records_what_is_pushed_to_it(tmp_path: Path, trusted: Path) -> None:
    recorded = tmp_path / "recorded.mkv"
    source = f"http://127.0.0.1:{free_port()}/live.ts"
    server = rtsp_recorder(recorded, SECRET, trusted)
    with server as target, publisher(source, "mpegts", "-listen", "1"):
        async with serving(tmp_path) as streams:
            push = {"type": "push", "url": target.replace("://", f"://admin:{SECRET}@"), "video": SMALL}
            job_id = await streams.submit({"url": source, "reconnect": {"first_seconds": 0.2}}, push)
            job = await streams.until(job_id, lambda job: bytes_of(job, "push") > 40_000)
            assert standing(job, "push") == "live"
            assert (await streams.stop(job_id))["status"] == "completed"
    assert await asyncio.to_thread(played_frames, str(recorded), 10) > 20


@pytest.mark.slow
async def test_a_camera_that_encrypts_its_packets_is_refused_in_words(tmp_path: Path, trusted: Path) -> None:
    again = {"first_seconds": 0.1, "longest_seconds": 0.1, "max_attempts": 2}
    with rtsp_camera("savp", f"certificate={trusted}") as url:
        async with serving(tmp_path) as streams:
            job_id = await streams.submit({"url": url, "reconnect": again}, {**HLS, **COPIED})
            job = await streams.until(job_id, lambda job: job["status"] == "failed")
            assert job["error"]["code"] == "source_lost"
            assert "encrypted packets (SRTP) are not read" in job["error"]["message"]
