"""Tree of files -> libraries: tools of this machine, toolchains, make."""
