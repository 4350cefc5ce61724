"""Kernels on the Hexagon instruction set, run by qemu-hexagon: sessions, and the files between us and the program."""
