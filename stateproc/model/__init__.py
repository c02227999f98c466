"""Snapshots, their operators and the states of these: types, schema, splits and rows.

It may import ``stateproc.operator_names``, ``stateproc.query_plans`` and the layers below them. What works on snapshots
(comparison, export, verification, SQL) is built on it, and ``stateproc.Snapshot`` adds that as methods.
"""

from __future__ import annotations
