"""Read operator states of all subtasks: split list, union list and broadcast state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import values_array
from stateproc.errors import CorruptSnapshot, SnapshotError, Where, located
from stateproc.metadata.backend import OperatorHeader, StateMetaInfo, read_operator_header
from stateproc.metadata.operator_handles import OperatorStreamHandle, StatePartition
from stateproc.model.null_values import warn_of_nulls, with_choices
from stateproc.model.operator_context import OperatorContext
from stateproc.model.schema_merging import merged_schema
from stateproc.model.state import State
from stateproc.readers.entry_programs import known_or_bytes
from stateproc.readers.header_reader import read_whole_header
from stateproc.readers.operator_state import broadcast_entries, element_ranges, list_elements, state_info
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.splits import ScanRequest, Split
from stateproc.serializers import Undecodable
from stateproc.serializers.core.registry import load_plugins
from stateproc.storage import ByteSource

if TYPE_CHECKING:
    from typing_extensions import Self

    from stateproc.model.description import DescribedType, Storage

SUBTASK = "subtask"
DISTRIBUTIONS = {"SPLIT_DISTRIBUTE": "split", "UNION": "union", "BROADCAST": "broadcast"}
_LARGEST_HEADER = 256 << 20


@dataclass(frozen=True)
class OperatorFile:
    """Managed operator state of one subtask."""

    subtask: int
    handle: OperatorStreamHandle
    source: ByteSource

    @property
    def header_size(self) -> int:
        """Bytes before the first element; all if there is none."""
        return min((o for partition in self.handle.states for o in partition.offsets), default=self.source.size)

    @property
    def header(self) -> OperatorHeader:
        """Raises UnknownSnapshotClass, CorruptSnapshot, MissingFile."""
        return operator_header(self.source, self.header_size)


def operator_header(source: ByteSource, size: int) -> OperatorHeader:
    """The header in the first ``size`` bytes; in compressed files the stream's identifier follows it there."""
    if size > _LARGEST_HEADER:
        raise CorruptSnapshot(f"a header of {size} bytes", where=Where(file=source.name, offset=0))
    data = source.read(0, size)
    identifier = b"\xff\x06\x00\x00sNaPpY"
    if data.endswith(identifier):
        data = data[: -len(identifier)]
    return read_whole_header(data, source.name, read_operator_header)


@dataclass(frozen=True)
class OperatorSplit:
    """One subtask's part of an operator state.

    Attributes:
        nulls: Whether the elements are null, because they cannot be decoded.
    """

    file: OperatorFile
    partition: StatePartition
    options: ReadOptions = field(repr=False)
    nulls: bool = False

    @property
    def bytes(self) -> int:
        ranges = element_ranges(self.file.handle, self.partition, self.file.source)
        return int((ranges[:, 1] - ranges[:, 0]).sum())

    @property
    def key_groups(self) -> tuple[int, ...]:
        return ()

    def read(self) -> Iterator[pa.RecordBatch]:
        load_plugins(self.options.plugins)
        header = self.file.header
        info = state_info(header, self.partition)
        if info is None:
            raise CorruptSnapshot(
                f"state '{self.partition.name}' is in _metadata and not in its file's header",
                where=Where(file=self.file.source.name, offset=0, state=self.partition.name),
            )
        ranges = element_ranges(self.file.handle, self.partition, self.file.source, info)
        if self.nulls:
            yield self._batch({}, len(ranges))
            return
        arguments = (self.file.source, ranges, info, self.options.context, header.compressed)
        if self.partition.mode == "BROADCAST":
            for entries in broadcast_entries(*arguments):
                yield self._batch({"map_key": entries.field(0), "map_value": entries.field(1)}, len(entries))
            return
        for values in list_elements(*arguments):
            yield self._batch({"value": values}, len(values))

    def _batch(self, columns: dict[str, pa.Array], rows: int) -> pa.RecordBatch:
        subtask = values_array(np.full(rows, self.file.subtask, dtype=np.int32))
        return pa.RecordBatch.from_pydict({SUBTASK: subtask, **columns})


def operator_state_fields(
    info: StateMetaInfo, mode: str, options: ReadOptions, *, unknown: pa.DataType | None = None
) -> list[pa.Field]:
    """The columns of an operator state. Raises Undecodable, unless ``unknown`` is the type of such elements."""
    context = options.context
    fields = [pa.field(SUBTASK, pa.int32())]
    if mode == "BROADCAST":
        pairs = (("map_key", info.key_serializer), ("map_value", info.value_serializer))
        context = context.inner
    else:
        pairs = (("value", info.value_serializer),)  # type: ignore[assignment]
    for name, serializer in pairs:
        if serializer is None:
            raise CorruptSnapshot(f"state '{info.name}' lacks the serializer of its {name}")
        try:
            type_ = known_or_bytes(serializer, context).layout(context).arrow_type
        except Undecodable as error:
            if unknown is None:
                raise with_choices(error, options, lengths=mode != "BROADCAST", canonical=False) from error
            type_ = unknown
        fields.append(pa.field(name, type_))
    return fields


class OperatorState(State):
    """An operator state: rows of subtask and value, or (broadcast) map_key and map_value.

    Broadcast state is the same in every subtask: one copy is read.
    """

    def __init__(
        self,
        operator: OperatorContext,
        parts: Sequence[tuple[OperatorFile, StatePartition]],
        infos: Sequence[StateMetaInfo],
        unreadable: Sequence[SnapshotError] = (),
    ) -> None:
        mode = parts[0][1].mode
        kind = "broadcast" if mode == "BROADCAST" else "list"
        super().__init__(operator, parts[0][1].name, kind, DISTRIBUTIONS[mode])
        self._parts = tuple(parts)
        self._infos = tuple(infos)
        self._unreadable = tuple(unreadable)
        self._mode = mode
        value, key = infos[0].value_serializer, infos[0].key_serializer
        self.value_type = None if value is None else value.type_name
        self.key_type = None if key is None or mode != "BROADCAST" else key.type_name

    @property
    def infos(self) -> tuple[StateMetaInfo, ...]:
        """The state as the headers of the subtasks' files describe it."""
        return self._infos

    @property
    def elements(self) -> int | None:
        """The number of elements of a list or union state."""
        if self._mode == "BROADCAST":
            return None
        return sum(len(partition.offsets) for _, partition in self._parts)

    @property
    def bytes(self) -> int | None:
        return sum(OperatorSplit(*part, self.operator.options).bytes for part in self._chosen)

    @property
    def _chosen(self) -> tuple[tuple[OperatorFile, StatePartition], ...]:
        return self._parts[:1] if self._mode == "BROADCAST" else self._parts

    @property
    def opened(self) -> pa.DataType | None:
        """The struct of a well-known format in the values (source splits, sink states); None for others."""
        from stateproc.connectors.operator_states import CONNECTOR_STATES, connector_columns  # Lazy: start-up.

        known = CONNECTOR_STATES.get(self.name)
        if known is None or self.value_type != known.value_type:
            return None
        values = [
            value for split in self.splits() for batch in split.read() for value in batch.column("value").to_pylist()
        ]
        array = connector_columns(self.name, values)
        return None if array is None or len(array) == 0 else array.type

    @property
    def problem(self) -> SnapshotError | None:
        """Why the state cannot be read, the same whether ``on_error`` makes it null or not; None if it can."""
        try:
            with self._placed():
                self._schema(None)
        except SnapshotError as error:
            return error
        return None

    def _types(self) -> tuple[DescribedType, ...]:
        from stateproc.model.description import operator_types  # Lazy: start-up.

        return operator_types(self._infos[0], self.operator.options.context)

    def _storage(self) -> Storage:
        # Lazy: start-up.
        from stateproc.model.description import Storage, value_snapshot

        name, version = value_snapshot(self._infos[0])
        return Storage(
            layouts=("operator state",),
            subtasks=tuple(file.subtask for file, _ in self._parts),
            variants=len({(info.key_serializer, info.value_serializer) for info in self._infos}),
            compressed=self._parts[0][0].header.compressed,
            serializer=name,
            version=version,
        )

    @property
    def file_problem(self) -> SnapshotError | None:
        # Of broadcast state any copy will do.
        return None if self._mode == "BROADCAST" else next(iter(self._unreadable), None)

    def schema(self, *, flatten: bool = False) -> pa.Schema:
        return self._schema(pa.null() if self._null_allowed else None)

    @property
    def _null_allowed(self) -> bool:
        """Whether elements may be null: ``_metadata`` has the offset of each element, but not of broadcast entries."""
        return self.operator.options.on_error == "null" and self._mode != "BROADCAST"

    def _schema(self, unknown: pa.DataType | None) -> pa.Schema:
        options = self.operator.options
        schema: pa.Schema | None = None
        for (file, _), info in zip(self._parts, self._infos, strict=True):
            with located(CorruptSnapshot, file=file.source.name, offset=0):
                own = pa.schema(operator_state_fields(info, self._mode, options, unknown=unknown))
            schema = own if schema is None else merged_schema(schema, own)
        assert schema is not None
        return schema

    def plan_splits(self, request: ScanRequest) -> list[Split]:
        if self._mode != "BROADCAST":
            for error in self._unreadable:
                raise error
        problem = self.problem
        is_null = isinstance(problem, Undecodable)
        if problem is not None and is_null:
            if not self._null_allowed:
                raise problem
            warn_of_nulls(self.operator.display, {self.name: problem})
        options = self.operator.options
        return [OperatorSplit(file, partition, options, is_null) for file, partition in self._chosen]


# Decode operator states of well-known connectors into columns, e.g. Kafka offsets.


@dataclass(frozen=True)
class OpenedSplit:
    """All of a state's elements at once: what format they have is decided over all of them."""

    inner: tuple[Split, ...]
    state: str

    @property
    def bytes(self) -> int:
        return sum(split.bytes for split in self.inner)

    @property
    def key_groups(self) -> tuple[int, ...]:
        return ()

    def read(self) -> Iterator[pa.RecordBatch]:
        batches = [batch for split in self.inner for batch in split.read()]
        if not batches:
            return
        raw = pa.Table.from_batches(batches)
        from stateproc.connectors.operator_states import connector_columns  # Lazy: start-up.

        columns = connector_columns(self.state, raw.column("value"))
        if columns is None:
            yield from raw.to_batches()
        elif len(columns):
            subtasks = raw.column(SUBTASK).combine_chunks()
            names = [SUBTASK, *(field.name for field in columns.type)]
            yield pa.RecordBatch.from_arrays([subtasks, *columns.flatten()], names)


class OpenedState(State):
    """A view of an operator state of bytes: rows of subtask and the columns of its format."""

    def __init__(self, view: OperatorState, opened: pa.StructType) -> None:
        super().__init__(view.operator, view.name, view.kind, view.distribution)
        self.value_type = view.value_type
        self._view = view
        self._opened = opened

    def with_options(self, options: ReadOptions) -> Self:
        twin = super().with_options(options)
        twin._view = self._view.with_options(options)
        return twin

    @property
    def bytes(self) -> int | None:
        return self._view.bytes

    def schema(self, *, flatten: bool = False) -> pa.Schema:
        return pa.schema([pa.field(SUBTASK, pa.int32()), *self._opened])

    def plan_splits(self, request: ScanRequest) -> list[Split]:
        return [OpenedSplit(tuple(self._view.splits()), self.name)]


def opened_state(state: State) -> State:
    """``state`` with the columns of its well-known format, or as it is if it has none.

    Source splits (topic, partition, starting_offset, stopping_offset for Kafka), sink writers and committers;
    what is versioned but of no known format has version and payload. Reads the state. Raises SnapshotError.
    """
    if not isinstance(state, OperatorState):
        return state
    opened = state.opened
    return state if opened is None else OpenedState(state, opened)
