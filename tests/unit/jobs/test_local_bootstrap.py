"""Bootstraps without Spark: DuckDB and deltalake read the sources, the local engine writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import stateproc
from stateproc.errors import DuplicateKey, InvalidOption, NotFound, SnapshotError
from stateproc.jobs.engines import SPARK_KINDS
from stateproc.jobs.loading import Secrets, load_job
from stateproc.jobs.local_tables import LocalTables
from stateproc.jobs.prepared_run import prepare
from stateproc.jobs.state_kinds import STATE_KINDS
from tests.helpers.cases import case_snapshots
from tests.helpers.fixtures import FIXTURES
from tests.helpers.paths import ROOT

SHOP = stateproc.bundled_snapshot("shop")
UIDS = ["keyed", "operator", "source", "profiles"]


def _state(kind: str, name: str, source: str = "numbers", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "source": source, **more}


OPERATORS: list[dict[str, Any]] = [
    {
        "uid": "keyed",
        "key_type": "Long",
        "parallelism": 2,
        "max_parallelism": 16,
        "states": [
            _state("value", "v", value="n", type="Integer"),
            _state("reducing", "r", value="n"),
            _state("aggregating", "a", value="n", ttl=True, last_access="at"),
            _state("list", "l", "lists"),
            _state("map", "m", "entries", map_key="name", map_value="n"),
            {"kind": "event-timers", "source": "numbers", "timestamp": "at"},
            {"kind": "processing-timers", "source": "numbers", "timestamp": "at", "service": "other"},
        ],
    },
    {
        "uid": "operator",
        "parallelism": 1,
        "states": [
            _state("operator-list", "split", value="n"),
            _state("union", "all", value="n"),
            _state("broadcast", "rules", "entries", map_key="name", map_value="n"),
        ],
    },
    {"uid": "source", "states": [{"kind": "kafka-source", "source": "offsets"}]},
    {"uid": "profiles", "states": [_state("value", "profile", "profiles", type="Pojo com.acme.P {name: String}")]},
]


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "numbers").mkdir()
    table = pa.table({"key": [1, 2], "n": pa.array([10, 20], pa.int32()), "at": [1000, 2000]})
    pq.write_table(table, tmp_path / "numbers/a.parquet")
    (tmp_path / "numbers/_SUCCESS").touch()
    (tmp_path / "a.csv").write_text("key,name,n\n1,x,7\n")
    (tmp_path / "b.csv").write_text("key,name,n\n2,y,8\n")
    offsets = [{"topic": "t", "partition": n, "offset": 100 + n} for n in range(3)]
    (tmp_path / "offsets.json").write_text("\n".join(map(json.dumps, offsets)))
    csv = {"format": "csv", "path": f"{tmp_path}/*.csv", "schema": "key BIGINT, name STRING, n INT"}
    sources = {
        "numbers": {"format": "parquet", "path": f"{tmp_path}/numbers"},
        "entries": {**csv, "options": {"header": True}},
        "offsets": {"format": "json", "path": f"{tmp_path}/offsets.json"},
        "lists": {"sql": "SELECT key, [n, n + 1] AS value FROM numbers"},
        "profiles": {"sql": "SELECT key, {'name': name} AS value FROM entries"},
    }
    return {"job": "local", "sources": sources, "operators": OPERATORS, "target": {"path": f"{tmp_path}/target"}}


def _values(snapshot: str, uid: str, state: str) -> dict[Any, Any]:
    rows = stateproc.open(snapshot, uids=[uid]).state(uid, state).to_arrow().to_pylist()
    return {row["key"]: row["value"] for row in rows}


def test_states_of_every_kind_from_files(job: dict[str, Any]) -> None:
    kinds = {state["kind"] for operator in OPERATORS for state in operator["states"]}
    assert kinds == set(STATE_KINDS) - SPARK_KINDS
    checks = [{"rows": "entries", "min": 2, "max": 2}, {"state": "profile", "uid": "profiles", "min": 2, "max": 2}]
    report = stateproc.run_job({**job, "checks": checks})
    assert (report.status, report.engine, [item.passed for item in report.checks]) == ("written", "local", [True, True])
    facts = {item["name"]: (item["files"], item.get("rows")) for item in report.inputs}
    assert facts == {"numbers": (1, 2), "entries": (2, None), "offsets": (1, None)}
    path = report.target
    assert _values(path, "keyed", "v") == _values(path, "keyed", "r") == {1: 10, 2: 20}
    assert _values(path, "keyed", "l") == {1: [10, 11], 2: [20, 21]}
    assert _values(path, "keyed", "m") == {1: [("x", 7)], 2: [("y", 8)]}
    assert _values(path, "profiles", "profile") == {1: {"name": "x"}, 2: {"name": "y"}}
    found = stateproc.open(path, uids=UIDS)
    assert (found.operator("keyed").max_parallelism, found.operator("profiles").max_parallelism) == (16, 128)
    assert sorted(row["timestamp"] for row in found["keyed"].timers("event").to_arrow().to_pylist()) == [1000, 2000]
    assert sorted(found.state("operator", "split").to_arrow()["value"].to_pylist()) == [10, 20]
    assert {row["partition"]: row["offset"] for row in found.offsets().to_pylist()} == {0: 100, 1: 101, 2: 102}
    assert found.verify().problems == ()
    assert stateproc.run_job({**job, "checks": checks}).status == "unchanged"


PLAN = FIXTURES / "1.20/plan-plain/plan.json"


def test_a_plan_names_and_types_the_states_of_an_operator(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("customer,amount,city\n1,2.5,Rome\n1,4.0,Oslo\n2,8.0,Rome\n")
    csv = {"format": "csv", "path": f"{tmp_path}/orders.csv", "schema": "customer BIGINT, amount DOUBLE, city STRING"}
    job = {
        "job": "fill",
        "sources": {
            "orders": {**csv, "options": {"header": True}},
            "spent": {"sql": "SELECT customer, count(*) AS n, sum(amount) AS spent FROM orders GROUP BY customer"},
            "people": {"sql": "SELECT DISTINCT customer, 'Ann' AS name, city FROM orders WHERE city = 'Rome'"},
            "shops": {"sql": "SELECT 7::BIGINT AS shop, 'Rome' AS city"},
        },
        "operators": [
            {"uid": "40_group-aggregate", "plan": str(PLAN), "rows": "spent", "ttl": True},
            {"uid": "47_join", "plan": str(PLAN), "rows": {"left-records": "people", "right-records": "shops"}},
        ],
        "target": {"path": str(tmp_path / "filled")},
    }
    stateproc.run_job(job)
    filled = stateproc.open(tmp_path / "filled", plan=PLAN)
    totals = filled.state("40_group-aggregate", "accState")
    assert totals.keyed.ttl  # type: ignore[union-attr]
    rows = [(row["key"]["customer"], *row["value"].values()) for row in totals.to_arrow().to_pylist()]
    assert sorted(rows) == [(1, 2, 6.5), (2, 1, 8.0)]
    (found,) = filled.state("47_join", "right-records").to_arrow(flatten=True).drop_columns(["key_group"]).to_pylist()
    assert found == {"key": {"city": "Rome"}, "map_key": {"shop": 7}, "map_value": {"shop": 7, "city": "Rome"}}

    for change, text in (
        ({"rows": "nothing"}, "there is no source 'nothing'"),
        ({"rows": {"accState": "nothing"}}, "there is no source 'nothing'"),
        ({"rows": {"other": "spent"}}, "no state 'other'"),
        ({"uid": "99_group-aggregate"}, "no operator '99_group-aggregate'"),
        ({"states": [{"kind": "value", "name": "v", "source": "spent"}]}, "is not accepted here"),
        ({"plan": f"{tmp_path}/none.json"}, "none.json cannot be read"),
    ):
        wrong = {**job, "operators": [{**job["operators"][0], **change}]}  # type: ignore[dict-item]
        with pytest.raises(SnapshotError, match=text):
            stateproc.run_job({**wrong, "target": {"path": str(tmp_path / "wrong")}})
        assert not (tmp_path / "wrong").exists()


def test_rows_that_cannot_be_state_leave_nothing(job: dict[str, Any], tmp_path: Path) -> None:
    twice = {"sql": "SELECT 1 AS key, n AS value FROM numbers"}
    states = [_state("value", "v", "twice")]
    job = {**job, "sources": {**job["sources"], "twice": twice}, "operators": [{"uid": "a", "states": states}]}
    with pytest.raises(DuplicateKey):
        stateproc.run_job(job)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("sources", "state", "error", "says"),
    [
        ({}, _state("value", "v", value="nn"), NotFound, "no column 'nn'"),
        (
            {"numbers": {"format": "parquet", "path": "/nowhere/at/all"}},
            _state("value", "v"),
            SnapshotError,
            "/nowhere",
        ),
        (
            {"numbers": {"sql": "SELECT * FROM unheard_of"}},
            _state("value", "v"),
            InvalidOption,
            "source 'numbers': Catalog",
        ),
        ({"numbers": {"format": "jdbc", "url": "x", "table": "t"}}, _state("value", "v"), InvalidOption, "needs Spark"),
        (
            {},
            {"kind": "window", "source": "numbers"},
            InvalidOption,
            "'window' are derived from rows, which needs Spark",
        ),
    ],
)
def test_what_is_refused(
    job: dict[str, Any],
    tmp_path: Path,
    sources: dict[str, Any],
    state: dict[str, Any],
    error: type[SnapshotError],
    says: str,
) -> None:
    sources = {"numbers": {"format": "parquet", "path": f"{tmp_path}/numbers"}, **sources}
    operators = [{"uid": "a", "states": [state]}]
    with pytest.raises(error) as caught:
        stateproc.run_job({**job, "engine": "local", "sources": sources, "operators": operators})
    assert says in str(caught.value)
    assert not (tmp_path / "target").exists()


def test_the_nightly_bootstrap_from_delta_runs_without_spark(tmp_path: Path) -> None:
    table = pa.table(
        {"id": [1, 2, 3], "name": ["Ada", "Bob", "Cy"], "total": [2.5, 1.0, 9.0], "active": [True, True, False]}
    )
    lake = str(tmp_path / "lake/customers")
    write_deltalake(lake, table)
    variables = {"lake": str(tmp_path / "lake"), "savepoints": str(tmp_path), "date": "2026-01-31"}
    example = ROOT / "examples/nightly-bootstrap.yaml"
    first = stateproc.run_job(example, variables=variables)
    second = stateproc.run_job(example, variables=variables)
    assert (first.status, first.engine, second.status) == ("written", "local", "unchanged")
    write_deltalake(lake, table.slice(0, 1), mode="overwrite")
    third = stateproc.run_job(example, variables=variables)
    assert [report.inputs[0]["version"]["delta_version"] for report in (first, third)] == [0, 1]
    assert [(report.inputs[0]["files"], report.inputs[0]["rows"]) for report in (first, third)] == [(1, 3), (1, 1)]
    totals = [
        stateproc.open(report.target, uids=["customers"]).state("customers", "total") for report in (first, third)
    ]
    found = [{row["key"]: row["value"] for row in total.to_arrow().to_pylist()} for total in totals]
    assert found == [{1: 2.5, 2: 1.0}, {1: 2.5}]
    assert (tmp_path / "latest").read_text() == f"{third.target}\n"
    assert json.loads((tmp_path / "reports/bootstrap-2026-01-31.json").read_text())["status"] == "written"


def test_a_version_or_a_time_of_a_table_is_pinned(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    for n in (1, 2):
        write_deltalake(lake, pa.table({"key": [n], "value": [n]}), mode="overwrite")

    def written(**chosen: Any) -> dict[Any, Any]:
        sources = {"rows": {"format": "delta", "path": lake, **chosen}}
        operators = [{"uid": "keyed", "states": [_state("value", "v", "rows")]}]
        target = {"path": f"{tmp_path}/{{run_id}}"}
        report = stateproc.run_job({"job": "x", "sources": sources, "operators": operators, "target": target})
        return _values(report.target, "keyed", "v")

    assert (written(), written(version=0)) == ({2: 2}, {1: 1})
    assert written(timestamp="2099-01-01T00:00:00Z") == {2: 2}
    with pytest.raises(SnapshotError, match="no version 7"):
        written(version=7)
    with pytest.raises(InvalidOption, match="no time zone"):
        written(timestamp="2026-01-01")


@pytest.mark.processes
def test_changes_import_neither_spark_nor_pandas() -> None:
    program = (
        "import sys, stateproc, tempfile\n"
        "folder = tempfile.mkdtemp()\n"
        "job = {'job': 'x', 'base': {'path': stateproc.bundled_snapshot('shop')}, 'target': {'path': folder + '/t'}}\n"
        "assert stateproc.run_job(job).status == 'written'\n"
        "assert not {'pyspark', 'pandas'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_queries_that_need_more_memory_spill(job: dict[str, Any], tmp_path: Path) -> None:
    rows = "SELECT range AS key, md5(range::VARCHAR) AS value FROM range(1000000) ORDER BY value"
    run = prepare(
        load_job({**job, "sources": {"big": {"sql": rows}}, "operators": [], "base": {"path": SHOP}}), Secrets()
    )
    with LocalTables(run, memory_limit="40MB") as tables:
        assert sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(tables.frame("big"))) == 1_000_000


@pytest.mark.parametrize("is_secret", [False, True])
def test_a_query_that_fails_while_rows_are_written_leaves_nothing(
    job: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_secret: bool
) -> None:
    monkeypatch.setenv("STATEPROC_SECRET_FOLDER", str(tmp_path))
    entries = {**job["sources"]["entries"], **({"path": "${secret:FOLDER}/*.csv"} if is_secret else {})}
    sources = {"entries": entries, "bad": {"sql": "SELECT key, CAST(name AS INTEGER) AS value FROM entries"}}
    operators = [{"uid": "a", "states": [_state("value", "v", "bad")]}]
    with pytest.raises(SnapshotError, match=r"Could not convert string") as caught:
        stateproc.run_job({**job, "sources": sources, "operators": operators})
    assert not (tmp_path / "target").exists()
    assert (str(tmp_path) in str(caught.value)) is False or not is_secret


NAMES = {"snapshot": next(item.path for item in case_snapshots() if item.case == "names-by-case"), "uid": "orders"}
LEGACY = (
    "Pojo com.acme.Legacy {ID: Long, Name: String, id: Long, "
    "inner: Pojo com.acme.Inner {X: Integer, x: Integer}, name: String}"
)


def test_structs_whose_fields_differ_by_case_only_are_passed_on_as_a_whole(job: dict[str, Any]) -> None:
    sources = {
        "legacy": {**NAMES, "state": "legacy"},
        "some": {"sql": "SELECT key, value FROM legacy WHERE key < 4"},
    }
    states = [_state("value", "v", "some", type=LEGACY)]
    found = stateproc.run_job({**job, "sources": sources, "operators": [{"uid": "a", "states": states}]})
    value = _values(found.target, "a", "v")[3]
    assert value == {"ID": 503, "Name": "Upper3", "id": 3, "inner": {"X": -3, "x": 3}, "name": None}


@pytest.mark.parametrize("query", ["SELECT key, value.id AS n FROM legacy", "SELECT key, value['ID'] AS n FROM legacy"])
def test_fields_that_duckdb_does_not_distinguish_are_refused(job: dict[str, Any], query: str) -> None:
    sources = {"legacy": {**NAMES, "state": "legacy"}, "numbers": {"sql": query}}
    states = [_state("value", "v", value="n")]
    with pytest.raises(InvalidOption, match=r"source 'numbers': fields of the sources differ from 'i?I?[dD]'") as e:
        stateproc.run_job({**job, "sources": sources, "operators": [{"uid": "a", "states": states}]})
    assert "caseSensitive" in (e.value.advice or "")


def test_sources_that_differ_by_case_only_are_refused(job: dict[str, Any]) -> None:
    job["sources"]["Numbers"] = job["sources"]["numbers"]
    with pytest.raises(InvalidOption, match="'numbers' and 'Numbers' differ by case only"):
        stateproc.run_job(job)
