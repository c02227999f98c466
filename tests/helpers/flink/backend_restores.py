"""Which state backends restore a snapshot, as Flink 1.20 and 2.3 did: fixture → hashmap, rocksdb.

What other releases wrote was restored by Flink 1.20. `tests/acceptance/test_backends.py` asks Flink again.
"""

from __future__ import annotations

RESTORED: dict[str, tuple[bool, bool]] = {
    "1.12/tiny-memory-checkpoint": (True, False),
    "1.12/tiny-memory-savepoint": (True, False),
    "1.12/tiny-rocksdb-canonical": (False, True),
    "1.12/tiny-rocksdb-incremental": (False, True),
    "1.20/tiny-hashmap-canonical-1024": (True, True),
    "1.20/tiny-hashmap-changelog-memory": (True, True),
    "1.20/tiny-hashmap-checkpoint-1024": (True, False),
    "1.20/tiny-rocksdb-canonical-1024": (True, True),
    "1.20/tiny-rocksdb-canonical-heaptimers": (True, True),
    "1.20/tiny-rocksdb-changelog": (False, True),
    "1.20/tiny-rocksdb-full": (False, True),
    "1.20/tiny-rocksdb-full-heaptimers": (False, True),
    "1.20/tiny-rocksdb-native": (False, True),
    "2.3/tiny-hashmap-canonical-1024": (True, True),
    "2.3/tiny-hashmap-checkpoint-1024": (True, False),
    "2.3/tiny-rocksdb-canonical-1024": (True, True),
    "2.3/tiny-rocksdb-full": (False, True),
    "2.3/tiny-rocksdb-native": (False, True),
}
MOVED = ("1.12/tiny-rocksdb-incremental", "1.20/tiny-rocksdb-changelog")
"""Their files are not where Flink wrote them, so that it does not find them; only what it refuses is asked."""
