"""Write shuffled entries as a snapshot: tasks write state files, the driver completes the snapshot.

Tasks return what they wrote as rows of a DataFrame. For a data source's writer Spark would start Python workers to
create the source, the writer and the commit, one after another, which takes a third of a second.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from stateproc.spark.workers import keep_loaded
from stateproc.writers.assemble_metadata import CompletedWrite, finish
from stateproc.writers.commit.commit import Commit
from stateproc.writers.sorting.external_sort import sorted_entries
from stateproc.writers.spark.shuffle_blocks import unpacked
from stateproc.writers.write_plan import WriteJob
from stateproc.writers.write_task import WrittenTarget, write_targets

_WRITTEN = pa.schema([pa.field("written", pa.binary(), nullable=False)])
_WRITTEN_SCHEMA = "written binary"


@dataclass(frozen=True)
class EntriesWriter:
    """For mapInArrow: writes partitions of blocks of entries, each target in one partition."""

    job: WriteJob

    def __call__(self, blocks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark's own results of Python workers are pickled, too: this crosses no other boundary of trust.
        answer = pickle.dumps(self.write(blocks))
        yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], schema=_WRITTEN)

    def write(self, blocks: Iterable[pa.RecordBatch]) -> list[WrittenTarget]:
        """Write the files that these blocks belong to. Raises WriteFailed, DuplicateKey, InvalidEntries."""
        written = write_targets(self.job, sorted_entries(unpacked(blocks)))
        keep_loaded()
        return written


def save(entries: DataFrame, job: WriteJob, commit: Commit) -> CompletedWrite:
    """Write the entries (BLOCKS, one partition per target) and complete the snapshot.

    Spark returns one answer of tasks that run more than once; the commit removes the files of the others.
    """
    answers = [answer.written for answer in entries.mapInArrow(EntriesWriter(job), _WRITTEN_SCHEMA).collect()]
    return finish(job, commit, [item for answer in answers for item in pickle.loads(answer)])
