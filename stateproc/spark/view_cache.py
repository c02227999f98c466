"""Keep the rows of states as Parquet files, so that they are decoded once and then read with Parquet's pruning.

A cache is a directory; what is in it for a path is ``<path>-<hash>/<snapshot hash>/``: for each view a directory of
Parquet files and, once they are complete, a file ``<view>.json`` that names it. Without that file nothing is used, so
that a write which fails, is killed, or runs beside another one does no harm.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import AtomicType, StructType

from stateproc.errors import InvalidOption
from stateproc.spark.workers import described_jobs
from stateproc.storage.store import StorePath
from stateproc.storage.writing import make_directory, publish, writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HASH = re.compile(r"[0-9a-f]{16}")
_FILES, _SCHEMA = "files", "schema"
_MAX_ENTRY = 16 << 20
_KEY = "key"


@dataclass(frozen=True)
class ViewCache:
    """The cached views of one snapshot, read with certain options.

    Attributes:
        home: The directory of all snapshots that were found at the same path.
        snapshot: The name of this snapshot's directory there.
    """

    home: StorePath
    snapshot: str

    @classmethod
    def of(cls, cache: StorePath, path: str, metadata: bytes, options: Mapping[str, str]) -> ViewCache:
        """Choose the directory for a snapshot.

        Args:
            cache: The directory of the cache, a path that both Spark and fsspec understand.
            path: The snapshot's path as given, which may lead to another snapshot later.
            metadata: The contents of ``_metadata``: other contents mean another snapshot.
            options: The options that the snapshot is read with.
        """
        text = json.dumps(sorted(options.items()))
        return cls(cache / f"{_plain(path)}-{_hashed(path.encode(), text.encode())}", _hashed(metadata))

    def frame(self, spark: SparkSession, view: str, schema: StructType) -> DataFrame | None:
        """Return the cached rows of a view; None if there are none of this schema."""
        entry = self._entry(view)
        found = entry.file_status()
        if found is None or found.size > _MAX_ENTRY:
            return None
        name = _directory_name(entry.read_range(0, found.size), schema)
        if name is None:
            return None
        return spark.read.schema(schema).parquet(self._spark_path(name))

    def store(self, view: str, rows: DataFrame) -> None:
        """Write the rows of a view, sorted by key within each file.

        Raises:
            PythonException: The snapshot is damaged (pyspark.errors).
            WriteFailed: The cache cannot be written.
        """
        name = f"{view}-{uuid.uuid4().hex}"
        # Statistics of sorted keys prune row groups of a file, those of key groups prune files.
        keyed = _KEY in rows.columns and isinstance(rows.schema[_KEY].dataType, AtomicType)
        ordered = rows.sortWithinPartitions(_KEY) if keyed else rows
        with described_jobs(rows.sparkSession, f"stateproc: cache view {view}"):
            ordered.write.mode("error").parquet(self._spark_path(name))
        make_directory(self._directory)
        entry = json.dumps({_FILES: name, _SCHEMA: rows.schema.jsonValue()}).encode()
        publish(self._entry(view), entry, f".{name}.tmp")

    def remove_others(self) -> None:
        """Remove what is cached of snapshots that were at this path before. Raises WriteFailed."""
        for entry in self.home.entries():
            if entry.is_directory and entry.name != self.snapshot and _HASH.fullmatch(entry.name):
                fs, path = entry.path.filesystem()
                with writing(entry.path):
                    fs.rm(path, recursive=True)

    @property
    def _directory(self) -> StorePath:
        return self.home / self.snapshot

    def _entry(self, view: str) -> StorePath:
        return self._directory / f"{view}.json"

    def _spark_path(self, name: str) -> str:
        """Return the URI of a directory; Spark would look for a path without scheme in its default file system."""
        path = self._directory / name
        return f"file:{path}" if path.is_local else path.uri


def cache_directory(cache: str, storage_options: Mapping[str, Any]) -> StorePath:
    """Return the directory of the cache. Raises InvalidOption unless it is one, or does not exist yet."""
    if not cache.strip():
        raise InvalidOption("cache is empty", advice="give the path of a directory")
    directory = StorePath.of(cache, storage_options)
    found = directory.status()
    if found is not None and not found.is_directory:
        raise InvalidOption(f"cache {cache} is a file", advice="give the path of a directory")
    return directory


def _directory_name(entry: bytes, schema: StructType) -> str | None:
    """The directory that an entry of this schema names; None for anything but what `store` writes."""
    try:
        found = json.loads(entry)
        name, same = found[_FILES], found[_SCHEMA] == schema.jsonValue()
    except (ValueError, KeyError, TypeError):
        return None
    return name if same and isinstance(name, str) and re.fullmatch(r"\w+-[0-9a-f]{32}", name) else None


def _plain(text: str) -> str:
    """The last letters, digits and _ of a name."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[-80:] or "snapshot"


def _hashed(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]
