"""Changes of an existing snapshot as values: one frozen dataclass each, and the table ``CHANGES`` of all.

The verbs of the command line and the section ``changes`` of job files are built from the table. It imports nothing
but errors and types, because ``stateproc --help`` builds its arguments from it; `apply` calls methods of the given
SavepointWriter.
"""

from stateproc.writers.changes.change_definition import ChangeDefinition, ChangeField, SnapshotChange
from stateproc.writers.changes.snapshot_changes import DropInFlightData
from stateproc.writers.changes.table import CHANGES, CHANGES_BY_NAME, change_from_dict, changes_schema

__all__ = [
    "CHANGES",
    "CHANGES_BY_NAME",
    "ChangeDefinition",
    "ChangeField",
    "DropInFlightData",
    "SnapshotChange",
    "change_from_dict",
    "changes_schema",
]
