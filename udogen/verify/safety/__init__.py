"""Is a kernel safe: heap use during execution, accesses beside tensors, undefined behaviour, races, leaks."""
