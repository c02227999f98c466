"""Random queries are filled from tables: real Flink goes on with what DuckDB computed of the first rows.

Queries are planned alone first; those that `OperatorBootstrap.from_plan` fills run in jobs of a few queries.
``FILLS_SEED=7 make test-acceptance`` tries others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.errors import UnsupportedSnapshot
from stateproc.query_plans.node_states import node_states
from stateproc.query_plans.plan_file import CompiledPlan, read_plan
from stateproc.query_plans.plan_matching import state_uid
from stateproc.query_plans.state_parts import NodeState
from tests.acceptance.test_random_changes import FEEDS, KEYS, NUMBERS, SETTINGS, TABLES, TIMES, Changes, Rows, rows_of
from tests.helpers.flink.evolving_job import EvolvingJob, script, table

pytestmark = pytest.mark.flink

SEED = int(os.environ.get("FILLS_SEED", "1"))
QUERIES, IN_A_JOB = 40, 14
Statements = dict[str, str]
Fill = Callable[[Sequence[NodeState]], Statements]
"""Returns for each state of an operator the statement that computes its rows."""
_JOINS = (
    ("orders", "customers", "l.customer = r.cust"), ("customers", "orders", "l.cust = r.customer"),
    ("orders", "payments", "l.id = r.order_id AND l.amount <> r.paid"), ("payments", "customers", "l.payer = r.name"),
    ("customers", "accounts", "l.cust = r.points AND l.city <> r.branch"),
)  # fmt: skip
_WITH_STATE = re.compile("exec-(?!local).*(aggregate|join|rank|deduplicate)$")
_CALL = re.compile(r"(\w+)\((DISTINCT )?(\*|\w+)\)(?: FILTER \(WHERE (.*)\))?")


class Call(NamedTuple):
    """An aggregate call and the name and type of its result."""

    text: str
    type: str
    name: str

    def part(self, at: int) -> str:
        found = _CALL.fullmatch(self.text)
        assert found is not None
        return found[at] or ""

    @property
    def of(self) -> str:
        """Which rows it is over, as a filter."""
        return f" FILTER (WHERE {self.part(4)})" if self.part(4) else ""

    def columns(self, *, changing: bool) -> Statements:
        """Accumulator → its expression."""
        function, column = self.part(1), self.part(3)
        over, count = f"{self.part(2)}{column}", f"count({self.part(2)}{column}){self.of}"
        if function == "COUNT":
            return {self.name: count}
        if function in ("MIN", "MAX"):
            size = {f"{self.name}_mapSize": f"count(DISTINCT {column}){self.of}"} if changing else {}
            return {self.name: self.text, **size}
        total = self.type.replace(", 6)", ", 2)").replace("INT", "BIGINT").replace("BIGBIGINT", "BIGINT")
        if function == "SUM":
            value = {self.name: f"CAST(sum({over}){self.of} AS {self.type})"}
            return {**value, **({f"{self.name}_count": count} if changing else {})}
        return {f"{self.name}_sum": f"CAST(sum({over}){self.of} AS {total})", f"{self.name}_count": count}


def filled(
    calls: Sequence[Call], by: Sequence[str], rows: str, *, changing: bool, state: str = "accState"
) -> Statements:
    """The accumulators of groups, and what their calls keep of many rows."""
    columns = {name: text for call in calls for name, text in call.columns(changing=changing).items()}
    shown = [*by, *(f"{text} AS {name}" for name, text in (columns | {"row_count": "count(*)"}).items())]
    groups = f"SELECT {', '.join(shown)} FROM {rows}" + (f" GROUP BY {', '.join(by)}" if by else " HAVING count(*) > 0")
    made, seen = {state: groups}, dict[str, list[Call]]()
    for number, call in enumerate(calls):
        if changing and call.part(1) in ("MIN", "MAX"):
            made[f"agg{number}$map"] = counted(by, call, rows, "count(*)" + call.of + " AS count")
        elif call.part(2):
            seen.setdefault(call.part(3), []).append(call)
    for number, own in enumerate(seen.values()):
        alike = len({call.of for call in own}) == 1
        numbers = [f"count(*){one.of} AS {'count' if alike else one.name}" for one in (own[:1] if alike else own)]
        made[f"distinctAcc_{number}"] = counted(by, own[0], rows, ", ".join(numbers), "" if alike else "1 = 1")
    return made


def counted(by: Sequence[str], call: Call, rows: str, numbers: str, where: str = "") -> str:
    """How often each value of a call's column is there, of the rows that pass its filter."""
    columns = ", ".join(dict.fromkeys([*by, call.part(3)]))
    where = where or call.part(4) or "1 = 1"
    return f"SELECT {columns}, {numbers} FROM {rows} WHERE {where} GROUP BY {columns}"


@dataclass(frozen=True)
class Filled:
    """A query, the types of its columns, and how its operators are filled, from the sink on."""

    text: str
    types: tuple[str, ...]
    fills: tuple[Fill, ...]
    where: str = ""


class Fills(Changes):
    """Random queries and what their operators keep."""

    def query(self) -> Filled:
        makers = (self.of_groups, self.of_groups, self.of_windows, self.of_join, self.of_near, self.of_rows)
        return self.random.choice(makers)()

    def named(self, columns: Mapping[str, str], most: int) -> list[Call]:
        calls = dict(self.calls(dict(columns), most))
        return [Call(text, type_, f"a{at}") for at, (text, type_) in enumerate(calls.items())]

    def of_groups(self) -> Filled:
        rows, columns, keys = self.rows()
        while "JOIN" in rows:
            rows, columns, keys = self.rows()
        by = self.random.sample(keys, self.random.randint(0, len(keys) - 1))
        # The planner leaves out calls over a column of the key, such as AVG.
        others = {column: type_ for column, type_ in columns.items() if column not in by}
        if not set(NUMBERS) & set(others.values()):
            by, others = [], dict(columns)
        calls = self.named(others, 4)
        inner = re.fullmatch(r"\(SELECT (\w+), COUNT\(\*\) AS n, MAX\((\w+)\) AS m FROM (\w+) GROUP BY \w+\)", rows)
        name = inner[3] if inner else rows.split()[3].rstrip(")")
        is_upsert = FEEDS[name][1] == "upsert"
        fills: list[Fill] = [lambda _: filled(calls, by, rows, changing=is_upsert or inner is not None)]
        if inner:
            own = [Call("COUNT(*)", "BIGINT", "n"), Call(f"MAX({inner[2]})", columns["m"], "m")]
            fills.append(lambda _: filled(own, [inner[1]], name, changing=is_upsert))
        shown = ", ".join([*by, *(f"{call.text} AS {call.name}" for call in calls)])
        text = f"SELECT {shown} FROM {rows}" + f" GROUP BY {', '.join(by)}" * bool(by)
        types = (*(columns[key] for key in by), *(call.type for call in calls))
        return Filled(text, types, tuple(fills), rows.partition(" WHERE ")[2].rstrip(")"))

    def of_windows(self) -> Filled:
        name, time = self.random.choice(list(TIMES.items()))
        by, calls = self.random.sample(KEYS[name], self.random.randint(0, 2)), self.named(TABLES[name], 4)
        kind, minutes, slices = self.random.choice(["TUMBLE", "HOP", "CUMULATE"]), self.random.choice([7, 20, 60]), 3
        times = [minutes] if kind == "TUMBLE" else [minutes, minutes * slices]
        sizes = ", ".join(f"INTERVAL '{one}' MINUTE(3)" for one in times)
        window = f"TABLE({kind}(TABLE {name}, DESCRIPTOR({time}), {sizes}))"
        step, size, last = minutes * 60_000, minutes * 60_000 * slices, f"(SELECT max(epoch_ms({time})) FROM {name})"

        def fill(states: Sequence[NodeState]) -> Statements:
            assert states[0].slices is not None
            end, column = f"epoch_ms({time}) // {step} * {step} + {step}", states[0].slices.column
            if kind == "CUMULATE":
                end = f"CASE WHEN {end} - 1 <= {last} THEN epoch_ms({time}) // {size} * {size} + {step} ELSE {end} END"
            rows = f"(SELECT *, make_timestamp_ms({end}) AS {column} FROM {name})"
            made = filled(calls, [*by, column], rows, changing=False, state="window-aggs")
            return {**made, "watermark": f"SELECT make_timestamp_ms({last}) AS watermark"}

        groups = ", ".join([*by, "window_start", "window_end"])
        shown = ", ".join([groups, *(f"{call.text} AS {call.name}" for call in calls)])
        text = f"SELECT {shown} FROM {window} GROUP BY {groups}"
        types = (*(TABLES[name][key] for key in by), "TIMESTAMP(3)", "TIMESTAMP(3)", *(call.type for call in calls))
        return Filled(text, types, (fill,))

    def of_join(self) -> Filled:
        left, right, on = self.random.choice(_JOINS)
        kind, columns = self.random.choice(["", "LEFT", "RIGHT", "FULL"]), dict[str, str]()
        for side, name in (("l", left), ("r", right)):
            columns |= {f"{side}.{one}": type_ for one, type_ in TABLES[name].items()}
        names = self.random.sample(list(columns), self.random.randint(1, 5))

        def rows(state: NodeState, side: str, name: str, other: str) -> str:
            shown = [f"{side}.{one}" for one in state.columns if one not in ("count", "associations")]
            partners = f"(SELECT count(*) FROM {other} WHERE {on}) AS associations"
            shown += [partners] * ("associations" in state.columns)
            counts = ", count(*) AS count" * ("count" in state.columns)
            return f"SELECT *{counts} FROM (SELECT {', '.join(shown)} FROM {name} AS {side}) GROUP BY ALL"

        def fill(states: Sequence[NodeState]) -> Statements:
            of_left, of_right = rows(states[0], "l", left, f"{right} AS r"), rows(states[1], "r", right, f"{left} AS l")
            return {"left-records": of_left, "right-records": of_right}

        text = f"SELECT {', '.join(names)} FROM {left} AS l {kind} JOIN {right} AS r ON {on}"
        return Filled(text, tuple(columns[name] for name in names), (fill,))

    def of_near(self) -> Filled:
        before, after = self.random.choice([(0, 30), (60, 60), (90, -20), (-10, 90)])
        near = f"BETWEEN l.ts - INTERVAL '{before}' MINUTE AND l.ts + INTERVAL '{after}' MINUTE"
        on, kind = f"l.id = r.order_id AND r.pts {near}", self.random.choice(["", "LEFT", "RIGHT", "FULL"])
        last = "SELECT least(max(ts), (SELECT max(pts) FROM payments)) AS watermark FROM orders"

        def side(own: str, rows: str, other: str, by: str) -> str:
            joined = f"SELECT {own}.*, EXISTS (SELECT 1 FROM {other} WHERE {on}) AS joined FROM {rows}"
            return f"SELECT {by}, list(o ORDER BY seq) AS rows FROM ({joined}) AS o GROUP BY {by}"

        def fill(states: Sequence[NodeState]) -> Statements:
            left = side("l", "orders AS l", "payments AS r", "id, ts")
            right = side("r", "payments AS r", "orders AS l", "order_id, pts")
            return {"IntervalJoinLeftCache": left, "IntervalJoinRightCache": right, "watermark": last}

        text = f"SELECT l.id, l.product, r.payer, r.pid FROM orders AS l {kind} JOIN payments AS r ON {on}"
        return Filled(text, ("BIGINT", "STRING", "STRING", "BIGINT"), (fill,))

    def of_rows(self) -> Filled:
        """TopN over rows that are only added, or the last row by its time, or the first or last that came."""
        name, last = self.random.choice(["orders", "payments", "visits"]), self.random.randint(1, 3)
        columns, by, time = TABLES[name], self.random.choice(KEYS[name]), TIMES.get(name, "proc")
        sort, way = self.random.choice([one for one in columns if one != by]), self.random.choice(["ASC", "DESC"])
        order = f"{sort} {way} NULLS {'FIRST' if way == 'ASC' else 'LAST'}, seq"
        if self.random.random() < 0.5:
            sort, way, last = time, way if time == "proc" else "DESC", 1
            order = f"seq {way}"
        rows = f"(FROM {name} QUALIFY row_number() OVER (PARTITION BY {by} ORDER BY {order}) <= {last})"

        def fill(states: Sequence[NodeState]) -> Statements:
            if last == 1:
                return {states[0].name: f"SELECT {', '.join(states[0].columns)} FROM {rows}"}
            arrays = f"SELECT {by}, {sort}, list(own ORDER BY seq) AS rows FROM {rows} AS own GROUP BY {by}, {sort}"
            return {states[0].name: arrays}

        names = self.random.sample(list(columns), self.random.randint(1, len(columns)))
        numbered = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {sort} {way}) AS rn FROM {name}"
        text = f"SELECT {', '.join(names)} FROM ({numbered}) WHERE rn <= {last}"
        return Filled(text, tuple(columns[one] for one in names), (fill,))


def statements(plan: CompiledPlan, queries: Mapping[str, Filled]) -> dict[str, Statements]:
    """Uid → state → the statement that computes its rows. Raises UnsupportedSnapshot for what is not filled."""
    found: dict[str, Statements] = {}
    for name, query in queries.items():
        sinks = [one for one in plan.nodes if f"`{name}_out`" in str(one.at("dynamicTableSink", "table", "identifier"))]
        left = list(query.fills)
        for node in sinks:
            sinks += node.sources
            uid = state_uid(plan, node)
            if node.kind.endswith("changelog-normalize"):
                scan = node
                while scan.sources:
                    (scan,) = scan.sources
                rows = str(scan.at("scanTableSource", "table", "identifier")).rsplit(".", 1)[-1].strip("`")
                where = f" WHERE {query.where}" if node.at("filterCondition") is not None else ""
                found[uid] = {"deduplicate-state": f"SELECT * FROM {rows}{where}"}
            elif _WITH_STATE.search(node.kind):
                states = node_states(plan, uid)
                if not left:
                    raise UnsupportedSnapshot("the planner has other operators")
                made, known = left.pop(0)(states), {state.name for state in states} | {"watermark"}
                found[uid] = {state: text for state, text in made.items() if state in known}
        if left:
            raise UnsupportedSnapshot("the planner has fewer operators")
    return found


def fill(writer: SavepointWriter, path: str, queries: Mapping[str, Filled], lake: duckdb.DuckDBPyConnection) -> None:
    for uid, texts in statements(read_plan(path), queries).items():
        rows = {state: lake.sql(text).to_arrow_table() for state, text in texts.items()}
        writer.with_operator(uid, OperatorBootstrap.from_plan(path, uid, rows))


def lake_of(rows: Rows) -> duckdb.DuckDBPyConnection:
    """The tables as they are after rows, with the number of each row."""
    base = duckdb.connect()
    for name, columns in TABLES.items():
        time = {TIMES[name]: "TIMESTAMP"} if name in TIMES else {}
        typed = ", ".join(f"{column} {type_}" for column, type_ in {**columns, **time, "seq": "BIGINT"}.items())
        base.execute(f"CREATE TABLE {name} ({typed})")
        numbered: list[Any] = [(*row, number) for number, row in enumerate(rows[name])]
        if FEEDS[name][1] == "upsert":
            numbered = list({row[0]: row for row in numbered}.values())
        base.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(numbered[0]))})", numbered)
    return base


def written(folder: Path, settings: str, queries: Mapping[str, Filled]) -> str:
    sinks = {
        name: (", ".join(f"c{at} {type_}" for at, type_ in enumerate(query.types)), query.text)
        for name, query in queries.items()
    }
    return settings + script(folder, FEEDS, sinks)


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_what_is_filled_goes_on_as_if_it_had_read_the_rows(release: str, tmp_path: Path) -> None:
    made = Fills(SEED)
    settings, first, second = made.random.choice(SETTINGS), rows_of(made.random, 0), rows_of(made.random, 1)
    queries, lake = {f"q{number}": made.query() for number in range(QUERIES)}, lake_of(first)
    job = EvolvingJob((release, release), tmp_path, ["", ""])
    for name, query in queries.items():
        (tmp_path / f"{name}.sql").write_text(written(tmp_path, settings, {name: query}), encoding="utf-8")
    job.do(*(("compile", job.path(f"{name}.sql"), job.path(f"{name}.json")) for name in queries))
    taken = {}
    for name, query in queries.items():
        try:
            fill(SavepointWriter.new_savepoint(None), job.path(f"{name}.json"), {name: query}, lake)
        except UnsupportedSnapshot:
            continue
        taken[name] = query
    assert len(taken) > QUERIES * 3 // 4
    names, wrong = list(taken), []
    for number in range(0, len(names), IN_A_JOB):
        some = {name: taken[name] for name in names[number : number + IN_A_JOB]}
        folder = tmp_path / f"job-{number}"
        folder.mkdir()
        job = EvolvingJob((release, release), folder, [written(folder, settings, some)] * 2)
        job.feed(first)
        job.do(job.compile("new"), job.run("new", "hashmap", "before"))
        writer = SavepointWriter.new_savepoint(None).with_flink_version(release)
        fill(writer, job.path("new.json"), some, lake)
        writer.write(job.path("filled"))
        job.feed({name: [*first[name], *second[name]] for name in TABLES})
        job.do(job.run("new", "hashmap", "all"))
        job.feed(second)
        job.do(job.run("new", "rocksdb", "after", job.path("filled")))
        before, new, whole = (job.changes(run) for run in ("before", "after", "all"))
        for name, query in some.items():
            if table(before.get(name, []), new.get(name, [])) != table(whole.get(name, [])):
                wrong.append((name, query.text))
    assert not wrong
