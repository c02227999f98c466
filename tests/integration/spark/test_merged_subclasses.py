"""Spark writes anew what subtasks wrote that had met other subclasses of a POJO."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import stateproc
from stateproc import SavepointWriter
from tests.helpers.cases import case_snapshots

ONE = next(one for one in case_snapshots() if one.case == "polymorphic-pojo")


def test_values_stay(spark: SparkSession, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark, ONE.path, {"uids": ",".join(ONE.uids)})
    writer.with_max_parallelism(256).with_parallelism("op", 3)
    for name in ("event", "byName"):
        writer.transform_state("op", name, lambda rows: rows)
    written = stateproc.open(writer.write(tmp_path / "out"), uids=ONE.uids)
    for state in ONE.states():
        assert state.differences(state.state(written).to_arrow().to_pylist()) == []
