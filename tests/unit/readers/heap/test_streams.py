"""Streaming of native heap key groups: unreadable states, block boundaries, and the number of reads and copies."""

from __future__ import annotations

from functools import partial
from typing import Any

import cramjam
import numpy as np
import pytest

import stateproc.readers.heap.reader as heap
import stateproc.readers.key_group_blocks as blocks_module
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.metadata.backend import StateMetaInfo
from stateproc.readers.canonical.entry_scan import measure_canonical
from stateproc.readers.canonical.reader import canonical_entries
from stateproc.readers.heap.reader import heap_batches
from stateproc.readers.key_group_blocks import KeyGroupRange, plain_blocks, snappy_blocks
from stateproc.readers.state_descriptor import StateDescriptor, keyed_state
from stateproc.serializers import LayoutContext, read_snapshot
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.storage import InlineSource
from tests.helpers.damage.corpus import Target, file_targets
from tests.helpers.fixtures import CLASSES, fixtures
from tests.helpers.sweeps import sampled

BASE = "org.apache.flink.api.common.typeutils.base."


def _target(fixture: str) -> Target:
    return next(target for target in file_targets() if target.name.startswith(f"{fixture}/") and target.body)


def _unknown(target: Target, state: str) -> dict[str, Any]:
    """Return rows or error by state after the first POJO class after ``state`` in the header is made unknown."""
    at = target.data.index(b"PojoSerializerSnapshot", target.data.index(state.encode()))
    assert at < target.body
    assert target.read_all is not None
    found = target.read_all(target.data[:at] + b"Q" + target.data[at + 1 :])
    return {name.split(".")[1]: item for name, item in found.items()}


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_an_undecodable_state_leaves_others_readable_in_a_compressed_snapshot(release: str) -> None:
    target = _target(f"{release}/tiny-hashmap-checkpoint-snappy")
    before = {name.split(".")[1]: rows for name, rows in target.all_rows.items()}
    assert len(before) == 9
    for state in ("addresses", "profile"):
        found = _unknown(target, state)
        errors = {name for name, item in found.items() if isinstance(item, SnapshotError)}
        assert errors == {state}
        assert {name: repr(rows) for name, rows in found.items() if name != state}.items() <= before.items()


def test_an_undecodable_state_makes_later_states_unreadable_without_compression() -> None:
    found = _unknown(_target("1.20/tiny-hashmap-checkpoint-inline"), "addresses")
    hidden = found["products"]
    assert isinstance(hidden, UnsupportedSnapshot)
    assert "state 'products' cannot be found: it is stored after 1 entry of state 'addresses' in key group 4" in str(
        hidden
    )
    assert hidden.where.offset


def test_a_value_of_an_undescribed_class_makes_later_states_unreadable() -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/edges-hashmap-checkpoint")
    operator = fixture.open(classes={"fixtures.Edges$Generic": CLASSES["fixtures.Edges$Generic"]}).operator(
        "edges-generic"
    )
    with pytest.raises(UnsupportedSnapshot) as hidden:
        operator.state("basket").to_arrow()
    assert hidden.value.where.operator == "edges-generic"
    text = str(hidden.value)
    assert "state 'basket' cannot be found: it is stored after 1 entry of state 'animal' in key group" in text
    assert "a value is of class 'fixtures.Edges$Dog'" in text
    assert "describe it: classes={'fixtures.Edges$Dog'" in text


def test_states_that_cannot_be_read_are_reported_before_any_task_reads_them() -> None:
    """Planning raises the error with operator, state and class; every state that cannot be read reports it."""
    fixture = next(item for item in fixtures() if item.name == "1.20/edges-hashmap-checkpoint")
    snapshot = fixture.open()
    unreadable = set()
    for operator in snapshot.operators:
        for state in operator.states:
            try:
                splits = state.splits()
            except SnapshotError as error:
                unreadable.add((operator.display, state.name))
                assert error.where.operator == operator.display, state.name
                assert error.where.state, state.name
                assert "fixtures.Edges$" in str(error) and "describe it: classes=" in str(error), state.name
                assert state.problem is not None and state.problem.message == error.message
            else:
                assert state.problem is None, state.name
                for split in splits:
                    for _ in split.read():
                        pass
    states = ("animal", "basket", "generic", "event timers", "processing timers")
    assert unreadable == {("edges-generic", name) for name in states}
    described = fixture.open(classes=CLASSES)
    assert all(state.problem is None for operator in described.operators for state in operator.states)


def test_key_groups_without_the_undescribed_class_stay_readable() -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/edges-hashmap-checkpoint")
    classes = {"fixtures.Edges$Generic": CLASSES["fixtures.Edges$Generic"]}
    state = fixture.open(classes=classes).operator("edges-generic").state("basket")
    oracle = fixture.open(classes=CLASSES).operator("edges-generic").state("basket")
    readable = 0
    for group in sorted(set(oracle.to_arrow(columns=["key_group"])["key_group"].to_pylist())):
        try:
            found = state.to_arrow(key_groups=[group])
        except UnsupportedSnapshot as error:
            assert f"in key group {group}," in error.message
            continue
        assert found == oracle.to_arrow(key_groups=[group])
        readable += 1
    assert readable


def test_a_value_of_an_undescribed_class_leaves_later_states_readable_with_compression() -> None:
    sections = [
        b"\0\0" + (1).to_bytes(4, "big") + bytes(16) + b"\x04\0\3a.C" + b"?",
        b"\0\1" + (1).to_bytes(4, "big") + bytes(16) + (2).to_bytes(4, "big") + b"ab",
    ]
    data = (5).to_bytes(4, "big") + b"".join(bytes(cramjam.snappy.compress(item)) for item in sections)
    states = [_state("first", 0, Pojo("a.B", ())), _state("second", 1)]
    ranges = [KeyGroupRange(5, 0, len(data))]

    def read(state: StateDescriptor) -> list[Any]:
        batches = heap_batches(InlineSource("of.two", data), ranges, states, state, LayoutContext(), compressed=True)
        return [row for batch in batches for row in batch.to_pylist()]

    assert [row["value"] for row in read(states[1])] == [b"ab"]
    with pytest.raises(UnsupportedSnapshot, match=r"a value is of class 'a\.C'"):
        read(states[0])


@pytest.mark.parametrize("size", [pytest.param(7, marks=pytest.mark.exhaustive), 64, sampled(1000)])
def test_rows_do_not_depend_on_the_size_of_compressed_blocks(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/tiny-hashmap-checkpoint-snappy")
    states = [state for operator in fixture.open().operators for state in operator.keyed_states]
    whole = [state.to_arrow().to_pylist() for state in states]
    monkeypatch.setattr(heap, "snappy_blocks", partial(snappy_blocks, size=size))
    assert [state.to_arrow().to_pylist() for state in states] == whole
    target = _target("1.20/tiny-hashmap-checkpoint-snappy")
    found = _unknown(target, "profile")
    assert [name for name, item in found.items() if isinstance(item, SnapshotError)] == ["profile"]


class _Counted(InlineSource):
    """An inline source that counts the bytes read from it."""

    count = 0

    def read(self, offset: int, length: int) -> bytes:
        type(self).count += length
        return super().read(offset, length)


def _state(name: str, state_id: int, values: Any = None) -> StateDescriptor:
    def snapshot(simple: str) -> Any:
        text = (BASE + simple).encode()
        return read_snapshot(len(text).to_bytes(2, "big") + text + (3).to_bytes(4, "big"))

    long = snapshot("LongSerializer$LongSerializerSnapshot")
    array = snapshot("array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot")
    serializers = {"NAMESPACE_SERIALIZER": long, "VALUE_SERIALIZER": array if values is None else values}
    info = StateMetaInfo(name, "KEY_VALUE", {"KEYED_STATE_TYPE": "VALUE"}, serializers)
    state = keyed_state(info, state_id, long)
    assert state is not None
    return state


def _heap_group(value: bytes, compress: bool) -> bytes:
    """Return key group 5 with two states: the first has one entry with ``value``, the second is empty."""
    entry = (9).to_bytes(8, "big") + (7).to_bytes(8, "big") + len(value).to_bytes(4, "big") + value
    sections = [b"\0\0" + (1).to_bytes(4, "big") + entry, b"\0\1" + bytes(4)]
    packed = [bytes(cramjam.snappy.compress(item)) if compress else item for item in sections]
    return (5).to_bytes(4, "big") + b"".join(packed)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the size in bytes of each array into which blocks are concatenated."""
    sizes: list[int] = []
    join = np.concatenate

    def counting(parts: Any, *rest: Any, **named: Any) -> Any:
        joined = join(parts, *rest, **named)
        sizes.append(joined.nbytes)
        return joined

    monkeypatch.setattr(blocks_module.np, "concatenate", counting)
    return sizes


SIZE = 1 << 22
BLOCK = 1 << 12


@pytest.mark.parametrize("compressed", [False, True])
def test_a_heap_entry_of_a_thousand_blocks_is_read_and_copied_only_a_few_times(
    compressed: bool, copied: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    value = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8).tobytes()
    data = _heap_group(value, compressed)
    source = _Counted("huge", data)
    monkeypatch.setattr(_Counted, "count", 0)
    monkeypatch.setattr(heap, "plain_blocks", partial(plain_blocks, size=BLOCK))
    monkeypatch.setattr(heap, "snappy_blocks", partial(snappy_blocks, size=BLOCK))
    fed = 0
    feed = heap._SectionDecoder.feed

    def counting(self: Any, block: Any) -> Any:
        nonlocal fed
        fed += len(block.data)
        return feed(self, block)

    monkeypatch.setattr(heap._SectionDecoder, "feed", counting)
    states = [_state("first", 0), _state("second", 1)]
    ranges = [KeyGroupRange(5, 0, len(data))]
    (batch,) = heap_batches(source, ranges, states, states[0], LayoutContext(), compressed=compressed)
    (row,) = batch.to_pylist()
    assert (row["key_group"], row["key"], row["namespace"], row["value"] == value) == (5, 7, 9, True)
    assert _Counted.count < 4 * len(data)
    assert fed < 4 * len(data)
    assert sum(copied) < 4 * len(data)
    (skipped,) = list(heap_batches(source, ranges, states, states[1], LayoutContext(), compressed=compressed)) or [None]
    assert skipped is None


@pytest.mark.parametrize("compressed", [False, True])
def test_a_canonical_entry_of_a_thousand_blocks_is_read_and_copied_only_a_few_times(
    compressed: bool, copied: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    import stateproc.readers.canonical.entry_scan as measuring
    import stateproc.readers.canonical.reader as canonical

    value = np.random.default_rng(2).integers(0, 256, SIZE, np.uint8).tobytes()
    key = bytes([0x85]) + (7).to_bytes(8, "big") + b"\0"
    group = b"\0\0" + len(key).to_bytes(4, "big") + key + len(value).to_bytes(4, "big") + value + b"\xff\xff"
    data = bytes(cramjam.snappy.compress(group)) if compressed else group
    source = _Counted("huge", data)
    monkeypatch.setattr(_Counted, "count", 0)
    ranges = [KeyGroupRange(5, 0, len(data))]
    for module in (canonical, measuring):
        monkeypatch.setattr(module, "plain_blocks", partial(plain_blocks, size=BLOCK))
        monkeypatch.setattr(module, "snappy_blocks", partial(snappy_blocks, size=BLOCK))
    (entries,) = canonical_entries(source, ranges, compressed=compressed, prefix=1, state_id=0, n_states=1)
    start, stop = (int(entries.ranges[row, 0]) for row in (2, 3))
    assert entries.data[start:stop].tobytes() == value
    assert _Counted.count < 4 * len(data)
    assert sum(copied) < 4 * len(data)
    monkeypatch.setattr(_Counted, "count", 0)
    copied.clear()
    done: list[int] = []
    found = measure_canonical(source, ranges, compressed=compressed, prefix=1, n_states=1, advance=done.append)
    assert found.entries.tolist() == [[1]]
    assert found.bytes.tolist() == [[8 + len(key) + len(value)]]
    assert sum(done) == len(group)
    assert _Counted.count < 4 * len(data)
    assert sum(copied) < 4 * len(data)


def test_a_compressed_key_group_that_ends_after_its_identifier_is_refused() -> None:
    """The file is truncated right after the identifier of its last key group."""
    group = b"\0\0" + (10).to_bytes(4, "big") + b"\x85" + bytes(9) + bytes(4) + b"\xff\xff"
    whole = bytes(cramjam.snappy.compress(group))
    data = whole + b"\xff\x06\0\0sNaPpY"
    ranges = [KeyGroupRange(5, 0, len(whole)), KeyGroupRange(6, len(whole), len(data))]
    with pytest.raises(CorruptSnapshot, match="cut off"):
        list(canonical_entries(InlineSource("cut", data), ranges, compressed=True, prefix=1, state_id=0, n_states=1))
    with pytest.raises(CorruptSnapshot, match="cut off"):
        measure_canonical(InlineSource("cut", data), ranges, compressed=True, prefix=1, n_states=1)
    found = measure_canonical(InlineSource("whole", whole), ranges[:1], compressed=True, prefix=1, n_states=1)
    assert found.entries.tolist() == [[1]]
