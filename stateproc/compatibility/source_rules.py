"""Decide whether the sources of a job exist in a release, and read what they have written."""

from __future__ import annotations

from stateproc.compatibility.storage_rules import Obstacle
from stateproc.connectors.cdc import OLD_PACKAGE, names_old_classes
from stateproc.connectors.kafka_consumer import CONSUMER_STATE as KAFKA_STATE
from stateproc.connectors.kinesis_consumer import is_consumer_state
from stateproc.connectors.operator_states import SOURCE_STATE
from stateproc.flink_versions import Release
from stateproc.model.operator import Operator
from stateproc.model.operator_state import OperatorState
from stateproc.model.snapshot import SnapshotContents

_FIRST_WITHOUT = Release(2, 0)
"""The first release without the sources before FLIP-27, and for which there is no Flink CDC before 3.1."""


def source_obstacle(snapshot: SnapshotContents, operator: Operator, release: Release) -> Obstacle | None:
    """Return why a source of the job cannot go on in a release; None if it can, or is none."""
    if release < _FIRST_WITHOUT:
        return None
    uid = operator.uid or operator.operator_id
    for state in operator.operator_states:
        consumer = _consumer(state)
        if consumer is not None:
            old, new, more = consumer
            return Obstacle(
                f"Flink {release} has no {old}: {new} takes its place",
                None,
                f"stateproc move-source {snapshot.path} TARGET --uid {uid} --to NEW_UID{more}",
            )
        if _names_old_classes(state):
            return Obstacle(
                f"its splits name classes below {OLD_PACKAGE.rstrip('.')}, which Flink CDC has until 3.0 only",
                f"java.lang.ClassNotFoundException: {OLD_PACKAGE}…",
                f"stateproc upgrade {snapshot.path} TARGET --flink-version {release}",
            )
    return None


def _consumer(state: OperatorState) -> tuple[str, str, str] | None:
    """Return the source before FLIP-27 that a state is of, the one that takes its place, and what else it needs."""
    if state.name == KAFKA_STATE and "KafkaTopicPartition" in (state.value_type or ""):
        return "FlinkKafkaConsumer", "KafkaSource", ""
    if is_consumer_state(state.name, state.value_type):
        return "FlinkKinesisConsumer", "KinesisStreamsSource", " --stream-arn ARN"
    return None


def _names_old_classes(state: OperatorState) -> bool:
    if state.name != SOURCE_STATE or state.value_type != "byte[]":
        return False
    return names_old_classes(state.to_arrow().column("value").to_pylist())
