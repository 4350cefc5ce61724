"""Diagnosis of wrong numbers: comparison, causes, and the smallest shapes that still fail."""
