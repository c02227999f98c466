"""The states of operators: their types, schema, splits and rows.

It may import ``stateproc.options``, ``stateproc.readers`` and the layers below them. What works on states of several
operators (comparison, export, verification, SQL) and the snapshot itself are built on it.
"""

from __future__ import annotations
