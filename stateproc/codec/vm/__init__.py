"""The decode VM: ``dispatch`` runs a program row by row, ``vectorized`` a thousand rows at a time; the rest are ops.

Kernels see the VM's state as numbers: ``pos``, ``end`` and ``base`` are addresses in the source, ``pc`` is the index of
the instruction and ``code`` its address (``operand(code, 1)`` is its first operand), ``top`` is the address after the
stack's last word and ``limit`` the highest from which ops may push without a check; ``columns``, ``fills``, ``reg``
and ``kryo`` are addresses, too.

Each op returns the position after what it has read, and RUNNING; or, where it fails, the position at which it
does, and why. What else it changes follows in this order: ``pc``, the stack's top, the count. An op that fails may
have written to columns and stack: the row is rolled back.
"""
