"""Open a snapshot: the first thing everybody does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from stateproc.errors import InvalidOption, NotFound, not_found
from stateproc.keygroups.key_types import parse_key_types
from stateproc.keygroups.operator_ids import operator_id
from stateproc.metadata import OperatorState, SnapshotMetadata, flink_version_range, read_metadata
from stateproc.metadata.handles import KeyGroupsHandle
from stateproc.options import OPEN_OPTIONS
from stateproc.readers.common.layout_detection import CANONICAL_TYPE
from stateproc.readers.common.read_options import ReadOptions
from stateproc.serializers.core.plugins import load_plugins
from stateproc.snapshot.operator import Operator
from stateproc.snapshot.state import State
from stateproc.storage import SnapshotLocation, locate
from stateproc.storage.filesystem import kind_of, read_range

_MAX_METADATA = 2 << 30
_FIRST_KRYO_5 = 5
"""Metadata versions from this on are written by Flink 2.x, which has Kryo 5."""


class Snapshot:
    """A savepoint or checkpoint. Nothing but ``_metadata`` is read before a state is asked for."""

    def __init__(
        self, location: SnapshotLocation, metadata: SnapshotMetadata, options: ReadOptions, uids: Iterable[str]
    ) -> None:
        self.location = location
        self.metadata = metadata
        self.options = options
        self._uids = {operator_id(uid): uid for uid in uids}
        self._operators_by_uid: dict[str, Operator] = {}

    @property
    def path(self) -> str:
        """The snapshot's directory."""
        return self.location.directory_uri

    @property
    def note(self) -> str | None:
        """What was chosen where the path left a choice, e.g. the newest checkpoint of a job."""
        return self.location.note

    @property
    def flink_versions(self) -> str:
        """The releases that write such a ``_metadata``, e.g. "1.16 – 1.20"."""
        return flink_version_range(self.metadata)

    @cached_property
    def kind(self) -> str:
        """canonical savepoint, native savepoint, checkpoint, or savepoint or checkpoint.

        ``_metadata`` contains it from Flink 1.16 on. Without it the type of the handles decides where it can: no state
        file is read.
        """
        properties = self.metadata.properties
        if properties is None or properties.is_savepoint is None:
            types = {
                handle.type_byte if isinstance(handle, KeyGroupsHandle) else None
                for operator in self.metadata.operators
                for subtask in operator.subtasks
                if (handle := subtask.managed_keyed) is not None
            }
            return "canonical savepoint" if types == {CANONICAL_TYPE} else "savepoint or checkpoint"
        if not properties.is_savepoint:
            return "checkpoint"
        return f"{(properties.format or 'canonical').lower()} savepoint"

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """All operators, in the order of ``_metadata``."""
        return tuple(self._operator(item, self._uids.get(item.operator_id)) for item in self.metadata.operators)

    def operator(self, uid_or_hash: str) -> Operator:
        """The operator of that uid, uid hash (32 hex digits) or name. Raises NotFound offering the nearest."""
        wanted = uid_or_hash.lower()
        hashed = operator_id(uid_or_hash)
        for operator in self.operators:
            if operator.operator_id in (wanted, hashed) or operator.uid == uid_or_hash:
                named = operator.uid is None and operator.operator_id == hashed
                return self._named(operator, uid_or_hash) if named else operator
        by_name = [operator for operator in self.operators if operator.name == uid_or_hash]
        if len(by_name) == 1:
            return by_name[0]
        known = [operator.display for operator in self.operators] + [
            operator.name for operator in self.operators if operator.name
        ]
        error = not_found("operator with uid, uid hash or name", uid_or_hash, known)
        if self.operators and all(operator.display == operator.operator_id for operator in self.operators):
            hashes = "Flink 1.x writes hashes of uids, so name the uid exactly as the job does, or the hash"
            raise NotFound(error.message, advice=f"{hashes}; {error.advice}")
        raise error

    def _operator(self, metadata: OperatorState, uid: str | None) -> Operator:
        return Operator(metadata, self.location, self.options, self.metadata.version, uid)

    def _named(self, operator: Operator, uid: str) -> Operator:
        """Return ``operator`` under ``uid``: always the same object, so that its headers are read once."""
        if uid not in self._operators_by_uid:
            self._operators_by_uid[uid] = self._operator(operator.metadata, uid)
        return self._operators_by_uid[uid]

    def state(self, uid_or_hash: str, name: str) -> State:
        """One state. Raises NotFound offering the nearest names."""
        return self.operator(uid_or_hash).state(name)

    @property
    def states(self) -> Sequence[State]:
        """All states of all operators."""
        return [state for operator in self.operators for state in operator.states]

    @property
    def file_bytes(self) -> int:
        """Bytes of all files and inline state, shared ones counted once."""
        from stateproc.metadata import walk_stream_handles

        sizes = {use.handle: use.handle.size for use in walk_stream_handles(self.metadata)}
        return sum(sizes.values())

    def __repr__(self) -> str:
        return f"<{self.kind} {self.path!r} of Flink {self.flink_versions}: {len(self.operators)} operators>"


def open(
    path: str,
    *,
    uids: Iterable[str] = (),
    classes: Any = None,
    plugins: Iterable[str] = (),
    temporal: str = "micros",
    row_kind: bool = False,
    kryo: int | None = None,
    verify: bool = True,
    key_type: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    path_mapping: Mapping[str, str] | None = None,
) -> Snapshot:
    """Open the snapshot at ``path``: its directory, its ``_metadata``, or a checkpoint root (newest ``chk-N``).

    uids: uids of the job, to name operators of Flink 1.x snapshots, which hold hashes only. classes: descriptions
    of user classes (dict, JSON file or text). plugins: modules that register parsers. temporal: 'micros' or
    'exact'. row_kind: keep RowKinds. kryo: 2 or 5, default by the release. verify: check the checksums of RocksDB's
    blocks. key_type: the type of keys (of `stateproc.types`, or its text; or uid → type), which a changelog of which
    nothing is materialized yet does not hold. storage_options: for fsspec. path_mapping: old → new prefixes of moved
    files.
    Raises MissingFile, CorruptSnapshot, UnsupportedSnapshot, InvalidOption, NotFound.
    """
    given = {
        "uids": uids,
        "classes": classes,
        "plugins": plugins,
        "temporal": temporal,
        "row_kind": row_kind,
        "kryo": kryo,
        "verify": verify,
        "key_type": key_type,
        "storage_options": storage_options,
        "path_mapping": path_mapping,
    }
    values = {option.name: option.value(given[option.name]) for option in OPEN_OPTIONS}
    load_plugins(values["plugins"])
    location = locate(path, values["storage_options"], values["path_mapping"])
    metadata = read_metadata(_metadata_bytes(location), file=location.metadata_uri)
    options = ReadOptions(
        temporal=values["temporal"],
        row_kind=values["row_kind"],
        classes=_classes(values["classes"]),
        plugins=values["plugins"],
        kryo=values["kryo"] or (5 if metadata.version >= _FIRST_KRYO_5 else 2),
        verify=values["verify"],
        key_types=parse_key_types(values["key_type"], (item.operator_id for item in metadata.operators)),
    )
    return Snapshot(location, metadata, options, values["uids"])


def _classes(spec: Any) -> Mapping[str, Any]:
    if spec is None:
        return {}
    from stateproc.serializers.java.class_descriptions import parse_classes

    return parse_classes(spec)


def _metadata_bytes(location: SnapshotLocation) -> bytes:
    found = kind_of(location.metadata_uri, location.storage_options)
    size = found[1] if found else 0
    if size > _MAX_METADATA:
        raise InvalidOption(f"{location.metadata_uri} has {size} bytes, which no _metadata has")
    return read_range(location.metadata_uri, 0, size, location.storage_options)
