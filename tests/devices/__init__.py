"""Tests that need VAAPI: real code paths of FFmpeg on GPUs that softva plays."""
