"""What a plan says of an operator's states is what real Flink wrote; rows under its names fill them with the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.errors import DuplicateKey, InvalidOption, InvalidRows, NotFound, SnapshotError, UnsupportedSnapshot
from stateproc.keygroups.operator_ids import operator_id
from stateproc.model.operator import Operator
from stateproc.query_plans.node_rules import NODE_RULES, node_uids
from stateproc.query_plans.node_states import node_states
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.state_parts import Always, Column, Frame, NodeState, Pair, Part, Record, Rows, Windows, Zeros
from stateproc.serializers import Serializer
from stateproc.serializers.runtime.streaming import Timer
from stateproc.writers.bootstrap.plan_frames import frame_of
from tests.helpers.plan_parts import with_inputs
from tests.helpers.planned_states import planned_job

JOBS = [(release, case) for release in ("1.20", "2.3") for case in ("plain", "mini-batch")]


def operators(release: str, case: str) -> Iterator[tuple[str, str]]:
    """The kind and the uid of every operator with state."""
    job = planned_job(release, case)
    known = {operator.operator_id for operator in job.snapshot.operators}
    for node in job.plan.nodes:
        rule = NODE_RULES.get(node.kind)
        uid = node_uids(job.plan, node).get(rule.transformation) if rule else None
        if uid is not None and operator_id(uid) in known:
            yield node.kind.removeprefix("stream-exec-"), uid


def known_states(release: str, case: str, uid: str) -> tuple[NodeState, ...]:
    return node_states(planned_job(release, case).plan, uid)


def stored(release: str, case: str) -> Any:
    """The snapshot, opened without the plan: fields are f0, f1 and so on."""
    return stateproc.open(planned_job(release, case).path / "snapshot")


@pytest.mark.parametrize(("release", "case"), JOBS)
def test_states_that_a_plan_declares_are_those_that_flink_wrote(release: str, case: str) -> None:
    snapshot, compared, refused = stored(release, case), dict[str, int](), list[str]()
    for kind, uid in operators(release, case):
        try:
            states = known_states(release, case, uid)
        except UnsupportedSnapshot as error:
            refused.append(error.message)
            continue
        found = declared(snapshot.operator(operator_id(uid)))
        assert {state.name: shown(state) for state in states} == found, uid
        assert all(state.ttl is False for state in states)
        compared[kind] = compared.get(kind, 0) + 1
    wanted = {"global-group-aggregate", "global-window-aggregate", "deduplicate", "join"}
    if case == "plain":
        wanted = {"group-aggregate", "window-aggregate", "deduplicate", "join", "rank", "sort-limit", "limit"}
        wanted |= {"changelog-normalize", "sink", "group-window-aggregate", "over-aggregate"}
        wanted |= {"interval-join", "temporal-join"}
    assert set(compared) == wanted and sum(compared.values()) > 3, compared
    assert all(": " in text for text in refused)


def shown(state: NodeState) -> tuple[str, ...]:
    value = state.value.serializer.type_name
    if state.is_list:
        value = f"List<{value}>"
    if state.map_key is not None:
        value = f"Map<{state.map_key.serializer.type_name}, {value}>"
    return unnamed(state.key.serializer), re.sub(NAMES, "", value)


NAMES = r"(?<=[<, ])(f\d+|id|order_id|product|payer|amount|ts|name|customer|city|proc) (?=[A-Z])"
"""Names of fields, which Flink does not store."""


def unnamed(serializer: Serializer) -> str:
    return re.sub(NAMES, "", serializer.type_name)


def declared(operator: Operator) -> dict[str, tuple[str, ...]]:
    found = {}
    for state in operator.keyed_states:
        (header,) = {id(file.header): file.header for file in operator.keyed_files if file.header}.values()
        (info,) = [one for one in header.states if one.name == state.name]
        if info.value_serializer is not None and not state.is_timers:
            found[state.name] = (unnamed(header.key), unnamed(info.value_serializer))
    return found


def namespaces(operator: Operator) -> dict[str, str]:
    """The serializers of namespaces, of windows with their classes; of timers, too."""
    headers = {id(file.header): file.header for file in operator.keyed_files if file.header}.values()
    found = {}
    for info in (info for one in headers for info in one.states):
        owner = info.value_serializer if info.name.startswith("_timer_state") else info
        found[info.name] = repr(owner.namespace if isinstance(owner, Timer) else info.namespace_serializer)
    return found


# Rows that Flink wrote, under the columns of the plan, are written again.


def fillable(release: str, case: str) -> list[str]:
    found = []
    for _, uid in operators(release, case):
        try:
            known_states(release, case, uid)
        except SnapshotError:
            continue
        found.append(uid)
    return found


def flat(state: NodeState, row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if state.slices is not None:
        found[state.slices.column] = list(row["namespace"].values())[1]
        if isinstance(state.slices, Windows):
            found[state.slices.start] = next(iter(row["namespace"].values()))
    assign(state.key, row["key"], found)
    if state.map_key is None:
        assign(state.value, row["value"], found)
    else:
        assign(state.map_key, row["map_key"], found)
        assign(state.value, row["map_value"] if "map_value" in row else row["value"], found)
    return found


def assign(part: Part, value: Any, found: dict[str, Any]) -> None:
    if isinstance(part, Record):
        for name, one in zip(part.columns, value.values(), strict=True):
            if name in part.rows:
                assign(part.rows[name], one, found)
            else:
                found[name] = one
    elif isinstance(part, Pair):
        first, second = value.values()
        assign(part.first, first, found)
        assign(part.second, second, found)
    elif isinstance(part, Zeros):
        found[part.number.name] = len(value)
    elif isinstance(part, Rows) and part.mark is not None:
        found[part.name] = [one["record"] | {"joined": one["joined"]} for one in value]
    elif isinstance(part, Column | Rows):
        found[part.name] = value


def has_slices(release: str, case: str, uid: str) -> bool:
    return any(state.slices is not None for state in known_states(release, case, uid))


def rows_of(operator: Any, state: str, maps: bool) -> list[dict[str, Any]]:
    return [timeless(row) for row in operator.state(state).to_arrow(flatten=maps).to_pylist()]


def timeless(value: Any) -> Any:
    """A row without the times at which the values of FIRST_VALUE and LAST_VALUE came."""
    if not isinstance(value, dict):
        return value
    return {name: 0 if name in ("firstOrder", "lastOrder") else timeless(part) for name, part in value.items()}


@pytest.mark.parametrize(("release", "case", "uid"), [(*job, uid) for job in JOBS for uid in fillable(*job)])
def test_rows_under_the_names_of_the_plan_fill_the_same_state(
    release: str, case: str, uid: str, tmp_path: Path
) -> None:
    job, snapshot = planned_job(release, case), stored(release, case)
    operator, names = snapshot.operator(operator_id(uid)), job.snapshot.operator(operator_id(uid))
    frames, expected = {}, {}
    for state in known_states(release, case, uid):
        if state.is_derived:
            continue
        maps = state.map_key is not None
        expected[state.name] = sorted(map(repr, rows_of(operator, state.name, maps)))
        if isinstance(state.value, Rows) and isinstance(state.value.mark, Always):
            # Flink never reads whether rows were joined that are not emitted alone.
            expected[state.name] = [one.replace("True", "False") for one in expected[state.name]]
        if state.name == "session-window-mapping":
            continue
        if state.rows is not None:
            assert not expected[state.name]
            continue
        rows = [flat(state, row) for row in rows_of(names, state.name, maps)]
        assert len(rows) == len(expected[state.name])
        types = {name: pa.array([row[name] for row in rows]).type for name in state.columns if rows}
        frames[state.name] = pa.Table.from_pylist(
            [dict(reversed(row.items())) for row in rows],
            pa.schema([(name, types.get(name, pa.int64())) for name in reversed(state.columns)]),
        )
    queues = ["_timer_state/event_window-timers"] if has_slices(release, case, uid) else []
    frame = frame_of(known_states(release, case, uid))
    if frame is not None:
        expected |= expected_of_frame(operator, frame, frames)
    elif "IntervalJoinLeftCache" in frames:
        by_row_time = any(state.waiting and state.waiting.by_row_time for state in known_states(release, case, uid))
        frames |= {"watermark": pa.table({"watermark": [0]})} if by_row_time else {}
        queue = EVENT_TIMERS if by_row_time else PROCESSING_TIMERS
        timers = (*(f"IntervalJoin{side}TimerState" for side in ("Left", "Right")), queue)
        expected |= {name: sorted(map(repr, rows_of(operator, name, False))) for name in timers}
    elif "next-index" in operator:
        # The last watermark before the version that waits; what follows is in test_filled_temporal_joins.py.
        frames["watermark"] = pa.table({"watermark": [1704067349000]})
    elif queues:
        watermark = pa.array([], pa.int64())
        if "watermark" in [state.name for state in operator.states]:
            watermark = operator.state("watermark").to_arrow().column("value").combine_chunks().unique()
        frames["watermark"] = pa.table({"watermark": watermark})
        expected |= {name: sorted(map(repr, rows_of(operator, name, False))) for name in queues}
    given: Any = frames if len(frames) > 1 else next(iter(frames.values()))
    made = OperatorBootstrap.from_plan(job.path / "plan.json", uid, given)
    writer = SavepointWriter.new_savepoint(None).with_operator(uid, made).with_max_parallelism(8)
    writer.with_flink_version(release).write(tmp_path / "filled")
    filled = stateproc.open(tmp_path / "filled").operator(operator_id(uid))
    assert declared(filled) == declared(operator)
    assert namespaces(filled).items() <= namespaces(operator).items()
    if queues and frame is None:
        assert ("watermark" in [one.name for one in filled.states]) == (
            "watermark" in [one.name for one in operator.states]
        )
        if len(watermark):
            assert {row["value"] for row in filled.state("watermark").to_arrow().to_pylist()} == {
                *watermark.to_pylist()
            }
    if "session-window-mapping" in expected:
        # Which of the windows that were merged has the aggregates is known by the mapping alone.
        rows = rows_of(filled, "session-window-mapping", True)
        assert all(row["map_key"] == row["map_value"] for row in rows)
        assert sorted((repr(row["key"]), repr(row["map_key"])) for row in rows) == sorted(
            (repr(row["key"]), repr(row["map_key"])) for row in rows_of(operator, "session-window-mapping", True)
        )
        del expected["session-window-mapping"]
    for name, wanted in expected.items():
        assert sorted(map(repr, rows_of(filled, name, "map" in str(filled.state(name).kind)))) == wanted
    if frame is not None:
        check_cleanup(operator, filled, frame)


def expected_of_frame(operator: Operator, frame: Frame, frames: dict[str, pa.Table]) -> dict[str, list[str]]:
    """What follows from the rows of OVER; adds the watermark that the timers say."""
    found = {}
    for name in ("lastTriggeringTsState", "processedCountState", "smallestTSState"):
        if name in operator:
            found[name] = sorted(map(repr, rows_of(operator, name, False)))
    if frame.by_row_time:
        watermark = watermark_of_timers(operator)
        frames["watermark"] = pa.table({"watermark": pa.array([watermark], pa.int64())})
        if frame.millis is None:
            found[EVENT_TIMERS] = sorted(map(repr, rows_of(operator, EVENT_TIMERS, False)))
    return found


EVENT_TIMERS, PROCESSING_TIMERS = (f"_timer_state/{kind}_user-timers" for kind in ("event", "processing"))


def watermark_of_timers(operator: Operator) -> int:
    """A watermark of the job: that before the first timer."""
    return min(row["timestamp"] for row in rows_of(operator, EVENT_TIMERS, False)) - 1


def check_cleanup(operator: Operator, filled: Operator, frame: Frame) -> None:
    """State is dropped when all rows have left the frame, which Flink sets again only after some time."""
    if frame.millis is None:
        return
    latest: dict[str, int] = {}
    for row in rows_of(operator, "inputState", True):
        latest[repr(row["key"])] = max(row["map_key"], latest.get(repr(row["key"]), 0))
    for one in (operator, filled):
        times = {repr(row["key"]): row["value"] for row in rows_of(one, "cleanupTsState", False)}
        assert times.keys() == latest.keys()
        for key, due in times.items():
            assert latest[key] + frame.millis < due <= latest[key] + frame.millis * 3 // 2 + 1
        timers = rows_of(one, EVENT_TIMERS if frame.by_row_time else PROCESSING_TIMERS, False)
        assert {(repr(row["key"]), row["timestamp"]) for row in timers} >= set(times.items())


# What is refused, and what rows need not have.

PLAN = planned_job("1.20", "plain").path / "plan.json"
TOTALS, JOIN, OUTER, LIMIT = "40_group-aggregate", "61_join", "71_join", "170_rank"


def filled(uid: str, rows: Any, folder: Path, plan: Any = PLAN, max_parallelism: int = 128, **options: Any) -> Any:
    """An operator that is written from rows, as it is read with the plan."""
    writer = SavepointWriter.new_savepoint(None, max_parallelism)
    writer.with_operator(uid, OperatorBootstrap.from_plan(plan, uid, rows, **options)).write(folder / "filled")
    return stateproc.open(folder / "filled", plan=plan).operator(uid)


def values(operator: Any, state: str) -> list[Any]:
    return [row.get("value", row.get("map_value")) for row in operator.state(state).to_arrow(flatten=True).to_pylist()]


@pytest.mark.parametrize(
    ("uid", "rows", "error", "text"),
    [
        ("1_calc", pa.table({}), NotFound, r"no operator '1_calc' in the plan.*(?s:.)*40_group-aggregate"),
        ("6_group-aggregate", pa.table({}), InvalidOption, "{'accState': rows, 'distinctAcc_0': rows}"),
        ("34_group-aggregate", pa.table({}), InvalidOption, r"'agg1\$map': rows, 'agg2\$list': rows}"),
        ("200_window", pa.table({}), UnsupportedSnapshot, "its states are not filled from rows"),
        ("212_group-window-aggregate", pa.table({}), InvalidOption, "{'window-aggs': rows, 'watermark': rows}"),
        ("189_window-aggregate", pa.table({}), InvalidOption, "{'window-aggs': rows, 'watermark': rows}"),
        (
            "10_group-aggregate",
            pa.table({}),
            InvalidOption,
            r"'agg1\$map': rows, 'agg2\$map': rows, 'agg3\$list': rows}",
        ),
        ("118_deduplicate", pa.table({}), UnsupportedSnapshot, "the first row by its time"),
        ("147_rank", pa.table({}), UnsupportedSnapshot, "of TopN only"),
        (TOTALS, pa.table({"customer": [1], "n": [1]}), NotFound, "no column 'spent'"),
        (TOTALS, {"other": pa.table({})}, NotFound, "no state 'other'"),
        (TOTALS, {}, InvalidOption, r"the state accState of operator .* has no rows(?s:.)*customer, n, spent"),
        (TOTALS, [1], InvalidOption, "the rows are a list"),
        (JOIN, pa.table({"id": [1]}), InvalidOption, "has 2 states, and rows are given once"),
        (JOIN, {"left-records": pa.table({"id": [1]})}, InvalidOption, "right-records of operator .* has no rows"),
    ],
)
def test_what_a_plan_does_not_fill(uid: str, rows: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        OperatorBootstrap.from_plan(PLAN, uid, rows)


def test_values_that_do_not_fit_are_refused_with_their_row(tmp_path: Path) -> None:
    for column, value, text in (("n", 1.5, "1.5"), ("spent", "x", "string"), ("customer", 0.5, "0.5")):
        rows = {"customer": 1, "n": 1, "spent": 1.0} | {column: value}
        with pytest.raises(SnapshotError, match=text):
            filled(TOTALS, pa.Table.from_pylist([rows]), tmp_path)
        assert not (tmp_path / "filled").exists()
    sides = {
        "left-records": pa.table({"id": [None]}),
        "right-records": pa.table({"order_id": [1], "payer": [""], "paid": [0.5]}),
    }
    with pytest.raises(InvalidRows, match="null"):
        filled(JOIN, sides, tmp_path)


def test_a_sum_of_nothing_is_null_or_zero_as_flink_has_it(tmp_path: Path) -> None:
    """A count that is null would stay null, and so would the sum of an average."""
    rows = pa.table({"customer": [1, None], "n": [None, 2], "spent": pa.array([None, None], pa.float64())})
    assert sorted(map(repr, values(filled(TOTALS, rows, tmp_path), "accState"))) == [
        "{'n': 0, 'spent': None}", "{'n': 2, 'spent': None}"
    ]  # fmt: skip


def test_a_key_of_the_right_input_may_be_null_where_those_of_the_left_are_not(tmp_path: Path) -> None:
    """Flink writes all keys with the type of the left one, NOT NULL, which it does not check."""
    sides = {
        "left-records": pa.table({"id": [1]}),
        "right-records": pa.table({"order_id": [None, 1], "payer": ["a", None], "paid": [0.5, None]}),
    }
    made = filled(JOIN, sides, tmp_path)
    rows = made.state("right-records").to_arrow(flatten=True).to_pylist()
    assert sorted((repr(row["key"]), row["map_key"]["payer"]) for row in rows) == [
        ("{'id': 1}", None), ("{'id': None}", "a")
    ]  # fmt: skip
    assert made.keyed_files[0].header.key.type_name == "ROW<f0 BIGINT NOT NULL>"


def test_an_average_of_decimals_keeps_their_sum_with_their_scale(tmp_path: Path) -> None:
    plan = json.loads(PLAN.read_text())
    node, source = ({one["id"]: one for one in plan["nodes"]}[number] for number in (40, 39))
    source["outputType"] = "ROW<`customer` BIGINT, `amount` DECIMAL(20, 3) NOT NULL>"
    node["aggCalls"][1] |= {"internalName": "$AVG$1", "type": "DECIMAL(38, 6) NOT NULL"}
    rows = pa.table(
        {
            "customer": [1],
            "n": [2],
            "spent_sum": [Decimal("-12345678901234567890123456789012345.678")],
            "spent_count": [3],
        }
    )
    (found,) = values(filled(TOTALS, rows, tmp_path, plan), "accState")
    assert found == {"n": 2, "spent_sum": Decimal("-12345678901234567890123456789012345.678"), "spent_count": 3}
    (state,) = node_states(read_plan(plan), TOTALS)
    assert state.value.serializer.type_name == "ROW<f0 BIGINT, f1 DECIMAL(38, 3), f2 BIGINT>"


def test_rows_of_a_join_are_there_once_unless_they_say_how_often(tmp_path: Path) -> None:
    sides = {
        "left-records": pa.table({"id": [1, 2], "customer": [7, None], "associations": [0, 3], "count": [5, 1]}),
        "right-records": pa.table({"customer": pa.array([], pa.int64()), "name": pa.array([], pa.string())}),
    }
    assert values(filled(OUTER, sides, tmp_path), "left-records") == [
        {"count": 5, "associations": 0},
        {"count": 1, "associations": 3},
    ]
    once = sides | {"left-records": sides["left-records"].drop_columns(["count"])}
    assert values(filled(OUTER, once, tmp_path / "once"), "left-records") == [
        {"count": 1, "associations": 0},
        {"count": 1, "associations": 3},
    ]
    twice = {**once, "left-records": pa.concat_tables([once["left-records"]] * 2)}
    with pytest.raises(DuplicateKey):
        filled(OUTER, twice, tmp_path / "twice")
    with pytest.raises(NotFound, match="no column 'associations'"):
        OperatorBootstrap.from_plan(PLAN, OUTER, once | {"left-records": pa.table({"id": [1], "customer": [7]})})


SIDES = {
    "left-records": pa.table({"id": [1, 2], "count": [1, 1]}),
    "right-records": pa.table({"order_id": [1], "payer": ["card"], "paid": [0.5]}),
}
OFFER = pa.list_(pa.struct([("id", pa.int64()), ("product", pa.string()), ("amount", pa.float64())]))


@pytest.mark.parametrize("count", [None, 0, -1])
def test_a_number_of_rows_is_at_least_one(count: int | None, tmp_path: Path) -> None:
    """Flink would fail on null, and take a row for one that is not there."""
    left = pa.table({"id": [1, 2], "count": pa.array([1, count], pa.int32())})
    with pytest.raises(InvalidRows, match=f"column 'count'.* {count} in row 1"):
        filled(JOIN, SIDES | {"left-records": left}, tmp_path)


WRONG_COUNTS: list[tuple[pa.Array, str]] = [
    (pa.array([Decimal(1), Decimal(0)], pa.decimal128(38, 0)), "below 1, and is 0 in row 1"),
    (pa.array([Decimal(1), None], pa.decimal128(38, 0)), "below 1, and is None in row 1"),
    (pa.array([Decimal("1.0"), Decimal("1.5")]), "whole numbers .*, and is 1.5 in row 1"),
    (pa.array([Decimal(1), Decimal(2**63)], pa.decimal128(38, 0)), f"whole numbers .*, and is {2**63} in row 1"),
    (pa.array([1.0, 0.0]), "below 1, and is 0 in row 1"),
    (pa.array([1.0, -0.0]), "below 1, and is 0 in row 1"),
    (pa.array([3.0, -1.0]), "below 1, and is -1 in row 1"),
    (pa.array([1.0, 2.5]), r"whole numbers \(double is given\), and is 2.5 in row 1"),
    (pa.array([1.0, float("nan")]), "whole numbers .*, and is nan in row 1"),
    (pa.array(["1", "0"]), "below 1, and is 0 in row 1"),
]
RIGHT_COUNTS = [
    pa.array([Decimal(2), Decimal(1)], pa.decimal128(38, 0)), pa.array([2.0, 1.0]), pa.array([2, 1], pa.uint64())
]  # fmt: skip


@pytest.mark.parametrize(("counts", "text"), WRONG_COUNTS)
def test_a_number_of_rows_of_another_type_is_a_whole_number(counts: pa.Array, text: str, tmp_path: Path) -> None:
    """The sums of DuckDB are DECIMAL(38, 0)."""
    with pytest.raises(InvalidRows, match=f"column 'count'.* {text}"):
        filled(JOIN, SIDES | {"left-records": pa.table({"id": [1, 2], "count": counts})}, tmp_path)
    rows = {"city": ["Rome"] * 2, "name": ["a", "b"], "count": counts}
    plan = calling(call("FIRST_VALUE", 1))
    with pytest.raises(InvalidRows, match=f"column 'count'.* {text}"):
        filled(CHANGING, firsts() | {"agg0$valueToOrderMap": pa.table(rows)}, tmp_path / "first", plan)
    plan = calling(call("MIN", 1))
    totals = {"city": ["Rome"], "min_name": ["a"], "min_name_mapSize": [2], "row_count": [2]}
    with pytest.raises(InvalidRows, match=f"column 'count'.* {text}"):
        filled(CHANGING, {"accState": pa.table(totals), "agg0$map": pa.table(rows)}, tmp_path / "min", plan)


@pytest.mark.parametrize("counts", RIGHT_COUNTS, ids=lambda counts: str(counts.type))
def test_numbers_of_rows_are_those_of_any_type(counts: pa.Array, tmp_path: Path) -> None:
    left = pa.table({"id": [1, 2], "count": counts})
    assert sorted(values(filled(JOIN, SIDES | {"left-records": left}, tmp_path), "left-records")) == [1, 2]
    rows = pa.table({"city": ["Rome"] * 2, "name": ["a", "b"], "count": counts})
    made = filled(
        CHANGING, firsts() | {"agg0$valueToOrderMap": rows}, tmp_path / "first", calling(call("FIRST_VALUE", 1))
    )
    assert dict(made.state("agg0$valueToOrderMap").to_arrow().to_pylist()[0]["value"]) == {"a": [0, 0], "b": [0]}


def firsts() -> dict[str, pa.Table]:
    return {
        "accState": pa.table({"city": ["Rome"], "first_value_name": ["a"], "row_count": [3]}),
        "agg0$valueToOrderMap": pa.table({"city": ["Rome"] * 2, "name": ["a", "b"], "count": [2, 1]}),
        "agg0$orderToValueMap": pa.table({"city": ["Rome"], "name": [["a", "b", "a"]]}),
    }


def test_a_value_that_is_there_more_often_than_a_list_has_elements_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"city": ["Rome"], "name": ["a"], "count": [2**31]})
    with pytest.raises(InvalidRows, match="'count' cannot be over 2147483647, and is 2147483648 in row 0"):
        filled(CHANGING, firsts() | {"agg0$valueToOrderMap": rows}, tmp_path, calling(call("FIRST_VALUE", 1)))


@pytest.mark.parametrize("partners", [pa.array([0, None]), pa.array([0, -1]), pa.array([0.0, 0.5])])
def test_a_number_of_partners_is_a_whole_number(partners: pa.Array, tmp_path: Path) -> None:
    sides = {
        "left-records": pa.table({"id": [1, 2], "customer": [7, None], "associations": partners}),
        "right-records": pa.table({"customer": pa.array([], pa.int64()), "name": pa.array([], pa.string())}),
    }
    with pytest.raises(InvalidRows, match=r"'associations' .* in row 1"):
        filled(OUTER, sides, tmp_path)


SEEN, TUMBLE, HOP, CUMULATE = (
    "6_group-aggregate",
    "183_window-aggregate",
    "189_window-aggregate",
    "192_window-aggregate",
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2024-01-01T{text}")


def test_distinct_has_seen_null_in_a_state_of_its_own(tmp_path: Path) -> None:
    totals = {"customer": [1], "product": ["tea"], "n": [3], "total": [1.0], "largest": [1.0], "mean_sum": [3]}
    rows = {
        "accState": pa.table(totals | {"mean_count": [3], "ids": [2]}),
        "distinctAcc_0": pa.table({"customer": [1] * 3, "product": ["tea"] * 3, "id": [4, 5, None]}),
    }
    batches = rows["distinctAcc_0"].to_batches()
    stream = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    made = filled(SEEN, rows | {"distinctAcc_0": stream}, tmp_path)
    assert made.state("distinctAcc_0").to_arrow().to_pylist()[0]["value"] == [(4, 1), (5, 1)]
    assert values(made, "distinctAcc_0_null_state") == [1]
    nothing = pa.RecordBatchReader.from_batches(batches[0].schema, [])
    assert not values(filled(SEEN, rows | {"distinctAcc_0": nothing}, tmp_path / "empty"), "distinctAcc_0_null_state")
    with pytest.raises(NotFound, match="no column 'id'"):
        filled(SEEN, rows | {"distinctAcc_0": rows["accState"]}, tmp_path / "absent")
    with pytest.raises(DuplicateKey):
        filled(SEEN, rows | {"distinctAcc_0": pa.concat_tables([rows["distinctAcc_0"]] * 2)}, tmp_path / "twice")


def hops(ends: list[Any], watermark: Any, column: str = "slice_end") -> dict[str, pa.Table]:
    n = len(ends)
    rows = {"product": ["tea"] * n, "largest": [*map(float, range(n))], "row_count": [1] * n, "total": [1.0] * n}
    return {
        "window-aggs": pa.table(rows | {column: pa.array(ends)}),
        "watermark": pa.table({"watermark": pa.array(watermark, pa.timestamp("ms"))}),
    }


def timers(operator: Any) -> list[tuple[Any, str]]:
    found = operator.state("_timer_state/event_window-timers").to_arrow().to_pylist()
    ends = [list(row["namespace"].values())[1].replace(tzinfo=timezone.utc) for row in found]
    assert [row["timestamp"] for row in found] == [round(end.timestamp() * 1000) - 1 for end in ends]
    return sorted((row["key"]["product"], f"{end:%H:%M}") for row, end in zip(found, ends, strict=True))


@pytest.mark.parametrize(
    ("watermark", "left", "due"),
    [
        (None, 4, ["00:01", "00:02", "00:03", "00:06"]),
        ("00:00:59.998", 4, ["00:01", "00:02", "00:03", "00:06"]),
        ("00:00:59.999", 4, ["00:02", "00:03", "00:06"]),
        ("00:02:59.998", 4, ["00:03", "00:06"]),
        ("00:02:59.999", 3, ["00:04", "00:06"]),
        ("00:05", 1, ["00:06"]),
        ("00:06", 1, ["00:07"]),
        ("00:09", 0, []),
    ],
)
def test_slices_are_left_out_after_their_last_window_and_have_a_timer_for_the_next(
    watermark: str | None, left: int, due: list[str], tmp_path: Path
) -> None:
    """Windows of three minutes begin each minute."""
    ends = [at("00:01"), at("00:02"), at("00:03"), at("00:06")]
    made = filled(HOP, hops(ends, [watermark and at(watermark)]), tmp_path)
    assert len(values(made, "window-aggs")) == left
    assert timers(made) == [("tea", time) for time in due]
    assert made.state("watermark").to_arrow().num_rows == (watermark is not None)


def test_windows_of_a_key_that_is_null_have_one_timer(tmp_path: Path) -> None:
    rows = hops([at("00:01"), at("00:02")], [at("00:01:30")])
    rows["window-aggs"] = rows["window-aggs"].set_column(0, "product", pa.nulls(2, pa.string()))
    made = filled(HOP, rows, tmp_path, max_parallelism=1024)
    assert len(values(made, "window-aggs")) == 2 and timers(made) == [(None, "00:02")]


@pytest.mark.parametrize(
    ("uid", "rows", "error", "text"),
    [
        (HOP, hops([at("00:01:30")], []), InvalidRows, "ends at 1704067290000 ms is not one of the query's"),
        (HOP, hops([at("00:01"), None], []), InvalidRows, "'slice_end' cannot be null, and is in row 1"),
        (HOP, hops([at("00:01:00.000001")], []), InvalidRows, "a time that is no millisecond"),
        (HOP, hops(["00:01"], []), InvalidOption, "'slice_end' is string, where the end of a window"),
        (HOP, hops([at("00:01")], [at("00:01")] * 2), InvalidOption, "2 rows with a watermark"),
        (HOP, hops([at("00:01")], [], "window_end"), NotFound, "no column 'slice_end'"),
        (HOP, {"window-aggs": hops([], [])["watermark"]}, InvalidOption, "watermark of operator .* has no rows"),
        (CUMULATE, hops([at("00:02")], [at("00:05")]), InvalidRows, "was emitted, so that its slices are one"),
    ],
)
def test_slices_that_a_query_does_not_have_are_refused(
    uid: str, rows: Any, error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text):
        filled(uid, rows, tmp_path)


def test_slices_of_a_window_that_cumulates_are_merged_into_the_first(tmp_path: Path) -> None:
    """Windows of an hour, that are emitted each minute."""
    made = filled(CUMULATE, hops([at("00:01"), at("00:07"), at("00:58")], [at("00:05")]), tmp_path)
    assert len(values(made, "window-aggs")) == 3
    assert timers(made) == [("tea", "00:06"), ("tea", "00:07"), ("tea", "00:58")]
    closed = filled(CUMULATE, hops([at("00:02"), at("01:01")], [at("01:00")]), tmp_path / "closed")
    assert timers(closed) == [("tea", "01:01")]


def call(function: str, *arguments: int, distinct: bool = False) -> dict[str, Any]:
    name = f"${function}$1"
    return {"name": None, "internalName": name, "argList": list(arguments), "filterArg": -1, "distinct": distinct,
            "approximate": False, "ignoreNulls": False, "type": "BIGINT"}  # fmt: skip


def test_slices_that_would_be_merged_otherwise_are_refused() -> None:
    """Slices of LISTAGG are joined by what they keep."""
    plan = read_plan(edited(lambda node: node.update(aggCalls=[call("LISTAGG", 0, 0)]), HOP))
    with pytest.raises(
        UnsupportedSnapshot, match=r"LISTAGG\(.*, with a delimiter, is not filled from rows for windows"
    ):
        node_states(plan, HOP)


@pytest.mark.parametrize(
    ("offset", "millis"),
    [
        ("PT-8H", -28_800_000), ("PT-1H-30M", -5_400_000), ("PT-0.5S", -500), ("PT-1M0.25S", -59_750),
        ("-PT8H", -28_800_000), ("PT8H", 28_800_000), ("PT0S", 0), ("P1DT1S", 86_401_000), ("PT-1.000000001S", -1000),
    ],
)  # fmt: skip
def test_windows_may_begin_before_and_after_the_hour(offset: str, millis: int) -> None:
    plan = read_plan(edited(lambda node: node["windowing"]["window"].update(offset=offset), HOP))
    (state,) = node_states(plan, HOP)
    assert state.slices is not None and state.slices.offset == millis


def test_a_job_that_has_ended_has_no_open_slices(tmp_path: Path) -> None:
    rows = hops([at("00:01")], []) | {"watermark": pa.table({"watermark": pa.array([2**63 - 1])})}
    made = filled(HOP, rows, tmp_path)
    assert values(made, "window-aggs") == []
    assert made.state("watermark").to_arrow().column("value").to_pylist() == [2**63 - 1]


def test_the_end_of_a_window_is_not_taken_for_a_column_that_distinct_has_seen() -> None:
    written = re.sub(r'("name"\s*:\s*)"customer"', r'\1"window_end"', PLAN.read_text())
    window, seen, _ = node_states(read_plan(json.loads(written)), TUMBLE)
    assert window.slices is not None and window.slices.column == "window_end_1"
    assert seen.columns == ("product", "window_end", "window_end_1")


@pytest.mark.parametrize(
    "delimiters",
    [pa.nulls(2), pa.array([None, ";"]).dictionary_encode(), pa.array([None, ";"], pa.string_view())],
    ids=lambda column: str(column.type),
)
def test_a_delimiter_that_is_not_given_is_a_comma(delimiters: pa.Array, tmp_path: Path) -> None:
    plan = edited(lambda node: node.update(aggCalls=[call("LISTAGG", 0)]), TUMBLE)
    columns = node_states(read_plan(plan), TUMBLE)[0].columns
    key, delimiter, text, end = columns
    made = {key: ["tea", "mate"], delimiter: delimiters, text: ["a", "b"], end: [at("00:01")] * 2}
    rows = {"window-aggs": pa.table(made), "watermark": pa.table({"watermark": pa.array([], pa.int64())})}
    found = filled(TUMBLE, rows, tmp_path, plan).state("window-aggs").to_arrow().to_pylist()
    assert {row["key"][key]: row["value"][delimiter] for row in found} == {
        "tea": ",", "mate": "," if pa.types.is_null(delimiters.type) else ";"
    }  # fmt: skip


CHANGING = "10_group-aggregate"
"""COUNT(*), MIN(name), MAX(customer) and LISTAGG(name) of customers that change, by their city."""
TEXTS = ["", "\0", "🍵", None]


def changing() -> dict[str, pa.Table]:
    totals = {"city": ["Rome", None], "n": [5, 1], "lowest": ["", None], "lowest_mapSize": [3, None]}
    key, count = {"city": ["Rome"] * 4}, pa.array([2, 1, 1, 1], pa.int64())
    return {
        "accState": pa.table(totals | {"highest": [2**63 - 1, -(2**63)], "highest_mapSize": [4, 1]}),
        "agg1$map": pa.table(key | {"name": TEXTS, "count": count}),
        "agg2$map": pa.table(key | {"customer": [2**63 - 1, 0, -1, -(2**63)], "count": count}),
        "agg3$list": pa.table({"city": ["Rome", None], "name": [["", "\0", "🍵", ""], None]}),
    }


def test_extremes_of_rows_that_change_keep_how_often_each_value_is_there(tmp_path: Path) -> None:
    """The value null is not kept, as MIN leaves it out, and a group without values has none."""
    rows = changing()
    for name in ("agg1$map", "agg3$list"):
        rows[name] = pa.RecordBatchReader.from_batches(rows[name].schema, rows[name].to_batches())  # type: ignore[assignment]
    made = filled(CHANGING, rows, tmp_path)
    assert {row["key"]["city"]: row["value"] for row in made.state("accState").to_arrow().to_pylist()} == {
        "Rome": {
            "n": 5,
            "lowest": {"min": "", "mapSize": 3, "map": None},
            "highest": {"max": 2**63 - 1, "mapSize": 4, "map": None},
            "everyone": {"list": None, "retractList": None},
        },
        None: {
            "n": 1,
            "lowest": {"min": None, "mapSize": 0, "map": None},
            "highest": {"max": -(2**63), "mapSize": 1, "map": None},
            "everyone": {"list": None, "retractList": None},
        },
    }
    assert dict(made.state("agg1$map").to_arrow().to_pylist()[0]["value"]) == {"": 2, "\0": 1, "🍵": 1}
    assert [row["value"] for row in made.state("agg3$list").to_arrow().to_pylist()] == [["", "\0", "🍵", ""]]
    assert made.state("agg3$retractList").to_arrow().num_rows == 0


def altered(name: str, column: str, array: pa.Array) -> dict[str, pa.Table]:
    rows = changing()
    table = rows[name]
    return rows | {name: table.set_column(table.schema.get_field_index(column), column, array)}


@pytest.mark.parametrize(
    ("rows", "error", "text"),
    [
        (
            altered("agg1$map", "count", pa.array([1, 0, 1, 1])),
            InvalidRows,
            "'count' cannot be null or below 1.* row 1",
        ),
        (altered("agg1$map", "count", pa.array([1, None, 1, 1])), InvalidRows, "'count' cannot be null or below 1"),
        (altered("agg1$map", "name", pa.array(["a", "a", "b", "c"])), DuplicateKey, "a"),
        (altered("agg1$map", "name", pa.array([1.5] * 4)), SnapshotError, "name"),
        (altered("agg3$list", "name", pa.array([["a", None], ["b"]])), SnapshotError, "null"),
        (altered("agg3$list", "name", pa.array(["a", "b"])), InvalidOption, "where an array of the values"),
        ({name: rows for name, rows in changing().items() if name != "agg3$list"}, InvalidOption, "city, name"),
        (changing() | {"agg3$retractList": pa.table({})}, NotFound, "no state 'agg3.retractList'"),
    ],
)
def test_values_that_calls_over_changes_cannot_have_are_refused(
    rows: Any, error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text):
        filled(CHANGING, rows, tmp_path)


def calling(*calls: dict[str, Any], column: str | None = None) -> dict[str, Any]:
    """The plan with other calls over the changes; `column`: a type of the second column."""

    def change(node: dict[str, Any]) -> None:
        node.update(aggCalls=list(calls), aggCallNeedRetractions=[True] * len(calls), indexOfCountStar=-1)

    plan = edited(change, CHANGING)
    if column is not None:
        node = next(node for node in plan["nodes"] if f"{node['id']}_group-aggregate" == CHANGING)
        (edge,) = (edge for edge in plan["edges"] if edge["target"] == node["id"])
        source = next(node for node in plan["nodes"] if node["id"] == edge["source"])
        written = source["outputType"]
        source["outputType"] = re.sub(r"(`name` )VARCHAR\(2147483647\)", rf"\1{column}", written)
        assert source["outputType"] != written
    return plan


FLOATS = [-0.0, 0.0, float("nan"), float("-inf")]


def test_minus_zero_and_nan_are_values_of_their_own(tmp_path: Path) -> None:
    plan = calling(call("MIN", 1), column="DOUBLE")
    key, value = node_states(read_plan(plan), CHANGING)[1].columns[0], "name"
    rows = {
        "accState": pa.table({key: ["Rome"], "min_name": [FLOATS[3]], "min_name_mapSize": [4], "row_count": [4]}),
        "agg0$map": pa.table({key: ["Rome"] * 4, value: FLOATS, "count": [1, 2, 3, 4]}),
    }
    made = filled(CHANGING, rows, tmp_path, plan)
    found = made.state("agg0$map").to_arrow().to_pylist()[0]["value"]
    assert sorted((repr(number), count) for number, count in found) == [
        ("-0.0", 1),
        ("-inf", 4),
        ("0.0", 2),
        ("nan", 3),
    ]


def test_first_and_last_of_rows_that_change_keep_the_values_in_their_order(tmp_path: Path) -> None:
    """All came at the time 0, in the order of one list, before what the job reads."""
    plan = calling(call("FIRST_VALUE", 1), call("LAST_VALUE", 1))
    names = [state.name for state in node_states(read_plan(plan), CHANGING)]
    views = [f"agg{at}${name}" for at in (0, 1) for name in ("valueToOrderMap", "orderToValueMap")]
    assert set(names) == {"accState", *views}
    counts = {"city": ["Rome"] * 3, "name": ["b", "\0", None], "count": [2, 1, 1]}
    lists = {"city": ["Rome", None], "name": [["b", "\0", "b"], None]}
    ends = {"city": ["Rome", None], "first_value_name": ["b", None], "last_value_name": ["b", None]}
    rows = {name: pa.table(counts if "valueTo" in name else lists) for name in views}
    rows["accState"] = pa.table(ends | {"row_count": [4, 1]})
    made = filled(CHANGING, rows, tmp_path, plan)
    for at in (0, 1):
        assert dict(made.state(views[2 * at]).to_arrow().to_pylist()[0]["value"]) == {"b": [0, 0], "\0": [0]}
        (row,) = made.state(views[2 * at + 1]).to_arrow().to_pylist()
        assert (row["key"], row["value"]) == ({"city": "Rome"}, [(0, ["b", "\0", "b"])])
    found = {row["key"]["city"]: list(row["value"].values()) for row in made.state("accState").to_arrow().to_pylist()}
    views_ = {"valueToOrderMap": None, "orderToValueMap": None}
    assert found["Rome"][0] == {"firstValue": "b", "firstOrder": 0, **views_}
    assert found[None][1] == {"lastValue": None, "lastOrder": None, **views_}
    rows[views[1]] = pa.table({"city": ["Rome"], "name": pa.array([[]], pa.list_(pa.string()))})
    with pytest.raises(InvalidRows, match="'name' cannot be null or empty"):
        filled(CHANGING, rows, tmp_path / "empty", plan)


@pytest.mark.parametrize("release", ["1.20", "2.0", "2.1", "2.3"])
def test_arrays_and_multisets_are_filled_with_their_values(release: str, tmp_path: Path) -> None:
    plan = calling(call("ARRAY_AGG", 1), call("COLLECT", 1))
    rows = {
        "accState": pa.table({
            "city": ["Rome", None, "Bern"],
            "array_agg_name": pa.array([["b", None, "\0🍵"], None, []], pa.list_(pa.string())),
            "row_count": [3, 0, None],
        }),
        "agg1$map": pa.table({"city": ["Rome"] * 3, "name": ["b", "\0🍵", None], "count": pa.array([1, 2**31 - 1, 1])}),
    }  # fmt: skip
    writer = SavepointWriter.new_savepoint(None).with_flink_version(release)
    writer.with_operator(CHANGING, OperatorBootstrap.from_plan(plan, CHANGING, rows)).write(tmp_path / "made")
    made = stateproc.open(tmp_path / "made", plan=plan).operator(CHANGING)
    found = {row["key"]["city"]: row["value"] for row in made.state("accState").to_arrow().to_pylist()}
    assert {city: value["array_agg_name"] for city, value in found.items()} == {
        "Rome": {"list": ["b", None, "\0🍵"], "retractList": []},
        None: {"list": [], "retractList": []},
        "Bern": {"list": [], "retractList": []},
    }
    assert dict(made.state("agg1$map").to_arrow().to_pylist()[0]["value"]) == {"b": 1, "\0🍵": 2**31 - 1}
    more = rows | {"agg1$map": pa.table({"city": ["Rome"], "name": ["b"], "count": [2**31]})}
    with pytest.raises(SnapshotError):
        filled(CHANGING, more, tmp_path / "more", plan)


PAIRS = pa.map_(pa.int32(), pa.int32())
DAY, NOON = date(9999, 12, 31), time(12, 0, 0, 1000)
ELEMENTS: list[tuple[str, list[Any], pa.DataType, list[Any]]] = [
    ("ROW<`a` INT, `b` DATE>", [{"b": DAY, "a": 1}, None], None, [{"f0": 1, "f1": DAY}, None]),
    ("MAP<INT, INT>", [[(1, 2)], None, []], PAIRS, [[(1, 2)], None, []]),
    ("MULTISET<INT>", [[(1, 2)], None], PAIRS, [[(1, 2)], None]),
    ("ARRAY<DATE>", [[DAY, None], None], None, [[DAY, None], None]),
    ("DATE", [DAY, None, date(1969, 12, 31), date(1, 1, 1)], None, [2932896, None, -1, -719162]),
    ("TIME(3)", [NOON, None, time(0)], None, [43_200_001, None, 0]),
    ("TIMESTAMP(3)", [datetime(1969, 12, 31, 23), None], None, [datetime(1969, 12, 31, 23), None]),
    ("TIMESTAMP_LTZ(9)", [datetime(2020, 1, 1, 0, 0, 0, 1, timezone.utc), None], None,
     [datetime(2020, 1, 1, 0, 0, 0, 1), None]),
    ("BYTES", [b"\0", b"", None], None, [b"\0", b"", None]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "given", "type_", "read"), ELEMENTS, ids=lambda value: str(value)[:20])
def test_arrays_are_filled_with_values_of_any_type(
    column: str, given: list[Any], type_: pa.DataType | None, read: list[Any], tmp_path: Path
) -> None:
    """The values are those that the query has; Flink does not store the type by which they would be read so."""
    plan = calling(call("ARRAY_AGG", 1), column=column)
    elements = pa.array(given, type_)
    arrays = pa.ListArray.from_arrays([0, len(given), len(given)], elements)
    nulls = pa.array([[None, None], None])
    for number, (array, wanted) in enumerate(
        [(arrays, [read, []]), (pa.nulls(2), [[], []]), (nulls, [[None] * 2, []])]
    ):
        rows = pa.table({"city": ["Rome", "Bern"], "array_agg_name": array, "row_count": [3, 1]})
        made = filled(CHANGING, {"accState": rows}, tmp_path / str(number), plan)
        found = {
            row["key"]["city"]: row["value"]["array_agg_name"] for row in made.state("accState").to_arrow().to_pylist()
        }
        assert found == {
            "Rome": {"list": wanted[0], "retractList": []},
            "Bern": {"list": wanted[1], "retractList": []},
        }  # fmt: skip


@pytest.mark.parametrize("values", [[["x"]], [[]]])
def test_arrays_of_another_type_are_refused_even_if_they_are_empty(values: list[Any], tmp_path: Path) -> None:
    rows = pa.table({"city": ["Rome"], "array_agg_name": pa.array(values, pa.list_(pa.string())), "row_count": [1]})
    with pytest.raises(InvalidRows, match=r"field 'list': an item: .*string is no struct"):
        filled(CHANGING, {"accState": rows}, tmp_path, calling(call("ARRAY_AGG", 1), column="ROW<`a` INT>"))


NO_ARRAYS = [
    pa.array(["a"]),
    pa.array([1]),
    pa.array([{"a": "x"}]),
    pa.array([[("a", "b")]], pa.map_("string", "string")),
]


@pytest.mark.parametrize("column", NO_ARRAYS, ids=lambda column: str(column.type)[:6])
def test_columns_of_arrays_are_arrays(column: pa.Array) -> None:
    key = {"city": ["Rome"]}
    wrong = {
        "ARRAY_AGG": {"accState": pa.table(key | {"array_agg_name": column, "row_count": [1]})},
        "FIRST_VALUE": firsts() | {"agg0$orderToValueMap": pa.table(key | {"name": column})},
        "LISTAGG": {"accState": pa.table(key | {"row_count": [1]}), "agg0$list": pa.table(key | {"name": column})},
    }
    for function, rows in wrong.items():
        text = f"name' is {re.escape(str(column.type))}, where an array of the values is needed"
        with pytest.raises(InvalidOption, match=text):
            OperatorBootstrap.from_plan(calling(call(function, 1)), CHANGING, rows)


@pytest.mark.parametrize(
    "type_",
    [pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_view(pa.string()), pa.large_list_view(pa.string()),
     pa.list_(pa.string(), 2), pa.null()],
    ids=str,
)  # fmt: skip
def test_arrays_may_have_any_form_of_arrow(type_: pa.DataType, tmp_path: Path) -> None:
    arrays = pa.array([["z", "z"], ["b", "a"], None] if not pa.types.is_null(type_) else [None] * 3, type_).slice(1)
    wanted = ["b", "a"] if not pa.types.is_null(type_) else []
    rows = {"city": ["Rome", None], "array_agg_name": arrays, "row_count": [2, 1]}
    made = filled(CHANGING, {"accState": pa.table(rows)}, tmp_path / "array", calling(call("ARRAY_AGG", 1)))
    found = {row["key"]["city"]: row["value"] for row in made.state("accState").to_arrow().to_pylist()}
    assert [found[city]["array_agg_name"]["list"] for city in ("Rome", None)] == [wanted, []]
    lists = pa.table({"city": ["Rome", None], "name": arrays})
    given = {"accState": pa.table({"city": ["Rome", None], "row_count": [2, 1]}), "agg0$list": lists}
    made = filled(CHANGING, given, tmp_path / "list", calling(call("LISTAGG", 1)))
    assert [row["value"] for row in made.state("agg0$list").to_arrow().to_pylist()] == [wanted] * bool(wanted)
    made = filled(CHANGING, firsts() | {"agg0$orderToValueMap": lists}, tmp_path / "f", calling(call("FIRST_VALUE", 1)))
    kept = [row["value"] for row in made.state("agg0$orderToValueMap").to_arrow().to_pylist()]
    assert kept == [[(0, wanted)]] * bool(wanted)


@pytest.mark.parametrize("function", ["LISTAGG", "FIRST_VALUE", "LAST_VALUE"])
def test_arrays_of_a_column_of_the_group_have_a_name_of_their_own(function: str, tmp_path: Path) -> None:
    """SELECT city, LISTAGG(city) … GROUP BY city."""
    plan = calling(call(function, 2))
    arrays = pa.table({"city": ["Rome", None], "city_1": [["Rome", "Rome"], None]})
    value = {} if function == "LISTAGG" else {f"{function.lower()}_city": ["Rome", None]}
    rows = {"accState": pa.table({"city": ["Rome", None]} | value | {"row_count": [2, 1]})}
    view = "agg0$list" if function == "LISTAGG" else "agg0$orderToValueMap"
    rows[view] = arrays
    if function != "LISTAGG":
        rows["agg0$valueToOrderMap"] = pa.table({"city": ["Rome", None], "count": [2, 1]})
    made = filled(CHANGING, rows, tmp_path, plan)
    (row,) = made.state(view).to_arrow().to_pylist()
    assert row["key"] == {"city": "Rome"}
    assert row["value"] == (["Rome", "Rome"] if function == "LISTAGG" else [(0, ["Rome", "Rome"])])


def test_accumulators_are_not_written_for_releases_before_compiled_plans(tmp_path: Path) -> None:
    made = OperatorBootstrap.from_plan(PLAN, CHANGING, changing())
    writer = SavepointWriter.new_savepoint(None).with_flink_version("1.14").with_operator(CHANGING, made)
    with pytest.raises(UnsupportedSnapshot, match=r"STRUCTURED<.* cannot be written"):
        writer.write(tmp_path / "old")


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (call("FIRST_VALUE", 1, 0), "of 2 columns"),
        (call("STDDEV_POP", 1), "has an accumulator"),
    ],
)
def test_calls_over_changes_that_are_not_filled(one: dict[str, Any], text: str) -> None:
    with pytest.raises(UnsupportedSnapshot, match=text):
        node_states(read_plan(calling(one)), CHANGING)


@pytest.mark.parametrize("function", ["MIN", "COLLECT", "LAST_VALUE"])
@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("BYTES", "BYTES NOT NULL.*no array of bytes(?s:.)*convert the column to text"),
        ("BINARY(3)", r"BINARY\(3\) NOT NULL.*no array of bytes"),
        ("ARRAY<INT>", "ARRAY<INT> NOT NULL cannot be written(?s:.)*read a column of another type"),
    ],
)
def test_values_that_are_not_found_again_are_refused(function: str, column: str, text: str) -> None:
    with pytest.raises(UnsupportedSnapshot, match=text):
        node_states(read_plan(calling(call(function, 1), column=column)), CHANGING)


def test_rows_of_a_sort_key_are_not_null(tmp_path: Path) -> None:
    columns = {"product": ["tea"], "amount": [1.5], "id": [1], "rows": pa.array([None], OFFER)}
    with pytest.raises(InvalidRows, match=r"column 'rows'.* None in row 0"):
        filled("138_rank", pa.table(columns), tmp_path)


JUNK = (None, True, -1, 1e308, "x", [], [[]], {}, {"a": 1}, [None], ["x"], [{}], [{"index": 99}], "ROW<`a` BIGINT>",
        {"type": "ROW", "fields": [{}]})  # fmt: skip


def test_junk_in_any_part_of_a_plan_is_a_typed_error() -> None:
    plan, nodes = json.loads(PLAN.read_text()), {node.id: node for node in read_plan(PLAN).nodes}
    seen = 0
    for node in plan["nodes"]:
        kind = nodes[node["id"]].kind
        if not kind.endswith(("-aggregate", "-join", "-rank", "-limit", "-deduplicate", "-normalize", "-sink")):
            continue
        part = with_inputs(plan, node)
        for *path, last in places(node):
            owner = node
            for step in path:
                owner = owner[step]
            old = owner[last]
            # Each place has a third of it, and each kind of it a third of the places.
            for owner[last] in JUNK[seen % 3 :: 3]:
                seen += 1
                with suppress(SnapshotError):
                    made = read_plan(part)
                    for uid in node_uids(made, next(one for one in made.nodes if one.id == node["id"])).values():
                        assert all(state.value.serializer.type_name for state in node_states(made, uid))
            owner[last] = old
    assert seen > 1700


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """The path of every part of a node but what identifies it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in items:
        if name not in ("id", "type", "description"):
            yield (name,)
            yield from ((name, *rest) for rest in places(part))


def test_rows_are_read_once_from_a_stream_and_columns_are_found_by_name(tmp_path: Path) -> None:
    batches = [pa.record_batch({"spent": [float(k)], "x": ["?"], "n": [k], "customer": [k]}) for k in range(3)]
    stream = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert {row["spent"] for row in values(filled(TOTALS, stream, tmp_path), "accState")} == {0.0, 1.0, 2.0}


def edited(change: Callable[[dict[str, Any]], None], uid: str) -> dict[str, Any]:
    plan = json.loads(PLAN.read_text())
    change(next(node for node in plan["nodes"] if str(node["id"]) == uid.split("_")[0]))
    return dict(plan)


def test_states_of_another_kind_are_refused() -> None:
    async_state = edited(lambda node: node["configuration"].update({"table.exec.async-state.enabled": "true"}), TOTALS)
    own = edited(lambda node: node["aggCalls"][1].update(internalName=None, catalogName="`c`.`d`.`SUM`"), TOTALS)
    for plan, uid, text in (
        (async_state, TOTALS, "async-state.enabled it has states of another kind"),
        (own, TOTALS, r"SUM\(spent\) has an accumulator|SUM\(amount\) has an accumulator"),
        (
            json.loads(PLAN.read_text()) | {"flinkVersion": "1.15"},
            "160_stream-exec-rank_1_rank",
            "Flink 1.15 has other states",
        ),
    ):
        with pytest.raises(UnsupportedSnapshot, match=text):
            node_states(read_plan(plan), uid)


def test_a_time_to_live_is_that_of_the_plan_unless_it_is_given(tmp_path: Path) -> None:
    plan, days = (edited(lambda node, ttl=ttl: node["state"][0].update(ttl=ttl), TOTALS) for ttl in ("90000 ms", "1 d"))
    rows = pa.table({"customer": [1], "n": [1], "spent": [1.0]})
    cases = ((PLAN, None, False), (PLAN, True, True), (plan, None, True), (days, None, True), (plan, False, False))
    for number, (given, ttl, lives) in enumerate(cases):
        operator = filled(TOTALS, rows, tmp_path / str(number), given, ttl=ttl)
        assert operator.state("accState").keyed.ttl is lives
    old = edited(lambda node: node.pop("state"), TOTALS)
    assert not filled(TOTALS, rows, tmp_path / "old", old).state("accState").keyed.ttl


def test_an_operator_that_is_not_parallel_has_one_key_group(tmp_path: Path) -> None:
    rows = pa.table({"rows": [[{"ts": datetime(2024, 1, 1), "id": 3}]]})
    operator = filled(LIMIT, rows, tmp_path)
    assert (operator.max_parallelism, operator.parallelism) == (1, 1)
    assert values(operator, "data-state-with-append") == [[{"id": 3, "ts": datetime(2024, 1, 1)}]]


def test_a_column_of_the_query_is_not_taken_for_a_number_of_rows(tmp_path: Path) -> None:
    """A table has a column `count` of its own: the number of rows is another one."""
    plan = json.loads(PLAN.read_text().replace("`order_id` BIGINT", "`count` BIGINT"))
    right = next(s for s in node_states(read_plan(plan), JOIN) if s.name == "right-records")
    assert right.columns == ("count", "payer", "paid", "count_1")


def test_keys_and_accumulators_of_one_name_are_two_columns() -> None:
    plan = json.loads(
        PLAN.read_text()
        .replace('"name":"spent"', '"name":"customer"')
        .replace('"name" : "spent"', '"name" : "customer"')
    )
    (state,) = node_states(read_plan(plan), TOTALS)
    assert state.columns == ("customer", "n", "customer_1")
