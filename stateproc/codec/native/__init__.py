"""Kernels as machine code: declared in Python, compiled ahead of time into a library, or by numba at their first call."""
