"""Is a kernel safe: heap while it executes, reads and writes beside tensors, undefined behaviour, races, leaks."""
