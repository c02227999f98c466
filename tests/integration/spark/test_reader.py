"""Rows of the data source equal those of the Arrow reader, for every state of fixtures of all kinds."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, In, LessThan
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import stateproc
from stateproc.errors import InvalidOption, NotFound, SnapshotError
from stateproc.model.operator_state import opened_state
from stateproc.model.schema_merging import aligned_array
from stateproc.model.state import State
from stateproc.spark.types import carried
from tests.helpers.paths import FIXTURES
from tests.helpers.spark.reader_contract import planned, rows, selecting

SNAPSHOTS = [
    FIXTURES / release / name / "snapshot"
    for release in ("1.20", "2.3")
    for name in (
        "edges-hashmap-canonical", "edges-hashmap-checkpoint", "kafka-hashmap-checkpoint",
        "operators-hashmap-canonical", "operators-hashmap-filemerging", "sql-hashmap-checkpoint",
        "tiny-hashmap-changelog-memory", "tiny-rocksdb-canonical-1024", "tiny-rocksdb-full-heaptimers",
        "windows-rocksdb-canonical",
    )
]  # fmt: skip
DEMO = str(FIXTURES / "1.20" / "demo" / "snapshot")
PROFILES = "orders-per-customer"


def same_rows(options: dict[str, str], state: State) -> None:
    """Check that the data source and the Arrow reader return equal rows or fail with the same message."""
    flatten = options.get("flattencollectiontypes") == "true"
    try:
        table = state.to_arrow(flatten=flatten)
    except SnapshotError as error:
        with pytest.raises(type(error)) as raised:
            rows(options)
        assert raised.value.message == error.message
        return
    found = rows(options)
    assert found.column_names == table.column_names
    for name in table.column_names:
        core = table.column(name).combine_chunks()
        expected = aligned_array(core, carried(core.type))
        got = aligned_array(found.column(name).combine_chunks(), expected.type)
        assert repr(got.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_all_states_equal_those_of_the_arrow_reader(path: Path) -> None:
    snapshot = stateproc.open(str(path))
    assert snapshot.states or "changelog" in str(path)
    for state in snapshot.states:
        same_rows({"path": str(path), **selecting(state)}, opened_state(state))
    for operator in snapshot.operators:
        if operator.keyed_states:
            try:
                wide = operator.wide()
            except SnapshotError:
                continue
            same_rows({"path": str(path), "uidhash": operator.operator_id}, wide)


def test_flattened_states_equal_those_of_the_arrow_reader() -> None:
    state = stateproc.open(DEMO).state(PROFILES, "spent-per-product")
    options = {"path": DEMO, "uid": PROFILES, "state": "spent-per-product", "flattencollectiontypes": "true"}
    same_rows(options, state)
    assert rows(options).column_names == ["key_group", "key", "map_key", "map_value"]


def profile(**options: str) -> dict[str, str]:
    return {"path": DEMO, "uid": PROFILES, "state": "profile", **options}


def test_the_rows_of_a_state_are_complete() -> None:
    assert sorted(rows(profile()).column("key").to_pylist()) == list(range(300))


def test_a_key_filter_reads_only_its_key_group() -> None:
    found = rows(profile(), filters=[EqualTo(("key",), 42)])
    assert 42 in found.column("key").to_pylist()
    assert set(found.column("key_group").to_pylist()) == {29}
    [partition] = planned(profile(), filters=[EqualTo(("key",), 42)]).partitions()
    whole = sum(item.value.bytes for item in planned(profile()).partitions())
    assert partition.value.key_groups == (29,)
    assert partition.value.bytes * 20 < whole


def test_key_groups_are_restricted_by_filters_and_options() -> None:
    assert set(rows(profile(), filters=[LessThan(("key_group",), 3)]).column("key_group").to_pylist()) <= {
        0,
        1,
        2,
    }
    by_option = rows(profile(keygroups="29,94"))
    assert set(by_option.column("key_group").to_pylist()) == {29, 94}
    assert rows(profile(keys="[42, 0]")).equals(by_option)
    both = planned(profile(keygroups="94"), filters=[In(("key",), (42,))])
    assert rows(profile(keygroups="94"), filters=[In(("key",), (42,))]).num_rows == 0
    [nothing] = both.partitions()
    assert nothing.value is None
    assert list(both.read(nothing)) == []


def test_small_splits_result_in_more_partitions_with_the_same_rows() -> None:
    parts = planned(profile(splitbytes="1k")).partitions()
    assert len(parts) > 20
    assert rows(profile(splitbytes="1k")).equals(rows(profile()))
    groups = [group for part in parts for group in part.value.key_groups]
    assert len(groups) == len(set(groups))


def test_push_filters_is_not_overridden_for_spark() -> None:
    """Spark checks whether a reader overrides pushFilters, and fails if it does and the setting is off."""
    reader = planned(profile())
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters


def test_columns_have_the_requested_order() -> None:
    assert rows(profile(columns="value,key")).column_names == ["value", "key"]
    with pytest.raises(InvalidOption, match="no column 'valu'"):
        rows(profile(columns="valu"))


def test_a_schema_selects_and_casts_columns() -> None:
    fields = StructType([StructField("name", StringType()), StructField("rank", LongType())])
    found = rows(profile(keygroups="29"), StructType([StructField("value", fields), StructField("key", LongType())]))
    names = dict(zip(found.column("key").to_pylist(), found.column("value").to_pylist(), strict=True))
    assert names[42]["name"] == "customer № 42"
    assert set(names[42]) == {"name", "rank"}


@pytest.mark.parametrize(
    ("schema", "kind", "message"),
    [
        (StructType([StructField("kye", LongType())]), NotFound, "no column 'kye'"),
        (StructType([StructField("value", IntegerType())]), InvalidOption, "cannot be read as int32"),
        (
            StructType([StructField("value", StructType([StructField("nam", StringType())]))]),
            NotFound,
            "no field 'nam' in column 'value'",
        ),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(schema: StructType, kind: type[SnapshotError], message: str) -> None:
    with pytest.raises(kind) as raised:
        rows(profile(), schema)
    assert message in raised.value.message


def test_raw_source_state_is_returned_as_bytes() -> None:
    options = {"path": DEMO, "uid": "orders-from-kafka", "state": "SourceReaderState"}
    raw = rows({**options, "raw": "true"})
    assert raw.column_names == ["subtask", "value"]
    assert sorted(rows(options).to_pylist(), key=lambda row: (row["subtask"], row["partition"])) == [
        {"subtask": subtask, "topic": "shop.orders", "partition": partition, "starting_offset": start,
         "stopping_offset": stop}
        for subtask, partition, start, stop in [
            (0, 0, 845180, None), (0, 2, 10000845180, None), (0, 4, 20000845180, None),
            (1, 1, 5000845180, None), (1, 3, 15000845180, 90000000000),
        ]
    ]  # fmt: skip


def test_an_operator_without_keyed_states() -> None:
    with pytest.raises(SnapshotError, match="SourceReaderState"):
        rows({"path": DEMO, "uid": "orders-from-kafka"})
