"""Changes of the whole savepoint: key groups, files, format, Flink release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stateproc.errors import InvalidOption
from stateproc.writers.changes.change_definition import COUNTS, FLAG, SETTINGS, TEXT, WHOLE, change_field, one_of

if TYPE_CHECKING:
    from stateproc.writers.savepoint_writer import SavepointWriter

FORMATS = ("canonical", "native-hashmap", "native-rocksdb")


@dataclass(frozen=True)
class Rescale:
    """Set the number of key groups of all operators or of some, and of subtasks of some."""

    max_parallelism: int | None = change_field(WHOLE, "the number of key groups of all operators", default=None)
    operator_max_parallelism: Mapping[str, int] | None = change_field(
        COUNTS, "the number of key groups of an operator", default=None
    )
    parallelism: Mapping[str, int] | None = change_field(
        COUNTS, "the number of subtasks, and so of files, of an operator", default=None
    )
    hash_function: Mapping[str, Any] | None = change_field(
        SETTINGS,
        "how an operator's keys of a class of its own are hashed, by uid: 'Objects.hash', record, kotlin, lombok, "
        "scala, scala-2.12 or scala-2.13, and the fields in the method's order: record:name,count",
        default=None,
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Set what is given. Raises NotFound, InvalidOption."""
        if self.max_parallelism is None and not self.parallelism and not self.operator_max_parallelism:
            raise InvalidOption(
                "rescale without a number of key groups or subtasks",
                advice="give max_parallelism, operator_max_parallelism, parallelism, or several of them",
            )
        if self.max_parallelism is not None:
            writer.with_max_parallelism(self.max_parallelism)
        for uid, max_parallelism in (self.operator_max_parallelism or {}).items():
            writer.with_max_parallelism(max_parallelism, uid)
        for uid, function in (self.hash_function or {}).items():
            writer.with_hash_function(uid, function)
        for uid, parallelism in (self.parallelism or {}).items():
            writer.with_parallelism(uid, parallelism)


@dataclass(frozen=True)
class Convert:
    """Write keyed state in another format."""

    to: str = change_field(one_of(*FORMATS), "canonical for every state backend, or the native format of one")
    compressed: bool | None = change_field(
        FLAG, "compress keyed state; default as it is, uncompressed in files that are written anew", default=None
    )
    rocksdb_options: Mapping[str, Any] | None = change_field(
        SETTINGS, "an option of the tables of native-rocksdb, by Flink's key (state.backend.rocksdb.…)", default=None
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Set the format. Raises NotFound, InvalidOption."""
        writer.with_format(self.to)  # type: ignore[arg-type]
        if self.compressed is not None:
            writer.with_compression(self.compressed)
        if self.rocksdb_options:
            if self.to != "native-rocksdb":
                raise InvalidOption(f"options of RocksDB for the format {self.to}", advice="convert to native-rocksdb")
            writer.with_rocksdb_options(self.rocksdb_options)


@dataclass(frozen=True)
class Upgrade:
    """Write metadata and serializers as another Flink release does."""

    flink_version: str = change_field(TEXT, "the release that will restore the savepoint, 1.13 to 2.3")

    def apply(self, writer: SavepointWriter) -> None:
        """Set the release. Raises InvalidOption."""
        writer.with_flink_version(self.flink_version)
