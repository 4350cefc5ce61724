"""Test files: what a person says is to be tested, read, held against the configs, and made into cases."""
