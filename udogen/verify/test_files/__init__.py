"""Test files: declarations of tests, checked against the configs and expanded into cases."""
