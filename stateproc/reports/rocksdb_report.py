"""Build the report of ``inspect --rocksdb``: statistics of the tables of every state, as ``--json`` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from stateproc.errors import NotFound, SnapshotError
from stateproc.model.operator import Operator
from stateproc.model.rocksdb_tables import StateTables, has_databases, state_tables
from stateproc.readers.rocksdb import StateStatistics, TableStatistics

if TYPE_CHECKING:
    from stateproc.model.snapshot import SnapshotContents

Report = dict[str, Any]


def rocksdb_report(snapshot: SnapshotContents, operators: Iterable[Operator], since: SnapshotContents | None) -> Report:
    """Report on the databases of these operators.

    Args:
        operators: Its operators, or some of them.
        since: An earlier checkpoint; files that it does not have are counted as new.

    Raises:
        NotFound: No operator has a database.
        SnapshotError: The snapshot cannot be read.
    """
    with_databases = [operator for operator in operators if has_databases(operator)]
    if not with_databases:
        raise NotFound(
            "no RocksDB databases here",
            advice="canonical savepoints and heap checkpoints have none; stateproc inspect without --rocksdb "
            "lists the states",
        )
    return {
        "path": snapshot.path,
        "note": snapshot.note,
        "checkpoint_id": snapshot.metadata.checkpoint_id,
        "since": None if since is None else since.path,
        "since_checkpoint_id": None if since is None else since.metadata.checkpoint_id,
        "operators": [operator_tables(operator, since) for operator in with_databases],
    }


def operator_tables(operator: Operator, since: SnapshotContents | None) -> Report:
    """Report on the databases of one operator; an error is one of its problems."""
    states: dict[str, list[StateTables]] = {}
    problems = []
    try:
        for tables in state_tables(operator, None if since is None else since.operators):
            states.setdefault(tables.statistics.state, []).append(tables)
    except SnapshotError as error:
        # Sums over some subtasks could be mistaken for sums over all.
        states, problems = {}, [str(error)]
    return {
        "uid": operator.uid,
        "uid_hash": operator.operator_id,
        "name": operator.name,
        "label": operator.label,
        "states": [_state(states[name]) for name in sorted(states)],
        "problems": problems,
    }


def _state(subtasks: Sequence[StateTables]) -> Report:
    name = subtasks[0].statistics.state
    whole = StateStatistics(name, tuple(table for item in subtasks for table in item.statistics.tables))
    listed = [_table(item, table) for item in subtasks for table in item.statistics.tables]
    new = [table["bytes"] for table in listed if table["new"]]
    compared = subtasks[0].new is not None
    return {
        "state": name,
        "subtasks": len({item.subtask for item in subtasks}),
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


def _table(subtask: StateTables, table: TableStatistics) -> Report:
    return {
        "subtask": subtask.subtask,
        **asdict(table),
        "oldest_key_time": _time(table.oldest_key_time),
        "newest_key_time": _time(table.newest_key_time),
        "new": None if subtask.new is None else table.name in subtask.new,
    }


def _time(seconds: int | None) -> str | None:
    """Return seconds since 1970 as ISO text in UTC; None for times after the year 9999."""
    if seconds is None or seconds >= _YEAR_10000:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


_YEAR_10000 = 253_402_300_800
"""The first second of the year 10000."""
