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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import AtomicType, StructType

from stateproc.errors import InvalidOption
from stateproc.spark.workers import described_jobs
from stateproc.storage.filesystem import absolute, filesystem, join, kind_of, list_directory, read_range, scheme_of
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
        storage_options: Of the file system of the cache.
    """

    home: str
    snapshot: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, cache: str, path: str, metadata: bytes, options: Mapping[str, str], storage_options: Mapping[str, Any]
    ) -> ViewCache:
        """Choose the directory for a snapshot.

        Args:
            cache: The directory of the cache, a path that both Spark and fsspec understand.
            path: The snapshot's path as given, which may lead to another snapshot later.
            metadata: The contents of ``_metadata``: other contents mean another snapshot.
            options: The options that the snapshot is read with.
            storage_options: Of the file system of the cache.
        """
        text = json.dumps(sorted(options.items()))
        home = join(absolute(cache), f"{_plain(path)}-{_hashed(path.encode(), text.encode())}")
        return cls(home, _hashed(metadata), storage_options)

    def frame(self, spark: SparkSession, view: str, schema: StructType) -> DataFrame | None:
        """Return the cached rows of a view; None if there are none of this schema."""
        entry = self._entry(view)
        found = kind_of(entry, self.storage_options)
        if found is None or found[0] != "file" or found[1] > _MAX_ENTRY:
            return None
        name = _directory_name(read_range(entry, 0, found[1], self.storage_options), schema)
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
        make_directory(self._directory, self.storage_options)
        entry = json.dumps({_FILES: name, _SCHEMA: rows.schema.jsonValue()}).encode()
        publish(self._entry(view), entry, f".{name}.tmp", self.storage_options)

    def remove_others(self) -> None:
        """Remove what is cached of snapshots that were at this path before. Raises WriteFailed."""
        for entry in list_directory(self.home, self.storage_options):
            if entry.is_directory and entry.name != self.snapshot and _HASH.fullmatch(entry.name):
                uri = join(self.home, entry.name)
                fs, path = filesystem(uri, self.storage_options)
                with writing(uri, self.storage_options):
                    fs.rm(path, recursive=True)

    @property
    def _directory(self) -> str:
        return join(self.home, self.snapshot)

    def _entry(self, view: str) -> str:
        return join(self._directory, f"{view}.json")

    def _spark_path(self, name: str) -> str:
        """Return the URI of a directory; Spark would look for a path without scheme in its default file system."""
        uri = join(self._directory, name)
        return f"file:{uri}" if scheme_of(uri) == "file" else uri


def check_cache(cache: str, storage_options: Mapping[str, Any]) -> None:
    """Raise InvalidOption unless ``cache`` is the path of a directory, or of nothing."""
    if not cache.strip():
        raise InvalidOption("cache is empty", advice="give the path of a directory")
    found = kind_of(absolute(cache), storage_options)
    if found is not None and found[0] != "directory":
        raise InvalidOption(f"cache {cache} is a file", advice="give the path of a directory")


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
