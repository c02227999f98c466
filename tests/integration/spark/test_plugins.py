"""User-defined parsers in a module that Spark's workers load."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stateproc
from tests.helpers.cases import case_snapshots
from tests.helpers.fixtures import FIXTURES, fixtures_in

(FIXTURE,) = fixtures_in(FIXTURES / "1.20" / "tiny-hashmap-canonical-1024")
UID = "kitchen-string"
FLINKS = b"org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot"
OWN = b"com.acme.state.serializers.xxxxxxxxxxxxxxxxxxxxxxx.OurOwnLongsSerializerSnapshot"
"""The class that tests/workers/acme_parsers.py registers; its name is as long as Flink's to replace it in place."""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Return a savepoint whose longs have a serializer snapshot of an unknown class."""
    data = (Path(FIXTURE.snapshot) / "_metadata").read_bytes()
    assert FLINKS in data and len(FLINKS) == len(OWN)
    (tmp_path / "_metadata").write_bytes(data.replace(FLINKS, OWN))
    return tmp_path


def test_values_of_an_unknown_class_are_returned_as_bytes(foreign: Path) -> None:
    """Entries store their lengths, and the state's type contains the class name."""
    opaque = stateproc.open(foreign, uids=[UID], opaque="bytes")
    operator, known = (snapshot.operator(UID) for snapshot in (opaque, FIXTURE.open()))
    assert operator.state("counter").keyed.value.type_name == "? OurOwnLongsSerializerSnapshot"
    found, wanted = (it.state("counter").to_arrow().sort_by("key") for it in (operator, known))
    values = [value.to_bytes(8, "big", signed=True) for value in wanted.column("value").to_pylist()]
    assert found.column("value").to_pylist() == values and values
    assert operator.state("spent").to_arrow() == known.state("spent").to_arrow()


@pytest.mark.parametrize("state", ["counter", "reduced", "spent"])
def test_a_plugin_registers_the_class_in_sparks_workers(spark: SparkSession, foreign: Path, state: str) -> None:
    options = {"uid": UID, "state": state, "plugins": "acme_parsers"}
    found = spark.read.format("savepoint").options(**options).load(str(foreign)).toArrow().sort_by("key")
    wanted = FIXTURE.open().operator(UID).state(state).to_arrow().sort_by("key")
    assert found.num_rows > 0
    assert found.select(["key_group", "key", "value"]).to_pylist() == wanted.to_pylist()


def test_a_plugin_registers_a_function_for_a_kryo_serializer_in_sparks_workers(spark: SparkSession) -> None:
    snapshot = next(item for item in case_snapshots() if item.case == "kryo-serializers")
    expected = next(state for state in snapshot.states() if state.name == "money")
    options = expected.spark_options() | {"plugins": "acme_kryo"}
    found = spark.read.format("savepoint").options(**options).load(snapshot.path).toArrow()
    assert found.column("value").type.names == ["cents", "currency"]
    assert expected.lines and expected.differences(found.to_pylist()) == []
