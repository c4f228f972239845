"""Ladders for adaptive players: segments, playlists and manifests (HLS, DASH, CMAF)."""
