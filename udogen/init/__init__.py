"""A first config and first test cases: from a model, from flags, or from what a person answers."""
