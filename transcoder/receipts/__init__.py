"""Receipts of jobs: gathered by the attempt that is published, stored with its result."""
