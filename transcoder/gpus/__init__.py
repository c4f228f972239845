"""The machine's devices as the service keeps them: measured, busy, failing, quarantined."""
