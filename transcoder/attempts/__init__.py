"""Attempts from claim to settlement, and what follows a failure."""
