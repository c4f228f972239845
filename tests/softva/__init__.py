"""A software VA-API driver that stands in for Intel GPUs in tests."""
