"""Real files are extra inputs that nobody has to have: where skips count as failures, their test is left out."""

from __future__ import annotations

import os

from tests.conftest import NO_SKIPS

_is_wanted = bool(os.environ.get("TRANSCODER_TEST_MEDIA")) or not os.environ.get(NO_SKIPS)
collect_ignore = [] if _is_wanted else ["test_real_files.py"]
