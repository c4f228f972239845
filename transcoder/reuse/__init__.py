"""Identical work is done once: a job takes the result of one that did the same, or waits for one that does."""
