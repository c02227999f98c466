"""Find uids by their hashes: uids that contain a number, and those that Flink's table planner generates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from stateproc.keygroups.operator_ids import operator_id

SINK_TRANSFORMATION = "sink"
_SINK = ("constraint-validator", "partitioner", "upsert-materialize", "timestamp-inserter", "row-kind-setter")
_OTHERS: dict[str, tuple[str, ...]] = {
    "interval-join": ("filter-left", "filter-right", "pad-left", "pad-right", "interval-join"),
    "limit": ("rank",),
    "lookup-join": ("partitioner", "lookup-join-materialize", "lookup-join"),
    "match": ("timestamp-inserter", "match"),
    "process-table-function": ("process",),
    "sink": (*_SINK, SINK_TRANSFORMATION),
    "sort-limit": ("rank",),
    "table-source-scan": ("source",),
    "window-table-function": ("window",),
}
"""ExecNodes whose transformations are not named as they are."""
_SAME = tuple(
    """
    async-calc async-correlate calc changelog-normalize correlate deduplicate delta-join drop-update-before exchange
    expand global-group-aggregate global-window-aggregate group-aggregate group-table-aggregate
    group-window-aggregate incremental-group-aggregate join lateral-snapshot-join local-group-aggregate
    local-window-aggregate mini-batch-assigner ml-predict-table-function multi-join over-aggregate python-async-calc
    python-calc python-correlate python-group-aggregate python-group-window-aggregate python-over-aggregate rank
    sort temporal-join temporal-sort values vector-search-table-function watermark-assigner window-aggregate
    window-deduplicate window-join window-rank
    """.split()
)
TRANSFORMATIONS: dict[str, tuple[str, ...]] = {**{name: (name,) for name in _SAME}, **_OTHERS}
"""Names of stream ExecNodes without ``stream-exec-``, and of their transformations, of Flink 1.15 to 2.3."""
OF_CONNECTORS = tuple(
    """
    kafka upsert-kafka hive jdbc collect streaming-writer compact-coordinator compact-operator partition-committer
    discarding-sink
    """.split()
)
"""Names that connectors pass to ``ProviderContext.generateUid``."""
_VERSIONS = (1,)
"""Versions of ExecNodes in Flink 1.15, whose format of uids contains them."""


class UidTemplate(NamedTuple):
    """What is before and after the id of an ExecNode in a uid."""

    prefix: str
    suffix: str


def uid_templates() -> Iterator[UidTemplate]:
    """Return the forms of all uids that the planner generates."""
    names = dict.fromkeys(name for found in TRANSFORMATIONS.values() for name in found)
    for name in (*names, *OF_CONNECTORS):
        yield from _with_committers(f"_{name}", is_sink=name == SINK_TRANSFORMATION)
    for node in TRANSFORMATIONS:
        for version in _VERSIONS:
            yield from templates_of_node(f"stream-exec-{node}", version)


def templates_of_node(node: str, version: int) -> Iterator[UidTemplate]:
    """Return the forms of uids with type and version of one ExecNode, as Flink 1.15 generates them."""
    for name in TRANSFORMATIONS.get(node.removeprefix("stream-exec-"), ()):
        yield from _with_committers(f"_{node}_{version}_{name}", is_sink=name == SINK_TRANSFORMATION)


def _with_committers(suffix: str, *, is_sink: bool) -> Iterator[UidTemplate]:
    yield UidTemplate("", suffix)
    if is_sink:
        before, after = sink_uids("\0")[0].split("\0"), sink_uids("\0")[1].split("\0")
        yield from (UidTemplate(prefix, suffix + rest) for prefix, rest in (before, after))


def sink_uids(uid: str) -> tuple[str, str]:
    """Return the uids of the committer and of the global committer of a sink (SinkTransformationTranslator)."""
    return f"Sink Committer: {uid}", f"Sink {uid} Global Committer"


Words: TypeAlias = "npt.NDArray[np.uint64]"
_U64 = np.uint64
_C1, _C2 = _U64(0x87C37B91114253D5), _U64(0x4CF5AD432745937F)
_F1, _F2 = _U64(0xFF51AFD7ED558CCD), _U64(0xC4CEB9FE1A85EC53)
_FIVE, _ADD1, _ADD2 = _U64(5), _U64(0x52DCE729), _U64(0x38495AB5)
_HALF = _U64(33)
_LOW_BITS = _U64(0xFFFF)


@dataclass(frozen=True)
class DecimalNumbers:
    """Numbers with equally many digits.

    Attributes:
        first: The first of them.
        digits: How many digits each has, up to 8.
        text: The digits of each as ASCII, the first digit in the lowest byte.
    """

    first: int
    digits: int
    text: Words


def numbers_up_to(last: int) -> Iterator[DecimalNumbers]:
    """Return the numbers from 1 to ``last`` by their count of digits."""
    for digits in range(1, len(str(last)) + 1):
        first = 10 ** (digits - 1)
        values = np.arange(first, min(10**digits - 1, last) + 1, dtype=_U64)
        text = np.zeros(len(values), _U64)
        for place in range(digits):
            digit = values // _U64(10 ** (digits - 1 - place)) % _U64(10) + _U64(ord("0"))
            text |= digit << _U64(8 * place)
        yield DecimalNumbers(first, digits, text)


def find_numbered_uids(ids: Collection[str], templates: Iterable[UidTemplate], last: int) -> dict[str, str]:
    """Find the operators whose uid is a template with a number from 1 to ``last``.

    Args:
        ids: The operators' ids, 32 hex digits.
        templates: The forms of uids, in ASCII.
        last: The largest number.

    Returns:
        Operator id → uid.
    """
    wanted = {int.from_bytes(bytes.fromhex(item)[:8], "little"): item for item in ids}
    is_wanted = np.zeros(1 << 16, np.bool_)
    is_wanted[[half & 0xFFFF for half in wanted]] = True
    found: dict[str, str] = {}
    numbers = tuple(numbers_up_to(last))
    for template in templates:
        for group in numbers:
            halves = _first_halves(template, group)
            for at in np.flatnonzero(is_wanted[halves & _LOW_BITS]).tolist():
                item = wanted.get(int(halves[at]))
                uid = f"{template.prefix}{group.first + at}{template.suffix}"
                if item is not None and operator_id(uid) == item:
                    found[item] = uid
    return found


def _first_halves(template: UidTemplate, numbers: DecimalNumbers) -> Words:
    """Return the first 64 bits of the hashes of a template with each of the numbers."""
    words, length = _words(template, numbers)
    h1, h2 = np.zeros(len(numbers.text), _U64), np.zeros(len(numbers.text), _U64)
    for at in range(0, length // 16 * 2, 2):
        h1 = (_rotated(h1 ^ _mixed_first(words[at]), 27) + h2) * _FIVE + _ADD1
        h2 = (_rotated(h2 ^ _mixed_second(words[at + 1]), 31) + h1) * _FIVE + _ADD2
    # Missing bytes of the last block count as 0, and a block of zeros changes nothing.
    h1 = h1 ^ _mixed_first(words[-2]) ^ _U64(length)
    h2 = h2 ^ _mixed_second(words[-1]) ^ _U64(length)
    h1 = h1 + h2
    h2 = h2 + h1
    return _finished(h1) + _finished(h2)


def _words(template: UidTemplate, numbers: DecimalNumbers) -> tuple[list[Words], int]:
    """Return the 64-bit words of the uids, two per block, and the length of the uids in bytes.

    The last block is incomplete, perhaps empty. Words without digits have one element.
    """
    before, after = template.prefix.encode("ascii"), template.suffix.encode("ascii")
    uid = before + bytes(numbers.digits) + after
    padded = uid + bytes(16 - len(uid) % 16)
    words = []
    for start in range(0, len(padded), 8):
        word = np.array([int.from_bytes(padded[start : start + 8], "little")], _U64)
        shift = 8 * (len(before) - start)
        if -8 * numbers.digits < shift < 64:
            text = numbers.text << _U64(shift) if shift >= 0 else numbers.text >> _U64(-shift)
            word = word | text
        words.append(word)
    return words, len(uid)


def _mixed_first(word: Words) -> Words:
    mixed: Words = _rotated(word * _C1, 31) * _C2
    return mixed


def _mixed_second(word: Words) -> Words:
    mixed: Words = _rotated(word * _C2, 33) * _C1
    return mixed


def _finished(half: Words) -> Words:
    half = (half ^ half >> _HALF) * _F1
    half = (half ^ half >> _HALF) * _F2
    finished: Words = half ^ half >> _HALF
    return finished


def _rotated(words: Words, bits: int) -> Words:
    rotated: Words = words << _U64(bits) | words >> _U64(64 - bits)
    return rotated
