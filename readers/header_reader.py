"""Find and read the header of a state file, also past serializer snapshots of unknown classes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Generic, TypeVar

from stateproc.errors import SnapshotError
from stateproc.serializers import UnknownSnapshotClass, UnreadablePayload
from stateproc.serializers.core.registry import CONFIG_VERSION, find_reader
from stateproc.wire import Cursor

Header = TypeVar("Header")
MAX_HEADER = 64 << 20
_LONGEST_UNKNOWN = 1 << 16
# What a search may cost, in bytes read again and again: well under a second.
_COST, _COST_PER_TRY, _READINGS = 1 << 20, 256, 4
_ROLE, _LAST_BACKEND_TYPE, _MOST_OPTIONS = b"_SERIALIZER", 4, 16
"""What follows the names in a header: serializers have roles, states a type and a number of options."""
_CLASS = re.compile(rb"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)+")
_MOST_VERSION = 0xFFFF
"""Class names with a package, and versions of snapshots as they are counted."""
_TEXT = re.compile(rb"[\x20-\x7e]{3,}")


def read_whole_header(data: bytes, file: str, read: Callable[[Cursor], Header]) -> Header:
    """Read a header that fills ``data`` exactly.

    A snapshot of an unknown class has no stored length; but the header's end is known, so the length is the one
    with which all that follows can be read to that end. So it is with a state's snapshot that is damaged or of an
    unknown version. Raises the error of the snapshot if no length is found in bounded time.
    """
    return _Search(data, file, read).run({})


class SharedHeaders(Generic[Header]):
    """Headers read once for all files that have the same: the subtasks of an operator, thousands of them, mostly do.

    One that cannot be read is read again for each file, so that every error names its own.
    """

    def __init__(self, read: Callable[[Cursor], Header]) -> None:
        self._read, self._known = read, dict[bytes, Header]()
        # Several threads would all read the header that they all meet first, and parsing is Python's alone.
        self._reading = Lock()

    def whole(self, data: bytes, file: str) -> Header:
        """As :func:`read_whole_header`."""
        digest = hashlib.sha256(data).digest()
        with self._reading:
            found = self._known.get(digest)
            if found is None:
                found = self._known[digest] = read_whole_header(data, file, self._read)
        return found


class _Search(Generic[Header]):
    def __init__(self, data: bytes, file: str, read: Callable[[Cursor], Header]) -> None:
        self._data, self._file, self._read = data, file, read
        self._left = max(_COST, _READINGS * len(data))
        self._reasons: dict[int, SnapshotError] = {}
        self._heads: dict[int, tuple[str, int]] = {}

    def run(self, sizes: dict[int, int]) -> Header:
        """Read with these sizes of unknown payloads (position → size); try sizes for the next unknown one."""
        cursor = Cursor(self._data, file=self._file)
        cursor.assumed_sizes, cursor.reasons = sizes, self._reasons
        try:
            header = self._read(cursor)
            cursor.finish("the header")
            return header
        except UnknownSnapshotClass as unknown:
            if unknown.payload_at in sizes:
                raise
            self._left -= cursor.pos
            at = unknown.payload_at
            known = self._same_payload(unknown, sizes)
            return self._sized(at, unknown, self._likely_sizes(at) if known is None else [known], sizes)
        except UnreadablePayload as unreadable:
            at, reason = unreadable.payload_at, unreadable.reason
            if any(assumed >= at for assumed in sizes):
                raise reason from unreadable  # the assumption is wrong, not the payload around it
            self._left -= cursor.pos
            self._reasons[at] = reason
            return self._sized(at, reason, self._sizes_before_items(at), sizes)
        finally:
            self._left -= cursor.pos + _COST_PER_TRY

    def _same_payload(self, unknown: UnknownSnapshotClass, sizes: dict[int, int]) -> int | None:
        """Return the size that was assumed for the same bytes of the same class before; None if there is none.

        Each timer queue has the key's serializer again: its payload has one size everywhere.
        """
        head, at = (unknown.class_name, unknown.version), unknown.payload_at
        self._heads[at] = head
        for other, size in sizes.items():
            same = self._data[other : other + size] == self._data[at : at + size]
            if same and self._heads.get(other) == head:
                return size
        return None

    def _sized(self, payload_at: int, reason: SnapshotError, tried: Iterable[int], sizes: dict[int, int]) -> Header:
        for size in tried:
            if self._left <= 0:
                break
            try:
                return self.run({**sizes, payload_at: size})
            except SnapshotError:
                continue
        raise reason

    def _likely_sizes(self, start: int) -> Iterator[int]:
        """Yield sizes of a payload at ``start``, the likeliest first.

        First those after which what follows in a header begins: a serializer's role, a state (after the number of
        states, where it is the first), a nested snapshot of a known class; the smallest of them first. Then those after
        which nothing follows, or a snapshot of another class with a package, or any text; then all.
        """
        data = self._data
        stop = min(len(data), start + _LONGEST_UNKNOWN)
        certain, classes, others = list[int](), list[int](), list[int]()
        for at, length in self._texts(start, stop):
            after, size = at + 2 + length, at - start
            text, number = data[at + 2 : after], int.from_bytes(data[after : after + 4], "big")
            if text.endswith(_ROLE) or (_CLASS.fullmatch(text) and find_reader(text.decode()) is not None):
                certain.append(size)
            elif number <= _LAST_BACKEND_TYPE and int.from_bytes(data[after + 4 : after + 8], "big") <= _MOST_OPTIONS:
                certain += [item for item in (size, size - 2) if item >= 0]
            elif _CLASS.fullmatch(text) and (number <= _MOST_VERSION or number == CONFIG_VERSION):
                classes.append(size)
            else:
                others.append(size)
        last = [stop - start] if stop == len(data) else []
        likely = dict.fromkeys([*certain, *last, *classes, 0, *others])
        yield from likely
        yield from (size for size in range(stop - start + 1) if size not in likely)

    def _sizes_before_items(self, start: int) -> Iterator[int]:
        """Yield sizes of a state's payload at ``start`` after which its next serializer, a state or the end follows.

        A damaged header costs no more than these few tries. States of operator state follow in two lists, each after
        its length.
        """
        data = self._data
        stop = min(len(data), start + _LONGEST_UNKNOWN)
        for at, length in self._texts(start, stop):
            after = at + 2 + length
            number = int.from_bytes(data[after : after + 4], "big")
            if data[at + 2 : after].endswith(_ROLE):
                yield at - start
            elif number <= _LAST_BACKEND_TYPE and int.from_bytes(data[after + 4 : after + 8], "big") <= _MOST_OPTIONS:
                yield from (at - start, at - 2 - start)
        if stop == len(data):
            yield from (stop - start, stop - 2 - start)

    def _texts(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield (position, bytes) of UTF strings in these bytes of the header."""
        data = self._data
        for text in _TEXT.finditer(data, start, stop):
            # Its u16 length stands before it, of which a printable low byte may look like text.
            for at in (text.start() - 2, text.start() - 1):
                length = int.from_bytes(data[at : at + 2], "big")
                if at >= start and 3 <= length <= text.end() - at - 2:
                    yield at, length
