"""Read one keyed state from the files of all subtasks of an operator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import offsets_of, values_array
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.keygroups.key_group_pruning import key_groups, key_prefixes
from stateproc.model.null_values import NullSplit, warn_of_nulls, with_choices
from stateproc.model.operator_context import OperatorContext
from stateproc.model.parallel_scan import useful_threads
from stateproc.model.schema_merging import merged_schema
from stateproc.model.session_windows import SessionSplit, window_mapping
from stateproc.model.state import State
from stateproc.readers.entry_programs import with_opaque_values
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.rocksdb.key_ranges import Prefixes
from stateproc.readers.row_schema import record_batch, state_fields
from stateproc.readers.splits import ALL_ROWS, KeyedSplit, MappedSplit, ScanRequest, Split, SplitRequest, StateScan
from stateproc.readers.state_descriptor import StateDescriptor, StateKind, with_python_type
from stateproc.readers.state_names import NamedWindow
from stateproc.serializers import Undecodable
from stateproc.serializers.pyflink import MISFIT_ADVICE, PythonElement
from stateproc.serializers.runtime.ttl import LAST_ACCESS

if TYPE_CHECKING:
    from typing_extensions import Self

    from stateproc.model.description import DescribedType, Storage

# Rows of the states of Python functions: a value, or the elements of a list, out of the byte arrays that hold them.

_VALUE = "value"


def python_element(state: StateDescriptor) -> PythonElement | None:
    """Return the type of a Python state; None for other states, and without a given type."""
    return state.value if isinstance(state.value, PythonElement) else None


def python_schema(schema: pa.Schema, state: StateDescriptor, flatten: bool) -> pa.Schema:
    """Return the schema of a Python state's rows, from that of the lists that are stored."""
    element = python_element(state)
    if element is None or state.kind is not StateKind.LIST:
        return schema
    fields = []
    for field in schema:
        if field.name == _VALUE:
            type_ = field.type.value_type
            if flatten and element.many:
                fields += [pa.field("list_index", pa.int32()), pa.field("list_element", type_.value_type)]
                continue
            fields.append(pa.field(_VALUE, type_))
        elif field.name == LAST_ACCESS and (flatten or not element.many):
            fields.append(pa.field(LAST_ACCESS, field.type.value_type))
        else:
            fields.append(field)
    return pa.schema(fields)


@dataclass(frozen=True)
class PythonSplit(MappedSplit):
    """Rows of a Python state.

    Attributes:
        flatten: Whether each element of a list is a row.
    """

    state: StateDescriptor
    schema: pa.Schema
    flatten: bool

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows. Raises UnsupportedSnapshot if the bytes do not fit the given type."""
        try:
            yield from super().read()
        except CorruptSnapshot as error:
            shown = self.state.value.type_name
            raise UnsupportedSnapshot(
                f"the bytes of state '{self.state.name}' are not those of the type {shown}: {error.message}",
                where=error.where,
                advice=MISFIT_ADVICE,
            ) from error

    def mapped(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self.state.kind is not StateKind.LIST:
            yield batch
            return
        element = python_element(self.state)
        columns = {name: batch.column(name) for name in batch.schema.names}
        lists = columns[_VALUE]
        offsets = offsets_of(lists)
        items = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
        if element is None or not element.many:
            self._refuse_several(np.diff(offsets))
            columns[_VALUE] = items
            if LAST_ACCESS in columns:
                columns[LAST_ACCESS] = columns[LAST_ACCESS].flatten()
            yield record_batch(columns, self.schema)
            return
        inner = offsets_of(items)
        chunks = np.diff(inner)
        ends = (inner - inner[0])[offsets - offsets[0]]
        elements = items.flatten()
        times = None
        if LAST_ACCESS in columns:
            times = columns[LAST_ACCESS].flatten().take(values_array(np.repeat(np.arange(len(chunks)), chunks)))
        if not self.flatten:
            columns[_VALUE] = pa.ListArray.from_arrays(values_array(ends.astype(np.int32)), elements)
            if times is not None:
                columns[LAST_ACCESS] = pa.ListArray.from_arrays(values_array(ends.astype(np.int32)), times)
            yield record_batch(columns, self.schema)
            return
        sizes = np.diff(ends)
        parents = values_array(np.repeat(np.arange(len(sizes)), sizes))
        rows = {name: column.take(parents) for name, column in columns.items() if name not in (_VALUE, LAST_ACCESS)}
        rows["list_index"] = values_array((np.arange(len(elements)) - np.repeat(ends[:-1], sizes)).astype(np.int32))
        rows["list_element"] = elements
        if times is not None:
            rows[LAST_ACCESS] = times
        yield record_batch(rows, self.schema)

    def _refuse_several(self, counts: np.ndarray) -> None:
        if (counts != 1).any():
            raise UnsupportedSnapshot(
                f"state '{self.state.name}' holds {int(counts[counts != 1][0])} byte arrays for a key, not one value",
                advice=f"give value_type the type of a list: LIST<{self.state.value.type_name}>",
            )


def python_splits(splits: Iterable[Split], view: KeyedState, *, flatten: bool) -> list[Split]:
    """Return splits of a Python state's values where their type is given, else the splits as they are."""
    if python_element(view.keyed) is None:
        return list(splits)
    schema = view.schema(flatten=flatten)
    return [PythonSplit(split, view.keyed, schema, flatten) for split in splits]


@dataclass(frozen=True)
class StateInFile:
    """A state in the file of one subtask."""

    file: KeyedFile
    state: StateDescriptor


class KeyedState(State):
    """A keyed state.

    Args:
        operator: The operator's context.
        parts: The subtasks' files that contain the state.
        unreadable: Files whose headers cannot be read, and why. Reading any of their key groups raises that error.
    """

    def __init__(
        self,
        operator: OperatorContext,
        parts: Sequence[StateInFile],
        unreadable: Sequence[tuple[KeyedFile, SnapshotError]] = (),
    ) -> None:
        parts = _changed(parts, partial(with_python_type, types=operator.options.value_types))
        self._parts = parts if operator.row_names is None else _changed(parts, operator.row_names.applied)
        first = self._parts[0].state
        super().__init__(operator, first.name, first.kind.value, "keyed")
        self._unreadable = tuple(unreadable)
        self.key_type = first.key.type_name
        self.namespace_type = first.namespace.type_name if first.has_namespace else None
        self.value_type = _value_type(first)
        self.ttl = first.ttl

    @property
    def keyed(self) -> StateDescriptor:
        """The state as the first header describes it."""
        return self._parts[0].state

    @property
    def parts(self) -> tuple[StateInFile, ...]:
        """The subtasks' files that contain the state."""
        return self._parts

    @property
    def key_group_owners(self) -> npt.NDArray[np.int64]:
        """How many files answer for each key group, including those that cannot be read."""
        owners = np.zeros(self.operator.max_parallelism, dtype=np.int64)
        for file in (*(part.file for part in self._parts), *(file for file, _ in self._unreadable)):
            groups = file.handle.key_groups
            owners[groups.start : groups.stop] += 1
        return owners

    @property
    def declared(self) -> tuple[StateDescriptor, ...]:
        """The state as each header describes it, without repetitions."""
        different = {id(part.state): part.state for part in self._parts}
        return tuple(dict.fromkeys(different.values()))

    @property
    def bytes(self) -> int | None:
        if all(len(part.file.states) == 1 for part in self._parts):
            return sum(part.file.data_bytes for part in self._parts)
        return None

    def parallel_split_bytes(self, threads: int, limit: int) -> int:
        if self.reads_whole_files:
            # One split per thread, whatever its size: a split of a changelog holds little of it in memory. Files of
            # almost equal size, one per subtask, are not cut because of the difference. Tiny ones are read once.
            useful = useful_threads(threads, self._stored_bytes) if self._is_local else threads
            return max(5 * self._stored_bytes // (4 * useful), 1)
        size = super().parallel_split_bytes(threads, limit)
        if threads < 2 or not self._is_local:
            return size
        return min([size, *{part.file.most_per_thread for part in self._parts}])

    @property
    def _stored_bytes(self) -> int:
        return sum(part.file.data_bytes for part in self._parts)

    @property
    def problem(self) -> SnapshotError | None:
        """Why the state cannot be read, by its types or by what a file contains before it; None if it can.

        The same whether ``on_error`` makes it null or not.
        """
        return self.problem_in(None)

    def problem_in(self, key_groups: Collection[int] | None) -> SnapshotError | None:
        """Return why these key groups of the state cannot be read (None: any of them); None if they can."""
        try:
            with self._placed():
                self._schema(False, None)
        except SnapshotError as undecodable:
            return undecodable
        operator = self.operator
        try:
            for part in self._parts:
                found = part.file.unreadable_states(operator.options).get(self.name, {})
                for key_group, error in found.items():
                    if key_groups is None or key_group in key_groups:
                        return error.at(operator=operator.display, state=self.name)
        except SnapshotError:
            return None  # damaged or missing files are reported by the operator, or by reading
        return None

    def _types(self) -> tuple[DescribedType, ...]:
        from stateproc.model.description import keyed_types  # Lazy: start-up.

        header = self._parts[0].file.header
        operator = self.operator
        return () if header is None else keyed_types(self.keyed, header, operator.options.context, operator.row_names)

    def _storage(self) -> Storage:
        # Lazy: start-up.
        from stateproc.model.description import Storage, value_snapshot

        header = self._parts[0].file.header
        name, version = (None, None) if header is None else value_snapshot(header.states[self.keyed.state_id])
        return Storage(
            layouts=tuple(dict.fromkeys(part.file.layout for part in self._parts)),
            subtasks=tuple(part.file.subtask for part in self._parts),
            variants=len(dict.fromkeys(replace(part.state, state_id=0) for part in self._parts)),
            compressed=None if header is None else header.compressed,
            serializer=name,
            version=version,
        )

    @property
    def file_problem(self) -> SnapshotError | None:
        return next((error for _, error in self._unreadable), None)

    @property
    def names_in_files(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def has_lengths(self) -> bool:
        """Whether files store the length of each entry, so that keys can be read of values that cannot be decoded."""
        return all(part.file.stores_lengths(part.state) for part in self._parts)

    def schema(self, *, flatten: bool = False) -> pa.Schema:
        known = pa.null() if self._reads_nulls else None
        return python_schema(self._schema(flatten and python_element(self.keyed) is None, known), self.keyed, flatten)

    def partial_schema(self) -> pa.Schema:
        """Return the schema with Arrow's null type for what cannot be decoded of values. Raises UnsupportedSnapshot."""
        return self._schema(False, pa.null())

    @property
    def _reads_nulls(self) -> bool:
        """Whether values are null because their types are unknown."""
        return self.operator.options.on_error == "null" and self._undecodable is not None and self.has_lengths

    @property
    def _undecodable(self) -> Undecodable | None:
        """Why the types of values are unknown; None if they are known."""
        try:
            self._schema(False, None)
        except Undecodable as error:
            return error
        except UnsupportedSnapshot:
            return None  # the subtasks' types do not fit together, which schema() reports
        return None

    def _schema(self, flatten: bool, unknown: pa.DataType | None) -> pa.Schema:
        """Return the schema. Raises Undecodable if values cannot be decoded and ``unknown`` is no type for them."""
        context = self.operator.options.context
        if context.opaque and not self.has_lengths:
            context = replace(context, opaque=False)
        schema: pa.Schema | None = None
        # Most subtasks share one object: only distinct objects are compared by value.
        different = {id(part.state): part.state for part in self._parts}
        for state in dict.fromkeys(with_opaque_values(state, context) for state in different.values()):
            with self._placed():
                try:
                    own = pa.schema(state_fields(state, context, flatten, unknown=unknown))
                except Undecodable as error:
                    raise with_choices(error, self.operator.options, lengths=self.has_lengths) from error
            schema = own if schema is None else merged_schema(schema, own)
        assert schema is not None
        return schema

    def plan_splits(self, request: ScanRequest) -> list[Split]:
        mapping = self._window_mapping
        undecodable = self._undecodable
        if undecodable is not None:
            if not self._reads_nulls:
                raise undecodable
            warn_of_nulls(self.operator.display, {self.name: undecodable})
        plain = self.plain_splits(
            replace(request, flatten=request.flatten and python_element(self.keyed) is None),
            raw_keys=mapping is not None,
            companions=() if mapping is None else (mapping,),
            times=mapping is None,
        )
        contents = [split if undecodable is None else NullSplit(split) for split in plain]
        if mapping is None:
            return python_splits(contents, self, flatten=request.flatten)
        windows, times = [split.of_state(mapping) for split in plain], self._window_times
        sessions = [SessionSplit(*pair, times) for pair in zip(contents, windows, strict=True)]
        return python_splits(sessions, self, flatten=request.flatten)

    @property
    def _window_times(self) -> Callable[[pa.Array], pa.Array] | None:
        """How windows become times; None where namespaces are read as they are stored."""
        namespace = self.keyed.namespace
        if not isinstance(namespace, NamedWindow):
            return None
        return partial(namespace.names.times, mode=self.operator.options.temporal)

    @property
    def under_state_windows(self) -> bool:
        """Whether the namespaces are state windows of windows that merge."""
        return self._window_mapping is not None

    @property
    def _window_mapping(self) -> str | None:
        """The state that maps these namespaces to windows, where they are state windows."""
        if self.namespace_type != "TimeWindow":
            return None
        names = {name for part in self._parts for name in part.file.state_names}
        return window_mapping(self.name, names)

    def plain_splits(
        self,
        request: ScanRequest = ALL_ROWS,
        *,
        raw_keys: bool = False,
        whole_databases: bool = False,
        companions: Sequence[str] = (),
        times: bool = True,
    ) -> list[KeyedSplit]:
        """Plan splits of the entries as they are stored, without resolving session windows.

        Args:
            request: Which rows are needed. Keys are selected where files are sorted by key (RocksDB); other files
                return whole key groups.
            raw_keys: Add a column with the serialized key and namespace.
            whole_databases: A RocksDB database is one split, so that splits of several states have equal key groups.
            companions: Other states that ``KeyedSplit.of_state`` may name.
            times: Whether windows are read as times where a plan says what they are.
        """
        operator = self.operator
        names = operator.row_names if times or operator.row_names is None else operator.row_names.without_times
        of_file = SplitRequest(
            StateScan(
                self.name,
                operator.uid_or_id,
                operator.max_parallelism,
                operator.options,
                request.flatten,
                raw_keys,
                names=names,
            ),
            request.key_groups,
            request.split_bytes,
            None if request.keys is None else self._prefixes(request.keys),
            whole_databases,
            companions,
        )
        for file, error in self._unreadable:
            if any(map(of_file.includes, file.handle.key_groups)):
                raise error
        return [split for part in self._parts for split in part.file.splits(of_file)]

    def group_splits(self, key_groups: Collection[int]) -> list[KeyedSplit]:
        """Return one split of these key groups for each file that has any, whatever its size.

        It is planned without reading tables of databases, so that many small sets of key groups can be read in turn.

        Raises:
            SnapshotError: A file of these key groups cannot be read.
        """
        operator, wanted, scan = self.operator, frozenset(key_groups), self.scan()
        for file, error in self._unreadable:
            if not wanted.isdisjoint(file.handle.key_groups):
                raise error
        found = []
        for part in self._parts:
            own = wanted.intersection(part.file.handle.key_groups)
            if own:
                part.file.check_readable(operator.uid_or_id, self.name)
                found.append(part.file.split(scan, own))
        return found

    def within(self, key_groups: Collection[int]) -> Self:
        """Return the state without the files of other subtasks; one file stays in any case, for the types."""
        wanted, twin = frozenset(key_groups), super().within(key_groups)
        parts = [part for part in self._parts if not wanted.isdisjoint(part.file.handle.key_groups)]
        twin._parts = tuple(parts) or self._parts[:1]
        unreadable = [item for item in self._unreadable if not wanted.isdisjoint(item[0].handle.key_groups)]
        twin._unreadable = tuple(unreadable)
        return twin

    def scan(self) -> StateScan:
        """Return how entries are read as they are stored."""
        operator = self.operator
        return StateScan(
            self.name, operator.uid_or_id, operator.max_parallelism, operator.options, names=operator.row_names
        )

    def key_group_bytes(self) -> Longs:
        sizes = np.zeros(self.operator.max_parallelism, dtype=np.int64)
        for part in self._parts:
            if part.file.ranges:
                for item in part.file.ranges:
                    sizes[item.key_group] += item.stop - item.start
            elif len(groups := part.file.handle.key_groups):
                sizes[groups.start : groups.stop] += part.file.data_bytes // len(groups)
        return sizes

    @property
    def reads_whole_files(self) -> bool:
        return any(part.file.reads_whole_files for part in self._parts)

    def key_groups_of(self, keys: Sequence[Any]) -> set[int] | None:
        operator = self.operator
        return key_groups(
            self.keyed.key, keys, operator.options.context, operator.max_parallelism, operator.metadata_version
        )

    def _prefixes(self, keys: Sequence[Any]) -> Prefixes | None:
        """Return the bytes that the keys' entries begin with; None if they are ambiguous or differ between files."""
        if any(part.state.key != self.keyed.key for part in self._parts):
            return None
        context = self.operator.options.context.inner
        return key_prefixes(self.keyed.key, keys, context, self.operator.max_parallelism, self.key_groups_of)


def _changed(
    parts: Sequence[StateInFile], change: Callable[[StateDescriptor], StateDescriptor]
) -> tuple[StateInFile, ...]:
    """Return the parts with names or types for rows; states that many subtasks share stay shared."""
    states = {id(part.state): part.state for part in parts}
    named = {key: change(state) for key, state in states.items()}
    return tuple(StateInFile(part.file, named[id(part.state)]) for part in parts)


def _value_type(state: StateDescriptor) -> str:
    inner = state.value.type_name
    if state.kind.value == "list":
        return f"List<{inner}>"
    if state.user_key is not None:
        return f"Map<{state.user_key.type_name}, {inner}>"
    return inner
