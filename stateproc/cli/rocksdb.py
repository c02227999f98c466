"""What ``inspect --rocksdb`` tells: the tables of every state, as plain values, ready for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from stateproc.errors import NotFound, SnapshotError
from stateproc.readers.rocksdb import StateStatistics, TableStatistics
from stateproc.snapshot.operator import Operator
from stateproc.snapshot.rocksdb_tables import StateTables, has_databases, state_tables
from stateproc.snapshot.snapshot import Snapshot

Report = dict[str, Any]


def rocksdb_report(snapshot: Snapshot, operators: Iterable[Operator], since: Snapshot | None) -> Report:
    """The databases of these operators, as ``inspect --rocksdb --json`` prints them.

    Raises NotFound where there is none, SnapshotError.
    """
    with_databases = [operator for operator in operators if has_databases(operator)]
    if not with_databases:
        raise NotFound(
            "no RocksDB databases here",
            advice="canonical savepoints and heap checkpoints have none; stateproc inspect without --rocksdb "
            "tells what there is",
        )
    return {
        "path": snapshot.path,
        "note": snapshot.note,
        "checkpoint_id": snapshot.metadata.checkpoint_id,
        "since": None if since is None else since.path,
        "since_checkpoint_id": None if since is None else since.metadata.checkpoint_id,
        "operators": [_operator(operator, since) for operator in with_databases],
    }


def _operator(operator: Operator, since: Snapshot | None) -> Report:
    states: dict[str, list[StateTables]] = {}
    problems = []
    try:
        for tables in state_tables(operator, since):
            states.setdefault(tables.statistics.state, []).append(tables)
    except SnapshotError as error:
        # Sums over some of the subtasks would look like sums over all.
        states, problems = {}, [str(error)]
    return {
        "uid": operator.uid,
        "uid_hash": operator.operator_id,
        "name": operator.name,
        "states": [_state(states[name]) for name in sorted(states)],
        "problems": problems,
    }


def _state(parts: Sequence[StateTables]) -> Report:
    name = parts[0].statistics.state
    whole = StateStatistics(name, tuple(table for part in parts for table in part.statistics.tables))
    listed = [_table(part, table) for part in parts for table in part.statistics.tables]
    new = [table["bytes"] for table in listed if table["new"]]
    compared = parts[0].new is not None
    return {
        "state": name,
        "subtasks": len({part.subtask for part in parts}),
        "files": whole.files,
        "bytes": whole.bytes,
        "new_files": len(new) if compared else None,
        "new_bytes": sum(new) if compared else None,
        "levels": {str(level): files for level, files in whole.levels.items()},
        "entries": whole.entries,
        "deletions": whole.deletions,
        "merge_operands": whole.merge_operands,
        "range_deletions": whole.range_deletions,
        "raw_key_bytes": whole.raw_key_bytes,
        "raw_value_bytes": whole.raw_value_bytes,
        "estimated_keys": whole.estimated_keys,
        "live_ratio": None if whole.live_ratio is None else round(whole.live_ratio, 4),
        "compressions": list(whole.compressions),
        "oldest_key_time": _time(whole.oldest_key_time),
        "newest_key_time": _time(whole.newest_key_time),
        "tables": listed,
    }


def _table(part: StateTables, table: TableStatistics) -> Report:
    return {
        "subtask": part.subtask,
        **asdict(table),
        "oldest_key_time": _time(table.oldest_key_time),
        "newest_key_time": _time(table.newest_key_time),
        "new": None if part.new is None else table.name in part.new,
    }


def _time(seconds: int | None) -> str | None:
    """Seconds since 1970 as ISO text in UTC; times that no calendar has are not told."""
    if seconds is None or seconds >= _NO_YEAR:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


_NO_YEAR = 253_402_300_800
"""The first second of the year 10000."""
