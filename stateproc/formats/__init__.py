"""Byte formats of connectors: source splits, enumerators, sink writers and committables, as columns.

`registry` lists the formats, each a module of its own. May import: errors, wire.
"""

from stateproc.formats.sources import read_coordinator
from stateproc.formats.state_columns import connector_columns

__all__ = ["connector_columns", "read_coordinator"]
