"""Converts packages of Qualcomm's generators, or handwritten ones in their style, to packages of udogen."""
