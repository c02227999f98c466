"""The local engine: writes a savepoint in this process, with threads and bounded memory, without a JVM.

Imports every package of writers but ``spark``; ``savepoint_writer`` chooses between the two.
"""
