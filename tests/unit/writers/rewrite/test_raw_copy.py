"""Carrying state over as bytes: entries of every snapshot format equal those of Flink's canonical savepoints."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import NotFound, UnsupportedSnapshot
from stateproc.metadata.backend import KEY_VALUE, KEY_VALUE_V2, StateMetaInfo
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.model.operator import Operator
from stateproc.readers.state_descriptor import StateDescriptor, keyed_state
from stateproc.serializers import LayoutContext
from stateproc.serializers.core import registry
from stateproc.serializers.runtime.streaming import Timer
from stateproc.writers.formats.operator_state import OperatorStateWriter
from stateproc.writers.rewrite.merged_header import (
    PROXY,
    TTL,
    classic,
    composite_of,
    merged_header,
    raw_composite,
    versioned_of,
)
from stateproc.writers.rewrite.operator_state_copy import merged_operator_header, raw_elements
from stateproc.writers.rewrite.raw_copy import carried_splits, refuse_other_key_groups
from stateproc.writers.rewrite.rekey import rekeyed
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, differences, fixtures, fixtures_in
from tests.helpers.writers.raw_copies import (
    Entries,
    as_batch,
    carried_batches,
    context_of,
    entries_of,
    keyed_contents,
    twins,
)
from tests.helpers.writers.rewritten_snapshots import Rewrite

Contents = tuple[StateDescriptor, int, Entries]
POJO = "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot"
TTL_V2 = "org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializerSnapshot"
READS_EVERY_MODE = False
SINGLE = [one for one in fixtures() if not one.part and one.manifest["job"] != "inflight"]


def fixture(name: str) -> Fixture:
    return fixtures_in(FIXTURES / name)[0]


def operators(*names: str) -> Iterator[Operator]:
    for name in names:
        yield from fixture(name).open(classes=CLASSES).operators


def keyed_operator(name: str) -> Operator:
    """Return the only operator with keyed state."""
    (found,) = (operator for operator in operators(name) if operator.keyed_files)
    return found


def same_contents(ours: Contents, theirs: Contents, context: LayoutContext) -> bool:
    """Compare entry by entry, after assigning key groups anew if the max parallelism differs."""
    state, max_parallelism, entries = ours
    _, wanted, others = theirs
    if max_parallelism != wanted:
        entries = entries_of(rekeyed([as_batch(entries)], state, wanted, context))
    return entries == others


ORACLES = {
    one.name: [twin for twin in group if twin.manifest["kind"] == "canonical"]
    for group in twins().values()
    for one in group
    if one.manifest["kind"] != "canonical"
}
"""Flink's canonical savepoints of the same state, by the name of each other snapshot."""


@pytest.mark.parametrize("one", [one for one in fixtures() if one.name in ORACLES], ids=lambda one: one.name)
def test_entries_equal_those_of_flinks_canonical_savepoints(one: Fixture) -> None:
    """Compare an incremental, native, changelog or heap snapshot with canonical ones of equal state."""
    context, found = context_of(one), keyed_contents(one)
    # Two oracles may differ in the RowKind of SQL rows, which jobs do not record.
    assert any(
        oracle.keys() == found.keys() and all(same_contents(found[at], oracle[at], context) for at in found)
        for oracle in map(keyed_contents, ORACLES[one.name])
    )


@pytest.mark.parametrize("one", SINGLE, ids=lambda one: one.name)
def test_rewritten_snapshots_contain_the_states_that_the_jobs_recorded(one: Fixture, tmp_path: Path) -> None:
    options: dict[str, Any] = {"classes": CLASSES, "temporal": "exact"}
    snapshot = one.open(**options)
    uids = {line["uid"] for line in one.expected() if line["uid"]}
    assert differences(one, Rewrite().write(snapshot, tmp_path / "new", uids=uids, **options)) == []


def test_only_the_requested_key_groups_are_read() -> None:
    for operator in operators("1.20/tiny-rocksdb-native", "1.20/tiny-hashmap-checkpoint-1024", "2.3/tiny-rocksdb-full"):
        header = merged_header(operator)
        for name in header.names:
            everything = entries_of(carried_batches(operator, name))
            chosen = sorted({group for group, _ in everything})[1::2]
            splits = carried_splits(operator, name, 5, key_groups=chosen, split_bytes=1)
            batches = [batch for split in splits for batch in split.read()]
            assert entries_of(batches) == {at: value for at, value in everything.items() if at[0] in chosen}
            assert all(batch.column("state_id").to_pylist() == [5] * len(batch) for batch in batches)
            assert all(set(split.key_groups) <= set(chosen) for split in splits)


def test_an_unknown_state_is_refused() -> None:
    operator = keyed_operator("1.20/tiny-rocksdb-native")
    with pytest.raises(NotFound, match="nothing"):
        carried_splits(operator, "nothing", 0)
    with pytest.raises(NotFound, match="nothing"):
        merged_header(operator).info("nothing")
    with pytest.raises(NotFound, match="nothing"):
        raw_elements(operator, "nothing")


# --- headers -----------------------------------------------------------------------------------------------


def test_serializer_snapshots_are_copied_byte_for_byte() -> None:
    for operator in operators("1.20/kitchen-rocksdb-incremental", "1.8/kitchen-hashmap-checkpoint"):
        header = merged_header(operator)
        for file in operator.keyed_files:
            assert file.header is not None
            assert file.header.key_snapshot == header.key_snapshot
            for info in file.header.states:
                assert info.snapshots == header.info(info.name).snapshots


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_heap_timers_are_converted_to_the_priority_queues_that_flink_writes(release: str) -> None:
    """Compare the header of heap timers with that of timers in RocksDB of the same job."""
    ours = keyed_operator(f"{release}/tiny-rocksdb-full-heaptimers")
    theirs = keyed_operator(f"{release}/tiny-rocksdb-native")
    header, oracle = merged_header(ours), merged_header(theirs)
    timers = {info.name for info in oracle.states if isinstance(info.value_serializer, Timer)}
    assert timers and timers <= set(header.names)
    assert not any(isinstance(state, StateDescriptor) and state.kind.is_queue for state in ours.keyed_files[0].states)
    for name in timers:
        assert header.info(name) == oracle.info(name)
        assert header.info(name).snapshots == oracle.info(name).snapshots


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_the_key_of_a_changelog_without_header_is_derived_from_its_timers(release: str) -> None:
    """The result has the same bytes as the header of an equal job."""
    ours, theirs = (fixtures_in(FIXTURES / release / name)[0] for name in ("chain-changelog-never", "chain-rescaled"))
    found = 0
    for operator in ours.open().operators:
        if operator.keyed_files:
            assert operator.keyed_files[0].header is not None
            assert operator.keyed_files[0].header.key_snapshot == b""
            oracle = theirs.open().operator(operator.operator_id)
            assert merged_header(operator).key_snapshot == merged_header(oracle).key_snapshot
            found += 1
    assert found


def of_v2(info: StateMetaInfo) -> StateMetaInfo:
    """Return the description that the new state API registers for the same state."""
    value = versioned_of(info.snapshots["VALUE_SERIALIZER"])
    snapshots = dict(info.snapshots)
    kind = info.options["KEYED_STATE_TYPE"]
    if kind == "LIST":
        (value,) = raw_composite(value, "list").parts
    elif kind == "MAP":
        user_key, value = raw_composite(value, "map").parts
        snapshots["USER_KEY_SERIALIZER"] = PROXY + user_key
    head = len(TTL).to_bytes(2, "big") + TTL.encode()
    if value.startswith(head):
        value = composite_of(TTL_V2, 2, raw_composite(value, "ttl").parts).versioned()
    snapshots["VALUE_SERIALIZER"] = PROXY + value
    return replace(info, backend_type=KEY_VALUE_V2, snapshots=snapshots)


def test_forst_states_are_converted_to_those_of_other_backends() -> None:
    """The serializer snapshots equal byte for byte those that Flink writes for the classic states."""
    kinds = set()
    for operator in operators("2.3/kitchen-hashmap-canonical", "2.3/windows-hashmap-checkpoint"):
        header = merged_header(operator)
        for info in header.states:
            if info.backend_type != KEY_VALUE:
                continue
            made = classic(of_v2(info))
            assert made == info
            assert made.snapshots == info.snapshots
            kinds.add((info.options["KEYED_STATE_TYPE"], header.keyed(info.name).ttl))
            assert keyed_state(made, 3, header.key) == header.keyed(info.name, 3)  # type: ignore[arg-type]
    assert kinds >= set(itertools.product(("VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING"), (False, True)))


def test_subtasks_with_different_headers_are_refused() -> None:
    operator = fixture("1.20/kitchen-hashmap-native").open().operator("kitchen-long")
    _, other = operator.keyed_files
    assert other.header is not None
    states = tuple(replace(info, options={**info.options, "KEYED_STATE_TYPE": "VALUE"}) for info in other.header.states)
    other.cache.header = replace(other.header, states=states)
    merged = merged_header(operator)
    assert merged.different and merged.different.keys() <= set(merged.names)
    for name in merged.different:
        with pytest.raises(UnsupportedSnapshot, match="subtasks wrote this state with different serializers"):
            merged.carried(name)
    other.cache.header = replace(other.header, states=(), key=states[0].serializers["VALUE_SERIALIZER"])
    with pytest.raises(UnsupportedSnapshot, match="subtasks wrote keys with different serializers"):
        merged_header(operator)


def test_raw_keyed_state_without_timers_is_no_state_of_the_header() -> None:
    operator = keyed_operator("1.20/tiny-rocksdb-full-heaptimers")
    with_timers = merged_header(operator).names
    (subtask, *_) = operator.metadata.subtasks
    assert isinstance(subtask.managed_keyed, KeyGroupsHandle) is False
    handle = subtask.raw_keyed
    assert isinstance(handle, KeyGroupsHandle)
    shifted = replace(handle, offsets=tuple(offset + 1 if offset >= 0 else offset for offset in handle.offsets))
    operator.metadata = replace(operator.metadata, subtasks=(replace(subtask, raw_keyed=shifted),))
    operator.__dict__.pop("_raw_timers", None)
    assert set(merged_header(operator).names) < set(with_timers)
    refuse_other_key_groups(operator, operator.max_parallelism)
    with pytest.raises(UnsupportedSnapshot, match="raw keyed state that is no timers"):
        refuse_other_key_groups(operator, 2 * operator.max_parallelism)


# --- operator state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", [one for one in SINGLE if one.manifest["job"] in ("operators", "corners", "kafka")],
                         ids=lambda one: one.name)  # fmt: skip
def test_operator_state_written_again_equals_the_original_files(one: Fixture) -> None:
    """Elements written again in their order result in Flink's own files; compressed files are skipped."""
    for operator in one.open().operators:
        header = merged_operator_header(operator)
        splits = {i.name: raw_elements(operator, i.name) for i in (*header.states, *header.broadcast)}
        for file in operator.operator_files:
            own = file.header
            if own.compressed:
                continue
            sink = io.BytesIO()
            writer = OperatorStateWriter(sink, own.states, own.broadcast, version=own.version)
            for state in sorted(file.handle.states, key=lambda state: state.offsets[:1]):
                for split in splits[state.name]:
                    if split.broadcast or split.subtask == file.subtask:
                        for elements in split.read():
                            writer.carried(state.name, elements)
            by_name = {state.name: state for state in writer.close()}
            assert [by_name[state.name] for state in file.handle.states] == list(file.handle.states)
            assert sink.getvalue() == file.source.read(0, file.source.size)


def test_a_broadcast_state_is_carried_over_once() -> None:
    for operator in operators("1.20/operators-hashmap-canonical-snappy", "2.3/operators-hashmap-filemerging"):
        header = merged_operator_header(operator)
        for info in header.broadcast:
            (split,) = raw_elements(operator, info.name)
            (elements,) = split.read()
            assert split.broadcast and len(elements) == 1
            writer = OperatorStateWriter(io.BytesIO(), header.states, header.broadcast, version=6)
            writer.carried(info.name, elements)
            with pytest.raises(Exception, match="has one element that holds all"):
                writer.carried(info.name, elements)
            assert pa.types.is_large_binary(elements.to_arrow().type)


@pytest.mark.parametrize("name", ["1.20/kitchen-rocksdb-canonical-snappy", "1.20/kitchen-rocksdb-incremental"])
def test_values_of_unknown_types_are_carried_over_without_decoding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Canonical files and RocksDB store the lengths of entries, so that values need not be decoded."""
    states = ("profile", "addresses", "totals", "counter")
    known = fixture(name).open().operator("kitchen-string")
    oracle, header = {state: entries_of(carried_batches(known, state)) for state in states}, merged_header(known)
    monkeypatch.delitem(registry._READERS, POJO)
    unknown = fixture(name).open().operator("kitchen-string")
    assert {state: entries_of(carried_batches(unknown, state)) for state in states} == oracle
    again = merged_header(unknown)
    assert again.names == header.names and again.key_snapshot == header.key_snapshot
    assert [info.snapshots for info in again.states] == [info.snapshots for info in header.states]


def test_values_of_unknown_types_in_heap_snapshots_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(registry._READERS, POJO)
    operator = fixture("1.20/kitchen-hashmap-native").open().operator("kitchen-string")
    with pytest.raises(UnsupportedSnapshot, match="PojoSerializerSnapshot"):
        list(carried_batches(operator, "profile"))
