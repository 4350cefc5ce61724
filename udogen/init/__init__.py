"""Makes a first config and test cases: from a model."""
