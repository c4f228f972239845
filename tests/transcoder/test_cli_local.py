"""Work that Ctrl-C ends, and files that appear whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from pipelines.errors import BadInput, Cancelled
from transcoder.cli.failures import CommandError, Interrupted
from transcoder.cli.local import interruptible, publish, scratch_beside


def interrupt_this_process() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_value_of_the_work_is_returned() -> None:
    assert interruptible(lambda stop: 7) == 7


def test_error_of_the_work_is_raised() -> None:
    def work(stop: threading.Event) -> None:
        raise BadInput("no media")

    with pytest.raises(BadInput, match="no media"):
        interruptible(work)


def test_signal_stops_the_work() -> None:
    def work(stop: threading.Event) -> None:
        interrupt_this_process()
        assert stop.wait(30)
        raise Cancelled("stopped")

    with pytest.raises(Interrupted) as caught:
        interruptible(work)
    assert caught.value.exit_code == 130


def test_work_that_was_done_when_the_signal_came_counts() -> None:
    def work(stop: threading.Event) -> str:
        interrupt_this_process()
        assert stop.wait(30)
        return "done"

    assert interruptible(work) == "done"


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    interruptible(lambda stop: None)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_second_signal_ends_work_that_does_not_stop(tmp_path: Path) -> None:
    mark = tmp_path / "scratch"
    mark.mkdir()
    script = textwrap.dedent(f"""
        import threading, shutil
        from transcoder.cli.local import interruptible

        def work(stop):
            print("working", flush=True)
            stop.wait()
            print("stopping", flush=True)
            threading.Event().wait()

        interruptible(work, on_abandon=lambda: shutil.rmtree({str(mark)!r}))
    """)
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 130
    assert not mark.exists()


def test_scratch_is_removed_whatever_happens(tmp_path: Path) -> None:
    def half_done() -> None:
        with scratch_beside(tmp_path / "out.mp4") as scratch:
            (scratch / "half").write_text("done")
            assert scratch.parent == tmp_path
            raise BadInput("no media")

    with pytest.raises(BadInput):
        half_done()
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="nowhere"), scratch_beside(tmp_path / "nowhere" / "out.mp4"):
        pass


def test_file_that_appeared_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    written, out = tmp_path / "written", tmp_path / "out.mp4"
    written.write_text("new")
    out.write_text("theirs")
    with pytest.raises(CommandError, match="exists"):
        publish(written, out, force=False)
    assert out.read_text() == "theirs"
    publish(written, out, force=True)
    assert out.read_text() == "new"


def test_file_system_without_hard_links_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    written, out = tmp_path / "written", tmp_path / "out.mp4"
    written.write_text("new")
    publish(written, out, force=False)
    assert out.read_text() == "new"
