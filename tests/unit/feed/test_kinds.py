"""What a change is for each kind of state, and what limits which changes are read."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc.diff.common_schema import NotComparable
from stateproc.errors import InvalidOption, NotFound, UnsupportedSnapshot
from stateproc.model.operator_state import opened_state
from stateproc.snapshot.selection import state_option
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.change_feeds import apply_feed, change_types, rows_of
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, fixtures, fixtures_in

CHAIN = FIXTURES / "1.20/chain-rocksdb"


def opened(release: str, name: str, **options: Any) -> Snapshot:
    return fixtures_in(FIXTURES / release / name)[-1].open(**({"classes": CLASSES} | options))


def chain() -> list[Snapshot]:
    return [member.open() for member in fixtures_in(CHAIN)]


def by_key(snapshot: Snapshot, state: str) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in snapshot["chain"][state].to_arrow().to_pylist()}


def test_counting_changes_does_not_import_pandas() -> None:
    """It takes a quarter of a second and 25 MB in each process."""
    left, right = (member.open() for member in fixtures_in(CHAIN)[2:4])
    (expected,) = stateproc.changes(left, right, "chain", "items").counts()
    types = change_types(stateproc.changes(left, right, "chain", "items").to_arrow())
    program = (
        "import sys, stateproc\n"
        f"(found,) = stateproc.changes({left.path!r}, {right.path!r}, 'chain', 'items').counts()\n"
        "print(found.inserted, found.updated, found.deleted, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*map(str, (expected.inserted, expected.updated, expected.deleted)), "False"]
    assert types.get("insert", 0) == expected.inserted
    assert types["update_postimage"] == expected.updated > 0
    assert types.get("delete", 0) == expected.deleted


def test_elements_that_were_appended_are_inserted_with_their_position() -> None:
    left, right = chain()[2:4]
    before, after = by_key(left, "items"), by_key(right, "items")
    table = stateproc.changes(left, right, "chain", "items", list_changes="appended").to_arrow()
    assert table.schema.names[:4] == ["key_group", "key", "list_index", "list_element"]
    appended = [key for key in before if key in after and after[key][: len(before[key])] == before[key] != after[key]]
    assert appended
    for key in {*before, *after}:
        changes = [
            (row["_change_type"], row["list_index"], row["list_element"])
            for row in table.to_pylist()
            if row["key"] == key
        ]
        old, new = before.get(key, []), after.get(key, [])
        if key in appended:
            assert changes == [("insert", n, new[n]) for n in range(len(old), len(new))]
        updates = [n for n in range(min(len(old), len(new))) if old[n] != new[n]]
        expected = [("delete", n, old[n]) for n in range(len(new), len(old))]
        expected += [
            change for n in updates for change in (("update_preimage", n, old[n]), ("update_postimage", n, new[n]))
        ]
        expected += [("insert", n, new[n]) for n in range(len(old), len(new))]
        assert sorted(changes) == sorted(expected)


def test_lists_are_whole_by_default() -> None:
    left, right = chain()[2:4]
    before, after = by_key(left, "items"), by_key(right, "items")
    table = stateproc.changes(left, right, "chain", "items").to_arrow(where="_change_type = 'update_postimage'")
    assert {row["key"]: row["value"] for row in table.to_pylist()} == {
        key: after[key] for key in before.keys() & after.keys() if before[key] != after[key]
    }


def test_maps_change_entry_by_entry() -> None:
    left, right = chain()[2:4]
    table = stateproc.changes(left, right, "chain", "entries").to_arrow()
    assert table.schema.names[:4] == ["key_group", "key", "map_key", "map_value"]
    before, after = (
        {(key, user_key): value for key, entries in by_key(side, "entries").items() for user_key, value in entries}
        for side in (left, right)
    )
    assert change_types(table) == {
        "insert": len(after.keys() - before.keys()),
        "delete": len(before.keys() - after.keys()),
        **{
            name: sum(before[key] != after[key] for key in before.keys() & after.keys())
            for name in ("update_preimage", "update_postimage")
        },
    }


@pytest.mark.parametrize("name", ["text", "items", "entries", "sum", "totals"])
def test_times_of_last_access_are_changes_on_request(name: str) -> None:
    left, right = chain()[2:4]
    plain, times = (
        stateproc.changes(left, right, "chain-ttl", name, times=times).to_arrow() for times in (False, True)
    )
    before, after = (rows_of(side["chain-ttl"][name], times=True) for side in (left, right))
    assert apply_feed(before, times, times=True) == after
    assert apply_feed(rows_of(left["chain-ttl"][name]), plain) == rows_of(right["chain-ttl"][name])
    assert len(times) >= len(plain)


def test_timers_are_inserted_when_set_and_deleted_when_they_fire() -> None:
    left, right = chain()[2:4]
    for domain in ("event", "processing"):
        table = stateproc.changes(left, right, "chain", timers=domain).to_arrow()
        assert set(change_types(table)) <= {"insert", "delete"} and len(table)
        assert apply_feed(rows_of(left["chain"].timers(domain)), table) == rows_of(right["chain"].timers(domain))


@pytest.mark.parametrize(
    "name", ["operators-rocksdb-canonical", "kafka-hashmap-checkpoint", "windows-rocksdb-canonical"]
)
def test_one_snapshot_alone_is_inserted(name: str) -> None:
    """All kinds: list, union and broadcast state, Kafka splits, windows, timers."""
    snapshot = opened("2.3", name)
    for state in snapshot.states:
        option, value = state_option(state)
        feed = stateproc.changes(snapshot, uid=state.operator.display, **{option: value})  # type: ignore[arg-type]
        flat = state.kind == "map" and state.distribution == "keyed"
        known = opened_state(state)
        assert feed.schema().names[:-3] == known.schema(flatten=flat).names
        assert feed.to_arrow().select(feed.schema().names[:-3]).to_pylist() == known.to_arrow(flatten=flat).to_pylist()
        assert set(change_types(feed.to_arrow())) <= {"insert"}


def test_dates_and_times_are_shown_as_the_snapshot_was_opened() -> None:
    for temporal in ("micros", "exact"):
        snapshot = opened("2.3", "edges-rocksdb-canonical", temporal=temporal)
        for state in snapshot.states:
            if state.kind in ("value", "reducing"):
                feed = stateproc.changes(snapshot, snapshot, state.operator.display, state.name)
                alone = stateproc.changes(snapshot, uid=state.operator.display, state=state.name)
                assert feed.schema() == alone.schema()
                assert feed.schema().field("value").type == state.schema().field("value").type


JOBS = sorted({fixture.manifest["job"] for fixture in fixtures() if not fixture.part})
FAST = {"operators", "windows"}


@pytest.mark.parametrize(
    "job", [pytest.param(job, marks=() if job in FAST else pytest.mark.exhaustive) for job in JOBS]
)
def test_releases_of_flink_are_compared_by_values(job: str) -> None:
    """The oldest and the newest release that ran a job, in formats of their own: what differs is what the job did."""
    members = sorted((item for item in fixtures() if item.manifest["job"] == job and not item.part), key=_release)
    left, right = sorted((item.open(classes=CLASSES) for item in (members[0], members[-1])), key=_id)
    for operator in right.operators:
        for state in operator.states:
            option, value = state_option(state)
            feed = stateproc.changes(left, right, operator.display, **{option: value})  # type: ignore[arg-type]
            sides = [
                item for side in left.operators if side.operator_id == operator.operator_id for item in side.states
            ]
            before = next((item for item in sides if item.name == state.name), None)
            try:
                table = feed.to_arrow()
            except NotComparable as error:
                assert (operator.display, state.name) == ("edges-generic", "basket"), error
                continue
            assert apply_feed(rows_of(before), table) == rows_of(state), state


def _release(fixture: Fixture) -> list[int]:
    return [int(part) for part in fixture.path.parent.name.split(".")]


def _id(snapshot: Snapshot) -> int:
    return snapshot.metadata.checkpoint_id


def test_other_max_parallelisms_change_nothing_whichever_keys_are_read() -> None:
    """The keys of a key group are in several of the other snapshot."""
    left, right = opened("1.20", "tiny-rocksdb-canonical-1024"), opened("1.20", "tiny-rocksdb-canonical-32768")
    for state in right.states:
        option, value = state_option(state)
        feed = stateproc.changes(left, right, state.operator.display, **{option: value})  # type: ignore[arg-type]
        assert feed.to_arrow().num_rows == 0
        if state.kind == "value":
            (key, *_) = state.to_arrow().column("key").to_pylist()
            assert feed.to_arrow(keys=[key]).num_rows == feed.to_arrow(where=f"key = {key!r}").num_rows == 0
            assert feed.to_arrow(key_groups=range(100)).num_rows == 0


def test_keys_and_key_groups_limit_what_is_read() -> None:
    left, right = chain()[0], chain()[-1]
    feed = stateproc.changes(left, right, "chain", "totals")
    table = feed.to_arrow()
    key = table.column("key")[0].as_py()
    groups = feed.key_groups_of([key])
    assert groups is not None and len(groups) == 1
    (split,) = feed.splits(keys=[key], key_groups=groups)
    assert set(split.key_groups) == groups
    expected = [row for row in table.to_pylist() if row["key"] == key]
    assert feed.to_arrow(where=f"key = '{key}'").to_pylist() == expected
    assert [row | {"key": key, "key_group": groups.copy().pop()} for row in feed.get(key)] == [
        dict(sorted(row.items())) | row for row in expected
    ]
    assert feed.to_arrow(key_groups=groups, columns=["_change_type", "key"]).schema.names == ["_change_type", "key"]


def test_values_of_unknown_types_are_changes_of_bytes_on_request() -> None:
    snapshot = opened("1.20", "many-states-hashmap-canonical")
    state = next(item for item in snapshot.states if item.problem is not None and item.kind == "value")
    with pytest.raises(UnsupportedSnapshot, match="opaque"):
        stateproc.changes(snapshot, snapshot, state.operator.display, state.name).to_arrow()
    again = opened("1.20", "many-states-hashmap-canonical", opaque="bytes")
    feed = stateproc.changes(again, again, state.operator.display, state.name)
    assert feed.schema().field("value").type == pa.binary()
    assert feed.to_arrow().num_rows == 0
    inserted = stateproc.changes(again, uid=state.operator.display, state=state.name).to_arrow()
    assert (
        inserted.column("value").to_pylist()
        == again[state.operator.display][state.name].to_arrow().column("value").to_pylist()
    )


def test_operators_that_appear_or_vanish_are_inserted_or_deleted() -> None:
    tiny, kitchen = opened("1.20", "tiny-hashmap-canonical-1024"), opened("1.20", "kitchen-hashmap-canonical")
    for state in kitchen["kitchen-long"].states:
        option, value = state_option(state)
        appeared, vanished = (
            stateproc.changes(*pair, "kitchen-long", **{option: value}).to_arrow()  # type: ignore[arg-type]
            for pair in ((tiny, kitchen), (kitchen, tiny))
        )
        assert set(change_types(appeared)) == {"insert"} and set(change_types(vanished)) == {"delete"}
        assert apply_feed(rows_of(None), appeared) == rows_of(state)
        assert not +apply_feed(rows_of(state), vanished)
    assert stateproc.changes(tiny, kitchen, "kitchen-string", "totals").to_arrow().num_rows == 0


def test_snapshots_of_other_jobs_and_older_ones_are_refused() -> None:
    tiny = opened("1.20", "tiny-hashmap-canonical-1024")
    with pytest.raises(InvalidOption, match="no operator in common: they are of different jobs"):
        stateproc.changes(tiny, chain()[0], "chain", "sum")
    members = chain()
    with pytest.raises(InvalidOption, match="is older than") as raised:
        stateproc.changes(members[3], members[2], "chain", "sum")
    assert raised.value.advice == "exchange them"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"uid": "nobody", "state": "sum"}, NotFound, "no operator"),
        ({"uid": "chain", "state": "summ"}, NotFound, "did you mean 'sum'?"),
        ({"uid": "chain"}, InvalidOption, "a change feed is one of a single state"),
        ({"uid": "chain", "state": "sum", "timers": "event"}, InvalidOption, "exclude each other"),
        ({"uid": "chain", "state": "sum", "mode": "all"}, InvalidOption, "option mode='all'"),
        ({"uid": "chain", "state": "sum", "list_changes": "some"}, InvalidOption, "option list_changes='some'"),
        ({"uid": "chain", "state": "sum", "starting_checkpoint": "x"}, InvalidOption, "such as 42 or chk-42"),
        ({"uid": "chain", "state": "sum", "ending_checkpoint": 0}, NotFound, "checkpoint 0 does not exist"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    with warnings.catch_warnings(), pytest.raises(error) as raised:
        stateproc.changes(str(CHAIN / "snapshot"), **arguments)
    assert says in str(raised.value)


def test_a_feed_is_shown_with_its_commits() -> None:
    feed = stateproc.changes(str(CHAIN / "snapshot"), uid="chain", state="sum", starting_checkpoint=6)
    assert repr(feed) == "<changes of state 'sum' of operator 'chain': 7 to 9>"
    html = feed._repr_html_()
    assert "_change_type" in html and "chk-7" in html
    assert pa.table(feed).equals(feed.to_arrow())
    assert feed.head(2).num_rows == 2
