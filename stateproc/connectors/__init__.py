"""Byte formats of connectors: source splits, enumerators, sink writers and committables, as columns.

`registry` lists the formats, each a module of its own, described by `structures`. May import: errors, wire, codec.
"""

from __future__ import annotations

from stateproc.connectors.operator_states import connector_columns, read_coordinator

__all__ = ["connector_columns", "read_coordinator"]
