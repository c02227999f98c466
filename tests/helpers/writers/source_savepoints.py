"""Savepoints of sources whose services no test has: splits and enumerators that connectors' own classes wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.connectors.connector_format import Versioned, coordinator_of, written_version
from stateproc.connectors.operator_states import SOURCE_STATE
from tests.helpers.connector_vectors import connector_vectors

UID, OTHER = "source", "another"


def vector_item(name: str, version: int | None = None) -> Versioned:
    """The payload of a vector."""
    return next(it.item for it in connector_vectors() if it.name == name and version in (None, it.item.version))


def source_savepoint(
    path: Path, splits: Sequence[tuple[int, Versioned]], coordinator: bytes | None, uid: str = UID
) -> Path:
    """Write a savepoint with a source of two subtasks, whose splits are given with them, and another operator."""
    values = [written_version(split.version, split.payload) for _, split in splits]
    subtasks = pa.array([subtask for subtask, _ in splits], pa.int32())
    table = pa.table({"value": pa.array(values, pa.binary()), "subtask": subtasks})
    source: Any = OperatorBootstrap().operator_list_state(SOURCE_STATE, table, type=types.BYTES, subtask="subtask")
    source.source = None if coordinator is None else SimpleNamespace(coordinator=coordinator)
    other = OperatorBootstrap().operator_list_state("numbers", pa.table({"value": pa.array([1, 2], pa.int64())}))
    writer = SavepointWriter.new_savepoint(None, max_parallelism=8)
    writer.with_operator(uid, source).with_operator(OTHER, other).with_parallelism(uid, 2).write(path)
    return path


def mysql_savepoint(path: Path, uid: str) -> Path:
    """A MySQL source of Flink CDC that streams: its binlog split, and its enumerator after the snapshot."""
    enumerator = vector_item("mysql-enumerator-hybrid-streaming")
    coordinator = coordinator_of(1, enumerator.version, enumerator.payload)
    return source_savepoint(path, [(0, vector_item("mysql-binlog-gtid"))], coordinator, uid)


def kinesis_savepoint(path: Path, uid: str) -> Path:
    """A KinesisStreamsSource: two shards of readers, and its enumerator."""
    enumerator = vector_item("kinesis-enumerator", 1)
    coordinator = coordinator_of(1, enumerator.version, enumerator.payload)
    names = ("kinesis-split-sequence-number", "kinesis-split-trim-horizon-merged-shard")
    return source_savepoint(path, list(enumerate(map(vector_item, names))), coordinator, uid)
