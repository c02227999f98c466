"""Change the offsets of a KafkaSource of an existing snapshot: splits of its readers and its coordinator's partitions.

Both are kept consistent: a partition that gets an offset has a split of a reader and is assigned for the coordinator;
one that is removed is in neither. Serializer versions stay those that are found, and splits that do not change keep
their bytes, which stateproc.connectors.kafka reads and writes (docs/formats/connectors.md).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow.compute as pc

from stateproc.connectors.connector_format import coordinator_of, unwrap
from stateproc.connectors.kafka import (
    SPLIT,
    TOPIC,
    EnumeratedPartition,
    KafkaSplit,
    written_enumerator,
    written_split,
)
from stateproc.connectors.operator_states import SOURCE_STATE
from stateproc.errors import CorruptSnapshot, InvalidOption, Where, located, not_found
from stateproc.metadata.stream_handles import ByteStreamHandle
from stateproc.model.operator import Operator
from stateproc.model.operator_state import OperatorState, opened_state
from stateproc.wire import Output
from stateproc.writers.kafka_offset_words import OFFSET_WORDS
from stateproc.writers.rewrite.operator_state_copy import GivenElements, given_elements, merged_operator_header
from stateproc.writers.rewrite.source_positions import reader_elements, refuse_assignments

if TYPE_CHECKING:
    from typing_extensions import Self

Partition = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(frozen=True)
class OffsetsEdit:
    """New offsets of a source; what is named more precisely has precedence. Partitions that are not named stay.

    Attributes:
        offsets: The offset of partitions; those that the source does not have are added.
        topics: The offset of all partitions of a topic that the source has.
        everywhere: The offset of all partitions that the source has.
        removed: Partitions that the source no longer has.
    """

    offsets: Mapping[Partition, int] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    everywhere: int | None = None
    removed: frozenset[Partition] = frozenset()

    def offset_of(self, partition: Partition) -> int | None:
        """The new offset of a partition that the source has; None: it stays."""
        found = self.offsets.get(partition, self.topics.get(partition[0]))
        return self.everywhere if found is None else found


class KafkaPartitions(ABC):
    """The partitions of a source, and what edits of offsets make of them."""

    partitions: tuple[Any, ...]
    role: ClassVar[str]
    """What the source is called in messages."""
    reasons = ("new Kafka offsets",)

    @property
    @abstractmethod
    def known(self) -> tuple[Partition, ...]:
        """All partitions."""

    def changed(self, edits: Sequence[OffsetsEdit], subtasks: int, operator: str) -> Self:
        """Return the state after all edits. Raises NotFound, InvalidOption, UnsupportedSnapshot."""
        state = self
        for edit in edits:
            known = state.known
            for topic, number in sorted(edit.removed.difference(known)):
                names = [f"{topic}:{number}" for topic, number in known]
                raise not_found("Kafka partition", f"{topic}:{number}", names, f"operator '{operator}'")
            topics = sorted({topic for topic, _ in known})
            for topic in edit.topics:
                if topic not in topics:
                    raise not_found("Kafka topic", topic, topics, f"operator '{operator}'")
            state = state._edited(edit, subtasks, operator)
        if not state.partitions:
            raise InvalidOption(
                f"the {self.role} would have no partitions",
                where=Where(operator=operator),
                advice=f"leave out the operator to start the {self.role} anew: remove_operator(uid)",
            )
        return state

    @abstractmethod
    def _edited(self, edit: OffsetsEdit, subtasks: int, operator: str) -> Self:
        """Return the state after an edit, whose removed partitions and topics are known."""


def fewest_first(held: Iterable[int], subtasks: int) -> Iterator[int]:
    """Yield a subtask for each further partition: the one that has the fewest. ``held``: those of the others."""
    numbers = Counter(dict.fromkeys(range(subtasks), 0))
    numbers.update(held)
    while True:
        subtask = min(range(subtasks), key=lambda index: (numbers[index], index))
        numbers[subtask] += 1
        yield subtask


@dataclass(frozen=True)
class ReaderSplit:
    """A split of a reader. ``stored``: its bytes in the snapshot, None for a changed or new one."""

    subtask: int
    split: KafkaSplit
    stored: bytes | None = None

    @property
    def partition(self) -> Partition:
        return self.split.topic, self.split.partition

    @property
    def element(self) -> bytes:
        """The element of the list state: byte[] as BytePrimitiveArraySerializer writes it."""
        if self.stored is not None:
            return self.stored
        out = Output()
        out.bytes32(written_split(self.split))
        return bytes(out)


@dataclass(frozen=True)
class KafkaSourceState(KafkaPartitions):
    """The state of a KafkaSource: splits of readers, and all partitions of the coordinator with its versions."""

    splits: tuple[ReaderSplit, ...]
    partitions: tuple[EnumeratedPartition, ...]
    discovered: bool
    serde_version: int
    enumerator_version: int
    assignments: bytes
    coordinator_name: str

    state_name = SOURCE_STATE
    role = "source"

    @property
    def known(self) -> tuple[Partition, ...]:
        """All partitions, in the order of the coordinator, then of the readers."""
        enumerated = ((item.topic, item.partition) for item in self.partitions)
        return tuple(dict.fromkeys((*enumerated, *(item.partition for item in self.splits))))

    @property
    def offsets(self) -> dict[Partition, int | None]:
        """The offsets of the readers' splits."""
        return {item.partition: item.split.offset for item in self.splits}

    def elements(self) -> list[GivenElements]:
        """The elements of the readers' state, by subtask."""
        return given_elements((item.subtask, item.element) for item in self.splits)

    def coordinator(self) -> ByteStreamHandle:
        """The coordinator's state, in the versions that were found."""
        subtask_of = {item.partition: item.subtask for item in self.splits}
        partitions = [
            replace(item, subtask=subtask_of.get((item.topic, item.partition), 0)) for item in self.partitions
        ]
        enumerator = written_enumerator(partitions, self.enumerator_version, discovered=self.discovered)
        data = coordinator_of(self.serde_version, self.enumerator_version, enumerator, self.assignments)
        return ByteStreamHandle(self.coordinator_name, data)

    def _edited(self, edit: OffsetsEdit, subtasks: int, operator: str) -> KafkaSourceState:
        known = self.known
        wanted = {part: edit.offset_of(part) for part in known if part not in edit.removed}
        wanted.update(edit.offsets)
        for topic, _ in set(edit.offsets).difference(known):
            if not TOPIC.fullmatch(topic):
                raise InvalidOption(
                    f"{topic!r} is no topic", advice="Kafka's topics have letters, digits, dots, _ and - only"
                )
        offsets = {part: offset for part, offset in wanted.items() if offset is not None}
        splits = [
            _moved(item, offsets[item.partition], operator) if item.partition in offsets else item
            for item in self.splits
            if item.partition not in edit.removed
        ]
        splits += _added(splits, offsets, self.partitions, subtasks)
        kept = {
            (item.topic, item.partition): item
            for item in self.partitions
            if (item.topic, item.partition) not in edit.removed
        }
        for topic, number in offsets:
            before = kept.get((topic, number), EnumeratedPartition(topic, number, True))
            kept[topic, number] = replace(before, assigned=True, offset=offsets[topic, number])
        return replace(self, splits=tuple(splits), partitions=tuple(kept.values()))


def _moved(item: ReaderSplit, offset: int, operator: str) -> ReaderSplit:
    if item.split.offset == offset:
        return item
    stop = item.split.stopping_offset
    if stop is not None and 0 <= stop < offset:
        raise InvalidOption(
            f"offset {offset} of {item.split.topic}:{item.split.partition} is after {stop}, where its split ends",
            where=Where(operator=operator, state=SOURCE_STATE),
            advice=f"give an offset up to {stop}, or remove the partition",
        )
    return ReaderSplit(item.subtask, replace(item.split, offset=offset))


def _added(
    splits: Sequence[ReaderSplit],
    offsets: Mapping[Partition, int],
    partitions: Sequence[EnumeratedPartition],
    subtasks: int,
) -> Iterator[ReaderSplit]:
    """Yield splits of the partitions that no reader has, each for the subtask that has the fewest."""
    held = {item.partition for item in splits}
    stops = {(item.topic, item.partition): item.stopping_offset for item in partitions}
    free = fewest_first((item.subtask for item in splits), subtasks)
    for (topic, number), offset in sorted(offsets.items()):
        if (topic, number) not in held:
            yield ReaderSplit(next(free), KafkaSplit(topic, number, offset, stops.get((topic, number))))


def kafka_source_state(operator: Operator) -> KafkaSourceState:
    """Read the state of a KafkaSource.

    Raises:
        InvalidOption: The operator is no KafkaSource.
        UnsupportedSnapshot: Its coordinator has assignments that readers do not have yet (Flink 1.13 and earlier).
        CorruptSnapshot, MissingFile: Its state cannot be read.
    """
    found = operator.coordinator or {}
    handle = operator.metadata.coordinator
    decoded = found.get("decoded")
    header = merged_operator_header(operator)
    if handle is None or found.get("format") != "kafka" or not isinstance(decoded, dict):
        raise _no_kafka(operator)
    if SOURCE_STATE not in [info.name for info in header.states]:
        raise _no_kafka(operator)
    assignments = found["assignments"]
    assert isinstance(assignments, bytes)
    refuse_assignments(assignments, operator)
    partitions = tuple(
        EnumeratedPartition(
            item["topic"], item["partition"], item["assigned"], item["starting_offset"], item["stopping_offset"]
        )
        for item in decoded["partitions"]
    )
    return KafkaSourceState(
        splits=tuple(_reader_splits(operator)),
        partitions=partitions,
        discovered=decoded["initial_discovery_finished"] is not False,
        serde_version=int(str(found["serde_version"])),
        enumerator_version=int(str(found["enumerator_version"])),
        assignments=assignments,
        coordinator_name=handle.name,
    )


def _reader_splits(operator: Operator) -> Iterator[ReaderSplit]:
    for subtask, stored, data in reader_elements(operator):
        with located(CorruptSnapshot, operator=operator.display, state=SOURCE_STATE):
            row = SPLIT.read(unwrap(data))
        if row is None:
            raise _no_kafka(operator)
        split = KafkaSplit(row["topic"], row["partition"], row["starting_offset"], row["stopping_offset"])
        yield ReaderSplit(subtask, split, stored)


def _no_kafka(operator: Operator) -> InvalidOption:
    return InvalidOption(
        f"operator {operator.display} has no state of a KafkaSource (splits of readers and an enumerator's partitions) "
        "or of a FlinkKafkaConsumer",
        where=Where(operator=operator.display),
        advice="stateproc offsets PATH lists the Kafka sources of a snapshot with their partitions",
    )


# Find the operator states with pending transactions of a Kafka sink: of its writer, and of its committer.

WRITER_STATE, COMMITTER_STATE = "writer_raw_states", "streaming_committer_raw_states"


def committer_uid(uid: str) -> str:
    """Return the uid that Flink gives the committer of a sink with a uid."""
    return f"Sink Committer: {uid}"


def transaction_states(operator: Operator) -> Iterator[str]:
    """Yield the names of the operator's states with transactions of Kafka, also those without any.

    Raises:
        InvalidOption: Such a state has the transactions or files of another sink.
        SnapshotError: The state cannot be read.
    """
    for state in operator.operator_states:
        if state.name in (WRITER_STATE, COMMITTER_STATE):
            if not is_kafka_sink(state):
                raise InvalidOption(
                    "the state is not that of a Kafka sink",
                    where=Where(operator=operator.display, state=state.name),
                    advice="what other sinks have not committed is dropped by drop_pending (stateproc drop-pending)",
                )
            yield state.name


def is_kafka_sink(state: OperatorState) -> bool:
    """Return whether the state of a sink is that of a Kafka sink, or empty. Raises SnapshotError."""
    rows = opened_state(state).to_arrow()
    if rows.num_rows == 0:
        return True
    if state.name == WRITER_STATE:
        return "transactional_id_prefix" in rows.column_names
    if "committables" not in rows.column_names:
        return False
    column = rows.column("committables")
    is_known = "transactional_id" in {field.name for field in column.type.value_type}
    return is_known or not pc.any(pc.greater(pc.list_value_length(column), 0)).as_py()


# Check and convert the arguments of new Kafka offsets.

_TOPIC = re.compile(r"[\w.-]{1,249}")
_MOST_PARTITIONS, _MOST_OFFSETS = 1 << 31, 1 << 63


def offsets_edit(
    offsets: Mapping[str, int | str] | Mapping[Partition, int | str] | None,
    topics: Mapping[str, int | str] | None,
    everywhere: int | str | None,
    remove: Iterable[str | Partition],
) -> OffsetsEdit:
    """Return the edit of these arguments; see `SavepointWriter.set_kafka_offsets`.

    Raises:
        InvalidOption: Nothing is to change, or an argument is no partition, topic or offset.
    """
    edit = OffsetsEdit(
        {partition_of(name): offset_of(offset, name) for name, offset in (offsets or {}).items()},
        {_topic_of(topic): offset_of(offset, topic) for topic, offset in (topics or {}).items()},
        None if everywhere is None else offset_of(everywhere, "all partitions"),
        frozenset(map(partition_of, [remove] if isinstance(remove, str) else remove)),
    )
    twice = edit.removed.intersection(edit.offsets)
    if twice:
        topic, number = min(twice)
        raise InvalidOption(f"partition {topic}:{number} is removed and has a new offset", advice="give one of both")
    if not (edit.offsets or edit.topics or edit.removed or edit.everywhere is not None):
        raise InvalidOption("no new offsets", advice="give offsets, topics, an offset for all, or partitions to remove")
    return edit


def partition_of(given: str | Partition) -> Partition:
    """Return a partition that is given as ``topic:partition`` or as a pair. Raises InvalidOption."""
    topic, number = given if isinstance(given, tuple) else given.rpartition(":")[::2]
    digits = str(number)
    if not re.fullmatch(r"\d{1,10}", digits) or int(digits) >= _MOST_PARTITIONS:
        raise InvalidOption(f"{given!r} is no partition", advice="give topic:partition, such as shop.orders:0")
    return _topic_of(topic), int(digits)


def offset_of(given: int | str, name: object) -> int:
    """Return an offset that is given as a number, or as a word for a marker. Raises InvalidOption."""
    if isinstance(given, str) and given in OFFSET_WORDS:
        return OFFSET_WORDS[given]
    digits = str(given)
    if isinstance(given, bool) or not re.fullmatch(r"-?\d{1,19}", digits):
        raise _no_offset(given, name)
    offset = int(digits)
    if not (0 <= offset < _MOST_OFFSETS or offset in OFFSET_WORDS.values()):
        raise _no_offset(given, name)
    return offset


def _topic_of(topic: object) -> str:
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise InvalidOption(f"{topic!r} is no topic", advice="Kafka's topics have letters, digits, dots, _ and - only")
    return topic


def _no_offset(given: object, name: object) -> InvalidOption:
    words = ", ".join(OFFSET_WORDS)
    return InvalidOption(f"{given!r} is no offset of {name}", advice=f"give a number from 0, or one of {words}")
