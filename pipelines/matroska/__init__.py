"""Matroska and WebM beyond what FFmpeg's muxer can be told."""
