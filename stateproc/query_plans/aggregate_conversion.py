"""Convert the accumulators of an aggregate over groups to those of other calls.

The state has a row of buffers per group, call after call: COUNT the number (BIGINT), SUM, MIN and MAX their result, AVG
the sum and the number (AggregateFunction classes of org.apache.flink.table.planner.functions.aggfunctions). All of them
are nullable; those of a call that begins are 0 for COUNT, SUM0 and AVG, else null. So AVG is made of SUM and COUNT of
the same column, and these of AVG, where the sums have one type. Where rows leave the frame of OVER, its state keeps
them until then, and a new COUNT, SUM or AVG is computed of those that are in the frame.

Over a column that became wider, accumulators that are values of their own (COUNT, SUM, AVG, and MIN and MAX of rows
that are only added) are those of `call_buffers`. Other functions keep values of the column as they are in a row, or in
views; `aggregate_states` has the types of both, whatever they are over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stateproc.errors import InvalidOption, Where
from stateproc.query_plans.aggregate_states import row_of_call, views_of_call
from stateproc.query_plans.aggregate_views import distinct_views, kept_views, renamed_states, wider_seen, wider_type
from stateproc.query_plans.call_buffers import buffer_starts, buffer_types, call_text
from stateproc.query_plans.node_definitions import AGGREGATES, GROUPS, WINDOWS
from stateproc.query_plans.node_rules import (
    aggregate_calls,
    call_columns,
    counts_rows,
    function_of,
    is_built_in,
    retracts,
)
from stateproc.query_plans.over_aggregates import OVER, knows_frame, over_time
from stateproc.query_plans.plan_comparison import goes_on
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.plan_matching import Pair, is_known_call, sources_of
from stateproc.query_plans.state_parts import NodeState, Record
from stateproc.serializers import Serializer
from stateproc.serializers.table.collections import NULL_VALUE
from stateproc.serializers.table.java_streams import MAP_VIEW
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RawValue, RowData
from stateproc.serializers.table.type_text import external
from stateproc.types import RowData as row_data

_STATES = {GROUPS: "accState", WINDOWS: "window-aggs"}
"""The states with the accumulators, of aggregates over groups."""
_MOST_DIGITS = 38
_OF_FRAMES = ("COUNT", "SUM0", "AVG")
"""Functions of OVER whose accumulators are sums and numbers, whatever rows have left the frame."""
_COMPUTED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE")
"""Types of buffers with sums that are computed of rows, as `LogicalType.kind` calls them."""


@dataclass(frozen=True)
class FrameBuffer:
    """A buffer of a call of OVER that is computed of the rows in its frame.

    Attributes:
        field: The buffer, by its position in the accumulators.
        column: The column that it is over, by its position in the rows as they are kept.
        is_count: Whether it is the number of values that are not null, and not their sum.
    """

    field: int
    column: int
    is_count: bool


@dataclass(frozen=True)
class FrameBuffers:
    """The buffers of new calls of OVER that are computed of the rows in its frame.

    Attributes:
        rows: The field of the accumulators with the number of rows in the frame, by its position.
        by_time: Whether of the rows that are kept those after the last time that was computed are in no frame yet.
    """

    buffers: tuple[FrameBuffer, ...]
    rows: int
    by_time: bool


@dataclass(frozen=True)
class AggregateConversion:
    """How the accumulators of an aggregate become those of other calls.

    Attributes:
        value: The type of the new accumulators.
        renames: The fields that stay, as they were and as they are.
        assignments: The fields of calls that begin.
        states: The states of views, and what they are called; None for one that the new calls do not have.
        views: The states of views whose values, or keys of maps, get wider types, and these.
        frame: The fields that are computed of the rows in a frame of OVER; None where there are none.
    """

    value: RowData
    renames: dict[str, str]
    assignments: tuple[str, ...]
    states: dict[str, str | None]
    views: dict[str, ViewTypes] = field(default_factory=dict)
    frame: FrameBuffers | None = None

    def changes(self, old: RowData) -> bool:
        """Whether accumulators do not stay as they are."""
        return tuple(self.renames) != old.names or self.value.types != old.types


def aggregate_conversion(pair: Pair, old: RowData, names: Collection[str]) -> AggregateConversion:
    """Return how accumulators are converted.

    Args:
        pair: The nodes, and which call is which.
        old: The type of the accumulators, with the names under which they are read.
        names: The states of the operator.

    Raises:
        InvalidOption: The accumulators are not those of the old calls, or a new call has some of another kind.
    """
    starts, views = buffer_starts(pair.old), kept_views(pair)
    planned = starts[-1] + len(distinct_views(pair.old))
    if planned != len(old.types):
        why = f"{planned} fields by its plan, and of {len(old.types)} in the snapshot"
        raise of_another_plan(pair.old, why)
    for number, call in enumerate(aggregate_calls(pair.old)):
        is_value = is_known_call(pair.old, number) and function_of(call) != "AVG"
        for at, type_ in enumerate(buffers(pair.old, number) if is_value else (), starts[number]):
            if type_.kind != old.types[at].kind:
                found = f"a field {type_.sql} by its plan, which is {old.types[at].sql} in the snapshot"
                raise of_another_plan(pair.old, found)
    # Of OVER by a column that is no time the accumulators are values of a map.
    value = "map_value" if state_of(pair.old) == "accMapState" else "value"

    def buffer(source: int, number: int) -> str:
        return f'{value}."' + old.names[starts[source] + number].replace('"', '""') + '"'

    parts: list[Part] = []
    framed: list[FrameBuffer] = []
    for number, source in enumerate(pair.kept or ()):
        if source is None:
            derived = _derived(pair, number, buffer)
            if derived is None:
                framed += _frame_buffers(pair, number, len(parts))
            parts += derived or _beginning(pair.new, number)
            continue
        kept = range(starts[source], starts[source + 1])
        wider = _wider(pair, number, source) or [old.types[at] for at in kept]
        parts += ((None if type_ == old.types[at] else type_, at) for type_, at in zip(wider, kept, strict=True))
    parts += [(MAP_VIEW, "NULL") if view is None else (None, starts[-1] + view) for view in views]
    made = of_parts(pair.new, old, parts, value)
    return replace(
        made, states=renamed_states(pair, views, names), views=wider_views(pair, views), frame=_framed(pair.new, framed)
    )


Part = tuple[LogicalType | None, int | str]
"""A field of accumulators: its type, None for that which it has, and the old field that it is or its expression."""


def of_parts(node: PlanNode, old: RowData, parts: Sequence[Part], value: str = "value") -> AggregateConversion:
    """Return how accumulators become those of given fields.

    Args:
        node: The new node, for errors.
        old: The type of the accumulators, with the names under which they are read.
        parts: The new fields.
        value: The column that the accumulators are.

    Raises:
        InvalidOption: A field is there twice.
    """
    fields: list[tuple[LogicalType, Serializer, bytes]] = []
    renames: dict[str, str] = {}
    assignments: list[str] = []
    for type_, source in parts:
        name = f"f{len(fields)}"
        if isinstance(source, str):
            assignments.append(f"{value}.{name} = {source}")
        elif old.names[source] in renames:
            raise InvalidOption(f"{node.label} has a call twice", advice="give a plan that Flink compiled")
        else:
            renames[old.names[source]] = name
        if type_ is not None:
            fields.append(_field(type_))
        else:
            assert isinstance(source, int)
            written = old.written[source] if old.written else b""
            fields.append((old.types[source], old.fields[source], written))
    types, serializers, written_types = zip(*fields, strict=True)
    made = RowData(types, tuple(f"f{at}" for at in range(len(types))), serializers, written_types)
    return AggregateConversion(made, renames, tuple(assignments), {})


def _framed(node: PlanNode, buffers: Sequence[FrameBuffer]) -> FrameBuffers | None:
    if not buffers:
        return None
    counts = zip(buffer_starts(node), aggregate_calls(node), strict=False)
    rows = next(start for start, call in counts if counts_rows(call))  # Frames that rows leave have such a call.
    return FrameBuffers(tuple(buffers), rows, over_time(node) == "ROWTIME")


def _frame_buffers(pair: Pair, number: int, first: int) -> Iterator[FrameBuffer]:
    """Yield the buffers of a new call, the first at a position, that are computed of the rows in the frame."""
    position = _kept_column(pair, number)
    if position is None:
        return
    function = function_of(aggregate_calls(pair.new)[number])
    for at in range(len(buffers(pair.new, number))):
        yield FrameBuffer(first + at, position, function == "COUNT" or (function == "AVG" and at == 1))


def _kept_column(pair: Pair, number: int) -> int | None:
    """Return `frame_column` by its position in the rows as they are kept; None for one that they do not have."""
    column = frame_column(pair, number)
    return column if column is None or pair.columns is None else pair.columns[0][column]


def frame_column(pair: Pair, number: int) -> int | None:
    """Return the column that a new call of OVER is over, by its position in the rows of the new node, if its
    accumulator is computed of the rows in the frame; else None.

    In rows from before a column that they did not have is null: a call over it begins, and can take them back.
    """
    node, call = pair.new, aggregate_calls(pair.new)[number]
    over = call.get("argList") or []
    is_plain = call.get("distinct") is not True and call.get("filterArg", -1) == -1
    if node.kind != OVER or not knows_frame(node) or not is_plain or not is_known_call(node, number):
        return None
    if function_of(call) not in _OF_FRAMES or len(over) != 1 or over[0] >= len(node.input()):
        return None
    known = all(type_.kind in _COMPUTED for type_ in buffers(node, number))
    return int(over[0]) if known else None


def of_another_plan(node: PlanNode, why: str) -> InvalidOption:
    return InvalidOption(
        f"{node.label} has accumulators of {why}",
        where=Where(state=state_of(node)),
        advice="give the plan that the job ran",
    )


def _field(type_: LogicalType) -> tuple[LogicalType, Serializer, bytes]:
    """Return a type with its serializer; its Java object is that of the release that is written for."""
    if type_ == MAP_VIEW:
        return MAP_VIEW, RawValue(NULL_VALUE), b""
    made = row_data({"f0": type_})
    assert isinstance(made, RowData)
    return type_, made.fields[0], b""


def call_words(pair: Pair) -> list[str]:
    """Return what becomes of each call."""
    kept, before, after = pair.kept or (), aggregate_calls(pair.old), aggregate_calls(pair.new)
    numbers = range(len(before))
    if kept == tuple(numbers) and all(_kept_as(pair, number, number) == "kept" for number in numbers):
        return []
    words = [
        f"{call_text(pair.new, call)} {_kept_as(pair, number, source)}"
        for number, (call, source) in enumerate(zip(after, kept, strict=True))
        if source is not None
    ]
    words += [
        f"{call_text(pair.new, call)} from {text}"
        for number, call in enumerate(after)
        if (text := _origin(pair, number))
    ]
    words += [f"{call_text(pair.new, call)} from now on" for call in new_calls(pair).values()]
    gone = sorted(set(range(len(before))) - set(kept))
    return words + [f"{call_text(pair.old, before[index])} dropped" for index in gone]


def _kept_as(pair: Pair, number: int, source: int) -> str:
    argument, wider = wider_argument(pair, number, source), _wider(pair, number, source)
    over = argument or (wider_seen(pair, number) if wider is None else None)
    if over is not None:
        return f"kept over {over.sql}"
    return "kept" if wider is None else f"kept as {wider[0].sql}"


def _wider(pair: Pair, number: int, source: int) -> list[LogicalType] | None:
    """Return the wider types of the buffers of a call that stays; None where they stay. Raises InvalidOption."""
    call = aggregate_calls(pair.new)[number]
    if _typed(pair.new, number) == _typed(pair.old, source):
        return None
    if wider_argument(pair, number, source) is not None:
        # None of LISTAGG, whose text is of any length.
        row = row_of_call(pair.new, call, taken_back=retracts(pair.new, number, call))
        return None if row is None else [row]
    if not is_known_call(pair.new, number):
        raise InvalidOption(
            f"{call_text(pair.new, call)} of {pair.new.label} has columns of other types, and an accumulator that is "
            "not known",
            advice="leave these columns as they are, or let the aggregate start empty: --empty, without --map",
        )
    was, wanted = buffers(pair.old, source), buffers(pair.new, number)
    if [type_.sql for type_ in was] == [type_.sql for type_ in wanted]:
        return None
    # Sums of decimals have all digits that there are: one that has too many for another scale is refused as a value.
    is_sum = was[0].kind == wanted[0].kind == "DECIMAL" and was[0].precision == wanted[0].precision == _MOST_DIGITS
    if not all(map(goes_on, was, wanted)) and not (is_sum and was[0].scale <= wanted[0].scale):
        raise InvalidOption(
            f"{call_text(pair.new, call)} of {pair.new.label} was {was[0].sql} and is {wanted[0].sql}, which does not "
            "have all of its values",
            advice="give the column a type that is as wide, or let the aggregate start empty: --empty",
        )
    return wanted


def _typed(node: PlanNode, number: int) -> list[Any]:
    """Return the types of a call's result and arguments; whether they may be null changes no accumulator of values."""
    call, (names, types) = aggregate_calls(node)[number], call_columns(node)
    node.chosen(names, call.get("argList") or [])
    found = [call.get("type"), *(types[at] for at in call.get("argList") or [])]
    if not is_known_call(node, number):
        return found
    return [one.removesuffix(" NOT NULL") if isinstance(one, str) else one for one in found]


def new_calls(pair: Pair) -> dict[int, Any]:
    """Return the calls of the new node that the old one does not have and that do not follow from others, by number."""
    calls = enumerate(zip(aggregate_calls(pair.new), pair.kept or (), strict=True))
    return {number: call for number, (call, source) in calls if source is None and _origin(pair, number) is None}


def _origin(pair: Pair, number: int) -> str | None:
    """Return of which calls a new one is made; None for one that is kept or begins."""
    if (pair.kept or ())[number] is not None:
        return None
    if _derived(pair, number, lambda source, at: "") is None:
        return None if _kept_column(pair, number) is None else "the rows in its frame"
    known, before = pair.alike[number], aggregate_calls(pair.old)
    return " and ".join(sorted({function_of(before[known[one][0]]) for one in sources_of(pair, number)}))


def _derived(pair: Pair, number: int, buffer: Callable[[int, int], str]) -> list[tuple[LogicalType, str]] | None:
    """Return the types of the buffers of a new call, and how they are made of those of others; None if they are not.

    Args:
        pair: The nodes.
        number: The call.
        buffer: Returns how a buffer of an old call is called in an expression.
    """
    sources = sources_of(pair, number)
    if not sources:
        return None
    at, types = pair.alike[number], buffers(pair.new, number)
    function = function_of(aggregate_calls(pair.new)[number])
    if function == "COUNT":
        return [(types[0], buffer(*at["COUNT"]) if "COUNT" in sources else buffer(at["AVG"][0], 1))]
    source = at["SUM" if function == "AVG" else "AVG"][0]
    if buffers(pair.old, source)[0].sql != types[0].sql:
        return None
    if function == "AVG":
        return [(types[0], f"coalesce({buffer(source, 0)}, 0)"), (types[1], buffer(*at["COUNT"]))]
    total, count = buffer(source, 0), buffer(source, 1)
    made = [(types[0], f"CASE WHEN {count} = 0 THEN NULL ELSE {total} END")]
    return [*made, *((type_, count) for type_ in types[1:])]


def state_of(node: PlanNode) -> str:
    """Return the name of an aggregate's state with its accumulators."""
    if node.kind == OVER:
        return "accMapState" if over_time(node) is None else "accState"
    return _STATES[AGGREGATES[node.kind]]


def buffers(node: PlanNode, number: int) -> list[LogicalType]:
    """Return the types of the buffers of a call of `aggregate_calls`."""
    call = aggregate_calls(node)[number]
    return buffer_types(node, call, retracts=retracts(node, number, call))


def _beginning(node: PlanNode, number: int) -> Iterator[tuple[LogicalType, str]]:
    """Yield the types and values of the buffers of a call that has seen no row."""
    initial = "0" if function_of(aggregate_calls(node)[number]) in ("COUNT", "SUM0", "AVG") else "NULL"
    yield from ((type_, initial) for type_ in buffers(node, number))


# How calls go on over a column that became wider: the types of their accumulators and views.


_TEXT = ("CHAR", "VARCHAR")
_KEEP_VALUES = frozenset({"ARRAY_AGG", "COLLECT", "FIRST_VALUE", "LAG", "LAST_VALUE", "LISTAGG", "MAX", "MIN"})
"""Functions whose accumulators and views have values of their column. JSON has text that was made of these."""


@dataclass(frozen=True)
class ViewTypes:
    """The wider type of the keys of a view's map, or of its values.

    Attributes:
        as_keys: Whether it is the type of keys.
    """

    type: Serializer
    as_keys: bool


def wider_argument(pair: Pair, number: int, source: int) -> LogicalType | None:
    """Return the type of the column of a call that stays, where it is wider and the call keeps values of it.

    LISTAGG has text of any length.

    Args:
        pair: The nodes.
        number: A call of the new node.
        source: That of the old node which it was.
    """
    call = aggregate_calls(pair.new)[number]
    if not is_built_in(call) or function_of(call) not in _KEEP_VALUES or is_known_call(pair.new, number):
        return None
    found = wider_type(pair, number, source)
    return None if found is None or (function_of(call) == "LISTAGG" and found.kind not in _TEXT) else found


def wider_views(pair: Pair, views: Sequence[int | None]) -> dict[str, ViewTypes]:
    """Return the types that become wider in states of views, by the names that these have.

    Args:
        pair: The nodes, and which call is which.
        views: `kept_views`.
    """
    found: dict[str, ViewTypes] = {}
    for calls, view in zip(distinct_views(pair.new), views, strict=True):
        seen = None if view is None else wider_seen(pair, calls[0])
        if seen is not None:
            found[f"distinctAcc_{view}"] = ViewTypes(external(seen), as_keys=True)
    for number, source in enumerate(pair.kept or ()):
        if source is None or wider_argument(pair, number, source) is None:
            continue
        for old, new in zip(_views(pair.old, source), _views(pair.new, number), strict=True):
            if old.map_key is not None and new.map_key is not None and old.map_key != new.map_key:
                found[old.name] = ViewTypes(new.map_key.serializer, as_keys=True)
            elif old.value.serializer != new.value.serializer:
                found[old.name] = ViewTypes(new.value.serializer, as_keys=False)
    return found


def _views(node: PlanNode, number: int) -> Iterator[NodeState]:
    call = aggregate_calls(node)[number]
    yield from views_of_call(node, Record((), ()), number, call, taken_back=retracts(node, number, call))
