"""Makes a first config and test cases: from a model, from flags, or from an interview."""
