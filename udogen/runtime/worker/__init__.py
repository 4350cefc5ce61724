"""What runs in the child process, where packages are loaded: the worker, and what each of its orders does."""
