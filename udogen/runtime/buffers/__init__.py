"""Memory for tensors: allocated, planned, shared, passed from one graph to the next."""
