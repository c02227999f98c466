"""`upgrade --scala flink-scala-api` makes of states of Flink's Scala API those of flink-scala-api 2.x.

tests/vectors/scala-api.tar.xz: a savepoint of a job with Flink 1.20.3 and flink-scala_2.12, and the one that the same
job with Flink 2.3.0 and flink-scala-api 2.2.4 (Scala 2.13) took after it restored what `upgrade` wrote of the first,
under hashmap, which writes every value anew. It found all values of the first job equal, under both backends.
"""

from __future__ import annotations

import pickle
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import stateproc
from stateproc import CorruptSnapshot, InvalidOption, OperatorBootstrap, SavepointWriter, UnsupportedSnapshot, types
from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.layouts import SingletonValue
from stateproc.codec.machine import ValueDecoder
from stateproc.flink_versions import release
from stateproc.keygroups.class_hashes import SCALA_2_12, SCALA_2_13, class_hashes
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.flinkx.case_classes import FlinkxCaseClass
from stateproc.serializers.flinkx.scala_api import migrated
from stateproc.serializers.java.collections import ListOf
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.scala import UNIT, TryOf
from stateproc.writers.rewrite.kryo_conversion import conversion_context
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.raw_copy import carried_splits
from tests.helpers.paths import VECTORS

UIDS = ["values", "users", "tuples", "elements"]
ORDER = types.CaseClass("com.acme.Order", types.STRING, types.LONG)
CONTEXT = conversion_context(LayoutContext(kryo=2), release("2.3"))


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scala-api")
    with tarfile.open(VECTORS / "scala-api.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def upgraded(savepoints: Path) -> Path:
    writer_of(savepoints).write(savepoints / "upgraded")
    return savepoints / "upgraded"


def test_a_job_may_have_pojos_and_tuples_instead(savepoints: Path, tmp_path: Path) -> None:
    """What the advice says: evolve-type, then upgrade. Real Flink 2.3 found these values under both backends."""
    path = str(savepoints / "flink-1.20")
    states = [state.name for state in stateproc.open(path, uids=UIDS).operator("values").keyed_states]
    writers = [SavepointWriter.from_existing_savepoint(None, path, {"uids": UIDS}) for _ in range(2)]
    for writer in writers:
        for uid in UIDS[1:]:
            writer.remove_operator(uid)
        for name in {*states} - {"order", "tuple"}:
            writer.drop_state("values", name)
    first, refused = writers
    with pytest.raises(UnsupportedSnapshot) as caught:
        refused.with_flink_version("2.3").plan()
    assert "a POJO or tuple (stateproc evolve-type --to)" in str(caught.value.advice)
    order = "Pojo com.acme.Bought {id: String, amount: Long}"
    first.evolve_type("values", "order", order, rename={"_1": "id", "_2": "amount"})
    first.evolve_type("values", "tuple", "Tuple2<String, Integer>", rename={"_1": "f0", "_2": "f1"})
    evolved = first.write(tmp_path / "evolved")
    again = SavepointWriter.from_existing_savepoint(None, str(evolved), {"uids": "values"}).with_flink_version("2.3")
    upgraded = stateproc.open(again.write(tmp_path / "upgraded"), uids="values")
    assert upgraded.check(flink_version="2.3").restores
    rows = {name: upgraded.operator("values").state(name).to_arrow().to_pylist() for name in ("order", "tuple")}
    assert {row["key"]: row["value"] for row in rows["order"]}[3] == {"id": "o3", "amount": 300}
    assert {row["key"]: row["value"] for row in rows["tuple"]}[4] == {"f0": "a4", "f1": 4}


def writer_of(savepoints: Path) -> SavepointWriter:
    writer = SavepointWriter.from_existing_savepoint(None, str(savepoints / "flink-1.20"), {"uids": UIDS})
    return writer.with_flink_version("2.3").with_scala_types("flink-scala-api")


def entries(path: Path, uid: str) -> dict[str, list[tuple[int, bytes, bytes]]]:
    """Key groups, keys and values of all keyed states and timers."""
    operator = stateproc.open(str(path), uids=UIDS).operator(uid)
    found: dict[str, list[tuple[int, bytes, bytes]]] = {}
    for name in merged_header(operator).names:
        batches = [batch for split in carried_splits(operator, name, 0) for batch in split.read()]
        rows = [row for batch in batches for row in batch.select(["key_group", "key", "value"]).to_pylist()]
        found[name] = sorted((row["key_group"], row["key"], row["value"] or b"") for row in rows)
    return found


@pytest.mark.parametrize("uid", ["values", "users", "tuples"])
def test_entries_are_those_that_flink_2_writes(uid: str, savepoints: Path, upgraded: Path) -> None:
    ours, theirs = entries(upgraded, uid), entries(savepoints / "flink-2.3", uid)
    ttl = {"order-ttl"} & ours.keys()
    assert len(ours) >= 2 and sum(map(len, ours.values())) >= 10
    for name, rows in ours.items():
        # Timers fired in the job that restored.
        if not name.startswith("_timer_state") and name not in ttl:
            assert rows == theirs[name], name
    for name in ttl:
        assert [row[2][8:] for row in ours[name]] == [row[2][8:] for row in theirs[name]]


def test_timers_and_operator_state(savepoints: Path, upgraded: Path) -> None:
    old, new = (stateproc.open(str(path), uids=UIDS) for path in (savepoints / "flink-1.20", upgraded))
    timers = "_timer_state/event_user-timers"
    before, after = entries(savepoints / "flink-1.20", "users")[timers], entries(upgraded, "users")[timers]
    counts = {key[4:]: group for group, key, _ in entries(upgraded, "users")["count"]}
    # A timer: i64 timestamp, key, namespace; the new keys begin with the number of fields.
    assert sorted(key[:8] + b"\0\0\0\2" + key[8:] for _, key, _ in before) == sorted(key for _, key, _ in after)
    assert [counts[key[12:]] for _, key, _ in after] == [group for group, _, _ in after] and len(after) == 5
    for name, elements in {"list": 5, "union": 5, "broadcast": 5}.items():
        rows = [snapshot.operator("elements").operator_state(name).to_arrow().to_pylist() for snapshot in (old, new)]
        assert rows[0] == rows[1] and len(rows[0]) == elements


def test_the_plan_says_what_becomes_of_each_state(savepoints: Path) -> None:
    plan = writer_of(savepoints).plan()
    reasons = {(item.uid, state.name): state.reasons for item in plan.operators for state in item.states}
    values = "values of Flink's Scala API written as flink-scala-api"
    assert reasons["values", "order"] == reasons["elements", "broadcast"] == (values,)
    assert reasons["values", "option-text"] == reasons["values", "either-text"] == ("serializers of flink-scala-api",)
    assert reasons["users", "count"] == ("keys of Flink's Scala API written as flink-scala-api",)
    assert reasons["values", "by-tuple"] == ("keys and values of Flink's Scala API written as flink-scala-api",)
    assert reasons["values", "_timer_state/event_user-timers"] == ("entries copied",)
    assert sum("hash codes in Scala 2.13" in note for note in plan.notes) == 2


def test_check_compares_with_the_job_of_flink_2(savepoints: Path, upgraded: Path) -> None:
    new, like = (stateproc.open(str(path), uids=UIDS) for path in (upgraded, savepoints / "flink-2.3"))
    assert new.check(flink_version="2.3").restores
    assert new.check(flink_version="2.3", like=like).restores
    old = stateproc.open(str(savepoints / "flink-1.20"), uids=UIDS)
    assert not old.check(flink_version="2.3", like=like).restores
    same = old.check(flink_version="2.3")
    fixes = {one.fix for operator in same.operators for one in (operator, *operator.states) if not one.is_right}
    assert not same.restores and {"--scala flink-scala-api" in str(fix) for fix in fixes} == {True}, fixes


def test_without_the_option_and_for_flink_1_it_is_refused(savepoints: Path, tmp_path: Path) -> None:
    path = str(savepoints / "flink-1.20")
    writer = SavepointWriter.from_existing_savepoint(None, path, {"uids": UIDS}).with_flink_version("2.3")
    with pytest.raises(UnsupportedSnapshot, match=r"of Flink's Scala API, which Flink 2\.3 does not have") as caught:
        writer.write(tmp_path / "without")
    assert "--scala flink-scala-api" in str(caught.value.advice) and not (tmp_path / "without").exists()
    assert writer.with_scala_types("flink-scala-api").plan()  # the same writer, after it refused
    with pytest.raises(InvalidOption, match=r"flink-scala-api for Flink 1\.20"):
        writer.with_flink_version("1.20").plan()
    with pytest.raises(InvalidOption, match="types of Scala of 'chill'"):
        writer.with_scala_types("chill")  # type: ignore[arg-type]


@cache
def converter(old: Serializer) -> Callable[[bytes], bytes]:
    layout = pickle.loads(pickle.dumps(migrated(old, CONTEXT))).layout(CONTEXT)
    decoder = ValueDecoder(layout)

    def convert(data: bytes) -> bytes:
        found = decoder.decode(np.frombuffer(data, np.uint8), np.array([0]), np.array([len(data)]))
        return bytes(layout.encode(found).data)

    return convert


def traversable(kind: str, element: Serializer) -> Serializer:
    return ListOf(
        "Traversable", element, 0, component=f"implicitly[scala.collection.generic.CanBuildFrom[{kind}[X], X]]"
    )


TEXT, NUMBER, COUNT = b"\2a", b"\0" * 7 + b"\5", b"\0\0\0\2"
NULL_ORDER = b"\x80\0\0\0"


@pytest.mark.parametrize(
    ("old", "data", "expected"),
    [
        (ORDER, TEXT + NUMBER, COUNT + TEXT + NUMBER),
        # A null text stays a null text, and Some(null) what it is.
        (ORDER, b"\0" + NUMBER, COUNT + b"\0" + NUMBER),
        (types.CaseClass("A", types.Option(types.STRING)), b"\1\0", b"\0\0\0\1\1\0"),
        (types.CaseClass("A", types.Option(types.Option(types.STRING))), b"\1\0", b"\0\0\0\1\1\0"),
        (types.CaseClass("A"), b"", b"\0\0\0\0"),
        (traversable("List", types.STRING), b"\0\0\0\0", b"\0\0\0\0"),
        (traversable("List", types.STRING), b"\0\0\0\2\1\2a\1\1", b"\0\0\0\2\2a\1"),
        (traversable("Seq", ORDER), b"\0\0\0\2\0\1" + TEXT + NUMBER, b"\0\0\0\2" + NULL_ORDER + COUNT + TEXT + NUMBER),
        (
            traversable("Map", types.CaseClass("scala.Tuple2", types.STRING, types.STRING)),
            b"\0\0\0\1\1\2k\0",
            b"\0\0\0\1\2k\0",
        ),
        (traversable("Map", types.CaseClass("scala.Tuple2", types.STRING, ORDER)), b"\0\0\0\0", b"\0\0\0\0"),
        (types.CaseClass("A", UNIT, types.BOOLEAN), b"\0\1", COUNT + b"\1"),
        (types.Option(UNIT), b"\1\0", b"\1"),
        (types.Option(UNIT), b"\0", b"\0"),
        (types.Either(ORDER, types.LONG, scala=True), b"\1" + TEXT + NUMBER, b"\1" + COUNT + TEXT + NUMBER),
        # Left(null): which side it is does not depend on what is in it.
        (types.Either(types.STRING, ORDER, scala=True), b"\1\0", b"\1\0"),
        (types.Either(types.STRING, ORDER, scala=True), b"\0" + TEXT + NUMBER, b"\0" + COUNT + TEXT + NUMBER),
        (types.Tuple(ORDER, types.LONG), TEXT + NUMBER + NUMBER, COUNT + TEXT + NUMBER + NUMBER),
    ],
)
def test_bytes(old: Serializer, data: bytes, expected: bytes) -> None:
    assert converter(old)(data) == expected


def test_a_null_among_items_that_have_none_is_refused() -> None:
    with pytest.raises(Unencodable, match="an item of a collection of flink-scala-api"):
        converter(traversable("List", types.LONG))(b"\0\0\0\1\0")


@pytest.mark.parametrize(
    ("old", "reason"),
    [
        (types.ScalaEnum("com.acme.Color", {"RED": 0}), "the Enumeration com.acme.Color"),
        (TryOf(types.LONG, Kryo("java.lang.Throwable")), "Try"),
        (traversable("scala.collection.mutable.LinkedList", types.LONG), "'scala.collection.mutable.LinkedList'"),
        (traversable("Map", types.LONG), r"the collection Map\[Long\]"),
        (types.Option(types.Option(ORDER)), "both the value and what is in it may be null"),
        (traversable("List", types.Option(ORDER)), "both the value and what is in it may be null"),
        (types.CaseClass("A", Kryo("java.util.UUID")), "UUID left to Kryo"),
        (types.CaseClass("A", Kryo("java.time.LocalDate")), "LocalDate left to Kryo"),
        (types.CaseClass("A", Kryo("scala.concurrent.duration.FiniteDuration")), "FiniteDuration left to Kryo"),
        (types.Either(types.LONG, types.Option(ORDER), scala=True), "both the value and what is in it may be null"),
    ],
)
def test_what_has_no_counterpart_is_refused(old: Serializer, reason: str) -> None:
    with pytest.raises(UnsupportedSnapshot, match=reason) as caught:
        migrated(old, CONTEXT)
    assert "transform_state" in str(caught.value.advice)


def test_types_of_other_apis_stay() -> None:
    for serializer in (
        types.Array(types.LONG),
        types.Either(types.LONG, types.STRING),
        types.List(types.STRING),
        types.LONG,
    ):
        assert migrated(serializer, CONTEXT) is serializer


def test_names_of_collections() -> None:
    kinds = {
        "List": "List",
        "scala.collection.immutable.List": "List",
        "scala.collection.Seq": "Seq",
        "scala.collection.immutable.Vector": "Vector",
        "scala.collection.mutable.Buffer": "MutableBuffer",
        "scala.collection.immutable.Map": "Map",
    }
    pair = types.CaseClass("scala.Tuple2", types.LONG, types.LONG)
    found = {kind: migrated(traversable(kind, pair), CONTEXT).type_name.partition("[")[0] for kind in kinds}
    assert found == kinds


def keyed(folder: Path, key: Serializer, keys: list[Any], hashes: list[int], groups: int = 16) -> SavepointWriter:
    """A savepoint by Flink 1.20 with keys of a type, to be upgraded; ``hashes``: their hash codes at the old job."""
    column = pa.array(keys, key.layout(LayoutContext()).arrow_type)
    rows = pa.table({"key": column, "hash": pa.array(hashes, pa.int32()), "value": pa.array(range(len(keys)))})
    state = OperatorBootstrap(key_type=key, hash_column="hash").value_state("count", rows, "value", type=types.LONG)
    path = SavepointWriter.new_savepoint(None, groups).with_operator("op", state).write(folder / "old")
    writer = SavepointWriter.from_existing_savepoint(None, path, {"uids": "op"})
    return writer.with_flink_version("2.3").with_scala_types("flink-scala-api")


def test_keys_of_which_the_hash_in_scala_2_13_is_not_known_are_refused(tmp_path: Path) -> None:
    keys = [{"_1": f"key {number}", "_2": number} for number in range(20)]
    writer = keyed(tmp_path / "own", ORDER, keys, list(range(20)))
    with pytest.raises(UnsupportedSnapshot, match=r"get other key groups in Scala 2\.13") as caught:
        writer.plan()
    assert "with_hash_function" in str(caught.value.advice)
    options = keyed(tmp_path / "option", types.Option(types.LONG), [1, 2], [1, 2])
    with pytest.raises(UnsupportedSnapshot, match=r"keys of the type Option.*key groups in Scala 2\.13 are not known"):
        options.plan()


def test_keys_of_a_class_with_a_hash_code_of_its_own_keep_their_key_groups(tmp_path: Path) -> None:
    keys = [{"_1": f"key {number}", "_2": number} for number in range(20)]
    writer = keyed(tmp_path, ORDER, keys, list(range(20)))
    path = writer.with_hash_function("op", lambda keys: keys.field(1).cast(pa.int32())).write(tmp_path / "new")
    found = [stateproc.open(str(one), uids=["op"]).state("op", "count").to_arrow() for one in (tmp_path / "old", path)]
    assert [(row["key_group"], row["value"]) for row in found[0].to_pylist()] == [
        (row["key_group"], row["value"]) for row in found[1].to_pylist()
    ]
    assert found[1].num_rows == 20


def test_a_hash_function_that_is_not_that_of_the_key_groups_is_an_error(tmp_path: Path) -> None:
    keys = [{"_1": f"key {number}", "_2": number} for number in range(20)]
    writer = keyed(tmp_path, ORDER, keys, list(range(20)))
    writer.with_hash_function("op", lambda keys: keys.field(1).cast(pa.int32()).take(list(range(len(keys)))[::-1]))
    with pytest.raises((InvalidOption, CorruptSnapshot), match="key group"):
        writer.write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("named", "max_parallelism"), [(None, 1024), ("scala", 16), ("scala-2.12", 16), ("scala-2.13", 1024)]
)
def test_the_hash_codes_of_scala_may_be_named(named: str | None, max_parallelism: int, tmp_path: Path) -> None:
    keys = [{"_1": f"key {number}", "_2": number} for number in range(20)]
    old, new = (class_hashes(ORDER, name, LayoutContext())[0] for name in (SCALA_2_12, SCALA_2_13))
    column = pa.array(keys, ORDER.layout(LayoutContext()).arrow_type)
    writer = keyed(tmp_path, ORDER, keys, old.codes(column).tolist(), max_parallelism)
    if named is not None:
        writer.with_hash_function("op", named)
    found = stateproc.open(writer.write(tmp_path / "new"), uids=["op"]).state("op", "count").to_arrow()
    order = pa.compute.sort_indices(found.column("value"))
    groups = [key_group_of_hash(int(code), max_parallelism) for code in new.codes(column)]
    assert found.column("key_group").take(order).to_pylist() == groups


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("com.acme.Order", "Order"), ("com.acme.Job$Order", "Order"), ("com.acme.Job$Order$1", "Order"),
        ("com.acme.Job$$anonfun$1$Order$2", "Order"), ("com.acme.A$plusB", "A+B"), ("scala.Tuple2$mcIJ$sp", "Tuple2"),
        ("com.acme.$colon$colon", "::"),
    ],
)  # fmt: skip
def test_names_of_classes_in_their_hash_codes(name: str, prefix: str) -> None:
    assert class_hashes(types.CaseClass(name, types.LONG), SCALA_2_13, LayoutContext())[0].prefix == prefix


def test_a_state_of_rows_and_types_of_scala_need_a_write_each(savepoints: Path) -> None:
    rows = writer_of(savepoints).transform_state("values", "option-text", lambda table: table, value_type=types.STRING)
    with pytest.raises(InvalidOption, match="written from rows, and types of Flink's Scala API are converted"):
        rows.plan()


def test_keys_of_scala_are_refused_whichever_states_are_gone(savepoints: Path) -> None:
    path = str(savepoints / "flink-1.20")
    writer = SavepointWriter.from_existing_savepoint(None, path, {"uids": UIDS}).with_flink_version("2.3")
    for uid in ("values", "tuples", "elements"):
        writer.remove_operator(uid)
    for state in stateproc.open(path, uids=UIDS).operator("users").keyed_states:
        if not state.name.startswith("_timer_state"):
            writer.drop_state("users", state.name)
    with pytest.raises(UnsupportedSnapshot, match="keys of Flink's Scala API") as caught:
        writer.plan()
    assert "remove_operator" in str(caught.value.advice)


def test_a_part_without_bytes_makes_the_length_of_a_case_class_unknown() -> None:
    """TupleSerializerBase: a null is then followed by nothing."""
    unit = Scalar("Unit", "Unit", SingletonValue(0), 0, "org.apache.flinkx.api.serializer.UnitSerializerSnapshot")
    fixed, open_ = (FlinkxCaseClass("A", fields, immutable=False) for fields in ((types.LONG,), (unit, types.LONG)))
    assert (fixed.length, open_.length, FlinkxCaseClass("A", (), immutable=False).length) == (12, -1, 4)
    null = pa.nulls(1, open_.layout(CONTEXT).arrow_type)
    assert open_.layout(CONTEXT).encode(null).data.tobytes() == b"\x80\0\0\0"


def units(folder: Path, *, ttl: bool) -> SavepointWriter:
    """A writer for Flink 2.3 of a list state with elements of Unit."""
    rows = pa.table({"key": [1, 2], "value": pa.array([[True], [True] * 3], pa.list_(pa.bool_()))})
    operator = OperatorBootstrap(key_type=types.LONG).list_state("units", rows, element_type=UNIT, ttl=ttl)
    made = SavepointWriter.new_savepoint(None, 128).with_flink_version("1.20").with_operator("op", operator)
    again = SavepointWriter.from_existing_savepoint(None, str(made.write(folder / "units")), {"uids": "op"})
    return again.with_flink_version("2.3").with_scala_types("flink-scala-api")


def test_a_list_of_elements_without_bytes_goes_on_with_their_times(tmp_path: Path) -> None:
    units(tmp_path, ttl=True).write(tmp_path / "upgraded")
    operator = stateproc.open(str(tmp_path / "upgraded"), uids="op").operator("op")
    state = operator.state("units")
    assert {row["key"]: len(row["value"]) for row in state.to_arrow().to_pylist()} == {1: 1, 2: 3}
    batches = [batch for split in carried_splits(operator, "units", 0) for batch in split.read()]
    # Of each element i64 time, and the comma between two.
    assert sorted(len(value) for batch in batches for value in batch.column("value").to_pylist()) == [8, 26]


def test_a_list_of_elements_without_bytes_is_refused_without_times(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedSnapshot, match="have no bytes in flink-scala-api"):
        units(tmp_path, ttl=False).plan()
