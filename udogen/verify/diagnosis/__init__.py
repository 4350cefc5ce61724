"""Why numbers are wrong: comparison, causes, and the smallest shapes that still fail."""
