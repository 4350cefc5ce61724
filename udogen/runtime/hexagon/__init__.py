"""Kernels on the Hexagon instruction set, run by qemu-hexagon: sessions, and the files exchanged with the program."""
