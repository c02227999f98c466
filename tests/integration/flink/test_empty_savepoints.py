"""Real Flink restores savepoints of DataFrames without rows: states are registered, and hold nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from stateproc.writers.spark.data_source_writer import writer_of
from tests.helpers.flink.restoration import BACKENDS, Operator, Spec, State, restore

pytestmark = pytest.mark.flink

KEYED = StructType([StructField("key", LongType()), StructField("value", StringType())])
PAIRS = StructType([StructField("map_key", LongType()), StructField("map_value", IntegerType())])
ELEMENTS = StructType([StructField("value", StringType())])
CASES = {
    "canonical": ({"stateKind": "value"}, KEYED, "value", "STRING", BACKENDS),
    "hashmap": ({"stateKind": "value", "snapshotFormat": "native-hashmap"}, KEYED, "value", "STRING", ("hashmap",)),
    "rocksdb": ({"stateKind": "value", "snapshotFormat": "native-rocksdb"}, KEYED, "value", "STRING", ("rocksdb",)),
    "list": ({"stateKind": "operator-list"}, ELEMENTS, "operator-list", "LIST(STRING)", ("hashmap",)),
    "union": ({"stateKind": "union", "compression": "true"}, ELEMENTS, "operator-union", "LIST(STRING)", ("hashmap",)),
    "broadcast": ({"stateKind": "broadcast"}, PAIRS, "broadcast", "MAP(LONG, INT)", ("hashmap",)),
}


def write(path: Path, options: dict[str, str], columns: StructType) -> None:
    """A savepoint of no rows, in two subtasks."""
    named = {"path": str(path), "uid": "op", "state": "nothing", "parallelism": "2", **options}
    writer = writer_of(named, columns, overwrite=False)
    writer.commit([writer.write(iter(()))])


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_flink_restores_states_without_entries(tmp_path: Path, release: str) -> None:
    specs = []
    for name, (options, columns, kind, type_, backends) in CASES.items():
        write(tmp_path / name, {**options, "flinkVersion": release}, columns)
        operator = Operator("op", "LONG" if columns is KEYED else None, [State("nothing", kind, type_)])
        specs.append(Spec(name, str(tmp_path / name), [operator], backends, (1, 3)))
    for name, restored in restore(release, specs, tmp_path / "restored").items():
        assert restored.failures() == {}, name
        assert [run.contents for run in restored.runs.values()] == [[]] * len(restored.runs), name
        assert set(restored.compatibility.values()) == {"as is"}, name
        assert ("op", "nothing", "value") in restored.compatibility, name
        assert restored.unread == set(), name
