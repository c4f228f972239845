"""What users ask for, as frozen values: outputs, rungs, filters, ladders, pictures, streams."""
