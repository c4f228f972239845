"""Real peers of streams: FFmpeg as camera, encoder and player, GStreamer's RTSP server, nginx with its RTMP module.

They are Debian packages. A test that lacks one is skipped and says so; with TRANSCODER_TEST_PEERS=require it fails.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

RTMP_MODULE = Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")
SYSTEM_PYTHON = "/usr/bin/python3"
PICTURES = ("-f", "lavfi", "-i", "testsrc2=s=160x120:r=25", "-f", "lavfi", "-i", "sine=r=48000")
CODED = (
    *("-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "12", "-pix_fmt", "yuv420p"),
    *("-c:a", "aac", "-ac", "2"),
)

RTSP_SERVER = """
import sys, gi
gi.require_version("GstRtsp", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gio, GLib, Gst, GstRtsp, GstRtspServer
Gst.init(None)
words = dict(word.partition("=")[::2] for word in sys.argv[2:])
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service(sys.argv[1])
camera = GstRtspServer.RTSPMediaFactory()
camera.set_launch(
    "( videotestsrc is-live=true ! video/x-raw,width=160,height=120,framerate=25/1 "
    "! x264enc tune=zerolatency speed-preset=ultrafast key-int-max=12 bitrate=300 ! rtph264pay name=pay0 pt=96 "
    "audiotestsrc is-live=true ! audio/x-raw,rate=48000,channels=2 ! avenc_aac ! rtpmp4gpay name=pay1 pt=97 )"
)
camera.set_shared(True)
if "udp" in words:
    camera.set_protocols(GstRtsp.RTSPLowerTrans.UDP)
if "savp" in words:
    camera.set_profiles(GstRtsp.RTSPProfile.SAVP)
if "certificate" in words:
    auth = GstRtspServer.RTSPAuth()
    auth.set_tls_certificate(Gio.TlsCertificate.new_from_file(words["certificate"]))
    token = GstRtspServer.RTSPToken()
    token.set_string("media.factory.role", "viewer")
    auth.set_default_token(token)
    server.set_auth(auth)
    rights = GstRtspServer.RTSPPermissions()
    for right in ("media.factory.access", "media.factory.construct"):
        rights.add_permission_for_role("viewer", right, True)
    camera.set_permissions(rights)
server.get_mount_points().add_factory("/cam", camera)
server.attach(None)
print("ready", flush=True)
GLib.MainLoop().run()
"""

RTSP_RECORDER = """
import sys, gi
gi.require_version("GstRtsp", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gio, GLib, Gst, GstRtsp, GstRtspServer
Gst.init(None)
port, target, password, *certificate = sys.argv[1:]
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service(port)
auth = GstRtspServer.RTSPAuth()
auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
token = GstRtspServer.RTSPToken()
token.set_string("media.factory.role", "publisher")
auth.add_digest("admin", password, token)
if certificate:
    auth.set_tls_certificate(Gio.TlsCertificate.new_from_file(certificate[0]))
server.set_auth(auth)
recorder = GstRtspServer.RTSPMediaFactory()
recorder.set_transport_mode(GstRtspServer.RTSPTransportMode.RECORD)
rights = GstRtspServer.RTSPPermissions()
for right in ("media.factory.access", "media.factory.construct"):
    rights.add_permission_for_role("publisher", right, True)
recorder.set_permissions(rights)
recorder.set_launch(
    "( rtph264depay name=depay0 ! h264parse ! queue ! mux. rtpmp4gdepay name=depay1 ! aacparse ! queue ! mux. "
    f"matroskamux name=mux streamable=true ! filesink location={target} sync=false async=false )"
)
server.get_mount_points().add_factory("/in", recorder)
server.attach(None)
print("ready", flush=True)
GLib.MainLoop().run()
"""

NGINX = """load_module {module};
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1; {user}
events {{ worker_connections 64; }}
rtmp {{ server {{ listen 127.0.0.1:{port}; application live {{ live on; }} }} }}
"""


def need(available: bool, what: str) -> None:
    if available:
        return
    if os.environ.get("TRANSCODER_TEST_PEERS") == "require":
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")


def need_ffmpeg() -> None:
    need(shutil.which("ffmpeg") is not None, "ffmpeg (Debian: ffmpeg)")


def need_srt() -> None:
    need_ffmpeg()
    need(shutil.which("srt-live-transmit") is not None, "srt-live-transmit (Debian: srt-tools)")
    protocols = subprocess.run(["ffmpeg", "-v", "error", "-protocols"], capture_output=True, text=True, check=False)
    need("srt" in protocols.stdout.split(), "SRT in ffmpeg")


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(*command: str, ready: bytes | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended with the block; `ready`: a line of it to wait for."""
    out = subprocess.PIPE if ready else subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
    try:
        if ready:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == ready, f"{command[0]} did not start"
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def publisher(url: str, muxer: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """An encoder that sends, or serves, test pictures with a tone."""
    need_ffmpeg()
    command = ("ffmpeg", "-nostdin", "-loglevel", "error", "-re", *PICTURES, *CODED, *more, "-f", muxer, url)
    with running(*command) as process:
        yield process


@contextmanager
def rtsp_camera(*words: str) -> Iterator[str]:
    """The URL of a camera. `udp`: it sends nothing over TCP; `certificate=FILE`: TLS; `savp`: packets encrypted."""
    need_gstreamer()
    port = free_port()
    scheme = "rtsps" if any(word.startswith("certificate=") for word in words) else "rtsp"
    with running(SYSTEM_PYTHON, "-c", RTSP_SERVER, str(port), *words, ready=b"ready"):
        yield f"{scheme}://127.0.0.1:{port}/cam"


@contextmanager
def rtsp_recorder(target: Path, password: str, certificate: Path | None = None) -> Iterator[str]:
    """The URL of a server that records what `admin` publishes, once its digest is right; with TLS, if it has that."""
    need_gstreamer()
    port = free_port()
    more = [] if certificate is None else [str(certificate)]
    with running(SYSTEM_PYTHON, "-c", RTSP_RECORDER, str(port), str(target), password, *more, ready=b"ready"):
        yield f"{'rtsps' if more else 'rtsp'}://127.0.0.1:{port}/in"


def need_gstreamer() -> None:
    script = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"
    command = [SYSTEM_PYTHON, "-c", script]
    there = Path(SYSTEM_PYTHON).exists() and subprocess.run(command, check=False, capture_output=True).returncode == 0
    need(there, "an RTSP server (Debian: gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-plugins-ugly)")


def need_tls_of_glib() -> None:
    script = "import sys; from gi.repository import Gio; sys.exit(not Gio.TlsBackend.get_default().supports_tls())"
    command = [SYSTEM_PYTHON, "-c", script]
    need_gstreamer()
    there = subprocess.run(command, check=False, capture_output=True).returncode == 0
    need(there, "TLS for GStreamer's server (Debian: glib-networking)")


@contextmanager
def rtmp_server(folder: Path, port: int | None = None) -> Iterator[str]:
    """The URL of an application of nginx."""
    need(RTMP_MODULE.exists() and shutil.which("nginx") is not None, "nginx with RTMP (Debian: libnginx-mod-rtmp)")
    port = port or free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(module=RTMP_MODULE, folder=folder, port=port, user=user))
    with running("nginx", "-c", str(config), "-p", str(folder)):
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "nginx did not start"
                time.sleep(0.05)
        yield f"rtmp://127.0.0.1:{port}/live"


def played_frames(url: str, seconds: float) -> int:
    """How many pictures FFmpeg plays of what is at `url`, within about that time."""
    script = (
        "import av, sys, time\n"
        "count = 0\n"
        "with av.open(sys.argv[1], timeout=(10, 5)) as container:\n"
        "    end = time.monotonic() + float(sys.argv[2])\n"
        "    for frame in container.decode(video=0):\n"
        "        count += 1\n"
        "        if time.monotonic() > end:\n"
        "            break\n"
        "print(count)\n"
    )
    command = [sys.executable, "-c", script, url, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
