"""What the states of a node's operator consist of, as columns of the rows that fill them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from stateproc import types
from stateproc.errors import UnsupportedSnapshot
from stateproc.query_plans.node_definitions import SIDES
from stateproc.query_plans.plan_file import PlanNode, unique_names
from stateproc.query_plans.row_conversion import column_type
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.runtime.streaming import TimeWindow
from stateproc.serializers.table.java_streams import is_view
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData

PROCTIME = "PROCTIME"
MOST_ELEMENTS = 2**31 - 1
"""The most elements of a list in Flink."""
COUNT, ASSOCIATIONS, ROWS = "count", "associations", "rows"
"""Columns that are not those of the query: how often a row is there, how many partners it has, rows of one sort key."""


@dataclass(frozen=True)
class Order:
    """When the value of a column came: 0, or the number `none` where it is null."""

    column: str
    none: int | None


@dataclass(frozen=True)
class Record:
    """A row.

    Attributes:
        columns: The columns that it is made of.
        initial: The columns in which another value stands for null: accumulators that begin with it, and stay null
            otherwise. That value: 0, the delimiter of LISTAGG, or an array without elements.
        orders: The fields that say when another field came, which no column gives: 0, or this number where it is null.
        empty: The fields that are arrays without elements in all rows.
        always: The fields that are the same in all rows, with their value.
        rows: The fields that are rows, by their column: that of the row's first field, if rows give it.
        held: The types of values, where these may be null although `types` are NOT NULL.
        kind: The column of the RowKind of rows, which rows need not have; without it all are +I.
    """

    columns: tuple[str, ...]
    types: tuple[LogicalType, ...]
    initial: Mapping[str, int | str | tuple[()]] = field(default_factory=dict)
    orders: Mapping[str, Order] = field(default_factory=dict)
    empty: frozenset[str] = frozenset()
    always: Mapping[str, int | str | None] = field(default_factory=dict)
    rows: Mapping[str, Record] = field(default_factory=dict)
    held: tuple[LogicalType, ...] = ()
    kind: str | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The columns that rows give, of all but what is null in state (`is_absent`), or follows from others."""
        found: list[str] = []
        for name in self.columns:
            if name in self.rows:
                found += self.rows[name].given
            elif name not in {*self.orders, *self.empty, *self.always} and not self.is_absent(name):
                found.append(name)
        return tuple(found)

    def is_absent(self, column: str) -> bool:
        """Whether a field is null in state: a processing time, or what stands for a view."""
        type_ = self.type_of(column)
        return type_.attribute == PROCTIME or is_view(type_)

    def type_of(self, column: str) -> LogicalType:
        """Return the type of a column."""
        return self.types[self.columns.index(column)]

    def arrow_type_of(self, column: str) -> pa.DataType:
        """Return the type of a column's values as Arrow has them."""
        return self.serializer.layout(LayoutContext()).arrow_type.field(self.columns.index(column)).type

    @property
    def serializer(self) -> Serializer:
        """RowDataSerializer."""
        made = types.RowData([(f"f{at}", type_) for at, type_ in enumerate(self.types)])
        return replace(made, held=self.held) if isinstance(made, RowData) and self.held else made


@dataclass(frozen=True)
class Column:
    """A single column, never null; ``default``: what it is in rows that do not have it, None where rows need it;
    ``least``: the least that it can be, a whole number, or how many elements it has, if it is an array; ``null``: the
    text that stands for null, None where it is an error; ``is_time``: whether rows give a time, which is milliseconds
    in state."""

    name: str
    serializer: Serializer
    default: int | None = None
    least: int | None = None
    is_array: bool = False
    null: str | None = None
    is_time: bool = False


@dataclass(frozen=True)
class Always:
    """A value that is the same in all rows."""

    value: bool | int
    serializer: Serializer


@dataclass(frozen=True)
class Zeros:
    """A list with as many zeros as a column says: the times of values of which only the order is known."""

    number: Column
    serializer: Serializer


@dataclass(frozen=True)
class Seen:
    """What calls with DISTINCT have seen of a value: how often each of them has, in an array, or a bit for each.

    Rows that none of them has seen are no state.
    """

    numbers: tuple[Column | Always, ...]
    serializer: Serializer
    are_bits: bool


@dataclass(frozen=True)
class Rows:
    """An array of rows in a column, neither null nor empty; fields that are null in state need not be there.

    ``mark``: what is beside each row, in a tuple: a field of the structs that is never null, or a constant.
    """

    name: str
    row: Record
    mark: Column | Always | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The fields that the structs have."""
        return (*self.row.given, *([self.mark.name] if isinstance(self.mark, Column) else []))

    @property
    def serializer(self) -> Serializer:
        """ListSerializer."""
        row = types.RowData(zip(self.row.columns, self.row.types, strict=True))
        return types.List(row if self.mark is None else types.Tuple(row, self.mark.serializer))


@dataclass(frozen=True)
class Pair:
    """A Tuple2."""

    first: Part
    second: Part

    @property
    def serializer(self) -> Serializer:
        """TupleSerializer."""
        return types.Tuple(self.first.serializer, self.second.serializer)

    @property
    def fields(self) -> tuple[str, str]:
        """What they are called as fields of a struct."""
        return "f0", "f1"


@dataclass(frozen=True)
class StartAndEnd(Pair):
    """A window, of the columns of its start and its end in milliseconds."""

    @property
    def serializer(self) -> Serializer:
        """TimeWindow.Serializer of SQL."""
        return TimeWindow(table=True)

    @property
    def fields(self) -> tuple[str, str]:
        return "start", "end"


Part: TypeAlias = "Record | Column | Always | Zeros | Seen | Rows | Pair"


def columns_of(part: Part) -> tuple[str, ...]:
    """Return the columns that a part is made of."""
    if isinstance(part, Record):
        return part.given
    if isinstance(part, Pair):
        return (*columns_of(part.first), *columns_of(part.second))
    if isinstance(part, Zeros):
        return (part.number.name,)
    if isinstance(part, Seen):
        return tuple(number.name for number in part.numbers if isinstance(number, Column))
    return (part.name,) if isinstance(part, Column | Rows) else ()


def arrays_of(part: Part) -> tuple[str, ...]:
    """Return the columns of a part that are arrays of values."""
    if isinstance(part, Pair):
        return (*arrays_of(part.first), *arrays_of(part.second))
    if isinstance(part, Record):
        own = tuple(name for name, initial in part.initial.items() if isinstance(initial, tuple))
        return (*own, *(name for row in part.rows.values() for name in arrays_of(row)))
    return (part.name,) if isinstance(part, Rows) or (isinstance(part, Column) and part.is_array) else ()


def defaults(part: Part) -> tuple[str, ...]:
    """Return the columns of a part that rows need not have."""
    if isinstance(part, Pair):
        return (*defaults(part.first), *defaults(part.second))
    return (part.name,) if isinstance(part, Column) and part.default is not None else ()


@dataclass(frozen=True)
class NodeState:
    """A state that the operator of a node declares.

    Attributes:
        key: The key, of the columns of the rows that fill this state.
        value: The value; of a map an entry's.
        map_key: The key of an entry; None of a value state.
        ttl: Whether it has a time to live; None where the plan does not say.
        rows: The state whose rows fill this one, too: those in which the column `split` is null. The other state has
            those in which it is not. Without such a column all rows fill both.
        split: This column.
        slices: What its namespaces are, of windows.
        frame: Which rows it keeps, of OVER.
        waiting: Which rows it keeps, of joins by time.
        as_of: Which rows it keeps, of temporal joins.
        is_derived: Whether it follows from other states of its operator, so that no rows fill it.
        is_list: Whether it is a list; its value is the array of its elements.
        is_empty: Whether it has no rows: what was taken back before it was there.
    """

    name: str
    key: Record
    value: Part
    map_key: Part | None = None
    ttl: bool | None = None
    rows: str | None = None
    split: str | None = None
    slices: Slices | Windows | None = None
    frame: Frame | None = None
    waiting: Waiting | None = None
    as_of: AsOf | None = None
    is_derived: bool = False
    is_list: bool = False
    is_empty: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that its rows need, each once."""
        parts = [self.key, *([] if self.map_key is None else [self.map_key]), self.value]
        ends = () if self.slices is None else self.slices.given
        names = [*(name for part in parts for name in columns_of(part)), *ends]
        return tuple(dict.fromkeys(names if self.split is None else [*names, self.split]))


@dataclass(frozen=True)
class Slices:
    """The slices of windows, by which their aggregates are kept, in milliseconds.

    Attributes:
        column: The column of their ends, which are the namespaces.
        step: How far one end is from the next.
        offset: Where ends are counted from.
        size: How long a window is; its last slice ends with it.
        cumulates: Whether the slices of a window whose results were emitted are one with its first slice.
    """

    column: str
    step: int
    offset: int
    size: int
    cumulates: bool = False

    @property
    def given(self) -> tuple[str, ...]:
        """The columns that rows give."""
        return (self.column,)

    @property
    def namespace(self) -> Part:
        """The namespace."""
        return Column(self.column, types.LONG)


@dataclass(frozen=True)
class Windows:
    """The windows of an aggregate whose namespaces have a start and an end, in milliseconds.

    Attributes:
        column: The column of their ends. Windows that overlap are kept in panes, which have the ends.
        start: The column of their starts. Rows give it of sessions, others are as long as they all are.
        pane: How long a pane is; of sessions 0.
        size: How long a window is; of sessions the least that it can be, the gap.
        slide: How far a window is from the next; of sessions 0.
        restores_watermark: Whether the operator keeps its watermark.
    """

    column: str
    start: str
    pane: int
    size: int
    slide: int
    restores_watermark: bool

    @property
    def are_sessions(self) -> bool:
        """Whether rows say how long windows are."""
        return not self.slide

    @property
    def given(self) -> tuple[str, ...]:
        """The columns that rows give."""
        return (self.start, self.column) if self.are_sessions else (self.column,)

    @property
    def namespace(self) -> Part:
        """The namespace."""
        return StartAndEnd(Column(self.start, types.LONG), Column(self.column, types.LONG))


@dataclass(frozen=True)
class Frame:
    """The frame of an aggregate of OVER, whose operator keeps rows.

    Attributes:
        column: The column of the times of rows.
        accumulators: The state with the accumulators.
        by_row_time: Whether rows wait for the watermark; otherwise their time is that at which they came.
        rows: How many rows it has at most, the current one among them; None of one that is as long as a time.
        millis: How long before the current row it begins; None of one that has a number of rows.
        count: The field of the accumulators with the number of its rows; None where it begins with the first row.
        one_timer: Whether a key has one timer for all rows that wait, at the next watermark.
    """

    column: str
    accumulators: str
    by_row_time: bool
    rows: int | None = None
    millis: int | None = None
    count: int | None = None
    one_timer: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether rows leave it, so that they are kept until then."""
        return self.count is not None

    @property
    def cleanup(self) -> int:
        """How long after the last row of a key its state is dropped, in milliseconds, where it is as long as a time."""
        return 0 if self.millis is None else self.millis * 3 // 2 + 1

    @staticmethod
    def next_watermark(now: int) -> int:
        """Return the time of a timer for the next watermark; Flink has none before 1970."""
        return max(now + 1, 0)


@dataclass(frozen=True)
class Waiting:
    """Which rows a join by time keeps.

    Attributes:
        by_row_time: Whether it is the watermark that says which rows are dropped, and not the clock.
        timer: The column of `NodeState.is_derived` with the time of a key's timer.
        reach: How long after its time a row may have a partner, in milliseconds.
        due: How long after the first time of a key's rows its timer is.
    """

    column: str
    by_row_time: bool
    timer: str
    reach: int
    due: int


@dataclass(frozen=True)
class AsOf:
    """Which rows a temporal join keeps.

    Attributes:
        are_versions: Whether they are versions: of each key the last one up to the watermark is kept, too.
    """

    time: Column
    are_versions: bool


LAST, NUMBER, CLEANUP, EARLIEST = "last", "number", "cleanup", "earliest"
"""Columns of `NodeState.is_derived`, of each key of OVER: the last time that was computed, how many rows are in the
frame, when the state is dropped, and the first time of a row."""

NEXT, TIMER = "next", "timer"
"""Columns of `NodeState.is_derived`, of each key of a temporal join: the number of its next row, and its timer."""


def unsupported(node: PlanNode, why: str) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"{node.label}: {why}",
        advice="let the operator begin without state, or let the job build it from its sources",
    )


def input_rows(node: PlanNode, index: int = 0) -> Record:
    """Return the rows that a node reads."""
    return _record(node, node.input(index), node.types(index))


def _record(node: PlanNode, names: Sequence[str], written: Sequence[Any]) -> Record:
    own = zip(names, written, strict=False)  # What is written as SQL ends with the row's own nullability.
    return Record(tuple(map(str, names)), tuple(column_type(node, name, type_) for name, type_ in own))


def input_columns(node: PlanNode, positions: Any) -> Record:
    """Return those columns of the rows that a node reads whose positions are listed; others may be of any type."""
    names = node.input()
    written = node.types()
    chosen = node.chosen(names, positions)
    if not isinstance(written, list) or len(written) < len(names):
        raise node.error("its input has no type for each column")
    return _record(node, chosen, [written[at] for at in positions or []])


def picked(node: PlanNode, rows: Record, positions: Any) -> Record:
    """Return those columns of rows whose positions are listed."""
    types_ = dict(zip(rows.columns, rows.types, strict=True))
    chosen = node.chosen(rows.columns, positions)
    return Record(chosen, tuple(types_[name] for name in chosen))


def join_key(node: PlanNode, index: int, *spec: str) -> Record:
    """Return the key of a join, of the columns of one input; it has the types of those of the left one.

    What is NOT NULL there may be null on the right: rows of both have the operator's key, and its serializer.

    Args:
        index: The number of the input.
        spec: Where the node says by which columns it joins.
    """
    keys = [picked(node, input_rows(node, at), node.items(*spec, f"{side}Keys")) for at, side in enumerate(SIDES)]
    left, right = (key.types for key in keys)
    if len(left) != len(right):
        raise node.error(f"it joins {len(left)} columns with {len(right)}")
    held = tuple(replace(own, nullable=own.nullable or other.nullable) for own, other in zip(left, right, strict=True))
    return Record(keys[index].columns, left, held=held)


def beside(rows: Record, name: str) -> str:
    """Return a name for a column beside those of the query: one that comes twice gets ``_1``."""
    return unique_names((*rows.columns, name))[-1]
