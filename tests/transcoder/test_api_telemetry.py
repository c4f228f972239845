"""Metrics whose number does not grow with what clients send."""

from __future__ import annotations

from pipelines.live.stats import LiveStats
from transcoder.jobs import JobStatus
from transcoder.telemetry import MAX_QUEUES, Telemetry


def test_queue_labels_are_bounded_and_the_rest_is_summed_up() -> None:
    telemetry = Telemetry()
    waiting = {(f"q{number}", JobStatus.QUEUED): 2 for number in range(MAX_QUEUES + 10)}
    lines = telemetry.exposition((), waiting).decode().splitlines()
    shown = [line for line in lines if line.startswith("transcoder_jobs_active{")]
    assert len(shown) == MAX_QUEUES + 1
    assert 'transcoder_jobs_active{queue="other",status="queued"} 20.0' in shown


def test_methods_and_paths_without_a_route_are_one_label_each() -> None:
    telemetry = Telemetry()
    for number in range(100):
        telemetry.request_answered(None, f"METHOD{number}", 404)
    text = telemetry.exposition((), {}).decode()
    assert 'transcoder_http_requests_total{method="other",route="other",status="404"} 100.0' in text
    assert text.count("transcoder_http_requests_total{") == 1


def test_each_telemetry_counts_for_itself() -> None:
    first, second = Telemetry(), Telemetry()
    first.upload_stored(7)
    assert "transcoder_upload_bytes_total 7.0" in first.exposition((), {}).decode()
    assert "transcoder_upload_bytes_total 0.0" in second.exposition((), {}).decode()


def test_streams_are_summed_up_and_counts_go_on_when_one_begins_anew() -> None:
    telemetry = Telemetry()
    telemetry.exposition((), {}, streams={"a": LiveStats(state="live", reconnects=3, last_frame_age_seconds=2.5)})
    streams = {"a": LiveStats(state="reconnecting", reconnects=1), "b": LiveStats(state="live", reconnects=4)}
    lines = telemetry.exposition((), {}, streams=streams).decode().splitlines()
    assert "transcoder_stream_reconnects_total 8.0" in lines
    assert 'transcoder_streams{state="live"} 1.0' in lines
    assert 'transcoder_streams{state="connecting"} 0.0' in lines
    assert "transcoder_stream_frame_age_seconds 0.0" in lines
