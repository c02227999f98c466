"""Kernels as machine code: functions in Python that a library has compiled ahead of time, or numba compiles."""
