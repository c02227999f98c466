"""Build the state of a KafkaSource from a DataFrame of offsets.

The bytes of splits and of the coordinator's state: stateproc.connectors.kafka, docs/formats/connectors.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from stateproc.connectors.kafka import (
    COMMITTED,
    EARLIEST,
    ENUMERATOR_VERSIONS,
    LATEST,
    KafkaSplit,
    written_coordinator,
    written_split,
)
from stateproc.errors import InvalidOption, InvalidRows, Where
from stateproc.writers.bootstrap.frame_columns import collected, rows_like
from stateproc.writers.bootstrap.state_registration import column_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

READER_STATE = "SourceReaderState"
"""The list state of SourceOperator: its splits, as byte[]."""
SPLIT, SPLIT_SUBTASK = "value", "subtask"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SHOWN = 5


class SourceRows(Protocol):
    """The state of a source: the rows of its readers' state, and that of its coordinator."""

    @property
    def frame(self) -> DataFrame:
        """The rows: SPLIT [, SPLIT_SUBTASK]."""

    @property
    def coordinator(self) -> bytes:
        """The coordinator's state."""


@dataclass(frozen=True)
class KafkaRows:
    """All partitions of a source, by topic and number, and the rows of its readers' state: SPLIT [, SPLIT_SUBTASK]."""

    splits: tuple[KafkaSplit, ...] = field(repr=False)
    frame: DataFrame = field(repr=False)
    enumerator_version: int

    @property
    def coordinator(self) -> bytes:
        return written_coordinator(self.splits, self.enumerator_version)


def kafka_rows(
    frame: DataFrame,
    topic: str,
    partition: str,
    offset: str,
    stopping_offset: str | None,
    subtask: str | None,
    enumerator_version: int,
) -> KafkaRows:
    """The partitions, collected: there are as many as Kafka has. Raises InvalidOption, NotFound, InvalidRows."""
    if enumerator_version not in ENUMERATOR_VERSIONS:
        raise InvalidOption(
            f"the Kafka connector has no enumerator version {enumerator_version} to write",
            advice="1 is that of the connector 3.0, 2 that of 3.1 to 4.0, 3 that of 5.0",
        )
    roles = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "stopping_offset": stopping_offset,
        "subtask": subtask,
    }
    for column in roles.values():
        if column is not None:
            column_type(frame, column, READER_STATE)
    numbers = {role: name for role, name in roles.items() if role != "topic"}
    wrong = next((name for name in numbers.values() if name and not _is_whole(frame, name)), None)
    if wrong is not None:
        found = column_type(frame, wrong, READER_STATE).text
        raise InvalidOption(f"column '{wrong}' is {found}, and no whole number")
    rows = sorted(collected(frame, roles), key=_place)
    _refuse(rows, enumerator_version)
    splits = tuple(KafkaSplit(row["topic"], row["partition"], row["offset"], row["stopping_offset"]) for row in rows)
    pairs = zip(splits, rows, strict=True)
    read = [(written_split(split), row["subtask"]) for split, row in pairs if split.offset is not None]
    elements: Sequence[Any] = read if subtask is not None else [row[:1] for row in read]
    schema = pa.schema([(SPLIT, pa.binary()), (SPLIT_SUBTASK, pa.int32())][: 2 if subtask is not None else 1])
    return KafkaRows(splits, rows_like(frame, elements, schema), enumerator_version)


def _is_whole(frame: DataFrame, column: str) -> bool:
    found = column_type(frame, column, READER_STATE)
    return found.kind == "whole" or found.arrow == pa.null()


def _place(row: dict[str, Any]) -> tuple[str, int]:
    return str(row["topic"]), -1 if row["partition"] is None else row["partition"]


def _refuse(rows: Sequence[dict[str, Any]], version: int) -> None:
    """Raises InvalidRows for partitions that the connector could not go on with, showing the first of them."""
    problems = list(_wrong(rows, version))
    if not rows:
        problems = ["there are no rows"]
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise InvalidRows(
            "rows cannot become Kafka offsets: " + "; ".join(problems[:_SHOWN]) + more,
            where=Where(state=READER_STATE),
            advice="offset: where reading goes on, or -1 latest, -2 earliest, -3 the group's committed offset",
        )


def _wrong(rows: Sequence[dict[str, Any]], version: int) -> Iterator[str]:
    seen = set()
    for row in rows:
        shown = f"topic={row['topic']!r}, partition={row['partition']}"
        start, stop = row["offset"], row["stopping_offset"]
        if row["topic"] is None or not _TOPIC.fullmatch(row["topic"]):
            yield f"no topic of Kafka ({shown})"
        elif row["partition"] is None or not 0 <= row["partition"] < 1 << 31:
            yield f"no partition ({shown})"
        elif _place(row) in seen:
            yield f"a partition twice ({shown})"
        elif start is None and version == 3:
            yield f"no offset, which enumerator version 3 keeps of every partition ({shown})"
        elif start is not None and start < 0 and start not in (LATEST, EARLIEST, COMMITTED):
            yield f"the offset {start} ({shown})"
        elif stop is not None and stop < 0 and stop not in (LATEST, COMMITTED):
            yield f"the stopping offset {stop} ({shown})"
        seen.add(_place(row))
