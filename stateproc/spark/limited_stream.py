"""Read a stream of checkpoints in limited batches, as Spark 4.2 and later can ask for.

Spark 4.1 does not have the classes that this module imports.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from stateproc.feed.streams import StreamOffset
from stateproc.spark.streaming import CheckpointStreamReader


class LimitedStreamReader(CheckpointStreamReader, SupportsTriggerAvailableNow):
    """A reader that Spark limits: batches of so many checkpoints, up to those that are complete when it starts."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the option maxCheckpointsPerTrigger, in files: each checkpoint is one."""
        most = self._options.max_checkpoints_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the offset after the next checkpoints, or the start if there are none. Raises SnapshotError."""
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        found = self._newer(StreamOffset.of(start), most)
        return start if found is None else found.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is complete now. Raises SnapshotError."""
        self._target = self._follower.latest(StreamOffset(None)) or StreamOffset(None)
