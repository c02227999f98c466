"""The manifest of an export: what was exported, from which snapshot, and into which files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from stateproc.errors import CorruptSnapshot, SnapshotError, Where
from stateproc.storage.store import StorePath
from stateproc.storage.writing import publish

MANIFEST_NAME = "manifest.json"
_VERSION = 1
_LARGEST = 1 << 30

COMPLETE, PARTIAL, UNREADABLE, INCOMPLETE = "complete", "partial", "unreadable", "incomplete"
"""Of a state: everything is exported; some files could not be read; nothing could be read; the export has not ended."""


@dataclass(frozen=True)
class ExportedFile:
    """One complete file.

    Attributes:
        path: Relative to the directory of the export.
        rows: The number of rows.
        bytes: The size.
        key_groups: The first and the last key group; None where rows belong to no key group.
    """

    path: str
    rows: int
    bytes: int
    key_groups: tuple[int, int] | None = None


@dataclass
class ExportedState:
    """One state.

    Attributes:
        operator: The operator's uid, or its id; None for what the snapshot as a whole has (Kafka offsets).
        operator_id: The uid hash, 32 hex digits.
        state: The state's name.
        kind: value, list, map, event timers …
        distribution: keyed, split, union or broadcast.
        key_type: The type of keys as text.
        namespace_type: The type of namespaces as text.
        value_type: The type of values as text.
        ttl: Whether the state has a time to live.
        columns: The columns' names and Arrow types.
        folder: Relative to the directory of the export; None if nothing was written.
        split_bytes: Stored bytes per split with which the files were planned; later runs plan the same files.
        status: complete, partial, unreadable or incomplete.
        problem: Why the state, or a part of it, cannot be read.
        files: The complete files.
    """

    operator: str | None
    operator_id: str | None
    state: str
    kind: str
    distribution: str
    key_type: str | None = None
    namespace_type: str | None = None
    value_type: str | None = None
    ttl: bool = False
    columns: dict[str, str] = field(default_factory=dict)
    folder: str | None = None
    split_bytes: int = 0
    status: str = INCOMPLETE
    problem: str | None = None
    files: list[ExportedFile] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def identity(self) -> tuple[str | None, str, str]:
        """What distinguishes the state from all others of the snapshot."""
        return self.operator_id, self.distribution, self.state


@dataclass(frozen=True)
class SnapshotIdentity:
    """The snapshot that was exported.

    Attributes:
        path: Its directory.
        kind: canonical savepoint, checkpoint …
        flink_versions: The Flink releases that write such a ``_metadata``.
        metadata_sha256: The hash of ``_metadata``, by which another run recognizes the snapshot, wherever it is.
    """

    path: str
    checkpoint_id: int
    kind: str
    flink_versions: str
    metadata_sha256: str


@dataclass(frozen=True)
class ExportSettings:
    """How states are exported. A run continues only an export with the same settings.

    Attributes:
        format: parquet, arrow, csv, jsonl or delta.
        compression: The compression of the files.
        temporal: micros or exact.
        key_group_ranges: The number of hive-style folders per keyed state; None for files without such folders.
        raw: Whether source and sink states are exported as their bytes.
        flatten: Whether each list element or map entry is a row of its own.
    """

    format: str
    compression: str
    temporal: str
    key_group_ranges: int | None = None
    raw: bool = False
    flatten: bool = False


@dataclass
class ExportManifest:
    """What an export contains; ``manifest.json`` in its directory.

    Attributes:
        path: Where the export is.
        settings: How its states were exported.
        states: The states, the unreadable ones included.
        problems: Headers of files that cannot be read, so that their states are not known.
        started: When the last run began, ISO-8601 in UTC.
        seconds: How long the last run took.
    """

    path: StorePath
    snapshot: SnapshotIdentity
    settings: ExportSettings
    states: list[ExportedState] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    started: str | None = None
    seconds: float | None = None

    @property
    def rows(self) -> int:
        """The rows of all states."""
        return sum(state.rows for state in self.states)

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(state.bytes for state in self.states)

    @property
    def status(self) -> str:
        """complete; partial if something cannot be read; incomplete if the export has not ended."""
        found = {state.status for state in self.states}
        if INCOMPLETE in found:
            return INCOMPLETE
        return PARTIAL if self.problems or found - {COMPLETE} else COMPLETE

    @property
    def unreadable(self) -> list[ExportedState]:
        """The states that could not be read, or not to their end."""
        return [state for state in self.states if state.status in (PARTIAL, UNREADABLE)]

    @property
    def directory(self) -> str:
        """Where the export is."""
        return self.path.uri

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest as JSON values."""
        return {
            "manifest_version": _VERSION,
            "status": self.status,
            "snapshot": asdict(self.snapshot),
            "settings": asdict(self.settings),
            "started": self.started,
            "seconds": self.seconds,
            "rows": self.rows,
            "bytes": self.bytes,
            "problems": self.problems,
            "states": [{**asdict(state), "rows": state.rows, "bytes": state.bytes} for state in self.states],
        }

    @classmethod
    def from_dict(cls, path: StorePath, values: Mapping[str, Any]) -> ExportManifest:
        """Build a manifest from what ``to_dict`` returned. Raises various errors for anything else."""
        if values["manifest_version"] != _VERSION:
            raise ValueError(f"version {values['manifest_version']}")
        states = []
        for item in values["states"]:
            fields = {name: value for name, value in item.items() if name not in ("rows", "bytes", "files")}
            files = [
                ExportedFile(
                    **{**file, "key_groups": None if file["key_groups"] is None else tuple(file["key_groups"])}
                )
                for file in item["files"]
            ]
            states.append(ExportedState(**fields, files=files))
        return cls(
            path,
            SnapshotIdentity(**values["snapshot"]),
            ExportSettings(**values["settings"]),
            states,
            list(values["problems"]),
            values["started"],
            values["seconds"],
        )

    def save(self) -> None:
        """Write the manifest into its directory, atomically. Raises WriteFailed."""
        data = json.dumps(self.to_dict(), indent=1, ensure_ascii=False).encode("utf-8", "replace")
        publish(self.path / MANIFEST_NAME, data, f".{MANIFEST_NAME}.part")


def saved_manifest(directory: StorePath) -> ExportManifest | None:
    """Read the manifest of a directory; None if there is none.

    Raises:
        CorruptSnapshot: There is a file of that name that is no manifest of an export.
    """
    path = directory / MANIFEST_NAME
    found = path.status(fresh=True)
    if found is None:
        return None
    try:
        if found.is_directory or found.size > _LARGEST:
            raise ValueError("not a file of that size")
        return ExportManifest.from_dict(directory, json.loads(path.read_range(0, found.size)))
    except SnapshotError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CorruptSnapshot(
            f"not the manifest of an export: {error}",
            where=Where(file=path.uri),
            advice="export into an empty directory",
        ) from error
