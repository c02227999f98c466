"""The tables of a snapshot for SQL: its states, and tables about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateproc.reports.source_positions import positions_table
from stateproc.snapshot.metadata_tables import METADATA_TABLES
from stateproc.sql import SqlCatalog

if TYPE_CHECKING:
    from stateproc.model.snapshot import SnapshotContents


def sql_catalog(snapshot: SnapshotContents) -> SqlCatalog:
    """Return the tables: one per state, and states, operators, files, coordinators, rocksdb and offsets."""
    tables = {name: (lambda table=table: table.table(snapshot)) for name, table in METADATA_TABLES.items()}
    return SqlCatalog(
        snapshot.operators, snapshot.operator, {**tables, "offsets": lambda: positions_table(snapshot.operators)}
    )
