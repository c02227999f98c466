"""A state of an operator, as the public face shows it: its type, its splits, its rows."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateproc.errors import InvalidOption, SnapshotError
from stateproc.options import SPLIT_BYTES
from stateproc.readers.common.splits import Split
from stateproc.snapshot.operator_context import OperatorContext
from stateproc.snapshot.schema_merging import aligned

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self


class State(ABC):
    """One state of one operator.

    ``kind``: value, list, map, reducing, aggregating, event timers, processing timers, list, broadcast …;
    ``distribution``: keyed, split, union or broadcast. Types are as people write them; None where there is none.
    """

    def __init__(self, operator: OperatorContext, name: str, kind: str, distribution: str) -> None:
        self.operator = operator
        self.name = name
        self.kind = kind
        self.distribution = distribution

    key_type: str | None = None
    namespace_type: str | None = None
    value_type: str | None = None
    ttl: bool = False

    @property
    def bytes(self) -> int | None:
        """Bytes of the state's own files, where that can be told without reading them."""
        return None

    @abstractmethod
    def schema(self, *, flatten: bool = False) -> pa.Schema:
        """The columns of the state's rows. Raises Undecodable where bytes alone do not tell them."""

    @abstractmethod
    def splits(
        self,
        *,
        flatten: bool = False,
        key_groups: Iterable[int] | None = None,
        split_bytes: int = SPLIT_BYTES,
        keys: Sequence[Any] | None = None,
        columns: Collection[str] | None = None,
    ) -> list[Split]:
        """Divide the state into splits.

        Args:
            flatten: One row per list element or map entry.
            key_groups: Only these key groups.
            split_bytes: Stored bytes per split, approximately.
            keys: Only rows with these keys are needed; others are omitted where that saves reading.
            columns: Only these columns are needed; others may be null where that saves reading.

        Raises:
            SnapshotError: The state cannot be read.
        """

    @property
    def problem(self) -> SnapshotError | None:
        """Why the state cannot be read; None if it can, as far as types tell."""
        try:
            with self._placed():
                self.schema()
        except SnapshotError as error:
            return error
        return None

    def key_groups_of(self, keys: Sequence[Any]) -> set[int] | None:
        """The key groups in which these keys are; None if their hash cannot be reproduced."""
        return None

    def batches(
        self,
        *,
        flatten: bool = False,
        columns: Sequence[str] | None = None,
        key_groups: Iterable[int] | None = None,
        keys: Sequence[Any] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The state's rows, one bounded batch after another.

        flatten: one row per list element or map entry. columns: only these, in this order. key_groups: only these.
        keys: read no more than is needed for these keys (other keys of their key groups may come too).
        Raises SnapshotError.
        """
        with self._placed():
            schema = self.schema(flatten=flatten)
            wanted = narrowed(schema, columns)
            groups = self._pruned(key_groups, keys)
            for split in self.splits(flatten=flatten, key_groups=groups, keys=keys, columns=columns):
                for batch in split.read():
                    yield aligned(batch, wanted)

    def with_temporal(self, temporal: str) -> Self:
        """Return the same state with another representation of dates and times: 'micros' or 'exact'."""
        twin = copy.copy(self)
        twin.operator = self.operator.with_temporal(temporal)
        return twin

    @contextmanager
    def _placed(self) -> Iterator[None]:
        """Inside: errors about the snapshot name its file, the operator and the state, if they do not yet."""
        try:
            yield
        except InvalidOption:
            raise
        except SnapshotError as error:
            file = self.operator.location.metadata_uri
            raise error.at(file=file, operator=self.operator.display, state=self.name) from error

    def _pruned(self, key_groups: Iterable[int] | None, keys: Sequence[Any] | None) -> set[int] | None:
        chosen = None if key_groups is None else set(key_groups)
        of_keys = None if keys is None else self.key_groups_of(keys)
        if of_keys is None:
            return chosen
        return of_keys if chosen is None else chosen & of_keys

    def to_arrow(self, **options: Any) -> pa.Table:
        """All rows as a table; ``options`` as in :meth:`batches`."""
        schema = narrowed(self.schema(flatten=options.get("flatten", False)), options.get("columns"))
        return pa.Table.from_batches(list(self.batches(**options)), schema=schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame of Arrow-backed columns, which keep every value and type.

        Args:
            **options: As in :meth:`batches`.

        Raises:
            SnapshotError: The state cannot be read.
        """
        import pandas as pd  # Lazy: optional, and slow to import

        frame: pd.DataFrame = self.to_arrow(**options).to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    def __repr__(self) -> str:
        return f"<{self.kind} state {self.name!r} of operator {self.operator.display!r}>"


def narrowed(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The schema of the chosen columns. Raises InvalidOption for one that is not there."""
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise InvalidOption(f"no column {unknown[0]!r}", advice=f"there are: {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns])
