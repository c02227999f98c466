"""States of an unknown serializer in Spark: errors come from the driver, ``onError`` and ``opaque`` read past them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pyspark.sql import SparkSession

import stateproc
from stateproc import UnreadableStateWarning, UnsupportedSnapshot
from tests.helpers.fixtures import Fixture, unknown_type_fixtures
from tests.helpers.spark.reader_contract import planned, rows

UID = "many-states"
CLASS = "ManyStates$MoneySerializer$Snapshot"
ALL = unknown_type_fixtures()
CANONICAL = next(item for item in ALL if item.name == "1.20/many-states-hashmap-canonical")


def options_of(fixture: Fixture, **options: str) -> dict[str, str]:
    return {"path": fixture.snapshot, "uid": UID, **options}


def expected_of(fixture: Fixture) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for line in fixture.expected():
        found.setdefault(line["key"], {})[line["state"]] = line["value"]
    return found


@pytest.mark.parametrize("fixture", ALL, ids=lambda fixture: fixture.name)
def test_a_wide_read_fails_while_planning_or_reads_null(fixture: Fixture) -> None:
    with pytest.raises(UnsupportedSnapshot, match="ManyStates"):
        planned(options_of(fixture)).partitions()
    sized = "hashmap-checkpoint" not in fixture.name
    expected = {key: row.get("s03") for key, row in expected_of(fixture).items() if sized or key != 4}
    with pytest.warns(UnreadableStateWarning) as recorded:
        found = rows(options_of(fixture, onerror="null"))
    assert len(recorded) == 1
    assert len(found.schema) == 52
    assert found.column("account").null_count == found.column("ledger").null_count == len(expected)
    assert dict(zip(found.column("key").to_pylist(), found.column("s03").to_pylist(), strict=True)) == expected


@pytest.mark.parametrize("fixture", ALL, ids=lambda fixture: fixture.name)
def test_opaque_bytes_or_an_error_while_planning(fixture: Fixture) -> None:
    options = options_of(fixture, state="account", opaque="bytes")
    if "hashmap-checkpoint" in fixture.name:
        with pytest.raises(UnsupportedSnapshot, match="no known end") as refused:
            planned(options)
        assert "take a canonical savepoint" in (refused.value.advice or "")
        return
    found = rows(options)
    values = {row["key"]: base64.b64encode(row["value"]).decode() for row in found.to_pylist()}
    assert values == {key: row["account"] for key, row in expected_of(fixture).items()}


def test_queries(spark: SparkSession) -> None:
    source = spark.read.format("savepoint").options(uid=UID)
    with pytest.raises(Exception, match="no known end") as refused:
        source.load(CANONICAL.snapshot).select("s03").collect()
    assert "Job aborted" not in str(refused.value)  # raised on the driver, before any task
    assert "on_error='null'" in str(refused.value)
    assert "select other columns (option 'columns')" in str(refused.value)
    found = source.option("columns", "key,s03").load(CANONICAL.snapshot).collect()
    expected = {key: row.get("s03") for key, row in expected_of(CANONICAL).items()}
    assert {row.key: row.s03 for row in found} == expected
    frame = spark.read.format("savepoint").options(uid=UID, onError="null").load(CANONICAL.snapshot)
    assert frame.schema["account"].dataType.simpleString() == "string"
    assert frame.schema["ledger"].dataType.simpleString() == "map<string,string>"
    assert {row.key: (row.s03, row.account) for row in frame.select("key", "s03", "account").collect()} == {
        key: (value, None) for key, value in expected.items()
    }


def test_views_have_the_readable_columns_or_all(spark: SparkSession) -> None:
    views = stateproc.attach(spark, CANONICAL.snapshot, uids=[UID])
    assert views.problems.keys() == {"many_states__account", "many_states__ledger"}
    assert len(spark.table("many_states").columns) == 50
    assert spark.table("many_states").count() == 5
    with pytest.warns(UnreadableStateWarning, match="null because they cannot be decoded"):
        views = stateproc.attach(spark, CANONICAL.snapshot, uids=[UID], onError="null")
    assert views.problems == {}
    assert len(spark.table("many_states").columns) == 52
    [row] = spark.sql("SELECT count(*) AS n, count(value) AS known FROM many_states__account").collect()
    assert (row.n, row.known) == (5, 0)
