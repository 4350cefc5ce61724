"""Registration libraries of SNPE."""
