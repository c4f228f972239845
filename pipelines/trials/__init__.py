"""What a device can do, found out by doing it with small clips."""
