"""Tables of byte strings are matched as dictionaries are: random keys and values against a comparison in Python."""

from __future__ import annotations

import random
from collections import Counter
from itertools import accumulate

import numpy as np
import pytest

from stateproc.codec.arrow_arrays import RowBytes
from stateproc.diff.entry_table import (
    EntryTable,
    Matches,
    ValueForm,
    entries_of_chunk,
    match,
    match_beginnings,
    table_of_rows,
)
from stateproc.diff.keyed_entries import BUCKETS, EntryCollector, SpilledSide
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers.java.scalars import LONG

Pairs = list[tuple[bytes, bytes]]


def row_bytes(rows: list[bytes]) -> RowBytes:
    data = np.frombuffer(b"".join(rows) + b"\0", dtype=np.uint8)
    return RowBytes(data, np.array([0, *accumulate(map(len, rows))], dtype=np.int64))


def table(pairs: Pairs) -> EntryTable:
    return table_of_rows(row_bytes([key for key, _ in pairs]), row_bytes([value for _, value in pairs]))


def check(left: Pairs, right: Pairs, found: Matches) -> None:
    one, two = dict(left), dict(right)
    assert {left[row][0] for row in found.deleted} == one.keys() - two.keys()
    assert {right[row][0] for row in found.inserted} == two.keys() - one.keys()
    changed = {key for key in one.keys() & two.keys() if one[key] != two[key]}
    assert {left[row][0] for row in found.before} == changed
    assert [left[row][0] for row in found.before] == [right[row][0] for row in found.after]
    assert found.equal == len(one.keys() & two.keys()) - len(changed)


@pytest.mark.parametrize("seed", range(20))
def test_random_tables_match_as_dictionaries_do(seed: int) -> None:
    source = random.Random(seed)
    size = source.choice([0, 1, 7, 300, 3000])
    alphabet = source.choice([b"\0", b"ab", bytes(range(256))])

    def text(most: int) -> bytes:
        return bytes(source.choices(alphabet, k=source.randrange(most)))

    left = list({text(12): text(20) for _ in range(size)}.items())
    right = [(key, value if source.random() < 0.9 else text(20)) for key, value in left if source.random() < 0.9]
    right = list({**dict(right), **{text(12): text(20) for _ in range(size // 10)}}.items())
    for order in ("same", "sorted", "shuffled"):
        if order == "sorted":
            left, right = sorted(left), sorted(right)
        elif order == "shuffled":
            source.shuffle(right)
        check(left, right, match(table(left), table(right)))
        check_beginnings(left, right, source)
    check(left, [], match(table(left), table([])))
    check([], right, match(table([]), table(right)))


def check_beginnings(left: Pairs, right: Pairs, source: random.Random) -> None:
    """What is matched of the beginnings of tables is matched rightly, up to the last pair."""
    one, two = left[: source.randrange(len(left) + 1)], right[: source.randrange(len(right) + 1)]
    found, stop, end = match_beginnings(table(one), table(two))
    keys, others = [key for key, _ in one[:stop]], [key for key, _ in two[:end]]
    without = {one[row][0] for row in found.deleted}, {two[row][0] for row in found.inserted}
    paired = [key for key in keys if key not in without[0]]
    assert paired == [key for key in others if key not in without[1]]
    changed = [key for key in paired if dict(one)[key] != dict(two)[key]]
    assert [one[row][0] for row in found.before] == [two[row][0] for row in found.after] == changed
    assert found.equal == len(paired) - len(changed)
    assert found.left_rows.tolist() == sorted([*found.deleted.tolist(), *found.before.tolist()])
    assert found.right_rows.tolist() == sorted([*found.inserted.tolist(), *found.after.tolist()])
    in_order = 2 * len(paired) >= min(len(one), len(two)) and paired
    assert (stop, end) == (len(one), len(two)) or (in_order and paired[-1] == keys[-1] == others[-1])


def test_what_follows_the_last_pair_is_left_to_be_matched_with_what_is_read_next() -> None:
    left = [(b"%03d" % number, b"v") for number in range(100)]
    right = [pair for pair in left if pair[0] != b"050"]
    found, stop, end = match_beginnings(table(left[:60]), table(right[:89]))
    assert (stop, end) == (60, 59)
    assert (found.deleted.tolist(), found.inserted.tolist(), found.equal) == ([50], [], 59)
    other = [(b"x" + key, value) for key, value in right]
    for one, two in ((left, other), (left, []), ([], right)):
        found, stop, end = match_beginnings(table(one), table(two))
        assert (stop, end, found.equal) == (len(one), len(two), 0)


def test_equal_keys_are_matched_one_by_one() -> None:
    """Elements of operator states may be equal: what is there three times and then twice was removed once."""
    left = [(b"a", b"")] * 3 + [(b"b", b"")] + [(b"c", b"")] * 50_000
    right = [(b"c", b"")] * 49_000 + [(b"a", b"")] * 2 + [(b"d", b"")]
    found = match(table(left), table(right))
    assert Counter(left[row][0] for row in found.deleted) == {b"a": 1, b"b": 1, b"c": 1000}
    assert [right[row][0] for row in found.inserted] == [b"d"]
    assert len(found.before) == 0
    assert found.equal == 49_002


def test_marks_of_nulls_and_ignored_bytes() -> None:
    left = [
        (b"null", b"\1xx"),
        (b"time", b"\0aaaaaaaavalue"),
        (b"value", b"\0aaaaaaaaold"),
        (b"null now", b"\0aaaaaaaav"),
    ]
    right = [(b"null", b"\1"), (b"time", b"\0bbbbbbbbvalue"), (b"value", b"\0aaaaaaaanew"), (b"null now", b"\1")]
    found = match(table(left), table(right), ValueForm(is_marked=True, ignored=8))
    assert [left[row][0] for row in found.before] == [b"value", b"null now"]
    short = match(table([(b"k", b"\0abc")]), table([(b"k", b"\0abd")]), ValueForm(is_marked=True, ignored=8))
    assert len(short.before) == 1


def test_huge_values_differ_in_their_last_byte() -> None:
    value = bytes(10 << 20)
    found = match(table([(b"k", value), (b"l", value)]), table([(b"k", value), (b"l", value[:-1] + b"\1")]))
    assert found.before.tolist() == [1]
    assert found.equal == 1


def test_buckets_on_disk_have_all_entries_and_equal_keys_in_equal_buckets() -> None:
    pairs = [(b"key %d" % number, b"v" * (number % 50)) for number in range(5000)]
    states = [StateDescriptor(name, StateKind.VALUE, 0, LONG, LONG, LONG) for name in ("one", "two")]
    found: dict[bytes, tuple[int, str, bytes, int]] = {}
    with SpilledSide() as spilled:
        for state, part in zip(states, (pairs[:2000], pairs[2000:]), strict=True):
            packed = table(part)
            groups = np.arange(len(part), dtype=np.int32)
            collector = EntryCollector()
            collector.add(state, EntryTable(packed.table, groups, packed.buffers))
            spilled.add(collector.taken())
        for bucket in BUCKETS:
            side = spilled.side(bucket)
            for file in side.files:
                entries = side.entries.packed(np.arange(file.start, file.stop))
                for row, (start, middle, at, stop) in enumerate(entries.ranges.T.tolist()):
                    key, value = entries.data[start:middle].tobytes(), entries.data[at:stop].tobytes()
                    found[key] = bucket, file.target.name, value, int(entries.key_groups[row])
    assert {key: value for key, (_, _, value, _) in found.items()} == dict(pairs)
    assert found[b"key 1999"][1:] == ("one", b"v" * 49, 1999)
    assert found[b"key 2000"][1:] == ("two", b"", 0)
    assert len({bucket for bucket, *_ in found.values()}) == len(BUCKETS)


def test_entries_are_copied_out_of_buffers_that_are_mostly_others() -> None:
    data = np.arange(1000, dtype=np.uint16).astype(np.uint8)
    ranges = np.array([[10, 500], [12, 502], [20, 600], [25, 600]], dtype=np.int64)
    collector = EntryCollector()
    state = StateDescriptor("s", StateKind.VALUE, 0, LONG, LONG, LONG)
    collector.add(state, entries_of_chunk(RawEntries(data, np.array([1, 2], dtype=np.int32), ranges, "", 0)))
    data = data.copy()
    side = collector.taken()
    assert collector.bytes == 0 and len(collector.taken()) == 0
    assert sum(len(buffer) for buffer in side.entries.buffers) < 20  # type: ignore[arg-type]
    packed = side.entries.packed(np.array([1, 0]))
    assert packed.key_groups.tolist() == [2, 1]
    assert packed.data.tobytes() == bytes([244, 245, 10, 11, 20, 21, 22, 23, 24])
