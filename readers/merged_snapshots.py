"""Merge serializer snapshots that describe one state, each as far as its writer had come.

Each subtask writes a header of its own, and a changelog more than one. They differ where a serializer learns while it
runs: a PojoSerializer lists the subclasses that it has met, in the order of a hash table. A subtask that did not use
a state after the job had changed writes the restored snapshot again, with fewer registered classes or enum constants.

Snapshots as org.apache.flink.api.common.typeutils.TypeSerializerSnapshot writes them: utf class, i32 version, payload.

* PojoSerializerSnapshot: utf class, then three optional maps: fields; registered subclasses, whose positions are the
  tags in values; other subclasses, which values name.
* KryoSerializerSnapshot: utf class, then three optional maps: registrations, whose positions are the ids in values;
  default serializers as objects and as classes.
* EnumSerializerSnapshot: utf class, i32 count, the constants as utf; their positions are in values.
* All others: parts that are snapshots again, between bytes that have to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stateproc.errors import SnapshotError
from stateproc.metadata.backend import StateMetaInfo
from stateproc.readers.header_reader import read_whole_header
from stateproc.serializers import PROXY_VERSION, Serializer, read_proxied
from stateproc.serializers.core.optional_maps import OptionalEntry, read_optional_map, write_optional_map
from stateproc.serializers.core.registry import ObservedSnapshot, read_observed
from stateproc.wire import Cursor, Output

_PROXY = PROXY_VERSION.to_bytes(4, "big")
_VERSIONED = 4
_POJO = "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot"
_KRYO = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
_ENUM = "org.apache.flink.api.common.typeutils.base.EnumSerializer$EnumSerializerSnapshot"


class DifferentSerializersError(Exception):
    """Internal: no snapshot describes the values of both."""


def merged_info(one: StateMetaInfo, other: StateMetaInfo) -> StateMetaInfo:
    """Return a state that describes the values of both. Raises DifferentSerializersError if none does."""
    if one == other:
        return one
    same = (one.name, one.backend_type, dict(one.options)) == (other.name, other.backend_type, dict(other.options))
    if not same or one.snapshots.keys() != other.snapshots.keys():
        raise DifferentSerializersError
    if one.snapshots == other.snapshots:
        raise DifferentSerializersError  # what differs is not in the snapshots
    snapshots = {role: merged_proxied(data, other.snapshots[role]) for role, data in one.snapshots.items()}
    if snapshots == one.snapshots:
        return one
    return replace(one, serializers={role: _read(data) for role, data in snapshots.items()}, snapshots=snapshots)


def merged_key(one: Serializer, snapshot: bytes, other: Serializer, other_snapshot: bytes) -> tuple[Serializer, bytes]:
    """Return a key's serializer and its snapshot that describe the keys of both; ``b""`` is a snapshot not known.

    Raises DifferentSerializersError if none does.
    """
    if one == other:
        return one, snapshot or other_snapshot
    if not snapshot or not other_snapshot or snapshot == other_snapshot:
        raise DifferentSerializersError  # what differs is not in the snapshots
    merged = merged_proxied(snapshot, other_snapshot)
    return _read(merged), merged


def merged_proxied(one: bytes, other: bytes) -> bytes:
    """Merge snapshots that begin with their proxy version. Raises DifferentSerializersError."""
    if one == other:
        return one
    if not (one.startswith(_PROXY) and other.startswith(_PROXY)):
        raise DifferentSerializersError
    return _PROXY + _merged(one[_VERSIONED:], other[_VERSIONED:])


def _read(proxied: bytes) -> Serializer:
    return read_whole_header(proxied, "<merged serializer snapshot>", read_proxied)


def _merged(one: bytes, other: bytes) -> bytes:
    """Merge snapshots without proxy version."""
    if one == other:
        return one
    heads = [_head(data) for data in (one, other)]
    if heads[0] != heads[1]:
        raise DifferentSerializersError
    class_name, size = heads[0]
    merge = _MERGES.get(class_name, _merged_parts)
    return merge(one, other, size)


def _head(data: bytes) -> tuple[str, int]:
    """Return the class of a snapshot, and the size of its name and version; versions differ as sizes do not."""
    cursor = Cursor(data)
    class_name = cursor.utf()
    cursor.i32()
    return class_name, cursor.pos


def _same_head(one: bytes, other: bytes, size: int) -> bytes:
    if one[:size] != other[:size]:
        raise DifferentSerializersError
    return one[:size]


# --- Snapshots whose writers learn -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """An entry of an optional map; None is a frame that was not written."""

    name: str
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class _Maps:
    """A payload of a class name and three optional maps."""

    class_name: str
    maps: tuple[tuple[_Entry, ...], ...]


def _read_maps(data: bytes, at: int) -> _Maps:
    cursor = Cursor(data, pos=at)
    class_name = cursor.utf()
    maps = tuple(tuple(map(_entry, read_optional_map(cursor))) for _ in range(3))
    cursor.finish("a serializer snapshot")
    return _Maps(class_name, maps)


def _entry(entry: OptionalEntry) -> _Entry:
    key, value = (None if part is None else bytes(part.data[part.pos : part.end]) for part in (entry.key, entry.value))
    return _Entry(entry.name, key, value)


def _written(head: bytes, maps: _Maps) -> bytes:
    out = Output()
    out.raw(head)
    out.utf(maps.class_name)
    for entries in maps.maps:
        write_optional_map(out, [(entry.name, entry.key, entry.value) for entry in entries])
    return bytes(out)


def _merged_pojos(one: bytes, other: bytes, size: int) -> bytes:
    """Merge PojoSerializerSnapshots: the same fields, tags that agree, all subclasses of either."""
    head, (mine, theirs) = _same_head(one, other, size), (_read_maps(data, size) for data in (one, other))
    fields, registered, named = zip(mine.maps, theirs.maps, strict=True)
    if mine.class_name != theirs.class_name or len(fields[0]) != len(fields[1]):
        raise DifferentSerializersError
    return _written(head, _Maps(mine.class_name, (_one_order(*fields), _one_order(*registered), _union(*named))))


def _merged_kryo(one: bytes, other: bytes, size: int) -> bytes:
    """Merge KryoSerializerSnapshots: ids that agree, the same default serializers."""
    head, (mine, theirs) = _same_head(one, other, size), (_read_maps(data, size) for data in (one, other))
    if mine.class_name != theirs.class_name or mine.maps[1:] != theirs.maps[1:]:
        raise DifferentSerializersError
    shorter, longer = sorted((mine.maps[0], theirs.maps[0]), key=len)
    if longer[: len(shorter)] != shorter:
        raise DifferentSerializersError
    return _written(head, replace(mine, maps=(longer, *mine.maps[1:])))


def _merged_enums(one: bytes, other: bytes, size: int) -> bytes:
    """Merge EnumSerializerSnapshots: one has the constants of the other, and more after them."""
    _same_head(one, other, size)
    mine, theirs = (_constants(data, size) for data in (one, other))
    shorter, longer = sorted((mine, theirs), key=len)
    if longer[: len(shorter)] != shorter:
        raise DifferentSerializersError
    return one if longer == mine else other


def _constants(data: bytes, at: int) -> list[str]:
    """Read an enum's class and the names of its constants."""
    cursor = Cursor(data, pos=at)
    found = [cursor.utf()]
    found += [cursor.utf() for _ in range(cursor.count("enum constants", 2))]
    cursor.finish("a serializer snapshot")
    return found


def _one_order(mine: Sequence[_Entry], theirs: Sequence[_Entry]) -> tuple[_Entry, ...]:
    """Merge maps of which one begins with the names of the other, in their order."""
    shorter, longer = sorted((mine, theirs), key=len)
    return (*map(_merged_entry, shorter, longer[: len(shorter)]), *longer[len(shorter) :])


def _union(mine: Sequence[_Entry], theirs: Sequence[_Entry]) -> tuple[_Entry, ...]:
    """Merge maps of any order: first those of ``mine``."""
    others = {entry.name: entry for entry in theirs}
    merged = [_merged_entry(entry, others.pop(entry.name, entry)) for entry in mine]
    return (*merged, *others.values())


def _merged_entry(one: _Entry, other: _Entry) -> _Entry:
    """Merge entries of one name; a frame that one writer could not write is that of the other."""
    both_keys = one.key is not None and other.key is not None
    if one.name != other.name or (both_keys and one.key != other.key):
        raise DifferentSerializersError
    key = other.key if one.key is None else one.key
    if one.value is None or other.value is None:
        return _Entry(one.name, key, other.value if one.value is None else one.value)
    return _Entry(one.name, key, _merged(one.value, other.value))


_MERGES: dict[str, Callable[[bytes, bytes, int], bytes]] = {
    _POJO: _merged_pojos,
    _KRYO: _merged_kryo,
    _ENUM: _merged_enums,
}


# --- Snapshots of parts ------------------------------------------------------------------------------------------


def _merged_parts(one: bytes, other: bytes, size: int) -> bytes:
    """Merge snapshots that have equal bytes around as many parts."""
    mine, theirs = _parts(one), _parts(other)
    if not mine or len(mine) != len(theirs):
        raise DifferentSerializersError
    out, at, other_at = Output(), 0, 0
    for (start, end), (other_start, other_end) in zip(mine, theirs, strict=True):
        if one[at:start] != other[other_at:other_start]:
            raise DifferentSerializersError
        out.raw(one[at:start])
        out.raw(_merged(one[start:end], other[other_start:other_end]))
        at, other_at = end, other_end
    if one[at:] != other[other_at:]:
        raise DifferentSerializersError
    out.raw(one[at:])
    return bytes(out)


def _parts(data: bytes) -> list[tuple[int, int]]:
    """Return where the outermost nested snapshots begin and end."""
    try:
        _, observed = read_whole_header(data, "<serializer snapshot>", read_observed)
    except SnapshotError as error:
        raise DifferentSerializersError from error
    found: list[tuple[int, int]] = []
    for part in sorted(observed, key=lambda item: (item.start, -item.end)):
        is_inside = part.start > 0 and (not found or part.start >= found[-1][1])
        if is_inside and _is_at(data, part):
            found.append((part.start, part.end))
    return found


def _is_at(data: bytes, part: ObservedSnapshot) -> bool:
    """Whether a snapshot is in these bytes with its version, not in bytes that were read apart from them."""
    out = Output()
    out.utf(part.class_name)
    out.i32(part.version)
    return data.startswith(bytes(out), part.start)
