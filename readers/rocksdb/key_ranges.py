"""Ranges of keys to read: ascending spans of a column family's keys that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
