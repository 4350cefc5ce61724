"""The QNN C API in Python."""
