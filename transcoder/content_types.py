"""Content types of what the service writes, by file name extension (the system's own table differs by machine)."""

from __future__ import annotations

from pathlib import PurePosixPath

CONTENT_TYPES: dict[str, str] = {
    ".mp4": "video/mp4",
    ".m4v": "video/mp4",
    ".mov": "video/quicktime",
    ".mkv": "video/x-matroska",
    ".webm": "video/webm",
    ".ts": "video/mp2t",
    ".m4a": "audio/mp4",
    ".mp3": "audio/mpeg",
    ".opus": "audio/ogg",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".m3u8": "application/vnd.apple.mpegurl",
    ".mpd": "application/dash+xml",
    ".m4s": "video/iso.segment",
    ".srt": "application/x-subrip; charset=utf-8",
    ".ass": "text/x-ssa; charset=utf-8",
    ".vtt": "text/vtt; charset=utf-8",
}


def content_type(path: str) -> str:
    """The type for a file's name; plain bytes for an extension that is not ours."""
    return CONTENT_TYPES.get(PurePosixPath(path).suffix.lower(), "application/octet-stream")
