"""Compare two snapshots: their operators and states, then the contents of each state, key by key.

Imports states and what is below them. `SnapshotComparison` is what `Snapshot.diff` returns; `state_changes` yields the
changed rows of one pair of states, range of key groups by range, which a feed of changes is built from, too.
"""

from __future__ import annotations
