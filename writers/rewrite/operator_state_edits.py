"""Write the operator state of an existing operator with its edits: Kafka offsets, emptied states, parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateproc.flink_versions import Release
from stateproc.metadata.snapshot import OperatorState
from stateproc.reports.kafka_offsets import SOURCE_STATE
from stateproc.writers.commit.staging import Staging
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.kafka_offsets import KafkaSourceState, kafka_source_state
from stateproc.writers.rewrite.operator_state_copy import Elements
from stateproc.writers.rewrite.repartition import repartitioned


def writes_operator_state(operator: ExistingOperator, parallelism: int) -> bool:
    """Whether the operator's operator state is written anew at this parallelism, and not copied with its files."""
    return operator.edits.touch_operator_state or parallelism != operator.operator.parallelism


def new_offsets(operator: ExistingOperator) -> KafkaSourceState | None:
    """Return the state of a KafkaSource with the edits of its offsets; None if there are none.

    Raises NotFound, InvalidOption, UnsupportedSnapshot, CorruptSnapshot, MissingFile.
    """
    found = offsets_before_and_after(operator)
    return None if found is None else found[1]


def offsets_before_and_after(operator: ExistingOperator) -> tuple[KafkaSourceState, KafkaSourceState] | None:
    """Return the state of a KafkaSource without and with the edits of its offsets; None if there are none.

    Raises as `new_offsets`.
    """
    own, edits = operator.operator, operator.edits.offsets
    if not edits:
        return None
    before = kafka_source_state(own)
    return before, before.changed(edits, own.parallelism, own.display)


def edited_operator_state(
    operator: ExistingOperator, carried: OperatorState, parallelism: int, release: Release, staging: Staging, *,
    verify: bool,
) -> OperatorState:  # fmt: skip
    """Return ``carried`` with the operator state that is written anew, and write its files.

    Raises InvalidOption for edits that do not fit the state, and as `repartitioned`.
    """
    if not writes_operator_state(operator, parallelism):
        return carried
    given: dict[str, Sequence[Elements]] = dict.fromkeys(operator.edits.emptied, ())
    source = new_offsets(operator)
    if source is not None:
        given[SOURCE_STATE] = source.elements()
        carried = replace(carried, coordinator=source.coordinator())
    return repartitioned(operator.operator, carried, parallelism, release, staging, verify=verify, given=given)
