"""Rules of outputs, in C++."""
