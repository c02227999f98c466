"""Say how rows that a node keeps get other columns: joins, deduplication, normalization of changes, TopN.

A state of these keeps whole rows of an input (RowDataSerializer), alone, in lists, with a number (Tuple2), as values or
values of a map. A join without a unique key of an input keeps its rows as keys of a map, with their numbers
(InputSideHasNoUniqueKey of org.apache.flink.table.runtime.operators.join.stream.state.JoinRecordStateViews), so that
rows that lose a column could become one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stateproc.errors import InvalidOption, not_found
from stateproc.query_plans.aggregate_views import is_view
from stateproc.query_plans.deduplication import keeps_keys_only
from stateproc.query_plans.node_definitions import JOIN, MULTI_JOIN, SIDES, TEMPORAL_JOIN, Definition, key_names
from stateproc.query_plans.over_aggregates import OVER, over_time
from stateproc.query_plans.plan_comparison import (
    found_by,
    goes_on,
    input_names,
    is_same,
    operator_key,
    unique_columns,
    unique_keys,
)
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode
from stateproc.query_plans.plan_lineage import (
    definitions,
    nearest_stateful,
    returns_changes,
    source_of_changes,
    stateful_before,
)
from stateproc.query_plans.plan_matching import Pair, state_uid
from stateproc.query_plans.plan_tables import SINK, sink_columns
from stateproc.query_plans.rank_order import (
    ADDED_ROWS,
    ALL_ROWS,
    NUMBERS_OF_ALL_ROWS,
    REPLACED_ROWS,
    keys_of_rows,
    rows_state,
    window_ranks,
)
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.type_text import parse_sql_type

_RECORDS = tuple(f"{side}-records" for side in SIDES)
_ROWS_OF: Mapping[str, tuple[Collection[str], ...]] = {
    JOIN: tuple((name,) for name in _RECORDS),
    "stream-exec-window-join": tuple((name,) for name in _RECORDS),
    "stream-exec-interval-join": (("IntervalJoinLeftCache",), ("IntervalJoinRightCache",)),
    TEMPORAL_JOIN: (("left",), ("right",)),
    OVER: (("inputState", "valueMapState"),),
    SINK: (("values",),),
}
"""Type of node → of each input the states with its rows; of others all states that have rows are of the one input."""
_OF_ACCUMULATORS = ("accState", "accMapState", "sortedListState")
"""States of OVER with other rows: accumulators, and sort keys."""
_OF_INPUTS = "multi-join-input-"
"""States of a multi-join: those with the rows of each input, by its number."""
_WITH_KEYS = ((REPLACED_ROWS, REPLACED_ROWS), (ADDED_ROWS, ADDED_ROWS), (ALL_ROWS, ADDED_ROWS))
"""States of TopN, as it was and as it will be, whose maps have the same keys."""
_NORMALIZE = "stream-exec-changelog-normalize"
_TIMES = ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE")


@dataclass(frozen=True)
class NewColumn:
    """A column that the rows did not have.

    Attributes:
        name: Its name in the new plan.
        expression: Its value in rows from before, in SQL over their columns; None for null.
    """

    name: str
    type: LogicalType
    expression: str | None = None

    @property
    def words(self) -> str:
        """What becomes of it."""
        return f"{self.name} = {self.expression or 'NULL'} in rows from before"


@dataclass(frozen=True)
class WiderColumn:
    """A column whose values go on in a wider type.

    Attributes:
        position: Where it is in the rows as they are.
        type: Its new type.
        words: What becomes of it.
    """

    position: int
    type: LogicalType
    words: str


@dataclass(frozen=True)
class RowConversion:
    """How the rows of one input get other columns.

    Attributes:
        before: The names of the columns as they are.
        columns: The new columns: positions of those that stay, those with a wider type, and those that are new.
        as_keys: Whether the state keeps the rows as keys of a map.
        after_key: Whether the rows are the second field of such keys, after what an input of a multi-join is joined by.
        unique: The new columns that are the keys of the map, of a join's input with a unique key, or of TopN by one.
    """

    before: tuple[str, ...]
    columns: tuple[int | WiderColumn | NewColumn, ...]
    as_keys: bool = False
    after_key: bool = False
    unique: tuple[int, ...] = ()

    @property
    def wider_keys(self) -> dict[int, LogicalType]:
        """The columns of these keys that get a wider type, by their positions in a key."""
        found = enumerate(self.columns[at] for at in self.unique)
        return {at: column.type for at, column in found if isinstance(column, WiderColumn)}

    @property
    def keeps_all(self) -> bool:
        """Whether the rows stay as they are."""
        return self.columns == tuple(range(len(self.before)))

    @property
    def added(self) -> list[NewColumn]:
        """The columns that are new."""
        return [column for column in self.columns if isinstance(column, NewColumn)]

    @property
    def dropped(self) -> list[str]:
        """The names of the columns that do not stay."""
        wider = {column.position for column in self.columns if isinstance(column, WiderColumn)}
        return [name for at, name in enumerate(self.before) if at not in self.columns and at not in wider]

    @property
    def words(self) -> list[str]:
        """What becomes of the columns."""
        gone, changed = self.dropped, [column.words for column in self.columns if not isinstance(column, int)]
        moved = [] if gone or changed else ["columns in another order"]
        return [*changed, *(f"{name} dropped" for name in gone), *moved]


@dataclass(frozen=True)
class NewQuery:
    """The plan of the job that will restore the state, and what follows from it."""

    plan: CompiledPlan

    @cached_property
    def texts(self) -> dict[int, Definition]:
        """What each node computes."""
        return definitions(self.plan)

    @cached_property
    def before(self) -> dict[int, tuple[PlanNode, ...]]:
        """The nearest nodes before each node that hold state, and sources."""
        return stateful_before(self.plan)

    @cached_property
    def changing(self) -> dict[int, PlanNode]:
        """A source before a node that returns changes with all of their columns."""
        return source_of_changes(self.plan)

    def uid(self, node: PlanNode) -> str:
        """Return the uid of the operator of a node that holds its state."""
        return state_uid(self.plan, node)


Fills = Mapping[str, str]
"""What columns have in rows from before: ``UID.column``, of joins also ``UID.left.column`` → an expression in SQL."""


def row_conversions(new: NewQuery, pair: Pair, fills: Fills) -> tuple[RowConversion | None, ...]:
    """Return how the rows of each input get other columns; None for an input whose columns stay; nothing where the new
    node keeps no rows.

    Args:
        new: The query of the job that will restore the state.
        pair: The nodes, and which column is which.
        fills: What columns have in rows from before.

    Raises:
        InvalidOption: A column without a value, a type that is not known, or rows that could not be distinguished.
    """
    found: list[RowConversion | None] = []
    for side, positions in enumerate(_columns_of_rows(pair)):
        before = _names(pair.old, side)
        names, types = _names(pair.new, side), _types(pair.new, side)
        columns = [
            _new_column(new, pair.new, side, names[at], types[at], fills)
            if position is None
            else _kept_column(new, pair, side, position, at)
            for at, position in enumerate(positions)
        ]
        if columns == [*range(len(before))]:
            found.append(None)
            continue
        after_key, unique = len(names_in_keys(pair.new, side)) > 1, _unique_key(pair, side)
        made = RowConversion(before, tuple(columns), _is_key(pair.new, side), after_key, unique)
        if made.as_keys:
            _check_keys(new, pair, side, made)
        elif made.added and _finds_whole_rows(pair.new):
            _check_whole_rows(new, pair.new, made, fills)
        found.append(made)
    return tuple(found)


def kept_rows(pair: Pair) -> RowConversion:
    """Return the conversion of rows of a node's only input that all stay as they are."""
    names = _names(pair.old, 0)
    return RowConversion(names, tuple(range(len(names))))


def _columns_of_rows(pair: Pair) -> tuple[tuple[int | None, ...], ...]:
    """Return `Pair.columns` of the inputs whose rows the new node keeps."""
    return () if pair.columns is None or keeps_keys_only(pair.old, pair.new) else pair.columns


def row_words(made: Sequence[RowConversion | None]) -> list[str]:
    """Return what becomes of the columns of each input's rows."""
    sides = [f"{side}: " for side in input_names(len(made))] if len(made) > 1 else [""] * len(made)
    return [f"{side}{', '.join(one.words)}" for side, one in zip(sides, made, strict=True) if one is not None]


def is_known(node: PlanNode, state: str) -> bool:
    """Whether it is known whose rows a state with rows keeps."""
    if node.kind not in _ROWS_OF or input_of(node, state) is not None:
        return True
    return node.kind == OVER and (state in _OF_ACCUMULATORS or is_view(state))


def input_of(node: PlanNode, state: str) -> int | None:
    """Return the input whose rows a state keeps; None for states of something else."""
    if node.kind == MULTI_JOIN:
        names = [f"{_OF_INPUTS}{number}" for number in range(len(node.sources))]
        return names.index(state) if state in names else None
    if node.kind in _ROWS_OF:
        return next((side for side, names in enumerate(_ROWS_OF[node.kind]) if state in names), None)
    return None if state == NUMBERS_OF_ALL_ROWS else 0


def names_in_keys(node: PlanNode, side: int) -> tuple[tuple[str, ...], ...]:
    """Return the names of the rows in the keys under which a multi-join keeps an input's rows; none of other nodes."""
    return key_names(node, side) if node.kind == MULTI_JOIN else ()


def check_fills(new: NewQuery, pairs: Sequence[Pair], fills: Fills) -> None:
    """Raise NotFound for values of columns that are not new."""
    known = [
        target
        for pair in pairs
        for side, positions in enumerate(_columns_of_rows(pair))
        for name, position in zip(_names(pair.new, side), positions, strict=True)
        if position is None
        for target in _targets(new, pair.new, side, name)
    ]
    for target in fills:
        if target not in known:
            raise not_found("new column of kept rows", target, known)


def _targets(new: NewQuery, node: PlanNode, side: int, name: str) -> Iterator[str]:
    """Yield how a column of an input can be named; of a join without its side if the other has none of that name."""
    uid, inputs = new.uid(node), len(node.sources)
    if not any(name in _names(node, other) for other in range(inputs) if other != side):
        yield f"{uid}.{name}"
    if inputs > 1:
        yield f"{uid}.{input_names(inputs)[side]}.{name}"


def _new_column(new: NewQuery, node: PlanNode, side: int, name: str, written: Any, fills: Fills) -> NewColumn:
    targets = list(_targets(new, node, side, name))
    given = [fills[target] for target in targets if target in fills]
    type_ = column_type(node, name, written)
    if len(given) > 1:
        raise InvalidOption(f"fill: {targets[1]} is filled twice", advice="fill each column once")
    if not given and not type_.nullable:
        raise InvalidOption(
            f"{node.label} ({new.uid(node)}) keeps rows that get the column {name}, which is {type_.sql}: rows "
            "from before have no value of it",
            advice=f"give one, in SQL over their other columns: --fill '{targets[-1]}=EXPRESSION'",
        )
    return NewColumn(name, type_, given[0] if given else None)


def _names(node: PlanNode, side: int) -> tuple[str, ...]:
    """Return the names of the columns of an input's rows; of rows before a sink as its table has them."""
    names = tuple(node.input(side))
    if node.kind != SINK:
        return names
    written = [name for name, _ in sink_columns(node)]
    return (*written, *(names[len(written) :] if node.version > 1 else ()))


def _types(node: PlanNode, side: int) -> list[Any]:
    """Return the types of these columns. Raises InvalidOption for a plan that is not as Flink writes it."""
    types = node.types(side)
    if not isinstance(types, list) or len(types) < len(node.input(side)):
        raise node.error(f"its input {side} has no type for each column")
    if node.kind != SINK:
        return types
    # The materializer has the types of the table, not those of what it reads.
    written = [type_ for _, type_ in sink_columns(node)]
    return [*written, *types[len(written) :]]


def _kept_column(new: NewQuery, pair: Pair, side: int, was: int, at: int) -> int | WiderColumn:
    """Return how a column goes on. Raises InvalidOption for one whose values are not all of the new type."""
    name, before, after = _names(pair.new, side)[at], _types(pair.old, side)[was], _types(pair.new, side)[at]
    if before == after:
        return was
    old, to = column_type(pair.old, name, before), column_type(pair.new, name, after)
    if is_same(old, to):
        return was
    if not goes_on(old, to):
        uid = new.uid(pair.new)
        raise InvalidOption(
            f"{pair.new.label} ({uid}): {name} was {old.sql} and is {to.sql}, which does not have all of its values",
            advice=f"give it a type that is as wide, or let the operator begin without state: --empty {uid}",
        )
    return WiderColumn(was, to, f"{name}: {old.sql} → {to.sql}")


def key_columns(new: NewQuery, pair: Pair) -> tuple[tuple[str, LogicalType, LogicalType], ...]:
    """Return the columns of an operator's key with their old and new types; none where all types stay.

    Raises:
        InvalidOption: A column of the key loses values, or the operator finds its state below the key by one of another
            type.
    """
    for name, old, to in _types_of(pair, found_by(pair.old), found_by(pair.new)):
        _check_found(new, pair, name, old, to, is_found=is_same(old, to))
    both = operator_key(pair.old), operator_key(pair.new)
    exact = [[*keyed, *unique_columns(node)] for keyed, node in zip(both, (pair.old, pair.new), strict=True)]
    for name, old, to in _types_of(pair, *exact):
        # A FLOAT is no more the number that a source gives as DOUBLE: 0.1 would be in two groups.
        is_exact = goes_on(old, to) and (old.kind, to.kind) != ("FLOAT", "DOUBLE")
        _check_found(new, pair, name, old, to, is_found=is_same(old, to) or is_exact)
    # A join has the key of its left side.
    keyed = [[one for one in columns if one[0] == 0] for columns in both]
    if all(is_same(old, to) for _, old, to in _types_of(pair, *keyed)):
        return ()
    return tuple(_types_of(pair, *keyed, unchanged=True))


def _types_of(
    pair: Pair, before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]], *, unchanged: bool = False
) -> Iterator[tuple[str, LogicalType, LogicalType]]:
    """Yield the names of columns, with their old and new types; ``unchanged``: those whose plans have one type, too."""
    for (side, was), (_, at) in zip(before, after, strict=False):
        (name,) = pair.new.chosen(_names(pair.new, side), [at])
        pair.old.chosen(_names(pair.old, side), [was])
        old, to = _types(pair.old, side)[was], _types(pair.new, side)[at]
        if unchanged or old != to:
            yield name, column_type(pair.old, name, old), column_type(pair.new, name, to)


def _check_found(new: NewQuery, pair: Pair, name: str, old: LogicalType, to: LogicalType, *, is_found: bool) -> None:
    if not is_found:
        raise InvalidOption(
            f"{pair.new.label} ({new.uid(pair.new)}) finds its state by {name}, which was {old.sql} and is "
            f"{to.sql}: Flink finds nothing by a value of another type",
            advice=f"keep the type of {name}, or let the operator begin without state: --empty {new.uid(pair.new)}",
        )


def column_type(node: PlanNode, name: str, written: Any) -> LogicalType:
    """Return the type of a column of a node's rows as a plan writes it: in SQL, or of a time of rows as an object.

    Raises:
        InvalidOption: It is not known.
    """
    if isinstance(written, str):
        try:
            return parse_sql_type(written)
        except InvalidOption as error:
            raise _unknown_type(node, name, written) from error
    kind, precision = (written.get(part) if isinstance(written, dict) else None for part in ("type", "precision"))
    if kind in _TIMES and type(precision) is int and 0 <= precision <= 9:
        nullable, attribute = written.get("nullable") is not False, written.get("kind")
        return LogicalType(
            kind, nullable=nullable, precision=precision, attribute=str(attribute) if attribute else None
        )
    raise _unknown_type(node, name, written)


def _unknown_type(node: PlanNode, name: str, written: Any) -> InvalidOption:
    return InvalidOption(
        f"the column {name} of {node.label} has a type that is not known: {str(written)[:80]}",
        advice="let the operator begin without state (evolve: --empty)",
    )


def _is_key(node: PlanNode, side: int) -> bool:
    """Whether an input of a join has no unique key, so that its rows are keys of a map."""
    if node.kind == MULTI_JOIN:
        return not node.items("inputUniqueKeys")[side]
    return node.kind == JOIN and not unique_keys(node, side)


def _unique_key(pair: Pair, side: int) -> tuple[int, ...]:
    """Return the columns by which a join finds the rows of an input below its key, or TopN its rows; none where the key
    is enough, or the input has no unique key."""
    node, keys = pair.new, keys_of_rows(pair.new)
    if keys and (window_ranks(node) is not None or (rows_state(pair.old), rows_state(node)) in _WITH_KEYS):
        return tuple(keys)
    if node.kind != JOIN:
        return ()
    known, joined = unique_keys(node, side), set(node.items("joinSpec", f"{SIDES[side]}Keys"))
    if not known or any(set(one) <= joined for one in known):
        return ()
    shortest: list[int] = min(known, key=len)
    return tuple(shortest)


def _finds_whole_rows(node: PlanNode) -> bool:
    """Whether a node finds a row that is taken back by all of its columns (RetractableTopNFunction, of OVER
    NonTimeRowsUnboundedPrecedingFunction, SinkUpsertMaterializer without a key of the query)."""
    if node.kind == SINK:
        return not node.items("inputUpsertKey")
    return bool(node.at("rankStrategy", "type") == "Retract") or (node.kind == OVER and over_time(node) is None)


def _check_whole_rows(new: NewQuery, node: PlanNode, made: RowConversion, fills: Fills) -> None:
    """Raise InvalidOption unless rows that are taken back have the new columns as the kept rows have them: null, and as
    what normalizes the changes before keeps them, which gets the same columns."""
    changing = [one for one in new.before[node.id] if returns_changes(one)]
    added = {new.texts[node.id].kept[0][at] for at, column in enumerate(made.columns) if isinstance(column, NewColumn)}
    for one in changing:
        is_same = one.kind == _NORMALIZE and one.id not in new.changing and added <= {*new.texts[one.id].columns}
        uids = tuple(f"{new.uid(each)}." for each in (one, node))
        if not is_same or any(target.startswith(uids) for target in fills):
            raise _not_found_again(new, node, one, made)


def _check_keys(new: NewQuery, pair: Pair, side: int, made: RowConversion) -> None:
    """Raise InvalidOption where rows that are keys of a map could not be distinguished, or not be found again."""
    uid = new.uid(pair.new)
    if made.dropped:
        raise InvalidOption(
            f"{pair.new.label} ({uid}) keeps rows of its {input_names(len(pair.new.sources))[side]} input without a "
            f"unique key, by all of their columns: without {', '.join(made.dropped)} several would become one",
            advice=f"let the join begin without state: --empty {uid}",
        )
    before = nearest_stateful(pair.new.sources[side], new.before)
    changing = next((one for one in before if returns_changes(one)), None)
    if changing is not None and made.added:
        raise _not_found_again(new, pair.new, changing, made)


def _not_found_again(new: NewQuery, node: PlanNode, changing: PlanNode, made: RowConversion) -> InvalidOption:
    uid, added = new.uid(node), ", ".join(column.name for column in made.added)
    return InvalidOption(
        f"{node.label} ({uid}) finds rows by all of their columns, and {changing.label} takes back rows with their "
        f"true {added}, which those from before do not have",
        advice=f"let it begin without state: --empty {uid}",
    )
