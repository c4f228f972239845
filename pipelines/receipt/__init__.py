"""Receipts: how a job's result came about, measured."""
