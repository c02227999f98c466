"""What each kind of node computes, apart from numbers of nodes, and positions and names of columns.

A column is the column of a table, or an expression over such; rows are those of a table, filtered, watermarked,
grouped, joined.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from stateproc.query_plans.deduplication import (
    CHANGES,
    DEDUPLICATE,
    changes_only,
    goes_on_as_other_row,
    keeps_no_rows,
)
from stateproc.query_plans.node_rules import aggregate_calls, counts_rows, retracts
from stateproc.query_plans.over_aggregates import (
    OVER,
    TIMERS_OPTION,
    is_bounded,
    over_calls,
    over_groups,
    over_time,
    timers_of_over,
)
from stateproc.query_plans.plan_file import PlanNode, row_type_types
from stateproc.query_plans.plan_tables import (
    SCAN,
    SINK,
    TABLES,
    declared_columns,
    primary_key,
    sink_columns,
    table_identity,
    table_of,
    table_schema,
)
from stateproc.query_plans.rank_order import last_rank, window_ranks
from stateproc.query_plans.time_bounds import INTERVAL_JOIN, frame_rows, time_bounds, without_bounds

CALC, JOIN, MULTI_JOIN = "stream-exec-calc", "stream-exec-join", "stream-exec-multi-join"
TEMPORAL_JOIN = "stream-exec-temporal-join"
SIDES = ("left", "right")
"""The inputs of a join, by which its attributes and states are called."""
GROUPS, WINDOWS = "groups", "windows"
_GLOBAL = {"stream-exec-global-group-aggregate": GROUPS, "stream-exec-global-window-aggregate": WINDOWS}
_GROUP_WINDOWS = "stream-exec-group-window-aggregate"
_IN_WINDOWS = dict.fromkeys(("stream-exec-window-aggregate", _GROUP_WINDOWS), WINDOWS)
AGGREGATES = {"stream-exec-group-aggregate": GROUPS, **_IN_WINDOWS, **_GLOBAL}
"""Nodes whose state is a row of accumulators per group, or per group and window: in one phase, or after a local one,
which has no state."""
_WAITING = ("over-aggregate", "temporal-sort", "window-deduplicate", "window-rank")
WAITING_ROWS = tuple(f"stream-exec-{name}" for name in _WAITING)
"""Nodes whose state has rows of their input, until their time has come."""
WAITING_JOINS = tuple(f"stream-exec-{name}-join" for name in ("interval", "temporal", "window"))
"""Joins whose state has such rows."""
_REF = "INPUT_REF"
_IGNORED = frozenset({"id", "type", "description", "inputProperties", "uid"})
_OF_FRAMES = ("groups", "constants", "originalInputFields")
"""What OVER says of calls and positions, beside its frame."""
TTL_OPTION = "table.exec.state.ttl"
_UID_OPTIONS = ("table.exec.uid.format", "table.exec.uid.generation")
_UNIQUE_KEYS = ("leftUpsertKeys", "rightUpsertKeys", "leftUniqueKeys", "rightUniqueKeys")
_OF_ONE_SIDE = ("SEMI", "ANTI")
_JOIN_TYPES = ("INNER", "LEFT", "RIGHT", "FULL", *_OF_ONE_SIDE)
_CONDITION = "nonEquiCondition"
_ANY_PARTNERS = {"joinType": None, _CONDITION: None}
"""What a join does not have to be to keep the same rows."""


@dataclass(frozen=True)
class Definition:
    """What a node computes: equal texts for what is equal.

    Attributes:
        rows: The rows that it returns, whatever columns they have.
        columns: Its columns, in their order.
        state: What its state holds.
        frame: What its state is, apart from the calls of an aggregate and the columns of rows that are kept; "" for
            nodes whose state is not converted.
        calls: The calls of an aggregate over groups, in the order of their accumulators.
        kept: The columns of the rows that its state keeps, of each input.
        arguments: What each call is over, apart from its function.
        local: What a local aggregate reads, over which the calls of the global one are.
        any_results: The frame of a node that keeps the same rows and emits others: of a join whatever its type and its
            condition beside the keys are, of TopN whatever its ranks and strategy are, of windows whatever their ranks
            are, of an interval join and OVER whatever their bounds of time or number of rows are, of a deduplication
            whichever row it returns; "" for other nodes.
        condition: Which of the rows that its frame says are kept; "" for all.
        partners: Which rows with the same key are partners in a join.
    """

    rows: str
    columns: tuple[str, ...]
    state: str
    frame: str = ""
    calls: tuple[str, ...] = ()
    kept: tuple[tuple[str, ...], ...] = ()
    arguments: tuple[str, ...] = ()
    local: Definition | None = None
    any_results: str = ""
    condition: str = ""
    partners: str = ""


def definition(node: PlanNode, inputs: Sequence[Definition]) -> Definition:
    """Return what a node computes; ``inputs``: what those compute whose rows it reads.

    Raises:
        InvalidOption: The plan is not as Flink writes it.
    """
    define, number = _DEFINED.get(node.kind, (None, 0))
    try:
        made = None if define is None or number not in (len(inputs), _ANY_NUMBER) else define(node, inputs)
        return _opaque(node, inputs) if made is None else made
    except RecursionError as error:
        raise node.error("an expression is too deep") from error


def _text(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _opaque(node: PlanNode, inputs: Sequence[Definition]) -> Definition:
    """Define a node by all of its attributes, which refer to columns by position, and all columns of its inputs."""
    state = _text(own_definition(node), [[one.rows, *one.columns] for one in inputs])
    return Definition(state, tuple(_text(state, number) for number in range(len(node.columns))), state)


def _scan(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """A table's columns have names. Which of them are read is no part of its rows.

    Other abilities, such as filters, refer to columns by positions, which the declared schema explains.
    """
    table = table_of(node)
    if table is None:
        return None
    abilities = [one for one in node.items(*TABLES[SCAN][:1], "abilities") if not _only_chooses_columns(one)]
    schema = table_schema(node)
    if abilities and schema is None:
        schema = f"unknown {id(node)}"  # Equal to no other.
    rows = _text(SCAN, table_identity(node), abilities, schema if abilities else None)
    types = row_type_types(node.attributes.get("outputType"))
    declared = {str(one.get("name")): one for one in declared_columns(node)}
    columns = tuple(
        _text(rows, name, type_, declared.get(name)) for name, type_ in zip(node.columns, types, strict=False)
    )
    return Definition(rows, columns, rows)


def _only_chooses_columns(ability: Any) -> bool:
    """Whether a source reads fewer columns of a table. Fields within columns have names that may be those of others."""
    if not isinstance(ability, dict) or ability.get("type") != "ProjectPushDown":
        return False
    fields = ability.get("projectedFields") or []
    return isinstance(fields, list) and all(isinstance(path, list) and len(path) == 1 for path in fields)


def _calc(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    if not isinstance(node.at("projection"), list):
        return None
    (before,) = inputs
    columns = tuple(_column(node, expression, before.columns) for expression in node.items("projection"))
    condition = node.at("condition")
    rows = before.rows if condition is None else _filtered(node, before, condition)
    return Definition(rows, columns, _text(rows, columns))


def _watermark(node: PlanNode, inputs: Sequence[Definition]) -> Definition:
    (before,) = inputs
    time = _at(node, before.columns, node.at("rowtimeFieldIndex"))
    rows = _text(node.kind, before.rows, time, _traced(node, node.at("watermarkExpr"), _Columns(before.columns)))
    return Definition(rows, before.columns, _text(rows, before.columns))


def _passing(node: PlanNode, inputs: Sequence[Definition]) -> Definition:
    """Rows with all of their columns, in another order, or of some kinds of changes only."""
    (before,) = inputs
    kind, version, attributes, settings = own_definition(node)
    own = [kind, version, {name: value for name, value in attributes.items() if name != "outputType"}, settings]
    rows = before.rows if node.kind in _SAME_ROWS else _text(own, before.rows)
    return Definition(rows, before.columns, _text(rows, before.columns), local=before.local)


_SAME_ROWS = ("stream-exec-exchange", "stream-exec-mini-batch-assigner")


_OF_FUNCTION = ("internalName", "syntax", "type", "retracts")
"""Parts of a call that say which function of its arguments it is."""


def _aggregate(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """The state is a row of accumulators per group, of windows also per window: of the calls in their order, over
    columns of the input. In two phases it is that of the second, over columns of the input of the first."""
    calls, windows = aggregate_calls(node), node.items("namedWindowProperties")
    if not all(isinstance(one, dict) for one in (*calls, *windows)):
        return None
    (before,) = inputs
    grouped = (before, before.local) if node.kind in _GLOBAL else (_groups(node, before), before)
    groups, over = grouped
    if groups is None or over is None:
        return None
    keys = _all_at(node, groups.columns, node.items("grouping"))
    made = [{**_call(node, over.columns, call), "retracts": retracts(node, at, call)} for at, call in enumerate(calls)]
    rows = _text(groups.rows, keys, node.at("windowing", "window", "type"))
    rest = _rest(node, "grouping", "aggCalls", "generateUpdateBefore", "localAggInputRowType", *_OF_WINDOWS)
    state = _text(rows, made, rest)
    for name in _OF_CALLS:
        rest[1].pop(name, None)
    shown = [*made[: len(node.items("aggCalls"))], *(one.get("property") for one in windows)]
    columns = (*keys, *(_text(rows, one) for one in shown))
    arguments = tuple(map(_arguments, made))
    return Definition(rows, columns, state, _text(rows, rest), tuple(map(_text, made)), arguments=arguments)


def _local_aggregate(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """Return the groups with their accumulators of some rows, which the global aggregate merges."""
    (before,) = inputs
    groups, calls = _groups(node, before), aggregate_calls(node)
    if groups is None or not all(isinstance(call, dict) for call in calls):
        return None
    keys = _all_at(node, groups.columns, node.items("grouping"))
    made = _text(groups.rows, [_call(node, before.columns, call) for call in calls], _rest(node))
    columns = (*keys, *(_text(made, number) for number in range(len(node.columns) - len(keys))))
    return Definition(groups.rows, columns, made, local=before)


_OF_CALLS = ("aggCallNeedRetractions", "indexOfCountStar")
_OF_WINDOWS = ("windowing", "window", "namedWindowProperties")


def _groups(node: PlanNode, before: Definition) -> Definition | None:
    """Return rows in groups, and in the windows that a node assigns or finds in their columns."""
    windowing = node.at("windowing")
    if node.kind == _GROUP_WINDOWS:
        windowing = _group_window(node, before)
    elif AGGREGATES.get(node.kind.replace("local", "global")) == WINDOWS:
        if node.at("windowing", "strategy") not in ("TimeAttribute", "WindowAttached"):
            return None
        windowing = _traced(node, windowing, _Columns(before.columns))
    keys = _all_at(node, before.columns, node.items("grouping"))
    return Definition(_text("groups", before.rows, keys, windowing), before.columns, "")


def _group_window(node: PlanNode, before: Definition) -> Any:
    """Return the window of GROUP BY TUMBLE(…), HOP(…) or SESSION(…), with the column of its time."""
    window, field = node.at("window"), node.at("window", "timeField")
    if not isinstance(window, dict) or not isinstance(field, dict):
        raise node.error("its window has no column of its time")
    own = {name: value for name, value in window.items() if name not in ("alias", "timeField")}
    return [own, _at(node, before.columns, field.get("fieldIndex")), field.get("fieldType")]


def _join(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """The state has the rows of both inputs, by a unique key of theirs or with their numbers.

    What its type decides is whether the number of a row's partners is beside it.
    """
    spec = node.at("joinSpec")
    keys = {name: node.items(name) for name in _UNIQUE_KEYS if node.items(name)}
    if not isinstance(spec, dict) or not all(isinstance(one, list) for many in keys.values() for one in many):
        return None
    traced = _traced(node, spec, _columns_of([one.columns for one in inputs]))
    rows = _text(node.kind, [one.rows for one in inputs], traced)
    unique = {}
    for name, many in keys.items():
        side = inputs[name.startswith("right")].columns
        # Flink 1.15 calls them unique keys, and writes an empty list where there are none.
        unique[name.replace("UniqueKeys", "UpsertKeys")] = [_all_at(node, side, one) for one in many]
    columns = _columns_of_sides(rows, spec, inputs)
    rest = [unique, _rest(node, "joinSpec", *_UNIQUE_KEYS)]
    made = _keeper(rows, columns, rest, inputs)
    if join_type(node) not in _JOIN_TYPES:
        return made
    any_type = _text(node.kind, [one.rows for one in inputs], traced | _ANY_PARTNERS, rest)
    return replace(made, any_results=any_type, partners=_text(traced.get(_CONDITION)))


def join_spec(node: PlanNode) -> Any:
    """Return what a plan says of a join's keys, type and condition; None of other nodes."""
    return node.at("intervalJoinSpec", "joinSpec") if node.kind == INTERVAL_JOIN else node.at("joinSpec")


def join_type(node: PlanNode) -> str:
    """Return the type of a join, such as INNER."""
    spec = join_spec(node)
    return str(spec.get("joinType") if isinstance(spec, dict) else None)


def _columns_of_sides(rows: str, spec: Any, inputs: Sequence[Definition]) -> list[str]:
    """Return the columns of a node that returns those of its inputs; ``spec``: of a join."""
    sides = inputs[:1] if isinstance(spec, dict) and spec.get("joinType") in _OF_ONE_SIDE else inputs
    return [_text(rows, side, column) for side, one in enumerate(sides) for column in one.columns]


def _multi_join(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """The state has the rows of each input, by what it is joined by, and a unique key or all columns (`key_names`)."""
    attributes, unique = node.at("joinAttributeMap") or {}, node.items("inputUniqueKeys")
    many = [*attributes.values(), *unique] if isinstance(attributes, dict) else [None]
    if len(unique) != len(inputs) or not all(isinstance(one, list) for one in many):
        return None
    if not all(isinstance(pair, dict) for pairs in attributes.values() for pair in pairs):
        return None
    names = ("joinTypes", "joinConditions", "multiJoinCondition", "joinAttributeMap", "inputUniqueKeys")
    columns = _Columns(tuple(column for one in inputs for column in one.columns))
    traced = _traced(node, [node.at(name) for name in names[:3]], columns)
    joined = {number: [_joined_columns(node, inputs, pair) for pair in pairs] for number, pairs in attributes.items()}
    keys = [[_all_at(node, one.columns, key) for key in many] for one, many in zip(inputs, unique, strict=True)]
    rows = _text(node.kind, [one.rows for one in inputs], traced, joined)
    made = _keeper(rows, _columns_of_sides(rows, None, inputs), [keys, _rest(node, *names)], inputs)
    return replace(made, state=_text(made.state, [key_names(node, number) for number in range(len(inputs))]))


def _joined_columns(node: PlanNode, inputs: Sequence[Definition], pair: Any) -> list[Any]:
    """Return what one column of an input is joined by: the numbers of both inputs, and the columns."""
    found: list[Any] = []
    for side in SIDES:
        number, position = (pair.get(f"{side}{part}") for part in ("InputId", "FieldIndex"))
        known = type(number) is int and 0 <= number < len(inputs)
        found.append([number, _at(node, inputs[number].columns, position) if known else None])
    return found


def joined_by(node: PlanNode, number: int) -> tuple[int, ...]:
    """Return the positions of the columns by which an input of a multi-join is joined to those before it."""
    pairs = node.items("joinAttributeMap", str(number)) if number else []
    found = [one.get("rightFieldIndex") for one in pairs if isinstance(one, dict)]
    return tuple(one for one in found if type(one) is int)


def key_names(node: PlanNode, number: int) -> tuple[tuple[str, ...], ...]:
    """Return the names of the rows in the keys under which a multi-join keeps an input's rows.

    Of all inputs but the first a key consists of what the input is joined by and of its unique key, which has no names,
    or all of its columns. Flink reads no state whose keys have rows of other names. Source: MultiJoinStateViews,
    AttributeBasedJoinKeyExtractor.
    """
    joined, unique, names = joined_by(node, number), node.items("inputUniqueKeys"), node.input(number)
    keys = unique[number] if number < len(unique) else []
    if not joined or any(set(key) <= set(joined) for key in keys):
        return ()
    first = tuple(f"{name}_key" for name in node.chosen(names, list(joined)))
    return (first,) if keys else (first, names)


def _unique_rows(node: PlanNode, inputs: Sequence[Definition]) -> Definition:
    """One row of each key: the first, the last, or the one that was changed last.

    Flink 2 leaves rows out of a changelog's normalization by a condition that earlier releases evaluate after it.
    """
    (before,) = inputs
    keys = _all_at(node, before.columns, node.items("uniqueKeys"))
    times = _times(node, before)
    changes = changes_only(node) if node.kind == DEDUPLICATE else ("generateUpdateBefore",)
    rest = _rest(node, "uniqueKeys", "filterCondition", *changes)
    rows = _text(node.kind, before.rows, keys, rest, times)
    columns = tuple(_text(rows, column) for column in before.columns)
    made = _keeper(rows, columns, [], inputs)
    if keeps_no_rows(node):
        made = replace(made, state=made.frame)
    if node.at("filterCondition") is not None:
        condition = _text(_traced(node, node.at("filterCondition"), _Columns(before.columns)))
        filtered = _filtered(node, replace(before, rows=rows, columns=columns), node.at("filterCondition"))
        return replace(made, rows=filtered, state=_text(made.state, condition), condition=condition)
    if not goes_on_as_other_row(node):
        return made
    rest = _rest(node, "uniqueKeys", "keepLastRow", *CHANGES)
    return replace(made, any_results=_text(node.kind, before.rows, keys, rest, times))


def _filtered(node: PlanNode, before: Definition, condition: Any) -> str:
    """Return the rows for which a condition is true."""
    return _text("filter", before.rows, _traced(node, condition, _Columns(before.columns)))


def _times(node: PlanNode, before: Definition) -> list[str]:
    """Return the columns that are times of rows, by which Flink decides what is first and last."""
    (source,) = node.sources
    types = row_type_types(source.attributes.get("outputType"))
    pairs = zip(before.columns, types, strict=False) if isinstance(types, list) else ()
    return [column for column, type_ in pairs if isinstance(type_, dict) and "kind" in type_]


def _rank(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """The first rows of each partition, in the order of some columns."""
    (before,) = inputs
    parts = [node.at(name) for name in ("partition", "orderBy", "rankStrategy")]
    order = node.items("orderBy", "fields")
    if node.at("rankRange", "type") != "Constant" or not all(isinstance(one, dict | None) for one in [*parts, *order]):
        return None
    partition, by, strategy = (_traced(node, {} if one is None else one, _Columns(before.columns)) for one in parts)
    rows = _text(node.kind, before.rows, partition, by, node.at("rankType"), node.at("rankRange"))
    rest = _rest(node, "partition", "orderBy", "rankType", "rankRange", "rankStrategy", "generateUpdateBefore")
    columns = [_text(rows, column) for column in before.columns]
    columns += [_text(rows, "number", number) for number in range(len(node.columns) - len(columns))]
    made = _keeper(rows, columns, [strategy, rest], inputs)
    if last_rank(node) is None:
        return made
    of_any_number = [before.rows, partition, by, node.at("rankType")]
    # What is shown does not decide what is kept; the strategy does, see `rank_order`.
    version, attributes, settings = rest
    others = {name: value for name, value in attributes.items() if name != "outputRowNumber"}
    return replace(made, any_results=_text(node.kind, of_any_number, version, others, settings))


def _waiting_rows(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """Rows of the inputs that wait for a time, or for rows of another input that are near in time."""
    version, attributes, settings = _rest(node)
    traced = _traced(node, attributes, _columns_of([one.columns for one in inputs]))
    rows = _text(node.kind, version, settings, [one.rows for one in inputs], traced)
    columns = _columns_of_sides(rows, node.at("joinSpec"), inputs)
    columns += [_text(rows, "number", number) for number in range(len(node.columns) - len(columns))]
    made, others = _keeper(rows, columns, [], inputs), _without_results(node)
    if others is None:
        return made
    of_any = _traced(node, {**attributes, **others}, _columns_of([one.columns for one in inputs]))
    any_results = _text(node.kind, version, settings, [one.rows for one in inputs], of_any)
    spec = join_spec(node)
    partners = (
        "" if spec is None else _text(_traced(node, spec[_CONDITION], _columns_of([one.columns for one in inputs])))
    )
    return replace(made, any_results=any_results, partners=partners)


def _without_results(node: PlanNode) -> dict[str, Any] | None:
    """Return the attributes of a node whose rows wait that decide what it emits, without these; None of other nodes."""
    if window_ranks(node) is not None:
        return {"rankRange": None, "outputRowNumber": None}
    spec = join_spec(node)
    if not isinstance(spec, dict) or join_type(node) not in _JOIN_TYPES or _CONDITION not in spec:
        return None
    if node.kind != INTERVAL_JOIN:
        return {"joinSpec": spec | _ANY_PARTNERS}
    others = without_bounds(node)
    return None if others is None else {"intervalJoinSpec": others | {"joinSpec": spec | _ANY_PARTNERS}}


def _over(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """The state is a row of accumulators per partition, of the calls in their order, and the rows that wait for a time
    or will leave the frame: none if all rows before the current one, by processing time, are in it."""
    (before,) = inputs
    groups, constants, calls = over_groups(node), node.items("overSpec", "constants"), aggregate_calls(node)
    if len(groups) != 1 or len(over_calls(node)) != len(node.columns) - len(before.columns):
        return None
    # Constants come after the columns, and are what refers to them.
    over = (*before.columns, *(_text(_traced(node, one, _Columns(before.columns))) for one in constants))
    version, attributes, settings = _rest(node, TIMERS_OPTION, "overSpec")
    frame = {name: value for name, value in node.at("overSpec").items() if name not in _OF_FRAMES}
    frame["group"] = {name: value for name, value in groups[0].items() if name != "aggCalls"}
    traced = _traced(node, {**attributes, "overSpec": frame}, _columns_of([over]))
    rows = _text(node.kind, version, settings, before.rows, traced)
    made = [{**_call(node, over, call), "retracts": retracts(node, at, call)} for at, call in enumerate(calls)]
    shown = [_text(rows, call) for call in made[: len(over_calls(node))]]
    keeps_rows = is_bounded(node) or over_time(node) != "PROCTIME"
    found = _keeper(
        rows, [*(_text(rows, column) for column in before.columns), *shown], [], inputs if keeps_rows else []
    )
    texts, arguments = tuple(map(_text, made)), tuple(map(_arguments, made))
    state = _text(found.state, texts, timers_of_over(node))
    of_any_bounds = ""
    if time_bounds(node) is not None or frame_rows(node) is not None:
        frame["group"].pop("lowerBound")
        unbounded = _traced(node, {**attributes, "overSpec": frame}, _columns_of([over]))
        of_any_bounds = _text(node.kind, version, settings, before.rows, unbounded)
    return replace(found, state=state, calls=texts, arguments=arguments, any_results=of_any_bounds)


def _arguments(call: Mapping[str, Any]) -> str:
    """Return what a call is over, apart from its function."""
    return _text({name: value for name, value in call.items() if name not in _OF_FUNCTION})


def _materialized(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """Rows before a sink, by its primary key (SinkUpsertMaterializer), with the columns that it writes.

    The first version of the node leaves out columns of metadata, which come after the others.
    """
    (before,) = inputs
    written, keys = sink_columns(node), primary_key(node)
    if node.at("requireUpsertMaterialize") is not True or not keys or len(written) > len(before.columns):
        return None
    kept = before.columns if node.version > 1 else before.columns[: len(written)]
    _, attributes, settings = _rest(node, "dynamicTableSink", "inputChangelogMode")
    if not any(_STRATEGY.search(name) for name in (*attributes, *settings)):
        # Any unique key of the input finds the same rows in a list of them. Flink 1.15 compares whole rows instead.
        attributes.pop("inputUpsertKey", None)
    others = {name: value for name, value in settings.items() if name not in _OF_SINKS}
    states = attributes.pop("state")
    if attributes.get("conflictStrategy") == _DEDUPLICATE:
        del attributes["conflictStrategy"]
    traced = _traced(node, attributes, _Columns(before.columns))
    rows = _text(table_identity(node), before.rows, _all_at(node, before.columns, keys), traced, others)
    made = _keeper(rows, (), states, [replace(before, columns=kept)])
    # The types are those of the table, whatever those of the rows that come are.
    return replace(made, state=_text(made.state, [type_ for _, type_ in written]))


_OF_SINKS = frozenset(
    f"table.exec.sink.{name}"
    for name in "keyed-shuffle not-null-enforcer rowtime-inserter type-length-enforcer upsert-materialize".split()
)
"""Settings that decide how rows come to a sink, and not how they are kept before it."""
_STRATEGY = re.compile("upsertMaterializeStrategy|upsert-materialize-strategy")
"""What says that rows are kept by their unique key, as Flink 2.3 may, and not in lists."""
_DEDUPLICATE = {"behavior": "DEDUPLICATE"}
"""What ON CONFLICT says in Flink 2.3, and earlier releases do without being asked."""


def _windows_of_rows(node: PlanNode, inputs: Sequence[Definition]) -> Definition | None:
    """Return rows with their windows, of which sessions are kept until they end."""
    if holds_rows(node):
        return None
    (before,) = inputs
    version, attributes, settings = _rest(node)
    rows = _text(node.kind, version, settings, before.rows, _traced(node, attributes, _Columns(before.columns)))
    columns = (*before.columns, *(_text(rows, number) for number in range(len(node.columns) - len(before.columns))))
    return Definition(rows, columns, _text(rows, columns))


def holds_rows(node: PlanNode) -> bool:
    """Whether a table function of windows keeps rows: those of sessions, whose end is not known."""
    return node.at("windowing", "window", "type") not in ("TumblingWindow", "HoppingWindow", "CumulativeWindow")


def _keeper(rows: str, columns: Sequence[str], frame: Any, inputs: Sequence[Definition]) -> Definition:
    """Define a node whose state keeps rows of its inputs, with all of their columns."""
    kept = tuple(one.columns for one in inputs)
    made = _text(rows, frame)
    return Definition(rows, tuple(columns), _text(made, kept), made, kept=kept)


def _rest(node: PlanNode, *names: str) -> tuple[int, dict[str, Any], Any]:
    """Return a node's version, its attributes without those that name columns, and its settings."""
    _, version, attributes, settings = own_definition(node)
    return version, {name: value for name, value in attributes.items() if name not in (*names, "outputType")}, settings


def _call(node: PlanNode, before: Sequence[str], call: Mapping[str, Any]) -> Any:
    if counts_rows(call):
        return {"internalName": "COUNT(*)"}
    return {"filterArg": -1, **_traced(node, _without_name(call), _Columns(tuple(before)))}


def _without_name(call: Any) -> Any:
    """Leave out the name that a query gives to an aggregate call, if its function has a name of its own."""
    if not isinstance(call, dict) or "internalName" not in call:
        return call
    return {name: value for name, value in call.items() if name != "name"}


def columns_in(expression: Any) -> set[int]:
    """Return the positions of the columns that an expression is over."""
    found: set[int] = set()
    waiting = [expression]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict) and one.get("kind") == _REF:
            position = one.get("inputIndex")
            found |= {position} if isinstance(position, int) else set()
        elif isinstance(one, dict):
            waiting += one.values()
    return found


def _column(node: PlanNode, expression: Any, before: Sequence[str]) -> str:
    if isinstance(expression, dict) and expression.get("kind") == _REF:
        return _at(node, before, expression.get("inputIndex"))
    return _text(_traced(node, expression, _Columns(tuple(before))))


_POSITIONS = frozenset(
    """
    argList fields filterArg index inputUpsertKey leftKeys leftTimeAttributeIndex leftTimeIndex orderKey partitionKeys
    partition_key_indices primaryKeys rightKeys rightTimeAttributeIndex rightTimeIndex timeAttributeIndex windowEnd
    windowStart
    """.split()
)
"""Attributes that are columns by their positions."""
_LIKE_POSITIONS = re.compile("(Arg|Args|Column|Columns|Field|Fields|Index|Indices|Key|Keys)$")


@dataclass(frozen=True)
class _Columns:
    """The columns to which the positions in attributes refer.

    Attributes:
        all: The columns of all inputs, one after another.
        sides: Of a node with two inputs the columns of each; names of attributes say which.
    """

    all: tuple[str, ...]
    sides: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def text(self) -> str:
        return _text(self.all)

    def of(self, name: str) -> _Columns:
        """Return the columns for an attribute of this name."""
        found = next((columns for side, columns in zip(SIDES, self.sides, strict=False) if name.startswith(side)), None)
        return self if found is None else _Columns(found)


def _columns_of(sides: Sequence[Sequence[str]]) -> _Columns:
    each = tuple(map(tuple, sides))
    return _Columns(tuple(column for one in each for column in one), each if len(each) > 1 else ())


def _traced(node: PlanNode, value: Any, columns: _Columns, name: str = "") -> Any:
    """Return an attribute or an expression with columns instead of their positions; ``name``: the attribute's."""
    if isinstance(value, dict):
        if value.get("kind") == _REF:
            return {"column": _at(node, columns.all, value.get("inputIndex"))}
        # Flink 2 writes no operands where there are none.
        parts = {inner: one for inner, one in _literal(value).items() if (inner, one) != ("operands", [])}
        return {inner: _traced(node, one, columns.of(inner), inner) for inner, one in parts.items()}
    if isinstance(value, list):
        return [_traced(node, one, columns, name) for one in value]
    if type(value) is not int or value == -1:
        return value
    if name in _POSITIONS:
        return _at(node, columns.all, value)
    # What may be a position is only equal if all columns are.
    return [value, columns.text] if _LIKE_POSITIONS.search(name) else value


_NUMBERS: Mapping[str, type[int] | type[float]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), int),
    **dict.fromkeys(("FLOAT", "DOUBLE"), float),
}


def _literal(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an expression; a literal with its number, of which Flink before 1.20 writes some as text."""
    written, type_ = value.get("value"), value.get("type")
    if value.get("kind") != "LITERAL" or not isinstance(written, str) or not isinstance(type_, str):
        return value
    number = _NUMBERS.get(type_.removesuffix(" NOT NULL"))
    try:
        return value if number is None else {**value, "value": number(written)}
    except ValueError:
        return value


def _at(node: PlanNode, before: Sequence[str], position: Any) -> str:
    (found,) = _all_at(node, before, [position])
    return found


def _all_at(node: PlanNode, before: Sequence[str], positions: Any) -> tuple[str, ...]:
    return node.chosen(tuple(before), positions)


_RANKS = ("stream-exec-rank", "stream-exec-sort-limit", "stream-exec-limit")
_ANY_NUMBER = -1
_DEFINED: Mapping[str, tuple[Callable[[PlanNode, Sequence[Definition]], Definition | None], int]] = {
    SCAN: (_scan, 0),
    CALC: (_calc, 1),
    "stream-exec-watermark-assigner": (_watermark, 1),
    **dict.fromkeys(AGGREGATES, (_aggregate, 1)),
    **dict.fromkeys((name.replace("global", "local") for name in _GLOBAL), (_local_aggregate, 1)),
    JOIN: (_join, 2),
    MULTI_JOIN: (_multi_join, _ANY_NUMBER),
    SINK: (_materialized, 1),
    "stream-exec-window-table-function": (_windows_of_rows, 1),
    **dict.fromkeys(WAITING_ROWS, (_waiting_rows, 1)),
    OVER: (_over, 1),
    **dict.fromkeys(WAITING_JOINS, (_waiting_rows, 2)),
    **dict.fromkeys((DEDUPLICATE, "stream-exec-changelog-normalize"), (_unique_rows, 1)),
    **dict.fromkeys(_RANKS, (_rank, 1)),
    **dict.fromkeys(
        ("stream-exec-exchange", "stream-exec-drop-update-before", "stream-exec-mini-batch-assigner"), (_passing, 1)
    ),
}
"""Nodes whose columns are traced, and the numbers of their inputs; others are defined by all that they are and read."""
TRACED = frozenset(_DEFINED)


def own_definition(node: PlanNode) -> Any:
    """Return what a node computes of its inputs, as JSON: its type, version, attributes and settings."""
    attributes = {name: value for name, value in node.attributes.items() if name not in _IGNORED}
    version = 0 if node.kind == SCAN else node.version
    if node.kind in TABLES:
        table = TABLES[node.kind]
        if table_of(node) is not None:
            # A sink's rows are kept by its primary key, and the columns of a source are those that are declared.
            attributes[table[0]] = {**node.at(table[0]), table[1]: [table_identity(node), table_schema(node)]}
    if "outputType" in attributes:
        attributes["outputType"] = row_type_types(attributes["outputType"])
    attributes["state"] = [_state(item) for item in node.items("state")]
    configuration = attributes.pop("configuration", None) or {}
    if not isinstance(configuration, dict):
        raise node.error("its configuration is no object")
    settings = {name: value for name, value in configuration.items() if name not in _UID_OPTIONS}
    if TTL_OPTION in settings:
        settings[TTL_OPTION] = is_on(settings[TTL_OPTION])
    if attributes.get("needRetraction") is False:
        del attributes["needRetraction"]  # Flink before 1.20 does not say so of windows.
    if isinstance(attributes.get("aggCalls"), list):
        attributes["aggCalls"] = [_without_name(call) for call in attributes["aggCalls"]]
    return [node.kind, version, attributes, settings]


def _state(item: Any) -> Any:
    """Return what of a state's settings decides about its layout: whether, not how long, it has a time to live."""
    if not isinstance(item, dict):
        return item
    return {**item, "ttl": is_on(item.get("ttl"))}


def is_on(ttl: Any) -> bool:
    """Return whether state has a time to live, by what a plan says, such as ``0 ms`` or ``1 d``."""
    return str(ttl or "0").strip().partition(" ")[0] not in ("", "0", "0ms", "0s")
