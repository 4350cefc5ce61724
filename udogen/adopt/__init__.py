"""Packages of Qualcomm's generators, or written by hand in their style, become packages of udogen."""
