"""Join all keyed states of an operator: one row per key and namespace, one column per state.

The states are joined within a key group, on the bytes of key and namespace: memory grows with the largest key
group of the operator, not with its state.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import numbers_of
from stateproc.errors import InvalidOption, NotFound, SnapshotError
from stateproc.model.keyed_state import KeyedState
from stateproc.model.null_values import warn_of_nulls
from stateproc.model.operator_context import OperatorContext
from stateproc.model.schema_merging import aligned, aligned_array
from stateproc.model.state import State
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.row_schema import KEY_GROUP, RAW_KEY
from stateproc.readers.splits import KeyedSplit, ScanRequest, Split, read_keys
from stateproc.serializers.runtime.ttl import LAST_ACCESS

if TYPE_CHECKING:
    from typing_extensions import Self

_HEAD = (KEY_GROUP, "key", "namespace")


@dataclass(frozen=True)
class WideSplit:
    """The same key groups of several states.

    Attributes:
        parts: (column, the split of its state).
        schema: The columns of the result.
        columns: The columns of ``parts`` that are read; of other states only the keys are.
    """

    parts: tuple[tuple[str, KeyedSplit], ...]
    schema: pa.Schema
    columns: frozenset[str]

    @property
    def bytes(self) -> int:
        return self.parts[0][1].bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.parts[0][1].key_groups

    def read(self) -> Iterator[pa.RecordBatch]:
        streams = {
            name: by_key_group(split.read() if name in self.columns else read_keys(split)) for name, split in self.parts
        }
        heads = {name: next(stream, None) for name, stream in streams.items()}
        for key_group in self.key_groups:
            tables: dict[str, list[pa.RecordBatch]] = {}
            for name, head in heads.items():
                if head is not None and head[0] == key_group:
                    tables[name] = head[1]
                    heads[name] = next(streams[name], None)
            yield from self._joined(tables)

    def _joined(self, tables: dict[str, list[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one key group: every key that any of the states has."""
        present = {name: pa.Table.from_batches(batches) for name, batches in tables.items() if batches}
        raws = [_combined(table.column(RAW_KEY)) for table in present.values()]
        if not raws or sum(map(len, raws)) == 0:
            return
        keys = pa.concat_arrays(raws)
        distinct = pc.unique(keys)
        first = pc.index_in(distinct, value_set=keys)
        columns: dict[str, pa.Array] = {}
        for name in _HEAD:
            if name in self.schema.names:
                parts = [_combined(table.column(name)) for table in present.values()]
                wanted = self.schema.field(name).type
                columns[name] = pa.concat_arrays([aligned_array(part, wanted) for part in parts]).take(first)
        for name, table in present.items():
            if name not in self.columns:
                continue
            rows = pc.index_in(distinct, value_set=_combined(table.column(RAW_KEY)))
            columns[name] = _combined(table.column("value")).take(rows)
            access = f"{name}_{LAST_ACCESS}"
            if access in self.schema.names:
                columns[access] = _combined(table.column(LAST_ACCESS)).take(rows)
        batch = pa.RecordBatch.from_pydict(columns)
        yield aligned(batch, self.schema)


def by_key_group(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Group rows that are in the order of key groups. Yields (key group, its batches)."""
    held: list[pa.RecordBatch] = []
    current = -1
    for batch in batches:
        if not len(batch):
            continue
        groups = numbers_of(batch.column(KEY_GROUP))
        bounds = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        for start, stop in itertools.pairwise(bounds):
            if held and int(groups[start]) != current:
                yield current, held
                held = []
            current = int(groups[start])
            held.append(batch.slice(start, stop - start))
    if held:
        yield current, held


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def column_names(states: Sequence[State]) -> dict[str, str]:
    """Map each state to its column. Names of the key's columns are compared without case, as in Spark."""
    accesses = {f"{state.name}_{LAST_ACCESS}" for state in states if state.ttl}
    taken = accesses | {state.name for state in states}
    chosen: dict[str, str] = {}
    for state in states:
        name = state.name
        while name.lower() in _HEAD or name in accesses or (name != state.name and name in taken):
            name += "_state"
        taken.add(name)
        chosen[state.name] = name
    return chosen


class WideState(State):
    """One row per key: key_group, key, [namespace], one column per state, ``<state>_last_access`` for TTL.

    A state that has the name of another column gets the suffix ``_state``. A state that cannot be decoded has a column,
    too; reading it is an error, or null if the option ``on_error`` is 'null'.
    """

    def __init__(self, operator: OperatorContext, states: Sequence[KeyedState]) -> None:
        super().__init__(operator, operator.uid_or_id, "all keyed states", "keyed")
        self._states = tuple(states)
        self._columns = column_names(states)
        self.key_type = states[0].key_type
        self.namespace_type = states[0].namespace_type

    @property
    def _stored_bytes(self) -> int | None:
        return self._states[0]._stored_bytes

    def with_options(self, options: ReadOptions) -> Self:
        twin = super().with_options(options)
        twin._states = tuple(state.with_options(options) for state in self._states)
        return twin

    def schema(self, *, flatten: bool = False) -> pa.Schema:
        if flatten:
            raise InvalidOption(
                "lists and maps of several states cannot be flattened into the same rows",
                advice="name one state, or leave flattening out",
            )
        head: list[pa.Field] = []
        body: list[pa.Field] = []
        for state in self._states:
            schema = state.partial_schema()
            head = head or [schema.field(name) for name in _HEAD if name in schema.names]
            body.append(pa.field(self._columns[state.name], schema.field("value").type))
            if state.ttl:
                name = f"{self._columns[state.name]}_{LAST_ACCESS}"
                body.append(pa.field(name, schema.field(LAST_ACCESS).type))
        return pa.schema(head + body)

    @property
    def problem(self) -> SnapshotError | None:
        """Why a column cannot be read; None if all can."""
        return next((problem for state in self._states if (problem := state.problem) is not None), None)

    def readable_schema(self) -> pa.Schema:
        """Return the schema without the columns that cannot be read."""
        columns = {self._columns[state.name] for state in self._states if state.problem is not None}
        hidden = columns | {f"{column}_{LAST_ACCESS}" for column in columns}
        return pa.schema([field for field in self.schema() if field.name not in hidden])

    def plan_splits(self, request: ScanRequest) -> list[Split]:
        schema, columns = self.schema(flatten=request.flatten), request.columns
        found = ((state.name, state.problem_in(request.key_groups)) for state in self._states)
        errors = {name: error for name, error in found if error is not None}
        selected = {
            name
            for name, column in self._columns.items()
            if columns is None or column in columns or f"{column}_{LAST_ACCESS}" in columns
        }
        without_keys = [state.name for state in self._states if state.name in errors and not state.has_lengths]
        self._report({name: error for name, error in errors.items() if name in selected}, without_keys)
        read = frozenset(self._columns[name] for name in selected if name not in errors)
        cut: dict[tuple[str, tuple[int, ...]], list[tuple[str, KeyedSplit]]] = {}
        for state in self._states:
            if state.name in without_keys:
                continue
            for split in state.plain_splits(request, raw_keys=True, whole_databases=True):
                cut.setdefault((split.origin, split.key_groups), []).append((self._columns[state.name], split))
        return [WideSplit(tuple(parts), schema, read) for parts in cut.values()]

    def _report(self, errors: Mapping[str, SnapshotError], without_keys: Collection[str]) -> None:
        """Raise the first error of the selected states, or warn that they are null or that keys are missing."""
        if errors and self.operator.options.on_error == "fail":
            name, error = next(iter(errors.items()))
            choices = "select other columns (option 'columns')"
            if name in without_keys:
                choices += ", or read it as null (on_error='null')"
            advice = f"{error.advice}; or {choices}" if error.advice else choices
            raise type(error)(error.message, where=error.where, advice=advice)
        if errors or without_keys:
            warn_of_nulls(self.operator.display, errors, without_keys)

    def key_groups_of(self, keys: Sequence[Any]) -> set[int] | None:
        return self._states[0].key_groups_of(keys)


def wide_state(operator: OperatorContext, keyed: Sequence[KeyedState], namespace: str | None) -> WideState:
    """Join the keyed states whose namespaces have one type.

    Args:
        operator: The operator's context.
        namespace: The name of the namespace type; default none (VoidNamespace), else that of the first state.

    Raises:
        NotFound: There are no states to join.
        InvalidOption: No state has that namespace type.
        SnapshotError: No state can be read.
    """
    if not keyed:
        raise NotFound(f"operator '{operator.display}' has no keyed states")
    readable = [state for state in keyed if state.problem is None]
    types = list(dict.fromkeys(state.namespace_type or "none" for state in (*readable, *keyed)))
    of_readable = {state.namespace_type or "none" for state in readable or keyed}
    chosen = namespace or ("none" if "none" in of_readable else types[0])
    if chosen not in types:
        raise InvalidOption(f"no states with namespace {chosen!r}", advice=f"there are: {', '.join(types)}")
    # Contents of session windows have state windows as namespaces, which no other state has.
    inside = [
        state
        for state in keyed
        if (state.namespace_type or "none") == chosen and (chosen == "none" or not state.under_state_windows)
    ]
    if not inside:
        raise NotFound(
            f"operator '{operator.display}' has no states to join under namespace {chosen!r}",
            advice="read its window contents by name: " + ", ".join(repr(state.name) for state in keyed),
        )
    _check_readable(operator, inside)
    return WideState(operator, inside)


def _check_readable(operator: OperatorContext, states: Sequence[KeyedState]) -> None:
    """Raise the first state's error if none can be read, nor the keys of one whose values are to be null."""
    problems = []
    for state in states:
        problem = state.problem
        if problem is None or (operator.options.on_error == "null" and state.has_lengths):
            return
        problems.append(problem)
    raise problems[0]
