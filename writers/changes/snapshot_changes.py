"""Changes: of operators and their states, of the whole savepoint, of Kafka's sources and sinks."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from stateproc.errors import InvalidOption, MissingFile, Where
from stateproc.writers.changes.change_definition import (
    ASSIGNMENTS,
    COUNTS,
    DURATION,
    EXPRESSIONS,
    FLAG,
    MOMENT,
    NAMES,
    OFFSETS,
    POSITIONS,
    SETTINGS,
    TEXT,
    TEXTS,
    TOPIC_OFFSETS,
    WHOLE,
    change_field,
    one_of,
)
from stateproc.writers.kafka_offset_words import OFFSET_WORDS

if TYPE_CHECKING:
    from stateproc.writers.savepoint_writer import SavepointWriter


UID = "the operator: its uid, or its uid hash"


@dataclass(frozen=True)
class RenameOperator:
    """Give an operator another uid."""

    uid: str = change_field(TEXT, UID)
    to: str = change_field(TEXT, "its uid, or uid hash, in the job that restores the savepoint")

    def apply(self, writer: SavepointWriter) -> None:
        """Rename the operator. Raises NotFound; InvalidOption if there is one of the new uid."""
        writer.change_operator_identifier(self.uid, self.to)


@dataclass(frozen=True)
class MoveSource:
    """Give the positions of a FlinkKafkaConsumer or FlinkKinesisConsumer to the source that takes its place."""

    uid: str = change_field(TEXT, "the FlinkKafkaConsumer or FlinkKinesisConsumer: its uid, or its uid hash")
    to: str = change_field(TEXT, "the source in the job that restores the savepoint: its uid, or its uid hash")
    enumerator_version: int | None = change_field(
        WHOLE, "of Kafka: 1 for the connector 3.0, 2 for 3.1 to 4.0 (the default), 3 for 5.0", default=None
    )
    stream_arn: str | None = change_field(TEXT, "of Kinesis: the ARN of the stream", default=None)

    def apply(self, writer: SavepointWriter) -> None:
        """Move the source. Raises NotFound, InvalidOption, InvalidRows, UnsupportedSnapshot."""
        writer.move_source(self.uid, self.to, enumerator_version=self.enumerator_version, stream_arn=self.stream_arn)


@dataclass(frozen=True)
class DropOperator:
    """Leave out operators and all their state."""

    uid: tuple[str, ...] = change_field(TEXTS, "an operator to leave out: its uid, or its uid hash")

    def apply(self, writer: SavepointWriter) -> None:
        """Leave out the operators. Raises NotFound."""
        for uid in self.uid:
            writer.remove_operator(uid)


@dataclass(frozen=True)
class DropInFlightData:
    """Drop the records in flight of an unaligned checkpoint."""

    def apply(self, writer: SavepointWriter) -> None:
        """Drop the records, which are lost then."""
        writer.drop_in_flight_data()


@dataclass(frozen=True)
class DropPending:
    """Drop what sinks have written and not committed."""

    uid: tuple[str, ...] = change_field(TEXTS, "a sink: its uid, or the uid hash of its writer or committer")

    def apply(self, writer: SavepointWriter) -> None:
        """Drop it. Raises NotFound."""
        for uid in self.uid:
            writer.drop_pending(uid)


@dataclass(frozen=True)
class DropState:
    """Leave out keyed states of an operator."""

    uid: str = change_field(TEXT, UID)
    state: tuple[str, ...] = change_field(TEXTS, "a keyed state to leave out; of timers the name of their queue")

    def apply(self, writer: SavepointWriter) -> None:
        """Leave out the states. Raises NotFound."""
        for state in self.state:
            writer.drop_state(self.uid, state)


@dataclass(frozen=True)
class RenameState:
    """Rename a keyed state of an operator."""

    uid: str = change_field(TEXT, UID)
    state: str = change_field(TEXT, "the state's name in the snapshot")
    to: str = change_field(TEXT, "its name in the job that restores the savepoint")

    def apply(self, writer: SavepointWriter) -> None:
        """Rename the state. Raises NotFound."""
        writer.rename_state(self.uid, self.state, self.to)


@dataclass(frozen=True)
class DeleteRows:
    """Delete the rows of states for which a condition is true."""

    uid: str = change_field(TEXT, UID)
    state: tuple[str, ...] = change_field(TEXTS, "a state; of timers the name of their queue")
    where: str = change_field(TEXT, "the rows to delete, as a condition in SQL: 'key = 42 AND value.total < 10'")
    flatten: bool | None = change_field(
        FLAG, "rows are the elements of lists and the entries of maps, as read --flatten prints them", default=None
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Delete the rows. Raises NotFound, InvalidOption."""
        for state in self.state:
            writer.delete_rows(self.uid, state, self.where, flatten=bool(self.flatten))


@dataclass(frozen=True)
class UpdateRows:
    """Set columns of the rows of states for which a condition is true."""

    uid: str = change_field(TEXT, UID)
    state: tuple[str, ...] = change_field(TEXTS, "a state; of timers the name of their queue")
    set: tuple[str, ...] = change_field(
        ASSIGNMENTS, "what is set: 'value.total = 0'; value, list_element or map_value or a field in it, timestamp"
    )
    where: str = change_field(TEXT, "the rows to update, as a condition in SQL: 'key = 42 AND value.total < 10'")
    flatten: bool | None = change_field(
        FLAG, "rows are the elements of lists and the entries of maps, as read --flatten prints them", default=None
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Set the columns. Raises NotFound, InvalidOption."""
        for state in self.state:
            writer.update_rows(self.uid, state, self.set, self.where, flatten=bool(self.flatten))


@dataclass(frozen=True)
class EvolveType:
    """Give the values of states, or the keys of an operator, another type."""

    uid: str = change_field(TEXT, UID)
    to: str = change_field(
        TEXT,
        "the new type of values, list elements, map values or keys, in words (docs/naming-types.md); the name of a "
        "class that --classes describes; or @FILE with words, an Avro schema or a description of classes, of which the "
        "first is the type",
    )
    state: tuple[str, ...] | None = change_field(
        TEXTS, "a keyed state, or a list, union or broadcast state", default=None
    )
    key: bool | None = change_field(
        FLAG, "the keys of all keyed states and timers of the operator get the type, instead of --state", default=None
    )
    rename: Mapping[str, str] | None = change_field(
        NAMES, "a field with another name, as it was and as it is", default=None
    )
    set: tuple[str, ...] | None = change_field(
        ASSIGNMENTS,
        "a field that an expression over the old columns gives: \"value.note = 'none'\"; list_element, map_value, key",
        default=None,
    )
    hash_function: str | None = change_field(
        TEXT,
        "with --key: how keys of a class of its own are hashed: 'Objects.hash', record, kotlin, lombok, scala, "
        "scala-2.12 or scala-2.13, and the fields in the method's order: record:name,count",
        default=None,
    )
    kind: str | None = change_field(
        one_of("value", "reducing", "aggregating", "list", "map"),
        "the kind of state that a keyed state becomes, whose values have the type",
        default=None,
    )
    map_key_type: str | None = change_field(
        TEXT, "with --kind map: the type of the map's keys, as of --to", default=None
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Give the values or keys the type. Raises NotFound, InvalidOption, MissingFile."""
        if bool(self.key) == bool(self.state):
            raise InvalidOption(
                "evolve-type with both a state and the key"
                if self.key
                else "evolve-type of neither a state nor the key",
                advice="give --state NAME for the values of a state, or --key for the keys of the operator",
            )
        if self.hash_function is not None and not self.key:
            raise InvalidOption(
                "evolve-type of values with a hash function, which is one of keys", advice="leave out --hash-function"
            )
        if self.key and (self.kind, self.map_key_type) != (None, None):
            raise InvalidOption("evolve-type of keys with a kind of state", advice="leave out --kind, --map-key-type")
        for state in self.state or ():
            writer.evolve_type(
                self.uid,
                state,
                self.to,
                rename=self.rename,
                assignments=self.set or (),
                kind=self.kind,
                map_key_type=self.map_key_type,
            )
        if self.key:
            writer.evolve_key(self.uid, self.to, rename=self.rename, assignments=self.set or ())
        if self.hash_function is not None:
            writer.with_hash_function(self.uid, self.hash_function)


@dataclass(frozen=True)
class EnableTtl:
    """Enable the time to live of states. The duration is set in the job."""

    uid: str = change_field(TEXT, UID)
    state: tuple[str, ...] = change_field(TEXTS, "a keyed state without time to live")
    last_access: int | None = change_field(
        MOMENT, "the time of the last access of all entries; default now", default=None
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Enable the time to live. Raises NotFound, InvalidOption."""
        for state in self.state:
            writer.enable_ttl(self.uid, state, self.last_access)


@dataclass(frozen=True)
class DisableTtl:
    """Disable the time to live of states; expired entries become valid again."""

    uid: str = change_field(TEXT, UID)
    state: tuple[str, ...] = change_field(TEXTS, "a keyed state with time to live")

    def apply(self, writer: SavepointWriter) -> None:
        """Disable the time to live. Raises NotFound, InvalidOption."""
        for state in self.state:
            writer.disable_ttl(self.uid, state)


@dataclass(frozen=True)
class PurgeExpired:
    """Drop expired entries of states with time to live."""

    uid: str = change_field(TEXT, UID)
    state: tuple[str, ...] = change_field(TEXTS, "a keyed state with time to live")
    ttl: timedelta = change_field(DURATION, "entries expire so long after their last access, e.g. '7 d'")
    now: int | None = change_field(MOMENT, "the time of comparison; default now", default=None)

    def apply(self, writer: SavepointWriter) -> None:
        """Drop the expired entries. Raises NotFound, InvalidOption."""
        for state in self.state:
            writer.purge_expired(self.uid, state, self.ttl, self.now)


# The whole savepoint: key groups, files, format, Flink release.


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

    flink_version: str = change_field(TEXT, "the release that will restore the savepoint, 1.13 to 2.4")
    flink_cdc: str | None = change_field(
        one_of("3.1"),
        "3.1: the job goes from Flink CDC before 3.1 to 3.1 or later, whose classes have other names",
        default=None,
    )
    scala: str | None = change_field(
        one_of("flink-scala-api"),
        "what the job has in Flink 2 for types of Flink's Scala API: flink-scala-api 2.0 or later",
        default=None,
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Set the release. Raises InvalidOption."""
        writer.with_flink_version(self.flink_version)
        if self.scala is not None:
            writer.with_scala_types(self.scala)  # type: ignore[arg-type]
        if self.flink_cdc is not None:
            writer.with_flink_cdc_classes()


@dataclass(frozen=True)
class Evolve:
    """Carry the state of a SQL job over to a changed query."""

    from_plan: str = change_field(TEXT, "the compiled plan of the job that wrote the snapshot: a JSON file")
    to_plan: str = change_field(TEXT, "the compiled plan of the job that will restore it")
    map: Mapping[str, str] | None = change_field(
        NAMES,
        "an operator of which only what is before it changed: its uid in the old plan and in the new one",
        default=None,
    )
    empty: tuple[str, ...] | None = change_field(
        TEXTS, "an operator of the new plan that begins without state: its uid", default=None
    )
    new_aggregates: str | None = change_field(
        one_of("empty"), "empty: calls of an aggregate begin that the old query did not compute", default=None
    )
    emitted: str | None = change_field(
        one_of("keep"),
        "keep: results stay as they were emitted, where the new query would have emitted others: another join, TopN",
        default=None,
    )
    fill: Mapping[str, str] | None = change_field(
        EXPRESSIONS,
        "what a new column has in rows that are kept: UID.COLUMN (of a join UID.left.COLUMN) and an SQL expression",
        default=None,
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Carry the state over. Raises NotFound, InvalidOption, UnsupportedSnapshot."""
        begins: Literal["empty"] | None = "empty" if self.new_aggregates else None
        empty = self.empty or ()
        keeps: Literal["keep"] | None = "keep" if self.emitted else None
        writer.evolve(
            self.from_plan,
            self.to_plan,
            mapped=self.map,
            empty=empty,
            new_aggregates=begins,
            emitted=keeps,
            fill=self.fill,
        )


# Kafka sources and sinks.
#
# Read offsets from a CSV file of topic, partition and offset.

COLUMNS = ("topic", "partition", "offset")


def read_offsets(path: str) -> dict[str, int | str]:
    """Return the offsets of a file by ``topic:partition``.

    Args:
        path: A local CSV file with a line of names, in any order; other columns are ignored.

    Raises:
        MissingFile: The file cannot be read.
        InvalidOption: A column is missing, or a line has no value or names a partition twice.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return _offsets(csv.DictReader(file), path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MissingFile(f"the offsets cannot be read: {error}", where=Where(file=path)) from error


def _offsets(rows: csv.DictReader[str], path: str) -> dict[str, int | str]:
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise InvalidOption(
            f"the file has no column {', '.join(missing)}",
            where=Where(file=path),
            advice="begin it with the line topic,partition,offset",
        )
    found: dict[str, int | str] = {}
    for row in rows:
        values = [(row[name] or "").strip() for name in COLUMNS]
        partition = ":".join(values[:2])
        if not all(values) or partition in found:
            problem = "has no value of one column" if not all(values) else f"names {partition} again"
            raise InvalidOption(f"line {rows.line_num} {problem}", where=Where(file=path))
        found[partition] = values[2]
    return found


@dataclass(frozen=True)
class SetOffsets:
    """Change where a source continues, and drop pending transactions of Kafka sinks."""

    uid: str | None = change_field(TEXT, "the source: its uid, or its uid hash", default=None)
    offsets: Mapping[str, int | str] | None = change_field(
        OFFSETS, "the offset at which a partition continues: a number, earliest, latest or committed", default=None
    )
    file: str | None = change_field(TEXT, "a CSV file of topic, partition, offset", default=None)
    topics: Mapping[str, int | str] | None = change_field(
        TOPIC_OFFSETS, "where all partitions of a topic continue: earliest, latest or committed", default=None
    )
    all: str | None = change_field(one_of(*OFFSET_WORDS), "where all partitions continue", default=None)
    remove: tuple[str, ...] | None = change_field(TEXTS, "a partition to remove, TOPIC:PARTITION", default=None)
    position: Mapping[str, str] | None = change_field(
        POSITIONS,
        "where a split of any source continues: the split as stateproc offsets names it (* is any text), the position "
        "in the words of the connector (docs/commands/set-offsets.md)",
        default=None,
    )
    drop_transactions: tuple[str, ...] | None = change_field(
        TEXTS, "a Kafka sink whose pending transactions are dropped: its uid", default=None
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Set the offsets and drop the transactions. Raises NotFound, InvalidOption."""
        edits = (self.offsets, self.file, self.topics, self.all, self.remove)
        if self.uid is None and (any(edits) or self.position or not self.drop_transactions):
            raise InvalidOption("set-offsets without the source", advice="give uid: that of the source")
        if self.uid is not None and not (any(edits) or self.position):
            raise InvalidOption(
                f"set-offsets without new offsets of {self.uid}",
                advice="give position, or of Kafka offsets, file, topics, all or remove",
            )
        if self.uid is not None and any(edits):
            offsets = {**({} if self.file is None else read_offsets(self.file)), **(self.offsets or {})}
            writer.set_kafka_offsets(
                self.uid, offsets, topics=self.topics, everywhere=self.all, remove=self.remove or ()
            )
        if self.uid is not None and self.position:
            writer.set_positions(self.uid, self.position)
        for sink in self.drop_transactions or ():
            writer.drop_kafka_transactions(sink)
