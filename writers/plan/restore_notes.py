"""Say what a job needs to restore a planned savepoint, and what Flink will report otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stateproc.writers.changes.offset_words import OFFSET_WORDS
from stateproc.writers.plan.savepoint_plan import OperatorPlan, PlanAction
from stateproc.writers.plan.serializer_notes import serializer_notes
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.kafka_transactions import COMMITTER_STATE
from stateproc.writers.rewrite.operator_state_edits import KafkaState
from stateproc.writers.scaled_operators import AnyOperator, WriteSettings

_SHOWN = 5
_BACKENDS = {"native-hashmap": "HashMapStateBackend", "native-rocksdb": "EmbeddedRocksDBStateBackend"}


def restore_notes(
    plans: Sequence[OperatorPlan], operators: Sequence[AnyOperator], settings: WriteSettings
) -> Iterator[str]:
    """Yield the notes of a plan; ``operators`` are those of the new savepoint."""
    existing = [item for item in operators if isinstance(item, ExistingOperator)]
    yield from _uids(plans)
    if settings.format is not None and settings.format.value in _BACKENDS:
        yield f"{settings.format.value} is restored by {_BACKENDS[settings.format.value]} only"
    yield from (note for item in existing for note in _states(item))
    yield from (note for item in existing for note in serializer_notes(item, settings.release))
    if existing:
        yield "serializers of states that are carried over stay as they are: as compatible with the job as the source's"
    if settings.drop_in_flight:
        yield "records in flight are lost"


def _uids(plans: Sequence[OperatorPlan]) -> Iterator[str]:
    unknown = [it.display for it in plans if it.action is PlanAction.ADDED or _is_renamed(it)]
    if unknown:
        yield (
            f"the job has to have operators of the uids {listed(unknown)}: Flink refuses state of operators that the "
            "job does not have, unless it is started with --allowNonRestoredState"
        )
    dropped = [it.display for it in plans if it.action is PlanAction.DROPPED]
    if dropped:
        yield f"operators of the job with the uids {listed(dropped)} start without state"


def _is_renamed(plan: OperatorPlan) -> bool:
    return plan.action is PlanAction.CHANGED and plan.source_id != plan.operator_id


def _states(operator: ExistingOperator) -> Iterator[str]:
    edits, display = operator.edits, operator.uid or operator.operator_id
    for old, new in edits.renamed.items():
        yield f"{display}: the job's state descriptor has to have the name '{new}' instead of '{old}'"
    for name in sorted(edits.dropped):
        yield f"{display}: the state '{name}' starts empty if the job still has it"
    for name, edit in edits.ttl.items():
        if edit.action == "on":
            yield f"{display}: the job has to enable time to live of '{name}' (StateTtlConfig)"
        elif edit.action == "off":
            yield f"{display}: the job must not enable time to live of '{name}'; its expired entries are valid again"
    if COMMITTER_STATE in edits.emptied:
        yield (
            f"{display}: the dropped transactions stay open in Kafka until the sink's transaction.timeout.ms; until "
            "then readers of committed records wait"
        )


def offsets_notes(operator: ExistingOperator, before: KafkaState, after: KafkaState) -> Iterator[str]:
    """Yield what changes in the offsets of a Kafka source, and what to know about it."""
    display = operator.uid or operator.operator_id
    old, new = before.offsets, after.offsets
    changes = [
        f"{topic}:{number} {_offset(old.get((topic, number)))} → {_offset(new[topic, number])}"
        for topic, number in sorted(new)
        if new[topic, number] != old.get((topic, number))
    ]
    if changes:
        more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
        yield f"{display}: new offsets {', '.join(changes[:_SHOWN])}{more}"
    gone = [f"{topic}:{number}" for topic, number in before.known if (topic, number) not in set(after.known)]
    if gone:
        yield (
            f"{display}: removed partitions that Kafka still has ({listed(gone)}) are found again, and read from "
            "their beginning, if the source discovers partitions"
        )


def _offset(offset: int | None) -> str:
    """An offset, the word for a marker, or a dash for a partition that no reader has."""
    words = {marker: word for word, marker in OFFSET_WORDS.items()}
    return "–" if offset is None else words.get(offset, str(offset))


def listed(names: Sequence[str]) -> str:
    """Join the first few names, quoted."""
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
