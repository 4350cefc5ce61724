"""Memory for tensors: allocated, planned, shared, handed from one graph to the next."""
