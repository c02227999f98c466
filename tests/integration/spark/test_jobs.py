"""Jobs on Spark: sources of every format, states of every kind, a session of its own under spark-submit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import stateproc
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.jobs.run_report import RunReport
from stateproc.jobs.state_kinds import STATE_KINDS
from tests.helpers.document_runs import environment

pytestmark = pytest.mark.spark
SHOP = stateproc.bundled_snapshot("shop")
UID = "orders-per-customer"


def _keyed(name: str, kind: str, source: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "source": source, **more}


OPERATORS: list[dict[str, Any]] = [
    {
        "uid": "keyed",
        "key_type": "Long",
        "parallelism": 2,
        "states": [
            _keyed("v", "value", "numbers", value="n", type="Integer"),
            _keyed("r", "reducing", "numbers", value="n"),
            _keyed("a", "aggregating", "numbers", value="n", ttl=True, last_access="at"),
            _keyed("l", "list", "lists"),
            _keyed("m", "map", "entries", map_key="name", map_value="n"),
            {"kind": "event-timers", "source": "numbers", "timestamp": "at"},
            {"kind": "processing-timers", "source": "numbers", "timestamp": "at", "service": "other"},
        ],
    },
    {
        "uid": "windows",
        "states": [{"kind": "window", "source": "windows", "window": ["s", "e"], "allowed_lateness": 10}],
    },
    {
        "uid": "operator",
        "parallelism": 1,
        "states": [
            _keyed("split", "operator-list", "numbers", value="n"),
            _keyed("all", "union", "numbers", value="n"),
            _keyed("rules", "broadcast", "entries", map_key="name", map_value="n"),
        ],
    },
    {"uid": "source", "states": [{"kind": "kafka-source", "source": "offsets"}]},
    {"uid": "profiles", "states": [_keyed("profile", "value", "profiles", type="Pojo com.acme.P {name: String}")]},
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "numbers").mkdir()
    pq.write_table(
        pa.table({"key": [1, 2], "n": pa.array([10, 20], pa.int32()), "at": [1000, 2000]}), folder / "numbers/a.parquet"
    )
    (folder / "numbers/_SUCCESS").touch()
    (folder / "a.csv").write_text("key,name,n\n1,x,7\n")
    (folder / "b.csv").write_text("key,name,n\n2,y,8\n")
    offsets = [{"topic": "t", "partition": n, "offset": 100 + n} for n in range(3)]
    (folder / "offsets.json").write_text("\n".join(map(json.dumps, offsets)))
    rows = spark.createDataFrame([("k", 0, 60_000)], "key string, s long, e long")
    url = f"jdbc:derby:{folder}/derby;create=true"
    rows.write.format("jdbc").option("url", url).option("dbtable", "spans").save()
    return folder


def _job(data: Path, target: Path, **sections: Any) -> dict[str, Any]:
    derby = {"format": "jdbc", "url": "jdbc:derby:${secret:DERBY}", "query": "SELECT * FROM spans"}
    sources = {
        "numbers": {"format": "parquet", "path": f"{data}/numbers"},
        "entries": {
            "format": "csv",
            "path": f"{data}/*.csv",
            "options": {"header": True},
            "schema": "key BIGINT, name STRING, n INT",
        },
        "offsets": {
            "format": "json",
            "path": f"{data}/offsets.json",
            "schema": "topic STRING, partition INT, offset BIGINT",
        },
        "lists": {"sql": "SELECT key, array(n, n + 1) AS value FROM numbers"},
        "spans": derby,
        "windows": {"sql": "SELECT key, s, e, array(1L, 2L) AS value FROM spans"},
        "people": {"snapshot": SHOP, "uid": UID, "state": "profile", "open": {"uids": [UID]}},
        "profiles": {"sql": "SELECT key, named_struct('name', value.name) AS value FROM people WHERE key < 3"},
    }
    return {"job": "kinds", "sources": sources, "operators": OPERATORS, "target": {"path": str(target)}, **sections}


def _values(snapshot: str, uid: str, state: str) -> Any:
    rows = stateproc.open(snapshot, uids=[uid]).state(uid, state).to_arrow().to_pylist()
    return {row["key"]: row["value"] for row in rows}


def _temporary_views(spark: SparkSession) -> set[str]:
    return {table.name for table in spark.catalog.listTables() if table.isTemporary}


def test_states_of_every_kind_from_sources_of_every_format(
    spark: SparkSession, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEPROC_SECRET_DERBY", f"{data}/derby")
    assert {state["kind"] for operator in OPERATORS for state in operator["states"]} == set(STATE_KINDS)
    checks = [
        {"rows": "entries", "min": 2, "max": 2},
        {"unique": "entries", "columns": ["key", "name"]},
        {"sql": "SELECT min(n) = 10 FROM numbers"},
        {"state": "profile", "uid": "profiles", "min": 3, "max": 3},
    ]
    views = _temporary_views(spark)
    report = stateproc.run_job(_job(data, tmp_path / "target", checks=checks, report=f"{tmp_path}/report.json"), spark)
    assert (report.status, report.engine, [item.passed for item in report.checks]) == ("written", "spark", [True] * 4)
    assert [text.partition(":")[0] for text in report.warnings] == ["source 'spans' has no version"]
    assert f"{data}/derby" not in (tmp_path / "report.json").read_text()
    assert _temporary_views(spark) == views
    path = report.target
    assert _values(path, "keyed", "v") == _values(path, "keyed", "r") == {1: 10, 2: 20}
    assert _values(path, "keyed", "l") == {1: [10, 11], 2: [20, 21]}
    assert _values(path, "keyed", "m") == {1: [("x", 7)], 2: [("y", 8)]}
    assert sorted(_values(path, "profiles", "profile")) == [0, 1, 2]
    found = stateproc.open(path, uids=["keyed", "windows", "operator", "source"])
    assert [row["timestamp"] for row in found.operator("windows").timers("event").to_arrow().to_pylist()] == [
        59999,
        60009,
    ]
    assert sorted(found.state("operator", "split").to_arrow()["value"].to_pylist()) == [10, 20]
    assert {row["partition"]: row["offset"] for row in found.offsets().to_pylist()} == {0: 100, 1: 101, 2: 102}
    assert found.verify().problems == ()
    assert stateproc.run_job(_job(data, tmp_path / "target", checks=checks), spark).status == "unchanged"


def test_a_version_query_shows_whether_rows_of_a_database_have_changed(spark: SparkSession, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path}/derby;create=true"

    def fill(value: int) -> None:
        rows = spark.createDataFrame([(1, value)], "id long, amount long")
        rows.write.format("jdbc").option("url", url).option("dbtable", "amounts").mode("overwrite").save()

    def run(target: str, **source: Any) -> RunReport:
        amounts = {"format": "jdbc", "url": url, "query": 'SELECT "id" AS "key", "amount" AS "value" FROM amounts'}
        operators = [{"uid": "a", "states": [_keyed("v", "value", "amounts")]}]
        given = {"path": str(tmp_path / target), "overwrite": "changed"}
        sources = {"amounts": {**amounts, **source}}
        return stateproc.run_job({"job": "x", "sources": sources, "operators": operators, "target": given}, spark)

    fill(10)
    versioned = {"version_query": 'SELECT max("amount") AS amount, count(*) AS n FROM amounts'}
    first, unversioned = run("versioned", **versioned), run("unversioned")
    assert (first.inputs[0]["version"], first.warnings) == ({"version_query": "10, 1"}, [])
    assert unversioned.inputs[0]["version"] == {}
    assert unversioned.warnings == [
        "source 'amounts' has no version: a run does not notice that its rows have changed; give version_query, or "
        "{date} in the target's path"
    ]
    assert run("versioned", **versioned).status == "unchanged"
    fill(20)
    assert run("versioned", **versioned).status == "written"
    assert _values(first.target, "a", "v") == {1: 20}
    assert run("unversioned").status == "unchanged"
    assert _values(unversioned.target, "a", "v") == {1: 10}
    with pytest.raises(InvalidOption, match="source 'amounts': the version query returns no row"):
        run("versioned", version_query='SELECT "amount" FROM amounts WHERE "amount" < 0')
    with pytest.raises(InvalidOption, match=r"source 'amounts': .*SELECT max\(x\)"):
        run("versioned", version_query="SELECT max(x) AS x FROM nothing")


def test_the_engine_that_is_given_replaces_that_of_the_job(spark: SparkSession, tmp_path: Path) -> None:
    changes = [{"rename-operator": {"uid": UID, "to": "customers"}}]
    base = {"path": SHOP, "open": {"uids": [UID]}}
    job = {"job": "x", "base": base, "changes": changes, "target": {"path": f"{tmp_path}/{{run_id}}"}}
    engines = [("local", spark, "local"), ("spark", None, "spark"), ("auto", spark, "spark"), (None, None, "local")]
    found = [
        stateproc.run_job(job, session, engine=engine, variables={"run_id": str(n)}).engine
        for n, (engine, session, _) in enumerate(engines)
    ]
    assert found == [wanted for _, _, wanted in engines]


def test_rows_that_cannot_be_written_fail_without_secrets(
    spark: SparkSession, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEPROC_SECRET_DERBY", f"{data}/derby")
    monkeypatch.setenv("STATEPROC_SECRET_WORD", "hunter2")
    sources = {"bad": {"sql": "SELECT CAST(NULL AS BIGINT) AS key, '${secret:WORD}' AS value"}}
    operators = [{"uid": "a", "states": [_keyed("v", "value", "bad")]}]
    with pytest.raises(SnapshotError, match="key") as caught:
        stateproc.run_job(_job(data, tmp_path / "target", sources=sources, operators=operators), spark)
    assert "hunter2" not in str(caught.value)
    assert not (tmp_path / "target/_metadata").exists()


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        ({"numbers": {"format": "iceberg", "path": "db.t"}}, "org.apache.iceberg:iceberg-spark-runtime"),
        ({"numbers": {"format": "jdbc", "url": "jdbc:nothing:x", "table": "t"}}, "driver"),
        ({"numbers": {"sql": "SELECT * FROM unheard_of"}}, "source 'numbers': [TABLE_OR_VIEW_NOT_FOUND]"),
    ],
)
def test_sources_that_cannot_be_read(spark: SparkSession, tmp_path: Path, sources: dict[str, Any], says: str) -> None:
    operators = [{"uid": "a", "states": [_keyed("v", "value", "numbers")]}]
    job = {"job": "x", "sources": sources, "operators": operators, "target": {"path": str(tmp_path / "t")}}
    with pytest.raises(InvalidOption) as caught:
        stateproc.run_job(job, spark)
    assert says in str(caught.value)


def test_the_default_save_mode_of_df_write_names_those_to_choose_from(spark: SparkSession, tmp_path: Path) -> None:
    sink = spark.range(1).selectExpr("id AS key", "id AS value").write.format("savepoint")
    with pytest.raises(AnalysisException, match='use either the "Append" or "Overwrite" mode'):
        sink.option("uid", "a").option("state", "s").save(str(tmp_path / "savepoint"))


def test_a_program_under_spark_submit_runs_jobs_on_spark(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("from stateproc.cli import main\nraise SystemExit(main())\n")
    changes = [{"rename-operator": {"uid": UID, "to": "customers"}}]
    job = {"job": "x", "base": {"path": SHOP, "open": {"uids": [UID]}}, "changes": changes, "target": {"path": "out"}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    submit = str(Path(sys.executable).with_name("spark-submit"))
    command = [
        submit,
        "--master",
        "local[1]",
        "--conf",
        "spark.ui.enabled=false",
        "main.py",
        "run",
        "job.json",
        "--json",
    ]
    variables = {name: value for name, value in environment().items() if name != "PYSPARK_SUBMIT_ARGS"}
    done = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert (report["status"], report["engine"]) == ("written", "spark")
    assert "customers" in stateproc.open(str(tmp_path / "out"), uids=["customers"])
