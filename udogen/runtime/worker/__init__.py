"""The code of the child process in which packages are loaded: the worker, and the functions of its commands."""
