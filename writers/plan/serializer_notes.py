"""Say of which serializers Flink cannot restore the state, whatever is rewritten."""

from __future__ import annotations

from collections.abc import Iterator

from stateproc.errors import SnapshotError
from stateproc.flink_versions import Release
from stateproc.metadata.backend import StateMetaInfo
from stateproc.serializers.core.registry import CONFIG_VERSION
from stateproc.writers.rewrite.existing_operator import ExistingOperator

_FLINKX = b"org.apache.flinkx.api.serializer."
_CONFIG = CONFIG_VERSION.to_bytes(4, "big")
_WITHOUT_CONFIG = Release(1, 17)


def serializer_notes(operator: ExistingOperator, release: Release) -> Iterator[str]:
    """Yield notes on the serializers of the states that the operator keeps."""
    display = operator.uid or operator.operator_id
    snapshots = list(_snapshots(operator))
    if any(_FLINKX in data for data in snapshots):
        yield (
            f"{display}: its state is of flink-scala-api, whose releases (up to 1.1.4, 1.1.5 to 1.2.x, 2.x) do "
            "not restore state of each other: the job needs a release with the layout of the source's"
        )
    if release >= _WITHOUT_CONFIG and any(_CONFIG in data for data in snapshots):
        yield (
            f"{display}: a serializer's snapshot is of TypeSerializerConfigSnapshot, which Flink {_WITHOUT_CONFIG} has "
            f"no longer, so that Flink {release} cannot restore it: give the serializer a snapshot of its own and "
            "take a savepoint in Flink 1.16, or leave such states out (drop-state)"
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
