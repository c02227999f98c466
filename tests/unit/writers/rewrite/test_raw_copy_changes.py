"""Changes to carried entries: new key groups, time to live added or removed, and expired entries dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from stateproc.errors import CorruptSnapshot, InvalidOption, InvalidRows, UnsupportedSnapshot
from stateproc.keygroups.key_group_assignment import key_hash_of
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.metadata.backend import KEY_VALUE
from stateproc.model.operator import Operator
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.scalars import LONG, SCALARS, VOID_NAMESPACE, Scalar
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.writers.bootstrap.keyed_encoder import RowEncoder
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.rekey import rekey, rekeyed
from stateproc.writers.rewrite.ttl import ttl_off, ttl_on, ttl_purge, with_ttl, without_ttl
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, fixtures, fixtures_in
from tests.helpers.writers.raw_copies import Entries, as_batch, carried_batches, entries_of

READS_EVERY_MODE = False
SINGLE = [one for one in fixtures() if not one.part]
CONTEXT = LayoutContext()
STRING = Scalar(*next(row for row in SCALARS if row[0] == "String"))
MOMENT = 1_700_000_000_000


def fixture(name: str) -> Fixture:
    return fixtures_in(FIXTURES / name)[0]


def operator_of(name: str, uid: str) -> Operator:
    return fixture(name).open(classes=CLASSES).operator(uid)


def state_of(kind: StateKind, ttl: bool = False) -> StateDescriptor:
    user_key = STRING if kind is StateKind.MAP else None
    return StateDescriptor("s", kind, 0, LONG, LONG, STRING, user_key, ttl)


def entries(*values: bytes) -> Iterator[pa.RecordBatch]:
    yield as_batch({(n, bytes([n])): value for n, value in enumerate(values)})


def values_of(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def moment(millis: int) -> bytes:
    return millis.to_bytes(8, "big", signed=True)


# --- key groups --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", SINGLE, ids=lambda one: one.name)
def test_computed_key_groups_equal_those_that_flink_assigned(one: Fixture) -> None:
    """Hash every entry's key again and compare the key group with the one in Flink's snapshot."""
    snapshot = one.open(classes=CLASSES)
    for operator in snapshot.operators:
        header = merged_header(operator)
        for name in header.names:
            state, batches = header.keyed(name), list(carried_batches(operator, name))
            again = list(rekeyed(batches, state, operator.max_parallelism, snapshot.options.context))
            assert [batch.column("key_group").to_pylist() for batch in again] == [
                batch.column("key_group").to_pylist() for batch in batches
            ], name
            assert [batch.select(["state_id", "key", "value"]) for batch in again] == [
                batch.select(["state_id", "key", "value"]) for batch in batches
            ]


def test_keys_of_a_user_defined_class_need_a_hash_function() -> None:
    pojo = Pojo("shop.Key", (("a", LONG), ("b", STRING)))
    state = replace(state_of(StateKind.VALUE), key=pojo)
    with pytest.raises(
        InvalidOption, match=r"keys of the type .*Key have a hashCode that does not follow from their bytes"
    ) as e:
        rekey(state, 256, CONTEXT, operator="orders")
    assert "hash_function='Objects.hash'" in str(e.value) and "operator orders" in str(e.value)
    # A POJO of exactly this class with a = 7 and b = "x", neither null, followed by the namespace.
    key = b"\2" + b"\0" + moment(7) + b"\0" + b"\2x" + moment(0)
    batch = as_batch({(0, key): b""})
    of_fields = rekey(state, 256, CONTEXT, hash_function="Objects.hash")
    code = 31 * (31 * 1 + 7) + ord("x")
    assert next(of_fields.batches([batch])).column("key_group").to_pylist() == [
        int(key_group_of_hash(np.array([code], np.int32), 256)[0])
    ]
    own = rekey(state, 256, CONTEXT, hash_function=lambda keys: keys.field("a").cast(pa.int32()))
    assert next(own.batches([batch])).column("key_group").to_pylist() == [
        int(key_group_of_hash(np.array([7], np.int32), 256)[0])
    ]


def test_damaged_keys_are_refused() -> None:
    with pytest.raises(CorruptSnapshot, match="needs more bytes"):
        list(rekeyed([as_batch({(0, b"\0\0"): b""})], state_of(StateKind.VALUE), 256, CONTEXT))
    assert [len(batch) for batch in rekeyed([as_batch({})], state_of(StateKind.VALUE), 256, CONTEXT)] == [0]


# --- time to live ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["1.20/kitchen-rocksdb-incremental", "2.3/kitchen-hashmap-native"])
def test_headers_with_time_to_live_equal_those_of_flink(name: str) -> None:
    """One function registers its states with and without time to live; each header is converted to the other."""
    plain, timed = (merged_header(operator_of(name, uid)) for uid in ("kitchen-long", "kitchen-ttl"))
    checked = 0
    for info in plain.states:
        if info.backend_type == KEY_VALUE:
            assert with_ttl(info).snapshots == timed.info(info.name).snapshots
            assert without_ttl(timed.info(info.name)).snapshots == info.snapshots
            assert timed.info(info.name) == with_ttl(info) != info
            checked += 1
        else:
            with pytest.raises(InvalidOption, match="can have no time to live"):
                with_ttl(info)
    assert checked == 7
    with pytest.raises(InvalidOption, match="as it should be already"):
        with_ttl(timed.info("counter"))
    with pytest.raises(InvalidOption, match="as it should be already"):
        without_ttl(plain.info("counter"))


@pytest.mark.parametrize("name", ["1.20/kitchen-rocksdb-incremental", "2.3/kitchen-hashmap-native"])
def test_last_access_times_are_added_and_removed(name: str) -> None:
    """Flink's entries, after time to live is removed and added, differ only in the eight bytes of the last access."""
    operator = operator_of(name, "kitchen-ttl")
    context, header = operator.options.context, merged_header(operator)
    for info in header.states:
        state = header.keyed(info.name)
        if state.kind.is_queue:
            continue
        given = list(carried_batches(operator, info.name))
        bare = list(ttl_off(state, context).batches(given))
        plain = replace(state, ttl=False)
        timed = entries_of(ttl_on(plain, context, MOMENT).batches(bare))
        theirs = entries_of(given)
        assert timed.keys() == theirs.keys()
        at = 1 if state.kind is StateKind.MAP else 0
        for key, value in theirs.items():
            assert timed[key][:at] + timed[key][at + 8 :] != value
            assert len(timed[key]) == len(value)
            if state.kind is not StateKind.LIST:
                assert timed[key] == value[:at] + moment(MOMENT) + value[at + 8 :]
        assert entries_of(ttl_off(state, context).batches([as_batch(timed)])) == entries_of(bare)


def test_last_access_is_stored_before_a_value() -> None:
    off, on = state_of(StateKind.VALUE), state_of(StateKind.VALUE, ttl=True)
    timed = [moment(MOMENT) + b"\2x", moment(MOMENT)]
    assert values_of(ttl_on(off, CONTEXT, MOMENT).batches(entries(b"\2x", b""))) == timed
    assert values_of(ttl_off(on, CONTEXT).batches(entries(*timed))) == [b"\2x", b""]
    with pytest.raises(CorruptSnapshot, match="too short for its time of last access"):
        list(ttl_off(on, CONTEXT).batches(entries(b"1234567")))


def test_null_map_values_are_stored_inside_ttl_values() -> None:
    """TtlMapState wraps null, too; the TtlSerializer then writes the value serializer's own null."""
    off, on = state_of(StateKind.MAP), state_of(StateKind.MAP, ttl=True)
    added = values_of(ttl_on(off, CONTEXT, 1).batches(entries(b"\0\2x", b"\1", b"\1\0", b"\0\1")))
    assert added == [b"\0" + moment(1) + b"\2x", *2 * [b"\0" + moment(1) + b"\0"], b"\0" + moment(1) + b"\1"]
    assert values_of(ttl_off(on, CONTEXT).batches(entries(*added, b"\1"))) == [b"\0\2x", b"\1", b"\1", b"\0\1", b"\1"]
    for change in (ttl_on(off, CONTEXT, 1), ttl_off(on, CONTEXT)):
        with pytest.raises(CorruptSnapshot, match="without its null mark"):
            list(change.batches(entries(b"")))
    with pytest.raises(CorruptSnapshot, match="too short for its time"):
        list(ttl_off(on, CONTEXT).batches(entries(b"\0" + b"1234567")))
    of_longs = replace(off, value=LONG)
    timed = ttl_on(of_longs, CONTEXT, 1)
    assert values_of(timed.batches(entries(b"\0" + moment(2)))) == [b"\0" + moment(1) + moment(2)]
    with pytest.raises(UnsupportedSnapshot, match="a map holds a null, which with a time to live would be a Long"):
        list(timed.batches(entries(b"\1")))


def test_last_access_is_stored_before_each_list_element() -> None:
    off, on = state_of(StateKind.LIST), state_of(StateKind.LIST, ttl=True)
    # A ',' within an element (a string of 43 characters) is not a separator.
    long = b"\x2c" + b"," * 43
    given = [b"\2a,\2b", long + b"," + long, b"\1"]
    t = moment(0x2C2C2C2C2C)
    timed = [t + b"\2a," + t + b"\2b", t + long + b"," + t + long, t + b"\1"]
    assert values_of(ttl_on(off, CONTEXT, 0x2C2C2C2C2C).batches(entries(*given))) == timed
    assert values_of(ttl_off(on, CONTEXT).batches(entries(*timed))) == given
    with pytest.raises(CorruptSnapshot, match="needs more bytes"):
        list(ttl_off(on, CONTEXT).batches(entries(t + b"\3a")))


def test_expired_entries_are_dropped() -> None:
    """Expiry is defined by Flink's TtlUtils: last access + time to live <= now, limited to 64 bits."""
    now, ttl = MOMENT, 1000
    dead, alive = moment(now - ttl), moment(now - ttl + 1)
    future, ancient = moment(2**63 - 1), moment(-(2**63))
    value, marked, listed = (state_of(kind, ttl=True) for kind in (StateKind.VALUE, StateKind.MAP, StateKind.LIST))

    def kept(state: StateDescriptor, *values: bytes) -> Entries:
        return entries_of(ttl_purge(state, CONTEXT, ttl, now).batches(entries(*values)))

    assert kept(value, dead + b"a", alive + b"b", future + b"c", ancient) == {
        (1, b"\1"): alive + b"b",
        (2, b"\2"): future + b"c",
    }
    assert kept(marked, b"\0" + dead + b"\2a", b"\0" + alive + b"\2b", b"\1") == {
        (1, b"\1"): b"\0" + alive + b"\2b",
        (2, b"\2"): b"\1",
    }
    a, b = b"\2a", b"\2b"
    assert kept(
        listed, alive + a + b"," + dead + b + b"," + future + b, dead + a, dead + b + b"," + alive + a, alive + b
    ) == {
        (0, b"\0"): alive + a + b"," + future + b,
        (2, b"\2"): alive + a,
        (3, b"\3"): alive + b,
    }
    assert values_of(ttl_purge(value, CONTEXT, 2**62, 0).batches(entries(ancient, moment(0)))) == [moment(0)]
    assert values_of(ttl_purge(value, CONTEXT, 1, now).batches(entries(dead))) == []


def test_purging_keeps_the_entries_that_the_job_recorded_as_unexpired() -> None:
    """Purge the snapshots of a job whose state expires; exactly the entries that the job still saw remain."""
    found = 0
    for path in sorted(FIXTURES.glob("*/chain-expiring")):
        for one in fixtures_in(path):
            snapshot = one.open()
            lines = [line for line in one.expected() if line["kind"] in ("value", "list", "map")]
            now = one.manifest["told"][1]
            for uid, name in {(line["uid"], line["state"]) for line in lines}:
                operator = snapshot.operator(uid)
                state = merged_header(operator).keyed(name)
                if not state.ttl:
                    continue
                purge = ttl_purge(state, snapshot.options.context, one.manifest["time_to_live"], now)
                remaining = entries_of(purge.batches(carried_batches(operator, name)))
                recorded = [line["value"] for line in lines if (line["uid"], line["state"]) == (uid, name)]
                assert len(remaining) == (sum(map(len, recorded)) if state.kind is StateKind.MAP else len(recorded))
                found += 1
    assert found


def test_invalid_ttl_changes_are_refused() -> None:
    timers = replace(state_of(StateKind.VALUE), kind=StateKind.EVENT_TIMERS)
    with pytest.raises(InvalidOption, match="timers have no time to live"):
        ttl_on(timers, CONTEXT, 0)
    with pytest.raises(InvalidOption, match="has a time to live already"):
        ttl_on(state_of(StateKind.VALUE, ttl=True), CONTEXT, 0)
    for make in (ttl_off, lambda state, context: ttl_purge(state, context, 1, 1)):
        with pytest.raises(InvalidOption, match="has no time to live"):
            make(state_of(StateKind.VALUE), CONTEXT)
    with pytest.raises(InvalidOption, match="a time to live of 0 ms"):
        ttl_purge(state_of(StateKind.VALUE, ttl=True), CONTEXT, 0, 1)


def test_rows_encode_null_map_values_like_carried_entries() -> None:
    on = replace(state_of(StateKind.MAP, ttl=True), namespace=VOID_NAMESPACE)
    encoder = RowEncoder(on, 128, CONTEXT, key_hash_of(LONG), "operator", now=5)
    values = pa.array([[("a", None), ("b", "x")]], pa.map_(pa.string(), pa.string()))
    encoded = encoder.encode(pa.record_batch([pa.array([1]), values], ["key", "value"]))
    assert encoded.column("value").to_pylist() == [b"\0" + moment(5) + b"\0", b"\0" + moment(5) + b"\2x"]
    longs = pa.array([[("a", None)]], pa.map_(pa.string(), pa.int64()))
    with pytest.raises(InvalidRows, match="null"):
        replace(encoder, state=replace(on, value=LONG)).encode(
            pa.record_batch([pa.array([1]), longs], ["key", "value"])
        )
