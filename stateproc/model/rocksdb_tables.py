"""Describe the RocksDB databases of a snapshot from the properties of their tables, without reading state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from stateproc.errors import located
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.model.operator import Operator
from stateproc.readers.rocksdb import StateStatistics, database_files, database_statistics, new_tables


@dataclass(frozen=True)
class StateTables:
    """One state's tables in one subtask's database.

    Attributes:
        new: Names of the tables that an earlier snapshot does not have; None without an earlier snapshot.
    """

    operator: Operator
    subtask: int
    statistics: StateStatistics
    new: frozenset[str] | None


def has_databases(operator: Operator) -> bool:
    return any(file.databases for file in operator.keyed_files)


def state_tables(operator: Operator, since: Iterable[Operator] | None = None) -> Iterator[StateTables]:
    """Describe the tables of each subtask and state.

    Args:
        since: The operators of an earlier snapshot of the job, to mark tables that are new.

    Raises:
        CorruptSnapshot: A table or manifest is damaged.
        MissingFile: A file does not exist.
        UnsupportedSnapshot: A table has a format that cannot be read.
    """
    earlier = None if since is None else _handles(since, operator.operator_id)
    for file in operator.keyed_files:
        for handle in file.databases:
            new = None if earlier is None else new_tables(handle, earlier)
            with located(operator=operator.display):
                files = database_files(handle, file.location)
                found = database_statistics(files, verify=operator.options.verify)
            for statistics in found:
                yield StateTables(operator, file.subtask, statistics, new)


def _handles(operators: Iterable[Operator], operator_id: str) -> list[IncrementalHandle]:
    return [
        handle
        for operator in operators
        if operator.operator_id == operator_id
        for file in operator.keyed_files
        for handle in file.databases
    ]


# A split of rows that exist already: tables about a snapshot.


@dataclass(frozen=True)
class TableSplit:
    """Rows that were made where the read was planned."""

    batches: Sequence[pa.RecordBatch] = field(repr=False)

    @property
    def bytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)

    @property
    def key_groups(self) -> tuple[int, ...]:
        return ()

    def read(self) -> Iterator[pa.RecordBatch]:
        yield from self.batches
