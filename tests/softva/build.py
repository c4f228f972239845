"""Builds softva once for each state of its sources, and brings it into this process and those that it starts."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent
LIBRARIES = ("libva", "libva-drm", "libavcodec", "libswscale", "x264", "x265")


class Unavailable(Exception):
    """softva can't be had here; the text says why."""


def build() -> Path:
    """The folder of the two libraries. Unavailable where they can't be built."""
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in {".c", ".h"} or path.name == "Makefile")
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "transcoder-tests"
    built = cache / f"softva-{state}"
    if built.is_dir():
        return built
    missing = [tool for tool in ("make", "gcc", "pkg-config") if shutil.which(tool) is None]
    if missing:
        raise Unavailable(f"softva can't be built: {', '.join(missing)} not found")
    if subprocess.run(["pkg-config", "--exists", *LIBRARIES], check=False).returncode:
        raise Unavailable(f"softva can't be built: not all of {', '.join(LIBRARIES)} are installed with their headers")
    unfinished = cache / f"softva-{state}.{os.getpid()}"
    unfinished.mkdir(parents=True)
    made = subprocess.run(
        ["make", "-C", SOURCES, f"OUT={unfinished}"], capture_output=True, text=True, timeout=120, check=False
    )
    if made.returncode:
        shutil.rmtree(unfinished)
        raise Unavailable(f"softva doesn't build: {made.stderr[-2000:]}")
    try:
        unfinished.rename(built)
    except OSError:
        # somebody else was first
        shutil.rmtree(unfinished)
    return built


def environment(built: Path) -> dict[str, str]:
    """What makes softva the VA-API driver of a process that starts with it."""
    return {
        "LD_PRELOAD": str(built / "softva_node.so"),
        "LIBVA_DRIVERS_PATH": str(built),
        "LIBVA_DRIVER_NAME": "softva",
        "LIBVA_MESSAGING_LEVEL": "0",
    }


def preloaded() -> bool:
    """Whether this process started in such an environment: only then does QSV work in it."""
    return "softva_node.so" in os.environ.get("LD_PRELOAD", "")


def enter(built: Path, folder: Path) -> None:
    """Makes softva the VA-API driver of this process and its children; its log and settings lie in `folder`.

    Once for a process: fork servers keep the environment that they started with. Unavailable when libva is loaded
    already, since its calls are bound for good then.
    """
    if not preloaded() and "libva-drm" in Path("/proc/self/maps").read_text():
        raise Unavailable("libva was loaded before softva: run tests/devices by themselves")
    os.environ |= environment(built)
    os.environ |= {
        "SOFTVA_LOG": str(folder / "log"),
        "SOFTVA_CONFIG": str(folder / "settings"),
        "SOFTVA_ROOT": str(folder / "machine"),
    }
    (folder / "settings").mkdir(exist_ok=True)
    # LD_PRELOAD is for processes to come; this one binds libva's calls when PyAV is imported
    ctypes.CDLL(str(built / "softva_node.so"), mode=ctypes.RTLD_GLOBAL)
