"""Decode operator states of well-known connectors into columns, e.g. Kafka offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateproc.connectors import connector_columns
from stateproc.model.operator_state import SUBTASK, OperatorStateView
from stateproc.model.state import State
from stateproc.options import SPLIT_BYTES
from stateproc.readers.splits import Split

if TYPE_CHECKING:
    from typing_extensions import Self


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
        raw = pa.Table.from_batches([batch for split in self.inner for batch in split.read()], _RAW)
        columns = connector_columns(self.state, raw.column("value"))
        if columns is None:
            yield from raw.to_batches()
        elif len(columns):
            subtasks = raw.column(SUBTASK).combine_chunks()
            names = [SUBTASK, *(field.name for field in columns.type)]
            yield pa.RecordBatch.from_arrays([subtasks, *columns.flatten()], names)


_RAW = pa.schema([(SUBTASK, pa.int32()), ("value", pa.binary())])


class OpenedState(State):
    """A view of an operator state of bytes: rows of subtask and the columns of its format."""

    def __init__(self, view: OperatorStateView, opened: pa.StructType) -> None:
        super().__init__(view.operator, view.name, view.kind, view.distribution)
        self.value_type = view.value_type
        self._view = view
        self._opened = opened

    def with_temporal(self, temporal: str) -> Self:
        twin = super().with_temporal(temporal)
        twin._view = self._view.with_temporal(temporal)
        return twin

    @property
    def bytes(self) -> int | None:
        return self._view.bytes

    def schema(self, *, flatten: bool = False) -> pa.Schema:
        return pa.schema([pa.field(SUBTASK, pa.int32()), *self._opened])

    def splits(
        self,
        *,
        flatten: bool = False,
        key_groups: Iterable[int] | None = None,
        split_bytes: int = SPLIT_BYTES,
        keys: Sequence[Any] | None = None,
        columns: Collection[str] | None = None,
    ) -> list[Split]:
        return [OpenedSplit(tuple(self._view.splits()), self.name)]


def opened_state(state: State) -> State:
    """``state`` with the columns of its well-known format, or as it is if it has none.

    Source splits (topic, partition, starting_offset, stopping_offset for Kafka), sink writers and committers;
    what is versioned but of no known format has version and payload. Reads the state. Raises SnapshotError.
    """
    if not isinstance(state, OperatorStateView):
        return state
    opened = state.opened
    return state if opened is None else OpenedState(state, opened)
