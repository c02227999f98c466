"""The Spark data source reads the snapshots of jobs as people have them."""

from __future__ import annotations

from collections import defaultdict

import pytest
from pyspark.sql import SparkSession

from tests.helpers.cases import CaseSnapshot, ExpectedState, case_snapshots, compared_states

STATES: dict[CaseSnapshot, list[ExpectedState]] = defaultdict(list)
for item in compared_states():
    STATES[item.snapshot].append(item)


@pytest.mark.parametrize("snapshot", STATES, ids=str)
def test_spark_reads_what_the_job_recorded(spark: SparkSession, snapshot: CaseSnapshot) -> None:
    found = {}
    for expected in STATES[snapshot]:
        frame = spark.read.format("savepoint").options(**expected.spark_options()).load(snapshot.path)
        if differences := expected.differences(list(frame.toArrow().to_pylist())):
            found[str(expected)] = differences
    assert found == {}


def test_spark_reads_the_partitions_of_a_kafka_consumer(spark: SparkSession) -> None:
    for snapshot in (item for item in case_snapshots() if item.case == "kafka-consumer"):
        (state,) = snapshot.states()
        options = {"uid": state.uid, "operatorState": state.name}
        rows = spark.read.format("savepoint").options(**options).load(snapshot.path).collect()
        found = {(row.value.f0.topic, row.value.f0.partition): row.value.f1 for row in rows}
        assert found == {(line["key"]["topic"], line["key"]["partition"]): line["value"] for line in state.lines}
