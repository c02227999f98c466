"""Snapshots written from what is carried over of others, in one process: the tests' own rewrite."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import stateproc
from stateproc.keygroups.ranges import key_group_range
from stateproc.metadata.backend import StateMetaInfo, write_keyed_header
from stateproc.metadata.operator_handles import OperatorStreamHandle
from stateproc.metadata.snapshot import OperatorEntry, SubtaskState
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.model.operator import Operator
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.canonical import CanonicalWriter
from stateproc.writers.formats.entry_batches import RAW_ENTRIES
from stateproc.writers.formats.operator_state import OperatorStateWriter
from stateproc.writers.rewrite.file_copy import copy_plan
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.operator_state_copy import merged_operator_header, raw_elements
from stateproc.writers.rewrite.rekey import rekeyed
from stateproc.writers.rewrite.ttl import TtlChange
from tests.helpers.writers.raw_copies import carried_batches

CANONICAL = 7
TtlOf = Callable[[StateDescriptor, LayoutContext], TtlChange]


@dataclass(frozen=True)
class Rewrite:
    """What changes. ttl: by uid what becomes of the header's states and of entries."""

    max_parallelism: int | None = None
    ttl: Mapping[str, tuple[Callable[[StateMetaInfo], StateMetaInfo], TtlOf]] | None = None

    def write(self, snapshot: Snapshot, target: Path, **options: Any) -> Snapshot:
        """``snapshot`` written canonical to ``target``; opened."""
        commit = Commit.begin(StorePath.of(str(target)), sources=[snapshot.path])
        operators = tuple(self._operator(operator, commit.staging) for operator in snapshot.operators)
        commit.complete(replace(snapshot.metadata, operators=operators), max(snapshot.metadata.version, 3))
        return stateproc.open(str(target), **options)

    def _operator(self, operator: Operator, staging: Staging) -> OperatorEntry:
        subtasks: dict[int, SubtaskState] = {
            index: SubtaskState(index, managed_operator=handle)
            for index, handle in _operator_states(operator, staging).items()
        }
        for index, keyed in self._keyed(operator, staging).items():
            subtasks[index] = replace(subtasks.get(index, SubtaskState(index)), managed_keyed=keyed)
        written = tuple(subtasks[index] for index in sorted(subtasks))
        return replace(operator.metadata, subtasks=written, max_parallelism=self._max_parallelism(operator))

    def _max_parallelism(self, operator: Operator) -> int:
        return self.max_parallelism if self.max_parallelism and operator.keyed_files else operator.max_parallelism

    def _keyed(self, operator: Operator, staging: Staging) -> Mapping[int, KeyGroupsHandle]:
        """A file for each subtask: Flink takes them as they are if it restores with the same parallelism."""
        header = merged_header(operator)
        if not header.states:
            return {}
        change_info, _ = (self.ttl or {}).get(operator.display, (None, None))
        timers = [header.keyed(name).kind.is_queue for name in header.names]
        states = [
            info if queue or change_info is None else change_info(info)
            for info, queue in zip(header.states, timers, strict=True)
        ]
        max_parallelism = self._max_parallelism(operator)
        data = write_keyed_header(header.key_snapshot, states, compressed=False)
        batches = list(sorted_batches(self._entries(operator)))
        handles = {}
        for index in range(operator.parallelism):
            key_groups = key_group_range(max_parallelism, operator.parallelism, index)
            with staging.new_file(0) as file:
                writer = CanonicalWriter(file, data, header.names, key_groups, max_parallelism)
                for batch in batches:
                    writer.write(batch.filter(pc.is_in(batch.column("key_group"), pa.array(key_groups, pa.int32()))))
                offsets = writer.close()
                handles[index] = KeyGroupsHandle(CANONICAL, key_groups.start, offsets, file.close())
        return handles

    def _entries(self, operator: Operator) -> Iterator[pa.RecordBatch]:
        header, context = merged_header(operator), operator.options.context
        _, change = (self.ttl or {}).get(operator.display, (None, None))
        for state_id, name in enumerate(header.names):
            state = header.keyed(name)
            batches = carried_batches(operator, name, state_id)
            if change is not None and not state.kind.is_queue:
                batches = change(state, context).batches(batches)
            if self.max_parallelism is not None:
                batches = rekeyed(batches, state, self.max_parallelism, context)
            yield from batches


def sorted_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All entries in the order of a file."""
    names = RAW_ENTRIES.names
    rows = sorted(row for batch in batches for row in zip(*(batch.column(n).to_pylist() for n in names), strict=True))
    if rows:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, RAW_ENTRIES, strict=True)]
        yield pa.record_batch(arrays, schema=RAW_ENTRIES)


def _operator_states(operator: Operator, staging: Staging) -> Mapping[int, OperatorStreamHandle]:
    """Each subtask keeps its elements; broadcast state goes to every subtask that has any."""
    header = merged_operator_header(operator)
    parts = {
        info.name: pickle.loads(pickle.dumps(raw_elements(operator, info.name)))
        for info in (*header.states, *header.broadcast)
    }
    handles = {}
    for subtask in [file.subtask for file in operator.operator_files]:
        with staging.new_file(0) as file:
            writer = OperatorStateWriter(file, header.states, header.broadcast, version=6)
            for name, splits in parts.items():
                for split in splits:
                    if split.broadcast or split.subtask == subtask:
                        for pieces in split.read():
                            writer.carried(name, pieces)
            states = writer.close()
            handles[subtask] = OperatorStreamHandle(4, states, file.close())
    return handles


def copied(snapshot: Snapshot, target: Path, **options: Any) -> Snapshot:
    """``snapshot`` with all its files copied beside a ``_metadata`` of its own; opened."""
    plan = copy_plan(snapshot.metadata.operators, snapshot.location)
    commit = Commit.begin(StorePath.of(str(target)), sources=[snapshot.path])
    handles = [pickle.loads(pickle.dumps(copy)).run(commit.staging) for copy in plan.copies]
    metadata = replace(snapshot.metadata, operators=plan.finish(handles))
    commit.complete(metadata, max(snapshot.metadata.version, 3))
    return stateproc.open(str(target), **options)
