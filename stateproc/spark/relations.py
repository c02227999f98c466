"""Turn options into a relation: the rows of a state, or a metadata table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow as pa

from stateproc.feed.feed_rows import FeedQuery
from stateproc.model.connector_state import opened_state
from stateproc.model.operator import Operator
from stateproc.model.rocksdb_tables import TableSplit
from stateproc.model.state import State
from stateproc.readers.splits import Split
from stateproc.snapshot.metadata_tables import CATALOGS
from stateproc.snapshot.opening import open
from stateproc.snapshot.selection import select_state
from stateproc.snapshot.snapshot import Snapshot
from stateproc.spark.options import SourceOptions

ROWS_PER_SPLIT = 100_000
Pruning = Callable[[State], "set[int] | None"]


class Relation(ABC):
    """A table: its columns and splits.

    Attributes:
        operator: The operator's name for errors.
        name: The state's name for errors.
    """

    operator: str | None = None
    name: str | None = None

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns. Raises SnapshotError."""

    @abstractmethod
    def splits(
        self, pruning: Pruning, keys: Sequence[Any] | None = None, columns: Collection[str] | None = None
    ) -> list[Split]:
        """Divide the rows into splits.

        Args:
            pruning: Returns the key groups of a state that can contain rows; None for all.
            keys: Only rows with these keys are needed.
            columns: Only these columns are needed.

        Raises:
            SnapshotError: The snapshot cannot be read.
        """


class StateRelation(Relation):
    """The rows of a state."""

    def __init__(self, state: State, options: SourceOptions) -> None:
        self.operator = state.operator.uid_or_id
        self.name = state.name
        self._state = state
        self._options = options

    def schema(self) -> pa.Schema:
        return self._state.schema(flatten=self._options.flatten)

    def splits(
        self, pruning: Pruning, keys: Sequence[Any] | None = None, columns: Collection[str] | None = None
    ) -> list[Split]:
        options, chosen = self._options, pruning(self._state)
        for groups in (options.key_groups, self._of_keys()):
            if groups is not None:
                chosen = set(groups) if chosen is None else chosen & groups
        return self._state.splits(
            flatten=options.flatten,
            key_groups=chosen,
            split_bytes=options.split_bytes,
            keys=options.keys if keys is None else keys,
            columns=columns,
        )

    def _of_keys(self) -> set[int] | None:
        keys = self._options.keys
        return None if keys is None else self._state.key_groups_of(keys)


class CatalogRelation(Relation):
    """A metadata table of the snapshot, or of one of its operators."""

    def __init__(self, name: str, snapshot: Snapshot, operators: Sequence[Operator] | None) -> None:
        self.name = name
        self._snapshot = snapshot
        self._operators = operators

    def schema(self) -> pa.Schema:
        return CATALOGS[self.name or ""].schema

    def splits(
        self, pruning: Pruning, keys: Sequence[Any] | None = None, columns: Collection[str] | None = None
    ) -> list[Split]:
        table = CATALOGS[self.name or ""].table(self._snapshot, self._operators)
        return [TableSplit([batch]) for batch in table.to_batches(max_chunksize=ROWS_PER_SPLIT)]


def relation(options: SourceOptions) -> Relation:
    """Open the snapshot and select what the options specify. Raises SnapshotError."""
    if options.feed is not None:
        return StateRelation(_feed(options, options.feed), options)
    snapshot, selection = open(options.path, **options.opening), options.selection
    operator = None if selection.operator is None else snapshot.operator(selection.operator)
    if operator is None or selection.table is not None:
        return CatalogRelation(selection.table or "states", snapshot, None if operator is None else [operator])
    state = select_state(operator, selection)
    return StateRelation(state if options.raw else opened_state(state), options)


def _feed(options: SourceOptions, query: FeedQuery) -> State:
    # Lazy: start-up. Reading a snapshot compares nothing.
    from stateproc.feed.changes import feed_of_root, open_feed, state_feed

    if options.roots:
        ids = (query.starting_checkpoint, query.ending_checkpoint)
        found = feed_of_root(options.all_roots, *ids, query.mode, options.opening)
        return state_feed(found, options.selection, query.form)
    start, path = options.starting_snapshot, options.path
    old, new = (path, None) if start is None else (start, path)
    return open_feed(old, new, options.selection, query, options.opening)
