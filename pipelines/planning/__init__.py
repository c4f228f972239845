"""The decisions of a plan, each a pure function: tracks, sizes, timing, colours, encoders, and where each part runs."""
