"""Rewriting existing snapshots: named operators and states change, all others are copied unchanged."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc import InvalidOption, NotFound, OperatorBootstrap, SavepointWriter, UnsupportedSnapshot, types
from stateproc.readers.state_descriptor import StateKind
from tests.helpers.fixtures import FIXTURES, Fixture, differences, fixtures_in


def fixture(case: str) -> Fixture:
    (found,) = fixtures_in(FIXTURES / "1.20" / case)
    return found


def uids_of(item: Fixture) -> list[str]:
    return sorted({line["uid"] for line in item.expected() if line["uid"]})


def contents(path: Any, **options: Any) -> dict[str, list[Any]]:
    """Return the rows of all states by operator/state, without key groups, sorted."""
    found = {}
    for operator in stateproc.open(path, **options).operators:
        for state in operator.states:
            table = state.to_arrow()
            rows = table.drop_columns([name for name in ("key_group", "subtask") if name in table.column_names])
            found[f"{operator.operator_id}/{state.name}"] = sorted(map(repr, rows.to_pylist()))
    return found


CASES = ("kitchen-hashmap-canonical", "kitchen-hashmap-checkpoint", "windows-rocksdb-canonical",
         "operators-hashmap-canonical", "kitchen-rocksdb-incremental", "tiny-rocksdb-changelog",
         "windows-hashmap-changelog", "tiny-hashmap-filemerging")  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_copy_has_the_same_contents(spark: SparkSession, tmp_path: Path, case: str) -> None:
    item = fixture(case)
    SavepointWriter.from_existing_savepoint(spark, item.snapshot).write(tmp_path / "copy")
    moved = (tmp_path / "copy").rename(tmp_path / "moved")
    assert differences(item, stateproc.open(moved, uids=uids_of(item))) == []


def test_a_source_is_located_by_every_spelling_of_its_path(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flink reports the path of a new savepoint as ``file:/…``."""
    source = Path(fixture("tiny-hashmap-canonical-inline").snapshot).resolve()
    monkeypatch.setenv("HOME", str(source.parent))
    for path in (f"file:{source}", f"file://{source}", f"~/{source.name}"):
        assert SavepointWriter.from_existing_savepoint(spark, path)  # MissingFile, if it is not found


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("operators")])
def test_a_canonical_rewrite_with_other_key_groups_has_the_same_contents(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    item = fixture(case)
    writer = SavepointWriter.from_existing_savepoint(spark, item.snapshot).with_format("canonical")
    path = writer.with_max_parallelism(1024).with_compression().write(tmp_path / "s")
    written = stateproc.open(path, uids=uids_of(item))
    assert differences(item, written) == []
    assert {operator.max_parallelism for operator in written.operators} == {1024}


@pytest.mark.parametrize("case", ["kitchen-rocksdb-incremental", "windows-rocksdb-canonical"])
def test_a_native_heap_rewrite_of_other_formats_has_the_same_contents(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    item = fixture(case)
    writer = SavepointWriter.from_existing_savepoint(spark, item.snapshot).with_format("native-hashmap")
    written = stateproc.open(writer.with_compression().write(tmp_path / "s"), uids=uids_of(item))
    assert differences(item, written) == []


def test_states_are_dropped_renamed_and_transformed(spark: SparkSession, tmp_path: Path) -> None:
    source = fixture("kitchen-rocksdb-incremental").snapshot
    before = contents(source)
    operator = stateproc.open(source, uids=["kitchen-string"]).operator("kitchen-string")
    own = operator.operator_id
    value = next(it for it in operator.keyed_states if it.keyed.kind is StateKind.VALUE and not it.keyed.ttl)
    renamed, dropped = [state.name for state in operator.keyed_states if state.name != value.name][:2]
    writer = SavepointWriter.from_existing_savepoint(spark, source)
    writer.rename_state(own, renamed, "renamed").drop_state(own, dropped)
    writer.transform_state(own, value.name, lambda rows: rows.where(F.col("key_group") < 64))
    path = writer.change_operator_identifier(own, "new-uid").write(tmp_path / "s")
    after = contents(path, uids=["new-uid"])
    moved = stateproc.open(path, uids=["new-uid"]).operator("new-uid").operator_id
    assert after[f"{moved}/renamed"] == before[f"{own}/{renamed}"]
    assert f"{moved}/{dropped}" not in after and f"{own}/{dropped}" in before
    kept = [row for row in value.to_arrow().to_pylist() if row.pop("key_group") < 64]
    assert after[f"{moved}/{value.name}"] == sorted(map(repr, kept))
    for name, rows in before.items():
        if not name.startswith(own):
            assert after[name] == rows


def test_invalid_changes_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    source = fixture("kitchen-hashmap-canonical").snapshot
    writer = SavepointWriter.from_existing_savepoint(spark, source)
    with pytest.raises(InvalidOption, match="made from"):
        writer.write(source, "overwrite")
    with pytest.raises(NotFound):
        writer.remove_operator("no-such-operator")
    operator, state = next(
        (item.operator_id, state.name)
        for item in stateproc.open(source).operators
        for state in item.keyed_states
        if not state.keyed.ttl
    )
    with pytest.raises(NotFound):
        writer.drop_state(operator, "no-such-state")
    with pytest.raises(InvalidOption, match="time to live"):
        other = SavepointWriter.from_existing_savepoint(spark, source)
        other.purge_expired(operator, state, timedelta(days=1)).write(tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("edit", ["enable_ttl", "rename_state"])
def test_edits_of_a_transformed_state_are_refused(spark: SparkSession, tmp_path: Path, edit: str) -> None:
    """A DataFrame replaces the carried entries, so that edits of them would be lost."""
    writer = SavepointWriter.from_existing_savepoint(spark, fixture("tiny-hashmap-canonical-inline").snapshot)
    uid = "kitchen-string"
    writer.transform_state(uid, "counter", lambda rows: rows.where("value > 1"))
    writer.enable_ttl(uid, "counter") if edit == "enable_ttl" else writer.rename_state(uid, "counter", "other")
    with pytest.raises(InvalidOption, match="another name or time to live"):
        writer.write(tmp_path / "s")
    dropping = SavepointWriter.from_existing_savepoint(spark, fixture("tiny-hashmap-canonical-inline").snapshot)
    dropping.transform_state(uid, "counter", lambda rows: rows).drop_state(uid, "counter")
    with pytest.raises(InvalidOption, match="dropped"):
        dropping.write(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_states_of_keys_with_an_unknown_hash_are_transformed(spark: SparkSession, tmp_path: Path) -> None:
    """The hashCode of a POJO is unknown, so that its rows stay in the key groups in which they were stored."""
    frame = spark.range(200).select(
        F.struct(F.col("id").alias("n"), F.lit("t").alias("tenant")).alias("key"),
        F.col("id").alias("value"),
        (F.hash("id") + 3).alias("own_hash"),
    )
    state = OperatorBootstrap(key_type="Pojo com.acme.Key {n: Long, tenant: String}", hash_column="own_hash")
    made = SavepointWriter.new_savepoint(spark).with_operator("op", state.value_state("v", frame))
    source = made.write(tmp_path / "source")

    def doubled(target: str, keep: bool, groups: int | None = None) -> str:
        def change(rows: DataFrame) -> DataFrame:
            changed = rows.withColumn("value", F.col("value") * 2)
            return changed if keep else changed.drop("key_group")

        writer = SavepointWriter.from_existing_savepoint(spark, source).transform_state("op", "v", change)
        if groups is not None:
            writer.with_max_parallelism(groups)
        return writer.write(tmp_path / target)

    before, after = (
        {str(row["key"]): (row["key_group"], row["value"]) for row in rows_of(path)}
        for path in (source, doubled("kept", keep=True))
    )
    assert len(after) == 200
    assert after == {key: (group, value * 2) for key, (group, value) in before.items()}
    for target, keep, groups in (("dropped", False, None), ("moved", True, 256)):
        with pytest.raises(InvalidOption, match="hashCode"):
            doubled(target, keep, groups)
        assert not (tmp_path / target).exists()


def rows_of(path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = stateproc.open(path).operator("op").state("v").to_arrow().to_pylist()
    return rows


def test_kryo_values_of_unknown_classes_are_refused_for_flink_2(spark: SparkSession, tmp_path: Path) -> None:
    """The error names the state; without it, all others are carried over or converted."""
    item, uid = fixture("edges-hashmap-canonical"), "edges-generic"
    options = {"uids": ",".join(uids_of(item))}
    writer = SavepointWriter.from_existing_savepoint(spark, item.snapshot, options).with_flink_version("2.3")
    with pytest.raises(UnsupportedSnapshot, match=r"values cannot be converted to Kryo 5 of Flink 2\.3") as refused:
        writer.write(tmp_path / "s")
    assert (refused.value.where.operator, refused.value.where.state) == (uid, "generic")
    assert not (tmp_path / "s").exists()
    opaque = options | {"opaque": "bytes"}
    bytes_only = SavepointWriter.from_existing_savepoint(spark, item.snapshot, opaque).with_flink_version("2.3")
    bytes_only.drop_state(uid, "basket").transform_state(uid, "generic", lambda rows: rows)
    with pytest.raises(UnsupportedSnapshot, match=r"fixtures.Edges\$Generic are but the bytes of Kryo 2") as refused:
        bytes_only.write(tmp_path / "s")
    assert refused.value.where.state == "generic" and "classes" in (refused.value.advice or "")
    assert not (tmp_path / "s").exists()
    path = writer.drop_state(uid, "generic").write(tmp_path / "s")
    written = stateproc.open(path, uids=[uid]).operator(uid)
    assert [state.name for state in written.keyed_states] == ["basket", "animal"]
    first = written.state("basket").to_arrow().sort_by("key").to_pylist()[0]["value"]
    assert (first["items"], first["counts"]) == (["tea", "紅", ""], [("tea", 2)])


def test_described_kryo_values_are_transformed(spark: SparkSession, tmp_path: Path) -> None:
    """Class descriptions are used for writing, too; values for another major version use its Kryo version."""
    options = {"classes": {"com.acme.Thing": {"name": "String", "n": "int"}}}
    nothing = spark.range(5).selectExpr("id key", "X'00' value")
    state = OperatorBootstrap().value_state("v", nothing, type=types.Kryo("com.acme.Thing"))
    path = SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "bytes")
    things = spark.range(5).selectExpr(
        "id key", "named_struct('name', concat('thing ', id), 'n', cast(id as int)) value"
    )
    writer = SavepointWriter.from_existing_savepoint(spark, path, options)
    path = writer.transform_state("op", "v", lambda rows: things).write(tmp_path / "things")
    for step, release in enumerate(("1.20", "2.3", "1.20")):
        writer = SavepointWriter.from_existing_savepoint(spark, path, options).with_flink_version(release)
        path = writer.transform_state("op", "v", lambda rows: rows).write(tmp_path / str(step))
        found = stateproc.open(path, **options).state("op", "v").to_arrow().sort_by("key")
        assert found.column("value").to_pylist() == [{"name": f"thing {n}", "n": n} for n in range(5)]


REWRITES = {
    "copy": lambda writer: writer,
    "uid": lambda writer: writer.change_operator_identifier("hooked", "renamed"),
    "release": lambda writer: writer.with_flink_version("2.3"),
    "older release": lambda writer: writer.with_flink_version("1.14"),
    "canonical": lambda writer: writer.with_format("canonical").with_max_parallelism(256),
    "native-hashmap": lambda writer: writer.with_format("native-hashmap"),
    "native-rocksdb": lambda writer: writer.with_format("native-rocksdb"),
    "replaced": lambda writer: writer.remove_operator("hooked"),
}


@pytest.mark.parametrize("kind", REWRITES)
def test_master_states_are_kept(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    item = fixture("hooks-hashmap-canonical")
    before = item.open().metadata.master_states
    assert [state.name for state in before] == ["offsets-hook", "names-hook é", "empty-hook"]
    writer = SavepointWriter.from_existing_savepoint(spark, item.snapshot, {"uids": uids_of(item)})
    path = REWRITES[kind](writer).write(tmp_path / "s")
    assert stateproc.open(path).metadata.master_states == before


def test_callbacks_run_once(spark: SparkSession, tmp_path: Path) -> None:
    """A callback may count, log or read a table, so that it runs once per write, like a function of rows."""
    item = fixture("tiny-hashmap-canonical-inline")
    calls: list[str] = []

    def add(operator: OperatorBootstrap) -> OperatorBootstrap:
        calls.append("add")
        return operator.value_state("added", spark.createDataFrame([("tea", 1)], "key string, value int"))

    def double(rows: DataFrame) -> DataFrame:
        calls.append("transform")
        return rows.withColumn("value", F.col("value") * 2)

    writer = SavepointWriter.from_existing_savepoint(spark, item.snapshot, {"uids": ["kitchen-string"]})
    writer.with_states("kitchen-string", add).transform_state("kitchen-string", "counter", double)
    path = writer.write(tmp_path / "s")
    assert calls == ["transform", "add"]
    assert stateproc.open(path).state("kitchen-string", "added").to_arrow()["value"].to_pylist() == [1]
