"""SAMPLE-AES: samples encrypted inside segments that stay readable."""
