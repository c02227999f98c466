"""Well-known byte formats nested in states: source splits, enumerators, sink states, as rows of columns."""

from stateproc.formats.columns import split_columns
from stateproc.formats.sources import read_coordinator

__all__ = ["read_coordinator", "split_columns"]
