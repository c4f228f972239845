"""Hostile files through a live service: each ends with its code, and the service stands as before."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import pytest

from tests import hostile_media as media
from tests.media import Tone, make_audio, make_video
from tests.transcoder.hostile import MP4, Target, canary, target, was_reached
from transcoder.children import landlock, seccomp
from transcoder.settings import Settings

PLAYLISTS = tuple(media.playlists(1, Path("/x")))
HOSTILE_NAMES = (
    *("../../../etc/passwd", "/etc/passwd", "a\r\nX-Injected: 1", "\x1b[31mred", "nul\0.mp4", "concat:a|b", "-i.mp4"),
    *("%s%n%d.mp4", "'; DROP TABLE jobs;--.mp4", "ü" * 120 + ".mp4", "CON", ".", "..", "<script>alert(1)</script>.mp4"),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_audio(tmp_path_factory.mktemp("sound") / "a.wav", seconds=Fraction(1, 5)).read_bytes()


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("roots")


@pytest.fixture(scope="module")
def service(sound: bytes, roots: Path) -> Iterator[Target]:
    with target(sound, TRANSCODER_MEDIA_ROOTS=str(roots), TRANSCODER_STALL_SECONDS="10") as running:
        yield running


@pytest.fixture
def unharmed(service: Target) -> Iterator[Target]:
    """The service, which is checked after the test."""
    yield service
    service.assert_unharmed()


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("clip") / "a.mkv", size=(160, 120), seconds=3)


@pytest.mark.slow
def test_health_tells_what_confines_children(service: Target) -> None:
    """It was tried by a real child when the service started."""
    told = service.http.get("/healthz").json()["sandbox"]

    assert told["mode"] == "auto"
    assert told["landlock"] == landlock.abi()
    assert told["seccomp"] == (seccomp.architecture() is not None)
    assert told["memory_bytes"] == Settings().child_memory_bytes
    assert "processes that read inputs are" in service.server.log()


@pytest.mark.slow
def test_playlists_open_nothing_and_are_bad_input(unharmed: Target, clip: Path) -> None:
    with canary() as listener:
        made = media.playlists(listener.getsockname()[1], clip)
        codes = {name: unharmed.run(data, f"{name}.m3u8") for name, data in made.items()}
        again = unharmed.run(made["m3u8 of http"], "clip.mp4")

        assert not was_reached(listener)
    assert {name: job["error"]["code"] for name, job in codes.items()} == dict.fromkeys(made, "bad_input")
    assert again["error"]["code"] == "bad_input"
    assert {len(job["attempts"]) for job in codes.values()} == {1}


def test_playlist_that_names_a_fifo_does_not_hang(unharmed: Target, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    job = unharmed.run(f"#EXTM3U\n#EXTINF:1,\n{tmp_path}/fifo\n".encode(), "a.m3u8")

    assert job["error"]["code"] == "bad_input"


def test_subtitles_in_an_avi_reach_nobody(unharmed: Target, tmp_path: Path) -> None:
    with canary() as listener:
        job = unharmed.run(media.subtitles_in_avi(tmp_path / "a.avi", listener.getsockname()[1]), "a.avi")

        assert not was_reached(listener)
    assert job["status"] == "completed", job["error"]


@pytest.mark.parametrize(
    ("data", "looks_like"),
    [
        (b"", "empty"),
        (b"\0", "unknown data"),
        (b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isomiso2", None),
        (media.HTML, "a web page (HTML)"),
        (random.Random(5).randbytes(4096), "unknown data"),
    ],
    ids=["empty", "one byte", "ftyp only", "html", "random"],
)
def test_what_is_no_media_is_bad_input_and_not_retried(unharmed: Target, data: bytes, looks_like: str | None) -> None:
    job = unharmed.run(data, "clip.mp4")

    assert (job["status"], job["error"]["code"]) == ("failed", "bad_input")
    assert len(job["attempts"]) == 1
    assert looks_like is None or looks_like.split()[-1].strip("()").lower() in str(job["error"]).lower()


def test_size_that_changes_in_the_stream_gives_a_valid_output(unharmed: Target, tmp_path: Path) -> None:
    job = unharmed.run(media.changing_size(tmp_path))

    assert job["status"] == "completed", job["error"]
    (path,) = unharmed.outputs(job)
    with av.open(str(path)) as written:
        sizes = {(frame.width, frame.height) for frame in written.decode(video=0)}
    assert len(sizes) == 1


def test_matroska_that_was_cut_is_told_as_truncated(unharmed: Target, clip: Path) -> None:
    data = clip.read_bytes()
    job = unharmed.run(data[: len(data) * 6 // 10])

    codes = [job["error"]["code"]] if job["error"] else [warning["code"] for warning in job["warnings"]]
    assert "truncated" in codes


def test_transport_stream_with_damage_is_completed_with_counted_warnings(unharmed: Target, tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.ts", size=(320, 240), seconds=4, audio=(Tone("aac"),))
    job = unharmed.run(media.overwritten(path.read_bytes(), 2000))

    assert job["status"] == "completed", job["error"]
    assert sum(warning["count"] for warning in job["warnings"]) > 0


@pytest.mark.parametrize("title", [b"\xff\xfe\x80abcd", b"a\0b\0c", b"a\r\nX-A: b", b"\x1b[2J\x1b[31m", b"</MPD>&\"'"])
def test_title_of_any_bytes_harms_neither_job_nor_log(unharmed: Target, tmp_path: Path, title: bytes) -> None:
    job = unharmed.run(media.with_title(tmp_path / "a.mkv", title))

    assert job["status"] == "completed", job["error"]
    log = unharmed.http.get(f"/v1/jobs/{job['id']}/log")
    assert log.status_code == 200
    assert all(line.isprintable() for line in log.text.splitlines())
    probed = unharmed.http.post("/v1/probe", json={"upload": job["spec"]["input"]["upload"]}).json()
    assert all(value.isprintable() for value in probed["metadata"].values())


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_name_is_metadata_only(service: Target, sound: bytes, name: str) -> None:
    before = {path.name for path in (service.server.data / "uploads").iterdir()}
    response = service.http.put(f"/v1/uploads/{_quoted(name)}", content=sound)

    assert response.status_code == 201, response.text
    stored = {path.name for path in (service.server.data / "uploads").iterdir()} - before
    assert stored == {response.json()["id"]}
    assert set(response.json()["id"]) <= set("0123456789abcdefghijklmnopqrstuvwxyz-")


def _quoted(name: str) -> str:
    return "".join(f"%{byte:02X}" for byte in name.encode())


def test_link_out_of_a_media_root_is_refused(unharmed: Target, roots: Path, tmp_path: Path, clip: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "a.mkv").write_bytes(clip.read_bytes())
    (roots / "linked").symlink_to(tmp_path / "private")
    (roots / "link.mkv").symlink_to(clip)
    os.mkfifo(roots / "fifo")
    refusals = {
        "linked/a.mkv": "path_not_allowed",
        "link.mkv": "path_not_allowed",
        "../etc/passwd": "path_not_allowed",
        "/etc/passwd": "path_not_allowed",
        "fifo": "input_not_found",
        "nothing": "input_not_found",
    }

    told = {}
    for path in refusals:
        response = unharmed.http.post("/v1/jobs", json={"input": {"path": path}, "outputs": [MP4]})
        told[path] = (response.status_code, response.json()["code"])
    assert told == {path: (422, code) for path, code in refusals.items()}


@pytest.mark.slow
def test_file_in_a_media_root_that_becomes_a_link_is_not_followed(
    unharmed: Target, roots: Path, tmp_path: Path, clip: Path
) -> None:
    """What is swapped after the job was taken is found when it is brought."""
    outside = tmp_path / "outside.mkv"
    outside.write_bytes(clip.read_bytes())
    (roots / "swapped.mkv").write_bytes(clip.read_bytes())
    slow = unharmed.submit(
        input={"upload": unharmed.upload(clip.read_bytes())}, outputs=[{"type": "mp4", "video": {"speed": "veryslow"}}]
    )
    job_id = unharmed.submit(input={"path": "swapped.mkv"})
    (roots / "swapped.mkv").unlink()
    (roots / "swapped.mkv").symlink_to(outside)
    unharmed.ended(slow)
    job = unharmed.ended(job_id)

    assert job["error"]["code"] == "path_not_allowed"
