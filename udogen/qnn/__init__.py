"""The QNN C API as Python sees it; nothing here is imported before it is used."""
