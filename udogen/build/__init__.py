"""Tree of files -> libraries: tools that are there, toolchains, targets, make."""
