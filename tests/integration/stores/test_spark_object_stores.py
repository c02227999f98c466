"""Spark's workers read snapshots from an object store and write them there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import stateproc
from stateproc import InvalidOption, OperatorBootstrap, SavepointWriter, WriteFailed
from tests.helpers.stores.object_store import BUCKET, Store, object_store

CUSTOMERS = {"uid": "orders-per-customer", "state": "profile"}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as made:
        yield made


@pytest.fixture(scope="module")
def settings(store: Store) -> dict[str, str]:
    """The store's as options of the data source."""
    return {f"fs.{name}": value for name, value in store.options.items()}


@pytest.fixture(scope="module")
def demo(store: Store, fixtures: Path) -> str:
    return store.upload(fixtures / "1.20/demo/snapshot", "demo").replace("s3:", "s3a:")


def rows(spark: SparkSession, path: str, options: dict[str, str]) -> list[str]:
    """Keys and values; key groups may differ."""
    found = spark.read.format("savepoint").options(**options).load(path)
    return sorted(str(row) for row in found.select("key", "value").collect())


def test_states_read_as_from_a_disk(spark: SparkSession, settings: dict[str, str], demo: str, fixtures: Path) -> None:
    found = rows(spark, demo, {**CUSTOMERS, **settings})
    assert found == rows(spark, str(fixtures / "1.20/demo/snapshot"), CUSTOMERS) and len(found) == 300
    views = stateproc.attach(spark, demo, uids=["orders-per-customer"], **settings)
    assert spark.sql("select * from orders_per_customer__profile").count() == 300, views


def test_a_bootstrap_and_its_replacement(spark: SparkSession, store: Store, settings: dict[str, str]) -> None:
    def writer(rows: int) -> SavepointWriter:
        state = OperatorBootstrap().value_state("s", spark.sql(f"select id key, id * 2 value from range({rows})"))
        return SavepointWriter.new_savepoint(spark).with_operator("op", state).with_parallelism("op", 3)

    path = writer(10_000).with_storage_options(store.options).write(f"s3://{BUCKET}/made")
    first = store.names("made")
    assert len(first) == 4 and "_metadata" in first
    with pytest.raises(InvalidOption, match="a snapshot is here already"):
        writer(5).with_storage_options(store.options).write(path)
    writer(20_000).with_storage_options(store.options).write(path, mode="overwrite")
    assert len(store.names("made")) == 4 and set(first) & set(store.names("made")) == {"_metadata"}
    read = spark.read.format("savepoint").options(uid="op", state="s", **settings).load(path)
    assert read.selectExpr("count(*)", "sum(key)", "sum(value)").first() == (20_000, 199_990_000, 399_980_000)


def test_the_plain_way(spark: SparkSession, settings: dict[str, str]) -> None:
    path, chosen = f"s3a://{BUCKET}/plain", {"uid": "op", "state": "s", **settings}
    frame = spark.sql("select id key, cast(id as string) value from range(100)")
    frame.write.format("savepoint").options(**chosen).mode("append").save(path)
    assert len(rows(spark, path, chosen)) == 100


@pytest.mark.parametrize("form", ["canonical", "native-hashmap", "native-rocksdb"])
def test_a_rewrite_has_its_source_s_settings(
    spark: SparkSession, store: Store, settings: dict[str, str], demo: str, form: str
) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark, demo, settings).with_max_parallelism(256)
    path = writer.with_format(form).write(f"s3://{BUCKET}/rewritten-{form}")  # type: ignore[arg-type]
    assert rows(spark, path, {**CUSTOMERS, **settings}) == rows(spark, demo, {**CUSTOMERS, **settings})
    with pytest.raises(InvalidOption, match="made from"):
        writer.write(f"s3://{BUCKET}/demo", mode="overwrite")
    assert "_metadata" in store.names("demo")


def test_from_a_disk_to_a_store_and_back(spark: SparkSession, store: Store, fixtures: Path, tmp_path: Path) -> None:
    chain = fixtures / "1.20/chain-rocksdb/snapshot"
    local = sorted(path.parent for path in chain.rglob("chk-*/_metadata"))[-1]
    there = SavepointWriter.from_existing_savepoint(spark, local).with_storage_options(store.options)
    path = there.write(f"s3://{BUCKET}/copied")
    back = SavepointWriter.from_existing_savepoint(spark, path, {f"fs.{k}": v for k, v in store.options.items()})
    back.write(tmp_path / "back")
    found = stateproc.open(tmp_path / "back")
    for operator in stateproc.open(local).operators:
        for state in operator.states:
            mine = found.operator(operator.operator_id).state(state.name).to_arrow()
            assert sorted(map(str, mine.to_pylist())) == sorted(map(str, state.to_arrow().to_pylist()))


def test_what_cannot_be_reached(spark: SparkSession, store: Store, settings: dict[str, str]) -> None:
    frame = spark.sql("select 1L key, 2L value")
    writer = SavepointWriter.new_savepoint(spark).with_operator("op", OperatorBootstrap().value_state("s", frame))
    with pytest.raises(WriteFailed, match="cannot be written"):
        writer.with_storage_options(store.options).write("s3://mistyped/s")
    with pytest.raises(AnalysisException, match="nothing there"):
        spark.read.format("savepoint").options(**settings).load("s3://mistyped/s")
