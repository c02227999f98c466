"""Replay of every changelog operation on every kind of state, with and without materialized state."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.readers.changelog.log_compaction import composed
from tests.helpers.byte_builders.changelog import (
    ADD,
    ADD_ELEMENT,
    ADD_OR_UPDATE,
    CLEAR,
    LIST,
    LONG,
    MAP,
    MERGE_NS,
    REMOVE,
    SET,
    SET_INTERNAL,
    STRING,
    TIMER,
    TTL,
    canonical,
    change,
    declared,
    empty_materialized,
    fstr,
    heap,
    long,
    opened,
    queue_change,
    state_info,
    strings,
    timer,
)
from tests.helpers.byte_builders.metadata import i32, in_memory_changelog
from tests.helpers.byte_builders.serializers import composite

Changes = list[tuple[int, bytes]]


def contents(directory: Path, info: bytes, changes: Changes, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of the only state after the log is replayed."""
    log = in_memory_changelog([declared(0, info), *changes])
    state = opened(directory, [empty_materialized()], [log]).state("s")
    return [row for batch in state.batches(**options) for row in batch.to_pylist()]


def values(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in rows}


@pytest.mark.parametrize("kind", ["VALUE", "REDUCING", "AGGREGATING"])
@pytest.mark.parametrize("code", [SET, SET_INTERNAL])
def test_a_value_is_the_last_one_set(tmp_path: Path, kind: str, code: int) -> None:
    rows = contents(
        tmp_path,
        state_info("s", kind, LONG),
        [
            change(code, "kept", long(1)),
            change(code, "changed", long(2)),
            change(code, "cleared", long(3)),
            change(code, "changed", long(4)),
            change(CLEAR, "cleared"),
            change(CLEAR, "never"),
            change(CLEAR, "again"),
            change(code, "again", long(-5)),
            change(code, "kept", long(7), group=6),
        ],
    )
    assert sorted((row["key_group"], row["key"], row["value"]) for row in rows) == [
        (5, "again", -5), (5, "changed", 4), (5, "kept", 1), (6, "kept", 7),
    ]  # fmt: skip


def test_list_elements_are_appended_in_log_order(tmp_path: Path) -> None:
    rows = contents(
        tmp_path,
        state_info("s", "LIST", LIST),
        [
            change(ADD_ELEMENT, "a", fstr("one")),
            change(ADD, "a", strings("two", "three,")),
            change(ADD, "a", strings()),
            change(ADD_ELEMENT, "b", fstr("gone")),
            change(SET, "b", strings("x", "")),
            change(ADD_ELEMENT, "b", fstr(",")),
            change(SET_INTERNAL, "c", strings("y")),
            change(SET, "c", strings()),
            change(ADD, "d", strings()),
            change(ADD_ELEMENT, "e", fstr("z")),
            change(CLEAR, "e"),
        ],
    )
    assert values(rows) == {"a": ["one", "two", "three,"], "b": ["x", "", ","]}


def test_removing_the_last_entry_of_a_map_removes_its_row(tmp_path: Path) -> None:
    changes = [
        change(ADD_OR_UPDATE, "a", fstr("x") + long(1)),
        change(ADD_ELEMENT, "a", fstr("y") + long(2)),
        change(ADD_OR_UPDATE, "a", fstr("x") + long(3)),
        change(ADD, "a", i32(2) + fstr("z") + b"\0" + long(4) + fstr("none") + b"\x01"),
        change(REMOVE, "a", fstr("y")),
        change(REMOVE, "a", fstr("never")),
        change(ADD_ELEMENT, "b", fstr("x") + long(1)),
        change(REMOVE, "b", fstr("x")),
        change(REMOVE, "c", fstr("x")),
        change(ADD_ELEMENT, "d", fstr("x") + long(1)),
        change(CLEAR, "d"),
        change(ADD, "e", i32(0)),
    ]
    info = state_info("s", "MAP", MAP)
    rows = contents(tmp_path, info, changes)
    assert {key: dict(value) for key, value in values(rows).items()} == {"a": {"x": 3, "z": 4, "none": None}}
    flat = contents(tmp_path, info, changes, flatten=True)
    assert sorted((row["map_key"], row["map_value"]) for row in flat if row["map_value"]) == [("x", 3), ("z", 4)]
    assert len(flat) == 3


def test_timers_are_added_and_removed(tmp_path: Path) -> None:
    """Nothing is materialized, so the key's type is derived from the timers' serializer."""
    info = state_info("_timer_state/event_user-timers", "", TIMER)
    log = in_memory_changelog(
        [
            declared(0, info, queue=True),
            declared(1, state_info("v", "VALUE", LONG)),
            queue_change(ADD_ELEMENT, i32(3) + timer(10, "a") + timer(-20, "b") + timer(30, "c")),
            queue_change(REMOVE, timer(30, "c")),
            queue_change(REMOVE, timer(10, "never")),
            queue_change(ADD_ELEMENT, i32(1) + timer(10, "a")),
            change(SET, "a", long(8), number=1),
        ]
    )
    operator = opened(tmp_path, [], [log])
    rows = operator.timers("event").to_arrow().to_pylist()
    assert sorted((row["timestamp"], row["key"]) for row in rows) == [(-20, "b"), (10, "a")]
    assert values(operator.state("v").to_arrow().to_pylist()) == {"a": 8}


def test_without_timers_the_key_is_unknown(tmp_path: Path) -> None:
    log = in_memory_changelog([declared(0, state_info("v", "VALUE", LONG)), change(SET, "a", long(1))])
    (problem,) = opened(tmp_path, [], [log]).problems
    assert isinstance(problem, UnsupportedSnapshot)
    assert "does not hold the key's serializer" in problem.message
    assert problem.advice is not None


def test_an_empty_changelog_has_no_states(tmp_path: Path) -> None:
    operator = opened(tmp_path, [], [])
    assert operator.states == () and operator.problems == ()


def test_a_state_id_is_valid_until_it_is_declared_again(tmp_path: Path) -> None:
    one, two = state_info("one", "VALUE", LONG), state_info("two", "VALUE", LONG)
    log = in_memory_changelog(
        [
            declared(0, one),
            declared(1, two),
            change(SET, "a", long(1), number=0),
            change(SET, "a", long(2), number=1),
            declared(1, one),
            declared(0, two),
            change(SET, "b", long(3), number=0),
            change(SET, "b", long(4), number=1),
        ]
    )
    operator = opened(tmp_path, [empty_materialized()], [log])
    assert values(operator.state("one").to_arrow().to_pylist()) == {"a": 1, "b": 4}
    assert values(operator.state("two").to_arrow().to_pylist()) == {"a": 2, "b": 3}


def test_ttl_and_default_value_are_stored_before_the_state_id(tmp_path: Path) -> None:
    info = state_info("s", "VALUE", composite(TTL, 1, LONG, LONG))
    log = in_memory_changelog(
        [
            declared(0, info, settings=b"\x01" + b"\xac\xed\x00\x05p" + b"\x01" + long(3)),
            change(SET, "a", long(1_000) + long(9)),
        ]
    )
    (state,) = opened(tmp_path, [empty_materialized()], [log]).keyed_states
    (row,) = state.to_arrow().to_pylist()
    assert state.ttl and row["value"] == 9 and row["last_access"].timestamp() == 1.0


@pytest.mark.parametrize("length", [0, 1, 255, 256, 70_000])
def test_lengths_of_ambiguous_keys_are_little_endian_without_leading_zeros(length: int) -> None:
    """They follow key and namespace if both have variable length (Flink's CompositeKeySerializationUtils)."""
    suffix = {0: "00", 1: "01", 255: "ff", 256: "0001", 70_000: "701101"}[length]
    data = np.frombuffer(b"k" * length + b"ns", dtype=np.uint8)
    at = np.array([data.ctypes.data])
    sizes, spaces = np.array([length]), np.array([2])
    out, offsets = np.empty(length + 32, dtype=np.uint8), np.empty(2, dtype=np.int64)
    composed(at, sizes, at + length, spaces, True, out.ctypes.data, offsets)
    assert out[: offsets[1]].tobytes() == b"k" * length + bytes.fromhex(suffix) + b"ns\x02"
    composed(at, sizes, at + length, spaces, False, out.ctypes.data, offsets)
    assert out[: offsets[1]].tobytes() == b"k" * length + b"ns"


# --- namespaces ----------------------------------------------------------------------------------------------


def merged(*sources: str) -> bytes:
    return fstr("to") + i32(len(sources)) + b"".join(map(fstr, sources))


def under(namespace: str, code: int, operand: bytes = b"", key: str = "k" * 40) -> tuple[int, bytes]:
    return change(code, key, operand, namespace=fstr(namespace))


def by_namespace(rows: list[dict[str, Any]]) -> dict[str, Any]:
    assert {row["key"] for row in rows} <= {"k" * 40}
    return {row["namespace"]: row["value"] for row in rows}


def test_merged_lists_are_appended_in_the_order_of_their_namespaces(tmp_path: Path) -> None:
    rows = contents(
        tmp_path,
        state_info("s", "LIST", LIST, STRING),
        [
            under("first", ADD_ELEMENT, fstr("1")),
            under("second", ADD, strings("2", "3")),
            under("to", ADD_ELEMENT, fstr("0")),
            under("other", ADD_ELEMENT, fstr("4")),
            under("to", MERGE_NS, merged("second", "none", "first")),
            under("to", MERGE_NS, merged()),
        ],
    )
    assert by_namespace(rows) == {"to": ["0", "2", "3", "1"], "other": ["4"]}


@pytest.mark.parametrize("kind", ["REDUCING", "AGGREGATING"])
def test_merging_namespaces_moves_a_single_value(tmp_path: Path, kind: str) -> None:
    info = state_info("s", kind, LONG, STRING)
    moved = [under("from", SET, long(5)), under("to", MERGE_NS, merged("none", "from"))]
    assert by_namespace(contents(tmp_path, info, moved)) == {"to": 5}
    kept = [under("to", SET, long(5)), under("to", MERGE_NS, merged("none"))]
    assert by_namespace(contents(tmp_path, info, kept)) == {"to": 5}


@pytest.mark.parametrize("kind", ["REDUCING", "AGGREGATING"])
def test_merging_two_values_is_refused_because_it_needs_the_jobs_function(tmp_path: Path, kind: str) -> None:
    info = state_info("s", kind, LONG, STRING)
    two = [under("from", SET, long(5)), under("to", SET, long(6)), under("to", MERGE_NS, merged("from"))]
    with pytest.raises(UnsupportedSnapshot, match=r"MERGE_NS.*own function") as caught:
        contents(tmp_path, info, two)
    assert caught.value.where.state == "s" and caught.value.advice is not None
    both = [under("a", SET, long(5)), under("b", SET, long(6)), under("to", MERGE_NS, merged("a", "b"))]
    with pytest.raises(UnsupportedSnapshot, match="MERGE_NS"):
        contents(tmp_path, info, both)
    # An unknown value stays unknown when it is merged again, and is known again once it is set or cleared.
    assert by_namespace(contents(tmp_path, info, [*two, under("to", SET_INTERNAL, long(11))])) == {"to": 11}
    assert by_namespace(contents(tmp_path, info, [*both, under("to", CLEAR)])) == {}
    with pytest.raises(UnsupportedSnapshot, match="MERGE_NS"):
        on = fstr("on") + i32(1) + fstr("to")
        contents(tmp_path, info, [*two, under("on", MERGE_NS, on)])


# --- materialized state --------------------------------------------------------------------------------------


def test_changes_are_applied_to_canonical_entries(tmp_path: Path) -> None:
    info = state_info("s", "LIST", LIST)
    entries = [(fstr("a") + b"\0", fstr("1") + b"," + fstr("2")), (fstr("b") + b"\0", fstr("3"))]
    changes = [change(ADD_ELEMENT, "a", fstr("4")), change(CLEAR, "b"), change(SET, "c", strings("5"))]
    log = in_memory_changelog([declared(7, info), *((group, _renumbered(data, 7)) for group, data in changes)])
    operator = opened(tmp_path, [canonical(5, entries, info)], [log])
    assert values(operator.state("s").to_arrow().to_pylist()) == {"a": ["1", "2", "4"], "c": ["5"]}
    untouched = opened(tmp_path, [canonical(5, entries, info)], [])
    assert values(untouched.state("s").to_arrow().to_pylist()) == {"a": ["1", "2"], "b": ["3"]}


def test_map_entries_with_ambiguous_keys_are_removed_from_canonical_entries(tmp_path: Path) -> None:
    info = state_info("s", "MAP", MAP, STRING)
    scope = fstr("key") + b"\x04" + fstr("ns") + b"\x03"
    entries = [(scope + fstr("x"), b"\0" + long(1)), (scope + fstr("y"), b"\0" + long(2))]
    log = in_memory_changelog([declared(0, info), change(REMOVE, "key", fstr("x"), namespace=fstr("ns"))])
    (row,) = opened(tmp_path, [canonical(5, entries, info)], [log]).state("s").to_arrow().to_pylist()
    assert (row["key"], row["namespace"], dict(row["value"])) == ("key", "ns", {"y": 2})


def test_changes_are_applied_to_native_heap_entries(tmp_path: Path) -> None:
    infos = (
        state_info("list", "LIST", LIST),
        state_info("map", "MAP", MAP),
        state_info("value", "VALUE", LONG),
        state_info("_timer_state/event_user-timers", "", TIMER),
    )
    pairs = i32(2) + fstr("x") + b"\0" + long(1) + fstr("y") + b"\x01"
    handle = heap(
        5,
        [
            (0, 2, b"\0" + fstr("a") + strings("1", "2") + b"\0" + fstr("b") + strings("3")),
            (1, 1, b"\0" + fstr("a") + pairs),
            (2, 1, b"\0" + fstr("a") + long(4)),
            (3, 2, timer(1, "a") + timer(2, "b")),
        ],
        *infos,
    )
    log = in_memory_changelog(
        [
            *(declared(index, info) for index, info in enumerate(infos[:3])),
            declared(3, infos[3], queue=True),
            change(ADD_ELEMENT, "a", fstr("9"), number=0),
            change(ADD_OR_UPDATE, "a", fstr("z") + long(3), number=1),
            change(CLEAR, "a", number=2),
            queue_change(REMOVE, timer(1, "a"), number=3),
        ]
    )
    operator = opened(tmp_path, [handle], [log])
    assert values(operator.state("list").to_arrow().to_pylist()) == {"a": ["1", "2", "9"], "b": ["3"]}
    ((key, value),) = values(operator.state("map").to_arrow().to_pylist()).items()
    assert (key, dict(value)) == ("a", {"x": 1, "y": None, "z": 3})
    assert operator.state("value").to_arrow().to_pylist() == []
    (remaining,) = operator.timers("event").to_arrow().to_pylist()
    assert (remaining["timestamp"], remaining["key"]) == (2, "b")


def test_a_serializer_that_differs_from_the_materialized_one_is_refused(tmp_path: Path) -> None:
    log = in_memory_changelog([declared(0, state_info("s", "VALUE", STRING)), change(SET, "a", fstr("text"))])
    handle = canonical(5, [(fstr("a") + b"\0", long(1))], state_info("s", "VALUE", LONG))
    with pytest.raises(UnsupportedSnapshot, match="serializer changed") as caught:
        opened(tmp_path, [handle], [log]).state("s").to_arrow()
    assert caught.value.where.state == "s"


# --- splits and damage ---------------------------------------------------------------------------------------


def test_key_groups_of_other_subtasks_are_skipped(tmp_path: Path) -> None:
    info = state_info("s", "VALUE", LONG)
    outside = [change(SET, "out", b"not even a long", group=group) for group in (64, 127)]
    assert values(contents(tmp_path, info, [*outside, change(SET, "in", long(1), group=63)])) == {"in": 1}


def test_splits_cover_each_key_group_once_and_can_be_pickled(tmp_path: Path) -> None:
    info = state_info("s", "VALUE", LONG)
    changes = [change(SET, f"k{group}", long(group), group=group) for group in range(64)]
    log = in_memory_changelog([declared(0, info), *changes])
    state = opened(tmp_path, [empty_materialized()], [log]).state("s")
    splits = pickle.loads(pickle.dumps(state.splits(split_bytes=100)))
    assert len(splits) > 10
    assert [group for split in splits for group in split.key_groups] == list(range(64))
    rows = [row for split in splits for batch in split.read() for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == list(range(64))
    (few,) = state.splits(key_groups=[3, 70, 9])
    assert few.key_groups == (3, 9)
    assert [row["value"] for batch in few.read() for row in batch.to_pylist()] == [3, 9]
    (one,) = [row for batch in replace(few, groups=(9,)).read() for row in batch.to_pylist()]
    assert one["value"] == 9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([change(SET, "a", long(1), number=1)], "has not declared"),
        ([(5, b"\x01\x00")], "has not declared"),
        ([(5, b"")], "has not declared"),
        ([change(ADD_ELEMENT, "a", long(1))], "ADD_ELEMENT, which no value state logs"),
        ([change(99, "a", long(1))], "the operation 99"),
        ([change(CLEAR, "a", b"more")], "left over"),
        ([(5, b"\x01\x00\x00" + b"\x09abc")], "needs more bytes"),
        ([change(SET, "a", b"short")], "needs more bytes"),
        ([(-1, change(SET, "a", long(1))[1])], "among the changelog's metadata"),
        ([(-1, declared(1, state_info("t", "VALUE", LONG))[1] + b"\0")], "has the type|left over"),
        ([(-1, declared(1, state_info("t", "VALUE", LONG), queue=True)[1])], "byte"),
    ],
)
def test_damage_is_reported_with_its_location(tmp_path: Path, changes: Changes, message: str) -> None:
    with pytest.raises(CorruptSnapshot, match=message) as caught:
        contents(tmp_path, state_info("s", "VALUE", LONG), changes)
    assert caught.value.where.file is not None and "_metadata" in caught.value.where.file
    assert caught.value.where.offset is not None


def _renumbered(data: bytes, number: int) -> bytes:
    return data[:1] + number.to_bytes(2, "big") + data[3:]
