"""GPUs: which there are, their contexts, decoders, filters and encoders, and their errors."""
