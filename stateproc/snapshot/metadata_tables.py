"""Describe a snapshot as tables: its states, operators, files, coordinators and RocksDB tables."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateproc.errors import SnapshotError
from stateproc.metadata import walk_stream_handles
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.model.operator import Operator
from stateproc.model.rocksdb_tables import state_tables
from stateproc.model.state import State

if TYPE_CHECKING:
    from stateproc.model.snapshot import SnapshotContents

Row = dict[str, Any]


@dataclass(frozen=True)
class MetadataTable:
    """A table about a snapshot: its columns, and a function that returns the rows of some operators."""

    schema: pa.Schema
    rows: Callable[[SnapshotContents, Iterable[Operator]], Iterator[Row]]

    def table(self, snapshot: SnapshotContents, operators: Iterable[Operator] | None = None) -> pa.Table:
        """Return the rows of these operators; None for all. Raises SnapshotError."""
        chosen = snapshot.operators if operators is None else operators
        return pa.Table.from_pylist(list(self.rows(snapshot, chosen)), schema=self.schema)


def _names(operator: Operator) -> Row:
    return {"operator": operator.name, "uid": operator.uid, "operator_id": operator.operator_id}


def _states(snapshot: SnapshotContents, operators: Iterable[Operator]) -> Iterator[Row]:
    for operator in operators:
        common = {
            **_names(operator),
            "parallelism": operator.parallelism,
            "max_parallelism": operator.max_parallelism,
        }
        for state in operator.states:
            yield {**common, **_state(operator, state)}
        for problem in operator.problems:
            yield {**common, "problem": str(problem)}


def _state(operator: Operator, state: State) -> Row:
    problem = state.problem or _unreadable(operator, state)
    return {
        "state": state.name,
        "kind": state.kind,
        "distribution": state.distribution,
        "key_type": state.key_type,
        "namespace_type": state.namespace_type,
        "value_type": state.value_type,
        "ttl": state.ttl,
        "entries": state.elements,
        "bytes": _bytes(state),
        "problem": None if problem is None else str(problem),
    }


def _unreadable(operator: Operator, state: State) -> SnapshotError | None:
    """Return why the files of a state cannot be read; None if they can."""
    if state.file_problem is not None or not state.names_in_files:
        return state.file_problem
    try:
        for file in operator.keyed_files:
            file.check_readable(operator.display, state.name)
    except SnapshotError as error:
        return error
    return None


def _bytes(state: State) -> int | None:
    try:
        return state.bytes
    except SnapshotError:
        return None  # the file is missing or damaged; reading it reports that


def _operators(snapshot: SnapshotContents, operators: Iterable[Operator]) -> Iterator[Row]:
    sizes: dict[str, int] = {}
    for use in walk_stream_handles(snapshot.metadata):
        sizes[use.operator.operator_id] = sizes.get(use.operator.operator_id, 0) + use.bytes
    for operator in operators:
        coordinator = operator.metadata.coordinator
        yield {
            "checkpoint-id": snapshot.metadata.checkpoint_id,
            "operator-name": operator.name,
            "operator-uid": operator.uid,
            "operator-uid-hash": operator.operator_id,
            "operator-parallelism": operator.parallelism,
            "operator-max-parallelism": operator.max_parallelism,
            "operator-subtask-state-count": len(operator.metadata.subtasks),
            "operator-coordinator-state-size-in-bytes": 0 if coordinator is None else coordinator.size,
            "operator-total-size-in-bytes": sizes.get(operator.operator_id, 0),
        }


def _files(snapshot: SnapshotContents, operators: Iterable[Operator]) -> Iterator[Row]:
    chosen = {operator.operator_id: operator for operator in operators}
    for use in walk_stream_handles(snapshot.metadata):
        operator = chosen.get(use.operator.operator_id)
        if operator is None:
            continue
        stream = use.handle.stream if isinstance(use.handle, KeyGroupsHandle) else use.handle
        yield {
            **_names(operator),
            "subtask": use.subtask,
            "role": use.role,
            "path": getattr(stream, "path", None),
            "start": getattr(stream, "start", 0) if hasattr(stream, "path") else None,
            "bytes": stream.size,
        }


def _coordinators(snapshot: SnapshotContents, operators: Iterable[Operator]) -> Iterator[Row]:
    for operator in operators:
        found: Mapping[str, Any] | None = operator.coordinator
        if found is None:
            continue
        decoded = found.get("decoded")
        yield {
            **_names(operator),
            "kind": found["kind"],
            "version": found.get("enumerator_version"),
            "format": found.get("format"),
            "decoded": None if decoded is None else json.dumps(decoded, default=_text, ensure_ascii=False),
            "bytes": found.get("enumerator", found.get("data")),
        }


def _rocksdb(snapshot: SnapshotContents, operators: Iterable[Operator]) -> Iterator[Row]:
    for operator in operators:
        for tables in state_tables(operator):
            found = tables.statistics
            yield {
                **_names(operator),
                "subtask": tables.subtask,
                "state": found.state,
                "levels": list(found.levels.items()),
                "compressions": list(found.compressions),
                **{name: getattr(found, name) for name in _ROCKSDB_NUMBERS},
            }


_ROCKSDB_NUMBERS = {
    **dict.fromkeys(
        (
            "files",
            "bytes",
            "entries",
            "deletions",
            "merge_operands",
            "range_deletions",
            "raw_key_bytes",
            "raw_value_bytes",
            "estimated_keys",
        ),
        pa.int64(),
    ),
    "live_ratio": pa.float64(),
    "oldest_key_time": pa.timestamp("us", "UTC"),
    "newest_key_time": pa.timestamp("us", "UTC"),
}


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _schema(columns: str, **types: pa.DataType) -> pa.Schema:
    """Columns of strings, but for those with a type given."""
    return pa.schema([pa.field(name, types.get(name, pa.string())) for name in columns.split()])


METADATA_TABLES: dict[str, MetadataTable] = {
    "states": MetadataTable(
        _schema(
            "operator uid operator_id state kind distribution key_type namespace_type value_type ttl entries"
            " bytes parallelism max_parallelism problem",
            ttl=pa.bool_(),
            entries=pa.int64(),
            bytes=pa.int64(),
            parallelism=pa.int32(),
            max_parallelism=pa.int32(),
        ),
        _states,
    ),
    "operators": MetadataTable(
        _schema(
            "checkpoint-id operator-name operator-uid operator-uid-hash operator-parallelism"
            " operator-max-parallelism operator-subtask-state-count operator-coordinator-state-size-in-bytes"
            " operator-total-size-in-bytes",
            **{
                "checkpoint-id": pa.int64(),
                "operator-parallelism": pa.int32(),
                "operator-max-parallelism": pa.int32(),
                "operator-subtask-state-count": pa.int32(),
                "operator-coordinator-state-size-in-bytes": pa.int64(),
                "operator-total-size-in-bytes": pa.int64(),
            },
        ),
        _operators,
    ),
    "files": MetadataTable(
        _schema(
            "operator uid operator_id subtask role path start bytes",
            subtask=pa.int32(),
            start=pa.int64(),
            bytes=pa.int64(),
        ),
        _files,
    ),
    "coordinators": MetadataTable(
        _schema(
            "operator uid operator_id kind version format decoded bytes",
            version=pa.int32(),
            bytes=pa.binary(),
        ),
        _coordinators,
    ),
    "rocksdb": MetadataTable(
        _schema(
            "operator uid operator_id subtask state levels compressions " + " ".join(_ROCKSDB_NUMBERS),
            subtask=pa.int32(),
            levels=pa.map_(pa.int32(), pa.int32()),
            compressions=pa.list_(pa.string()),
            **_ROCKSDB_NUMBERS,
        ),
        _rocksdb,
    ),
}
"""The metadata tables by name; ``operators`` has the columns of Flink's savepoint_metadata()."""
