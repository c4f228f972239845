"""Text subtitles: cues read, timed and written."""
