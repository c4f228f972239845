"""A service with keys, as its users meet it: what the documents tell to type, and nothing for those without a key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.live import LiveServer, finish, live_server, transcoder
from tests.acceptance.test_readme import ROOT, run_script

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def made_key(server: LiveServer, *words: str) -> str:
    env = {"TRANSCODER_DATA_DIR": str(server.data)}
    return transcoder("keys", "create", "--name", "test", *words, env=env).succeeded().out.strip()


@pytest.mark.slow
def test_documented_commands_work_beside_a_running_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live_server() as server:
        monkeypatch.setenv("TRANSCODER_DATA_DIR", str(server.data))
        for page in ("docs/security.md", "docs/api.md"):
            (script,) = _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
            output = run_script(script, server, tmp_path)
            assert '"items"' in output
        assert server.stop() == 0


@pytest.mark.slow
def test_job_from_upload_to_link_with_a_key_and_not_without(clip: Path, tmp_path: Path) -> None:
    with live_server() as server:
        key = made_key(server, "--tenant", "acme")
        stranger = made_key(server, "--tenant", "other")
        env = {"TRANSCODER_SERVER": server.address, "TRANSCODER_API_KEY": key}
        words = ("jobs", "submit", clip, "--preset", "audio-mp3", "--download", tmp_path / "out", "--json")
        done = transcoder(*words, env=env).succeeded().json()
        (output,) = (tmp_path / "out").iterdir()
        address = f"/v1/jobs/{done['id']}"
        for header in (f"X-Api-Key: {stranger}", "X-Nothing: 1"):
            code = finish(
                ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", header, server.address + address]
            )
            assert code.out in ("404", "401")
        link = server.curl("-X", "POST", "-H", f"X-Api-Key: {key}", f"{address}/outputs/{output.name}/link").json()
        fetched = tmp_path / "fetched"
        server.curl("-o", fetched, link["url"])
        assert fetched.read_bytes() == output.read_bytes()
        refused = transcoder("jobs", "list", env={"TRANSCODER_SERVER": server.address})
        assert refused.code == 4
        assert "error [unauthorized]:" in refused.err
        assert server.stop() == 0
