"""Test files: what is to be tested, checked against the configs, and expanded into cases."""
