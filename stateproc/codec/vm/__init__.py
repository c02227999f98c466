"""The decode VM: :func:`stateproc.codec.vm.dispatch.run` picks the ops, the other files are what ops do.

Kernels see the VM's state as numbers: ``pos``, ``end`` and ``base`` are addresses in the source, ``pc`` is the index of
the instruction and ``code`` its address (``operand(code, 1)`` is its first operand), ``top`` is the address behind the
stack's last word and ``limit`` the highest that leaves room for what ops push unasked; ``columns``, ``fills``, ``reg``
and ``kryo`` are addresses, too.

Each op answers with the position behind what it has read, and RUNNING; or, where it fails, with the position at which
it does, and why. What else it changes follows in this order: ``pc``, the stack's top, the count. An op that fails may
have written to columns and stack: the row is taken back.
"""
