"""Memory for tensors: allocated, planned, shared with a backend, and given back on every path."""
