"""Sound from decoder to encoder: channels, loudness, filters, and the thread that does it."""
