"""Keys whose serializer is unknown are bytes: the rest of an entry shows where they end, or it is an error."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from stateproc import types
from stateproc.errors import SnapshotError, UnreadableStateWarning, UnsupportedSnapshot
from stateproc.metadata.backend import read_keyed_header
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.header_reader import read_whole_header
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Serializer, read_snapshot
from stateproc.serializers.core import registry
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.runtime.streaming import Timer
from tests.helpers.byte_builders.serializers import composite, i32, i64, scalar, utf, versioned
from tests.helpers.cases import CaseSnapshot, ExpectedState, case_snapshots

VOID = versioned("org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot", 3)
VOID_NAMESPACE = read_snapshot(VOID)
ACCOUNT, AMOUNT = "com.acme.lab.Case20$Ser$Snapshot", "com.acme.lab.Case17$AmountSerializer$Config"
SNAPSHOTS = [item for item in case_snapshots() if item.case in ("custom-key", "config-snapshot")]
UNKNOWN_VALUES = {"amount", "amounts", "by-name", "by-amount", "ttl"}
WITH_LENGTHS = [item for item in SNAPSHOTS if "rocksdb" in item.entry["path"]]


@pytest.fixture(autouse=True)
def unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's own serializers are unknown, whatever other tests registered."""
    for name in (ACCOUNT, AMOUNT):
        monkeypatch.delitem(registry._READERS, name, raising=False)


def opened(snapshot: CaseSnapshot, **options: Any) -> Any:
    return snapshot.open(**options)


def key_bytes(key: Any) -> Any:
    """The bytes that the job's serializers write for a key."""
    if not isinstance(key, dict):
        return key
    if "cents" in key:
        return i64(key["cents"]) + utf(key["currency"])
    bank = utf(key["bank"]) if len(key["bank"]) > 1 else struct.pack(">H", ord(key["bank"]))
    return bank + i64(key["number"])


def plain(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(item, list) for item in value):
        return sorted((key_bytes(key), key_bytes(item)) for key, item in value)
    return sorted(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else key_bytes(value)


def states(snapshots: list[CaseSnapshot]) -> Iterator[ExpectedState]:
    for snapshot in snapshots:
        yield from snapshot.states()


@pytest.mark.parametrize("expected", list(states(WITH_LENGTHS)), ids=str)
def test_values_and_keys_are_their_bytes(expected: ExpectedState) -> None:
    snapshot = opened(expected.snapshot, opaque="bytes")
    rows = expected.state(snapshot).to_arrow().to_pylist()
    if expected.name == "amounts":
        return  # elements without length: one value of bytes
    assert sorted((row["key"], plain(row["value"] if "value" in row else row["timestamp"])) for row in rows) == sorted(
        (key_bytes(line["key"]), plain(line["value"])) for line in expected.lines
    )


@pytest.mark.parametrize("expected", list(states(WITH_LENGTHS)), ids=str)
def test_keys_alone_end_where_they_should(expected: ExpectedState) -> None:
    """Of null values only the keys are read, those of maps without the map's own keys."""
    snapshot = opened(expected.snapshot, on_error="null")
    is_null = expected.name in UNKNOWN_VALUES and expected.uid == "amounts"
    with pytest.warns(UnreadableStateWarning) if is_null else nullcontext():
        rows = expected.state(snapshot).to_arrow().to_pylist()
    assert sorted({row["key"] for row in rows}) == sorted({key_bytes(line["key"]) for line in expected.lines})


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_all_states_are_listed_under_names_that_say_whose_serializer_it_is(snapshot: CaseSnapshot) -> None:
    for uid in snapshot.uids:
        operator = opened(snapshot).operator(uid)
        assert not operator.problems
        for state in operator.states:
            shown = f"{state.key_type} {state.value_type} {state.namespace_type}"
            assert "? Snapshot" not in shown
            assert "? Config" not in shown
            assert "acme-config" not in shown
            assert "? ," not in shown


@pytest.mark.parametrize("expected", list(states(SNAPSHOTS)), ids=str)
def test_advice_does_not_repeat_what_was_given(expected: ExpectedState) -> None:
    snapshot = opened(expected.snapshot, opaque="bytes", on_error="null")
    try:
        expected.state(snapshot).to_arrow()
    except SnapshotError as error:
        assert "''" not in error.message
        assert "register a parser" in (error.advice or "")
        assert "opaque='bytes')" not in (error.advice or "")
        assert "on_error" not in (error.advice or "")


# --- entries whose keys can end at several places ----------------------------------------------------------------


def entries(*keys: bytes, value: bytes = b"\0" + i64(1)) -> RawEntries:
    data = b"".join(key + value for key in keys)
    ranges, at = [], 0
    for key in keys:
        ranges.append((at, at + len(key), at + len(key), at + len(key) + len(value)))
        at += len(key) + len(value)
    columns = np.array(ranges, np.int64).T.copy()
    return RawEntries(np.frombuffer(data + bytes(8), np.uint8), np.zeros(len(keys), np.int32), columns, "f", 0)


def state_of(user_key: Serializer) -> StateDescriptor:
    return StateDescriptor("by-key", StateKind.MAP, 0, Opaque("com.acme.Unknown"), VOID_NAMESPACE, types.LONG, user_key)


def read(state: StateDescriptor, *keys: bytes) -> list[dict[str, Any]]:
    context = LayoutContext(tail=True, opaque=False)
    return [row for batch in decode_entries([entries(*keys)], state, context) for row in batch.to_pylist()]


def test_a_key_ends_where_namespace_and_map_key_fill_the_entry() -> None:
    rows = read(state_of(types.STRING), b"\0\0\0\7" + b"\0" + b"\3ab", b"\xff\xfe" + b"\0" + b"\1", b"\0\2x")
    assert [(row["key"], row["value"]) for row in rows] == [
        (b"\0\0\0\7", [("ab", 1)]),
        (b"\xff\xfe", [("", 1)]),
        (b"", [("x", 1)]),
    ]


def test_a_key_that_can_end_at_two_places_is_an_error() -> None:
    # One character after a namespace of zero, or the same with a key that ends in zero and a string length.
    with pytest.raises(UnsupportedSnapshot, match="can end at 2 places"):
        read(state_of(types.STRING), b"k" + b"\0" + b"\3" + b"\0\1")
    with pytest.raises(UnsupportedSnapshot, match="can end nowhere"):
        read(state_of(types.STRING), b"abc")


def test_a_map_key_of_fixed_length_leaves_no_choice() -> None:
    rows = read(state_of(types.LONG), b"k\0" + b"\0" + i64(0), b"" + b"\0" + i64(5))
    assert [(row["key"], row["value"]) for row in rows] == [(b"k\0", [(0, 1)]), (b"", [(5, 1)])]


def test_a_timer_of_a_key_without_bytes() -> None:
    timer = Timer(Opaque("com.acme.Unknown"), VOID_NAMESPACE)
    state = StateDescriptor("_timer_state/event_x", StateKind.EVENT_TIMERS, 0, timer.key, timer.namespace, timer)
    context = LayoutContext(tail=True, opaque=False)
    chunk = entries(b"\x80" + bytes(6) + b"\7" + b"\0", b"\x80" + bytes(6) + b"\1ab\0", value=b"")
    rows = [row for batch in decode_entries([chunk], state, context) for row in batch.to_pylist()]
    assert [(row["timestamp"], row["key"]) for row in rows] == [(7, b""), (1, b"ab")]


# --- headers whose unknown payloads look like something else ------------------------------------------------------

MAP = "org.apache.flink.api.common.typeutils.base.MapSerializerSnapshot"
TIMER = "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot"
PAYLOADS = {
    "like a nested snapshot": b"\1" + utf("acme-config") + i32(7),
    "like one of a class with a package": b"\1" + utf("com.acme.Settings") + i32(3),
    "that is one": utf("com.acme.Settings") + i32(1) + utf("amounts"),
    "with a known one inside": b"\1" + scalar("Long") + utf("x"),
    "that ends with a known one": i32(5) + scalar("String"),
    "like a state": utf("count") + i32(0) + i32(1) + utf("KEYED_STATE_TYPE") + utf("VALUE"),
    "empty": b"",
    "a number": i32(3),
    "zeros": bytes(40),
}


def header(key: bytes) -> bytes:
    """A keyed header of a value state, a map state and a timer queue under this key serializer."""

    def serializers(**parts: bytes) -> bytes:
        return i32(len(parts)) + b"".join(utf(name) + i32(2) + part for name, part in parts.items())

    def state(name: str, kind: str, value: bytes) -> bytes:
        options = i32(1) + utf("KEYED_STATE_TYPE") + utf(kind)
        return utf(name) + i32(0) + options + serializers(NAMESPACE_SERIALIZER=VOID, VALUE_SERIALIZER=value)

    queue = utf("_timer_state/event_x") + i32(3) + i32(0) + serializers(VALUE_SERIALIZER=composite(TIMER, 2, key, VOID))
    states = [
        state("count", "VALUE", scalar("Long")),
        state("amounts", "MAP", composite(MAP, 1, key, scalar("Long"))),
        state("names", "MAP", composite(MAP, 1, scalar("String"), key)),
        queue,
        state("last", "VALUE", key),
    ]
    return i32(6) + b"\0" + i32(2) + key + struct.pack(">H", len(states)) + b"".join(states)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=list(PAYLOADS))
@pytest.mark.parametrize("version", [1, 3, 0x7A53C4F0])
def test_states_are_listed_whatever_the_payload_looks_like(payload: bytes, version: int) -> None:
    java = i32(1) + i32(4) + b"\xac\xed\0\5" if version == registry.CONFIG_VERSION else b""
    key = versioned("com.acme.KeySerializer$Snapshot", version, java + payload)
    found = read_whole_header(header(key), "f", read_keyed_header)
    assert [state.name for state in found.states] == ["count", "amounts", "names", "_timer_state/event_x", "last"]
    assert isinstance(found.key, Opaque)
    assert found.key.snapshot == key
    assert found.key.type_name == "? KeySerializer"
    assert found.states[0].value_serializer == types.LONG
    assert found.states[1].value_serializer.type_name == "Map<? KeySerializer, Long>"  # type: ignore[union-attr]
    assert found.states[2].value_serializer.type_name == "Map<String, ? KeySerializer>"  # type: ignore[union-attr]


def test_a_parser_of_an_old_snapshot_reads_what_its_write_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def read_own(cursor: Any, version: int) -> Serializer:
        seen.append(cursor.utf())
        return types.LONG

    monkeypatch.setitem(registry._READERS, "com.acme.Old", read_own)
    key = versioned("com.acme.Old", registry.CONFIG_VERSION, i32(1) + i32(2) + b"ab" + utf("mine"))
    assert read_whole_header(header(key), "f", read_keyed_header).key == types.LONG
    assert set(seen) == {"mine"}
