"""Keys that get another type: entries of all states and timers move to the key groups of the new keys."""

from __future__ import annotations

import json
import math
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.cli import main
from stateproc.codec.arrow_arrays import row_bytes_of
from stateproc.errors import DuplicateKey, InvalidOption, InvalidRows, SnapshotError, UnsupportedSnapshot
from stateproc.flink_versions import DEFAULT
from stateproc.keygroups.key_group_assignment import key_groups
from stateproc.keygroups.key_group_assignment import key_hash_of as hash_of
from stateproc.serializers import LayoutContext, proxied_snapshot, read_snapshot
from stateproc.writers.key_collisions import STATE_ID, KeyCollisions, key_pairs
from stateproc.writers.rewrite.key_evolution import key_evolution, matched_key
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.type_changes import TypeChange
from tests.helpers.cases import case_snapshots
from tests.helpers.fixtures import CLASSES, Fixture
from tests.helpers.paths import VECTORS
from tests.helpers.writers.raw_copies import carried_batches
from tests.helpers.writers.row_edits import SWEPT, entries_of

READS_EVERY_MODE = False
PAIR = "Pojo acme.Pair {n: Long, s: String}"
EVENT, PROCESSING = "_timer_state/event_user-timers", "_timer_state/processing_user-timers"

# Type of keys, keys, new type, renamed fields, assignments, formula of hash codes, new keys.
EVOLVED: list[tuple[str, list[Any], str, dict[str, str], list[str], str | None, list[Any]]] = [
    ("Integer", [0, -1, -(2**31), 2**31 - 1], "Long", {}, [], None, [0, -1, -(2**31), 2**31 - 1]),
    ("Long", [-(2**31), 2**31 - 1], "Integer", {}, [], None, [-(2**31), 2**31 - 1]),
    ("Byte", [-128, 127], "Short", {}, [], None, [-128, 127]),
    ("Float", [-0.0, 0.0, math.inf, 1.5], "Double", {}, [], None, [-0.0, 0.0, math.inf, 1.5]),
    ("Long", [7, -(2**63)], "String", {}, ["key = CAST(key AS VARCHAR)"], None, ["7", "-9223372036854775808"]),
    ("String", ["", "käufer", "😀"], "Tuple2<String, Integer>", {}, ["key.f0 = key", "key.f1 = length(key)"], None,
     [{"f0": "", "f1": 0}, {"f0": "käufer", "f1": 6}, {"f0": "😀", "f1": 1}]),
    ("Tuple2<Integer, String>", [{"f0": 1, "f1": None}, {"f0": 1, "f1": ""}], "Tuple2<Long, String>", {}, [], None,
     [{"f0": 1, "f1": None}, {"f0": 1, "f1": ""}]),
    ("Tuple2<Integer, String>", [{"f0": 1, "f1": "a"}], "Row<Long, String>", {}, [], None, [{"f0": 1, "f1": "a"}]),
    ("Tuple2<Integer, String>", [{"f0": 1, "f1": "a"}, {"f0": 2, "f1": "a"}], "Integer", {}, ["key = key.f0"], None,
     [1, 2]),
    (PAIR, [{"n": 1, "s": "x"}, {"n": None, "s": None}],
     "Pojo acme.next.Pair {number: Long, region: String, s: String}", {"n": "number"}, ["key.region = 'EU'"],
     "Objects.hash:number,s,region",
     [{"number": 1, "region": "EU", "s": "x"}, {"number": None, "region": "EU", "s": None}]),
    (PAIR, [{"n": 1, "s": "x"}, {"n": 2, "s": "x"}], "Long", {}, ["key = key.n"], None, [1, 2]),
    ("Enum acme.State {NEW, PAID}", ["PAID", "NEW"], "String", {}, [], None, ["PAID", "NEW"]),
    ("ROW<f0 INT, f1 VARCHAR>", [{"f0": 1, "f1": "a long text"}, {"f0": None, "f1": None}],
     "ROW<f0 BIGINT, f1 VARCHAR, f2 VARCHAR>", {}, ["key.f2 = NULL"], None,
     [{"f0": 1, "f1": "a long text", "f2": None}, {"f0": None, "f1": None, "f2": None}]),
]  # fmt: skip


def written(folder: Path, key: str, keys: list[Any], max_parallelism: int = 300) -> str:
    """A savepoint of all kinds of state of these keys: the position of a key is its value."""
    type_ = types.parse(key)
    column = pa.array(keys, type_.layout(LayoutContext()).arrow_type)
    hashes = pa.array(range(len(keys)), pa.int32())
    n = range(len(keys))

    def rows(**columns: pa.Array) -> pa.Table:
        return pa.table({"key": column, "hash": hashes, **columns})

    known = hash_of(type_) is not None or key.startswith("ROW")
    given: dict[str, Any] = {} if known else {"hash_column": "hash"}
    state = OperatorBootstrap(key_type=type_, **given)
    state.value_state("value", rows(value=pa.array(n, pa.int64())))
    state.value_state("timed", rows(value=pa.array(n, pa.int64())), ttl=True)
    state.list_state("list", rows(value=pa.array([[i, i + 1] for i in n], pa.list_(pa.int64()))))
    maps = pa.array([[("a", i), ("b", None)] for i in n], pa.map_(pa.string(), pa.int64()))
    state.map_state("map", rows(value=maps))
    state.event_time_timers(rows(timestamp=pa.array([1000 - i for i in n], pa.int64())))
    state.processing_time_timers(rows(timestamp=pa.array([-i for i in n], pa.int64())))
    other = OperatorBootstrap(key_type=types.LONG)
    other.value_state("kept", pa.table({"key": pa.array(n, pa.int64()), "value": pa.array(n, pa.int64())}))
    writer = SavepointWriter.new_savepoint(None, max_parallelism=max_parallelism)
    return str(writer.with_operator("op", state).with_operator("other", other).write(folder))


def contents(path: str, state: str) -> list[tuple[Any, Any, int]]:
    """The keys of a state, what they have, and their key groups."""
    rows = stateproc.open(path, uids=["op"]).state("op", state).to_arrow().to_pylist()
    return [(row["key"], row.get("value", row.get("timestamp")), row["key_group"]) for row in rows]


@pytest.mark.parametrize(("key", "keys", "to", "rename", "assignments", "hash_function", "expected"), EVOLVED)
def test_all_states_and_timers_have_the_new_keys(
    key: str,
    keys: list[Any],
    to: str,
    rename: dict[str, str],
    assignments: list[str],
    hash_function: str | None,
    expected: list[Any],
    tmp_path: Path,
) -> None:
    source = written(tmp_path / "source", key, keys)
    writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": "op,other"})
    writer.evolve_key("op", to, rename=rename, assignments=assignments)
    if hash_function is not None:
        writer.with_hash_function("op", hash_function)
    target = str(writer.write(tmp_path / "target"))
    type_ = types.parse(to)
    layout = type_.layout(LayoutContext(projected=True))
    column = pa.array(expected, layout.arrow_type)
    groups = key_groups(column, layout.encode(column), type_, hash_of(type_, hash_function), None, 300).tolist()
    n = range(len(keys))
    values = {
        "value": [*n],
        "timed": [*n],
        "list": [[i, i + 1] for i in n],
        "map": [[("a", i), ("b", None)] for i in n],
        EVENT: [1000 - i for i in n],
        PROCESSING: [-i for i in n],
    }
    found = stateproc.open(target, uids=["op", "other"])
    as_stored = read_snapshot(proxied_snapshot(type_, DEFAULT)[4:])
    assert merged_header(found.operator("op")).key == as_stored
    for state, of_keys in values.items():
        wanted = list(zip(expected, of_keys, groups, strict=True))
        assert sorted(map(repr, contents(target, state))) == sorted(map(repr, wanted)), state
    before, after = (
        stateproc.open(path, uids=["op"]).state("op", "timed").to_arrow().sort_by("value") for path in (source, target)
    )
    assert after.column("last_access").equals(before.column("last_access"))
    other = stateproc.open(source, uids=["other"]).state("other", "kept").to_arrow()
    assert found.state("other", "kept").to_arrow().equals(other)


def test_other_operators_files_are_copied(tmp_path: Path) -> None:
    source = written(tmp_path / "source", "Integer", [1, 2])
    writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": "op,other"}).evolve_key("op", "Long")
    plan = writer.plan()
    lines = str(plan)
    assert "changed value value (key type Integer → Long, key: int32 → int64)" in lines
    assert f"changed timers {EVENT} (key type Integer → Long, key: int32 → int64)" in lines
    (other,) = [one for one in plan.operators if one.uid == "other"]
    assert (other.action.value, other.files_written) == ("carried over", 0)


MERGED: list[tuple[str, list[Any], str, list[str], str]] = [
    ("Tuple2<Integer, String>", [{"f0": 1, "f1": "a"}, {"f0": 1, "f1": "b"}], "Integer", ["key = key.f0"],
     r"the keys \{'f0': 1, 'f1': 'a'\} and \{'f0': 1, 'f1': 'b'\} become one key, 1 .*operator op"),
    ("Long", [2**53, 2**53 + 1], "Double", ["key = CAST(key AS DOUBLE)"],
     r"9007199254740992 and 9007199254740993 become one key, 9007199254740992\.0"),
    ("Double", [-0.0, 0.0], "Long", ["key = CAST(key AS BIGINT)"], r"keys -0\.0 and 0\.0 become one key, 0"),
    ("String", ["a", "A"], "String", ["key = lower(key)"], "keys 'A' and 'a' become one key, 'a'"),
    (PAIR, [{"n": 1, "s": "x"}, {"n": 1, "s": None}], "Tuple1<Long>", ["key.f0 = key.n"], r"one key, \{'f0': 1\}"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "keys", "to", "assignments", "message"), MERGED)
def test_keys_that_become_one_are_refused(
    key: str, keys: list[Any], to: str, assignments: list[str], message: str, tmp_path: Path
) -> None:
    source = written(tmp_path / "source", key, keys)
    writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": "op"})
    with pytest.raises(DuplicateKey, match=f"(?s){message}"):
        writer.evolve_key("op", to, assignments=assignments).write(tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_keys_that_become_one_are_found_where_no_entries_collide(tmp_path: Path) -> None:
    """One key has a map, the other a map of other keys and a timer: Flink would read one map."""
    keys = pa.array([1, 11], pa.int64())
    maps = pa.table({"key": keys, "value": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))})
    timers = pa.table({"key": keys, "timestamp": pa.array([5, 6], pa.int64())})
    for name, state in {
        "map": OperatorBootstrap(key_type=types.LONG).map_state("map", maps),
        "timers": OperatorBootstrap(key_type=types.LONG).event_time_timers(timers),
        "both": OperatorBootstrap(key_type=types.LONG).map_state("map", maps[:1]).event_time_timers(timers[1:]),
    }.items():
        source = str(SavepointWriter.new_savepoint(None).with_operator("op", state).write(tmp_path / name))
        writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": "op"})
        with pytest.raises(DuplicateKey, match="keys 1 and 11 become one key, 1"):
            writer.evolve_key("op", "Long", assignments="key = key % 10").write(tmp_path / f"{name}-target")


def test_one_key_in_many_batches_is_one_key() -> None:
    """Pairs come in any number of batches, among entries, and a key repeats."""
    check = KeyCollisions(types.LONG, types.INT, LayoutContext())

    def pairs(groups: list[int], new: list[int], old: list[int]) -> pa.RecordBatch:
        ints = row_bytes_of(pa.array([n.to_bytes(4, "big") for n in new], pa.large_binary()))
        longs = row_bytes_of(pa.array([n.to_bytes(8, "big") for n in old], pa.large_binary()))
        return key_pairs(pa.array(groups, pa.int32()), ints, longs)

    first = pairs([0, 0, 0, 1], [7, 7, 8, 7], [70, 70, 80, 71])
    assert first.column("state_id").to_pylist() == [STATE_ID] * 3
    entry = first.slice(0, 1).set_column(1, "state_id", pa.array([0], pa.int32()))
    kept = list(check.checked([first, entry, pairs([1], [7], [71]), entry]))
    assert [batch.column("state_id").to_pylist() for batch in kept] == [[0], [0]]
    mixed = pa.Table.from_batches([entry, pairs([1], [7], [71]), entry]).combine_chunks().to_batches()[0]
    assert sum(map(len, check.checked([first, mixed]))) == 2
    with pytest.raises(DuplicateKey, match="keys 71 and 72 become one key, 7"):
        list(check.checked([first, entry, pairs([1], [7], [72])]))
    assert np.array_equal(pickle.loads(pickle.dumps(check)).old, check.old)


@pytest.mark.parametrize(
    ("key", "expression", "is_certain"),
    [
        ("Long", "CAST(key AS VARCHAR)", True),
        ("Short", "'customer ' || key || '-x'", True),
        ("Integer", "'a' || (1 || key::TEXT)", True),
        ("Long", "key || key", False),
        ("Long", "upper('a' || key)", False),
        ("Long", "CAST(CAST(key AS DOUBLE) AS VARCHAR)", False),
        ("Long", "CAST(key AS VARCHAR) || NULL", False),
        ("Double", "CAST(key AS VARCHAR)", False),
        ("String", "'a' || key", False),
        ("Tuple2<Long, Long>", "CAST(key.f0 AS VARCHAR)", False),
        ("Tuple2<Long, Long>", "'a' || key.f0", False),
        ("Tuple2<Long, Long>", "'a' || key['f0']", False),
    ],
)
def test_texts_of_whole_numbers_stay_different(key: str, expression: str, is_certain: bool, tmp_path: Path) -> None:
    """Where it is certain that no two keys become one, entries do not bring their old keys along."""
    keys: list[Any] = {"Tuple2<Long, Long>": [{"f0": 1, "f1": 1}], "String": ["a"]}.get(key, [1])
    operator = stateproc.open(written(tmp_path / "source", key, keys), uids=["op"]).operator("op")
    header = merged_header(operator)
    change = TypeChange(types.STRING, {}, (f"key = {expression}",))
    found = matched_key(header.key, change, operator.context)
    assert found.is_one_to_one == is_certain
    made = key_evolution(header.keyed("value"), found, types.STRING, 300, operator.context)
    if "NULL" not in expression:
        ids = {
            one for batch in made.batches(carried_batches(operator, "value")) for one in batch["state_id"].to_pylist()
        }
        assert (STATE_ID in ids) != is_certain


REFUSED: list[tuple[str, str, dict[str, str], list[str], str]] = [
    ("Long", "String", {}, [], r"key, which is string and was int64.*--set 'key = CAST\(key AS VARCHAR\)'"),
    ("Long", "Integer", {}, ["key = key + 2147483648"], r"a key does not fit Integer.*row: key="),
    ("Long", "String", {}, ["key = NULL"], r"a key is not null.*row: key="),
    ("Long", "String", {}, ["value = 'x'"], r"no column 'value'.*there are: key"),
    ("Long", "String", {}, ["key = value"], r"no column 'value'"),
    ("Long", "Enum acme.State {NEW}", {}, ["key = 'NEW'"], r"Enum.*hashCode that does not follow.*enums are others"),
    ("Long", PAIR, {}, ["key.n = key", "key.s = ''"], r"Pojo Pair have a hashCode.*--hash-function 'Objects.hash'"),
    ("Long", "Tuple2<Long, String>", {}, ["key.f0 = key"], r"does not have: key\.f1.*--set 'key\.f1 = NULL'"),
    ("Tuple2<Long, String>", "Tuple1<Long>", {"f2": "f0"}, [], r"no field that can be renamed so 'f2'"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "to", "rename", "assignments", "message"), REFUSED)
def test_what_is_not_said_or_does_not_fit_is_refused(
    key: str, to: str, rename: dict[str, str], assignments: list[str], message: str, tmp_path: Path
) -> None:
    keys: list[Any] = [{"f0": 1, "f1": "a"}] if key.startswith("Tuple") else [1, 2]
    source = written(tmp_path / "source", key, keys)
    writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": "op"})
    writer.evolve_key("op", to, rename=rename, assignments=assignments)
    with pytest.raises(SnapshotError, match=f"(?s){message}"):
        writer.write(tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_numbers_that_do_not_fit_and_other_edits(tmp_path: Path) -> None:
    source = written(tmp_path / "source", "Long", [2**31, 1])

    def writer() -> SavepointWriter:
        return SavepointWriter.from_existing_savepoint(None, source, {"uids": "op"})

    with pytest.raises(InvalidRows, match=r"a key does not fit Integer.*row: key=2147483648"):
        writer().evolve_key("op", "Integer").write(tmp_path / "target")
    with pytest.raises(InvalidOption, match="type of keys is changed twice"):
        writer().evolve_key("op", "Integer").evolve_key("op", "Integer")
    with pytest.raises(InvalidOption, match="a state comes from a DataFrame"):
        writer().evolve_key("op", "Integer").transform_state("op", "value", lambda rows: rows).plan()
    # Rows, types of values and times of access, under their old keys; the name and the key groups.
    made = writer().delete_rows("op", "value", "key > 100").evolve_key("op", "Integer")
    for name in ("list", "map", "timed", EVENT, PROCESSING):
        made.drop_state("op", name)
    made.evolve_type("op", "value", "String", assignments="value = 'v' || value || ' of ' || key")
    made.enable_ttl("op", "value", 5).rename_state("op", "value", "later").with_max_parallelism(2)
    target = str(made.write(tmp_path / "target"))
    assert [row[:2] for row in contents(target, "later")] == [(1, "v1 of 1")]
    assert stateproc.open(target, uids=["op"]).state("op", "later").to_arrow().column("last_access").null_count == 0


def test_scala_hash_is_that_of_the_keys_at_the_source(tmp_path: Path) -> None:
    (one,) = [one for one in case_snapshots() if one.case == "hash-keys" and one.path.endswith("snapshot")]
    writer = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": ",".join(one.uids)})
    key = merged_header(stateproc.open(one.path, uids=list(one.uids)).operator("scala")).key
    assert key is not None
    plan = str(writer.evolve_key("scala", key).plan())
    assert "scala: keys are hashed by scala-2.12, which the key groups of all" in plan
    target = stateproc.open(writer.write(tmp_path / "target"), uids=["scala"])
    before = stateproc.open(one.path, uids=["scala"])
    for state in before.operator("scala").states:
        now, then = (sorted(map(repr, it.state("scala", state.name).to_arrow().to_pylist())) for it in (target, before))
        assert now == then


def test_columns_of_a_query_have_the_names_of_its_plan(tmp_path: Path) -> None:
    """Also of keys whose states have expressions of their own over them."""
    with tarfile.open(VECTORS / "wider-columns.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    source, plan = (str(tmp_path / "wider-columns" / name) for name in ("savepoint", "old.json"))
    uid = "40_group-aggregate"
    writer = SavepointWriter.from_existing_savepoint(None, source, {"plan": plan})
    to = "ROW<name VARCHAR, must BIGINT NOT NULL, price DECIMAL(10, 2)>"
    words = writer.evolve_key(uid, to, rename={"code": "name"}, assignments="key.must = key.must + 1").plan()
    assert "key.code renamed to name, key.must = key.must + 1" in str(words)
    writer.write(tmp_path / "target")
    old, new = (stateproc.open(path).operator(uid).states[0].to_arrow() for path in (source, tmp_path / "target"))
    before, after = ([row["key"] for row in table.to_pylist()] for table in (old, new))
    assert sorted(map(repr, after)) == sorted(repr({**key, "f1": key["f1"] + 1}) for key in before)
    assert new.schema.field("key").type.field("f1").type == pa.int64()


def test_an_unknown_hash_is_noted(tmp_path: Path) -> None:
    source = written(tmp_path / "source", "Long", [1, 2])
    writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": "op"}).with_hash_function(
        "op", "record:n,s"
    )
    writer.evolve_key("op", PAIR, assignments=["key.n = key", "key.s = NULL"])
    assert "keys of the new type are hashed by record:n,s, which no key of the snapshot confirms" in str(writer.plan())


@pytest.mark.parametrize("one", [one for one in SWEPT if one.manifest["job"] != "tiny"], ids=lambda one: one.name)
def test_the_same_type_gives_the_same_entries(one: Fixture) -> None:
    """Every kind of state and type of keys of every fixture, in the key groups in which Flink has them."""
    seen: set[tuple[object, ...]] = set()
    for operator in one.open(classes=CLASSES).operators:
        header = merged_header(operator)
        for name in header.names:
            state, source = header.keyed(name), list(carried_batches(operator, name))
            kind = (state.kind, state.key.type_name, state.namespace.type_name)
            if kind in seen or not sum(map(len, source)):
                continue
            seen.add(kind)
            try:
                found = matched_key(state.key, TypeChange(state.key, {}, ()), operator.context)
                groups = operator.max_parallelism
                made = key_evolution(state, found, state.key, groups, operator.context)
                after = pickle.loads(pickle.dumps(made)).batches(source)
                entries = [batch for batch in after if batch.column("state_id")[0].as_py() != STATE_ID]
            except (UnsupportedSnapshot, InvalidOption) as error:
                words = ("read only", "hashCode that does not follow", "no fixed length", "cannot be decoded")
                assert any(part in str(error) for part in words), (name, str(error))
                continue
            assert entries_of(entries) == entries_of(source), name


def test_what_cannot_follow_its_key_is_refused(tmp_path: Path) -> None:
    """Raw keyed state, namespaces of any length, values of Kryo that are converted, operators without keys."""

    def writer(case: str, uids: str) -> SavepointWriter:
        path = next(one.path for one in case_snapshots() if one.case == case)
        return SavepointWriter.from_existing_savepoint(None, path, {"uids": uids})

    with pytest.raises(UnsupportedSnapshot, match="raw keyed state that is no timers"):
        writer("raw-keyed", "raw").evolve_key("raw", "String", assignments="key = CAST(key AS VARCHAR)").plan()
    with pytest.raises(InvalidOption, match="no keyed state, so that it has no keys"):
        writer("evolved-types", "elements").evolve_key("elements", "Long")
    with pytest.raises(InvalidOption, match=r"keys get another type, and values of Kryo are converted for Flink 2\.3"):
        kryo = writer("kryo-upgrade", "keyed").with_flink_version("2.3")
        kryo.evolve_key("keyed", "String", assignments="key = CAST(key AS VARCHAR)").plan()
    opened = stateproc.open(written(tmp_path / "source", "Long", [1]), uids=["op"]).operator("op")
    state = replace(merged_header(opened).keyed("map"), namespace=types.STRING)
    change = TypeChange(types.INT, {}, ())
    found = matched_key(types.LONG, change, opened.context)
    assert key_evolution(state, found, types.INT, 300, opened.context)
    with pytest.raises(UnsupportedSnapshot, match="namespaces of the type String have no fixed length"):
        key_evolution(state, found, types.STRING, 300, opened.context)


def test_the_command_and_job_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = written(tmp_path / "source", "Integer", [3, -3])
    verb = ["evolve-type", source, str(tmp_path / "target"), "--uids", "op,other", "--uid", "op"]
    assert main([*verb, "--key", "--to", PAIR, "--set", "key.n = key", "--set", "key.s = 'x'"]) != 0
    assert "--hash-function 'Objects.hash'" in capsys.readouterr().err
    assert main([*verb, "--key", "--state", "value", "--to", "Long"]) != 0
    assert "both a state and the key" in capsys.readouterr().err
    assert main([*verb, "--to", "Long"]) != 0
    assert "neither a state nor the key" in capsys.readouterr().err
    assert main([*verb, "--state", "value", "--to", "String", "--hash-function", "record"]) != 0
    assert "one of keys" in capsys.readouterr().err
    hashed = ["--hash-function", "record:n,s", "--set", "key.n = key", "--set", "key.s = 'x'"]
    assert main([*verb, "--key", "--to", PAIR, *hashed, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert any("record:n,s, which no key of the snapshot confirms" in note for note in report["notes"])
    keys = [{"n": -3, "s": "x"}, {"n": 3, "s": "x"}]
    assert sorted((row[0] for row in contents(str(tmp_path / "target"), "map")), key=lambda key: key["n"]) == keys
    job = tmp_path / "job.yaml"
    change = {"uid": "op", "key": True, "to": "Long"}
    description = {
        "job": "longer-keys",
        "base": {"path": source},
        "changes": [{"evolve-type": change}],
        "target": {"path": str(tmp_path / "run")},
    }
    job.write_text(json.dumps(description), encoding="utf-8")
    assert main(["run", str(job)]) == 0
    assert sorted(row[0] for row in contents(str(tmp_path / "run"), EVENT)) == [-3, 3]
