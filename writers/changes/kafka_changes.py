"""Changes of Kafka sources and sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateproc.errors import InvalidOption
from stateproc.writers.changes.change_definition import change_field
from stateproc.writers.changes.field_types import OFFSETS, TEXT, TEXTS, TOPIC_OFFSETS, one_of
from stateproc.writers.changes.offset_words import OFFSET_WORDS
from stateproc.writers.changes.offsets_file import read_offsets

if TYPE_CHECKING:
    from stateproc.writers.savepoint_writer import SavepointWriter


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
