"""Shuffled entries become a snapshot: tasks write state files, and the driver makes them one.

Tasks answer through a DataFrame and not as a data source's writers: for those Spark starts Python workers of its own to
make the source, the writer and the commit, one after the other, a third of a second in all.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from stateproc.spark.workers import keep_loaded
from stateproc.writers.committing.commit import Commit
from stateproc.writers.committing.finish import finish
from stateproc.writers.job import WriteJob
from stateproc.writers.spark.blocks import unpacked
from stateproc.writers.spark.runs import sorted_entries
from stateproc.writers.tasks import Written, write_targets

_WRITTEN = pa.schema([pa.field("written", pa.binary(), nullable=False)])
_WRITTEN_SCHEMA = "written binary"


@dataclass(frozen=True)
class EntriesWriter:
    """For mapInArrow: writes partitions of blocks of entries, each target in one partition."""

    job: WriteJob

    def __call__(self, blocks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark's workers pickle all that they tell the driver; this is the same process's word on the same way.
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(self.write(blocks))], pa.binary())], schema=_WRITTEN)

    def write(self, blocks: Iterable[pa.RecordBatch]) -> list[Written]:
        """Write the files that these blocks are of. Raises WriteFailed, DuplicateKey, InvalidEntries."""
        written = write_targets(self.job, sorted_entries(unpacked(blocks)))
        keep_loaded()
        return written


def save(entries: DataFrame, job: WriteJob, commit: Commit) -> None:
    """Write the entries (BLOCKS, one partition per target) and complete the snapshot.

    Of tasks that run more than once Spark hands one answer on; what the others wrote is removed by the commit.
    """
    answers = entries.mapInArrow(EntriesWriter(job), _WRITTEN_SCHEMA).collect()
    finish(job, commit, [item for answer in answers for item in pickle.loads(answer.written)])
