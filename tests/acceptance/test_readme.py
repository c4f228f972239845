"""What the documents tell to type works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.live import LiveServer
from tests.measure import decode_video

ROOT = Path(__file__).parent.parent.parent
_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def run_script(script: str, server: LiveServer, folder: Path) -> str:
    """Runs shell text in `folder`; its address of the default port leads to `server`."""
    # curl connects to the live server wherever the text names the default address: the text itself stays as it is
    (folder / ".curlrc").write_text(f'connect-to = "127.0.0.1:8080:127.0.0.1:{server.port}"\n')
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=os.environ | {"CURL_HOME": str(folder), "TRANSCODER_SERVER": server.address, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "urn:transcoder:problem" not in done.stdout, done.stdout
    return done.stdout


@pytest.mark.slow
def test_blocks_of_the_documents_work_word_for_word(server: LiveServer, tmp_path: Path) -> None:
    pages = ("README.md", "docs/presets.md", "docs/api.md", "docs/queue.md")
    script = "\n".join(block for page in pages for block in blocks(page))
    output = run_script(script, server, tmp_path)
    assert "event: status" in output
    made = tmp_path / "demo"
    assert decode_video(made / "result-480p.mp4").frames[0].height == 480
    assert decode_video(made / "cut.webm").frames[0].height == 360
    assert (made / "fetched" / "output.mp4").stat().st_size > 0
    assert (made / "sound.mp3").stat().st_size > 0
