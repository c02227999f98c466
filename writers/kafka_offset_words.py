"""Name the offsets that Kafka's connector resolves when the job starts."""

from __future__ import annotations

from collections.abc import Mapping

OFFSET_WORDS: Mapping[str, int] = {"latest": -1, "earliest": -2, "committed": -3}
"""Word → the marker in splits of the connector; ``committed`` is the offset of the consumer group."""
