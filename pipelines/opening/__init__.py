"""Opening what strangers send: by descriptor, by its bytes, with one demuxer, within limits."""
