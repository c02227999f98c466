"""Say what a job needs to restore a planned savepoint, and what Flink will report otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stateproc.errors import SnapshotError
from stateproc.flink_versions import Release
from stateproc.html.units import some_of
from stateproc.keygroups.operator_ids import operator_id
from stateproc.metadata.backend import StateMetaInfo
from stateproc.model.config_snapshots import ADVICE, FIRST_WITHOUT, has_config_snapshot
from stateproc.model.operator import Operator
from stateproc.reports.pending import pending, summary
from stateproc.snapshot.snapshot import Snapshot
from stateproc.writers.kafka_offset_words import OFFSET_WORDS
from stateproc.writers.plan.savepoint_plan import OperatorPlan, PlanAction
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.kafka_offsets import COMMITTER_STATE, committer_uid, is_kafka_sink
from stateproc.writers.rewrite.operator_state_edits import KafkaState, SourceState
from stateproc.writers.rewrite.source_positions import SourceSplits
from stateproc.writers.scaled_operators import AnyOperator, WriteSettings

# Say of which serializers Flink cannot restore the state, whatever is rewritten.

_FLINKX = b"org.apache.flinkx.api.serializer."


def serializer_notes(operator: ExistingOperator, release: Release) -> Iterator[str]:
    """Yield notes on the serializers of the states that the operator keeps."""
    display = operator.uid or operator.operator_id
    snapshots = list(_snapshots(operator))
    if any(_FLINKX in data for data in snapshots):
        yield (
            f"{display}: its state is of flink-scala-api, whose releases (up to 1.1.4, 1.1.5 to 1.2.x, 2.x) do "
            "not restore state of each other: the job needs a release with the layout of the source's"
        )
    if release >= FIRST_WITHOUT and any(has_config_snapshot(data) for data in snapshots):
        yield (
            f"{display}: a serializer's snapshot is of TypeSerializerConfigSnapshot, which Flink {FIRST_WITHOUT} has "
            f"no longer, so that Flink {release} cannot restore it: {ADVICE}"
        )


def _snapshots(operator: ExistingOperator) -> Iterator[bytes]:
    source = operator.operator
    for file in source.keyed_files:
        try:
            header = file.header
        except SnapshotError:
            continue  # the write itself reports it
        if header is not None:
            yield header.key_snapshot
            yield from _of_states(header.states, operator)
    for lists in source.operator_files:
        try:
            own = lists.header
        except SnapshotError:
            continue
        yield from _of_states((*own.states, *own.broadcast), operator)


def _of_states(states: tuple[StateMetaInfo, ...], operator: ExistingOperator) -> Iterator[bytes]:
    for state in states:
        if state.name not in operator.edits.dropped:
            yield from state.snapshots.values()


_SHOWN = 5
_BACKENDS = {"native-hashmap": "HashMapStateBackend", "native-rocksdb": "EmbeddedRocksDBStateBackend"}


def restore_notes(
    plans: Sequence[OperatorPlan], operators: Sequence[AnyOperator], settings: WriteSettings
) -> Iterator[str]:
    """Yield the notes of a plan; ``operators`` are those of the new savepoint."""
    existing = [item for item in operators if isinstance(item, ExistingOperator)]
    yield from settings.notes
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
    committers = (state for state in operator.operator.operator_states if state.name == COMMITTER_STATE)
    if COMMITTER_STATE in edits.emptied and any(is_kafka_sink(state) for state in committers):
        yield (
            f"{display}: the dropped transactions stay open in Kafka until the sink's transaction.timeout.ms; until "
            "then readers of committed records wait"
        )


def source_notes(operator: ExistingOperator, before: SourceState, after: SourceState) -> Iterator[str]:
    """Yield what changes in the positions of a source, and what to know about it."""
    display = operator.uid or operator.operator_id
    if isinstance(before, SourceSplits) and isinstance(after, SourceSplits):
        yield from _position_notes(display, before, after)
    elif not isinstance(before, SourceSplits) and not isinstance(after, SourceSplits):
        yield from _offsets_notes(display, before, after)


def _position_notes(display: str, before: SourceSplits, after: SourceSplits) -> Iterator[str]:
    old = before.positions
    moved = {name: at for name, at in after.positions.items() if at != old[name]}
    changes = [f"{name} {old[name] or '–'} → {at}" for name, at in sorted(moved.items())]
    if changes:
        yield f"{display}: new positions {some_of(changes, _SHOWN)}"
    for caution in itertools.islice(after.cautions(moved.keys()), _SHOWN):
        yield f"{display}: {caution}"


def _offsets_notes(display: str, before: KafkaState, after: KafkaState) -> Iterator[str]:
    old, new = before.offsets, after.offsets
    changes = [
        f"{topic}:{number} {_offset(old.get((topic, number)))} → {_offset(new[topic, number])}"
        for topic, number in sorted(new)
        if new[topic, number] != old.get((topic, number))
    ]
    if changes:
        yield f"{display}: new offsets {some_of(changes, _SHOWN)}"
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
    return some_of([f"'{name}'" for name in names], _SHOWN)


# Say which max parallelism a job needs to restore a planned savepoint.
#
# Flink compares the max parallelism of each operator's state with that of the operator's vertex
# (org.apache.flink.runtime.checkpoint.StateAssignmentOperation): where the job sets another number, it refuses the
# savepoint; where it sets none, the vertex gets the savepoint's. Operators of one chain are one vertex, and so need one
# number. A savepoint does not contain which operators were chained.


def max_parallelism_notes(plans: Sequence[OperatorPlan], kept: Mapping[str, str]) -> Iterator[str]:
    """Yield the notes of a plan.

    Args:
        kept: Why operators keep their max parallelism where another is set for all, by operator id.
    """
    present = [plan for plan in plans if plan.max_parallelism is not None]
    changed = [plan for plan in present if plan.source_max_parallelism not in (None, plan.max_parallelism)]
    if not changed:
        return
    # Flink itself sets 1 for operators that are not parallel, whatever the job's number is.
    parallel = [plan for plan in present if plan.max_parallelism != 1 or plan in changed]
    numbers = {plan.max_parallelism for plan in parallel}
    if len(numbers) == 1:
        (number,) = numbers
        yield f"the job's max parallelism has to be {number}, or not set: Flink restores no other than the savepoint's"
    else:
        yield from _of_operators(parallel, changed)
    for plan in present:
        if plan.operator_id in kept:
            yield f"{plan.display} keeps its max parallelism {plan.max_parallelism}: {kept[plan.operator_id]}"
        elif plan in changed and (plan.source_parallelism or 0) > (plan.max_parallelism or 0):
            yield (
                f"{plan.display} ran with parallelism {plan.source_parallelism}: in the job it has to be "
                f"{plan.max_parallelism} or less, the new max parallelism"
            )


def _of_operators(parallel: Sequence[OperatorPlan], changed: Sequence[OperatorPlan]) -> Iterator[str]:
    """Yield the notes of operators with different numbers."""
    for number in sorted({plan.max_parallelism for plan in changed if plan.max_parallelism is not None}):
        own = [plan for plan in changed if plan.max_parallelism == number]
        subtasks = {plan.parallelism for plan in own}
        others = [plan for plan in parallel if plan.max_parallelism != number and plan.parallelism in subtasks]
        yield (
            f"the job has to set max parallelism {number} for {listed([plan.display for plan in own])} alone "
            f"(setMaxParallelism({number}) of the operator), or not set any: Flink restores no other than the "
            "savepoint's, and other operators have other numbers"
        )
        if others:
            yield (
                f"every operator that is chained with {listed([plan.display for plan in own])} needs max parallelism "
                f"{number} as well; a savepoint does not say which are. Those of the same parallelism and another "
                f"max parallelism are {listed([plan.display for plan in others])}"
            )


# What of a source's sinks is not committed and would be lost by a planned write.
#
# A restore commits what is in the state of a sink's committer. It does not if the operator is dropped, if its state is
# emptied, or if the committer keeps the uid of a sink that gets another one: the job looks for the committer of the new
# uid.


_LOST = ("to commit", "in progress", "buffered")
_MOST_NAMES = 3


def pending_notes(source: Snapshot | None, operators: Sequence[ExistingOperator]) -> Iterator[str]:
    """Yield a note per operator of the source whose pending files, transactions or records would be lost.

    Args:
        source: the snapshot that is changed; None: the savepoint is new.
        operators: the operators of it that are kept.
    """
    if source is None:
        return
    kept = {item.operator.operator_id: item for item in operators}
    for operator in source.operators:
        own = kept.get(operator.operator_id)
        if own is None:
            yield from _note(operator, None, "are lost with the operator")
        elif own.edits.emptied:
            yield from _note(operator, own.edits.emptied, "are dropped: no restore commits them")
    yield from _committers(source, kept)


def _committers(source: Snapshot, kept: Mapping[str, ExistingOperator]) -> Iterator[str]:
    """Yield notes on committers that keep their uid when their sink gets another."""
    by_id = {operator.operator_id: operator for operator in source.operators}
    for identifier, item in kept.items():
        uid = item.operator.uid
        if uid is None or item.operator_id == identifier:
            continue
        committer = by_id.get(operator_id(committer_uid(uid)))
        own = None if committer is None else kept.get(committer.operator_id)
        if committer is None or own is None or own.operator_id != committer.operator_id:
            continue
        new = f"'{committer_uid(item.uid)}'" if item.uid else "the committer's new uid"
        yield from _note(
            committer, None, f"are not found by the job, unless '{committer_uid(uid)}' is renamed to {new}, too"
        )


def _note(operator: Operator, states: set[str] | None, fate: str) -> Iterator[str]:
    try:
        rows = [row for row in _rows(operator, states) if row["status"] in _LOST]
    except SnapshotError as error:
        yield f"{operator.display}: whether something is not committed cannot be read: {error.message}"
        return
    if not rows:
        return
    shown = some_of([row["name"] for row in rows], _MOST_NAMES)
    yield f"{operator.display}: {summary(rows)} {fate}: {shown}"


def _rows(operator: Operator, states: set[str] | None) -> Iterator[dict[str, Any]]:
    return pending([operator], None if states is None else lambda _, name: name in states)
