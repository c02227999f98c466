"""Write the operator state of an existing operator with its edits: Kafka offsets, emptied states, parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateproc.flink_versions import Release
from stateproc.metadata.snapshot import OperatorEntry
from stateproc.model.operator import Operator
from stateproc.writers.commit.staging import Staging
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.kafka_consumer_offsets import KafkaConsumerState, kafka_consumer_state
from stateproc.writers.rewrite.kafka_offsets import KafkaSourceState, kafka_source_state
from stateproc.writers.rewrite.operator_state_copy import Elements, repartitioned

KafkaState = KafkaSourceState | KafkaConsumerState
"""The state of a Kafka source, new or old."""


def kafka_state(operator: Operator) -> KafkaState:
    """Read the state of a KafkaSource or a FlinkKafkaConsumer.

    Raises InvalidOption if the operator is neither, UnsupportedSnapshot, CorruptSnapshot, MissingFile.
    """
    return kafka_consumer_state(operator) or kafka_source_state(operator)


def writes_operator_state(operator: ExistingOperator, parallelism: int) -> bool:
    """Whether the operator's operator state is written anew at this parallelism, and not copied with its files."""
    return operator.edits.touch_operator_state or parallelism != operator.operator.parallelism


def new_offsets(operator: ExistingOperator) -> KafkaState | None:
    """Return the state of a Kafka source with the edits of its offsets; None if there are none.

    Raises NotFound, InvalidOption, UnsupportedSnapshot, CorruptSnapshot, MissingFile.
    """
    found = offsets_before_and_after(operator)
    return None if found is None else found[1]


def offsets_before_and_after(operator: ExistingOperator) -> tuple[KafkaState, KafkaState] | None:
    """Return the state of a Kafka source without and with the edits of its offsets; None if there are none.

    Raises as `new_offsets`.
    """
    own, edits = operator.operator, operator.edits.offsets
    if not edits:
        return None
    before = kafka_state(own)
    return before, before.changed(edits, own.parallelism, own.display)


def edited_operator_state(
    operator: ExistingOperator, carried: OperatorEntry, parallelism: int, release: Release, staging: Staging, *,
    verify: bool,
) -> OperatorEntry:  # fmt: skip
    """Return ``carried`` with the operator state that is written anew, and write its files.

    Raises InvalidOption for edits that do not fit the state, and as `repartitioned`.
    """
    if not writes_operator_state(operator, parallelism):
        return carried
    given: dict[str, Sequence[Elements]] = dict.fromkeys(operator.edits.emptied, ())
    source = new_offsets(operator)
    if source is not None:
        given[source.state_name] = source.elements()
        if isinstance(source, KafkaSourceState):
            carried = replace(carried, coordinator=source.coordinator())
    return repartitioned(operator.operator, carried, parallelism, release, staging, verify=verify, given=given)
