"""A first config and test cases: from a model, from flags, or from answers to questions."""
