"""Find out which version of each input a run reads: Delta versions, files with size and time, hashes of snapshots."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stateproc.errors import InvalidOption, MissingFile, MissingPackage, NotFound, StoreUnavailable, Where
from stateproc.storage.filesystem import (
    absolute,
    explained,
    filesystem,
    kind_of,
    read_range,
    scheme_of,
)
from stateproc.storage.listing import FileFacts, ListedEntry, file_facts, files_below

_GLOB = frozenset("*?[")
_MOST_FOOTERS = 100
"""Footers of more files are not read to count rows."""


@dataclass(frozen=True)
class InputVersion:
    """An input of a run and its version.

    Attributes:
        name: The source's name; ``base`` for the snapshot that is changed.
        format: How it is stored.
        path: Where it is; None where the input has no path.
        version: What identifies its contents; empty if nothing does.
        facts: What the report shows besides.
        files: Paths of the data files, where they are listed.
    """

    name: str
    format: str
    path: str | None
    version: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the report."""
        return {
            "name": self.name,
            "format": self.format,
            "path": self.path,
            "version": dict(self.version),
            **self.facts,
        }


def snapshot_version(name: str, path: str, metadata_uri: str, options: Mapping[str, Any]) -> InputVersion:
    """Return the version of a snapshot: the hash of its ``_metadata``. Raises MissingFile."""
    return InputVersion(name, "snapshot", path, {"metadata_sha256": file_hash(metadata_uri, options)})


def file_hash(uri: str, options: Mapping[str, Any] | None) -> str:
    """Return the SHA-256 of a file. Raises MissingFile."""
    found = kind_of(uri, options, fresh=True)
    if found is None or found[0] != "file":
        raise MissingFile("no such file", where=Where(file=uri)) from FileNotFoundError(uri)
    return hashlib.sha256(read_range(uri, 0, found[1], options)).hexdigest()


def files_version(name: str, format_: str, path: str, options: Mapping[str, Any]) -> InputVersion:
    """Return the version of files: their names, sizes and times of change.

    Args:
        name: The source's name.
        format_: parquet, csv or json.
        path: A file, a directory (with all files below it, but those that begin with ``_`` or ``.``), or a glob.
        options: Keyword arguments of the fsspec file system.

    Raises:
        MissingFile: There is no such file.
    """
    uri = absolute(path)
    digest, total, names = hashlib.sha256(), 0, []
    for file, facts in sorted(_listed(uri, options), key=lambda item: item[0]):
        digest.update(f"{file}\0{facts.size}\0{facts.modified}\n".encode())
        total += facts.size
        names.append(file)
    if not names:
        raise MissingFile(f"source '{name}' has no files", where=Where(file=uri), advice="check the path, or the glob")
    version = {"files_sha256": digest.hexdigest()}
    known = {"files": len(names), "bytes": total, **(_parquet_rows(names) if format_ == "parquet" else {})}
    return InputVersion(name, format_, uri, version, known, tuple(names))


def has_glob(path: str) -> bool:
    """Return whether a path has the special characters of a glob."""
    return bool(_GLOB & set(path))


def _listed(uri: str, options: Mapping[str, Any]) -> list[tuple[str, FileFacts]]:
    if has_glob(uri):
        fs, pattern = filesystem(uri, options)
        with explained(uri):
            found = [str(item) if scheme_of(uri) == "file" else fs.unstrip_protocol(item) for item in fs.glob(pattern)]
        uris = found
    else:
        one = file_facts(uri, options)
        if one is not None:
            return [(uri, one)]
        return [
            (f"{directory}/{entry.name}", _facts(directory, entry, options))
            for directory, entry in files_below(uri, options)
            if not _is_hidden(f"{directory}/{entry.name}"[len(uri) :])
        ]
    return [pair for item in uris for pair in _of_glob(item, options)]


def _of_glob(uri: str, options: Mapping[str, Any]) -> list[tuple[str, FileFacts]]:
    facts = file_facts(uri, options)
    if facts is None:
        return _listed(uri, options) if not has_glob(uri) else []
    return [(uri, facts)]


def _facts(directory: str, entry: ListedEntry, options: Mapping[str, Any]) -> FileFacts:
    if entry.size is not None:
        return FileFacts(entry.size, entry.modified)
    return file_facts(f"{directory}/{entry.name}", options) or FileFacts(0, None)


def _is_hidden(relative: str) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in relative.split("/") if part)


def delta_version(
    name: str, path: str, options: Mapping[str, Any], version: int | None, timestamp: str | None
) -> InputVersion:
    """Return the version of a Delta table: the given one, the one of a time, or the newest.

    Raises:
        MissingPackage: deltalake is not installed.
        InvalidOption: The version does not exist.
        MissingFile: There is no Delta table.
    """
    if version is not None and timestamp is not None:
        raise InvalidOption(f"source '{name}': version and timestamp are both given", advice="give one of them")
    table = delta_table(path, options)
    try:
        if timestamp is not None:
            table.load_as_version(_moment(name, timestamp))
        elif version is not None:
            table.load_as_version(version)
    except InvalidOption:
        raise
    except Exception as error:  # deltalake's errors
        raise NotFound(
            f"the Delta table has no version {timestamp if version is None else version}: {error}",
            where=Where(file=path),
            advice="Delta's history shows the versions that are left",
        ) from error
    identity = {"delta_version": table.version(), "table_id": str(table.metadata().id)}
    return InputVersion(name, "delta", absolute(path), identity, _delta_facts(table))


def _delta_facts(table: Any) -> dict[str, int]:
    """Return what Delta's log says about files, bytes and rows; rows only where it counts them and none are deleted."""
    actions = pa.table(table.get_add_actions(flatten=True))
    facts = {"files": actions.num_rows, "bytes": sum(actions["size_bytes"].to_pylist())}
    counted = "num_records" in actions.column_names and actions["num_records"].null_count == 0
    if counted and "deletionVectors" not in (table.protocol().reader_features or ()):
        facts["rows"] = sum(actions["num_records"].to_pylist())
    return facts


def _parquet_rows(files: Sequence[str]) -> dict[str, int]:
    """Return the number of rows that the footers of a few local Parquet files contain; nothing for others."""
    if len(files) > _MOST_FOOTERS or any(scheme_of(file) != "file" for file in files):
        return {}
    try:
        return {"rows": sum(pq.read_metadata(file).num_rows for file in files)}
    except (pa.ArrowException, OSError):
        return {}  # whoever reads the rows reports the file


def delta_table(path: str, options: Mapping[str, Any]) -> Any:
    """Open the newest version of a Delta table with deltalake. Raises MissingPackage, MissingFile, StoreUnavailable."""
    try:
        from deltalake import DeltaTable  # Lazy: optional dependency.
        from deltalake.exceptions import TableNotFoundError
    except ImportError as error:
        raise MissingPackage(
            "Delta tables need the package deltalake", advice="pip install 'stateproc[delta]'"
        ) from error
    uri = absolute(path)
    try:
        return DeltaTable(uri, storage_options={key: str(value) for key, value in options.items()} or None)
    except TableNotFoundError as error:
        raise MissingFile("this is no Delta table", where=Where(file=uri)) from error
    except Exception as error:  # deltalake's errors, and those of its object stores
        raise StoreUnavailable(f"the Delta table cannot be read: {error}", where=Where(file=uri)) from error


def _moment(name: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise InvalidOption(
            f"source '{name}': '{text}' is no time", advice="give one such as 2026-01-31T12:00:00Z"
        ) from error
    if found.tzinfo is None:
        raise InvalidOption(f"source '{name}': the time '{text}' has no time zone", advice="append Z for UTC")
    return found
