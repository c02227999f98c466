"""Read the states that the log declares, and the header of a changelog: materialized states, then declared ones.

A declaration (METADATA record of org.apache.flink.state.changelog.StateChangeLogger), big-endian:

    u8 8
    i32 version          of the following: 7, up to Flink 1.17 6
    StateMetaInfo        as in the header of a canonical file
    key-value states:    u8 with TTL, [Java object StateTtlConfig], u8 with default, [default value]
    i16 state id         of the records that follow
    u8 type              0 key-value, 3 priority queue, 10 asynchronous key-value

The id and the type are the last three bytes, so that settings and defaults need not be understood.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from stateproc.errors import CorruptSnapshot, UnknownKeyType
from stateproc.metadata.backend import (
    KEY_VALUE,
    KEY_VALUE_V2,
    PRIORITY_QUEUE,
    KeyedHeader,
    StateMetaInfo,
    read_state_meta_info,
)
from stateproc.metadata.keyed_handles import ChangelogHandle, KeyedHandle
from stateproc.readers.changelog.change_blocks import Change, ChangeBlock
from stateproc.readers.changelog.composite_keys import ADVICE
from stateproc.readers.changelog.log_segments import log_changes
from stateproc.readers.changelog.records import Operation
from stateproc.readers.keyed_file import FileCache
from stateproc.readers.materialized_files import open_materialized_file
from stateproc.readers.merged_snapshots import DifferentSerializersError, merged_info, merged_key
from stateproc.serializers import Serializer
from stateproc.serializers.runtime.streaming import Timer
from stateproc.storage import SnapshotLocation
from stateproc.wire import Cursor

# What is needed to open the changelog of one subtask.


@dataclass(frozen=True)
class ChangelogSource:
    """A changelog handle and where to find its files and the type of its keys. Picklable.

    Attributes:
        handle: The handle in ``_metadata``.
        key_handles: Materialized handles of the operator's other subtasks, whose keys have the same serializer.
        key_type: The key's serializer as the user specifies it, used only where nothing else specifies it.
        cache: The header once it has been read: for it, the beginnings of all files of the log are read.
    """

    handle: ChangelogHandle = field(repr=False)
    location: SnapshotLocation
    key_handles: tuple[KeyedHandle, ...] = field(default=(), repr=False)
    key_type: Serializer | None = field(default=None, repr=False)
    cache: FileCache = field(default_factory=FileCache, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Return how error messages name the changelog."""
        return f"{self.location.metadata_uri} (changelog {self.handle.handle_id})"


_TYPE_CODES = {KEY_VALUE: 0, PRIORITY_QUEUE: 3, KEY_VALUE_V2: 10}
_FLAGS, _TAIL = 2, 3
_DAMAGED = "the file is damaged; restore it from a copy or take the snapshot again"
_HEADER_VERSION = 6
_HEAD = 3
"""Bytes of the operation and the state's id in front of a change."""
_OTHER, _OWN = 1, 2


def read_declaration(change: Change) -> tuple[int, StateMetaInfo]:
    """Read a METADATA record: (state id in the records that follow, the state).

    The id and the type are at the record's end; the TTL settings and the default value before them are
    skipped. Raises CorruptSnapshot, UnsupportedSnapshot.
    """
    cursor = Cursor(change.data, file=change.file, base=change.at)
    if cursor.u8() != Operation.METADATA:
        cursor.corrupt("a change of state among the changelog's metadata", at=0, advice=_DAMAGED)
    at = cursor.pos
    version = cursor.i32()
    if version not in (6, 7):
        cursor.unsupported(f"metadata of version {version} in the changelog (known are 6 and 7)", at=at)
    info = read_state_meta_info(cursor)
    if info.backend_type not in _TYPE_CODES:
        cursor.corrupt(f"the changelog declares '{info.name}', which is no keyed state", at=at, advice=_DAMAGED)
    if info.backend_type == KEY_VALUE:
        settings = [cursor.boolean(), cursor.boolean()] if not _has_ttl(cursor) else [True]
        if any(settings):
            cursor.pos = max(cursor.pos, cursor.end - _TAIL)
    state_id = cursor.i16()
    code = cursor.u8()
    if code != _TYPE_CODES[info.backend_type]:
        cursor.corrupt(f"'{info.name}' has the type {code} in the changelog", advice=_DAMAGED)
    cursor.finish("a state's declaration")
    return state_id, info


def _has_ttl(cursor: Cursor) -> bool:
    return cursor.remaining > 0 and cursor.data[cursor.pos] != 0


def declared_states(source: ChangelogSource) -> Iterator[StateMetaInfo]:
    """Yield the states that the log declares, once for each declaration."""
    for change in log_changes(source.handle.non_materialized, source.location, lambda _: False, leading=True):
        yield read_declaration(change)[1]


def changelog_header(source: ChangelogSource) -> KeyedHeader | None:
    """Return the states of the changelog, those of the materialized part first; None if there are none at all.

    A state that both describe is the one that describes the values of both, if there is one; else the first.

    The log itself does not contain the key's serializer: its states are those of
    RegisteredKeyValueStateBackendMetaInfo, with the serializers of namespaces and values only.

    Raises:
        CorruptSnapshot, MissingFile: A file cannot be read.
        UnknownKeyType: Nothing is materialized and nothing specifies the key's serializer.
    """
    cache = source.cache
    if not cache.has_header:
        cache.header = _read_header(source)
        cache.has_header = True
    return cache.header


def _read_header(source: ChangelogSource) -> KeyedHeader | None:
    found: dict[str, StateMetaInfo] = {}
    key: Serializer | None = None
    key_snapshot = b""
    for handle in source.handle.materialized:
        header = _materialized_header(handle, source)
        if key is None:
            key, key_snapshot = header.key, header.key_snapshot
        with suppress(DifferentSerializersError):
            key, key_snapshot = merged_key(key, key_snapshot, header.key, header.key_snapshot)
        for info in header.states:
            _add(found, info)
    for info in declared_states(source):
        _add(found, info)
        if key is None and isinstance(info.value_serializer, Timer):
            key = info.value_serializer.key
    if not found and key is None:
        return None
    if key is None and source.key_handles:
        header = _materialized_header(source.key_handles[0], source)
        key, key_snapshot = header.key, header.key_snapshot
    key = key or source.key_type
    if key is None:
        raise UnknownKeyType(
            "nothing of this changelog is materialized yet, and the log does not hold the key's serializer",
            advice=f"{ADVICE}; or open a later checkpoint, taken after the first materialization "
            "(state.changelog.periodic-materialize.interval), or a savepoint of the job",
        )
    return KeyedHeader(_HEADER_VERSION, False, key, tuple(found.values()), key_snapshot)


def _add(found: dict[str, StateMetaInfo], info: StateMetaInfo) -> None:
    with suppress(DifferentSerializersError):  # reading that state says that they differ
        found[info.name] = merged_info(found.get(info.name, info), info)


def is_described_by(header: KeyedHeader, info: StateMetaInfo, key: Serializer, key_snapshot: bytes) -> bool:
    """Return whether a state in the header describes what a serializer of ``info`` and of the key have written."""
    for known in header.states:
        if known.name == info.name:
            try:
                same_key, _ = merged_key(header.key, header.key_snapshot, key, key_snapshot)
                return same_key == header.key and merged_info(known, info) == known
            except DifferentSerializersError:
                return False
    return False


def _materialized_header(handle: KeyedHandle, source: ChangelogSource) -> KeyedHeader:
    header = open_materialized_file(handle, source.location).header
    assert header is not None
    return header


def unknown_state(change: Change, state_id: int) -> CorruptSnapshot:
    """The error for a change of a state that nothing has declared."""
    cursor = Cursor(change.data, file=change.file, base=change.at)
    return CorruptSnapshot(
        f"a change of state {state_id}, which the changelog has not declared", where=cursor.where(0), advice=_DAMAGED
    )


class DeclaredStateIds:
    """Track which state ids are declared, and which of them belong to the state that is read."""

    def __init__(self) -> None:
        self._known = np.zeros(1 << 16, dtype=np.int8)

    def declare(self, state_id: int, *, own: bool) -> None:
        self._known[state_id & 0xFFFF] = _OWN if own else _OTHER

    def own(self, block: ChangeBlock) -> ChangeBlock:
        """The changes of the state that is read. Raises CorruptSnapshot for one of a state that nothing declared."""
        data = np.frombuffer(block.data or b"\0", dtype=np.uint8)
        short = block.ends - block.starts < _HEAD
        at = np.where(short, 0, block.starts)
        last = len(data) - 1
        ids = data[np.minimum(at + 1, last)].astype(np.int64) << 8 | data[np.minimum(at + 2, last)]
        known = np.where(short, 0, self._known[ids])
        if not known.all():
            change = block.change(int(np.argmin(known != 0)))
            raise unknown_state(change, int.from_bytes(change.data[1:_HEAD], "big", signed=True))
        own = known == _OWN
        return block if own.all() else block.only(own)
