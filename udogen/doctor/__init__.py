"""Is this machine ready, and for what: tools, SDKs, variables, runtimes, emulators, and what follows from them."""
