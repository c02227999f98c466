"""Snapshots written again as native RocksDB snapshots, in one process: what Spark's tasks do, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from stateproc.flink_versions import release as release_of
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
from stateproc.writers.formats.entry_batches import FILE_ENTRIES
from stateproc.writers.formats.keyed_file import KeyedStateHeader
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.formats.rocksdb.options import TableOptions
from stateproc.writers.rewrite.file_copy import copy_plan
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.write_snapshot import finish
from stateproc.writers.write_spec import OperatorWriteSpec, WriteSpec
from stateproc.writers.write_task import FileOf, write_state_files
from tests.helpers.writers.raw_copies import carried_batches


def write_native(snapshot: Snapshot, target: Path, release: str, options: TableOptions) -> None:
    """All keyed state of ``snapshot`` as RocksDB databases in ``target``, all other state as it is."""
    commit = Commit.begin(StorePath.of(target), sources=[snapshot.location.directory_uri])
    plan = copy_plan(
        [
            replace(
                operator.metadata,
                subtasks=tuple(
                    replace(item, managed_keyed=None, raw_keyed=None) for item in operator.metadata.subtasks
                ),
            )
            for operator in snapshot.operators
        ],
        snapshot.location,
    )
    specs = []
    for operator, state in zip(
        snapshot.operators, plan.finish([copy.run(commit.staging) for copy in plan.copies]), strict=True
    ):
        header = merged_header(operator)
        part = None if header.key is None else KeyedStateHeader(header.key, header.key_snapshot, header.states)
        specs.append(
            OperatorWriteSpec(
                state.operator_id,
                state.uid,
                state.name,
                state.parallelism,
                state.max_parallelism,
                part,
                None,
                state.subtasks,
                state.coordinator,
                state.finished,
            )
        )
    spec = WriteSpec(
        commit.staging, release_of(release), tuple(specs), OutputFormat.NATIVE_ROCKSDB,
        context=snapshot.options.context, rocksdb=options,
    )  # fmt: skip
    finish(spec, commit, write_state_files(spec, [_sorted_entries(snapshot, spec)]))


def _sorted_entries(snapshot: Snapshot, spec: WriteSpec) -> pa.RecordBatch:
    """All entries, in the order in which they are written."""
    rows = []
    for index, operator in enumerate(snapshot.operators):
        mine = spec.operators[index]
        if mine.keyed is None:
            continue
        files = FileOf(spec.state_files, index, mine.parallelism, mine.max_parallelism)
        for state_id, name in enumerate(mine.keyed.names):
            for batch in carried_batches(operator, name, state_id):
                entries = files.of(batch)
                rows += zip(*(column.to_pylist() for column in entries.columns), strict=True)
    columns = zip(*sorted(rows), strict=True)
    return pa.record_batch(
        [pa.array(list(column), field.type) for column, field in zip(columns, FILE_ENTRIES, strict=True)],
        schema=FILE_ENTRIES,
    )
