"""Check and convert the arguments of new Kafka offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from stateproc.errors import InvalidOption
from stateproc.writers.changes.offset_words import OFFSET_WORDS
from stateproc.writers.rewrite.kafka_offsets import OffsetsEdit, Partition

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
