"""What is found out about a source beyond its headers."""
