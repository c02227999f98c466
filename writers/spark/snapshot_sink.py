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
from stateproc.writers.assemble_metadata import finish
from stateproc.writers.commit.commit import Commit
from stateproc.writers.spark.arrow_batching import LargeRows, take_all
from stateproc.writers.spark.external_sort import sorted_entries
from stateproc.writers.spark.shuffle_blocks import unpacked
from stateproc.writers.write_plan import WriteJob
from stateproc.writers.write_task import Written, write_targets

_WRITTEN = pa.schema([pa.field("written", pa.binary(), nullable=False)])
_WRITTEN_SCHEMA = "written binary"
_UNFINISHED = b""


@dataclass(frozen=True)
class EntriesWriter:
    """For mapInArrow: writes partitions of blocks of entries, each target in one partition."""

    job: WriteJob

    def __call__(self, blocks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rest = iter(blocks)
        try:
            # Spark's workers pickle all that they tell the driver; this is the same process's word on the same way.
            answer = pickle.dumps(self.write(rest))
        except LargeRows:
            answer = _UNFINISHED
            take_all(rest)
        yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], schema=_WRITTEN)

    def write(self, blocks: Iterable[pa.RecordBatch]) -> list[Written]:
        """Write the files that these blocks are of. Raises WriteFailed, DuplicateKey, InvalidEntries, LargeRows."""
        written = write_targets(self.job, sorted_entries(unpacked(blocks)))
        keep_loaded()
        return written


def save(entries: DataFrame, job: WriteJob, commit: Commit) -> bool:
    """Write the entries (BLOCKS, one partition per target) and complete the snapshot; or False: some rows were large.

    Of tasks that run more than once Spark hands one answer on; what the others wrote is removed by the commit, and what
    was written before rows were found large.
    """
    answers = [answer.written for answer in entries.mapInArrow(EntriesWriter(job), _WRITTEN_SCHEMA).collect()]
    if _UNFINISHED in answers:
        return False
    finish(job, commit, [item for answer in answers for item in pickle.loads(answer)])
    return True
