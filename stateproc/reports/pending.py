"""Find what sinks have written and not committed: files, manifests, transactions, XIDs, records that wait to be sent.

What a writer's state or a committable says is its connector's: `ConnectorFormat.pending`. The typed states of
FlinkKafkaProducer, XaSinkState and the filesystem connector of SQL are read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import FormatRole, FormatRow, Pending, Versioned
from stateproc.connectors.iceberg import MANIFESTS
from stateproc.connectors.operator_states import (
    COMMITTER_STATE,
    CONNECTOR_STATES,
    ICEBERG_STATE,
    decoded_elements,
    decoded_items,
    manifests_by_checkpoint,
    read_committers,
    versioned_items,
)
from stateproc.model.operator import Operator
from stateproc.model.operator_state import OperatorState

_SINK_ROLES = (FormatRole.WRITER, FormatRole.COMMITTABLE, FormatRole.COMPACTION)
_STATUSES = ("to commit", "in progress", "buffered", "to clean up")
PENDING_SCHEMA = pa.schema(
    [
        ("operator", pa.string()),
        ("connector", pa.string()),
        ("state", pa.string()),
        ("checkpoint_id", pa.int64()),
        ("status", pa.string()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("temporary", pa.string()),
        ("bytes", pa.int64()),
        ("files", pa.int64()),
        ("rows", pa.int64()),
        ("upload_id", pa.string()),
        ("bucket", pa.string()),
        ("subtask", pa.int32()),
    ]
)
"""The columns of `pending_table`."""


@dataclass(frozen=True)
class _Found:
    pending: Pending
    connector: str | None
    subtask: int


def pending(
    operators: Iterable[Operator], states: Callable[[str, str], bool] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield one row per thing that a sink has not committed, with the columns of `PENDING_SCHEMA`.

    Args:
        operators: the operators to look at.
        states: whether to look at a state, by operator id and name; default: all.

    Raises:
        SnapshotError: A state cannot be read.
    """
    for operator in operators:
        for state in operator.operator_states:
            if states is not None and not states(operator.operator_id, state.name):
                continue
            for found in _of_state(state):
                values = {name: getattr(found.pending, name, None) for name in PENDING_SCHEMA.names}
                yield {
                    **values,
                    "operator": operator.display,
                    "connector": found.connector,
                    "state": state.name,
                    "subtask": found.subtask,
                }


def sorted_pending(operators: Iterable[Operator]) -> list[dict[str, Any]]:
    """Return the rows of `pending` sorted by operator, checkpoint and name; those of no checkpoint are the last."""

    def key(row: dict[str, Any]) -> Any:
        checkpoint = row["checkpoint_id"]
        return row["operator"], checkpoint is None, checkpoint or 0, row["status"], row["name"]

    return sorted(pending(operators), key=key)


def pending_table(operators: Iterable[Operator]) -> pa.Table:
    """Return the rows of `pending` as a table.

    Raises:
        SnapshotError: A state cannot be read.
    """
    return pa.Table.from_pylist(sorted_pending(operators), schema=PENDING_SCHEMA)


def summary(rows: Iterable[dict[str, Any]]) -> str:
    """Return what is pending in numbers: ``18 files to commit (18,144 bytes), 4 files in progress (2,628 bytes)``."""
    totals: dict[tuple[int, str, str], list[int]] = {}
    for row in rows:
        total = totals.setdefault((_STATUSES.index(row["status"]), row["kind"], row["status"]), [0, 0, 0])
        total[0] += 1
        total[1] += row["rows"] or 0 if row["kind"] != "entry" else 0
        total[2] += row["bytes"] or 0
    words = []
    for (_, kind, status), (count, records, size) in sorted(totals.items()):
        more = [f"{number:,} {name}" for number, name in ((records, "rows"), (size, "bytes")) if number]
        plural = {1: kind}.get(count, "entries" if kind == "entry" else f"{kind}s")
        words.append(f"{count:,} {plural} {status}" + (f" ({', '.join(more)})" if more else ""))
    return ", ".join(words)


def _of_state(state: OperatorState) -> Iterator[_Found]:
    known = CONNECTOR_STATES.get(state.name)
    if known is not None and state.value_type == known.value_type:
        if state.name == COMMITTER_STATE:
            yield from _committers(state)
        elif state.name == ICEBERG_STATE:
            yield from _iceberg(state)
        elif known.role in _SINK_ROLES:
            yield from _elements(state)
        return
    type_, read = _TYPED.get(state.name, (None, None))
    # Users' own states may have these names, too.
    if read is not None and type_ is not None and (state.value_type or "").startswith(type_):
        yield from read(state)


def _values(state: OperatorState) -> tuple[list[Any], list[int]]:
    """Return values and subtasks, without nulls: those of states that cannot be decoded with ``on_error='null'``."""
    table = state.to_arrow()
    rows = zip(table.column("value").to_pylist(), table.column("subtask").to_pylist(), strict=True)
    found = [(value, subtask) for value, subtask in rows if value is not None]
    return [value for value, _ in found], [subtask for _, subtask in found]


def _elements(state: OperatorState) -> Iterator[_Found]:
    values, subtasks = _values(state)
    decoded = decoded_elements(state.name, values)
    if decoded is None or decoded.format.pending is None:
        return
    for row, subtask in zip(decoded.rows, subtasks, strict=True):
        for item in () if row is None else decoded.format.pending(row):
            yield _Found(item, decoded.format.name, subtask)


def _committers(state: OperatorState) -> Iterator[_Found]:
    values, subtasks = _values(state)
    items = versioned_items(state.name, values)
    if items is None:
        return
    committers = read_committers(items)
    if committers is None:
        decoded = decoded_items(FormatRole.COMMITTER, items)
        for item, row, subtask in zip(items, decoded.rows if decoded else items, subtasks, strict=True):
            if decoded is None and item is not None:
                yield _Found(_unknown(item), None, subtask)
            elif decoded is not None and isinstance(row, dict) and decoded.format.pending is not None:
                for found in decoded.format.pending(row):
                    yield _Found(found, decoded.format.name, subtask)
        return
    format_ = committers.format
    for row, subtask in zip(committers.rows, subtasks, strict=True):
        for request in () if row is None else row["committables"]:
            if request.get("request_state") == "COMMITTED":
                continue
            for found in _of_request(request, format_.pending if format_ else None):
                yield _Found(found, format_.name if format_ else None, subtask)


def _of_request(request: FormatRow, read: Callable[[FormatRow], Iterable[Pending]] | None) -> Iterator[Pending]:
    """Yield what a committable is about; the committer says its checkpoint."""
    found = (_unknown(Versioned(request["version"], request["payload"])),) if read is None else read(request)
    for item in found:
        checkpoint = item.checkpoint_id if item.checkpoint_id is not None else request.get("checkpoint_id")
        yield replace(item, checkpoint_id=checkpoint)


def _unknown(item: Versioned) -> Pending:
    return Pending("committable", f"version {item.version} of a connector that is not known", bytes=len(item.payload))


def _iceberg(state: OperatorState) -> Iterator[_Found]:
    assert MANIFESTS.pending is not None
    for value, subtask in zip(*_values(state), strict=True):
        for row in manifests_by_checkpoint(value) or ():
            for item in MANIFESTS.pending(row):
                yield _Found(replace(item, checkpoint_id=row["checkpoint_id"]), MANIFESTS.name, subtask)


# Typed states.


def _kafka_producer(state: OperatorState) -> Iterator[_Found]:
    """Yield the transactions of a FlinkKafkaProducer: those of completed checkpoints, and the open one."""
    for value, subtask in zip(*_values(state), strict=True):
        open_ = [(value["pending"], "in progress")] if value["pending"] is not None else []
        for holder, status in [*((item, "to commit") for item in value["pending_commits"] or ()), *open_]:
            transaction = holder["transaction"]
            if transaction is not None and transaction["transactionalId"] is not None:
                yield _Found(Pending("transaction", transaction["transactionalId"], status), "kafka producer", subtask)


def _xa_sink(state: OperatorState) -> Iterator[_Found]:
    """Yield the XIDs of the JDBC sink of Flink 1.x."""
    for value, subtask in zip(*_values(state), strict=True):
        for item in value["prepared"]:
            pending_ = Pending("XID", _xid(item["xid"]), checkpoint_id=item["checkpoint_id"])
            yield _Found(pending_, "jdbc xa", subtask)
        for xid in value["hanging"]:
            yield _Found(Pending("XID", _xid(xid), "to clean up"), "jdbc xa", subtask)


def _xid(xid: dict[str, Any]) -> str:
    return f"{xid['format_id']}:{xid['global_transaction_id'].hex()}:{xid['branch_qualifier'].hex()}"


def _partitions(state: OperatorState) -> Iterator[_Found]:
    """Yield the partitions that the filesystem connector of SQL has not committed."""
    for value, subtask in zip(*_values(state), strict=True):
        for partition, _ in value:
            yield _Found(Pending("partition", partition), "filesystem (SQL)", subtask)


def _files_to_compact(state: OperatorState) -> Iterator[_Found]:
    """Yield files of the filesystem connector of SQL that are not compacted yet, by checkpoint and partition."""
    for value, subtask in zip(*_values(state), strict=True):
        for checkpoint, partitions in value:
            for partition, paths in partitions:
                for path in paths:
                    found = Pending("file", path["uri"], files=1, checkpoint_id=checkpoint, bucket=partition)
                    yield _Found(found, "filesystem (SQL)", subtask)


def _expired_files(state: OperatorState) -> Iterator[_Found]:
    for value, subtask in zip(*_values(state), strict=True):
        for checkpoint, paths in value:
            for path in paths:
                found = Pending("file", path["uri"], "to clean up", files=1, checkpoint_id=checkpoint)
                yield _Found(found, "filesystem (SQL)", subtask)


_TYPED: dict[str, tuple[str, Callable[[OperatorState], Iterator[_Found]]]] = {
    "state": ("TwoPhaseCommitState<KafkaTransactionState", _kafka_producer),
    "XaSinkState": ("XaSinkState", _xa_sink),
    "pending-partitions-with-time": ("Map<String, Long>", _partitions),
    "files-state": ("Map<Long, Map<String, List<Kryo Path>>>", _files_to_compact),
    "expired-files": ("Map<Long, List<Kryo Path>>", _expired_files),
}
"""States whose elements have a type of their own → how it begins, and what reads them."""
