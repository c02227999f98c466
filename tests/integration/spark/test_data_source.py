"""The data source in a Spark session: registration, rows, filters, schemas and errors."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import stateproc
from stateproc.model.operator_state import opened_state
from tests.helpers.paths import FIXTURES
from tests.helpers.spark.reader_contract import selecting

DEMO = str(FIXTURES / "1.20" / "demo" / "snapshot")
PROFILES = "orders-per-customer"
DOG = '{"fixtures.Edges$Dog": {"legs": "int", "name": "String", "weight": "Double"}}'
"""Description of a subclass that heap snapshots do not list; it has to be sent to the tasks."""
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
READ = [
    "1.20/demo", "1.20/edges-hashmap-canonical", "1.20/sql-hashmap-canonical", "2.3/operators-hashmap-checkpoint",
    "2.3/tiny-hashmap-checkpoint-inline",
]  # fmt: skip


def load(spark: SparkSession, path: str = DEMO, **options: str) -> DataFrame:
    return spark.read.format("savepoint").options(**options).load(path)


def profiles(spark: SparkSession, **options: str) -> DataFrame:
    return load(spark, uid=PROFILES, state="profile", **options)


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.set(PUSHDOWN, "false")


@pytest.mark.parametrize("name", READ)
def test_rows_equal_those_of_the_arrow_reader(spark: SparkSession, name: str) -> None:
    path = str(FIXTURES / name / "snapshot")
    # Values of fixtures.Edges$Generic are not described.
    options = {"classes": DOG, "opaque": "bytes"}
    for operator in stateproc.open(path, **options).operators:
        wide = [operator.wide()] if operator.keyed_states else []
        for state in (*wide, *operator.timer_states, *operator.operator_states):
            selected = {"uidhash": operator.operator_id} if state in wide else selecting(state)
            same_through_spark(load(spark, path, **options, **selected), opened_state(state).to_arrow())


def same_through_spark(frame: DataFrame, table: pa.Table) -> None:
    assert frame.columns == table.column_names
    for through, core in zip(frame.toArrow().to_pylist(), table.to_pylist(), strict=True):
        assert repr(through) == repr(core)


def test_schema_of_a_state(spark: SparkSession) -> None:
    assert profiles(spark).schema.simpleString() == (
        "struct<key_group:int,key:bigint,value:struct<address:struct<house:smallint,street:string>,name:string,"
        "orders:bigint,products:array<string>,rank:int,total:double,vip:boolean>>"
    )
    timers = load(spark, uid=PROFILES, timers="event")
    assert timers.dtypes == [
        ("key_group", "int"),
        ("timestamp", "bigint"),
        ("key", "bigint"),
        ("service", "string"),
    ]
    ttl = load(spark, str(FIXTURES / "1.20/kitchen-hashmap-canonical/snapshot"), uid="kitchen-ttl", state="counter")
    assert ttl.dtypes[-1] == ("last_access", "timestamp")
    assert {row.last_access.year for row in ttl.collect()} <= {dt.date.today().year, 2025, 2026}


def test_joined_table_of_an_operator(spark: SparkSession) -> None:
    frame = load(spark, uid=PROFILES)
    assert frame.columns == ["key_group", "key", "profile", "spent-per-product"]
    [row] = frame.where("key = 42").collect()
    assert row["profile"].name == "customer № 42"
    assert frame.count() == 300


def test_flattened_map(spark: SparkSession) -> None:
    frame = load(spark, uid=PROFILES, state="spent-per-product", flatten="true")
    nested = load(spark, uid=PROFILES, state="spent-per-product").selectExpr("key", "explode(value)")
    assert sorted(map(tuple, frame.drop("key_group").collect())) == sorted(map(tuple, nested.collect()))


def test_without_options_the_table_of_states_is_returned(spark: SparkSession) -> None:
    rows = load(spark, uids=PROFILES).where("uid is not null and kind = 'value'").collect()
    assert [row.asDict() for row in rows] == [
        {
            "operator": None, "uid": PROFILES, "operator_id": "25afd583284baa21fbad98ede8b720b0",
            "state": "profile", "kind": "value", "distribution": "keyed", "key_type": "Long",
            "namespace_type": None, "value_type": "Pojo Profile", "ttl": False, "entries": None,
            "bytes": None, "parallelism": 2, "max_parallelism": 128, "problem": None,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(("table", "rows"), [("states", 8), ("operators", 3), ("files", 7), ("coordinators", 1)])
def test_metadata_tables(spark: SparkSession, table: str, rows: int) -> None:
    assert load(spark, table=table).count() == rows


@pytest.mark.usefixtures("pushdown")
def test_a_pushed_key_filter_reads_one_key_group_and_returns_the_same_rows(spark: SparkSession) -> None:
    frame = profiles(spark, splitBytes="1k").where("key = 42")
    assert frame.rdd.getNumPartitions() == 1
    assert [row.value.name for row in frame.collect()] == ["customer № 42"]
    few = profiles(spark, splitBytes="1k").where("key in (42, 0) and key_group > 50")
    assert few.rdd.getNumPartitions() == 1
    assert [row.key for row in few.collect()] == [0]
    assert profiles(spark).where("key_group < 0").collect() == []


def test_without_pushdown_the_rows_are_the_same(spark: SparkSession) -> None:
    frame = profiles(spark, splitBytes="1k").where("key = 42")
    assert frame.rdd.getNumPartitions() > 20
    assert [row.value.name for row in frame.collect()] == ["customer № 42"]


def test_projection_by_schema(spark: SparkSession) -> None:
    frame = (
        spark.read.format("savepoint")
        .options(uid=PROFILES, state="profile")
        .schema("value struct<name string>, key bigint")
        .load(DEMO)
    )
    assert frame.where("key = 7").collect() == [(("customer № 7",), 7)]


def test_sql_view(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW offsets USING savepoint"
        f" OPTIONS (path '{DEMO}', uid 'orders-from-kafka', state 'SourceReaderState')"
    )
    [row] = spark.sql("SELECT topic, sum(starting_offset) AS total FROM offsets GROUP BY topic").collect()
    assert (row.topic, row.total) == ("shop.orders", 50004225900)
    spark.catalog.dropTempView("offsets")


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"uid": "orders-per-custmer", "uids": PROFILES}, ["NotFound: no operator", f"'{PROFILES}'"]),
        ({"uid": PROFILES, "state": "profil"}, ["NotFound: no state", "did you mean 'profile'?"]),
        ({"uid": PROFILES, "operatorState": "profil"}, ["NotFound: no operator state", "there are none"]),
        ({"uidd": "x"}, ["InvalidOption: no option 'uidd'", "did you mean uid"]),
        (
            {"uid": PROFILES, "state": "profile", "columns": "kee"},
            ["no column 'kee'", "key_group, key, value"],
        ),
        ({"uid": PROFILES, "namespace": "TimeWindow"}, ["no states with namespace 'TimeWindow'", "none"]),
        ({"path": "/nowhere/at/all"}, ["MissingFile", "/nowhere/at/all"]),
    ],
)
def test_errors_at_load(spark: SparkSession, options: dict[str, str], texts: list[str]) -> None:
    path = options.pop("path", DEMO) if "path" in options else DEMO
    with pytest.raises(AnalysisException) as raised:
        load(spark, path, **options)
    for text in texts:
        assert text in str(raised.value)


def test_errors_while_reading(spark: SparkSession, tmp_path: Path) -> None:
    """For a file damaged after its header, the task's error names file, operator and state."""
    source = FIXTURES / "1.20" / "demo" / "snapshot"
    snapshot = stateproc.open(str(source))
    [directory] = {Path(snapshot.location.metadata_uri).parent}
    for item in directory.iterdir():
        data = bytearray(item.read_bytes())
        if item.name == Path(snapshot.operator(PROFILES).keyed_files[0].source.name).name:
            data[-2000:] = b"\xff" * 2000
        (tmp_path / item.name).write_bytes(data)
    with pytest.raises(PySparkException) as raised:
        load(spark, str(tmp_path), uid=PROFILES, state="profile").collect()
    text = str(raised.value)
    assert "CorruptSnapshot" in text
    assert str(tmp_path) in text
    assert "byte " in text
    assert "state 'profile'" in text


def test_create_table_is_refused(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE lost USING savepoint OPTIONS (path '{DEMO}')")
        spark.sql("SELECT * FROM lost").collect()


def test_the_shim_imports_no_heavy_packages() -> None:
    heavy = "{'numba', 'pyarrow', 'pandas', 'numpy', 'fsspec'}"
    code = (
        "import sys, pyspark.sql.datasource; own = set(sys.modules); import pyspark_savepoint, stateproc; "
        f"print({heavy} & (set(sys.modules) - own))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
