"""Well-known byte formats nested in states: source splits, enumerators, sink states, as rows of columns."""

from stateproc.formats.sources import read_coordinator
from stateproc.formats.state_columns import split_columns

__all__ = ["read_coordinator", "split_columns"]
