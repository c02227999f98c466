"""What each release of Spark gives: `make test-pyspark PYSPARK=3.5` runs this with 3.5, 4.0 and 4.1, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

import stateproc
from stateproc.errors import InvalidOption, MissingFile, NotFound, SnapshotError
from stateproc.spark.types import arrow_schema, spark_schema
from stateproc.spark.views import register_source

pytestmark = pytest.mark.spark
RELEASE = tuple(map(int, pyspark.__version__.split(".")[:2]))
SHOP = stateproc.bundled_snapshot("shop")
UID = "orders-per-customer"


def _key(row: dict[str, Any]) -> int:
    return int(row["key"])


def test_load_reads_what_to_arrow_reads(spark: SparkSession) -> None:
    snapshot = stateproc.open(SHOP, uids=[UID])
    for name in ("profile", "spent-per-product"):
        state = snapshot.state(UID, name)
        frame = stateproc.load(spark, SHOP, uids=[UID], uid=UID, state=name)
        expected = state.to_arrow().select(frame.columns)
        found = sorted((row.asDict(recursive=True) for row in frame.collect()), key=_key)
        assert found == sorted(expected.to_pylist(maps_as_pydicts="strict"), key=_key)
        assert [field.name for field in arrow_schema(frame.schema)] == expected.column_names


def test_load_reads_only_what_options_select(spark: SparkSession) -> None:
    frame = stateproc.load(spark, SHOP, uids=UID, uid=UID, state="profile", keys=[1, 2], columns="key,value")
    assert frame.columns == ["key", "value"]
    whole = stateproc.load(spark, SHOP, uids=UID, uid=UID, state="profile")
    assert {1, 2} <= {row.key for row in frame.collect()} < {row.key for row in whole.collect()}
    assert stateproc.load(spark, SHOP, table="operators").count() == len(stateproc.open(SHOP).operators)


@pytest.mark.parametrize(
    ("path", "options", "error", "says"),
    [
        ("/nowhere", {}, MissingFile, "nowhere"),
        (SHOP, {"uid": UID, "uids": UID, "state": "profil"}, NotFound, "did you mean 'profile'"),
        (SHOP, {"uid": UID, "state": "profile", "maxCheckpointsPerTrigger": 1}, InvalidOption, "is one of streams"),
        (SHOP, {"stat": "profile"}, InvalidOption, "stat"),
    ],
)
def test_load_refuses_what_it_cannot_read(
    spark: SparkSession, path: str, options: dict[str, object], error: type[SnapshotError], says: str
) -> None:
    with pytest.raises(error, match=says):
        stateproc.load(spark, path, **options)


@pytest.mark.skipif(RELEASE >= (4, 0), reason="Spark has data sources in Python since 4.0")
def test_views_need_spark_4(spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match=r"PySpark 3\.5\.\d+ has no data sources in Python\n.*stateproc\.load"):
        stateproc.attach(spark, SHOP)


@pytest.mark.skipif(RELEASE >= (4, 1), reason="Spark shuffles to partitions of given numbers since 4.1")
def test_savepoint_writer_needs_spark_4_1(spark: SparkSession, tmp_path: Path) -> None:
    state = stateproc.OperatorBootstrap().value_state("v", spark.range(3).selectExpr("id AS key", "id AS value"))
    writer = stateproc.SavepointWriter.new_savepoint(spark).with_operator("op", state)
    with pytest.raises(InvalidOption, match=r"SavepointWriter needs Spark 4\.1 or later"):
        writer.write(tmp_path / "savepoint")
    assert not (tmp_path / "savepoint").exists()


@pytest.mark.skipif(RELEASE >= (4, 1), reason="Spark has times of day since 4.1")
def test_times_of_day_need_spark_4_1() -> None:
    with pytest.raises(InvalidOption, match=r"has no type for a column: .*time64\[us\]"):
        spark_schema(pa.schema({"value": pa.time64("us")}))


@pytest.mark.skipif(RELEASE < (4, 0), reason="Spark has data sources in Python since 4.0")
def test_a_data_frame_is_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(300).selectExpr("id AS key", "named_struct('n', id, 't', timestamp_millis(id)) AS value")
    register_source(spark)
    sink = rows.write.format("savepoint").option("uid", "op").option("state", "v").option("parallelism", "2")
    sink.option("valueType", "Pojo com.acme.Seen {n: Long, t: Instant}").mode("append").save(
        str(tmp_path / "savepoint")
    )
    source = spark.read.format("savepoint").option("uids", "op").option("uid", "op").option("state", "v")
    found = source.load(str(tmp_path / "savepoint")).where("key IN (7, 8)").orderBy("key").collect()
    assert [(row.key, row.value.n, row.value.t.microsecond) for row in found] == [(7, 7, 7000), (8, 8, 8000)]


def test_the_local_engine_needs_no_release_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"key": [1, 2], "value": ["one", "two"]})
    state = stateproc.OperatorBootstrap().value_state("v", rows)
    stateproc.SavepointWriter.new_savepoint(None).with_operator("op", state).write(tmp_path / "savepoint")
    frame = stateproc.load(spark, tmp_path / "savepoint", uids=["op"], uid="op", state="v")
    assert sorted((row.key, row.value) for row in frame.collect()) == [(1, "one"), (2, "two")]
