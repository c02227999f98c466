"""Changes of Kafka sources and sinks."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateproc.errors import InvalidOption, MissingFile, Where
from stateproc.writers.changes.change_definition import (
    OFFSETS,
    TEXT,
    TEXTS,
    TOPIC_OFFSETS,
    change_field,
    one_of,
)
from stateproc.writers.kafka_offset_words import OFFSET_WORDS

if TYPE_CHECKING:
    from stateproc.writers.savepoint_writer import SavepointWriter

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
    """Change the offsets of a KafkaSource, and drop pending transactions of Kafka sinks."""

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
    drop_transactions: tuple[str, ...] | None = change_field(
        TEXTS, "a Kafka sink whose pending transactions are dropped: its uid", default=None
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Set the offsets and drop the transactions. Raises NotFound, InvalidOption."""
        edits = (self.offsets, self.file, self.topics, self.all, self.remove)
        if self.uid is None and (any(edits) or not self.drop_transactions):
            raise InvalidOption("set-offsets without the source", advice="give uid: that of the KafkaSource")
        if self.uid is not None and not any(edits):
            raise InvalidOption(
                f"set-offsets without new offsets of {self.uid}", advice="give offsets, file, topics, all or remove"
            )
        if self.uid is not None:
            offsets = {**({} if self.file is None else read_offsets(self.file)), **(self.offsets or {})}
            writer.set_kafka_offsets(
                self.uid, offsets, topics=self.topics, everywhere=self.all, remove=self.remove or ()
            )
        for sink in self.drop_transactions or ():
            writer.drop_kafka_transactions(sink)
