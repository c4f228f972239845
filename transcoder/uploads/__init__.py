"""Uploads: whole, resumable, and those that jobs name."""
