"""AES-128: whole segments, the caller's key, nothing of it in plans."""

from __future__ import annotations

import io
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import av
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from pipelines.errors import UnsupportedSpec
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.spec import FileJob
from pipelines.transcode import transcode
from tests.hls_rules import Media, check_multivariant
from tests.ladders import DEVICE, rung
from tests.media import make_video
from tests.pipelines.facts import only_output
from transcoder.aes import encrypt_cbc

KEY, IV = bytes(range(16)), bytes(range(16, 32))


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("clip") / "in.mp4", size=(128, 72), seconds=4)


def make(clip: Path, folder: Path, uri: str = "https://keys.example.org/1", **output: Any) -> None:
    encryption = {"key": KEY.hex(), "uri": uri, **output.pop("encryption", {})}
    made = {"type": "hls", "segment_seconds": 2, "video": [rung(72)], "encryption": encryption, **output}
    spec = FileJob.model_validate({"input": {"path": "x"}, "outputs": [made]})
    file = LocalFile(clip, clip.name)
    transcode(spec, file, folder, device=DEVICE, limits=Limits(), cipher=encrypt_cbc)


def opened(media: Media, number: int, iv: bytes) -> bytes:
    entry = media.entries[number]
    sealed = entry.path.read_bytes()[entry.offset : entry.offset + entry.size]
    decryptor = Cipher(algorithms.AES(KEY), modes.CBC(iv)).decryptor()
    data = decryptor.update(sealed) + decryptor.finalize()
    return data[: -data[-1]]


@pytest.mark.parametrize("single", [False, True], ids=["files", "one file"])
def test_each_segment_is_opened_by_the_key_and_its_number(clip: Path, tmp_path: Path, single: bool) -> None:
    make(clip, tmp_path, single_file=single)
    ladder = check_multivariant(tmp_path / "output" / "index.m3u8")
    assert ladder.iframes == []
    for _, media in (*ladder.variants, *ladder.alternatives):
        assert media.encrypted
        assert media.init is not None
        init = media.init.path.read_bytes()[: media.init.size]
        for number in range(2):
            data = init + opened(media, number, number.to_bytes(16, "big"))
            with av.open(io.BytesIO(data), "r", format="mp4") as container:
                assert len(list(container.decode(container.streams[0]))) > 20


def test_an_iv_of_the_callers_is_said_and_used(clip: Path, tmp_path: Path) -> None:
    make(clip, tmp_path, segment_type="ts", encryption={"iv": IV.hex()})
    ladder = check_multivariant(tmp_path / "output" / "index.m3u8")
    _, media = ladder.variants[0]
    assert f'METHOD=AES-128,URI="https://keys.example.org/1",IV=0x{IV.hex().upper()}' in media.path.read_text()
    assert opened(media, 1, IV)[0] == 0x47


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the test's output."""


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.skipif(shutil.which("ffprobe") is None, reason="ffprobe is not installed")
@pytest.mark.parametrize("kind", ["fmp4", "ts"])
def test_ffprobe_fetches_the_key_and_reads_all(clip: Path, tmp_path: Path, web: str, kind: str) -> None:
    (tmp_path / "the.key").write_bytes(KEY)
    make(clip, tmp_path, uri=f"{web}/the.key", segment_type=kind)
    words = ["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v:0", "-of", "csv=p=0",
             "-show_entries", "stream=nb_read_frames", f"{web}/output/72p/index.m3u8"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split("\n")[0].strip(",") == "100", done.stderr


def test_the_key_is_in_no_plan() -> None:
    made = only_output({"type": "hls", "encryption": {"key": KEY.hex(), "uri": "https://keys.example.org/1"}})
    assert "keys.example.org" in made.model_dump_json()
    assert KEY.hex() not in made.model_dump_json()
    assert KEY.hex() not in repr(made)


def test_without_a_cipher_it_is_refused(clip: Path, tmp_path: Path) -> None:
    encryption = {"key": KEY.hex(), "uri": "https://keys.example.org/1"}
    spec = FileJob.model_validate({"input": {"path": "x"}, "outputs": [{"type": "hls", "encryption": encryption}]})
    with pytest.raises(UnsupportedSpec, match="AES"):
        transcode(spec, LocalFile(clip, clip.name), tmp_path, device=DEVICE, limits=Limits())
