"""Define the interface of all states (their types, schema, splits and rows), and scan one with a condition."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.keygroups.key_group_pruning import in_both
from stateproc.model.operator_context import OperatorContext
from stateproc.model.parallel_scan import parallel_split_bytes, thread_count, useful_threads
from stateproc.model.row_access import RowAccess
from stateproc.model.schema_merging import aligned, narrowed
from stateproc.options import SPLIT_BYTES
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.splits import ScanRequest, Split
from stateproc.storage.concurrency import read_in_order

if TYPE_CHECKING:
    from typing_extensions import Self

    from stateproc.filters import RowFilter
    from stateproc.html.cards import Card
    from stateproc.model.description import DescribedType, StateDescription, Storage

_REMOTE_SPLIT = 32 << 20
"""The smallest split of a remote snapshot that threads read: opening its files takes some requests."""
_SCAN_SPLIT = 8 << 20

_Step: TypeAlias = "pa.RecordBatch | int"
"""Rows of a split; its bytes when it is done."""


Advance: TypeAlias = Callable[[int], None]
"""Called with the bytes of each split that is done."""


class State(RowAccess):
    """One state of one operator.

    Attributes:
        operator: The operator and how its snapshot is read.
        name: The state's name.
        kind: value, list, map, reducing, aggregating, event timers, processing timers, broadcast or all keyed states.
        distribution: keyed, split, union or broadcast.
        key_type: The type of keys as text; None if there are none.
        namespace_type: The type of namespaces as text; None for VoidNamespace.
        value_type: The type of values as text; None for a wide table.
        ttl: Whether the state has a time to live.
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
    def is_keyed(self) -> bool:
        """Whether rows belong to keys and key groups."""
        return self.distribution == "keyed"

    @property
    def is_timers(self) -> bool:
        """Whether rows are timers."""
        return self.kind.endswith(" timers")

    @property
    def full_kind(self) -> str:
        """The kind, with the distribution where the kind does not imply it: split list, union list."""
        return f"{self.distribution} {self.kind}" if self.distribution in ("split", "union") else self.kind

    @property
    def bytes(self) -> int | None:
        """Bytes of the state's files; None where several states share a file."""
        return None

    @abstractmethod
    def schema(self, *, flatten: bool = False) -> pa.Schema:
        """Return the columns of the state's rows.

        Args:
            flatten: One row per list element or map entry.

        Raises:
            UnsupportedSnapshot: The types cannot be determined from the snapshot.
            InvalidOption: The state cannot be flattened.
        """

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
        groups = None if key_groups is None else frozenset(key_groups)
        return self.plan_splits(ScanRequest(flatten, groups, split_bytes, keys, columns))

    @abstractmethod
    def plan_splits(self, request: ScanRequest) -> list[Split]:
        """Divide what is requested of the state into splits, see :meth:`splits`."""

    @property
    def problem(self) -> SnapshotError | None:
        """Why the state cannot be read; None if its types are known."""
        try:
            with self._placed():
                self.schema()
        except SnapshotError as error:
            return error
        return None

    def describe(self) -> StateDescription:
        """Describe the state without reading its rows: types in Flink, Arrow and Spark, and how it is stored."""
        # Lazy: start-up. Reading rows needs no descriptions.
        from stateproc.model.description import StateDescription, Storage, stored_columns

        problem = self.problem
        try:
            types, storage = self._types(), self._storage()
        except SnapshotError as error:
            types, storage, problem = (), Storage(), problem or error
        return StateDescription(
            operator=self.operator.display,
            operator_id=self.operator.operator_id,
            name=self.name,
            kind=self.kind,
            distribution=self.distribution,
            ttl=self.ttl,
            max_parallelism=self.operator.max_parallelism,
            storage=storage,
            types=types,
            columns=() if problem else stored_columns(self.schema()),
            problem=None if problem is None else str(problem),
        )

    def _types(self) -> tuple[DescribedType, ...]:
        """Describe the types of keys and values."""
        return ()

    def _storage(self) -> Storage:
        """Describe how the state is stored."""
        from stateproc.model.description import Storage  # Lazy: start-up.

        return Storage()

    @property
    def file_problem(self) -> SnapshotError | None:
        """Why a file that may contain the state cannot be opened; None if all can. Reading all rows raises it."""
        return None

    @property
    def names_in_files(self) -> tuple[str, ...]:
        """The names under which files of managed keyed state contain it; () if it is stored otherwise."""
        return ()

    def key_groups_of(self, keys: Sequence[Any]) -> set[int] | None:
        """Return the key groups of keys.

        Args:
            keys: Python values as ``to_pylist`` returns them.

        Returns:
            The key groups; None if the hash code of such keys cannot be computed.
        """
        return None

    def batches(
        self,
        *,
        flatten: bool = False,
        columns: Sequence[str] | None = None,
        key_groups: Iterable[int] | None = None,
        keys: Sequence[Any] | None = None,
        where: str | None = None,
        threads: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows, one bounded batch after another, in the order of the splits.

        The first batch is read in the calling thread, so that a caller who needs no more does not wait for others.
        Then threads read ahead, up to 64 MB each, until the iterator is exhausted, closed or deleted.

        Args:
            flatten: One row per list element or map entry.
            columns: Only these columns, in this order.
            key_groups: Only these key groups.
            keys: Only what is needed to find these keys. Rows with other keys of the same key groups may be included.
            where: Only the rows for which a condition is true, in SQL: ``key = 42 AND value.total >= 10``. Conditions
                on ``key`` and ``key_group`` limit what is read.
            threads: The number of threads that read and decode; default the cores that this process may use.

        Yields:
            Batches of the schema of :meth:`schema`, or of ``columns``.

        Raises:
            CorruptSnapshot: A file is damaged.
            MissingFile: A file does not exist.
            UnsupportedSnapshot: A value cannot be decoded.
            InvalidOption: A column does not exist, the state cannot be flattened, ``where`` cannot be parsed or does
                not fit the columns, or ``threads`` is not positive.
        """
        return self._batches(flatten, columns, key_groups, keys, where, threads)

    def _batches(
        self,
        flatten: bool = False,
        columns: Sequence[str] | None = None,
        key_groups: Iterable[int] | None = None,
        keys: Sequence[Any] | None = None,
        where: str | None = None,
        threads: int | None = None,
        *,
        at_once: bool = False,
    ) -> Generator[pa.RecordBatch, None, None]:
        """Read as :meth:`batches`; ``at_once``: all threads begin before the first batch is there."""
        with self._placed():
            if where is not None:
                scan = FilteredScan(self, where, columns, flatten, key_groups=key_groups, keys=keys, threads=threads)
                yield from scan.batches(lambda _: None, at_once=at_once)
                return
            number = thread_count(threads)
            schema = self.schema(flatten=flatten)
            wanted = narrowed(schema, columns)
            groups = self._pruned(key_groups, keys)
            size = self.parallel_split_bytes(number, SPLIT_BYTES)
            splits = self.splits(flatten=flatten, key_groups=groups, split_bytes=size, keys=keys, columns=columns)

            def rows(split: Split) -> Iterator[pa.RecordBatch]:
                return (aligned(batch, wanted) for batch in split.read())

            yield from read_in_order(splits, rows, self.useful_threads(number, splits), at_once=at_once)

    def parallel_split_bytes(self, threads: int, limit: int) -> int:
        """Return a size of splits with which threads of one process have enough splits each.

        Args:
            threads: The number of threads.
            limit: The size for one thread, exceeded only where each split reads the whole state.

        Raises:
            SnapshotError: The sizes of the files cannot be determined.
        """
        smallest = None if self._is_local else _REMOTE_SPLIT
        return parallel_split_bytes(threads, self._stored_bytes, limit, smallest=smallest)

    def useful_threads(self, threads: int, splits: Sequence[Split]) -> int:
        """Return with how many threads these splits are read in the least time.

        Args:
            threads: The number of threads that may be used.
            splits: The splits. Those of remote stores wait for requests, which threads make at the same time.
        """
        return useful_threads(threads, sum(split.bytes for split in splits)) if self._is_local else threads

    @property
    def elements(self) -> int | None:
        """The number of elements of a list or union state of an operator; None for others."""
        return None

    @property
    def reads_whole_files(self) -> bool:
        """Whether reading any key group reads whole files (changelogs)."""
        return False

    def key_group_bytes(self) -> Longs:
        """Return about how many stored bytes each key group has, perhaps in all states of its files together."""
        groups = self.operator.max_parallelism
        return np.full(groups, sum(split.bytes for split in self.splits()) // groups, dtype=np.int64)

    @property
    def stored_bytes(self) -> int | None:
        """Bytes of the files that contain the state, perhaps besides others; None if not known."""
        return self._stored_bytes

    @property
    def _is_local(self) -> bool:
        return self.operator.location.directory.is_local

    @property
    def _stored_bytes(self) -> int | None:
        """Bytes of the files that contain the state, perhaps besides others; None if not known."""
        return None

    def with_temporal(self, temporal: str) -> Self:
        """Return the same state with another representation of dates and times: 'micros' or 'exact'."""
        return self.with_options(replace(self.operator.options, temporal=temporal))

    def with_options(self, options: ReadOptions) -> Self:
        """Return the same state as it is decoded with other options."""
        twin = copy.copy(self)
        twin.operator = replace(self.operator, options=options)
        return twin

    def within(self, key_groups: Collection[int]) -> Self:
        """Return the state as another process needs it to read these key groups: picklable and small.

        Args:
            key_groups: The key groups; states without keys are returned whole.
        """
        twin = copy.copy(self)
        twin.operator = replace(self.operator, naming=None)
        return twin

    @contextmanager
    def _placed(self) -> Iterator[None]:
        """Add the file, operator and state to errors raised inside that do not name them."""
        try:
            yield
        except InvalidOption:
            raise
        except SnapshotError as error:
            file = self.operator.location.metadata_uri
            placed = error.at(file=file, operator=self.operator.display, state=self.name)
            raise self.operator.named(placed) from error

    def _pruned(self, key_groups: Iterable[int] | None, keys: Sequence[Any] | None) -> set[int] | None:
        chosen = None if key_groups is None else set(key_groups)
        of_keys = None if keys is None else self.key_groups_of(keys)
        if of_keys is None:
            return chosen
        return of_keys if chosen is None else chosen & of_keys

    def _card(self) -> Card:
        # Lazy: start-up.
        from stateproc.html.cards import Card, short, type_tree
        from stateproc.html.units import human_bytes

        problem = self.problem
        try:
            size = None if self.bytes is None else human_bytes(self.bytes)
        except SnapshotError:
            size = None  # the file is missing or damaged; reading it reports that
        facts = {
            "operator": self.operator.display,
            "key": self.key_type,
            "namespace": self.namespace_type,
            "value": self.value_type,
            "time to live": "yes" if self.ttl else None,
            "bytes": size,
        }
        return Card(
            title=short(self.name),
            kind="of one operator" if self.is_timers else f"{self.full_kind} state",
            facts=[(name, short(text)) for name, text in facts.items() if text],
            problems=[] if problem is None else [str(problem)],
            columns=() if problem is not None else type_tree(self.schema()),
        )

    def _repr_html_(self) -> str:
        """Show the types in a notebook. Headers are read, but no rows."""
        return self._card().html()

    def __repr__(self) -> str:
        return f"<{self.kind} state {self.name!r} of operator {self.operator.display!r}>"


class FilteredScan:
    """The rows of a state that a condition keeps, with the columns asked for.

    Args:
        where: The text of a condition; see docs/cli.md.
        columns: Names of columns in the order wanted; None for all.
        flatten: One row per list element or map entry.
        key_groups: Only these key groups; None for all that the condition allows.
        keys: Only what is needed to find these keys; None for all that the condition allows.
        threads: The number of threads that read, decode and filter; None for the cores that the process may use.

    Attributes:
        schema: The schema of the batches.
        splits: The splits that are read.

    Raises:
        InvalidOption: The condition or a column does not fit the state.
        SnapshotError: The state cannot be read.
    """

    def __init__(
        self,
        state: State,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        flatten: bool = False,
        *,
        key_groups: Iterable[int] | None = None,
        keys: Sequence[Any] | None = None,
        threads: int | None = None,
    ) -> None:
        self._threads = thread_count(threads)
        self._state = state
        self._flatten = flatten
        self._full_schema = self._state.schema(flatten=flatten)
        self.schema = narrowed(self._full_schema, columns)
        self._filter: RowFilter | None = None
        groups = None if key_groups is None else set(key_groups)
        if keys is not None:
            groups = in_both(groups, state.key_groups_of(keys))
        needed = set(self.schema.names)
        if where is not None:
            # Lazy: start-up. DuckDB takes 0.08 s to load.
            from stateproc.filters import RowFilter, allowed_by, parse

            condition = parse(where, self._temporal_schema)
            self._filter = RowFilter(condition, self._full_schema, self._temporal_schema)
            number = state.operator.max_parallelism
            found_keys, found_groups = allowed_by(condition, self._temporal_schema, number, state.key_groups_of)
            groups = in_both(groups, found_groups)
            keys = found_keys if keys is None else keys
            needed.update(condition.columns)
        size = self._state.parallel_split_bytes(self._threads, _SCAN_SPLIT)
        self.splits = self._state.splits(
            flatten=flatten, key_groups=groups, split_bytes=size, keys=keys, columns=needed
        )

    def batches(self, advance: Advance, *, at_once: bool = False) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows split by split.

        Args:
            advance: Called with the bytes of each split that is done.
            at_once: Start all threads before the first batch, because all rows are needed.
        """
        threads = self._state.useful_threads(self._threads, self.splits)
        steps = read_in_order(self.splits, self._steps, threads, at_once=at_once, size_of=_step_bytes)
        with closing(steps):
            for step in steps:
                if isinstance(step, int):
                    advance(step)
                else:
                    yield step

    def _steps(self, split: Split) -> Iterator[_Step]:
        """Yield the rows of a split, filtered and projected, then its bytes."""
        for batch in split.read():
            rows = aligned(batch, self._full_schema)
            kept = rows if self._filter is None else self._filter.apply(rows)
            yield kept.select(self.schema.names)
        yield split.bytes

    @cached_property
    def _temporal_schema(self) -> pa.Schema:
        """The schema with dates and times as Arrow's types, where the rows have them as ISO text."""
        return self._state.with_temporal("micros").schema(flatten=self._flatten)


def _step_bytes(step: _Step) -> int:
    return 0 if isinstance(step, int) else int(step.nbytes)
