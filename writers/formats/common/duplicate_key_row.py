"""Decode the entry of a duplicate key, to show it as a row in the error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from stateproc.errors import DuplicateKey, SnapshotError
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import KeyedState, StateKind, keyed_state
from stateproc.serializers import LayoutContext
from stateproc.writers.formats.common.state_headers import KeyedStateHeader

_LONGEST_SHOWN = 200
_MANY = 1 << 20


def with_row(error: DuplicateKey, header: KeyedStateHeader, context: LayoutContext) -> DuplicateKey:
    """Return the error with the row of its entry, or unchanged if the entry is unknown or cannot be decoded."""
    if error.entry is None:
        return error
    group, state_id, key, value = error.entry
    state = keyed_state(header.states[state_id], state_id, header.key)
    if state is None or len(key) + len(value) > _MANY:
        return error
    try:
        row = _row(state, group, key, value, context)
    except SnapshotError:  # a type without a decoder: the message has the key's bytes
        return error
    shown = ", ".join(f"{name}={_short(repr(item))}" for name, item in row.items() if name != KEY_GROUP)
    return DuplicateKey(f"{error.message}: {shown}", where=replace(error.where, state=state.name), advice=error.advice)


def _row(state: KeyedState, group: int, key: bytes, value: bytes, context: LayoutContext) -> dict[str, object]:
    data = np.frombuffer(key + value, dtype=np.uint8)
    ranges = np.array([[0], [len(key)], [len(key)], [len(data)]], dtype=np.int64)
    entries = RawEntries(data, np.array([group], dtype=np.int32), ranges, "", 0)
    batches = list(decode_entries([entries], state, replace(context, tail=True), flatten=state.kind is StateKind.MAP))
    found: dict[str, object] = pa.Table.from_batches(batches).slice(0, 1).to_pylist()[0]
    return found


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
