"""Ranges of keys to read: ascending spans of a column family's keys that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stateproc.codec.array_types import Bytes, LongTable

KeySpan = tuple[bytes, bytes | None]
"""Keys from the first bytes on up to, not including, the second (None: no end)."""

EVERYTHING: tuple[KeySpan, ...] = ((b"", None),)

Prefixes = tuple[bytes, ...]
"""What wanted keys begin with: each a key group and a serialized key."""


def key_group_span(key_groups: range, prefix: int) -> KeySpan:
    """All keys of these key groups; ``prefix``: width of the key group before each key, 1 or 2 bytes."""
    stop = key_groups.stop
    return key_groups.start.to_bytes(prefix, "big"), None if stop >> (8 * prefix) else stop.to_bytes(prefix, "big")


def prefix_span(start: bytes) -> KeySpan:
    """All keys that begin with ``start``."""
    head = start.rstrip(b"\xff")
    return start, head[:-1] + bytes([head[-1] + 1]) if head else None


def key_spans(key_groups: Iterable[range], prefix: int, keys: Iterable[bytes] | None = None) -> list[KeySpan]:
    """The keys of these key groups; of them, with ``keys``, those that begin with one of these bytes.

    ``keys`` have their key group before them. A state's serialized key is a prefix of its composite keys; others may
    begin with the same bytes, so more than the key's entries can be in a span.
    """
    groups = joined(key_group_span(run, prefix) for run in key_groups if len(run))
    if keys is None:
        return groups
    inside = (prefix_span(key) for key in keys if any(reaches(key, span) for span in groups))
    return joined(inside)


def runs_of(key_groups: Iterable[int]) -> tuple[range, ...]:
    """Return ascending key groups as ranges without gaps."""
    runs: list[range] = []
    for group in key_groups:
        if runs and runs[-1].stop == group:
            runs[-1] = range(runs[-1].start, group + 1)
        else:
            runs.append(range(group, group + 1))
    return tuple(runs)


def joined(spans: Iterable[KeySpan]) -> list[KeySpan]:
    """Spans in ascending order; those that overlap or touch become one."""
    found: list[KeySpan] = []
    for start, stop in sorted(spans, key=lambda span: span[0]):
        if found and (found[-1][1] is None or found[-1][1] >= start):
            before = found[-1][1]
            found[-1] = (found[-1][0], None if before is None or stop is None else max(before, stop))
        else:
            found.append((start, stop))
    return found


def reaches(key: bytes, span: KeySpan) -> bool:
    """Return whether ``key`` is in the span."""
    return key >= span[0] and (span[1] is None or key < span[1])


def overlaps(spans: Sequence[KeySpan], smallest: bytes, largest: bytes) -> bool:
    """Whether keys from ``smallest`` to ``largest`` (inclusive) may be in any of the spans."""
    return any(largest >= start and (stop is None or smallest < stop) for start, stop in spans)


def cut_out(spans: Iterable[KeySpan], holes: Sequence[KeySpan]) -> list[KeySpan]:
    """Return spans without the keys of ``holes``; both are ascending and have no overlaps."""
    found: list[KeySpan] = []
    for start, stop in spans:
        at: bytes | None = start
        for hole, end in holes:
            if at is None or (stop is not None and hole >= stop):
                break
            if end is not None and end <= at:
                continue
            if hole > at:
                found.append((at, hole))
            at = end
        if at is not None and (stop is None or at < stop):
            found.append((at, stop))
    return found


def intersections(spans: Iterable[KeySpan], others: Iterable[KeySpan]) -> list[KeySpan]:
    """Return the keys that are in spans of both, as spans in ascending order."""
    limits = list(others)
    found = []
    for start, stop in spans:
        for other, end in limits:
            low = max(start, other)
            high = stop if end is None else end if stop is None else min(stop, end)
            if high is None or low < high:
                found.append((low, high))
    return joined(found)


@dataclass(frozen=True)
class SpanTable:
    """Ascending spans of keys that do not overlap, in the form that kernels read.

    Attributes:
        bounds: int64 [n, 4]: of each span position and size in ``keys`` of its first key, and of the key after its
            last one (size 0: no end).
        keys: The bytes of these keys.
    """

    bounds: LongTable
    keys: Bytes

    def __len__(self) -> int:
        return len(self.bounds)

    def start(self, k: int) -> bytes:
        """Return the first key of a span."""
        at, size = self.bounds[k, :2].tolist()
        return self.keys[at : at + size].tobytes()

    def stop(self, k: int) -> bytes | None:
        """Return the key after the last one of a span; None if it has no end."""
        at, size = self.bounds[k, 2:].tolist()
        return self.keys[at : at + size].tobytes() if size else None


def span_table(spans: Sequence[KeySpan]) -> SpanTable:
    """Return spans in the form that kernels read."""
    table = np.zeros((len(spans), 4), dtype=np.int64)
    keys = bytearray()
    for row, (start, stop) in zip(table, spans, strict=True):
        row[:2] = len(keys), len(start)
        keys += start
        row[2:] = len(keys), len(stop or b"")
        keys += stop or b""
    return SpanTable(table, np.frombuffer(bytes(keys) or b"\0", dtype=np.uint8))
