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
from tests.helpers.connector_vectors import accepted, connector_vectors

UID, OTHER = "source", "another"
OLD_FACTORY = bytes.fromhex(
    "aced000573720049636f6d2e7665727665726963612e6364632e636f6e6e6563746f72732e706f7374677265732e736f757263652e6f6666"
    "7365742e506f7374677265734f6666736574466163746f727990aa949745b2b8f802000078720042636f6d2e7665727665726963612e6364"
    "632e636f6e6e6563746f72732e626173652e736f757263652e6d6574612e6f66667365742e4f6666736574466163746f7279000000000000"
    "00010200007870"
)
"""What Java writes of com.ververica.cdc's PostgresOffsetFactory of 2.4.2."""


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


def postgres_savepoint(path: Path, uid: str) -> Path:
    """A Postgres source of Flink CDC 3.5 that streams."""
    return source_savepoint(path, [(0, vector_item("postgres-stream", 6))], None, uid)


def old_postgres_split() -> Versioned:
    """A split as Flink CDC 2.4 has it: version 4, with a class of its package."""
    found = next(it for it in connector_vectors() if it.name == "postgres-stream" and it.item.version == 6)
    known, row = accepted(found)
    finished = [{**item, "factory_stream": OLD_FACTORY} for item in row["finished_splits"]]
    return known.write(4, {**row, "finished_splits": finished})


def old_postgres_savepoint(path: Path, uid: str = UID) -> Path:
    """A Postgres source of Flink CDC 2.4 that streams."""
    return source_savepoint(path, [(0, old_postgres_split())], None, uid)


def kinesis_savepoint(path: Path, uid: str) -> Path:
    """A KinesisStreamsSource: two shards of readers, and its enumerator."""
    enumerator = vector_item("kinesis-enumerator", 1)
    coordinator = coordinator_of(1, enumerator.version, enumerator.payload)
    names = ("kinesis-split-sequence-number", "kinesis-split-trim-horizon-merged-shard")
    return source_savepoint(path, list(enumerate(map(vector_item, names))), coordinator, uid)
